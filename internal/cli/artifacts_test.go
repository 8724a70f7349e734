package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/artifacts/cache"
	"github.com/quorate/quorate/internal/local/embed"
)

// TestListArtifacts: what is not built is listed with the command that builds it, versions of Kubernetes and the providers.
func TestListArtifacts(t *testing.T) {
	t.Setenv("QUORATE_CACHE", t.TempDir())
	out, errors, code := run(t, "", "artifacts", "list")
	if code != command.ExitOK || errors != "" {
		t.Fatalf("exit code %d, %q", code, errors)
	}
	for _, what := range append(artifacts.Versions(), "providers") {
		build := map[bool]string{true: "--providers", false: what}[what == "providers"]
		if !regexp.MustCompile(`(?m)^` + what + ` +no, [0-9]+ products are missing +- +.quorate artifacts build ` + build +
			`. builds them$`).MatchString(out) {
			t.Errorf("nothing of %s in\n%s", what, out)
		}
	}
	out, _, _ = run(t, "", "artifacts", "list", "-o", "json")
	var sets []struct {
		Kubernetes string
		Missing    []string
	}
	if err := json.Unmarshal([]byte(out), &sets); err != nil {
		t.Fatal(err)
	}
	if n := len(artifacts.Versions()); len(sets) != n+1 || sets[0].Kubernetes != artifacts.Versions()[0] || sets[n].Kubernetes != "" ||
		len(sets[n].Missing) == 0 {
		t.Errorf("listed: %+v", sets)
	}
}

func TestPruneArtifacts(t *testing.T) {
	root := t.TempDir()
	t.Setenv("QUORATE_CACHE", root)
	product := func(name string) string {
		p := cache.Product{Name: name, Version: "v1", Inputs: cache.Sum("old"), Host: cache.Sum("any")}
		folder := filepath.Join(root, p.Folder())
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "manifest.json"), fmt.Sprintf(`{"product": %q, "version": "v1", "inputs": %q, "host": %q}`, name, p.Inputs,
			p.Host))
		return folder
	}
	goes, management, machine := product("etcd"), product("management"), product("machine")
	there := func() (found []bool) {
		for _, folder := range []string{goes, management, machine} {
			_, err := os.Stat(folder)
			found = append(found, err == nil)
		}
		return found
	}
	// Another environment than that of --state uses two of them: the one for itself, the other for a machine that is stopped.
	state := t.TempDir()
	if err := (embed.Environment{Network: embed.DefaultNetwork, Artifacts: artifacts.Set{Management: management}}).Save(state); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(state, "machines", "demo-cp-1", "machine.json")
	if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, record, fmt.Sprintf(`{"spec": {"name": "demo-cp-1", "address": "172.30.1.1", "artifacts": {"machine": %q}}, "stopped": true}`,
		machine))
	if err := artifacts.AddUser(artifacts.Options{}, state); err != nil {
		t.Fatal(err)
	}

	prune := func(want string, stays ...bool) {
		t.Helper()
		var args []string
		if strings.Contains(want, "would be") {
			args = []string{"--dry-run"}
		}
		out, errors, code := run(t, "", append([]string{"artifacts", "prune"}, args...)...)
		if code != command.ExitOK || errors != "" || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q, want %q in %q", code, errors, want, out)
		}
		if got := there(); fmt.Sprint(got) != fmt.Sprint(stays) {
			t.Errorf("%s: there are %v, want %v", want, got, stays)
		}
	}
	prune("1 product would be removed: ", true, true, true)
	prune(filepath.Base(goes)+"  ", false, true, true)
	prune("0 products removed: 0 bytes", false, true, true)

	// What cannot be known is not removed.
	write(t, filepath.Join(state, "environment.json"), "{")
	if _, errors, code := run(t, "", "artifacts", "prune"); code != command.ExitFailed || !strings.Contains(errors, "environment.json") {
		t.Errorf("of a broken environment: exit code %d, %q", code, errors)
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	prune("2 products removed: ", false, false, false)
}
