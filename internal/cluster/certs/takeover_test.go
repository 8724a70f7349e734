package certs

import (
	"context"
	"errors"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// references to those who may own a secret; a star makes one the controller.
func references(words ...string) []metav1.OwnerReference {
	kinds := map[string]metav1.OwnerReference{
		"config":  {APIVersion: "bootstrap.cluster.x-k8s.io/v1beta1", Kind: "KubeadmConfig", Name: "m1", UID: "k1"},
		"config2": {APIVersion: "bootstrap.cluster.x-k8s.io/v1beta2", Kind: "KubeadmConfig", Name: "m2", UID: "k2"},
		"fake":    {APIVersion: "example.com/v1", Kind: "KubeadmConfig", Name: "m1", UID: "k3"},
		"cluster": {APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "demo", UID: "c1"},
		"other":   {APIVersion: "example.com/v1", Kind: "Other", Name: "o", UID: "o1"},
	}
	var list []metav1.OwnerReference
	for _, word := range words {
		if word == "kcp*" {
			list = append(list, owner)
			continue
		}
		ref := kinds[word]
		if word[len(word)-1] == '*' {
			ref = kinds[word[:len(word)-1]]
			ref.Controller = &isController
		}
		list = append(list, ref)
	}
	return list
}

func TestTakeOver(t *testing.T) {
	cluster := clusterv1.ClusterSecretType
	tests := []struct {
		name       string
		secret     string
		kind       corev1.SecretType
		owned, now []string // now nil: as before
	}{
		{"made by the bootstrap provider", "demo-ca", cluster, []string{"config*"}, []string{"kcp*"}},
		{"so was etcd's", "demo-etcd", cluster, []string{"config*"}, []string{"kcp*"}},
		{"and the proxy's", "demo-proxy", cluster, []string{"config*"}, []string{"kcp*"}},
		{"and the key of service accounts", "demo-sa", cluster, []string{"config*"}, []string{"kcp*"}},
		{"and the kubeconfig", "demo-kubeconfig", cluster, []string{"config*"}, []string{"kcp*"}},
		{"others stay", "demo-ca", cluster, []string{"cluster", "config*", "other"}, []string{"cluster", "other", "kcp*"}},
		{"given up by the configuration already", "demo-ca", cluster, []string{"kcp*", "config"}, []string{"kcp*"}},
		{"of another machine's configuration", "demo-ca", cluster, []string{"config2*"}, nil},
		{"of something that has the same name", "demo-ca", cluster, []string{"fake*"}, nil},
		{"controlled by somebody else", "demo-ca", cluster, []string{"config", "other*"}, nil},
		{"the user's", "demo-ca", corev1.SecretTypeTLS, nil, nil},
		{"the user's, for the Cluster", "demo-ca", cluster, []string{"cluster"}, nil},
		{"the control plane's", "demo-ca", cluster, []string{"kcp*"}, nil},
		{"the Cluster's kubeconfig", "demo-kubeconfig", cluster, []string{"cluster"}, []string{"cluster", "kcp*"}},
		{"the Cluster's kubeconfig, taken over already", "demo-kubeconfig", cluster, []string{"cluster", "kcp*"}, nil},
		{"the user's kubeconfig", "demo-kubeconfig", corev1.SecretTypeOpaque, []string{"cluster"}, nil},
		{"a kubeconfig of nobody's", "demo-kubeconfig", cluster, nil, nil},
		{"no secret of the contract's", "demo-other", cluster, []string{"config*"}, nil},
	}
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m1", UID: "k1"}}
	for _, test := range tests {
		s := given(test.secret, map[string]string{"x": "y"})
		s.Type, s.OwnerReferences = test.kind, references(test.owned...)
		c := newClient(t, s)
		before := secretOf(t, c, test.secret)
		want := references(test.now...)
		if test.now == nil {
			want = before.OwnerReferences
		}
		for range 2 {
			must(t, TakeOver(t.Context(), c, c, demo(), config, owner))
		}
		after := secretOf(t, c, test.secret)
		if !reflect.DeepEqual(after.OwnerReferences, want) || !reflect.DeepEqual(after.Data, before.Data) {
			t.Errorf("%s: owned by %+v, want %+v", test.name, after.OwnerReferences, want)
		}
		if test.now == nil && after.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s: it was written", test.name)
		}
	}
}

// TestTakeOverFails: a secret that cannot be written stops it, and is named.
func TestTakeOverFails(t *testing.T) {
	s := given("demo-ca", nil)
	s.OwnerReferences = references("config*")
	wrong := errors.New("not now")
	c := interceptor.NewClient(newClient(t, s).(client.WithWatch),
		interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return wrong
		}})
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
	if err := TakeOver(t.Context(), c, c, demo(), config, owner); !errors.Is(err, wrong) {
		t.Errorf("error is %v", err)
	}
}
