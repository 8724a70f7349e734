package kubeadm

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestInitialised: what kubeadm init writes last.
func TestInitialised(t *testing.T) {
	configMap := func(namespace, name string) runtime.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	proxy := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"}}
	dns := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}}
	config, info := configMap("kube-system", "kubeadm-config"), configMap("kube-public", "cluster-info")
	tests := []struct {
		name    string
		objects []runtime.Object
		tokens  bool
		want    string
	}{
		{"nothing yet", nil, true, "kubeadm init has not written the ConfigMap kubeadm-config in kube-system yet"},
		{"the configuration alone", []runtime.Object{config}, true, "kubeadm init has not written the ConfigMap cluster-info in kube-public yet"},
		{"both", []runtime.Object{config, info}, true, ""},
		{"cluster-info alone", []runtime.Object{info}, true, "kubeadm init has not written the ConfigMap kubeadm-config in kube-system yet"},
		{"without the phase that lets others join", []runtime.Object{config}, false, ""},
		{"an add-on, which comes last, without cluster-info", []runtime.Object{config, proxy}, true, ""},
		{"the other add-on", []runtime.Object{config, dns}, true, ""},
		{"add-ons alone", []runtime.Object{proxy, dns}, true, "kubeadm init has not written the ConfigMap kubeadm-config in kube-system yet"},
	}
	for _, test := range tests {
		got, err := Initialised(t.Context(), fake.NewClientset(test.objects...), test.tokens)
		if err != nil || got != test.want {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

// TestLook asks a cluster of kubeadm v1.35 whose files were spoilt.
func TestLook(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "coredns", Image: "registry.k8s.io/coredns/coredns:v1.13.1"}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"}}
	want := Wanted{Version: "v1.36.3"}
	want.Configuration.DNS.ImageTag = "v1.11.1"
	set := fake.NewClientset(deployment, config)
	got, err := Look(t.Context(), set, want)
	if err != nil || !strings.Contains(got.Permissions, "ClusterRoleBinding kubeadm:apiserver-kubelet-client is missing") ||
		!strings.HasPrefix(got.ConfigUnusable, "ConfigMap kubeadm-config has no ClusterConfiguration") || got.Config != "" || got.Addons != "" ||
		!strings.Contains(got.AddonsRefused, "version 1.11.1 is older than 1.13.1") {
		t.Errorf("behind %+v, %v", got, err)
	}
	for _, resource := range []string{"clusterrolebindings", "configmaps", "deployments"} {
		broken := fake.NewClientset(deployment, config)
		broken.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, context.DeadlineExceeded
		})
		if got, err := Look(t.Context(), broken, want); err == nil || got != (Behind{}) {
			t.Errorf("%s cannot be read: %+v, %v", resource, got, err)
		}
	}
}
