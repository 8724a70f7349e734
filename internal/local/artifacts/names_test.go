package artifacts

import (
	"slices"
	"strings"
	"testing"
)

// TestOtherNames: who upgrades finds an image by the older version's name as well.
func TestOtherNames(t *testing.T) {
	dns := contents["coredns"]
	got, err := dns.otherNames("registry.k8s.io/coredns/coredns:" + dns.tags[0])
	if err != nil || !slices.Equal(got, withTags("registry.k8s.io/coredns/coredns", dns.tags[1:])) {
		t.Errorf("other names are %v, %v", got, err)
	}
	if _, err := dns.otherNames("registry.k8s.io/coredns/coredns:v9.9.9"); err == nil || !strings.Contains(err.Error(), "v9.9.9") {
		t.Errorf("a tag that is not known gives %v", err)
	}
	versions := Versions()
	for i, version := range versions {
		got, err := contents["kube-proxy"].otherNames("registry.k8s.io/kube-proxy:" + version)
		if err != nil || !slices.Equal(got, withTags("registry.k8s.io/kube-proxy", versions[i+1:])) {
			t.Errorf("other names of kube-proxy %s are %v, %v", version, got, err)
		}
	}
	if got, err := contents["etcd"].otherNames("registry.k8s.io/etcd:3.6.8-0"); len(got) > 0 || err != nil {
		t.Errorf("an image without versions of its own has other names %v, %v", got, err)
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
