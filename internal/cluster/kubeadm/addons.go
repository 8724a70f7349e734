package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/cluster-api/util/container"
)

// The names that kubeadm gives its add-ons.
const (
	proxyName = "kube-proxy"
	dnsName   = "coredns"
)

// AddonsBehind says in what kube-proxy and CoreDNS differ from what is wanted; empty:
// in nothing, or there are none. One that cannot be brought to it is not behind, but a Refusal beside those that are.
func AddonsBehind(ctx context.Context, c kubernetes.Interface, want Wanted) (string, error) {
	all, err := addons(ctx, c, want)
	return addonsBehind(all, err)
}

// addonsBehind says in what add-ons differ from what is wanted. err is why not all could be read.
func addonsBehind(all []addon, err error) (string, error) {
	var behind []string
	failures := []error{err}
	for _, a := range all {
		switch {
		case a.refused != "":
			failures = append(failures, a.refusal())
		case a.now != a.then:
			behind = append(behind, fmt.Sprintf("%s is %s, %s wanted", a.name, a.now, a.then))
		case a.outdated():
			behind = append(behind, fmt.Sprintf("%s is %s, and %s", a.name, a.now, a.unfinished))
		}
	}
	return strings.Join(behind, "; "), errors.Join(failures...)
}

// UpdateAddons brings kube-proxy and CoreDNS to what is wanted.
func UpdateAddons(ctx context.Context, c kubernetes.Interface, want Wanted) error {
	all, err := addons(ctx, c, want)
	failures := []error{err}
	for _, a := range all {
		switch {
		case a.refused != "":
			failures = append(failures, a.refusal())
		case a.outdated():
			if err := a.write(ctx); err != nil {
				failures = append(failures, fmt.Errorf("updating %s: %w", a.name, err))
			}
		}
	}
	return errors.Join(failures...)
}

// addon is one of kubeadm's add-ons: its image, the one that is wanted, and how that is written.
type addon struct {
	name, now, then string
	// unfinished says what an earlier update left behind where the image is as wanted; empty: nothing.
	unfinished string
	// refused says why it stays as it is; empty: nothing speaks against it.
	refused string
	// health is what the status of its object says.
	health AddonHealth
	write  func(context.Context) error
}

// outdated reports whether something is to be written.
func (a addon) outdated() bool { return a.now != a.then || a.unfinished != "" }

func (a addon) refusal() error {
	if a.now == a.then {
		return &Refusal{why: fmt.Sprintf("%s is %s, and %s: %s", a.name, a.now, a.unfinished, a.refused)}
	}
	return &Refusal{why: fmt.Sprintf("%s stays %s, %s is wanted: %s", a.name, a.now, a.then, a.refused)}
}

// addons returns those that are there and ours to keep.
func addons(ctx context.Context, c kubernetes.Interface, want Wanted) ([]addon, error) {
	var looks []func(context.Context, kubernetes.Interface, Wanted) (addon, error)
	if !want.SkipProxy {
		looks = append(looks, proxy)
	}
	if !want.SkipDNS {
		looks = append(looks, coreDNS)
	}
	var all []addon
	for _, look := range looks {
		a, err := look(ctx, c, want)
		switch {
		case err == nil:
			if _, err := container.ImageFromString(a.then); err != nil && a.now != a.then {
				a.refused = err.Error()
			}
			all = append(all, a)
		case !apierrors.IsNotFound(err):
			return all, fmt.Errorf("reading kubeadm's add-ons: %w", err)
		}
	}
	return all, nil
}

// settled reports whether an image was chosen by somebody, and stays: one that is not named by repository and tag alone.
func settled(image string) bool {
	i, err := container.ImageFromString(image)
	return err != nil || i.Repository == "" || i.Tag == "" || i.Digest != ""
}

// moved returns an image from another repository and with another tag, where these are not empty.
func moved(image, repository, tag string) string {
	if settled(image) {
		return image
	}
	i, err := container.ImageFromString(image)
	if err != nil {
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
	if !want.ProxyOfOthers {
		a.health = proxyHealth(set)
	}
	a.write = func(ctx context.Context) error {
		main.Image = a.then
		_, err := sets.Update(ctx, set, metav1.UpdateOptions{})
		return err
	}
	return a, nil
}
