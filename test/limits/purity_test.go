package limits

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const ours = module + "internal/"

// pure are the packages that decide and compare, with all that each may import: types, text
// and arithmetic. What is not named here, a client, a logger, randomness, a file, stays out.
var pure = map[string]string{
	"internal/core/quorum": "",
	"internal/core/backup": "bytes cmp crypto/sha256 encoding/hex encoding/json errors fmt hash/fnv maps slices strings time time/tzdata " +
		"github.com/robfig/cron/v3 " + ours + "core/version",
	"internal/core/version": "cmp fmt regexp strconv strings",
	"internal/core/windows": "fmt strings time time/tzdata",
	"internal/cluster/pki":  "crypto crypto/ecdsa crypto/rsa crypto/tls crypto/x509 encoding/pem errors fmt path slices strings time",
	"internal/core/programs": "embed fmt io/fs maps path slices strconv strings sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2 " +
		ours + "core/version",
	"internal/core/plan": "cmp fmt hash/fnv slices strconv strings time " + ours + "core/choice " + ours + "core/quorum " + ours +
		"core/version",
	"internal/core/choice": "crypto/sha256 encoding/hex encoding/json slices time",
	"internal/core/check":  "errors fmt slices time " + ours + "core/choice " + ours + "core/plan " + ours + "core/version",
	"internal/core/steps":  "cmp encoding/json fmt path regexp slices strconv strings time " + ours + "core/version",
	"internal/core/forecast": "fmt regexp slices strconv strings time " + ours + "core/check " + ours + "core/plan " + ours +
		"core/quorum " + ours + "core/version",
	"internal/core/workerplan": "fmt slices strings time " + ours + "core/plan",
	"internal/upgrade/upgradepod": `cmp crypto/sha256 encoding/json fmt slices strconv strings time
		k8s.io/api/core/v1 k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/utils/ptr
		sigs.k8s.io/cluster-api/util/conditions
		` + module + "api/upgrade/v1alpha1 " + ours + "program/plaintext " + ours + "core/steps",
	"internal/upgrade/eviction": `maps slices
		k8s.io/api/core/v1 k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/labels
		k8s.io/component-helpers/resource k8s.io/component-helpers/scheduling/corev1 k8s.io/component-helpers/scheduling/corev1/nodeaffinity
		k8s.io/klog/v2 ` + ours + "core/steps " + ours + "program/plaintext",
	"internal/upgrade/updates": `cmp fmt slices strconv time k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/utils/ptr
		sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2 sigs.k8s.io/cluster-api/api/core/v1beta2
		sigs.k8s.io/cluster-api/util/conditions sigs.k8s.io/cluster-api/util/labels/format
		` + module + "api/upgrade/v1alpha1 " + ours + "core/drift " + ours + "core/plan " + ours + "core/steps " + ours + "upgrade/upgradepod",
	"internal/core/history": `crypto/sha256 encoding/hex encoding/json errors maps slices strings time
		k8s.io/apimachinery/pkg/apis/meta/v1
		` + ours + "program/plaintext " + ours + "core/plan",
	"internal/cluster/joinfailure": "fmt regexp slices strings time " + ours + "program/plaintext",
	"internal/upgrade/extension/inplace": `cmp crypto/sha256 encoding/hex encoding/json fmt maps reflect slices strings
		sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2 sigs.k8s.io/cluster-api/api/core/v1beta2
		` + ours + "core/drift " + ours + "core/version",
	"internal/group/status": `cmp fmt maps slices strings time
		k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/utils/ptr
		sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2 sigs.k8s.io/cluster-api/api/core/v1beta2
		sigs.k8s.io/cluster-api/util/conditions sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1
		` + module + "api/controlplane/v1beta2 " + ours + "cluster/etcd " + ours + "cluster/kubeadm " + ours + "cluster/machine " + ours +
		"core/plan " + ours + "group/observe",
	"internal/core/drift": `bytes cmp crypto/sha256 encoding/json fmt maps slices strconv strings time
		k8s.io/apimachinery/pkg/apis/meta/v1
		k8s.io/apimachinery/pkg/apis/meta/v1/unstructured
		k8s.io/apimachinery/pkg/runtime/schema
		sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2
		sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2
		sigs.k8s.io/cluster-api/api/core/v1beta2
		sigs.k8s.io/cluster-api/util/labels/format
		` + module + "api/controlplane/v1beta2 " + module + "api/etcdcluster/v1alpha1 " + ours + "core/steps " + ours + "core/version",
}

// clocks are what a pure package may not use of a package that it may import.
var clocks = map[string][]string{
	"time":                                 {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"},
	"k8s.io/apimachinery/pkg/apis/meta/v1": {"Now"},
}

// TestPure keeps clients, clocks, files, randomness and concurrency out of decisions.
func TestPure(t *testing.T) {
	for dir, list := range pure {
		files, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		allowed, imported := strings.Fields(list), map[string]bool{}
		read := 0
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			read++
			for _, text := range impurities(set, file, allowed) {
				t.Error(text)
			}
			for _, i := range file.Imports {
				imported[importPath(i)] = true
			}
		}
		if read == 0 {
			t.Errorf("%s has no files", dir)
		}
		for _, path := range allowed {
			if !imported[path] {
				t.Errorf("%s may import %s and does not: strike it off the list", dir, path)
			}
		}
	}
}

// impurities says what a file imports beside what is allowed, where it uses a clock, and
// where it starts goroutines.
func impurities(set *token.FileSet, file *ast.File, allowed []string) []string {
	var found []string
	say := func(at token.Pos, format string, args ...any) {
		found = append(found, set.Position(at).String()+": "+fmt.Sprintf(format, args...))
	}
	forbidden := map[string][]string{} // by the name that the file gives the package
	for _, i := range file.Imports {
		path := importPath(i)
		if !slices.Contains(allowed, path) {
			say(i.Pos(), "a pure package may not import %s", path)
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		if name == "." {
			say(i.Pos(), "what comes from %s cannot be told from its own", path)
		}
		forbidden[name] = append(forbidden[name], clocks[path]...)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			say(n.Pos(), "a pure package starts no goroutines")
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && slices.Contains(forbidden[of.Name], n.Sel.Name) {
				say(n.Pos(), "%s.%s: a pure package knows no clock", of.Name, n.Sel.Name)
			}
		}
		return true
	})
	return found
}

func importPath(i *ast.ImportSpec) string {
	path, err := strconv.Unquote(i.Path.Value)
	if err != nil {
		return i.Path.Value
	}
	return path
}

// TestImpurities: each of these would make a decision depend on more than its facts.
func TestImpurities(t *testing.T) {
	const allowed = "time k8s.io/apimachinery/pkg/apis/meta/v1"
	for text, want := range map[string]string{
		`import "time"; var a = time.Second; func f(t time.Time) bool { return t.After(t) }`:                 "",
		`import "time"; func f() time.Time { return time.Now() }`:                                            "time.Now",
		`import "time"; var now = time.Now`:                                                                  "time.Now",
		`import clock "time"; func f() { clock.Sleep(1) }`:                                                   "clock.Sleep",
		`import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"; func f() metav1.Time { return metav1.Now() }`: "metav1.Now",
		`import . "time"`:                  "from time",
		`import "math/rand"`:               "may not import math/rand",
		`func f() { go f() }`:              "goroutines",
		`func f() { func() { go f() }() }`: "goroutines",
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "x.go", "package x; "+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(impurities(set, file, strings.Fields(allowed)), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
