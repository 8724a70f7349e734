package upgrader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/steps"
)

// program writes one that says a version.
func (s *scene) program(path, said string) {
	s.t.Helper()
	s.write(path, "#!/bin/sh\necho '"+said+"'\n")
	if err := os.Chmod(path, 0o700); err != nil {
		s.t.Fatal(err)
	}
}

// runtimeNode is a node with a runtime and plugins, and an image that brings newer ones: containerd v2.4.2, runc v1.3.3, plugins v1.9.1.
func runtimeNode(t *testing.T) (*scene, *node) {
	s := newScene(t)
	s.at.image = filepath.Join(s.dir, "image")
	s.program(s.node+"/containerd", "containerd github.com/containerd/containerd/v2 v2.4.1")
	for _, name := range []string{"containerd-shim-runc-v2", "ctr", "other"} {
		s.write(s.node+"/"+name, "old")
	}
	s.program(s.node+"/runc", "runc version 1.3.1-0ubuntu1")
	s.program(s.node+"/bridge", "CNI bridge plugin v1.8.0")
	for _, name := range append(slices.Clone(steps.RuntimePrograms), steps.RuncProgram) {
		s.write(s.at.image+"/bin/"+name, "new "+name)
	}
	for _, name := range []string{"bridge", "added"} {
		s.write(s.at.image+steps.PluginDir+"/"+name, "new "+name)
	}
	s.write(s.at.image+steps.BringsFile, `{"containerd": "v2.4.2", "runc": "v1.3.3", "cni": "v1.9.1"}`)
	n := &node{layout: s.at, out: io.Discard, pluginDir: s.node}
	n.wanted.Brings = steps.Brings{Containerd: "v2.4.2", Runc: "v1.3.3", CNI: "v1.9.1"}
	n.find = func(name string) string {
		if _, err := os.Stat(s.node + "/" + name); err != nil {
			return ""
		}
		return s.node + "/" + name
	}
	return s, n
}

// staged are the names of the node's files that will be exchanged.
func (s *scene) staged() string {
	s.t.Helper()
	files, err := mirrored(s.at.stage())
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimPrefix(file, s.node+"/"))
	}
	return strings.Join(names, " ")
}

// TestRuntimeStaged: what is newer in the image is staged, and nothing of the node is touched before all else is.
func TestRuntimeStaged(t *testing.T) {
	newest := "containerd github.com/containerd/containerd/v2 v2.4.2"
	for name, test := range map[string]struct {
		change    func(*scene)
		want      string
		restarted bool
	}{
		"all":        {func(*scene) {}, "containerd containerd-shim-runc-v2 ctr runc", true},
		"runc alone": {func(s *scene) { s.program(s.node+"/containerd", newest) }, "runc", false},
		"containerd alone": {func(s *scene) { s.program(s.node+"/runc", "runc version 1.3.3") }, "containerd containerd-shim-runc-v2 ctr",
			true},
		"a node without ctr": {func(s *scene) { _ = os.Remove(s.node + "/ctr") }, "containerd containerd-shim-runc-v2 runc", true},
		"no runc":            {func(s *scene) { _ = os.Remove(s.node + "/runc") }, "containerd containerd-shim-runc-v2 ctr", true},
		"nothing": {func(s *scene) {
			s.program(s.node+"/containerd", "containerd containerd.io v2.5.0")
			s.program(s.node+"/runc", "runc version 1.4.0")
		}, "", false},
	} {
		s, n := runtimeNode(t)
		test.change(s)
		before := s.read()
		for range 2 {
			_, err := n.runtime(t.Context())
			if err != nil && (!errors.Is(err, errSkipped) || test.want != "") || err == nil && test.want == "" {
				t.Errorf("%s: %v", name, err)
			}
			if got := s.staged(); got != test.want {
				t.Errorf("%s: %s, want %s", name, got, test.want)
			}
		}
		if restarted, err := s.at.exchangesRuntime(); restarted != test.restarted || err != nil {
			t.Errorf("%s: the runtime is restarted %t, %v", name, restarted, err)
		}
		s.want(name, before)
	}
}

// TestRuntimeRefused: half a runtime is not exchanged, and neither is what an image was not said to bring.
func TestRuntimeRefused(t *testing.T) {
	for want, change := range map[string]func(*scene){
		"looking for containerd-shim-runc-v2": func(s *scene) { _ = os.Remove(s.node + "/containerd-shim-runc-v2") },
		"looking for containerd:":             func(s *scene) { _ = os.Remove(s.node + "/containerd") },
		"was said to bring":                   func(s *scene) { s.write(s.at.image+steps.BringsFile, `{"containerd": "v2.4.3"}`) },
		"does not say":                        func(s *scene) { s.write(s.at.image+steps.BringsFile, "v2.4.2") },
		"containerd-shim-runc-v2: no such":    func(s *scene) { _ = os.Remove(s.at.image + "/bin/containerd-shim-runc-v2") },
	} {
		s, n := runtimeNode(t)
		change(s)
		if _, err := n.runtime(t.Context()); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "\n", " "), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPluginsStaged: plugins that are older or not there, each by itself, also behind a link.
func TestPluginsStaged(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*scene)
		want   string
	}{
		"an older one":             {func(*scene) {}, "added bridge"},
		"of no known version":      {func(s *scene) { s.program(s.node+"/bridge", "CNI bridge plugin version unknown") }, "added bridge"},
		"one that says nothing":    {func(s *scene) { s.write(s.node+"/bridge", "no program") }, "added bridge"},
		"the same":                 {func(s *scene) { s.program(s.node+"/bridge", "CNI bridge plugin v1.9.1") }, "added"},
		"a newer one, of somebody": {func(s *scene) { s.program(s.node+"/bridge", "CNI bridge plugin v1.9.2") }, "added"},
		"behind a link": {func(s *scene) {
			if err := errors.Join(os.Rename(s.node+"/bridge", s.node+"/real"), os.Symlink("real", s.node+"/bridge")); err != nil {
				t.Fatal(err)
			}
		}, "added real"},
	} {
		s, n := runtimeNode(t)
		test.change(s)
		for range 2 {
			if _, err := n.plugins(t.Context()); err != nil || s.staged() != test.want {
				t.Errorf("%s: %s, %v; want %s", name, s.staged(), err, test.want)
			}
		}
	}
	_, n := runtimeNode(t)
	n.pluginDir += "/none"
	if said, err := n.plugins(t.Context()); !errors.Is(err, errSkipped) || !strings.Contains(said, "no folder") {
		t.Errorf("%s, %v", said, err)
	}
}

func TestPluginsOf(t *testing.T) {
	for config, want := range map[string]string{
		"":                                    defaultPlugins,
		"version = 2\n":                       defaultPlugins,
		"[a.cni]\n  bin_dir = \"/usr/cni\"\n": "/usr/cni",
		"[a.cni]\n  bin_dirs = ['/a', '/b']":  "/a",
		"#  bin_dir = '/none'\n":              defaultPlugins,
	} {
		if got := pluginsOf(config); got != want {
			t.Errorf("%q: %s, want %s", config, got, want)
		}
	}
}

// servesCRI is what ctr lists of containerd 2.4.2 that serves the kubelet.
const servesCRI = `TYPE                                      ID                       PLATFORMS      STATUS
io.containerd.cri.v1                      images                   -              ok
io.containerd.cri.v1                      runtime                  linux/amd64    ok
io.containerd.grpc.v1                     cri                      -              ok
io.containerd.grpc.v1                     containers               -              ok
`

// TestServesCRI: a runtime that answers, and does not serve the kubelet, is told from one that does, at once and with the cause.
func TestServesCRI(t *testing.T) {
	for name, test := range map[string]struct{ list, want string }{
		"it serves": {servesCRI, ""},
		"of 1.7":    {"TYPE ID PLATFORMS STATUS\nio.containerd.grpc.v1 cri linux/amd64 ok\n", ""},
		"it is disabled": {strings.ReplaceAll(servesCRI, " cri  ", " no  "),
			"remove cri from disabled_plugins in /etc/containerd/config.toml"},
		"it is not configured": {strings.Replace(servesCRI, "cri                      -              ok",
			"cri                      -              error", 1), "has status error: must be ok"},
		"its platform is not": {strings.Replace(servesCRI, "cri                      -              ok",
			"cri                      linux/amd64    skip", 1), "has status skip"},
		"only its images are": {"TYPE ID PLATFORMS STATUS\nio.containerd.cri.v1 images - ok\n", "without its CRI plugin"},
		"nothing is listed":   {"", "without its CRI plugin"},
	} {
		s, n := runtimeNode(t)
		if _, err := n.runtime(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.at.manager = func(context.Context, ...string) error { return nil }
		s.program(s.at.programs()+"/ctr", test.list)
		v := service{at: s.at, out: io.Discard, proof: func(context.Context, steps.Journal, string) error { return nil }}
		j, err := v.perform(t.Context(), steps.Journal{Wanted: wantedOf(1), Phase: steps.Starting})
		if want := test.want == ""; err != nil || (j.Phase == steps.Proving) != want || !strings.Contains(j.Reason, test.want) {
			t.Errorf("%s: %+v, %v, want %q", name, j, err, test.want)
		}
	}
}

// TestRuntimeExchanged: the runtime is restarted when its programs are in their places and before the kubelet starts, on the way back with
// the old programs, before anything is asked of it. A restart that fails is the exchange's failure.
func TestRuntimeExchanged(t *testing.T) {
	s, n := runtimeNode(t)
	for _, do := range []func(context.Context) (string, error){n.runtime, n.plugins} {
		if _, err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.saveFiles(); err != nil {
		t.Fatal(err)
	}
	before := s.read()
	var asked []string
	refuses := ""
	s.at.units, s.at.manager = s.dir, func(_ context.Context, args ...string) error {
		now := strings.Join(args, " ")
		asked = append(asked, fmt.Sprintf("%s (%s)", now, strings.SplitN(s.read()["ctr"], " ", 2)[0]))
		if now == refuses {
			return errors.New("it does not start")
		}
		return nil
	}
	s.program(s.at.programs()+"/ctr", servesCRI)
	v := service{at: s.at, out: io.Discard, proof: func(context.Context, steps.Journal, string) error { return nil }}
	j := steps.Journal{Wanted: wantedOf(1), Phase: steps.Preparing}
	through := func(end steps.Phase) {
		t.Helper()
		for !j.Phase.Over() {
			var err error
			if j, err = v.perform(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		if j.Phase != end {
			t.Fatalf("%+v, want %s", j, end)
		}
	}
	through(steps.Committed)
	if got := s.read(); got["containerd"] != "new containerd" || got["runc"] != "new runc" || got["added"] != "new added" ||
		got["other"] != "old" {
		t.Errorf("%v", got)
	}
	forward := []string{"stop kubelet (old)", "reset-failed containerd (new)", "restart containerd (new)", "start kubelet (new)"}
	if !slices.Equal(asked, forward) {
		t.Errorf("%q", asked)
	}
	asked = nil
	j, _ = j.Undo(steps.Verify, "not ready")
	through(steps.Reverted)
	s.want("put back", before)
	back := []string{"stop kubelet (new)", "reset-failed containerd (old)", "restart containerd (old)", "stop kubelet (old)",
		"start kubelet (old)"}
	if !slices.Equal(asked, back) {
		t.Errorf("%q", asked)
	}
	asked, refuses = nil, "restart containerd"
	j = steps.Journal{Wanted: wantedOf(1), Phase: steps.Starting}
	if j, err := v.perform(t.Context(), j); err != nil || j.Phase != steps.Reverting || !strings.Contains(j.Reason, "does not start") {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestRuntimeUntouched: without a new runtime nobody restarts it.
func TestRuntimeUntouched(t *testing.T) {
	s := staged(t)
	var asked []string
	s.at.manager = func(_ context.Context, args ...string) error {
		asked = append(asked, strings.Join(args, " "))
		return nil
	}
	v := service{at: s.at, out: io.Discard}
	if err := v.start(t.Context()); err != nil || !slices.Equal(asked, []string{"start kubelet"}) {
		t.Errorf("%q, %v", asked, err)
	}
}
