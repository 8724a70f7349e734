package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coredns/corefile-migration/migration"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/cluster-api/util/container"
)

// The names that kubeadm gives its add-ons, and their parts.
const (
	proxyName   = "kube-proxy"
	dnsName     = "coredns"
	corefileKey = "Corefile"
)

// AddonsBehind says in what kube-proxy and CoreDNS differ from what is wanted; empty:
// in nothing, or there are none.
func AddonsBehind(ctx context.Context, c kubernetes.Interface, want Wanted) (string, error) {
	all, err := addons(ctx, c, want)
	var behind []string
	for _, a := range all {
		if a.now != a.then {
			behind = append(behind, fmt.Sprintf("%s is %s, %s wanted", a.name, a.now, a.then))
		}
	}
	return strings.Join(behind, "; "), err
}

// UpdateAddons brings kube-proxy and CoreDNS to what is wanted.
func UpdateAddons(ctx context.Context, c kubernetes.Interface, want Wanted) error {
	all, err := addons(ctx, c, want)
	failures := []error{err}
	for _, a := range all {
		if a.now == a.then {
			continue
		}
		if err := a.write(ctx); err != nil {
			failures = append(failures, fmt.Errorf("updating %s: %w", a.name, err))
		}
	}
	return errors.Join(failures...)
}

// addon is one of kubeadm's add-ons: its image, the one that is wanted, and how that is written.
type addon struct {
	name, now, then string
	write           func(context.Context) error
}

// addons returns those that are there and ours to keep.
func addons(ctx context.Context, c kubernetes.Interface, want Wanted) ([]addon, error) {
	var looks []func(context.Context, kubernetes.Interface, Wanted) (addon, error)
	if !want.SkipProxy {
		looks = append(looks, proxy)
	}
	// CoreDNS has a version of its own: without one that the user names it stays as it is.
	if dns := want.Configuration.DNS; !want.SkipDNS && (dns.ImageTag != "" || dns.ImageRepository != "") {
		looks = append(looks, coreDNS)
	}
	var all []addon
	for _, look := range looks {
		a, err := look(ctx, c, want)
		switch {
		case err == nil:
			all = append(all, a)
		case !apierrors.IsNotFound(err):
			return all, fmt.Errorf("reading kubeadm's add-ons: %w", err)
		}
	}
	return all, nil
}

// moved returns an image from another repository and with another tag, where these are
// not empty. One that is not named by repository and tag alone was chosen by somebody, and stays.
func moved(image, repository, tag string) string {
	i, err := container.ImageFromString(image)
	if err != nil || i.Tag == "" || i.Digest != "" {
		return image
	}
	if repository != "" {
		i.Repository = strings.TrimSuffix(repository, "/")
	}
	if tag != "" {
		i.Tag = container.SemverToOCIImageTag(tag)
	}
	return i.String()
}

// find returns the container of that name; an empty one of no pod if there is none.
func find(containers []corev1.Container, name string) *corev1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return &corev1.Container{}
}

// proxy looks at kube-proxy, a DaemonSet of the cluster's version.
func proxy(ctx context.Context, c kubernetes.Interface, want Wanted) (addon, error) {
	sets := c.AppsV1().DaemonSets(metav1.NamespaceSystem)
	set, err := sets.Get(ctx, proxyName, metav1.GetOptions{})
	if err != nil {
		return addon{}, err
	}
	main := find(set.Spec.Template.Spec.Containers, proxyName)
	a := addon{name: proxyName, now: main.Image, then: moved(main.Image, want.Configuration.ImageRepository, want.Version)}
	a.write = func(ctx context.Context) error {
		main.Image = a.then
		_, err := sets.Update(ctx, set, metav1.UpdateOptions{})
		return err
	}
	return a, nil
}

// coreDNS looks at CoreDNS, a Deployment with a file of settings whose form follows its version.
func coreDNS(ctx context.Context, c kubernetes.Interface, want Wanted) (addon, error) {
	deployments := c.AppsV1().Deployments(metav1.NamespaceSystem)
	deployment, err := deployments.Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return addon{}, err
	}
	main, dns := find(deployment.Spec.Template.Spec.Containers, dnsName), want.Configuration.DNS
	a := addon{name: dnsName, now: main.Image, then: moved(main.Image, dns.ImageRepository, dns.ImageTag)}
	a.write = func(ctx context.Context) error {
		// The settings come before the program that reads them.
		if err := migrate(ctx, c, a.now, a.then); err != nil {
			return err
		}
		main.Image = a.then
		_, err := deployments.Update(ctx, deployment, metav1.UpdateOptions{})
		return err
	}
	return a, nil
}

// versionOf is an image's tag as a version without prefix and build: v1.14.2-eks.1 is 1.14.2.
func versionOf(image string) string {
	i, _ := container.ImageFromString(image) // one that cannot be read has no version
	version, _, _ := strings.Cut(strings.TrimPrefix(i.Tag, "v"), "-")
	version, _, _ = strings.Cut(version, "_")
	return version
}

// migrate brings CoreDNS's settings into the form that the newer image reads.
func migrate(ctx context.Context, c kubernetes.Interface, now, then string) error {
	from, to := versionOf(now), versionOf(then)
	if from == to || migration.ValidUpMigration(from, to) != nil {
		return nil // nothing is known of these versions, or they go back: the settings stay
	}
	maps := c.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	settings, err := maps.Get(ctx, dnsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	migrated, err := migration.Migrate(from, to, settings.Data[corefileKey], false)
	if err != nil {
		return fmt.Errorf("migrating its settings from %s to %s: %w", from, to, err)
	}
	if migrated == settings.Data[corefileKey] {
		return nil
	}
	settings.Data[corefileKey] = migrated
	_, err = maps.Update(ctx, settings, metav1.UpdateOptions{})
	return err
}
