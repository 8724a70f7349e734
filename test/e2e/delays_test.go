//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// delays measures what Quorate takes of its own: from the last fact that a step can have waited for to the
// step's write. It looks for itself, ten times a second, at the machines' etcd, at the cluster's API server and at the
// management plane; what Quorate says of itself has no part in it.
type delays struct {
	management client.WithWatch
	key        client.ObjectKey
	clients    certs.EtcdClients
	etcd       *etcd.Cluster

	mu      sync.Mutex
	moments []moment
	begun   bool // kubeadm has initialised the cluster
	workers sync.WaitGroup
	stop    context.CancelFunc
}

// moment is one thing that began or ended to be so.
type moment struct {
	at   time.Time
	what string
	step bool // Quorate wrote it; otherwise it is a fact
}

// kinds of things, by the first word, and what their appearance and their end are: "fact", "step", "both" or nothing.
var kinds = map[string]struct{ begin, end string }{
	"machine":     {"step", "fact"},
	"deleting":    {"step", ""},
	"hook":        {"", "step"},
	"due":         {"fact", ""},
	"replicas":    {"fact", ""},
	"spec":        {"fact", ""},
	"provisioned": {"fact", ""},
	"ready":       {"fact", ""},
	"node":        {"fact", ""},
	"initialised": {"fact", ""},
	"member":      {"fact", "both"},
	"voter":       {"fact", ""},
	"healthy":     {"fact", ""},
	"leader":      {"fact", ""},
}

func measureDelays(t *testing.T, e *environment, cluster string) *delays {
	ctx, stop := context.WithCancel(context.Background())
	d := &delays{management: e.management(t), begun: len(e.machines(t, cluster)) > 1,
		key: client.ObjectKey{Namespace: "default", Name: cluster}, etcd: etcd.Open(nil), stop: stop}
	d.workers.Go(func() { d.machineChanges(ctx) })
	for _, look := range []func(context.Context) ([]string, bool){d.objects, d.workload, d.members} {
		d.workers.Go(func() { d.follow(ctx, look) })
	}
	return d
}

// machineChanges notes each change of each Machine: between two looks one could become what another step waits
// for, and be gone.
func (d *delays) machineChanges(ctx context.Context) {
	var last map[string][]string
	note := func(m *clusterv1.Machine, now []string) {
		at := time.Now()
		d.compare(last[m.Name], now, at, at)
		last[m.Name] = now
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		var all clusterv1.MachineList
		if d.management.List(ctx, &all, client.InNamespace(d.key.Namespace), machine.Labels(d.key.Name)) != nil {
			continue
		}
		first := last == nil
		if first {
			last = map[string][]string{}
		}
		for _, m := range all.Items {
			if first {
				last[m.Name] = states(&m)
			}
			note(&m, states(&m))
		}
		stream, err := d.management.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(d.key.Namespace), machine.Labels(d.key.Name),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: all.ResourceVersion}})
		if err != nil {
			continue
		}
		for event := range stream.ResultChan() {
			m, ok := event.Object.(*clusterv1.Machine)
			switch {
			case !ok:
			case event.Type == watch.Deleted:
				note(m, nil)
			default:
				note(m, states(m))
			}
		}
	}
}

// states are what is so of a Machine.
func states(m *clusterv1.Machine) []string {
	now := []string{"machine " + m.Name}
	if !m.DeletionTimestamp.IsZero() {
		now = append(now, "deleting "+m.Name)
	}
	if machine.HasHook(m) {
		now = append(now, "hook "+m.Name)
	}
	if machine.HookDue(m) {
		now = append(now, "due "+m.Name)
	}
	return now
}

// follow looks again and again, ten times a second, and notes what is new. A look that failed changes nothing.
func (d *delays) follow(ctx context.Context, look func(context.Context) ([]string, bool)) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last []string
	seen := false
	for ; ctx.Err() == nil; <-tick.C {
		began := time.Now()
		now, ok := look(ctx)
		if !ok || ctx.Err() != nil {
			continue
		}
		if seen {
			d.compare(last, now, began, time.Now())
		}
		last, seen = now, true
	}
}

// compare notes what began and ended to be so between two looks, the later of which began and ended at these times. In
// doubt a fact came before it, and a step after.
func (d *delays) compare(last, now []string, began, ended time.Time) {
	for _, what := range now {
		if !slices.Contains(last, what) {
			d.note(what, kinds[word(what)].begin, began, ended)
		}
	}
	for _, what := range last {
		if !slices.Contains(now, what) {
			d.note("no "+what, kinds[word(what)].end, began, ended)
		}
	}
}

func word(what string) string { first, _, _ := strings.Cut(what, " "); return first }

func (d *delays) note(what, kind string, began, ended time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = d.begun || what == "initialised"
	switch kind {
	case "fact":
		d.moments = append(d.moments, moment{began, what, false})
	case "step":
		d.moments = append(d.moments, moment{ended, what, true})
	case "both": // a step that the next one waits for
		d.moments = append(d.moments, moment{ended, what, true}, moment{ended, what, false})
	}
}

// report ends the measurement and tells median, worst and sum of what a controller took.
func (d *delays) report(t *testing.T, controller string) {
	t.Helper()
	d.stop()
	d.workers.Wait()
	d.etcd.Close()
	slices.SortStableFunc(d.moments, func(a, b moment) int { return a.at.Compare(b.at) })
	var took []time.Duration
	fact := moment{}
	for _, m := range d.moments {
		switch {
		case !m.step:
			fact = m
		case !fact.at.IsZero():
			took = append(took, m.at.Sub(fact.at))
			t.Logf("%s step %q %.2f s after %q", m.at.Format("15:04:05.000"), m.what, m.at.Sub(fact.at).Seconds(), fact.what)
		}
	}
	if len(took) == 0 {
		t.Fatal("no step was seen")
	}
	sum := time.Duration(0)
	for _, one := range took {
		sum += one
	}
	slices.Sort(took)
	t.Logf("FIGURE %s's own delay over %d steps: median %.2f s, worst %.2f s, sum %.1f s", controller, len(took), took[len(took)/2].Seconds(),
		took[len(took)-1].Seconds(), sum.Seconds())
}

// objects are what the management plane holds beside Machines.
func (d *delays) objects(ctx context.Context) ([]string, bool) {
	var now []string
	cluster, controlPlane := &clusterv1.Cluster{}, &unstructured.Unstructured{}
	if d.management.Get(ctx, d.key, cluster) != nil {
		return nil, false
	}
	gvk, ok := controlPlaneKinds[cluster.Spec.ControlPlaneRef.Kind]
	controlPlane.SetGroupVersionKind(gvk)
	if !ok || d.management.Get(ctx, client.ObjectKey{Namespace: "default", Name: cluster.Spec.ControlPlaneRef.Name}, controlPlane) != nil {
		return nil, false
	}
	replicas, _, _ := unstructured.NestedInt64(controlPlane.Object, "spec", "replicas")
	if p := cluster.Status.Initialization.InfrastructureProvisioned; p != nil && *p {
		now = append(now, "provisioned")
	}
	return append(now, fmt.Sprintf("replicas %d", replicas), fmt.Sprintf("spec %d", controlPlane.GetGeneration())), true
}

// controlPlaneKinds are the kinds of control planes that a Cluster may refer to.
var controlPlaneKinds = map[string]schema.GroupVersionKind{
	"KubeadmControlPlane": controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"),
	"ControlPlane":        controlplanev1alpha1.GroupVersion.WithKind("ControlPlane"),
}

func (d *delays) machines(ctx context.Context) ([]clusterv1.Machine, error) {
	var all clusterv1.MachineList
	err := d.management.List(ctx, &all, client.InNamespace("default"), machine.Labels(d.key.Name))
	return all.Items, err
}

// workload is what the cluster's API server tells.
func (d *delays) workload(ctx context.Context) ([]string, bool) {
	data, err := kubeconfig.FromSecret(ctx, d.management, d.key)
	if err != nil {
		return nil, true // not yet made
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, false
	}
	config.Timeout = time.Second
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, false
	}
	pods, err := c.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "tier=control-plane"})
	if err != nil {
		return nil, !d.seenInitialised()
	}
	var now []string
	for _, p := range pods.Items {
		if podReady(&p) {
			now = append(now, "ready "+p.Name)
		}
	}
	nodes, err := c.CoreV1().Nodes().List(ctx, listAll)
	if err != nil {
		return nil, !d.seenInitialised()
	}
	for _, n := range nodes.Items {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			now = append(now, "node "+n.Name)
		}
	}
	if _, err := c.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, "cluster-info", metav1.GetOptions{}); err == nil {
		now = append(now, "initialised")
	}
	return now, true
}

func (d *delays) seenInitialised() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begun
}

// members are what etcd's members say, each asked by its own address.
func (d *delays) members(ctx context.Context) ([]string, bool) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: d.key.Namespace, Name: d.key.Name}}
	config, err := d.clients.Config(ctx, d.management, cluster)
	machines, err2 := d.machines(ctx)
	if err != nil || err2 != nil {
		return nil, !d.seenInitialised()
	}
	var targets []etcd.Target
	for _, m := range machines {
		if ip := machine.InternalIP(&m); ip != "" {
			targets = append(targets, etcd.Target{Name: m.Name, Dial: func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip, "2379"))
			}})
		}
	}
	d.etcd.Use(config)
	survey := d.etcd.Survey(ctx, targets)
	if !survey.Known {
		return nil, !d.seenInitialised()
	}
	var now []string
	for _, m := range survey.Members {
		id := etcd.FormatID(m.ID)
		now = append(now, "member "+id)
		if !m.Learner {
			now = append(now, "voter "+id)
		}
		if m.Health == plan.Healthy {
			now = append(now, "healthy "+id)
		}
		if m.Leader {
			now = append(now, "leader "+id)
		}
	}
	return now, true
}
