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
	var behind []string
	for _, a := range addons(c, want) {
		now, then, err := a.images(ctx)
		if err != nil {
			return "", err
		}
		if now != then {
			behind = append(behind, fmt.Sprintf("%s is %s, %s wanted", a.name, now, then))
		}
	}
	return strings.Join(behind, "; "), nil
}

// UpdateAddons brings kube-proxy and CoreDNS to what is wanted.
func UpdateAddons(ctx context.Context, c kubernetes.Interface, want Wanted) error {
	var failures []error
	for _, a := range addons(c, want) {
		if err := a.update(ctx); err != nil {
			failures = append(failures, fmt.Errorf("updating %s: %w", a.name, err))
		}
	}
	return errors.Join(failures...)
}

// addon is one of kubeadm's add-ons.
type addon struct {
	name string
	// images returns the image that is used and the one that is wanted; both empty when the add-on is not there.
	images func(context.Context) (now, then string, err error)
	update func(context.Context) error
}

// addons returns those that are ours to keep.
func addons(c kubernetes.Interface, want Wanted) []addon {
	var kept []addon
	if !want.SkipProxy {
		p := proxy{c, want}
		kept = append(kept, addon{proxyName, p.images, p.update})
	}
	// CoreDNS has a version of its own: without one that the user names it stays as it is.
	if dns := want.Configuration.DNS; !want.SkipDNS && (dns.ImageTag != "" || dns.ImageRepository != "") {
		d := dnsServer{c, want}
		kept = append(kept, addon{dnsName, d.images, d.update})
	}
	return kept
}

// image is a reference in its parts.
type image struct{ repository, name, tag string }

func parseImage(text string) image {
	rest, tag := text, ""
	if i := strings.LastIndex(text, ":"); i > strings.LastIndex(text, "/") {
		rest, tag = text[:i], text[i+1:]
	}
	i := strings.LastIndex(rest, "/")
	return image{repository: rest[:max(i, 0)], name: rest[i+1:], tag: tag}
}

func (i image) String() string { return i.repository + "/" + i.name + ":" + i.tag }

// imageOf returns the image of a container; empty when there is none of that name.
func imageOf(containers []corev1.Container, name string) string {
	for _, c := range containers {
		if c.Name == name {
			return c.Image
		}
	}
	return ""
}

func setImage(containers []corev1.Container, name, image string) {
	for i := range containers {
		if containers[i].Name == name {
			containers[i].Image = image
		}
	}
}

// proxy is kube-proxy, a DaemonSet of the cluster's version.
type proxy struct {
	client kubernetes.Interface
	want   Wanted
}

func (p proxy) images(ctx context.Context) (string, string, error) {
	set, err := p.client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, proxyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("reading DaemonSet %s: %w", proxyName, err)
	}
	now := imageOf(set.Spec.Template.Spec.Containers, proxyName)
	return now, p.wanted(now), nil
}

// wanted is the image of the cluster's version, from where the present one comes unless the user says another place.
func (p proxy) wanted(now string) string {
	if now == "" {
		return ""
	}
	i := parseImage(now)
	if from := p.want.Configuration.ImageRepository; from != "" {
		i.repository = strings.TrimSuffix(from, "/")
	}
	i.tag = strings.ReplaceAll(p.want.Version, "+", "_")
	return i.String()
}

func (p proxy) update(ctx context.Context) error {
	sets := p.client.AppsV1().DaemonSets(metav1.NamespaceSystem)
	set, err := sets.Get(ctx, proxyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	now := imageOf(set.Spec.Template.Spec.Containers, proxyName)
	if then := p.wanted(now); then != now {
		setImage(set.Spec.Template.Spec.Containers, proxyName, then)
		_, err = sets.Update(ctx, set, metav1.UpdateOptions{})
	}
	return err
}

// dnsServer is CoreDNS, a Deployment with a file of settings whose form follows its version.
type dnsServer struct {
	client kubernetes.Interface
	want   Wanted
}

func (d dnsServer) images(ctx context.Context) (string, string, error) {
	deployment, err := d.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, dnsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("reading Deployment %s: %w", dnsName, err)
	}
	now := imageOf(deployment.Spec.Template.Spec.Containers, dnsName)
	return now, d.wanted(now), nil
}

func (d dnsServer) wanted(now string) string {
	if now == "" {
		return ""
	}
	i, dns := parseImage(now), d.want.Configuration.DNS
	if dns.ImageRepository != "" {
		i.repository = strings.TrimSuffix(dns.ImageRepository, "/")
	}
	if dns.ImageTag != "" {
		i.tag = dns.ImageTag
	}
	return i.String()
}

// update migrates the settings before the Deployment that reads them.
func (d dnsServer) update(ctx context.Context) error {
	deployments := d.client.AppsV1().Deployments(metav1.NamespaceSystem)
	deployment, err := deployments.Get(ctx, dnsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	now := imageOf(deployment.Spec.Template.Spec.Containers, dnsName)
	then := d.wanted(now)
	if then == now {
		return nil
	}
	if err := d.migrate(ctx, plain(parseImage(now).tag), plain(parseImage(then).tag)); err != nil {
		return err
	}
	setImage(deployment.Spec.Template.Spec.Containers, dnsName, then)
	_, err = deployments.Update(ctx, deployment, metav1.UpdateOptions{})
	return err
}

// plain is a tag as a version without prefix and build: v1.14.2-eks.1 is 1.14.2.
func plain(tag string) string {
	version, _, _ := strings.Cut(strings.TrimPrefix(tag, "v"), "-")
	version, _, _ = strings.Cut(version, "_")
	return version
}

func (d dnsServer) migrate(ctx context.Context, from, to string) error {
	if from == to || migration.ValidUpMigration(from, to) != nil {
		return nil // nothing is known of these versions, or they go back: the settings stay
	}
	maps := d.client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
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
