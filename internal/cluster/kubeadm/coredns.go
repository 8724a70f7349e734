package kubeadm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coredns/corefile-migration/migration"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/cluster-api/util/container"
	"sigs.k8s.io/cluster-api/util/version"
)

// Where CoreDNS finds its settings, and where they are kept while they change. kubeadm and upstream's controller use the same names.
const (
	corefileKey    = "Corefile"
	backupKey      = "Corefile-backup"
	corefileVolume = "config-volume"
)

// dnsImage returns the image that CoreDNS must have. It has a version of its own: without one that the user names it keeps
// it, and it follows the cluster's image repository where it has none of its own.
func dnsImage(image string, want Wanted) string {
	dns := want.Configuration.DNS
	to := moved(image, cmp.Or(dns.ImageRepository, want.Configuration.ImageRepository), dns.ImageTag)
	i, err := container.ImageFromString(to)
	if err != nil || to == image {
		return to
	}
	// At its home, and nowhere else, it has a folder of its own since v1.8.0.
	home := i.Repository == "registry.k8s.io" || i.Repository == "k8s.gcr.io"
	v, err := version.ParseTolerantImageTag(i.Tag)
	if home && i.Name == dnsName && err == nil && (v.Major > 1 || v.Major == 1 && v.Minor >= 8) {
		i.Name = dnsName + "/" + dnsName
	}
	return i.String()
}

// coreDNS looks at CoreDNS, a Deployment with a file of settings whose form follows its version.
func coreDNS(ctx context.Context, c kubernetes.Interface, want Wanted) (addon, error) {
	deployment, err := c.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return addon{}, err
	}
	a, move := dnsAddon(c, deployment, want)
	if !a.outdated() {
		return a, nil
	}
	from, to, why := dnsVersions(a.now, a.then)
	if why != "" {
		a.refused = why
		return a, nil
	}
	move.settings, err = c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, dnsName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		// Its settings are not where kubeadm puts them: somebody else keeps them in the form that its version reads.
		move.settings = nil
		if from != to {
			a.then = a.now
		}
		a.unfinished = ""
	case err != nil:
		return addon{}, err
	default:
		a.refused = move.prepare(from, to)
	}
	a.write = move.do
	return a, nil
}

// dnsAddon compares CoreDNS's Deployment with what is wanted, and prepares the move from one to the other.
func dnsAddon(c kubernetes.Interface, deployment *appsv1.Deployment, want Wanted) (addon, dnsMove) {
	main := find(deployment.Spec.Template.Spec.Containers, dnsName)
	a := addon{name: dnsName, now: main.Image, then: dnsImage(main.Image, want)}
	if !want.DNSOfOthers {
		a.health = dnsHealth(deployment)
	}
	move := dnsMove{client: c, deployment: deployment, image: a.then}
	// A move that was interrupted, and is no longer wanted, leaves pods that read the backup.
	if a.now == a.then && move.reads(backupKey) {
		a.unfinished = "its pods read the " + backupKey + " of an update that was interrupted"
	}
	return a, move
}

// dnsVersions returns the versions of two images of CoreDNS, without pre-release and build, or why the first cannot
// become the second. Between images of the same version, or tag, nothing has to be known of it.
func dnsVersions(now, then string) (from, to, why string) {
	a, _ := container.ImageFromString(now) // one that cannot be read has no tag
	b, _ := container.ImageFromString(then)
	if a.Tag == b.Tag {
		return "", "", ""
	}
	was, err := version.ParseTolerantImageTag(a.Tag)
	if err != nil {
		return "", "", fmt.Sprintf("its tag %q is no version", a.Tag)
	}
	wanted, err := version.ParseTolerantImageTag(b.Tag)
	if err != nil {
		return "", "", fmt.Sprintf("the tag %q is no version", b.Tag)
	}
	was, wanted = version.MajorMinorPatch(was), version.MajorMinorPatch(wanted)
	from, to = was.String(), wanted.String()
	switch {
	case was.EQ(wanted):
		return from, to, ""
	case wanted.LT(was):
		return "", "", fmt.Sprintf("version %s is older than %s, and settings are not taken back", to, from)
	}
	if err := migration.ValidUpMigration(from, to); err != nil {
		return "", "", fmt.Sprintf("it is not known how settings change from version %s to %s: %v", from, to, err)
	}
	return from, to, ""
}

// migrate brings a Corefile into the form that another version reads.
func migrate(from, to, corefile string) (migrated string, err error) {
	// The library takes what it reads for balanced and indexes past the end where it is not. A user may write
	// anything into the ConfigMap, and none of it may end a process that keeps other clusters too.
	defer func() {
		if crash := recover(); crash != nil {
			migrated, err = "", fmt.Errorf("it cannot be read: %v", crash)
		}
	}()
	migrated, err = migration.Migrate(from, to, corefile, false)
	if err == nil && strings.TrimSpace(migrated) == "" && strings.TrimSpace(corefile) != "" {
		return "", errors.New("nothing is left of it") // the library passes over what it does not expect
	}
	return migrated, err
}

// dnsMove takes CoreDNS from one image to another.
type dnsMove struct {
	client     kubernetes.Interface
	deployment *appsv1.Deployment
	image      string
	// settings is nil where somebody else keeps them.
	settings *corev1.ConfigMap
	// corefile is the one that today's version reads, and migrated the one for the image.
	corefile, migrated string
}

// prepare makes the settings for the image, and says why that cannot be done.
func (d *dnsMove) prepare(from, to string) string {
	corefile, ok := d.settings.Data[corefileKey]
	if backup := d.settings.Data[backupKey]; backup != "" && d.reads(backupKey) {
		// An earlier attempt was interrupted: what is under the other key may be migrated already.
		corefile, ok = backup, true
	}
	if !ok {
		return fmt.Sprintf("ConfigMap %s has no %s", dnsName, corefileKey)
	}
	migrated, err := migrate(from, to, corefile)
	if err != nil {
		return fmt.Sprintf("migrating the %s of ConfigMap %s from version %s to %s: %v", corefileKey, dnsName, from, to, err)
	}
	d.corefile, d.migrated = corefile, migrated
	return ""
}

// do writes it: a backup of the settings, for today's pods to read from then on, then new settings, and last the image that reads them.
// Wherever it is interrupted, each pod that starts finds settings that it can read.
func (d *dnsMove) do(ctx context.Context) error {
	if d.settings != nil {
		if err := d.writeSettings(ctx, d.settings.Data[corefileKey], d.corefile); err != nil {
			return err
		}
		if d.migrated != d.corefile {
			if err := d.writeDeployment(ctx, func() { d.read(backupKey) }); err != nil {
				return err
			}
		}
		if err := d.writeSettings(ctx, d.migrated, d.corefile); err != nil {
			return err
		}
	}
	return d.writeDeployment(ctx, func() {
		d.read(corefileKey)
		find(d.deployment.Spec.Template.Spec.Containers, dnsName).Image = d.image
	})
}

func (d *dnsMove) writeSettings(ctx context.Context, corefile, backup string) error {
	if d.settings.Data[corefileKey] == corefile && d.settings.Data[backupKey] == backup {
		return nil
	}
	d.settings.Data[corefileKey], d.settings.Data[backupKey] = corefile, backup
	written, err := d.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(ctx, d.settings, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", dnsName, err)
	}
	d.settings = written
	return nil
}

func (d *dnsMove) writeDeployment(ctx context.Context, change func()) error {
	change()
	written, err := d.client.AppsV1().Deployments(metav1.NamespaceSystem).Update(ctx, d.deployment, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing Deployment %s: %w", dnsName, err)
	}
	d.deployment = written
	return nil
}

// item is where the Deployment says which key of the settings its pods read; nil: nowhere that kubeadm knows.
func (d *dnsMove) item() *corev1.KeyToPath {
	for _, v := range d.deployment.Spec.Template.Spec.Volumes {
		if v.Name != corefileVolume || v.ConfigMap == nil || v.ConfigMap.Name != dnsName {
			continue
		}
		for i := range v.ConfigMap.Items {
			if key := v.ConfigMap.Items[i].Key; key == corefileKey || key == backupKey {
				return &v.ConfigMap.Items[i]
			}
		}
	}
	return nil
}

func (d *dnsMove) reads(key string) bool {
	item := d.item()
	return item != nil && item.Key == key
}

func (d *dnsMove) read(key string) {
	if item := d.item(); item != nil {
		item.Key = key
	}
}
