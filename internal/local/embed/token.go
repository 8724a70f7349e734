package embed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/program/atomicfile"
)

// The ServiceAccount of the provider of machines in a management cluster. The daemon is that provider.
const (
	ProviderName      = "quorate-local-provider"
	ProviderNamespace = "quorate-infrastructure-system"
)

const (
	// providerToken is the file with the provider's token, beside its kubeconfig, which has none.
	providerToken = "cluster-provider.token"
	// tokenLifetime is how long a token is valid. The daemon asks for the next one after half of that.
	tokenLifetime = 24 * time.Hour
	// tokenLimit is how long the management cluster may take to make one.
	tokenLimit = time.Minute
)

// token keeps the provider's token in a file, which client-go reads again and again. Each one ends by itself: who copies it has it for a
// day.
type token struct {
	file string
	// own and admin reach the management cluster as the provider, without a token, and as the administrator.
	own, admin *rest.Config
}

// newToken reads how a management cluster is reached, by the files of an environment.
func newToken(state string) (*token, error) {
	folder := filepath.Join(state, "management")
	own, err := restConfig(filepath.Join(folder, providerKubeconfig))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the management cluster: %w", err)
	}
	admin, err := restConfig(filepath.Join(folder, clusterKubeconfig))
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's kubeconfig of the management cluster: %w", err)
	}
	own.BearerToken = "" // earlier versions wrote one that never ends
	return &token{file: filepath.Join(folder, providerToken), own: own, admin: admin}, nil
}

// config returns how the provider reaches the management cluster, with the token that the file has at the time.
func (t *token) config() *rest.Config {
	cfg := rest.CopyConfig(t.own)
	cfg.BearerTokenFile = t.file
	return cfg
}

// renew writes a new token to the file, and returns until when it is valid. The provider may ask for its own tokens. Where it has none that
// is valid, because the host was off for long, the administrator asks.
func (t *token) renew(ctx context.Context) (time.Time, error) {
	ctx, end := context.WithTimeout(ctx, tokenLimit)
	defer end()
	made, err := t.ask(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("renewing the token of %s: %w", ProviderName, err)
	}
	if err := atomicfile.Write(t.file, []byte(made.Token), 0o600); err != nil {
		return time.Time{}, fmt.Errorf("writing the token of %s: %w", ProviderName, err)
	}
	return made.ExpirationTimestamp.Time, nil
}

func (t *token) ask(ctx context.Context) (*authenticationv1.TokenRequestStatus, error) {
	have, err := os.ReadFile(t.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(have) > 0 {
		own := rest.CopyConfig(t.own)
		own.BearerToken = string(have)
		made, err := request(ctx, own)
		if !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			return made, err
		}
	}
	made, err := request(ctx, t.admin)
	if err != nil {
		return nil, fmt.Errorf("as the administrator: %w", err)
	}
	return made, t.dropEndless(ctx)
}

// request asks for a token of the provider.
func request(ctx context.Context, as *rest.Config) (*authenticationv1.TokenRequestStatus, error) {
	c, err := kubernetes.NewForConfig(as)
	if err != nil {
		return nil, err
	}
	made, err := c.CoreV1().ServiceAccounts(ProviderNamespace).CreateToken(ctx, ProviderName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &made.Status, nil
}

// dropEndless deletes the secret with a token that never ends, which earlier versions made.
func (t *token) dropEndless(ctx context.Context) error {
	c, err := kubernetes.NewForConfig(t.admin)
	if err != nil {
		return err
	}
	secrets := c.CoreV1().Secrets(ProviderNamespace)
	found, err := secrets.Get(ctx, ProviderName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the endless token of %s: %w", ProviderName, err)
	case found.Type != corev1.SecretTypeServiceAccountToken:
		return nil
	}
	err = secrets.Delete(ctx, ProviderName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the endless token of %s: %w", ProviderName, err)
	}
	return nil
}

// untilRenewal is how long to wait before a token that is valid until expires is renewed. It is half of what is left, but not less than
// shortest, so that a cluster whose tokens end soon is not asked all the time.
func untilRenewal(now, expires time.Time, shortest time.Duration) time.Duration {
	return max(expires.Sub(now)/2, shortest)
}

// keep renews the token until ctx ends. report gets each failure; the next try follows soon.
func (t *token) keep(ctx context.Context, expires time.Time, report func(error)) {
	wait := untilRenewal(time.Now(), expires, again)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		expires, err := t.renew(ctx)
		if ctx.Err() != nil {
			return
		}
		wait = again
		if err != nil {
			report(err)
			continue
		}
		wait = untilRenewal(time.Now(), expires, again)
	}
}
