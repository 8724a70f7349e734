package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// TestMatrix: each pinned version of Kubernetes and etcd is run by a test, each upgrade of Kubernetes in both ways, and each etcd but the
// oldest comes from the one before it. The page says what the tests declare.
func TestMatrix(t *testing.T) {
	d, err := readDeclared(root)
	if err != nil {
		t.Fatal(err)
	}
	runs := func(of, way, version, from string) {
		if !slices.ContainsFunc(d.shown, func(s shown) bool { return s.of == of && s.way == way && s.version == version && s.from == from }) {
			t.Errorf("no test declares that %s %s is %s, from %q", of, version, way, from)
		}
	}
	for _, v := range artifacts.Versions() {
		runs("kubernetes", "created", v, "")
	}
	for _, u := range artifacts.Upgrades() {
		runs("kubernetes", "replaced", u.To, u.From)
		runs("kubernetes", "in-place", u.To, u.From)
	}
	etcds, err := artifacts.EtcdVersions()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range etcds {
		runs("etcd", "agrees", v, "")
		if i+1 < len(etcds) {
			runs("etcd", "replaced", v, etcds[i+1])
			runs("etcd", "replaced", etcds[i+1], v)
		}
	}
	made, err := matrix(root)
	if err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(filepath.Join(root, made.path)); err != nil || string(written) != made.text {
		t.Errorf("%s differs from what tests declare: run make generate, %v", made.path, err)
	}
}

// TestDeclarations: what a test declares that cannot be meant is an error that says what is valid, and so is a life that names versions and
// declares nothing.
func TestDeclarations(t *testing.T) {
	const begin, end = "package e2e\nvar older, newer = cmp.Or(env, \"v1.35.4\"), cmp.Or(env, \"v1.36.3\")\nvar lives = []life{{\"one\", " +
		"one}}\n", "func one() { up(older) }\n"
	for declares, want := range map[string]string{
		"":                                  "one names versions of Kubernetes: must declare what it shows",
		"kubernetes replaced older>newer":   "",
		"kubernetes created newer":          "",
		"etcd replaced 3.5.35>3.6.16":       "",
		"kubernetes replaced":               "must be KIND WAY VERSIONS",
		"kubernetes upgraded older>newer":   "must be KIND WAY VERSIONS",
		"containerd created v1":             "must be KIND WAY VERSIONS",
		"kubernetes replaced older>v1.99.0": `invalid version "v1.99.0": must be v1.`,
		"etcd created newer":                `invalid version "newer": must be 3.`,
		"etcd replaced each":                `invalid versions "each" of etcd replaced`,
	} {
		text := begin
		if declares != "" {
			text += directive + declares + "\n"
		}
		folder := t.TempDir()
		for _, sub := range []string{"test", "internal"} {
			if err := os.Mkdir(filepath.Join(folder, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := parser.ParseFile(token.NewFileSet(), "", text+end, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "test", "one_test.go"), []byte(text+end), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := readDeclared(folder)
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", declares, err, want)
		case want == "" && (err != nil || len(d.shown) != 1 || d.shown[0].test != "one"):
			t.Errorf("%s: %+v, %v", declares, d.shown, err)
		}
	}
}
