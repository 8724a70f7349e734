package workload

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestKubeconfigRunsNothing: a secret neither runs commands as the manager nor sends files of its host away.
func TestKubeconfigRunsNothing(t *testing.T) {
	folder := t.TempDir()
	mark, token := filepath.Join(folder, "ran"), filepath.Join(folder, "token")
	must(t, os.WriteFile(token, []byte("the manager's own token"), 0o600))
	var asked atomic.Bool
	foreign := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(foreign.Close)
	for name, fields := range map[string][2]string{
		"exec": {"", fmt.Sprintf(`exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: `+
			`touch, args: [%q]}`, mark)},
		"tokenFile":                {"", fmt.Sprintf(`tokenFile: %q`, token)},
		"insecure-skip-tls-verify": {", insecure-skip-tls-verify: true", "token: t"},
	} {
		t.Run(name, func(t *testing.T) {
			data := fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q%s}}], users: [{name: u, user: {%s}}]}`, foreign.URL, fields[0], fields[1])
			c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(data)).Build(), quick)
			v, _ := await(t, c, 5*time.Second, "refused", func(v View) bool { return strings.Contains(v.Why, "field "+name+" is refused") })
			if v.Reachable || !strings.Contains(v.Why, "secret ns/demo-kubeconfig") {
				t.Errorf("reachable %t, why %q", v.Reachable, v.Why)
			}
		})
	}
	if _, err := os.Stat(mark); err == nil || asked.Load() {
		t.Errorf("a command ran: %t; the server was asked: %t", err == nil, asked.Load())
	}
}
