package embed

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokens is a management cluster that makes tokens for who has one of them that is valid, and for its administrator.
type tokens struct {
	valid   string
	made    int
	asked   []authenticationv1.TokenRequestSpec
	as      []string
	endless bool
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := func(code int, v any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v)
	}
	status := func(code int, reason metav1.StatusReason) {
		answer(
			code,
			metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Status:   metav1.StatusFailure,
				Reason:   reason,
				Code:     int32(code),
			},
		)
	}
	as := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if as != "administrator" && as != s.valid {
		status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		return
	}
	switch secret := "/api/v1/namespaces/" + ProviderNamespace + "/secrets/" + ProviderName; r.URL.Path {
	case "/api/v1/namespaces/" + ProviderNamespace + "/serviceaccounts/" + ProviderName + "/token":
		data, _ := io.ReadAll(r.Body)
		request := &authenticationv1.TokenRequest{}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, request); err != nil {
			status(http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		s.made++
		s.valid = fmt.Sprintf("token-%d", s.made)
		s.asked, s.as = append(s.asked, request.Spec), append(s.as, as)
		request.Status = authenticationv1.TokenRequestStatus{
			Token:               s.valid,
			ExpirationTimestamp: metav1.NewTime(time.Date(2026, 1, s.made, 0, 0, 0, 0, time.UTC)),
		}
		request.TypeMeta = metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"}
		answer(http.StatusCreated, request)
	case secret:
		switch {
		case !s.endless:
			status(http.StatusNotFound, metav1.StatusReasonNotFound)
		case r.Method == http.MethodDelete:
			s.endless = false
			answer(http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
		default:
			answer(
				http.StatusOK,
				corev1.Secret{
					TypeMeta:   metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"},
					ObjectMeta: metav1.ObjectMeta{UID: "1"},
					Type:       corev1.SecretTypeServiceAccountToken,
				},
			)
		}
	default:
		status(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// environment writes the files by which an environment reaches its management cluster, as of an earlier version: the provider's kubeconfig
// has a token.
func environment(t *testing.T, s *httptest.Server) string {
	t.Helper()
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "management"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, bearer := range map[string]string{clusterKubeconfig: "administrator", providerKubeconfig: "endless"} {
		c := clientcmdapi.NewConfig()
		c.Clusters["c"] = &clientcmdapi.Cluster{
			Server:                   s.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		}
		c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: bearer}
		c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
		c.CurrentContext = "x"
		data, err := clientcmd.Write(*c)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, "management", file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

// TestToken: each token ends, the provider renews its own, and where it has none that is valid the administrator asks for it. One that
// never ends is dropped.
func TestToken(t *testing.T) {
	cluster := &tokens{valid: "endless", endless: true}
	server := httptest.NewTLSServer(cluster)
	defer server.Close()
	state := environment(t, server)
	token, err := newToken(state)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		name, as string
		before   func()
	}{
		{"the first", "administrator", func() {}},
		{"the next", "token-1", func() {}},
		{"after it ended", "administrator", func() { cluster.valid = "another" }},
		{"the next again", "token-3", func() {}},
	} {
		step.before()
		expires, err := token.renew(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if want := time.Date(2026, 1, i+1, 0, 0, 0, 0, time.UTC); !expires.Equal(want) {
			t.Errorf("%s: it is valid until %s, want %s", step.name, expires, want)
		}
		if got := cluster.as[len(cluster.as)-1]; got != step.as {
			t.Errorf("%s: %s asked, want %s", step.name, got, step.as)
		}
		if cluster.endless {
			t.Errorf("%s: the token that never ends is still there", step.name)
		}
		data, err := os.ReadFile(token.file)
		if err != nil || string(data) != cluster.valid {
			t.Errorf("%s: the file has %q, %v", step.name, data, err)
		}
	}
	if slices.ContainsFunc(cluster.asked, func(s authenticationv1.TokenRequestSpec) bool {
		return s.ExpirationSeconds == nil || *s.ExpirationSeconds != int64(tokenLifetime/time.Second)
	}) {
		t.Errorf("tokens were asked for without an end: %+v", cluster.asked)
	}
	checkMode(t, token.file, 0o600)
	if c := token.config(); c.BearerToken != "" || c.BearerTokenFile != token.file || c.Host != server.URL {
		t.Errorf("a token: %t, file %q, server %q", c.BearerToken != "", c.BearerTokenFile, c.Host)
	}
}

// TestTokenFails: while nobody answers, the token that there is stays.
func TestTokenFails(t *testing.T) {
	cluster := &tokens{valid: "endless"}
	server := httptest.NewTLSServer(cluster)
	token, err := newToken(environment(t, server))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := token.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if _, err := token.renew(t.Context()); err == nil {
		t.Error("a token was made by nobody")
	}
	if data, err := os.ReadFile(token.file); err != nil || string(data) != "token-1" {
		t.Errorf("the file has %q, %v", data, err)
	}
}

func TestUntilRenewal(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct{ left, want time.Duration }{
		{24 * time.Hour, 12 * time.Hour}, {time.Hour, 30 * time.Minute}, {time.Second, time.Minute}, {-time.Hour, time.Minute},
	} {
		if got := untilRenewal(now, now.Add(test.left), time.Minute); got != test.want {
			t.Errorf("%s are left: %s, want %s", test.left, got, test.want)
		}
	}
}
