package upgrader

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/steps"
)

// TestArrival: all images without which the node cannot serve are waited for, and the others as long as more come.
func TestArrival(t *testing.T) {
	began := time.Now()
	type look struct {
		after    time.Duration
		missing  int
		required bool
		over     bool
	}
	for name, looks := range map[string][]look{
		"all are there": {{time.Second, 0, false, true}},
		"more come": {{50 * time.Second, 2, false, false}, {100 * time.Second, 1, false, false},
			{150 * time.Second, 1, false, false}},
		"no more come": {{50 * time.Second, 1, false, false}, {110 * time.Second, 1, false, false},
			{111 * time.Second, 1, false, true}},
		"none came":                {{60 * time.Second, 3, false, false}, {61 * time.Second, 3, false, true}},
		"a component's is missing": {{20 * time.Minute, 1, true, false}, {24 * time.Minute, 1, true, false}},
		"it never comes":           {{25*time.Minute + time.Second, 3, true, true}},
		"then the others are late": {{20 * time.Minute, 2, true, false}, {21 * time.Minute, 1, false, false},
			{21*time.Minute + 50*time.Second, 1, false, false}},
		"some that was there is gone": {{30 * time.Second, 2, false, false}, {80 * time.Second, 3, false, false},
			{130 * time.Second, 3, false, false}},
	} {
		a := arrival{began: began, changed: began, missing: 3}
		for i, l := range looks {
			if over := a.over(began.Add(l.after), l.missing, l.required); over != l.over {
				t.Errorf("%s, look %d: over %t", name, i+1, over)
			}
		}
	}
}

// TestAwaitImages: images that somebody brings are waited for; where nobody does, those that are missing are said at once.
func TestAwaitImages(t *testing.T) {
	const apiserver, proxy = "registry.k8s.io/kube-apiserver:v1.36.3", "registry.k8s.io/kube-proxy:v1.36.3"
	s := newScene(t)
	// The runtime knows another image each time that it is asked.
	ctr := filepath.Join(s.at.programs(), "ctr")
	s.write(ctr, "#!/bin/sh\ncat "+s.dir+"/known\n[ -e "+s.dir+"/asked ] && printf '"+apiserver+"\\n"+proxy+"\\n' > "+s.dir+"/known\ntouch "+
		s.dir+"/asked\n")
	if err := os.Chmod(ctr, 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(s.dir+"/known", "")
	var said strings.Builder
	n := &node{layout: s.at, out: &said}
	n.wanted.Type = steps.ControlPlane
	missing, err := n.awaitImages(t.Context(), []string{apiserver, proxy})
	if err != nil || len(missing) != 2 || said.Len() > 0 {
		t.Errorf("nobody brings any: %v missing, %v; said %q", missing, err, said.String())
	}
	n.wanted.AwaitImages = true
	missing, err = n.awaitImages(t.Context(), []string{apiserver, proxy})
	if err != nil || len(missing) != 0 || !strings.Contains(said.String(), apiserver) {
		t.Errorf("somebody brings them: %v missing, %v; said %q", missing, err, said.String())
	}
}

// TestWholeName: the runtime knows an image by its whole name, however short a user wrote its repository.
func TestWholeName(t *testing.T) {
	const digest = "@sha256:1ff6c18fbef2045af6b9c16bf034cc421a29027b800e4f9b68ae9b1cb3e9ae07"
	for name, want := range map[string]string{
		"registry.k8s.io/kube-apiserver:v1.36.3":    "registry.k8s.io/kube-apiserver:v1.36.3",
		"mycompany/kube-apiserver:v1.36.3":          "docker.io/mycompany/kube-apiserver:v1.36.3",
		"etcd:3.6.8-0":                              "docker.io/library/etcd:3.6.8-0",
		"index.docker.io/mycompany/etcd:1":          "docker.io/mycompany/etcd:1",
		"mine.example.com:5000/a/b/etcd:1":          "mine.example.com:5000/a/b/etcd:1",
		"localhost/etcd:1":                          "localhost/etcd:1",
		"mycompany/coredns":                         "docker.io/mycompany/coredns:latest",
		"mycompany/coredns:v1" + digest:             "docker.io/mycompany/coredns" + digest,
		"public.ecr.aws/eks-distro/etcd-io/etcd:v3": "public.ecr.aws/eks-distro/etcd-io/etcd:v3",
		"Not/An/Image:v1":                           "Not/An/Image:v1",
	} {
		if got := wholeName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestShortRepository: images of a repository without a registry are there when the runtime has them, and a pull that failed says why they
// are not.
func TestShortRepository(t *testing.T) {
	s := newScene(t)
	s.program(s.at.programs()+"/ctr", "docker.io/mycompany/kube-apiserver:v1.36.3")
	n := &node{layout: s.at, wanted: steps.Wanted{Type: steps.ControlPlane}, out: io.Discard}
	const there, missing = "mycompany/kube-apiserver:v1.36.3", "mycompany/kube-scheduler:v1.36.3"
	if got, err := n.missingImages(t.Context(), []string{there, missing}); len(got) != 1 || got[0] != missing || err != nil {
		t.Errorf("missing %q, %v", got, err)
	}
	if err := n.hasRequired(t.Context(), []string{there}, errors.New("found multiple CRI endpoints")); err != nil {
		t.Errorf("nothing is missing: %v", err)
	}
	for _, pulled := range []error{nil, errors.New("found multiple CRI endpoints")} {
		err := n.hasRequired(t.Context(), []string{there, missing}, pulled)
		if err == nil || !strings.Contains(err.Error(), "the node has no "+missing) || pulled != nil && !errors.Is(err, pulled) {
			t.Errorf("pulled with %v: %v", pulled, err)
		}
	}
}
