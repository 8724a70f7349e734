package kubeadm

import (
	"context"
	"os"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// TestPermissionsAllow asks a real API server: what the certificate with which API servers ask kubelets may do as kubeadm v1.36 signs it,
// in no group, and what members of kubeadm's own group may do.
func TestPermissionsAllow(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: make unit builds what it names")
	}
	env := &envtest.Environment{}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := authorizationv1.SubjectAccessReviewSpec{User: "kube-apiserver-kubelet-client", Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "nodes", Subresource: "proxy", Name: "n"}}
	admin := authorizationv1.SubjectAccessReviewSpec{User: "kubernetes-admin",
		Groups:             []string{"kubeadm:cluster-admins", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "nodes", Name: "n"}}
	may := func(spec authorizationv1.SubjectAccessReviewSpec) bool {
		t.Helper()
		review, err := c.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: spec},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	if may(kubelet) || may(admin) {
		t.Fatal("they may already: this shows nothing")
	}
	want := Wanted{Version: "v1.36.3"}
	for range 2 {
		if err := WritePermissions(t.Context(), c, want); err != nil {
			t.Fatal(err)
		}
	}
	if behind, err := PermissionsBehind(t.Context(), c, want); behind != "" || err != nil {
		t.Errorf("once written they are missing: %q, %v", behind, err)
	}
	// The API server learns of bindings by a watch of its own.
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return may(kubelet) && may(admin), nil
	})
	if err != nil {
		t.Errorf("they may not: %v", err)
	}
}
