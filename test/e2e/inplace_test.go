//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
)

// inplaceOne: the only machine of a control plane becomes another version, and stays. Its API is away for seconds.
//
//quorate:shows kubernetes in-place older>newer
func inplaceOne(t *testing.T, e *environment) {
	const name = "inone"
	e.up(t, name, "--replicas", "1", "--kubernetes-version", older)
	e.upgradedInPlace(t, name, 1)
	e.takeDown(t, name)
}

// inplaceMachines: the only machine of a ControlPlane, whose bootstrap objects say nothing of the version, becomes another version, and
// stays.
//
//quorate:shows kubernetes in-place older>newer
func inplaceMachines(t *testing.T, e *environment) {
	const name = "inmach"
	e.up(t, name, "--kind", "ControlPlane", "--replicas", "1", "--kubernetes-version", older)
	e.upgradedInPlace(t, name, 1)
	e.takeDown(t, name)
}

// inplaceThree: three machines become another version one after the other under a client that writes; beside it, in the same run, three are
// replaced.
//
//quorate:shows kubernetes replaced older>newer
//quorate:shows kubernetes in-place older>newer
func inplaceThree(t *testing.T, e *environment) {
	const name, other = "inthree", "inroll"
	e.up(t, name, "--replicas", "3", "--kubernetes-version", older)
	leader := e.leader(t, e.machines(t, name))
	inPlace := e.upgradedInPlace(t, name, 3)
	nodes := e.nodeUpgrades(t, name)
	if last := nodes[len(nodes)-1].Spec.Machine.Name; last != leader {
		t.Errorf("%s was upgraded last, and %s led etcd before", last, leader)
	}
	e.takeDown(t, name)

	e.up(t, other, "--replicas", "3", "--kubernetes-version", older)
	// Under the same client: on a host of two processors it takes a part of what there is.
	var rolled time.Duration
	ctx, stop := context.WithCancel(context.Background())
	outage := e.probe(t, ctx, other)
	e.served(t, other, 3, func() { rolled = e.up(t, other, "--kubernetes-version", newer) })
	stop()
	t.Logf("FIGURE 3 machines replaced: API not answering: %s", <-outage)
	t.Logf("FIGURE three machines %s -> %s: in place %.1f s, replaced %.1f s, ratio %.2f", older, newer, inPlace.Seconds(), rolled.Seconds(),
		inPlace.Seconds()/rolled.Seconds())
	e.takeDown(t, other)
}

// inplaceWorkers: a control plane of three and two workers become another version in place, the workers after the control plane and one
// after the other. A client that writes, and pods on the workers, go on.
//
//quorate:shows kubernetes in-place older>newer
func inplaceWorkers(t *testing.T, e *environment) {
	const name = "inwork"
	e.up(t, name, "--replicas", "3", "--workers", "2", "--kubernetes-version", older, "--in-place")
	before := uids(e.machinesWith(t, clusterLabels(name)))
	ctx, stop := context.WithCancel(context.Background())
	times := e.watchNodes(t, ctx, name)
	e.written(t, name, func() { // five machines on a small host take too much of it for a bound on the gap
		took := e.up(t, name, "--kubernetes-version", newer)
		eventually(t, "the workers are upgraded", 2*patience, func() string {
			var all upgradev1.MachineDeploymentUpgradeList
			if err := e.management(t).List(context.Background(), &all, client.InNamespace("default"), clusterLabels(name)); err != nil ||
				len(all.Items) != 1 {
				return fmt.Sprintf("%d upgrades of workers, %v", len(all.Items), err)
			}
			if u := all.Items[0]; u.Status.Ready == nil || !*u.Status.Ready {
				return fmt.Sprintf("%+v", u.Status)
			}
			return ""
		})
		t.Logf("FIGURE three machines and two workers %s -> %s in place: the control plane %.1f s", older, newer, took.Seconds())
	})
	stop()
	for _, line := range <-times {
		t.Log(line)
	}
	eventually(t, "all nodes healthy", patience, e.healthy(t, name, 5))
	if after := uids(e.machinesWith(t, clusterLabels(name))); !slices.Equal(before, after) {
		t.Errorf("the machines were %v and are %v: upgraded in place they stay", before, after)
	}
	e.isVersion(t, name, newer)
	var sets clusterv1.MachineSetList
	if err := e.management(t).List(context.Background(), &sets, client.InNamespace("default"), clusterLabels(name)); err != nil {
		t.Fatal(err)
	}
	for _, ms := range sets.Items {
		if *ms.Spec.Replicas > 0 && ms.Spec.Template.Spec.Version != newer {
			t.Errorf("MachineSet %s has %s", ms.Name, ms.Spec.Template.Spec.Version)
		}
	}
	for _, m := range e.machinesWith(t, clusterLabels(name)) {
		if m.Spec.Version != newer {
			t.Errorf("Machine %s says %s", m.Name, m.Spec.Version)
		}
	}
	e.nothingLeft(t, name)
	e.takeDown(t, name)
}

// upgradedInPlace takes a cluster to the newer version and verifies that all of it is there, on the same machines. It returns how long that
// took.
func (e *environment) upgradedInPlace(t *testing.T, name string, replicas int) time.Duration {
	t.Helper()
	before := uids(e.machineObjects(t, name))
	ctx, stop := context.WithCancel(context.Background())
	outage, times := e.probe(t, ctx, name), e.watchNodes(t, ctx, name)
	var took time.Duration
	e.served(t, name, replicas, func() {
		took = e.up(t, name, "--in-place", "--kubernetes-version", newer)
		eventually(t, "all voters", patience, e.quorumOf(t, name, replicas))
		eventually(t, "all nodes healthy", patience, e.healthy(t, name, replicas))
	})
	stop()
	for _, line := range <-times {
		t.Log(line)
	}
	t.Logf("FIGURE %d machines %s -> %s in place: %.1f s; API not answering: %s", replicas, older, newer, took.Seconds(), <-outage)
	if after := uids(e.machineObjects(t, name)); !slices.Equal(before, after) {
		t.Errorf("the machines were %v and are %v: upgraded in place they stay", before, after)
	}
	e.isVersion(t, name, newer)
	e.servicesServe(t, name)
	eventually(t, "all nodes healthy", patience, e.healthy(t, name, replicas)) // CoreDNS is replaced last
	e.kubectlWorks(t, name)
	e.nothingLeft(t, name)
	return took
}

// uids are the names and UIDs of Machines, sorted.
func uids(machines []clusterv1.Machine) []string {
	var all []string
	for i := range machines {
		all = append(all, machines[i].Name+" "+string(machines[i].UID))
	}
	slices.Sort(all)
	return all
}

// servicesServe expects that each machine reaches the API server by its Service, through the kube-proxy that the upgrade restarted.
func (e *environment) servicesServe(t *testing.T, name string) {
	t.Helper()
	c, _ := e.workload(t, name)
	eventually(t, "kube-proxy is restarted everywhere", patience, func() string {
		ds, err := c.AppsV1().DaemonSets("kube-system").Get(context.Background(), "kube-proxy", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if s := ds.Status; s.ObservedGeneration < ds.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled ||
			s.NumberAvailable < s.DesiredNumberScheduled {
			return fmt.Sprintf("%d of %d are new, %d available", s.UpdatedNumberScheduled, s.DesiredNumberScheduled, s.NumberAvailable)
		}
		return ""
	})
	service, err := c.CoreV1().Services("default").Get(context.Background(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range e.machines(t, name) {
		eventually(t, m+" reaches the Service kubernetes", patience, func() string {
			if out, err := e.try("shell", m, "--", "bash", "-c", "</dev/tcp/"+service.Spec.ClusterIP+"/443"); err != nil {
				return fmt.Sprintf("%v: %s", err, out)
			}
			return ""
		})
	}
}

// isVersion expects that nodes, static pods, kubeadm's configuration, kube-proxy and the objects all tell of a version.
func (e *environment) isVersion(t *testing.T, name, version string) {
	t.Helper()
	c, _ := e.workload(t, name)
	ctx := context.Background()
	nodes, err := c.CoreV1().Nodes().List(ctx, listAll)
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if n.Status.NodeInfo.KubeletVersion != version || n.Spec.Unschedulable {
			t.Errorf("node %s runs %s, want %s; unschedulable: %v", n.Name, n.Status.NodeInfo.KubeletVersion, version, n.Spec.Unschedulable)
		}
	}
	pods, err := c.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "tier=control-plane"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if image := p.Spec.Containers[0].Image; !strings.Contains(image, "/etcd:") && !strings.HasSuffix(image, ":"+version) {
			t.Errorf("pod %s runs %s", p.Name, image)
		}
	}
	config, err := c.CoreV1().ConfigMaps("kube-system").Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if err != nil || !strings.Contains(config.Data["ClusterConfiguration"], "kubernetesVersion: "+version) {
		t.Errorf("kubeadm's configuration in the cluster: %v, %v", config.Data, err)
	}
	proxy, err := c.AppsV1().DaemonSets("kube-system").Get(ctx, "kube-proxy", metav1.GetOptions{})
	if err != nil || !strings.HasSuffix(proxy.Spec.Template.Spec.Containers[0].Image, ":"+version) {
		t.Errorf("kube-proxy is %v, %v", proxy.Spec.Template.Spec.Containers, err)
	}
	for _, m := range e.machineObjects(t, name) {
		if m.Spec.Version != version {
			t.Errorf("Machine %s says %s", m.Name, m.Spec.Version)
		}
	}
	e.atRest(t, name)
}

// atRest expects that the control plane, of whichever kind, has nothing to do and is as wanted.
func (e *environment) atRest(t *testing.T, name string) {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := e.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.Spec.ControlPlaneRef.Kind == "ControlPlane" {
		e.rests(t, name, int(*e.machinesOf(t, name).Spec.Replicas))
		return
	}
	kcp := e.controlPlane(t, name)
	if kcp.Status.Plan.Step != string(plan.Nothing) || kcp.Status.UpToDateReplicas == nil ||
		*kcp.Status.UpToDateReplicas != *kcp.Spec.Replicas {
		t.Errorf("the control plane is not at rest: %+v, %v up to date", kcp.Status.Plan, kcp.Status.UpToDateReplicas)
		return
	}
	e.recordAtRest(t, name)
}

// nothingLeft expects that no upgrader, and nothing that one was allowed, is left in the cluster.
func (e *environment) nothingLeft(t *testing.T, name string) {
	t.Helper()
	c, _ := e.workload(t, name)
	ctx := context.Background()
	eventually(t, "the upgrader is gone", patience, func() string {
		var left []string
		pods, err := c.CoreV1().Pods("kube-system").List(ctx, listAll)
		if err != nil {
			return err.Error()
		}
		for i := range pods.Items {
			left = append(left, pods.Items[i].Name)
		}
		secrets, err := c.CoreV1().Secrets("kube-system").List(ctx, listAll)
		if err != nil {
			return err.Error()
		}
		for i := range secrets.Items {
			left = append(left, secrets.Items[i].Name)
		}
		accounts, err := c.CoreV1().ServiceAccounts("kube-system").List(ctx, listAll)
		if err != nil {
			return err.Error()
		}
		for i := range accounts.Items {
			left = append(left, accounts.Items[i].Name)
		}
		bindings, err := c.RbacV1().ClusterRoleBindings().List(ctx, listAll)
		if err != nil {
			return err.Error()
		}
		for i := range bindings.Items {
			left = append(left, bindings.Items[i].Name)
		}
		left = slices.DeleteFunc(left, func(s string) bool { return !strings.Contains(s, "quorate-upgrade") })
		return strings.Join(left, ", ")
	})
}

// nodeUpgrades returns the upgrades of a cluster's nodes, in the order in which they were made.
func (e *environment) nodeUpgrades(t *testing.T, name string) []upgradev1.NodeUpgrade {
	t.Helper()
	var all upgradev1.NodeUpgradeList
	if err := e.management(t).List(context.Background(), &all, client.InNamespace("default"), clusterLabels(name)); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all.Items, func(a, b upgradev1.NodeUpgrade) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return all.Items
}

// probe asks the endpoint ten times a second on new connections whether it is ready, and yields how long it was not.
func (e *environment) probe(t *testing.T, ctx context.Context, name string) <-chan string {
	t.Helper()
	_, config := e.workload(t, name)
	http1 := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // who it is has no part in it
	result := make(chan string, 1)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		last, longest, sum := time.Now(), time.Duration(0), time.Duration(0)
		for ; ctx.Err() == nil; <-tick.C {
			answer, err := http1.Get(config.Host + "/readyz")
			if err != nil {
				continue
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				continue
			}
			if gap := time.Since(last); gap > 500*time.Millisecond {
				longest, sum = max(longest, gap), sum+gap
			}
			last = time.Now()
		}
		result <- fmt.Sprintf("%.1f s in all, at most %.1f s at a time", sum.Seconds(), longest.Seconds())
	}()
	return result
}

// watchNodes looks five times a second how far the nodes are, and yields of each how long after its upgrader began it was Ready at the
// newer version, and all of its static pods.
func (e *environment) watchNodes(t *testing.T, ctx context.Context, name string) <-chan []string {
	t.Helper()
	c, _ := e.workload(t, name)
	m := e.management(t)
	result := make(chan []string, 1)
	go func() {
		began, ready, pods := map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
		start, said := time.Now(), map[string]string{}
		var lines []string
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			var all upgradev1.NodeUpgradeList
			if m.List(ctx, &all, client.InNamespace("default"), clusterLabels(name)) != nil {
				continue
			}
			for i := range all.Items {
				u := &all.Items[i]
				node := u.Spec.Machine.Name
				p := meta.FindStatusCondition(u.Status.Conditions, upgradev1.Progressing)
				if p == nil {
					continue
				}
				if now := p.Reason + " " + p.Message; now != said[node] {
					said[node] = now
					lines = append(lines, fmt.Sprintf("%6.1f s %s: %s", time.Since(start).Seconds(), node, now))
				}
				if p.Reason == upgradev1.Running && began[node].IsZero() {
					began[node] = time.Now()
				}
				if began[node].IsZero() {
					continue
				}
				if ready[node].IsZero() && readyAt(ctx, c, node, newer) {
					ready[node] = time.Now()
				}
				if !ready[node].IsZero() && pods[node].IsZero() && staticPodsReady(ctx, c, node) {
					pods[node] = time.Now()
				}
			}
		}
		var figures []string
		for node, start := range began {
			line := fmt.Sprintf("FIGURE %s, from its upgrader's start: Ready at %s after %.1f s", node, newer, ready[node].Sub(start).Seconds())
			if !pods[node].IsZero() {
				line += fmt.Sprintf(", all its static pods after %.1f s", pods[node].Sub(start).Seconds())
			}
			figures = append(figures, line)
		}
		slices.Sort(figures)
		result <- append(lines, figures...)
	}()
	return result
}

func readyAt(ctx context.Context, c kubernetes.Interface, node, version string) bool {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	n, err := c.CoreV1().Nodes().Get(short, node, metav1.GetOptions{})
	if err != nil || n.Status.NodeInfo.KubeletVersion != version {
		return false
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func staticPodsReady(ctx context.Context, c kubernetes.Interface, node string) bool {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	pods, err := c.CoreV1().Pods("kube-system").List(short, metav1.ListOptions{LabelSelector: "tier=control-plane",
		FieldSelector: "spec.nodeName=" + node})
	if err != nil || len(pods.Items) != 4 {
		return false
	}
	return !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return !podReady(&p) })
}

// inplaceRollback: an argument that no API server knows is undone by the node itself, on one node and on the first of three, with all data.
// What is reverted is tried no more.
func inplaceRollback(t *testing.T, e *environment) {
	e.rolledBack(t, "inback", 1)
	e.rolledBack(t, "inbacks", 3)
}

func (e *environment) rolledBack(t *testing.T, name string, replicas int) {
	t.Helper()
	e.up(t, name, "--replicas", fmt.Sprint(replicas), "--in-place=Only")
	failed := ""
	before := uids(e.machineObjects(t, name))
	e.argued(t, name, "v", "2")
	ctx, stop := context.WithCancel(context.Background())
	outage := e.probe(t, ctx, name)
	e.served(t, name, replicas, func() {
		e.argue(t, name, "no-such-argument", "nonsense")
		eventually(t, "the first node was put back", patience, func() string {
			for _, u := range e.nodeUpgrades(t, name) {
				if p := meta.FindStatusCondition(u.Status.Conditions, upgradev1.Progressing); p != nil && p.Reason == upgradev1.RolledBack {
					failed = u.Spec.Machine.Name
					t.Logf("it says: %s", p.Message)
					return ""
				}
			}
			return e.controlPlane(t, name).Status.Plan.Message
		})
		eventually(t, "the control plane says so", patience, func() string {
			if p := e.controlPlane(t, name).Status.Plan; p.Reason != "UpdateFailed" {
				return p.Reason + ": " + p.Message
			}
			return ""
		})
		eventually(t, "all nodes healthy", patience, e.healthy(t, name, replicas))
		for _, u := range e.nodeUpgrades(t, name) {
			if _, done := u.Annotations[upgradev1.RecordedAnnotation]; !done && u.Spec.Machine.Name != failed {
				t.Errorf("%s was begun beside %s, which failed", u.Spec.Machine.Name, failed)
			}
		}
		e.argued(t, name, "v", "2")
	})
	stop()
	t.Logf("FIGURE %d machines, rolled back: API not answering: %s", replicas, <-outage)
	if after := uids(e.machineObjects(t, name)); !slices.Equal(before, after) {
		t.Errorf("the machines were %v and are %v", before, after)
	}
	e.isVersion(t, name, newer)
	e.takeDown(t, name)
}

// argue gives the API servers one argument of the user's.
func (e *environment) argue(t *testing.T, name, argument, value string) {
	t.Helper()
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: argument, Value: &value}}
	})
}

// argued does so, and waits until all API servers have it and all is as wanted.
func (e *environment) argued(t *testing.T, name, argument, value string) {
	t.Helper()
	e.argue(t, name, argument, value)
	c, _ := e.workload(t, name)
	took := eventually(t, "all is as wanted", 2*patience, func() string {
		kcp := e.controlPlane(t, name)
		if p := kcp.Status.Plan; kcp.Status.ObservedGeneration != kcp.Generation || p.Step != string(plan.Nothing) {
			return p.Reason + ": " + p.Message
		}
		pods, err := c.CoreV1().Pods("kube-system").List(context.Background(), metav1.ListOptions{LabelSelector: "component=kube-apiserver"})
		if err != nil {
			return err.Error()
		}
		for _, p := range pods.Items {
			if !slices.Contains(p.Spec.Containers[0].Command, "--"+argument+"="+value) {
				return p.Name + " has " + strings.Join(p.Spec.Containers[0].Command, " ")
			}
		}
		return ""
	})
	t.Logf("FIGURE --%s=%s on all API servers, in place: %.1f s", argument, value, took.Seconds())
}
