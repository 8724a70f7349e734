package hostile

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	run  = flag.Bool("hostile", false, "run the attacks, which takes some minutes")
	only = flag.String("attacks", "", "run only attacks whose name matches this regular expression")
)

const (
	// honest is how many clusters are beside the attacked one.
	honest = 9
	// mostMemory is how much of the memory without an attack the manager may have under one, and mostDelay how long a step of an honest
	// cluster may take.
	mostMemory = 1.3
	mostDelay  = 2 * time.Second
	// A busy host may cost a little more: only what shows that nothing holds fails the test. Without bounds an attack takes twenty times the
	// memory, and steps stop.
	broken = 2.0
	stuck  = 20 * time.Second
	// patience is how long it is waited for what must come.
	patience = 20 * time.Second
	// quietRounds is how many rounds of steps are taken without an attack.
	quietRounds = 4
	// atOnce is how many steps are taken at the same time.
	atOnce = 3
	// perMinute bounds what a cluster answers in a minute: with the default of 512Mi the attack with watch events takes half a minute.
	perMinute = "--managed-cluster-bytes-per-minute=128Mi"
)

// TestHostile runs the manager against each attack, beside nine honest clusters. An attack is held when the manager lives, has little more
// memory than without it, takes the steps of the honest clusters in time, and says of the attacked one what is wrong, in its own words.
func TestHostile(t *testing.T) {
	if !*run || os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("the attacks take some minutes: make hostile runs them")
	}
	chosen := regexp.MustCompile(*only)
	var reached atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		http.Error(w, Secret, http.StatusForbidden)
	}))
	defer inside.Close()
	w := newWorld(t)
	r := &rounds{world: w}
	for i := range honest {
		r.good = append(r.good, w.start(fmt.Sprintf("honest%d", i), Attack{}))
	}
	quiet := r.quiet()

	p := w.run(perMinute)
	r.settle(p)
	tried, held := 0, 0
	most, worst := int64(0), time.Duration(0)
	all := append(append(APIAttacks(inside.URL), WatchAttacks()...), EtcdAttacks()...)
	for i, a := range all {
		if !chosen.MatchString(a.Name) {
			continue
		}
		tried++
		was := reached.Load()
		found := r.attack(p, fmt.Sprintf("attacked%d", i), a, quiet)
		if reached.Load() != was {
			found.wrong = append(found.wrong, "a service inside was asked")
		}
		most, worst = max(most, found.peak), max(worst, found.delay)
		verdict := "held"
		if len(found.wrong) > 0 {
			verdict = "NOT HELD: " + strings.Join(found.wrong, "; ")
			t.Errorf("%s: %s", a.Name, verdict)
		} else {
			held++
		}
		fmt.Printf("  %-48s %5.0f MiB  %4.2f s  %s\n", a.Name, mib(found.peak), found.delay.Seconds(), verdict)
		if !p.lives() {
			fmt.Printf("%s\n", p.log.String()[max(0, p.log.Len()-4000):])
			p = w.run(perMinute)
			r.settle(p)
		}
	}
	fmt.Printf("peak memory %.0f MiB, without an attack %.0f MiB: %.2f, at most %.1f\n", mib(most), mib(quiet.peak),
		float64(most)/float64(quiet.peak), mostMemory)
	fmt.Printf("worst delay of a step of an honest cluster %.2f s, without an attack %.2f s, at most %.0f s\n", worst.Seconds(),
		quiet.delay.Seconds(), mostDelay.Seconds())
	fmt.Printf("attacks %d held %d\n", tried, held)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// start starts a cluster on an address of its own, and makes its objects.
func (w *world) start(name string, a Attack) *Cluster {
	w.t.Helper()
	address.last++
	c, err := Start(name, net.IPv4(127, 77, byte(address.last>>8), byte(address.last)).To4(), w.ca, a)
	must(w.t, err)
	w.t.Cleanup(c.Stop)
	w.make(c)
	return c
}

// address is what the next cluster gets.
var address struct{ last int }

// rounds are rounds of steps of the honest clusters.
type rounds struct {
	*world
	good []*Cluster
}

// outcome is what a round came to.
type outcome struct {
	peak  int64
	delay time.Duration
	wrong []string
}

// settle waits until the manager says of each honest cluster that all is as wanted.
func (r *rounds) settle(p *process) {
	r.t.Helper()
	for _, c := range r.good {
		if !until(2*patience, func() bool { return !p.lives() || r.reason(c) == "AsWanted" }) || !p.lives() {
			r.t.Fatalf("%s does not settle:\n%s\n%s", c.Name, r.says(c), p.log)
		}
	}
}

// reason is that of a control plane's plan for the generation that there is.
func (r *rounds) reason(c *Cluster) string {
	plane := r.plane(c)
	status, _ := plane.Object["status"].(map[string]any)
	plan, _ := status["plan"].(map[string]any)
	if seen, _ := status["observedGeneration"].(int64); seen != plane.GetGeneration() {
		return ""
	}
	reason, _ := plan["reason"].(string)
	return reason
}

// message is that of a control plane's plan.
func (r *rounds) message(c *Cluster) string {
	r.t.Helper()
	status, _ := r.plane(c).Object["status"].(map[string]any)
	plan, _ := status["plan"].(map[string]any)
	message, _ := plan["message"].(string)
	return message
}

// quiet measures the manager without an attack: ten honest clusters.
func (r *rounds) quiet() outcome {
	r.t.Helper()
	tenth := r.start("tenth", Attack{})
	defer tenth.Stop()
	p := r.run(perMinute)
	defer p.stop()
	r.settle(p)
	var found outcome
	for range quietRounds {
		found.delay = max(found.delay, r.steps(nil))
	}
	found.peak = p.peak()
	r.drop(tenth)
	return found
}

// attack starts an attacked cluster, and judges what the manager makes of it.
func (r *rounds) attack(p *process, name string, a Attack, quiet outcome) outcome {
	r.t.Helper()
	p.forget()
	c := r.start(name, a)
	defer c.Stop()
	said := make(chan string, 1)
	stop := make(chan struct{})
	go func() {
		text := ""
		until(patience, func() bool {
			select {
			case <-stop:
				return true
			default:
			}
			text = r.says(c)
			return a.Says != "" && strings.Contains(text, a.Says)
		})
		said <- text
	}()
	found := outcome{delay: r.steps(p)}
	if a.Says == "" {
		close(stop)
	}
	text := <-said
	found.peak = 0
	if !p.lives() {
		found.wrong = append(found.wrong, "the manager has ended")
		return found
	}
	found.peak = p.peak()
	text += r.says(c)
	for what, is := range map[string]bool{
		fmt.Sprintf("the status does not say %q, but %q", a.Says, r.message(c)):               a.Says != "" && !strings.Contains(text, a.Says),
		"the status has words of the cluster that are a secret":                               strings.Contains(text, Secret),
		"the status has control characters":                                                   strings.ContainsAny(text, "\x1b\x07\u202e"),
		fmt.Sprintf("the status has %d bytes", len(text)/2):                                   len(text)/2 > 16<<10,
		fmt.Sprintf("%.0f MiB, without an attack %.0f MiB", mib(found.peak), mib(quiet.peak)): float64(found.peak) > broken*float64(quiet.peak),
		fmt.Sprintf("a step of an honest cluster took %.2f s", found.delay.Seconds()):         found.delay > stuck,
		"the log has words of the cluster that are a secret":                                  strings.Contains(p.log.String(), Secret),
	} {
		if is {
			found.wrong = append(found.wrong, what)
		}
	}
	r.drop(c)
	return found
}

// steps takes a step of each honest control plane, few at a time, and returns the longest time that the manager took for one.
func (r *rounds) steps(p *process) time.Duration {
	r.t.Helper()
	var worst time.Duration
	var mu sync.Mutex
	var all sync.WaitGroup
	for line := range atOnce {
		all.Go(func() {
			for i := line; i < len(r.good) && (p == nil || p.lives()); i += atOnce {
				took := r.step(r.good[i])
				mu.Lock()
				worst = max(worst, took)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return worst
}

// step makes a control plane larger by two machines, and returns how long the manager took for it. The machines are taken away again.
func (r *rounds) step(c *Cluster) time.Duration {
	r.t.Helper()
	r.scale(c, 3)
	begun := time.Now()
	if !until(patience, func() bool { return len(r.made(c)) == 3 }) {
		r.t.Errorf("%s does not grow: %s", c.Name, r.message(c))
	}
	took := time.Since(begun)
	r.scale(c, 1)
	r.bury(c)
	return took
}

func (r *rounds) scale(c *Cluster, replicas int) {
	r.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	must(r.t, r.client.Patch(r.t.Context(), r.plane(c), patch))
}

// made are the Machines of a cluster.
func (r *rounds) made(c *Cluster) []clusterv1.Machine {
	r.t.Helper()
	var all clusterv1.MachineList
	must(r.t, r.machines.List(r.t.Context(), &all, client.InNamespace(c.Name)))
	return all.Items
}

// bury ends all Machines but the first, as a person and Cluster API's controllers would, and waits until the manager has seen that.
func (r *rounds) bury(c *Cluster) {
	r.t.Helper()
	ended := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	ok := until(patience, func() bool {
		all := r.made(c)
		for _, m := range all {
			if m.Name != c.Node() {
				must(r.t, client.IgnoreNotFound(r.client.Delete(r.t.Context(), &m)))
				must(r.t, client.IgnoreNotFound(r.client.Patch(r.t.Context(), &m, ended)))
			}
		}
		return len(all) == 1 && r.reason(c) == "AsWanted"
	})
	if !ok {
		r.t.Errorf("%s does not come to rest: %s", c.Name, r.message(c))
	}
}
