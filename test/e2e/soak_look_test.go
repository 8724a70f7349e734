//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/soak/history"
	"github.com/quorate/quorate/test/soak/schedule"
)

// plane returns a client of the management plane, which may be away.
func (s *soakRun) plane() (client.WithWatch, error) {
	text, err := s.try("kubeconfig", "--management")
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Timeout = -1, 10*time.Second
	return client.NewWithWatch(cfg, client.Options{Scheme: manager.Scheme()})
}

// api returns a client of the cluster.
func (s *soakRun) api() (kubernetes.Interface, error) {
	text, err := s.try("kubeconfig", soakName)
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Timeout = -1, 10*time.Second
	return kubernetes.NewForConfig(cfg)
}

// wanted reads the control plane.
func (s *soakRun) wanted(c client.Client) (*controlplanev1.KubeadmControlPlane, error) {
	var all controlplanev1.KubeadmControlPlaneList
	if err := c.List(context.Background(), &all, client.MatchingLabels{clusterv1.ClusterNameLabel: soakName}); err != nil {
		return nil, err
	}
	if len(all.Items) != 1 {
		return nil, fmt.Errorf("%d control planes, want 1", len(all.Items))
	}
	return &all.Items[0], nil
}

// controlPlaneMachines reads the Machines of the control plane.
func (s *soakRun) controlPlaneMachines(c client.Client) ([]clusterv1.Machine, error) {
	var all clusterv1.MachineList
	err := c.List(context.Background(), &all, client.InNamespace("default"), machine.Labels(soakName))
	slices.SortFunc(all.Items, func(a, b clusterv1.Machine) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return all.Items, err
}

// unsettled says what is missing until all is as wanted; empty: nothing.
func (s *soakRun) unsettled(replicas int) string {
	c, err := s.plane()
	if err != nil {
		return err.Error()
	}
	kcp, err := s.wanted(c)
	if err != nil {
		return err.Error()
	}
	if p := kcp.Status.Plan; kcp.Status.ObservedGeneration != kcp.Generation || p.Step != string(plan.Nothing) || p.Reason != "AsWanted" {
		return p.Reason + ": " + p.Message
	}
	machines, err := s.controlPlaneMachines(c)
	if err != nil {
		return err.Error()
	}
	names := namesOf(machines)
	if len(names) != replicas {
		return fmt.Sprintf("machines %v, want %d", names, replicas)
	}
	for _, m := range names {
		voters, err := s.voters(m)
		if err != nil {
			return err.Error()
		}
		if slices.Sort(voters); !slices.Equal(voters, names) {
			return fmt.Sprintf("etcd on %s has the voters %v, the machines are %v", m, voters, names)
		}
	}
	api, err := s.api()
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return unhealthy(ctx, api, replicas)
}

// soakLooks is what is seen of the cluster again and again: which member leads, and which machines there are.
type soakLooks struct {
	stop func()

	mu     sync.Mutex
	leader string
}

// lookEvery is the time between two looks, factsEvery how many of them there are for each look of the rules.
const (
	lookEvery  = 2 * time.Second
	factsEvery = 3
)

// noteManager records what the process of the management plane uses.
func (s *soakRun) noteManager() {
	text, err := os.ReadFile(s.state + "/daemon.pid")
	if err != nil {
		return
	}
	pid := strings.Fields(string(text))[0]
	e := history.Entry{Kind: history.Manager, Client: pid, Begin: s.record.Now()}
	files, err := os.ReadDir("/proc/" + pid + "/fd")
	threads, err2 := os.ReadDir("/proc/" + pid + "/task")
	if err != nil || err2 != nil {
		return // it was killed
	}
	e.Items = []history.Item{{Object: "memory in MB", Revision: int64(proportional(s.t, pid))},
		{Object: "open files", Revision: int64(len(files))}, {Object: "threads", Revision: int64(len(threads))}}
	s.record.Write(e)
}

// noteFacts writes down what the rules look at.
func (s *soakRun) noteFacts() {
	text, err := s.try("explain", soakName, "--observed", "-o", "json")
	var explained struct {
		Observed json.RawMessage `json:"observed"`
	}
	if err != nil || json.Unmarshal([]byte(text), &explained) != nil {
		return // the management plane is away
	}
	var line bytes.Buffer
	if json.Compact(&line, explained.Observed) == nil && line.Len() > 0 {
		fmt.Fprintln(s.facts, line.String())
	}
}

// beginLooks looks until stop is called.
func (s *soakRun) beginLooks() *soakLooks {
	ctx, cancel := context.WithCancel(context.Background())
	l, asked, done := &soakLooks{}, etcd.Open(nil), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			if c, err := s.plane(); err == nil {
				s.look(ctx, c, asked, l)
			}
			if n%factsEvery == 0 {
				s.noteFacts()
				s.noteManager()
			}
			<-tick.C
		}
	}()
	l.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		asked.Close()
	})
	s.t.Cleanup(l.stop)
	return l
}

// look looks once.
func (s *soakRun) look(ctx context.Context, c client.WithWatch, asked *etcd.Cluster, l *soakLooks) {
	machines, err := s.controlPlaneMachines(c)
	if err != nil {
		return
	}
	clients := certs.EtcdClients{}
	config, err := clients.Config(ctx, c, &clusterv1.Cluster{ObjectMeta: objectNamed(soakName)})
	if err != nil {
		return
	}
	asked.Use(config)
	e := history.Entry{Kind: history.Look, Begin: s.record.Now()}
	survey := asked.Survey(ctx, targetsOf(machines))
	for _, m := range machines {
		state := "there"
		if !m.DeletionTimestamp.IsZero() {
			state = "deleting"
		}
		for _, member := range survey.Members {
			if member.Name == m.Name && member.Leader {
				e.Object = m.Name
			}
		}
		e.Items = append(e.Items, history.Item{Object: m.Name, Value: state})
	}
	e.End = s.record.Now()
	s.record.Write(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader = e.Object
}

// targetsOf are the members of etcd on machines, each asked at its own address.
func targetsOf(machines []clusterv1.Machine) []etcd.Target {
	var targets []etcd.Target
	for i := range machines {
		if ip := machine.InternalIP(&machines[i]); ip != "" {
			targets = append(targets, etcd.Target{Name: machines[i].Name, Dial: func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip, "2379"))
			}})
		}
	}
	return targets
}

// victim is the machine that a fault hits: one that is not being deleted and serves. Without one it has no name.
func (s *soakRun) victim(r schedule.Round) clusterv1.Machine {
	c, err := s.plane()
	if err != nil {
		return clusterv1.Machine{}
	}
	machines, err := s.controlPlaneMachines(c)
	if err != nil {
		return clusterv1.Machine{}
	}
	machines = slices.DeleteFunc(machines, func(m clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() || silent(&m) != nil })
	if len(machines) == 0 {
		return clusterv1.Machine{}
	}
	s.looking.mu.Lock()
	leader := s.looking.leader
	s.looking.mu.Unlock()
	i := slices.IndexFunc(machines, func(m clusterv1.Machine) bool { return m.Name == leader })
	if r.Target == schedule.Leader && i >= 0 {
		return machines[i]
	}
	if i >= 0 && len(machines) > 1 {
		machines = slices.Delete(machines, i, i+1)
	}
	return machines[r.Which%len(machines)]
}

// hashes records the hash of each member's data at one revision. A member that compacted another revision is asked again.
func (s *soakRun) hashes() {
	s.t.Helper()
	c := s.management(s.t)
	asked := etcd.Open(nil)
	defer asked.Close()
	eventually(s.t, "all members have a hash of the same data", patience, func() string {
		machines, err := s.controlPlaneMachines(c)
		if err != nil {
			return err.Error()
		}
		clients := certs.EtcdClients{}
		config, err := clients.Config(context.Background(), c, &clusterv1.Cluster{ObjectMeta: objectNamed(soakName)})
		if err != nil {
			return err.Error()
		}
		asked.Use(config)
		all, why := s.hashAll(asked, targetsOf(machines))
		if why == "" {
			for _, e := range all {
				s.record.Write(e)
			}
		}
		return why
	})
}

// hashAll asks all members for their hash at the lowest revision of them, and says what hinders a comparison.
func (s *soakRun) hashAll(asked *etcd.Cluster, targets []etcd.Target) ([]history.Entry, string) {
	at := int64(0)
	for _, target := range targets {
		p, err := asked.Position(context.Background(), target)
		if err != nil {
			return nil, err.Error()
		}
		if at == 0 || p.Revision < at {
			at = p.Revision
		}
	}
	var all []history.Entry
	for _, target := range targets {
		h, err := asked.Hash(context.Background(), target, at)
		if err != nil {
			return nil, err.Error()
		}
		if len(all) > 0 && h.CompactRevision != all[0].Compacted {
			return nil, fmt.Sprintf("%s has compacted %d, %s %d", target.Name, h.CompactRevision, all[0].Client, all[0].Compacted)
		}
		all = append(all, history.Entry{Kind: history.Hash, Client: target.Name, Begin: s.record.Now(), Revision: h.Revision,
			Compacted: h.CompactRevision, Value: fmt.Sprintf("%08x", h.Value), Outcome: history.OK})
	}
	return all, ""
}
