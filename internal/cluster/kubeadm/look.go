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
	// Proxy and DNS are whether kube-proxy and CoreDNS work. No decision depends on it.
	Proxy, DNS AddonHealth
}

// Current reports whether nothing is to be brought up to date, by Quorate or by a person.
func (b Behind) Current() bool {
	b.Proxy, b.DNS = AddonHealth{}, AddonHealth{}
	return b == Behind{}
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
		found, err := addons(ctx, set, want)
		for _, a := range found {
			switch a.name {
			case proxyName:
				b.Proxy = a.health
			case dnsName:
				b.DNS = a.health
			}
		}
		b.Addons, err = addonsBehind(found, err)
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
// it writes cluster-info, which they read first: with tokens, unless the user leaves that phase out. Its add-ons come last: where
// one is there and cluster-info is not, that was left out, and nothing waits for it.
func Initialised(ctx context.Context, set kubernetes.Interface, tokens bool) (string, error) {
	missing, err := absent(ctx, set, metav1.NamespaceSystem, configName)
	if missing != "" || err != nil || !tokens {
		return missing, err
	}
	missing, err = absent(ctx, set, metav1.NamespacePublic, "cluster-info")
	if missing == "" || err != nil {
		return missing, err
	}
	if _, err := set.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, proxyName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return "", orFailed("DaemonSet", proxyName, err)
	}
	if _, err := set.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, dnsName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return "", orFailed("Deployment", dnsName, err)
	}
	return missing, nil
}

// absent says that a ConfigMap is not there; empty: it is.
func absent(ctx context.Context, set kubernetes.Interface, namespace, name string) (string, error) {
	_, err := set.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return "the endpoint answers 404 where an API server would know its kinds: it may be another server's", nil
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("kubeadm init has not written the ConfigMap %s in %s yet", name, namespace), nil
	}
	return "", orFailed("ConfigMap", namespace+"/"+name, err)
}

// orFailed says what could not be read.
func orFailed(kind, name string, err error) error {
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	return nil
}
