package kubeadm

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// etcdPod returns the object of a static pod of etcd.
func etcdPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "etcd-" + node, UID: "uid-of-etcd",
			Labels:          map[string]string{"component": "etcd", "tier": "control-plane"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: node}}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// TestIsEtcdPod: what kubeadm reads, and a kubelet made, is a pod of etcd.
func TestIsEtcdPod(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"of etcd":           {func(*corev1.Pod) {}, true},
		"of the API server": {func(p *corev1.Pod) { p.Labels["component"] = "kube-apiserver" }, false},
		"of no tier":        {func(p *corev1.Pod) { delete(p.Labels, "tier") }, false},
		"a person's":        {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"of a StatefulSet":  {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "StatefulSet" }, false},
	} {
		p := etcdPod("cp-1")
		test.change(p)
		if got := IsEtcdPod(p); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestDropPods: the pods that are named go at once, for no kubelet confirms their end; all others stay.
func TestDropPods(t *testing.T) {
	set := fake.NewClientset(etcdPod("old-1"), etcdPod("old-2"), etcdPod("new-1"))
	if err := DropPods(t.Context(), set, []*corev1.Pod{etcdPod("old-1"), etcdPod("gone"), etcdPod("old-2")}); err != nil {
		t.Fatal(err)
	}
	left, err := set.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || left.Items[0].Name != "etcd-new-1" {
		t.Errorf("left are %+v", left.Items)
	}
	deleted := 0
	for _, action := range set.Actions() {
		d, is := action.(clienttesting.DeleteActionImpl)
		if !is {
			continue
		}
		deleted++
		o := d.DeleteOptions
		if o.GracePeriodSeconds == nil || *o.GracePeriodSeconds != 0 || o.Preconditions == nil || *o.Preconditions.UID != "uid-of-etcd" {
			t.Errorf("pod %s is deleted with %+v", d.Name, o)
		}
	}
	if deleted != 3 {
		t.Errorf("%d pods were deleted, want 3", deleted)
	}
}

// TestDropPodsFails: that a pod cannot be deleted is said, but for one in whose place another is by now.
func TestDropPodsFails(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("forbidden"), "deleting pod etcd-old-1: forbidden"},
		{apierrors.NewConflict(corev1.Resource("pods"), "etcd-old-1", errors.New("another UID")), ""},
	} {
		set := fake.NewClientset(etcdPod("old-1"))
		set.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
		err := DropPods(t.Context(), set, []*corev1.Pod{etcdPod("old-1")})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("the error is %v, want %q", err, test.want)
		}
	}
}
