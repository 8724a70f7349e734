package embed

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/local/artifacts"
)

func TestEnvironmentFile(t *testing.T) {
	state := t.TempDir()
	if _, err := Load(state); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("of an empty folder: %v, want %v", err, fs.ErrNotExist)
	}
	want := Environment{
		Network: netip.MustParsePrefix("172.30.0.0/16"), Kubernetes: "v1.36.3", Ports: Ports{1, 2, 3, 4, 5, 6},
		Artifacts: artifacts.Set{Kubernetes: "v1.36.3", Management: "/m", Images: []string{"/i"}}, Cache: "/c", NodeBinary: "/n",
	}
	if err := want.Save(state); err != nil {
		t.Fatal(err)
	}
	got, err := Load(state)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; wrote %+v", got, err, want)
	}
	checkMode(t, filepath.Join(state, environmentFile), 0o600)
	if left, _ := filepath.Glob(filepath.Join(state, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(filepath.Join(state, environmentFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(state); err == nil || !strings.Contains(err.Error(), environmentFile) {
		t.Errorf("of a broken file: %v, want an error that names it", err)
	}
}

func checkMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", path, got, want)
	}
}

func TestMerge(t *testing.T) {
	t.Setenv("QUORATE_CACHE", "")
	t.Setenv("QUORATE_ARTIFACTS", "")
	network := netip.MustParsePrefix("10.9.0.0/16")
	old := Environment{Network: network, Kubernetes: "v1.35.4", Cache: "/cache", Prebuilt: "/prebuilt", NodeBinary: "/node"}
	with := func(change func(*Environment)) Environment { e := old; change(&e); return e }
	for _, c := range []struct {
		name string
		o    Options
		env  [2]string
		want Environment
		err  string
	}{
		{name: "nothing wished", want: old},
		{name: "the same network", o: Options{Network: network}, want: old},
		{name: "the same network by another address", o: Options{Network: netip.MustParsePrefix("10.9.1.1/16")}, want: old},
		{name: "another network", o: Options{Network: netip.MustParsePrefix("10.8.0.0/16")}, err: "network 10.8.0.0/16: the environment in  " +
			"has 10.9.0.0/16; leave --network out"},
		{name: "another version stays", o: Options{Kubernetes: "v1.36.3"}, want: old},
		{name: "another program", o: Options{NodeBinary: "/new"}, want: with(func(e *Environment) { e.NodeBinary = "/new" })},
		{name: "another cache", o: Options{Artifacts: artifacts.Options{Cache: "/new"}}, want: with(func(e *Environment) { e.Cache = "/new" })},
		{name: "variables", env: [2]string{"/c", "/p"}, want: with(func(e *Environment) { e.Cache, e.Prebuilt = "/c", "/p" })},
		{
			name: "options before variables", env: [2]string{"/c", "/p"}, o: Options{Artifacts: artifacts.Options{Cache: "/a", Prebuilt: "/b"}},
			want: with(func(e *Environment) { e.Cache, e.Prebuilt = "/a", "/b" }),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("QUORATE_CACHE", c.env[0])
			t.Setenv("QUORATE_ARTIFACTS", c.env[1])
			got, err := old.merge(c.o)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestNewEnvironment(t *testing.T) {
	const free = "10.213.0.0/16"
	for _, c := range []struct {
		name, network, kubernetes string
		err                       string
	}{
		{name: "a free network", network: free},
		{name: "the default version", network: free, kubernetes: artifacts.DefaultVersion},
		{name: "the newest version", network: free, kubernetes: artifacts.Versions()[0]},
		{name: "an unknown version", network: free, kubernetes: "v1.2.3", err: artifacts.Versions()[0]},
		{name: "too small", network: "10.213.0.0/24", err: "from /8 to /22"},
		{name: "too large", network: "0.0.0.0/0", err: "from /8 to /22"},
		{name: "not IPv4", network: "fd00::/16", err: "IPv4"},
		{name: "in use by a link", network: "127.3.0.0/16", err: "link lo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{State: filepath.Join(t.TempDir(), "state"), Network: netip.MustParsePrefix(c.network), Kubernetes: c.kubernetes}
			e, err := newEnvironment(o)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if e.Network.String() != c.network || e.Kubernetes != cmp.Or(c.kubernetes, artifacts.DefaultVersion) || e.Ports.APIServer == 0 ||
				e.Cache == "" {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestStartChangesNothingWhenRefused(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	err := Start(t.Context(), Options{State: state, Kubernetes: "v0.0.1", Network: netip.MustParsePrefix("10.213.0.0/16")}, nil)
	if err == nil || !strings.Contains(err.Error(), "v0.0.1") {
		t.Errorf("error %v, want one that names the version", err)
	}
	if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state folder: %v, want none", err)
	}
}

// An environment outlives the pins with which it was made: it is started by a program that builds other versions, and its clusters
// get machines of the versions that they have.
func TestEnvironmentOfThePast(t *testing.T) {
	state, cache := t.TempDir(), t.TempDir()
	set := func(version string) artifacts.Set {
		path := func(name string) string {
			p := filepath.Join(cache, version, name)
			if err := os.MkdirAll(p, 0o700); err != nil {
				t.Fatal(err)
			}
			return p
		}
		return artifacts.Set{Kubernetes: version, Management: path("management"), Machine: path("machine"), CNI: path("cni"), CRDs: path("crds")}
	}
	old := Environment{Network: DefaultNetwork, Kubernetes: "v1.30.1", Artifacts: set("v1.30.1"), Cache: cache}
	if err := old.Save(state); err != nil {
		t.Fatal(err)
	}
	machine, err := json.Marshal(map[string]any{"spec": map[string]any{"name": "cp-1", "artifacts": set("v1.29.2"), "address": "172.30.1.1",
		"podCIDR": "10.244.1.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(state, "machines", "cp-1")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "machine.json"), machine, 0o600)); err != nil {
		t.Fatal(err)
	}
	e, err := ensureEnvironment(t.Context(), Options{State: state}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if e.Kubernetes != "v1.30.1" || e.Artifacts.Management != old.Artifacts.Management || e.Artifacts.CRDs == old.Artifacts.CRDs {
		t.Errorf("%+v, was %+v", e, old)
	}
	for version, want := range map[string]bool{"v1.30.1": true, "v1.29.2": true, "v1.28.0": false} {
		if _, err := artifacts.Ensure(t.Context(), e.artifacts(state, nil), version); (err == nil) != want {
			t.Errorf("%s: %v", version, err)
		}
	}
}
