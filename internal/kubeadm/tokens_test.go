package kubeadm

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// TestDropTokens: of the bootstrap tokens only those go that were made for machines that have joined.
func TestDropTokens(t *testing.T) {
	token := func(id, description string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + id},
			Type:       bootstrapapi.SecretTypeBootstrapToken,
			Data:       map[string][]byte{bootstrapapi.BootstrapTokenIDKey: []byte(id), bootstrapapi.BootstrapTokenDescriptionKey: []byte(description)},
		}
	}
	other := token("opaque", generatedToken)
	other.Type = corev1.SecretTypeOpaque
	set := fake.NewClientset(token("joined", generatedToken), token("coming", generatedToken), token("users", "for my own machines"), other)
	if err := DropTokens(t.Context(), set, map[string]bool{"joined": true, "users": true, "opaque": true, "long-gone": true}); err != nil {
		t.Fatal(err)
	}
	left, err := set.CoreV1().Secrets(metav1.NamespaceSystem).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range left.Items {
		names = append(names, string(s.Data[bootstrapapi.BootstrapTokenIDKey]))
	}
	slices.Sort(names)
	if want := []string{"coming", "opaque", "users"}; !slices.Equal(names, want) {
		t.Errorf("left are %v, want %v", names, want)
	}
}
