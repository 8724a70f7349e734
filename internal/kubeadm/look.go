package kubeadm

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Behind says in what kubeadm's files in a cluster are not as wanted. The zero value: in nothing.
type Behind struct {
	// Permissions, Config and Addons are what can be brought up to date.
	Permissions, Config, Addons string
	// ConfigUnusable and AddonsRefused are what only a person can mend.
	ConfigUnusable, AddonsRefused string
}

// Look asks a cluster in what kubeadm's files are behind what is wanted, of all of them at the same time.
func Look(ctx context.Context, set kubernetes.Interface, want Wanted) (Behind, error) {
	var b Behind
	var all errgroup.Group
	all.Go(func() (err error) {
		b.Permissions, err = PermissionsBehind(ctx, set, want)
		return err
	})
	all.Go(func() (err error) {
		b.Config, err = ConfigBehind(ctx, set, want)
		b.ConfigUnusable = refusal(err)
		return failure(err)
	})
	all.Go(func() (err error) {
		b.Addons, err = AddonsBehind(ctx, set, want)
		b.AddonsRefused = refusal(err)
		return failure(err)
	})
	if err := all.Wait(); err != nil {
		return Behind{}, err
	}
	return b, nil
}

// failure returns an error of a look that is not a Refusal.
func failure(err error) error {
	if refusal(err) != "" {
		return nil
	}
	return err
}

// refusal returns what only a person can mend of a look that failed; empty: the look itself did.
func refusal(err error) string {
	var refused *Refusal
	if errors.As(err, &refused) {
		return refused.Error()
	}
	return ""
}

// Initialised says what kubeadm init has not written yet of all that others need to join; empty: all is there.
//
// It writes the ConfigMap kubeadm-config once the first control plane is up. Later, after all roles for joining machines,
// it writes cluster-info, which they read first: with tokens, unless the user leaves that phase out.
func Initialised(ctx context.Context, set kubernetes.Interface, tokens bool) (string, error) {
	wanted := [][2]string{{metav1.NamespaceSystem, configName}}
	if tokens {
		wanted = append(wanted, [2]string{metav1.NamespacePublic, "cluster-info"})
	}
	for _, w := range wanted {
		_, err := set.CoreV1().ConfigMaps(w[0]).Get(ctx, w[1], metav1.GetOptions{})
		if apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
			return "the endpoint answers 404 where an API server would know its kinds: it may be another server's", nil
		}
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("kubeadm init has not written the ConfigMap %s in %s yet", w[1], w[0]), nil
		}
		if err != nil {
			return "", fmt.Errorf("reading ConfigMap %s/%s: %w", w[0], w[1], err)
		}
	}
	return "", nil
}
