package nodeupgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
)

// crowd makes the nodes ready with 4 CPUs each, and puts pods on the worker. Pods are listed by their nodes, as an API server does.
func (s *scene) crowd(cpu string, pods int) {
	s.Helper()
	s.managed.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		all, err := s.managed.Tracker().List(action.GetResource(), corev1.SchemeGroupVersion.WithKind("Pod"), "")
		if err != nil {
			return true, nil, err
		}
		on, _ := action.(clienttesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("spec.nodeName")
		found := &corev1.PodList{}
		for _, p := range all.(*corev1.PodList).Items {
			if p.Spec.NodeName == on {
				found.Items = append(found.Items, p)
			}
		}
		return true, found, nil
	})
	for _, name := range []string{"cp-1", "cp-2", "cp-3", "worker"} {
		s.node(name, func(node *corev1.Node) {
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"),
				"pods": resource.MustParse("110")}
		})
	}
	for i := range pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", i)},
			Spec: corev1.PodSpec{NodeName: "worker"}}
		p.Spec.Containers = []corev1.Container{{Name: "c",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
		s.put(p)
	}
}

func (s *scene) node(name string, change func(*corev1.Node)) {
	s.Helper()
	node, err := s.managed.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	change(node)
	_, err = s.managed.CoreV1().Nodes().Update(s.Context(), node, metav1.UpdateOptions{})
	s.must(err)
}

// drained makes the NodeUpgrade of the worker, with a drain.
func (s *scene) drained(policy upgradev1.DrainPolicy) *upgradev1.NodeUpgrade {
	s.Helper()
	u := s.upgrade("worker")
	u.Spec.Drain.Policy = policy
	s.must(s.management.Update(s.Context(), u))
	return u
}

// drains reports whether the pod of an upgrade drains the node.
func drains(pod *corev1.Pod) bool {
	for _, c := range append(append([]corev1.Container(nil), pod.Spec.InitContainers...), pod.Spec.Containers...) {
		for _, argument := range c.Args {
			if argument == steps.Drain.Command() {
				return true
			}
		}
	}
	return false
}

// TestRoom: a node whose pods have room elsewhere is drained. Where they have none, best effort does not drain and says so.
func TestRoom(t *testing.T) {
	for _, test := range []struct {
		name, cpu string
		pods      int
		taint     bool
		drains    bool
		says      string
	}{
		{"nothing to evict", "1", 0, false, true, ""},
		{"room on three nodes", "3", 3, false, true, ""},
		{"one too many", "3", 4, false, false,
			"the node is not drained: 1 of the 4 pods that would leave have no room on another node: default/web-3"},
		{"too large for any", "5", 5, false, false,
			"5 of the 5 pods that would leave have no room on another node: default/web-0, default/web-1, default/web-2 and 2 more"},
		{"nodes with a taint", "1", 1, true, false, "1 of the 1 pods"},
	} {
		s := newScene(t)
		s.crowd(test.cpu, test.pods)
		for _, name := range []string{"cp-1", "cp-2", "cp-3"} {
			s.node(name, func(node *corev1.Node) {
				if test.taint {
					node.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
				}
			})
		}
		u := s.drained("")
		pod := s.begun(u)
		u = s.read(u)
		c := conditions.Get(u, string(steps.Drain))
		if drains(pod) != test.drains || c == nil || strings.Contains(c.Message, "not drained") == test.drains ||
			!strings.Contains(c.Message, test.says) {
			t.Errorf("%s: drains %t, %+v", test.name, drains(pod), c)
		}
	}
}

// TestRoomOfOnlyNode: the only node of a cluster is not drained, and says so where a drain is wanted.
func TestRoomOfOnlyNode(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"cp-2", "cp-3", "worker"} {
		s.must(s.managed.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	u := s.upgrade("cp-1")
	u.Spec.Drain.Policy = upgradev1.DrainRequired
	s.must(s.management.Update(t.Context(), u))
	pod := s.begun(u)
	if c := conditions.Get(s.read(u), string(steps.Drain)); drains(pod) || c == nil || c.Message != "the node is not drained: it is the "+
		"only node of the cluster" {
		t.Errorf("%t, %+v", drains(pod), c)
	}
}

// TestRoomRequired: a required drain waits for room before it evicts anything, and fails when its time is over.
func TestRoomRequired(t *testing.T) {
	s := newScene(t)
	s.crowd("3", 4)
	u := s.drained(upgradev1.DrainRequired)
	s.look(u)
	u = s.look(u)
	s.expect(u, upgradev1.WaitingForRoom, "1 of the 4 pods that would leave have no room on another node: default/web-3")
	if s.pod(u) != nil {
		t.Fatal("it began without room")
	}
	conditions.Get(u, upgradev1.Progressing).LastTransitionTime = metav1.NewTime(time.Now().Add(-301 * time.Second))
	s.must(s.management.Status().Update(t.Context(), u))
	s.expect(s.look(u), upgradev1.Failed, "for more than 5m0s; nothing was changed on the node")

	s = newScene(t)
	s.crowd("3", 4)
	u = s.drained(upgradev1.DrainRequired)
	s.look(u)
	s.look(u)
	s.must(s.managed.CoreV1().Pods("default").Delete(t.Context(), "web-0", metav1.DeleteOptions{}))
	if pod := s.begun(u); !drains(pod) {
		t.Error("it does not drain with room")
	}
}

// TestRoomOfBegunDrain: a drain that was begun goes on, although the pods that it evicted took the room of those that are left: the node
// must be uncordoned.
func TestRoomOfBegunDrain(t *testing.T) {
	s := newScene(t)
	s.crowd("5", 1)
	u := s.drained(upgradev1.DrainBestEffort)
	u.UID = "uid-of-upgrade"
	s.must(s.management.Update(t.Context(), u))
	s.node("worker", func(node *corev1.Node) {
		node.Annotations = map[string]string{steps.CordonedAnnotation: "uid-of-upgrade"}
	})
	if pod := s.begun(u); !drains(pod) {
		t.Error("the drain that was begun does not go on")
	}
}

// TestRoomOfLargeCluster: a bounded part of a large cluster is read; beyond it there is taken to be room.
func TestRoomOfLargeCluster(t *testing.T) {
	s := newScene(t)
	s.crowd("3", 1)
	for i := range mostNodesAsked + 5 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a-%d", i)}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		_, err := s.managed.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		s.must(err)
	}
	s.managed.ClearActions()
	u := s.drained("")
	pod := s.begun(u)
	lists := 0
	for _, action := range s.managed.Actions() {
		if action.Matches("list", "pods") {
			lists++
		}
	}
	if !drains(pod) || lists > mostNodesAsked+1 || ptr.Deref(s.read(u).Status.Attempts, 0) != 1 {
		t.Errorf("drains %t, %d lists", drains(pod), lists)
	}
}
