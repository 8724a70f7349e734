package kubeadm

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/yaml"
)

// FuzzConfig: whatever is in the ConfigMap is refused, or is as wanted once it was brought up to date.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{written, audited, old, "", "null", "[", "{}",
		"kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\ndns: [1]\nfeatureGates: x\netcd: {local: 3}\n",
		"kind: ClusterConfiguration\napiVersion: 4\n", "a: &a [*a]",
		"kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta3\nextra: {a: {b: [c]}}\n"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	c := fake.NewClientset()
	f.Fuzz(func(t *testing.T, text string, says bool) {
		want := Wanted{Version: "v1.36.3"}
		if says {
			want = wanted("v1.36.3", func(c *bootstrapv1.ClusterConfiguration) {
				c.CertificateValidityPeriodDays, c.DNS.ImageTag, c.Etcd.Local.DataDir = 90, "v1.14.2", "/data"
			})
		}
		wanted, err := render(want)
		if err != nil {
			t.Fatal(err)
		}
		has, err := parse(text, want.Version, wanted[versionKey])
		var refused *Refusal
		if errors.As(err, &refused) {
			return
		}
		if err != nil {
			t.Fatalf("neither read nor refused: %v", err)
		}
		follow(has, wanted, want)
		if _, err := followDNS(t.Context(), c, has, wanted, want); err != nil {
			t.Fatal(err)
		}
		after, err := yaml.Marshal(has)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(string(after), want.Version, wanted[versionKey])
		if err != nil {
			t.Fatalf("what was written is not read again: %v\n%s", err, after)
		}
		if changes := follow(again, wanted, want); len(changes) > 0 {
			t.Errorf("once up to date it is behind: %v\n%s", changes, after)
		}
		if moves, err := followDNS(t.Context(), c, again, wanted, want); moves || err != nil {
			t.Errorf("once up to date its dns is behind: %v\n%s", err, after)
		}
	})
}

// FuzzCorefile: a Corefile is migrated to something, or it is said why not; never does it end the process.
func FuzzCorefile(f *testing.F) {
	for _, text := range []string{corefile, outdated, "", "{ z", "{{{", "{\n{\n", "}", "a {\n b {\n c {\n d\n}\n", "\"", "a\x00{\n}",
		". {\n import ../x\n}\n", ".:53 {\n forward . 1.1.1.1 {\n  policy \"a b\"\n }\n}\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, versions := range [][2]string{{"1.1.3", "1.14.2"}, {"1.6.7", "1.8.4"}, {"1.13.1", "1.14.2"}} {
			migrated, err := migrate(versions[0], versions[1], text)
			if err != nil && migrated != "" || err == nil && strings.TrimSpace(migrated) == "" && strings.TrimSpace(text) != "" {
				t.Errorf("from %v: %q, %v", versions, migrated, err)
			}
		}
	})
}

// FuzzImages: whatever runs and is wanted, an image that is as wanted is left alone, and what cannot be read too.
func FuzzImages(f *testing.F) {
	for _, image := range []string{"registry.k8s.io/coredns/coredns:v1.13.1", "k8s.gcr.io/coredns:1.7.0", "coredns", "a/b:c",
		"localhost:5000/x@sha256:" + strings.Repeat("a", 64), "", ":", "example.com/a/b/c:v1_2+3"} {
		f.Add(image, "example.com:5000/k8s/", "", "v1.14.2+vendor.1")
		f.Add(image, "registry.k8s.io", "k8s.gcr.io", "latest")
		f.Add(image, "", "", "")
		f.Add(image, "/", "//", "..")
	}
	f.Fuzz(func(t *testing.T, image, all, own, tag string) {
		want := wanted("v1.36.3", func(c *bootstrapv1.ClusterConfiguration) {
			c.ImageRepository, c.DNS.ImageRepository, c.DNS.ImageTag = all, own, tag
		})
		then := dnsImage(image, want)
		if settled(image) && then != image {
			t.Errorf("%q was chosen by somebody, and became %q", image, then)
		}
		if again := dnsImage(then, want); again != then {
			t.Errorf("%q became %q, and that %q", image, then, again)
		}
		if then != image {
			dnsVersions(image, then)
		}
		proxy := moved(image, all, want.Version)
		if again := moved(proxy, all, want.Version); again != proxy {
			t.Errorf("kube-proxy: %q became %q, and that %q", image, proxy, again)
		}
	})
}
