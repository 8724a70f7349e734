//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/test/docs"
)

// upgradeProvider: in a management cluster upstream's control plane provider comes in Quorate's place and Quorate again in its place, by
// the commands of docs/migrate.md, while a client writes; no machine is replaced by that. Then clusterctl's other commands are obeyed, and
// a node is drained on which the manager works.
func upgradeProvider(t *testing.T, e *environment) {
	e.up(t, "home", "--replicas", "1")
	e.up(t, "home", "--self-managed")
	g := newGuide(t, e, "home")
	e.written(t, "home", func() { g.back(t) })
	g.scaleUpstream(t)
	e.written(t, "home", func() { g.there(t) })
	g.complete(t)

	g.describe(t)
	g.drainLeader(t)
	g.drainBoth(t)
	e.up(t, "second", "--replicas", "1")
	g.rollout(t, "second")
	e.takeDown(t, "second")
	three := e.nodes(t, "home")
	e.up(t, "home", "--self-managed=false")
	e.sameNodes(t, "home", three)
	e.takeDown(t, "home")
}

// Upstream's control plane provider in a management cluster.
const (
	upstreamNamespace = "capi-kubeadm-control-plane-system"
	upstreamManager   = "capi-kubeadm-control-plane-controller-manager"
)

// migrationGuide is the document whose commands are run.
const migrationGuide = "docs/migrate.md"

// guide is the migration guide, and a shell in which its commands run as they are written, on a cluster that keeps itself.
type guide struct {
	environment *environment
	cluster     string
	shell       exampleShell
	// left are the commands in blocks of the sections that the test goes through, until they were run.
	left map[string]bool
	text string
}

func newGuide(t *testing.T, e *environment, cluster string) *guide {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", migrationGuide))
	if err != nil {
		t.Fatal(err)
	}
	g := &guide{environment: e, cluster: cluster, shell: newExampleShell(t, e), text: string(text)}
	g.left = g.commandsOf(t, "Before", "With clusterctl", "Verify", "Back")
	kubeconfig := filepath.Join(g.shell.folder, "kubeconfig")
	e.quorate(t, "kubeconfig", cluster, "--write", kubeconfig)
	providers, err := artifacts.EnsureProviders(context.Background(), artifacts.Options{})
	if err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(g.shell.folder, ".config")
	writeUpstreamSource(t, e, providers, filepath.Join(settings, "cluster-api"))
	g.shell.env = append(g.shell.env, "KUBECONFIG="+kubeconfig, "XDG_CONFIG_HOME="+settings, "CLUSTERCTL_DISABLE_VERSIONCHECK=true",
		"PATH="+filepath.Dir(providers.Clusterctl)+":"+pathIn(g.shell.env))
	return g
}

// commandsOf are the commands in blocks of the guide's sections with some titles.
func (g *guide) commandsOf(t *testing.T, titles ...string) map[string]bool {
	t.Helper()
	all, err := docs.Commands("../..")
	if err != nil {
		t.Fatal(err)
	}
	var sections []string // by line
	section := ""
	for line := range strings.Lines(g.text) {
		if title, is := strings.CutPrefix(line, "## "); is {
			section = strings.TrimSpace(title)
		}
		sections = append(sections, section)
	}
	found := map[string]bool{}
	for _, c := range all {
		if c.File == migrationGuide && !c.Inline && slices.Contains(titles, sections[c.Line-1]) {
			found[c.Text] = true
		}
	}
	if len(found) < 12 {
		t.Fatalf("%s has the commands %v", migrationGuide, found)
	}
	return found
}

// pathIn is the value of PATH that counts.
func pathIn(env []string) string {
	path := ""
	for _, variable := range env {
		if value, is := strings.CutPrefix(variable, "PATH="); is {
			path = value
		}
	}
	return path
}

// writeUpstreamSource writes a configuration of clusterctl into a folder: that with which the cluster was made a management cluster, and
// where upstream's control plane provider is.
func writeUpstreamSource(t *testing.T, e *environment, providers *artifacts.Providers, folder string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(e.state, "management", "clusterctl", "clusterctl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := yaml.Unmarshal(data, &settings); err != nil {
		t.Fatal(err)
	}
	components := filepath.Join(providers.Repository, "control-plane-kubeadm", providers.ClusterAPI, "control-plane-components.yaml")
	if _, err := os.Stat(components); err != nil {
		t.Fatal(err)
	}
	settings["providers"] = append(settings["providers"].([]any), map[string]any{"name": "kubeadm", "type": "ControlPlaneProvider",
		"url": "file://" + components})
	if data, err = yaml.Marshal(settings); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "clusterctl.yaml"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// commandLimit ends a command that hangs.
const commandLimit = 5 * time.Minute

// try runs a line, and returns all that it printed.
func (g *guide) try(line string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", "set -o pipefail; "+line)
	c.Dir, c.Env = g.shell.folder, g.shell.env
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		return said.String(), fmt.Errorf("%s: %w\n%s", line, err, said.String())
	}
	return said.String(), nil
}

// do runs a line that must succeed, and tells how long it took.
func (g *guide) do(t *testing.T, line string) string {
	t.Helper()
	start := time.Now()
	said, err := g.try(line)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("FIGURE %s: %.1f s", line, time.Since(start).Seconds())
	return said
}

// run runs commands of the guide, with the cluster's name for the word NAME.
func (g *guide) run(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if !strings.Contains(g.text, c) {
			t.Fatalf("%s has no command %s", migrationGuide, c)
		}
		delete(g.left, c)
		if said := strings.TrimSpace(g.do(t, strings.ReplaceAll(c, " NAME ", " "+g.cluster+" "))); said != "" {
			t.Log(said)
		}
	}
}

// complete fails the test where a section that it went through has a command that was not run.
func (g *guide) complete(t *testing.T) {
	t.Helper()
	for c := range g.left {
		t.Errorf("not run: %s", c)
	}
}

// The guide's commands that are run more than once.
const (
	pauseCluster   = `kubectl patch cluster NAME --type=merge -p '{"spec":{"paused":true}}'`
	unpauseCluster = `kubectl patch cluster NAME --type=merge -p '{"spec":{"paused":null}}'`
	identities     = "kubectl get kubeadmcontrolplanes,machines -A -o " +
		"custom-columns=KIND:.kind,NS:.metadata.namespace,NAME:.metadata.name,UID:.metadata.uid"
	inOldVersion = "kubectl get kubeadmcontrolplanes.v1beta1.controlplane.cluster.x-k8s.io -A"
)

// prepare goes through the guide's section Before.
func (g *guide) prepare(t *testing.T) {
	t.Helper()
	g.run(t, "kubectl get kubeadmcontrolplanes -A", identities+" >before.txt",
		"kubectl get kubeadmcontrolplanes,kubeadmcontrolplanetemplates -A -o yaml >backup.yaml", pauseCluster)
	g.reads(t, "the control plane is paused", `kubectl get kubeadmcontrolplane `+g.cluster+
		`-cp -o jsonpath='{.status.conditions[?(@.type=="Paused")].status}'`, "True")
}

// reads waits until a command prints a text.
func (g *guide) reads(t *testing.T, what, command, want string) {
	t.Helper()
	eventually(t, what, patience, func() string {
		said, err := g.try(command)
		if err != nil {
			return err.Error()
		}
		if said != want {
			return fmt.Sprintf("%q, want %q", said, want)
		}
		return ""
	})
}

// otherFolder asks for what the webhooks of both providers refuse, and their definitions do not.
const otherFolder = `kubectl patch kubeadmcontrolplane home-cp --dry-run=server --type=merge -p ` +
	`'{"spec":{"kubeadmConfigSpec":{"clusterConfiguration":{"certificatesDir":"/other"}}}}'`

// refused waits until a command fails with a text.
func (g *guide) refused(t *testing.T, what, command, want string) {
	t.Helper()
	eventually(t, what, patience, func() string {
		if _, err := g.try(command); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Sprintf("%v, want %q", err, want)
		}
		return ""
	})
}

// back goes to upstream's provider. It is interrupted after the first step.
func (g *guide) back(t *testing.T) {
	t.Helper()
	nodes, machines := g.environment.nodes(t, g.cluster), g.environment.identities(t, g.cluster)
	g.prepare(t)
	g.run(t, "clusterctl delete --control-plane quorate")
	g.unattended(t, "quorate", nodes)
	g.run(t, "clusterctl init --control-plane kubeadm",
		"kubectl -n capi-kubeadm-control-plane-system rollout status deployment/capi-kubeadm-control-plane-controller-manager")
	g.refused(t, "upstream's webhooks answer", otherFolder, "cannot be modified")
	g.converts(t)
	g.run(t, identities+" | diff before.txt -", unpauseCluster)
	g.run(t, "kubectl delete clusterrolebinding,clusterrole,priorityclass -l cluster.x-k8s.io/provider=control-plane-quorate",
		"kubectl delete namespace quorate-system")
	g.kept(t, nodes, machines)
}

// unattended: while there is no control plane provider the cluster runs, what the webhooks would refuse passes, and the step that was done
// is known as done.
func (g *guide) unattended(t *testing.T, provider string, nodes []string) {
	t.Helper()
	g.environment.sameNodes(t, g.cluster, nodes)
	eventually(t, "no webhook is asked", patience, func() string {
		if _, err := g.try(otherFolder); err != nil {
			return err.Error()
		}
		return ""
	})
	g.refused(t, "it is gone", "clusterctl delete --control-plane "+provider, "failed to identify the namespace")
}

// converts waits until the control planes are read in v1beta1: by another path than writes are checked.
func (g *guide) converts(t *testing.T) {
	t.Helper()
	eventually(t, "it is read in v1beta1", patience, func() string {
		if _, err := g.try(inOldVersion); err != nil {
			return err.Error()
		}
		return ""
	})
}

// scaleUpstream: upstream's controller makes two machines more, and leaves the one that Quorate made.
func (g *guide) scaleUpstream(t *testing.T) {
	t.Helper()
	e := g.environment
	first := e.nodes(t, g.cluster)
	start := time.Now()
	g.do(t, "kubectl scale kubeadmcontrolplane home-cp --replicas=3")
	eventually(t, "three voters by upstream", patience, e.quorumOf(t, g.cluster, 3))
	eventually(t, "three healthy nodes", patience, e.healthy(t, g.cluster, 3))
	t.Logf("FIGURE upstream's controller in a pod, 1 -> 3: %.1f s", time.Since(start).Seconds())
	if now := e.nodes(t, g.cluster); !slices.Contains(now, first[0]) {
		t.Errorf("nodes are %v, and %v was there before", now, first)
	}
	g.reads(t, "upstream's controller is content",
		`kubectl get kubeadmcontrolplane home-cp -o jsonpath='{.status.readyReplicas} {.status.upToDateReplicas} {.status.availableReplicas}'`,
		"3 3 3")
}

// there goes to Quorate. It is interrupted before the first step, with upstream's manager ended, and after the first.
func (g *guide) there(t *testing.T) {
	t.Helper()
	nodes, machines := g.environment.nodes(t, g.cluster), g.environment.identities(t, g.cluster)
	g.prepare(t)
	g.do(t, "kubectl -n "+upstreamNamespace+" scale deployment/"+upstreamManager+" --replicas=0")
	g.refused(t, "upstream's webhooks do not answer", otherFolder, "failed calling webhook")
	g.run(t, "clusterctl delete --control-plane kubeadm")
	g.unattended(t, "kubeadm", nodes)
	g.run(t, "clusterctl init --control-plane quorate", "kubectl -n quorate-system rollout status deployment/quorate-manager")
	g.refused(t, "Quorate's webhooks answer", otherFolder, "cannot be modified")
	g.converts(t)
	g.run(t, identities+" | diff before.txt -")
	g.verify(t)
	g.run(t, unpauseCluster)
	g.environment.hasNothingToDo(t, g.cluster)
	if said := g.do(t, "quorate plan --all"); !strings.Contains(said, "3 to keep  0      all is as wanted") {
		t.Errorf("quorate plan --all says\n%s", said)
	}
	g.run(t, "kubectl delete clusterrolebinding,clusterrole -l cluster.x-k8s.io/provider=control-plane-kubeadm",
		"kubectl delete namespace capi-kubeadm-control-plane-system")
	g.kept(t, nodes, machines)
}

// verify goes through the rest of the guide's section Verify, while the Cluster is paused.
func (g *guide) verify(t *testing.T) {
	t.Helper()
	g.run(t, "quorate plan --all",
		"kubectl get kubeadmcontrolplanes -A -o "+
			"custom-columns=NS:.metadata.namespace,NAME:.metadata.name,STEP:.status.plan.step,REASON:.status.plan.reason",
		"kubectl -n quorate-system get lease quorate-manager", inOldVersion)
	g.reads(t, "Quorate says that it waits", `kubectl get kubeadmcontrolplane home-cp -o jsonpath='{.status.plan.step} {.status.plan.reason}'`,
		"Wait Paused")
}

// kept fails the test unless machines and nodes are those that were there before.
func (g *guide) kept(t *testing.T, nodes, machines []string) {
	t.Helper()
	g.environment.sameNodes(t, g.cluster, nodes)
	g.environment.sameMachines(t, g.cluster, machines)
	replaced, now := 0, g.environment.identities(t, g.cluster)
	for _, m := range machines {
		if !slices.Contains(now, m) {
			replaced++
		}
	}
	t.Logf("FIGURE machines replaced: %d of %d", replaced, len(machines))
}

// describe: clusterctl shows the control plane with its machines.
func (g *guide) describe(t *testing.T) {
	t.Helper()
	said := g.do(t, "clusterctl describe cluster home --grouping=false")
	for _, want := range append(g.environment.machines(t, "home"), "KubeadmControlPlane default/home-cp") {
		if !strings.Contains(said, want) {
			t.Errorf("%s is not described:\n%s", want, said)
		}
	}
}

// rollout: clusterctl pauses and resumes a control plane of one machine, and has its machine replaced.
func (g *guide) rollout(t *testing.T, name string) {
	t.Helper()
	e := g.environment
	plane := "kubeadmcontrolplane/" + name + "-cp"
	before := e.machines(t, name)
	g.do(t, "clusterctl alpha rollout pause "+plane)
	g.reads(t, "the control plane is paused", "kubectl get "+plane+" -o jsonpath='{.status.plan.reason}'", "Paused")
	g.asks(t, name, 41)
	// The manager sees this change after the other one.
	g.asks(t, "home", 42)
	e.managed(t, "home", 42)
	for _, m := range e.machineObjects(t, name) {
		if got := ptr.Deref(m.Spec.Deletion.NodeDrainTimeoutSeconds, 0); got == 41 {
			t.Errorf("its control plane is paused, and %s is changed", m.Name)
		}
	}
	g.do(t, "clusterctl alpha rollout resume "+plane)
	e.managed(t, name, 41)
	if now := e.machines(t, name); !slices.Equal(now, before) {
		t.Errorf("machines are %v, and were %v", now, before)
	}
	start := time.Now()
	g.do(t, "clusterctl alpha rollout restart "+plane)
	e.replaced(t, name, before)
	t.Logf("FIGURE clusterctl alpha rollout restart, one machine: %.1f s", time.Since(start).Seconds())
	eventually(t, "the new node is healthy", patience, e.healthy(t, name, 1))
}

// asks changes what a control plane brings to all machines in place. The webhooks may be asked while their pod goes.
func (g *guide) asks(t *testing.T, name string, seconds int) {
	t.Helper()
	change := fmt.Sprintf(`{"spec":{"machineTemplate":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":%d}}}}}`, seconds)
	eventually(t, "a change is accepted", patience, func() string {
		if _, err := g.try("kubectl patch kubeadmcontrolplane " + name + "-cp --type=merge -p '" + change + "'"); err != nil {
			return err.Error()
		}
		return ""
	})
}

const (
	drain       = "kubectl drain --ignore-daemonsets --delete-emptydir-data --timeout=5m "
	rolloutEnds = "kubectl -n quorate-system rollout status deployment/quorate-manager"
)

// drainLeader drains the node on which the manager works: its other replica goes on, and the drain ends.
func (g *guide) drainLeader(t *testing.T) {
	t.Helper()
	e := g.environment
	c, _ := e.workload(t, g.cluster)
	holder, err := managerLease(c)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := c.CoreV1().Pods(quorateNamespace).Get(context.Background(), strings.Split(holder, "_")[0], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node := pod.Spec.NodeName
	drained := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := g.try(drain + node)
		drained <- err
	}()
	eventually(t, "another manager holds the lease", patience, func() string {
		if now, err := managerLease(c); err != nil || now == holder || now == "" {
			return fmt.Sprintf("it is held by %s, %v", now, err)
		}
		return ""
	})
	t.Logf("FIGURE the leader's node is drained: another one after %.1f s", time.Since(start).Seconds())
	g.asks(t, g.cluster, 40)
	e.managed(t, g.cluster, 40)
	t.Logf("FIGURE the leader's node is drained: a change has come to all machines after %.1f s", time.Since(start).Seconds())
	if err := <-drained; err != nil {
		t.Error(err)
	}
	t.Logf("FIGURE the leader's node is drained: %.1f s", time.Since(start).Seconds())
	g.do(t, "kubectl uncordon "+node)
	g.do(t, rolloutEnds)
}

// drainBoth drains a node that has both replicas of the manager: the PodDisruptionBudget has the second one wait for another in place of
// the first, and the drain ends.
func (g *guide) drainBoth(t *testing.T) {
	t.Helper()
	machines := g.environment.machines(t, g.cluster)
	last := len(machines) - 1
	node, others := machines[last], strings.Join(machines[:last], " ")
	g.do(t, "kubectl cordon "+others)
	g.do(t, "kubectl -n quorate-system rollout restart deployment/quorate-manager")
	g.do(t, rolloutEnds)
	g.do(t, "kubectl uncordon "+others)
	if said := g.do(t, drain+node); !strings.Contains(said, "disruption budget") {
		t.Errorf("both replicas went at once:\n%s", said)
	}
	g.asks(t, g.cluster, 39)
	g.environment.managed(t, g.cluster, 39)
	g.do(t, "kubectl uncordon "+node)
	g.do(t, rolloutEnds)
}

// managerLease is who holds the lease of Quorate's manager.
func managerLease(c kubernetes.Interface) (string, error) {
	lease, err := c.CoordinationV1().Leases(quorateNamespace).Get(context.Background(), quorateManager, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}
