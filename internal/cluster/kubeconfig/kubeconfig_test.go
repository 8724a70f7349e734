package kubeconfig

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// write is a kubeconfig with these fields, in YAML's short form, of its cluster and its user.
func write(cluster, user string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {%s}}]
`, cluster, user)
}

const (
	goodCluster = `server: "https://10.0.0.1:6443", certificate-authority-data: Y2E=`
	goodUser    = `client-certificate-data: Y2VydA==, client-key-data: a2V5`
)

func TestRESTConfig(t *testing.T) {
	config, err := RESTConfig(write(goodCluster+", tls-server-name: inside, disable-compression: true, extensions: [{name: e, extension: "+
		"{a: b}}]", goodUser+", token: t"))
	want := &rest.Config{Host: "https://10.0.0.1:6443", BearerToken: "t", DisableCompression: true}
	want.TLSClientConfig = rest.TLSClientConfig{ServerName: "inside", CAData: []byte("ca"), CertData: []byte("cert"), KeyData: []byte("key")}
	if err != nil || !reflect.DeepEqual(config, want) {
		t.Errorf("%v, %v, want %v", config, err, want)
	}
	for _, proxy := range []string{"http://p:3128", "https://user:word@p", "socks5://p:1080"} {
		config, err := RESTConfig(write(goodCluster+", proxy-url: \""+proxy+`"`, goodUser))
		if err != nil {
			t.Fatalf("%s: %v", proxy, err)
		}
		at, err := config.Proxy(&http.Request{})
		if err != nil || at.String() != proxy {
			t.Errorf("%v, %v, want %s", at, err, proxy)
		}
	}
	if config, err := RESTConfig(write(`server: "https://rancher.example/k8s/clusters/c-1"`, "token: t")); err != nil ||
		config.Host != "https://rancher.example/k8s/clusters/c-1" {
		t.Errorf("%v, %v", config, err)
	}
}

// TestRefused holds each field that does more than carry data. The secret words must not be quoted.
func TestRefused(t *testing.T) {
	tests := []struct{ name, cluster, user, want string }{
		{"a command", goodCluster, `exec: {apiVersion: client.authentication.k8s.io/v1, command: SECRET, interactiveMode: Never}`,
			`user "u": field exec is refused: `},
		{"a command beside data", goodCluster, goodUser + `, exec: {command: SECRET}`, `user "u": field exec is refused: `},
		{"a plugin", goodCluster, `auth-provider: {name: oidc, config: {id-token: SECRET}}`, `user "u": field auth-provider is refused: `},
		{"a file with a token", goodCluster, `tokenFile: /SECRET`, `user "u": field tokenFile is refused: `},
		{"a file beside a token", goodCluster, `token: SECRET, tokenFile: /SECRET`, `user "u": field tokenFile is refused: `},
		{"a certificate's file", goodCluster, `client-certificate: /SECRET, client-key-data: a2V5`,
			`user "u": field client-certificate is refused: `},
		{"a key's file", goodCluster, `client-certificate-data: Y2VydA==, client-key: /SECRET`, `user "u": field client-key is refused: `},
		{"impersonation", goodCluster, goodUser + `, as: SECRET`, `user "u": field as is refused: `},
		{"impersonation of an ID", goodCluster, goodUser + `, as-uid: SECRET`, `user "u": field as-uid is refused: `},
		{"impersonation of groups", goodCluster, goodUser + `, as-groups: [SECRET]`, `user "u": field as-groups is refused: `},
		{"impersonation with more", goodCluster, goodUser + `, as-user-extra: {SECRET: [a]}`, `user "u": field as-user-extra is refused: `},
		{"a password", goodCluster, `username: a, password: SECRET`, `user "u": field username is refused: `},
		{"an authority's file", `server: "https://a", certificate-authority: /SECRET`, goodUser,
			`cluster "c": field certificate-authority is refused: `},
		{"no verification", goodCluster + `, insecure-skip-tls-verify: true`, goodUser,
			`cluster "c": field insecure-skip-tls-verify is refused: `},
		{"a proxy of another kind", goodCluster + `, proxy-url: "file:///SECRET"`, goodUser, `cluster "c": field proxy-url is refused: `},
		{"a proxy without a host", goodCluster + `, proxy-url: "http:SECRET"`, goodUser, `cluster "c": field proxy-url is refused: `},
		{"a proxy that is no URL", goodCluster + `, proxy-url: "http://SECRET%zz"`, goodUser, `cluster "c": field proxy-url is refused: `},
		{"plain text", `server: "http://SECRET"`, goodUser, `cluster "c": field server is refused: `},
		{"no scheme", `server: "SECRET:6443"`, goodUser, `cluster "c": field server is refused: `},
		{"a password in the address", `server: "https://a:SECRET@b"`, goodUser, `cluster "c": field server is refused: `},
		{"a query", `server: "https://b?SECRET"`, goodUser, `cluster "c": field server is refused: `},
		{"no server", ``, goodUser, `cluster "c": field server is refused: `},
		{"no kubeconfig", goodCluster + "}}}, SECRET", goodUser, "it cannot be parsed"},
		{"data that is none", goodCluster, "client-key-data: SECRET!", "it cannot be parsed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := RESTConfig(write(test.cluster, test.user))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%v, want %s", err, test.want)
			}
			if _, loaded := Load(write(test.cluster, test.user)); loaded == nil || loaded.Error() != err.Error() {
				t.Errorf("%v by itself", loaded)
			}
		})
	}
}

func TestWholeFileIsChecked(t *testing.T) {
	second := strings.Replace(string(write(goodCluster, goodUser)), "users: [", "users: [{name: other, user: {tokenFile: /t}}, ", 1)
	if _, err := RESTConfig([]byte(second)); err == nil || !strings.Contains(err.Error(), `user "other": field tokenFile`) {
		t.Errorf("what no context uses today: %v", err)
	}
	long := strings.Replace(second, "other", `"`+strings.Repeat("x", 500)+`\u001b"`, 1)
	if _, err := RESTConfig([]byte(long)); err == nil || len(err.Error()) > 300 || strings.ContainsRune(err.Error(), '\x1b') {
		t.Errorf("a name of 500 letters: %v", err)
	}
	for _, broken := range []string{"", "{}", "apiVersion: v1\nkind: Secret\n",
		strings.Replace(string(write(goodCluster, goodUser)), "current-context: x", "", 1),
		strings.Replace(string(write(goodCluster, goodUser)), "user: u", "user: v", 1),
		strings.Replace(string(write(goodCluster, goodUser)), "cluster: c,", "cluster: d,", 1)} {
		if config, err := RESTConfig([]byte(broken)); err == nil {
			t.Errorf("%q gave %v", broken, config)
		}
	}
}

// TestEveryFieldIsKnown sets each field of client-go's types: it is accepted by name, or refused.
func TestEveryFieldIsKnown(t *testing.T) {
	for _, of := range []struct {
		entry    any
		accepted []string
	}{{clientcmdapi.Cluster{}, clusterFields}, {clientcmdapi.AuthInfo{}, userFields}} {
		kind := reflect.TypeOf(of.entry)
		for i := range kind.NumField() {
			entry := reflect.New(kind)
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			fill(t, entry.Elem().Field(i))
			got := otherField(entry.Interface(), of.accepted)
			if want := strings.TrimPrefix(name, "act-"); got != want && !slices.Contains(of.accepted, name) && name != "-" {
				t.Errorf("%s.%s: %q is refused, want %q", kind, kind.Field(i).Name, got, want)
			}
		}
	}
}

func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(v.Type().Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		t.Fatalf("a field of kind %s: this test does not know how to set it", v.Kind())
	}
}

// FuzzRESTConfig: whatever is accepted holds nothing but data, and reads no file.
func FuzzRESTConfig(f *testing.F) {
	f.Add(write(goodCluster, goodUser))
	f.Add(write(goodCluster+`, proxy-url: "socks5://p"`, "token: t"))
	f.Add(write(goodCluster, `exec: {command: c}`))
	f.Add(write(goodCluster, `auth-provider: {name: oidc}, tokenFile: f, as: a`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":null}],"users":[{"name":"u"}],` +
		`"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := RESTConfig(data)
		if err != nil {
			return
		}
		if config.ExecProvider != nil || config.AuthProvider != nil || config.AuthConfigPersister != nil || config.BearerTokenFile != "" ||
			config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" || config.Insecure || config.Username != "" ||
			config.Password != "" ||
			!reflect.DeepEqual(config.Impersonate, rest.ImpersonationConfig{}) || !strings.HasPrefix(config.Host, "https://") {
			t.Errorf("accepted: %#v", config)
		}
		if _, _, err := rest.DefaultServerUrlFor(config); err != nil {
			t.Errorf("the address is of no use: %v", err)
		}
	})
}

// TestReadsNoFile: a file that is there does not change the answer.
func TestReadsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the manager's own token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if config, err := RESTConfig(write(goodCluster, `tokenFile: "`+file+`"`)); err == nil {
		t.Errorf("%v", config)
	}
}

// TestLargeKeysAreRefused before anybody parses them, with their place.
func TestLargeKeysAreRefused(t *testing.T) {
	large := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: make([]byte, 150<<10)}))
	for want, data := range map[string][]byte{
		`user "u": field client-key-data is refused: it holds a key or certificate of 153600 bytes`: write(goodCluster,
			"client-certificate-data: Y2VydA==, client-key-data: "+large),
		`user "u": field client-certificate-data is refused: it `: write(goodCluster, "client-key-data: a2V5, client-certificate-data: "+
			large),
		`cluster "c": field certificate-authority-data is refused: it `: write(`server: "https://a", certificate-authority-data: `+large,
			goodUser),
	} {
		if config, err := RESTConfig(data); err == nil || !strings.HasPrefix(err.Error(), want) || config != nil {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
