package workload

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// listOf is a list of these objects.
func listOf[T any](objects []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, o := range objects {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func controlPlaneNode(name string) *corev1.Node {
	n := node(name, corev1.ConditionTrue)
	n.Labels = map[string]string{controlPlaneLabels[0]: ""}
	return n
}

func addressed(n *corev1.Node, address, providerID string) *corev1.Node {
	n.Spec.ProviderID = providerID
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.Name}, {Type: corev1.NodeInternalIP, Address: address}}
	return n
}

// TestWorkersBringNoEvents: only Nodes that may belong to the control plane are in the view, and only their changes are told.
func TestWorkersBringNoEvents(t *testing.T) {
	told := 0
	b := newBook(untrusted.Bounds{}.WithDefaults(), func() { told++ })
	all := []*corev1.Node{
		controlPlaneNode("cp-1"), addressed(node("joins", corev1.ConditionFalse), "fd00::7", "x:///7"),
		addressed(node("w-1", corev1.ConditionTrue), "10.0.0.8", "x:///8"), addressed(node("w-2", corev1.ConditionTrue), "10.0.0.9", ""),
	}
	must(t, b.nodes.replace(listOf(all)))
	if v := b.read(); names(v) != "cp-1 joins w-1 w-2" || told != 1 {
		t.Errorf("before anybody says whose Nodes count: %s, told %d times", names(v), told)
	}
	b.nodes.own(Mine{Names: map[string]bool{"none": true}, ProviderIDs: map[string]bool{"": true}, Addresses: map[string]bool{"": true}})
	if v := b.read(); names(v) != "cp-1" || told != 1 {
		t.Errorf("only labelled ones count: %s, told %d times", names(v), told)
	}
	changes := []struct {
		name string
		do   func()
		told int
		want string
	}{
		{"a worker changes", func() { must(t, b.nodes.put(addressed(node("w-1", corev1.ConditionFalse), "10.0.0.8", "x:///8"))) }, 0, "cp-1"},
		{"a worker comes", func() { must(t, b.nodes.put(node("w-3", corev1.ConditionTrue))) }, 0, "cp-1"},
		{"a worker goes", func() { b.nodes.remove(node("w-3", corev1.ConditionTrue)) }, 0, "cp-1"},
		{"all is listed again", func() { must(t, b.nodes.replace(listOf(all))) }, 0, "cp-1"},
		{"a heartbeat of a control plane", func() { must(t, b.nodes.put(controlPlaneNode("cp-1"))) }, 0, "cp-1"},
		{"a control plane's annotation", func() {
			n := controlPlaneNode("cp-1")
			n.Annotations = map[string]string{"a": "b"}
			must(t, b.nodes.put(n))
		}, 0, "cp-1"},
		{"a control plane's Ready", func() {
			n := controlPlaneNode("cp-1")
			n.Status.Conditions[0].Status = "False"
			must(t, b.nodes.put(n))
		}, 1, "cp-1"},
		{"one that joins by its address, spelled otherwise",
			func() { b.nodes.own(Mine{Addresses: map[string]bool{NormalAddress("fd00:0::7"): true}}) }, 0, "cp-1 joins"},
		{"by its provider ID", func() { b.nodes.own(Mine{ProviderIDs: map[string]bool{"x:///7": true}}) }, 0, "cp-1 joins"},
		{"by its name", func() { b.nodes.own(Mine{Names: map[string]bool{"joins": true}}) }, 0, "cp-1 joins"},
		{"which changes", func() { must(t, b.nodes.put(addressed(node("joins", corev1.ConditionTrue), "fd00::7", "x:///7"))) }, 1, "cp-1 joins"},
		{"and is labelled", func() { n := controlPlaneNode("joins"); must(t, b.nodes.put(n)) }, 1, "cp-1 joins"},
		{"and counts for that alone", func() { b.nodes.own(Mine{}) }, 0, "cp-1 joins"},
		{"a label is taken away", func() { must(t, b.nodes.put(node("cp-1", corev1.ConditionTrue))) }, 1, "joins"},
		{"and given back", func() { must(t, b.nodes.put(controlPlaneNode("cp-1"))) }, 1, "cp-1 joins"},
		{"a control plane goes", func() { b.nodes.remove(controlPlaneNode("joins")) }, 1, "cp-1"},
	}
	for _, c := range changes {
		told = 0
		c.do()
		if v := b.read(); names(v) != c.want || told != c.told {
			t.Errorf("%s: %s, told %d times, want %s, %d", c.name, names(v), told, c.want, c.told)
		}
	}
}

// TestBystanderIsEnough: what is kept of a Node that does not count tells all that finding its machine needs.
func TestBystanderIsEnough(t *testing.T) {
	b := newBook(untrusted.Bounds{}.WithDefaults(), func() {})
	b.nodes.own(Mine{})
	n := addressed(node("n", corev1.ConditionUnknown), "10.0.0.7", "x:///7")
	n.CreationTimestamp = metav1.Unix(1700000000, 0)
	n.Status.Conditions[0].LastTransitionTime = metav1.Unix(1700000100, 0)
	must(t, b.nodes.put(n))
	b.nodes.own(Mine{Names: map[string]bool{"n": true}})
	got := b.read().Nodes
	if len(got) != 1 {
		t.Fatalf("%d Nodes", len(got))
	}
	g := got[0]
	if !g.CreationTimestamp.Equal(&n.CreationTimestamp) || g.Spec.ProviderID != "x:///7" || g.Status.Addresses[0] != n.Status.Addresses[1] ||
		g.Status.Conditions[0].Status != corev1.ConditionUnknown ||
		!g.Status.Conditions[0].LastTransitionTime.Equal(&n.Status.Conditions[0].LastTransitionTime) {
		t.Errorf("%+v", g)
	}
}

// TestNamesOfMachinesCount: a Node that is called as a machine is, or could be, counts, whoever's it is.
func TestNamesOfMachinesCount(t *testing.T) {
	b := newBook(untrusted.Bounds{}.WithDefaults(), func() {})
	b.nodes.own(Mine{})
	for _, name := range []string{"demo-4-web", "demo-05-web", "demo-4", "demo-x-web", "demo--web", "4", "demo-4-web-2"} {
		must(t, b.nodes.put(node(name, corev1.ConditionTrue)))
	}
	for format, want := range map[string]string{"": "", "demo-%s-web": "demo-05-web demo-4-web", "demo-%s": "demo-4", "%s": "4"} {
		b.nodes.own(Mine{Format: format})
		var got []string
		for _, n := range b.read().Nodes {
			got = append(got, n.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of machines named %q count %v, want %q", format, got, want)
		}
	}
}

func TestNodesAreListedInPages(t *testing.T) {
	s := newServer(t)
	for i := range 2*pageSize + 1 {
		s.put(node(fmt.Sprintf("n-%04d", i), corev1.ConditionTrue))
	}
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build(), quick)
	v, _ := await(t, c, 20*time.Second, "reachable", reachable)
	if n := s.counted()["/api/v1/nodes"]; len(v.Nodes) != 2*pageSize+1 || n < 3 || n > 4 {
		t.Errorf("%d Nodes in %d requests, the watch among them", len(v.Nodes), n)
	}
	if c.Config(demo) == nil {
		t.Error("it is not known how the cluster was reached")
	}
}
