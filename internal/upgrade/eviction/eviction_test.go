package eviction

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/core/steps"
)

// pod returns one that requests CPUs.
func pod(name, cpu string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}}}
	p.Spec.Containers = []corev1.Container{{Name: "c",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
	for _, c := range change {
		c(&p)
	}
	return p
}

// node returns one that is ready and has 4 CPUs and 10 pods.
func node(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "n", "disk": "fast"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10")}
	for _, c := range change {
		c(n)
	}
	return n
}

func names(pods []*corev1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

// TestHomeless: pods that need room elsewhere are those that a drain evicts and that still run, the largest first.
func TestHomeless(t *testing.T) {
	ownedBy := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: ptr.To(true)}}
		}
	}
	pods := []corev1.Pod{
		pod("small", "1"), pod("large", "2", ownedBy("ReplicaSet")), pod("daemon", "1", ownedBy("DaemonSet")),
		pod("static", "1", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("over", "1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("daemon-over", "1", ownedBy("DaemonSet"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("leaving", "1", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }),
		pod("upgrader", "1", func(p *corev1.Pod) {
			p.Namespace, p.Labels = "kube-system", map[string]string{steps.PodLabel: steps.PodLabelValue}
		}),
	}
	if got := names(Homeless(pods)); got != "large small" {
		t.Errorf("need room: %s", got)
	}
	left := ""
	for i := range pods {
		if Leaves(&pods[i]) {
			left += " " + pods[i].Name
		}
	}
	if left != " small large over daemon-over leaving" {
		t.Errorf("leave:%s", left)
	}
}

// TestPlace: what a node has no room for, because of what it is, what runs there, and what pods want.
func TestPlace(t *testing.T) {
	antiAffinity := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
			}}}
	}
	port := func(ip string, protocol corev1.Protocol) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, HostIP: ip, Protocol: protocol}}
		}
	}
	elsewhere := func(p *corev1.Pod) { p.Namespace = "other" }
	selects := func(disk string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": disk} }
	}
	tainted := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: effect}} }
	}
	tolerates := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	}
	many := make([]corev1.Pod, 10)
	for i := range many {
		many[i] = pod(fmt.Sprint("there-", i), "0")
	}
	over := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	for name, test := range map[string]struct {
		node  *corev1.Node
		there []corev1.Pod
		pods  []corev1.Pod
		left  string
	}{
		"room":                     {node(), nil, []corev1.Pod{pod("a", "3"), pod("b", "1")}, ""},
		"one too many":             {node(), nil, []corev1.Pod{pod("a", "3"), pod("b", "2"), pod("c", "1")}, "b"},
		"full":                     {node(), []corev1.Pod{pod("x", "4")}, []corev1.Pod{pod("a", "1"), pod("b", "0")}, "a"},
		"full of what is over":     {node(), []corev1.Pod{pod("x", "4", over)}, []corev1.Pod{pod("a", "1")}, ""},
		"as many as may run":       {node(), many, []corev1.Pod{pod("a", "0")}, "a"},
		"nothing said of its size": {node(func(n *corev1.Node) { n.Status.Allocatable = nil }), nil, []corev1.Pod{pod("a", "0")}, "a"},
		"what no node has": {node(), nil, []corev1.Pod{pod("a", "0", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		})}, "a"},
		"cordoned":  {node(func(n *corev1.Node) { n.Spec.Unschedulable = true }), nil, []corev1.Pod{pod("a", "1")}, "a"},
		"not ready": {node(func(n *corev1.Node) { n.Status.Conditions = nil }), nil, []corev1.Pod{pod("a", "1")}, "a"},
		"going": {node(func(n *corev1.Node) { n.DeletionTimestamp = ptr.To(metav1.Now()) }), nil,
			[]corev1.Pod{pod("a", "1")}, "a"},
		"a taint": {node(tainted(corev1.TaintEffectNoSchedule)), nil, []corev1.Pod{pod("a", "1"), pod("b", "1", tolerates)},
			"a"},
		"a taint that evicts":         {node(tainted(corev1.TaintEffectNoExecute)), nil, []corev1.Pod{pod("a", "1")}, "a"},
		"a taint that only asks":      {node(tainted(corev1.TaintEffectPreferNoSchedule)), nil, []corev1.Pod{pod("a", "1")}, ""},
		"a selector":                  {node(), nil, []corev1.Pod{pod("a", "1", selects("fast")), pod("b", "1", selects("slow"))}, "b"},
		"keeps away from another":     {node(), []corev1.Pod{pod("x", "0")}, []corev1.Pod{pod("a", "1", antiAffinity)}, "a"},
		"another keeps it away":       {node(), []corev1.Pod{pod("x", "0", antiAffinity)}, []corev1.Pod{pod("a", "1")}, "a"},
		"keeps away from one another": {node(), nil, []corev1.Pod{pod("a", "1", antiAffinity), pod("b", "1", antiAffinity)}, "b"},
		"of another namespace":        {node(), []corev1.Pod{pod("x", "0", elsewhere)}, []corev1.Pod{pod("a", "1", antiAffinity)}, ""},
		"the same port": {node(), []corev1.Pod{pod("x", "0", port("", ""))},
			[]corev1.Pod{pod("a", "1", port("10.0.0.1", corev1.ProtocolTCP))}, "a"},
		"the same port, another way": {node(), []corev1.Pod{pod("x", "0", port("", corev1.ProtocolUDP))},
			[]corev1.Pod{pod("a", "1", port("", ""))}, ""},
		"the same port, elsewhere": {node(), []corev1.Pod{pod("x", "0", port("10.0.0.2", ""))},
			[]corev1.Pod{pod("a", "1", port("10.0.0.1", ""))}, ""},
		"the same port of all of them": {node(), []corev1.Pod{pod("x", "0", port("0.0.0.0", ""))}, []corev1.Pod{pod("a", "1", port("::", ""))},
			"a"},
	} {
		var pods []*corev1.Pod
		for i := range test.pods {
			pods = append(pods, &test.pods[i])
		}
		if got := names(Place(test.node, test.there, pods)); got != test.left {
			t.Errorf("%s: no room for %q, want %q", name, got, test.left)
		}
	}
}
