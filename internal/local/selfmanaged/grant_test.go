package selfmanaged

import (
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/internal/local/embed"
)

// TestGrant: on a real API server the provider of machines has a token that ends, and asks for its next one itself; for nobody else's.
func TestGrant(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: make unit builds what it names")
	}
	ctrl.SetLogger(logr.Discard())
	env := &envtest.Environment{}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: embed.ProviderNamespace}}); err != nil {
		t.Fatal(err)
	}
	other := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: embed.ProviderNamespace, Name: "other"}}
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	r := &run{cluster: access{client: c}}
	for range 2 { // each step of `quorate up --self-managed` may be repeated
		if _, err := r.grant(t.Context(), administrators(t, cfg)); err != nil {
			t.Fatal(err)
		}
	}
	secrets := &corev1.SecretList{}
	if err := c.List(t.Context(), secrets, client.InNamespace(embed.ProviderNamespace)); err != nil {
		t.Fatal(err)
	}
	if len(secrets.Items) > 0 {
		t.Errorf("%d secrets were made, the first has the type %s", len(secrets.Items), secrets.Items[0].Type)
	}
	first, err := ask(t, cfg, embed.ProviderName)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(first.ExpirationTimestamp.Time); left > 25*time.Hour {
		t.Errorf("the token is valid for %s", left)
	}
	own := rest.AnonymousClientConfig(cfg)
	own.BearerToken = first.Token
	if _, err := ask(t, own, embed.ProviderName); err != nil {
		t.Errorf("the provider cannot renew its token: %v", err)
	}
	if _, err := ask(t, own, other.Name); !apierrors.IsForbidden(err) {
		t.Errorf("the provider asks for a token of another ServiceAccount: %v", err)
	}
}

// ask asks for a token of a ServiceAccount, for a day.
func ask(t *testing.T, as *rest.Config, name string) (*authenticationv1.TokenRequestStatus, error) {
	t.Helper()
	c, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.CoreV1().ServiceAccounts(embed.ProviderNamespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 60 * 60)},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &made.Status, nil
}

// administrators is the kubeconfig of an API server's administrator.
func administrators(t *testing.T, cfg *rest.Config) []byte {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	data, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
