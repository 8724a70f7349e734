package certs

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestOwn: Cluster API's own secrets are controlled by the control plane, again when they lost
// it, and nobody else's are touched.
func TestOwn(t *testing.T) {
	pair, _ := pairs()
	cluster := clusterv1.ClusterSecretType
	stale, old, plain, elsewhere := owner, owner, owner, owner
	stale.UID, old.APIVersion, plain.Controller, elsewhere.Name = "before the move", "controlplane.cluster.x-k8s.io/v1alpha4", nil, "else-cp"
	kcp := []metav1.OwnerReference{owner}
	tests := []struct {
		name       string
		kind       corev1.SecretType
		owned, now []metav1.OwnerReference // now nil: as before
	}{
		{"lost its owner", cluster, nil, kcp},
		{"controlled already", cluster, kcp, nil},
		{"moved, the owner has another UID", cluster, []metav1.OwnerReference{stale}, kcp},
		{"written by an older version", cluster, []metav1.OwnerReference{old}, kcp},
		{"owned and not controlled", cluster, []metav1.OwnerReference{plain}, kcp},
		{"the owner's old and new UID", cluster, []metav1.OwnerReference{stale, plain}, kcp},
		{"made by the bootstrap provider", cluster, references("config*"), kcp},
		{"of a control plane that this one took the place of", cluster, []metav1.OwnerReference{elsewhere}, kcp},
		{"others stay owners", cluster, references("cluster", "config2*", "other"), references("cluster", "other", "kcp*")},
		{"controlled by what is none of Cluster API's", cluster, references("other*"), nil},
		{"the user's", corev1.SecretTypeOpaque, nil, nil},
		{"the user's, of the type for TLS", corev1.SecretTypeTLS, references("cluster"), nil},
		{"of another type, moved", corev1.SecretTypeOpaque, []metav1.OwnerReference{stale}, kcp},
	}
	for _, purpose := range []string{"ca", "etcd", "proxy", "sa", "kubeconfig"} {
		for _, test := range tests {
			s := given("demo-"+purpose, pair)
			s.Type, s.OwnerReferences, s.Labels = test.kind, test.owned, map[string]string{clusterv1.ClusterNameLabel: "demo"}
			c := newClient(t, s)
			before := secretOf(t, c, s.Name)
			want := test.now
			if want == nil {
				want = before.OwnerReferences
			}
			if disowned := read(t, c).Disowned; slices.Contains(disowned, purpose) != (test.now != nil) {
				t.Errorf("%s %s: disowned are %v", purpose, test.name, disowned)
			}
			for range 2 {
				must(t, Own(t.Context(), c, c, demo(), []string{purpose}, owner))
			}
			after := secretOf(t, c, s.Name)
			if !reflect.DeepEqual(after.OwnerReferences, want) || !reflect.DeepEqual(after.Data, before.Data) {
				t.Errorf("%s %s: owned by %+v, want %+v", purpose, test.name, after.OwnerReferences, want)
			}
			if test.now == nil && after.ResourceVersion != before.ResourceVersion {
				t.Errorf("%s %s: it was written", purpose, test.name)
			}
			if disowned := read(t, c).Disowned; slices.Contains(disowned, purpose) {
				t.Errorf("%s %s: still disowned", purpose, test.name)
			}
		}
	}
}

// TestOwnsNothing: neither what a label gives to another cluster, nor anything where the Cluster names
// another control plane than the one that asks, nor what is being deleted.
func TestOwnsNothing(t *testing.T) {
	orphan := func() *corev1.Secret {
		s := given("demo-ca", nil)
		s.Type, s.Labels = clusterv1.ClusterSecretType, map[string]string{clusterv1.ClusterNameLabel: "demo"}
		return s
	}
	labelled, leaving := orphan(), orphan()
	labelled.Labels[clusterv1.ClusterNameLabel] = "else"
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"example.com/wait"}, new(metav1.Now())
	elsewhere := demo()
	elsewhere.Spec.ControlPlaneRef.Name = "else-cp"
	for name, test := range map[string]struct {
		secret  *corev1.Secret
		cluster *clusterv1.Cluster
	}{"of another cluster": {labelled, demo()}, "of another control plane": {orphan(), elsewhere}, "being deleted": {leaving, demo()}} {
		c := newClient(t, test.secret)
		got, err := Read(t.Context(), c, test.cluster, small, owner)
		must(t, err)
		must(t, Own(t.Context(), c, c, test.cluster, []string{"ca"}, owner))
		if s := secretOf(t, c, "demo-ca"); len(got.Disowned) > 0 || len(s.OwnerReferences) > 0 {
			t.Errorf("%s: disowned %v, owned by %v", name, got.Disowned, s.OwnerReferences)
		}
	}
}

// TestOwnLosesARace: who wrote meanwhile is not overwritten.
func TestOwnLosesARace(t *testing.T) {
	s := given("demo-ca", nil)
	s.Type, s.Labels = clusterv1.ClusterSecretType, map[string]string{clusterv1.ClusterNameLabel: "demo"}
	plain := newClient(t, s)
	c := interceptor.NewClient(plain.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, inner client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			other := secretOf(t, inner, "demo-ca")
			other.OwnerReferences = references("other*")
			must(t, inner.Update(ctx, other))
			return inner.Patch(ctx, o, p, opts...)
		},
	})
	err := Own(t.Context(), c, c, demo(), []string{"ca"}, owner)
	if !apierrors.IsConflict(err) || errors.Unwrap(err) == nil {
		t.Errorf("error is %v, want a conflict", err)
	}
	if got := secretOf(t, plain, "demo-ca").OwnerReferences; !reflect.DeepEqual(got, references("other*")) {
		t.Errorf("owned by %v", got)
	}
}
