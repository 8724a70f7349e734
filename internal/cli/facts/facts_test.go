package facts

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// kubectl runs as root in a local environment: what the secret says must not become a command there.
func TestKubeconfigWithACommandIsRefused(t *testing.T) {
	key := client.ObjectKey{Namespace: "default", Name: "demo"}
	for _, user := range []string{"exec: {command: sh}", "tokenFile: /root/.ssh/id"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-kubeconfig"}}
		secret.Data = map[string][]byte{"value": []byte(
			`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {` + user + `}}]}`)}
		c := fake.NewClientBuilder().WithObjects(secret).Build()
		field, _, _ := strings.Cut(user, ":")
		if _, err := Kubeconfig(t.Context(), c, key); err == nil || !strings.Contains(err.Error(), "field "+field+" is refused") {
			t.Errorf("%s: %v", user, err)
		}
		if _, err := Look(t.Context(), c, key); err == nil || !strings.Contains(err.Error(), "field "+field+" is refused") {
			t.Errorf("%s: %v", user, err)
		}
	}
}
