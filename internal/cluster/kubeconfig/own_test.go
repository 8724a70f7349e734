package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const two = `apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: one, cluster: {server: "https://one:6443"}}
- {name: two, cluster: {server: "https://two:6443"}}
users:
- {name: me, user: {token: t}}
contexts:
- {name: one, context: {cluster: one, user: me}}
- {name: two, context: {cluster: two, user: me}}
`

// TestOwn: a file and a context that are named come before the environment's and the current one.
func TestOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(two), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ environment, file, context, host, wrong string }{
		{"", file, "", "https://one:6443", ""},
		{"", file, "two", "https://two:6443", ""},
		{file, "", "", "https://one:6443", ""},
		{"/nowhere", file, "", "https://one:6443", ""},
		{"", file, "three", "", "three"},
		{file, "/nowhere", "", "", "/nowhere"},
	} {
		t.Setenv("KUBECONFIG", test.environment)
		config, err := Own(test.file, test.context)
		switch {
		case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)):
			t.Errorf("%+v: %v", test, err)
		case test.wrong == "" && (err != nil || config.Host != test.host || config.BearerToken != "t"):
			t.Errorf("%+v: %+v, %v", test, config, err)
		}
	}
}
