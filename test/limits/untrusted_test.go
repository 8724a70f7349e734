package limits

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bounded are the files that make a client whose transport refuses redirects, as package untrusted does.
var bounded = []string{"internal/cluster/workload/api.go", "internal/upgrade/nodeupgrade/cluster.go"}

// ownKubeconfigs are the files that read kubeconfigs of the management cluster itself, or bound what is asked with them by themselves.
var ownKubeconfigs = []string{"internal/cluster/kubeconfig/kubeconfig.go", "internal/local/embed/kubeconfig.go",
	"internal/local/selfmanaged/selfmanaged.go", "internal/cli/facts/facts.go"}

// TestNobodyFollowsRedirects: whoever makes an http.Client says what becomes of a redirect. A tenant's server would choose whom the manager
// asks next.
func TestNobodyFollowsRedirects(t *testing.T) {
	clients := 0
	for _, s := range read(t, "../..") {
		if strings.HasPrefix(s.path, "internal/cluster/etcd/etcdtest/") {
			continue // only tests use it
		}
		for _, made := range literals(t, s.path, "http", "Client") {
			clients++
			says := slices.ContainsFunc(made.Elts, func(e ast.Expr) bool {
				field, is := e.(*ast.KeyValueExpr)
				return is && field.Key.(*ast.Ident).Name == "CheckRedirect"
			})
			if !says && !slices.Contains(bounded, s.path) && s.path != "internal/local/artifacts/source.go" { // which sets it afterwards
				t.Errorf("%s makes an http.Client without CheckRedirect", s.path)
			}
		}
	}
	if clients < len(bounded) {
		t.Errorf("%d clients were found: this test looks at the wrong place", clients)
	}
}

// TestManagedKubeconfigsAreBounded: a config for a managed cluster bounds what is answered.
func TestManagedKubeconfigsAreBounded(t *testing.T) {
	for _, s := range read(t, "../..") {
		if calls(t, s.path, "kubeconfig", "RESTConfig") && !slices.Contains(ownKubeconfigs, s.path) {
			t.Errorf("%s calls kubeconfig.RESTConfig: for a managed cluster it is kubeconfig.Managed", s.path)
		}
	}
}

// parsers are what parses keys and certificates without a bound on their size.
var parsers = map[string][]string{
	"x509": {"ParseCertificate", "ParseCertificates", "ParsePKCS1PrivateKey", "ParsePKCS8PrivateKey", "ParseECPrivateKey",
		"ParsePKIXPublicKey", "ParsePKCS1PublicKey",
		"ParseCertificateRequest"},
	"tls": {"X509KeyPair", "LoadX509KeyPair"}, "capicerts": {"DecodeCertPEM", "DecodePrivateKeyPEM"},
}

// parseOwn are the files that parse what was made by themselves, or lies on the machine that they run on.
var parseOwn = []string{
	"internal/cluster/pki/size.go", "internal/program/signature/keys.go", "internal/local/embed/pki.go", "internal/upgrade/upgrader/api.go",
	"internal/cluster/certs/etcdclient.go", "internal/cluster/certs/managedetcd.go",
}

// TestKeysAreParsedInOnePlace: a key of 262,144 bits takes 20 s to parse. Package pki bounds sizes before it parses what tenants give.
func TestKeysAreParsedInOnePlace(t *testing.T) {
	seen := false
	for _, s := range read(t, "../..") {
		if strings.HasPrefix(s.path, "internal/cluster/etcd/etcdtest/") || strings.HasPrefix(s.path, "tools/") ||
			strings.HasPrefix(s.path, "test/") {
			continue // only tests use them
		}
		for pkg, names := range parsers {
			for _, name := range names {
				if !calls(t, s.path, pkg, name) {
					continue
				}
				seen = true
				if !slices.Contains(parseOwn, s.path) {
					t.Errorf("%s uses %s.%s, which bounds no size: package pki does", s.path, pkg, name)
				}
			}
		}
	}
	if !seen {
		t.Error("nobody parses keys: this test looks at the wrong place")
	}
}

// parsed is a file of the tree.
func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// is reports whether an expression is a name of a package.
func is(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	of, ok := s.X.(*ast.Ident)
	return ok && of.Name == pkg
}

// literals are the values of a type that a file makes.
func literals(t *testing.T, path, pkg, name string) (found []*ast.CompositeLit) {
	t.Helper()
	ast.Inspect(parsed(t, path), func(n ast.Node) bool {
		if l, ok := n.(*ast.CompositeLit); ok && is(l.Type, pkg, name) {
			found = append(found, l)
		}
		return true
	})
	return found
}

// calls reports whether a file uses a name of a package.
func calls(t *testing.T, path, pkg, name string) (found bool) {
	t.Helper()
	ast.Inspect(parsed(t, path), func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			found = found || is(e, pkg, name)
		}
		return true
	})
	return found
}
