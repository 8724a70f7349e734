// Package vulncheck tests what `make vulncheck` makes of govulncheck's answers.
package vulncheck

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs hack/vulncheck.sh with a program in place of govulncheck, over two modules of which the second only pins a tool.
func run(t *testing.T, program string) (code int, out string) {
	t.Helper()
	folder := t.TempDir()
	fake := filepath.Join(folder, "govulncheck")
	for file, text := range map[string]string{fake: "#!/bin/bash\n" + program, filepath.Join(folder, "a/main.go"): "package main",
		filepath.Join(folder, "b/go.mod"): "module b"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("../../hack/vulncheck.sh", fake, filepath.Join(folder, "a"), filepath.Join(folder, "b"))
	c.Env = append(os.Environ(), "GOVULNDB=https://db.example.com")
	all, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), strings.ReplaceAll(string(all), folder+"/", "")
}

func TestVulncheck(t *testing.T) {
	for name, test := range map[string]struct {
		program string
		code    int
		out     []string
		not     string
	}{
		"nothing": {"echo found nothing: $3 $4 $5 $6", 0, []string{"--- a (./...)", "--- b (-scan package tool)",
			"-db https://db.example.com ./..."}, "cannot be reached"},
		"found in the first": {`[[ $2 == */b ]] || { echo GO-1; exit 3; }`, 3, []string{"GO-1", "--- b"}, "cannot be reached"},
		"no database": {`echo 'govulncheck: fetching vulnerabilities: Get "https://db.example.com/index/modules.json.gz": dial tcp: lookup ` +
			`db.example.com: no such host' >&2; exit 1`, 2,
			[]string{"the vulnerability database https://db.example.com cannot be reached: nothing was checked", "no such host"}, "---"},
		"broken": {"echo does not compile; exit 1", 1, []string{"a was not checked", "does not compile"}, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := run(t, test.program)
			if code != test.code || strings.Contains(out, test.not) {
				t.Errorf("code %d, want %d:\n%s", code, test.code, out)
			}
			for _, want := range test.out {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing:\n%s", want, out)
				}
			}
		})
	}
}

// TestNotInCI: CI does not fail because of the Internet, or of what was found out about a module since yesterday.
func TestNotInCI(t *testing.T) {
	for _, file := range []string{"hack/test.sh", ".ci/run"} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "vulncheck") {
			t.Errorf("%s runs vulncheck", file)
		}
	}
}
