package upgrader

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/steps"
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
		"all are there":               {{time.Second, 0, false, true}},
		"more come":                   {{50 * time.Second, 2, false, false}, {100 * time.Second, 1, false, false}, {150 * time.Second, 1, false, false}},
		"no more come":                {{50 * time.Second, 1, false, false}, {110 * time.Second, 1, false, false}, {111 * time.Second, 1, false, true}},
		"none came":                   {{60 * time.Second, 3, false, false}, {61 * time.Second, 3, false, true}},
		"a component's is missing":    {{20 * time.Minute, 1, true, false}, {24 * time.Minute, 1, true, false}},
		"it never comes":              {{25*time.Minute + time.Second, 3, true, true}},
		"then the others are late":    {{20 * time.Minute, 2, true, false}, {21 * time.Minute, 1, false, false}, {21*time.Minute + 50*time.Second, 1, false, false}},
		"some that was there is gone": {{30 * time.Second, 2, false, false}, {80 * time.Second, 3, false, false}, {130 * time.Second, 3, false, false}},
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
	s.write(ctr, "#!/bin/sh\ncat "+s.dir+"/known\n[ -e "+s.dir+"/asked ] && printf '"+apiserver+"\\n"+proxy+"\\n' > "+s.dir+"/known\ntouch "+s.dir+"/asked\n")
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
