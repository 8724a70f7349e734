package nodeupgrade

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// hung is how long a test waits for what must not wait for anything, before it fails.
const hung = 30 * time.Second

// tenant adds a Cluster of another namespace with workers and their NodeUpgrades, reached by open.
func (s *scene) tenant(workers int, open func() kubernetes.Interface) []*upgradev1.NodeUpgrade {
	s.Helper()
	var upgrades []*upgradev1.NodeUpgrade
	s.must(s.management.Create(s.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "tenant"}}))
	for i := range workers {
		name := fmt.Sprintf("w%d", i)
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tenant", UID: "u"},
			Spec: clusterv1.MachineSpec{ClusterName: "other"}}
		m.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
		s.must(s.management.Create(s.Context(), m))
		u := &upgradev1.NodeUpgrade{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tenant", Generation: 1},
			Spec: upgradev1.NodeUpgradeSpec{Machine: upgradev1.MachineReference{Name: name}, KubernetesVersion: "v1.36.3",
				NodeType: upgradev1.Worker},
		}
		s.must(s.management.Create(s.Context(), u))
		upgrades = append(upgrades, u)
	}
	s.controller.Clusters = func(_ context.Context, key client.ObjectKey) (kubernetes.Interface, func(), error) {
		if key.Namespace == "tenant" {
			return open(), func() {}, nil
		}
		return s.managed, func() {}, s.away
	}
	return upgrades
}

// turn has the controller look once.
func (s *scene) turn(u *upgradev1.NodeUpgrade) ctrl.Result {
	result, err := s.controller.Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(u)})
	if err != nil {
		s.Errorf("%s: %v", u.Name, err)
	}
	return result
}

// TestSlowCluster: while the API server of one cluster keeps a request for a pod waiting, upgrades begin in another cluster.
func TestSlowCluster(t *testing.T) {
	s := newScene(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	slow := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w0"}})
	slow.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(asked)
		<-answer
		return false, nil, nil
	})
	u := s.tenant(1, func() kubernetes.Interface { return slow })[0]
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.turn(u) // it is owned
		s.turn(u)
	}()
	<-asked
	node, worker := s.upgrade("cp-1"), s.upgrade("worker")
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		for range 3 {
			s.turn(node)
			s.turn(worker)
		}
	}()
	select {
	case <-begun:
	case <-time.After(hung):
		t.Fatal("a cluster that does not answer holds up the upgrades of another")
	}
	if s.pod(node) == nil || s.pod(worker) == nil {
		t.Error("nothing was begun")
	}
	close(answer)
	<-ended
}

// TestTurnsOfNamespace: clusters of one namespace that do not answer leave workers to others.
func TestTurnsOfNamespace(t *testing.T) {
	s := newScene(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	slow := fake.NewClientset()
	upgrades := s.tenant(turnsPerNamespace+1, func() kubernetes.Interface {
		asked <- struct{}{}
		<-answer
		return slow
	})
	ended := make(chan struct{})
	for _, u := range upgrades {
		s.turn(u) // it is owned
	}
	for _, u := range upgrades[1:] {
		go func() {
			s.turn(u)
			ended <- struct{}{}
		}()
		<-asked
	}
	if again := s.turn(upgrades[0]).RequeueAfter; again == 0 {
		t.Error("one more is forgotten")
	}
	s.begun(s.upgrade("cp-1"))
	close(answer)
	for range upgrades[1:] {
		<-ended
	}
	go func() { <-asked }()
	if s.turn(upgrades[0]); len(s.controller.turns.count) != 0 {
		t.Errorf("turns are counted that have ended: %v", s.controller.turns.count)
	}
}

// meanwhile calls a function once, before it lists NodeUpgrades, of which it sees none.
type meanwhile struct {
	client.Client
	call func()
}

func (m *meanwhile) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*upgradev1.NodeUpgradeList); !is {
		return m.Client.List(ctx, list, options...)
	}
	if call := m.call; call != nil {
		m.call = nil
		call()
	}
	return nil
}

// TestBothBegin: two upgrades of a control plane's nodes do not begin at the same time, although neither sees the other.
func TestBothBegin(t *testing.T) {
	s := newScene(t)
	first, second := s.upgrade("cp-1"), s.upgrade("cp-2")
	s.turn(first)
	s.turn(second)
	cache := &meanwhile{Client: s.management}
	s.controller.Client = cache
	s.controller.APIReader = &meanwhile{Client: s.management, call: func() {
		if again := s.turn(first).RequeueAfter; again == 0 {
			t.Error("the other is forgotten")
		}
	}}
	s.turn(second)
	if s.pod(second) == nil || s.pod(first) != nil {
		t.Errorf("pods: %v, %v", s.pod(first), s.pod(second))
	}
}
