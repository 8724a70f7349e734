package kubeadm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// outdated has an option that v1.7.0 no longer reads: it is migrated away.
const outdated = ".:53 {\n    errors\n    health\n    kubernetes cluster.local in-addr.arpa ip6.arpa {\n        upstream\n    }\n    " +
	"forward . /etc/resolv.conf\n}\n"

// dns is a cluster's CoreDNS of an image with a Corefile.
func dns(image, corefile string) []runtime.Object {
	d := &appsv1.Deployment{ObjectMeta: named("coredns"), Spec: appsv1.DeploymentSpec{Template: pods("coredns", image)}}
	source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "coredns"},
		Items: []corev1.KeyToPath{{Key: "Corefile", Path: "Corefile"}}}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "tmp"},
		{Name: "config-volume", VolumeSource: corev1.VolumeSource{ConfigMap: source}}}
	return []runtime.Object{d, &corev1.ConfigMap{ObjectMeta: named("coredns"), Data: map[string]string{"Corefile": corefile}},
		configMap(written)}
}

// dnsState is what a cluster's CoreDNS reads and runs.
type dnsState struct{ image, key, corefile, backup string }

func dnsOf(t *testing.T, c *fake.Clientset) dnsState {
	t.Helper()
	d, err := c.AppsV1().Deployments("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return dnsState{d.Spec.Template.Spec.Containers[1].Image, d.Spec.Template.Spec.Volumes[1].ConfigMap.Items[0].Key, m.Data["Corefile"],
		m.Data["Corefile-backup"]}
}

func toTag(tag string) Wanted {
	return wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.DNS.ImageTag = tag })
}

func TestDNSImages(t *testing.T) {
	const home = "registry.k8s.io/coredns/coredns"
	tests := []struct {
		name          string
		now           string
		all, own, tag string // imageRepository of everything, and of CoreDNS, and its tag
		then          string
		refused       string
	}{
		{name: "nothing is said", now: home + ":v1.13.1", then: home + ":v1.13.1"},
		{name: "the cluster's repository", now: home + ":v1.13.1", all: "example.com/k8s", then: "example.com/k8s/coredns:v1.13.1"},
		{name: "its own repository", now: home + ":v1.13.1", all: "example.com/k8s", own: "example.com:5000/dns/",
			then: "example.com:5000/dns/coredns:v1.13.1"},
		{name: "both and a tag", now: home + ":v1.13.1", all: "example.com/k8s", tag: "v1.14.2", then: "example.com/k8s/coredns:v1.14.2"},
		{name: "back home", now: "example.com/k8s/coredns:v1.13.1", all: "registry.k8s.io", then: home + ":v1.13.1"},
		{name: "at home already", now: home + ":v1.13.1", all: "registry.k8s.io", then: home + ":v1.13.1"},
		{name: "the old home", now: "k8s.gcr.io/coredns:1.7.0", tag: "v1.8.4", then: "k8s.gcr.io/coredns/coredns:v1.8.4"},
		{name: "its old name", now: "k8s.gcr.io/coredns:1.6.7", tag: "1.7.0", then: "k8s.gcr.io/coredns:1.7.0"},
		{name: "a build", now: home + ":v1.13.1", tag: "v1.13.1-vendor.2", then: home + ":v1.13.1-vendor.2"},
		{name: "a build with a plus", now: home + ":v1.13.1", tag: "v1.14.2+vendor.2", then: home + ":v1.14.2_vendor.2"},
		{name: "a version that nobody knows, moved", now: home + ":v9.9.9", all: "example.com/k8s", then: "example.com/k8s/coredns:v9.9.9"},
		{name: "no version, moved", now: home + ":latest", all: "example.com/k8s", then: "example.com/k8s/coredns:latest"},
		{name: "a digest", now: home + "@sha256:" + strings.Repeat("a", 64), all: "example.com/k8s", tag: "v1.14.2", then: home + "@sha256:" +
			strings.Repeat("a", 64)},
		{name: "a tag and a digest", now: home + ":v1.13.1@sha256:" + strings.Repeat("a", 64), tag: "v1.14.2", then: home + ":v1.13.1@sha256:" +
			strings.Repeat("a", 64)},
		{name: "older", now: home + ":v1.13.1", tag: "v1.11.1", refused: "version 1.11.1 is older than 1.13.1"},
		{name: "older by a patch, from elsewhere", now: home + ":v1.14.3", own: "example.com/dns", tag: "v1.14.2",
			refused: "version 1.14.2 is older than 1.14.3"},
		{name: "from a version that nobody knows", now: home + ":v1.13.99", tag: "v1.14.2", refused: "from version 1.13.99 to 1.14.2"},
		{name: "to a version that nobody knows", now: home + ":v1.13.1", tag: "v9.9.9", refused: "from version 1.13.1 to 9.9.9"},
		{name: "from no version", now: home + ":latest", tag: "v1.14.2", refused: `its tag "latest" is no version`},
		{name: "to no version", now: home + ":v1.13.1", tag: "latest", refused: `the tag "latest" is no version`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := fake.NewClientset(dns(test.now, corefile)...)
			want := wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) {
				c.ImageRepository, c.DNS.ImageRepository, c.DNS.ImageTag = test.all, test.own, test.tag
			})
			behind, err := AddonsBehind(t.Context(), c, want)
			if test.refused != "" {
				stays(t, c, want, test.refused)
				return
			}
			if err != nil || (behind != "") != (test.then != test.now) {
				t.Errorf("behind %q, %v", behind, err)
			}
			if err := UpdateAddons(t.Context(), c, want); err != nil {
				t.Fatal(err)
			}
			backup := map[bool]string{true: corefile}[test.then != test.now]
			if now := dnsOf(t, c); now.image != test.then || now.corefile == "" || now.key != "Corefile" || now.backup != backup {
				t.Errorf("CoreDNS is %+v, want %s", now, test.then)
			}
			if behind, err := AddonsBehind(t.Context(), c, want); behind != "" || err != nil {
				t.Errorf("once updated it is still behind: %q, %v", behind, err)
			}
		})
	}
}

// stays expects that CoreDNS, its settings and what kubeadm says of it are left as they are, and that it is said why.
func stays(t *testing.T, c *fake.Clientset, want Wanted, says string) {
	t.Helper()
	before := dnsOf(t, c)
	behind, err := AddonsBehind(t.Context(), c, want)
	var refusal *Refusal
	if behind != "" || !errors.As(err, &refusal) || refusal.Config || !strings.Contains(err.Error(), says) {
		t.Errorf("behind %q, %v, want a refusal that says %q", behind, err, says)
	}
	if err := UpdateAddons(t.Context(), c, want); !errors.As(err, &refusal) || !strings.Contains(err.Error(), says) {
		t.Errorf("updating: %v, want a refusal that says %q", err, says)
	}
	if text := configWritten(t, c, want); !strings.Contains(text, "dns: {}") {
		t.Errorf("kubeadm's configuration follows what is refused:\n%s", text)
	}
	if after := dnsOf(t, c); after != before {
		t.Errorf("CoreDNS is %+v, was %+v", after, before)
	}
}

// TestDNSRefusedBesideProxy: what is wrong with one add-on does not hold up the other.
func TestDNSRefusedBesideProxy(t *testing.T) {
	c := fake.NewClientset(cluster()...)
	want := wanted("v1.36.3", func(c *bootstrapv1.ClusterConfiguration) { c.DNS.ImageTag = "v1.10.1" })
	behind, err := AddonsBehind(t.Context(), c, want)
	if !strings.HasPrefix(behind, "kube-proxy is") || strings.Contains(behind, "coredns") || err == nil {
		t.Errorf("behind %q, %v", behind, err)
	}
	if err := UpdateAddons(t.Context(), c, want); err == nil {
		t.Error("nothing is said of what is refused")
	}
	if set, err := c.AppsV1().DaemonSets("kube-system").Get(t.Context(), "kube-proxy", metav1.GetOptions{}); err != nil ||
		set.Spec.Template.Spec.Containers[1].Image != "registry.k8s.io/kube-proxy:v1.36.3" {
		t.Errorf("kube-proxy is %v, %v", set.Spec.Template.Spec.Containers, err)
	}
}

// TestNoImages: what no machine could fetch is not written.
func TestNoImages(t *testing.T) {
	c := fake.NewClientset(cluster()...)
	want := wanted("v1.36.3", func(c *bootstrapv1.ClusterConfiguration) { c.ImageRepository = "example.com//k8s" })
	behind, err := AddonsBehind(t.Context(), c, want)
	if behind != "" || err == nil || strings.Count(err.Error(), "couldn't parse image name") != 2 {
		t.Errorf("behind %q, %v", behind, err)
	}
	if err := UpdateAddons(t.Context(), c, want); err == nil || count(c, "update") > 0 {
		t.Errorf("updating: %v, %v", err, c.Actions())
	}
}

// TestCorefile: a Corefile that cannot be migrated, or is missing, moves nothing.
func TestCorefile(t *testing.T) {
	const image = "registry.k8s.io/coredns/coredns:v1.11.1"
	for bad, says := range map[string]string{"{ z": "it cannot be read: ", "{ { a\n b {\n c\n": "it cannot be read: ",
		"{\n{\n": "nothing is left of it"} {
		t.Run(bad, func(t *testing.T) {
			stays(t, fake.NewClientset(dns(image, bad)...), toTag("v1.12.0"),
				"migrating the Corefile of ConfigMap coredns from version 1.11.1 to 1.12.0: "+says)
		})
	}
	objects := dns(image, "")
	objects[1].(*corev1.ConfigMap).Data = nil
	stays(t, fake.NewClientset(objects...), toTag("v1.12.0"), "ConfigMap coredns has no Corefile")

	// Somebody else keeps the settings: only the registry follows.
	c := fake.NewClientset(dns(image, "")[0])
	if err := UpdateAddons(t.Context(), c, toTag("v1.12.0")); err != nil || count(c, "update") > 0 {
		t.Errorf("without a ConfigMap: %v, %v", err, c.Actions())
	}
	want := wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.ImageRepository = "example.com/k8s" })
	if err := UpdateAddons(t.Context(), c, want); err != nil || count(c, "update") != 1 {
		t.Errorf("without a ConfigMap: %v, %v", err, c.Actions())
	}
}

// TestDNSInterrupted fails each write in turn: at any moment what runs finds settings that it can read, what was there is kept,
// and another attempt ends where an undisturbed one does.
func TestDNSInterrupted(t *testing.T) {
	const image = "k8s.gcr.io/coredns:1.6.7"
	want := toTag("v1.8.4")
	migrated, err := migrate("1.6.7", "1.8.4", outdated)
	if err != nil || migrated == outdated {
		t.Fatalf("nothing to migrate: %v", err)
	}
	end := dnsState{"k8s.gcr.io/coredns/coredns:v1.8.4", "Corefile", migrated, outdated}
	for writes := 0; ; writes++ {
		c := fake.NewClientset(dns(image, outdated)...)
		left := writes
		c.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			left--
			return left < 0, nil, fmt.Errorf("the API server is gone after %d writes", writes)
		})
		err := UpdateAddons(t.Context(), c, want)
		now := dnsOf(t, c)
		read := map[string]string{"Corefile": now.corefile, "Corefile-backup": now.backup}[now.key]
		if readable := map[string]string{image: outdated, end.image: migrated}[now.image]; read != readable {
			t.Errorf("after %d writes %s reads:\n%s", writes, now.image, read)
		}
		if now.corefile != outdated && now.backup != outdated {
			t.Errorf("after %d writes the settings are lost", writes)
		}
		c.ReactionChain = slices.Delete(c.ReactionChain, 0, 1)
		if err := UpdateAddons(t.Context(), c, want); err != nil {
			t.Fatalf("after %d writes: %v", writes, err)
		}
		if now := dnsOf(t, c); now != end {
			t.Errorf("interrupted after %d writes it ends as %+v", writes, now)
		}
		if err == nil {
			if writes != 4 {
				t.Errorf("%d writes, want the backup, the pods to the backup, the settings, the image", writes)
			}
			return
		}
	}
}

// TestDNSTakenBack interrupts a move after each of its writes, and the image of before is wanted again: its pods read what
// it read, under the usual key, and find settings that they can read at any moment on the way back.
func TestDNSTakenBack(t *testing.T) {
	const image = "k8s.gcr.io/coredns:1.6.7"
	for writes := range 4 {
		for back := range 3 {
			c := fake.NewClientset(dns(image, outdated)...)
			interrupted(t, c, toTag("v1.8.4"), writes)
			interrupted(t, c, toTag("1.6.7"), back)
			now := dnsOf(t, c)
			if read := map[string]string{"Corefile": now.corefile, "Corefile-backup": now.backup}[now.key]; now.image != image || read != outdated {
				t.Errorf("after %d writes, and %d back, %s reads:\n%s", writes, back, now.image, read)
			}
			behind, err := AddonsBehind(t.Context(), c, toTag("1.6.7"))
			if (behind != "") != (now.key != "Corefile") || err != nil {
				t.Errorf("after %d writes, and %d back, %+v: behind %q, %v", writes, back, now, behind, err)
			}
			if err := UpdateAddons(t.Context(), c, toTag("1.6.7")); err != nil {
				t.Fatalf("after %d writes, and %d back: %v", writes, back, err)
			}
			if now := dnsOf(t, c); now.image != image || now.key != "Corefile" || now.corefile != outdated {
				t.Errorf("after %d writes it is taken back to %+v", writes, now)
			}
		}
	}
}

// TestDNSTakenBackWithoutSettings: where the backup is gone as well, or the settings are somebody else's, nothing is written.
func TestDNSTakenBackWithoutSettings(t *testing.T) {
	const image = "registry.k8s.io/coredns/coredns:v1.11.1"
	objects := dns(image, "")
	objects[0].(*appsv1.Deployment).Spec.Template.Spec.Volumes[1].ConfigMap.Items[0].Key = "Corefile-backup"
	objects[1].(*corev1.ConfigMap).Data = nil
	c := fake.NewClientset(objects...)
	if err := UpdateAddons(t.Context(), c, toTag("v1.11.1")); err == nil ||
		!strings.Contains(err.Error(), "was interrupted: ConfigMap coredns has no Corefile") || count(c, "update") > 0 {
		t.Errorf("%v, %v", err, c.Actions())
	}
	c = fake.NewClientset(objects[0])
	if behind, err := AddonsBehind(t.Context(), c, toTag("v1.11.1")); behind != "" || err != nil {
		t.Errorf("behind %q, %v", behind, err)
	}
}

// interrupted updates the add-ons until so many writes are done.
func interrupted(t *testing.T, c *fake.Clientset, want Wanted, writes int) {
	t.Helper()
	c.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		writes--
		return writes < 0, nil, errors.New("the API server is gone")
	})
	if err := UpdateAddons(t.Context(), c, want); err != nil && writes >= 0 {
		t.Fatal(err)
	}
	c.ReactionChain = slices.Delete(c.ReactionChain, 0, 1)
}
