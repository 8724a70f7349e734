package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	pins "github.com/quorate/quorate/artifacts"
	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

func opener(file string) tarball.Opener {
	return func() (io.ReadCloser, error) { return os.Open(file) }
}

func TestDirectives(t *testing.T) {
	p := pin{mod: `module artifacts

go 1.26.6

tool example.org/one // a reason

require example.org/m v1.2.3
require (
	example.org/n v0.1.0 // indirect
)

tool (
	example.org/two
	// example.org/three
)
`}
	for kind, want := range map[string][][]string{
		"go":      {{"1.26.6"}},
		"tool":    {{"example.org/one"}, {"example.org/two"}},
		"require": {{"example.org/m", "v1.2.3"}, {"example.org/n", "v0.1.0"}},
		"replace": nil,
	} {
		if got := p.directives(kind); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
	if v, err := p.version("example.org/n"); err != nil || v != "v0.1.0" {
		t.Errorf("version %q, %v", v, err)
	}
	if _, err := p.version("example.org/x"); err == nil {
		t.Error("a module that is not required has a version")
	}
}

func TestProgram(t *testing.T) {
	for pkg, want := range map[string]string{
		"k8s.io/kubernetes/cmd/kubelet": "kubelet", "go.etcd.io/etcd/etcdctl/v3": "etcdctl", "pause": "pause",
		"example.org/v2/vault": "vault", "example.org/video/v12": "video",
	} {
		if got := program(pkg); got != want {
			t.Errorf("%s: %s, want %s", pkg, got, want)
		}
	}
}

// Every component of every version can be built from what is pinned: its version is required, its module has a
// checksum, its programs are those that are wanted, and all ask for the same Go.
func TestPins(t *testing.T) {
	wanted := map[string][]string{
		"kubernetes": {"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubeadm", "kubectl", "kubelet"},
		"etcd":       {"etcdctl", "etcdutl", "server"},
		"etcd-3.7":   {"etcdctl", "etcdutl", "server"},
		"etcd-3.5":   {"etcdctl", "etcdutl", "server"},
		"etcdadm":    {"etcdadm"},
		"containerd": {"containerd", "containerd-shim-runc-v2", "ctr"},
		"cni":        {"bridge", "host-local", "loopback", "portmap", "ptp"},
		"coredns":    {"coredns"},

		"cluster-api-programs": {"clusterctl", "core", "kubeadm", "kubeadm", "kustomize"},
		"cert-manager":         {"cainjector", "controller", "webhook"},
		"helm":                 {"helm"},
	}
	goLine, err := goVersion()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range Versions() {
		for _, c := range components(version) {
			p, err := readPin(c.folder)
			if err != nil {
				t.Fatal(err)
			}
			var programs []string
			for _, tool := range p.directives("tool") {
				programs = append(programs, program(tool[0]))
			}
			if slices.Sort(programs); !slices.Equal(programs, wanted[c.name]) {
				t.Errorf("%s builds %v, want %v", c.folder, programs, wanted[c.name])
			}
			v, err := p.version(c.module)
			if err != nil || !strings.Contains(p.sum, c.module+" "+v+" h1:") {
				t.Errorf("%s: module %s is not pinned by checksum (%v)", c.folder, c.module, err)
			}
			if got := p.directives("go"); !reflect.DeepEqual(got, [][]string{{goLine}}) {
				t.Errorf("%s asks for Go %v, want %s", c.folder, got, goLine)
			}
			if c.name != "kubernetes" {
				continue
			}
			if v != version {
				t.Errorf("%s pins Kubernetes %s", c.folder, v)
			}
			for _, replace := range p.directives("replace") {
				if want := "v0." + strings.TrimPrefix(version, "v1."); replace[len(replace)-1] != want {
					t.Errorf("%s: %v, want %s", c.folder, replace, want)
				}
			}
		}
	}
	folders, err := fs.ReadDir(pins.Pins, ".")
	if err != nil || len(folders) != len(components(""))-1+len(Versions())+1 {
		t.Errorf("there are pins of unknown components: %v, %v", folders, err)
	}
}

func TestLinkerFlags(t *testing.T) {
	for _, test := range []struct{ component, version, want string }{
		{"etcd", "v3.6.16", "-s -w"},
		{"containerd", "v2.4.2", "-s -w -X github.com/containerd/containerd/v2/version.Version=v2.4.2"},
		{"kubernetes", "v1.36.3", "-s -w -X k8s.io/client-go/pkg/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 " +
			"-X k8s.io/component-base/version.gitMinor=36 -X k8s.io/component-base/version.gitTreeState=clean -X " +
			"k8s.io/component-base/version.gitVersion=v1.36.3"},
	} {
		for _, c := range components("v1.36.3") {
			if got := c.linkerFlags(test.version); c.name == test.component && got != test.want {
				t.Errorf("%s: %s, want %s", c.name, got, test.want)
			}
		}
	}
}

// TestSharedPackages: what quorate shares with a component is compiled once for both, so that it must be compiled in the same way, and the
// versions of what takes long must be the same.
func TestSharedPackages(t *testing.T) {
	own, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nexport GOFLAGS := -buildvcs=false " + strings.Join(compiled, " ") + "\n"; !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile compiles otherwise than artifacts are compiled: it has no line%s", want)
	}
	for _, module := range []string{
		"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/kube-openapi", "k8s.io/utils", "sigs.k8s.io/structured-merge-diff/v6",
		"github.com/go-logr/logr",
		"go.yaml.in/yaml/v2", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/text", "golang.org/x/time", "google.golang.org/protobuf",
		"google.golang.org/grpc",
	} {
		want, err := pin{mod: string(own)}.version(module)
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{"coredns", "cluster-api"} {
			shared, err := readPin(folder)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := shared.version(module); got != want {
				t.Errorf("%s has %s %s, %v, and quorate %s: run hack/update-pins.sh %s", folder, module, got, err, want, folder)
			}
		}
	}
}

// A component's digest follows from its pins, and its host's part from the toolchain.
func TestComponentInputs(t *testing.T) {
	etcd := components("v1.36.3")[1]
	one, errA := etcd.product(toolchain{digest: cache.Sum("go1")})
	two, errB := etcd.product(toolchain{digest: cache.Sum("go2")})
	if errA != nil || errB != nil || one.Inputs != two.Inputs || one.Host == two.Host || one.Version != "v3.6.16" {
		t.Errorf("%+v, %+v, %v, %v", one, two, errA, errB)
	}
	etcd.rename = nil
	if other, err := etcd.product(toolchain{}); err != nil || other.Inputs == one.Inputs {
		t.Errorf("another way to build has the same inputs (%v)", err)
	}
	broken := errors.New("broken")
	if p, err := etcd.product(toolchain{err: broken}); err != nil || !errors.Is(p.HostErr, broken) {
		t.Errorf("a broken toolchain: %v, %v", p.HostErr, err)
	}
}

func TestFindToolchain(t *testing.T) {
	folder := t.TempDir()
	for _, test := range []struct{ name, script, want string }{
		{"none", "", "go is not in PATH; get Go 1.26.6 or later from https://go.dev/dl/"},
		{"too old to know toolchains", `echo '{"GOVERSION":"go1.19.8","GOCACHE":"/c","GOMODCACHE":"/m"}'`, "is go1.19.8; get one from"},
		{"not allowed to fetch a newer one", `echo "go: go.mod requires go >= 1.26.6 (running go 1.24.4; GOTOOLCHAIN=local)" >&2; exit 1`,
			"says: go: go.mod requires go >= 1.26.6"},
	} {
		t.Setenv("PATH", folder)
		if test.script != "" {
			script(t, filepath.Join(folder, "go"), test.script)
		}
		tools := findToolchain(t.Context())
		if !errors.Is(tools.err, ErrNoGo) || !strings.Contains(tools.err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, tools.err, test.want)
		}
		if tools.digest != "" {
			t.Errorf("%s: there is a digest", test.name)
		}
	}
	script(t, filepath.Join(folder, "go"), `echo '{"GOVERSION":"go1.27.1","GOCACHE":"/c","GOMODCACHE":"/m"}'`)
	if tools := findToolchain(t.Context()); tools.err != nil || !slices.Equal(tools.caches, []string{"/c", "/m"}) || tools.digest == "" {
		t.Errorf("a newer one: %+v", tools)
	}
}

// The smallest real build, in an environment that is set against it.
func TestBuildIsNotDisturbed(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	for name, value := range map[string]string{
		"GOFLAGS": "-mod=vendor -tags=nothing", "GOWORK": "/nowhere/go.work", "CGO_ENABLED": "1", "GOOS": "windows", "GOEXPERIMENT": "nonsense",
		"GO111MODULE": "off",
	} {
		t.Setenv(name, value)
	}
	tools := findToolchain(t.Context())
	if tools.err != nil {
		t.Fatal(tools.err)
	}
	c, err := cache.Open(t.TempDir(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := c.Ensure(t.Context(), pauseProduct(tools))
	if err != nil {
		t.Fatal(err)
	}
	pauses(t, filepath.Join(folder, "pause"))
}

// When this variable names a pause program, the test program leaves it a child that has ended: see pauses.
const pauseVariable = "QUORATE_TEST_PAUSE"

func TestMain(m *testing.M) {
	if pause := os.Getenv(pauseVariable); pause != "" {
		panic(becomePause(pause))
	}
	os.Exit(m.Run())
}

// becomePause starts a child, waits until it has ended, without collecting it, and goes on as the pause program.
func becomePause(pause string) error {
	child, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		return err
	}
	for state := ""; state != "Z"; {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child.Pid))
		if err != nil {
			return err
		}
		state = strings.Fields(string(text))[2]
	}
	return syscall.Exec(pause, []string{"pause"}, os.Environ())
}

// pauses runs a pause program as the parent of children that have ended before it listens, or end later.
func pauses(t *testing.T, pause string) {
	t.Helper()
	before := exec.Command(os.Args[0])
	before.Env = append(os.Environ(), pauseVariable+"="+pause)
	reapsUntilTold(t, before)
	reapsUntilTold(t, exec.Command("sh", "-c", "sleep 0.2 & exec "+pause))
}

func reapsUntilTold(t *testing.T, process *exec.Cmd) {
	t.Helper()
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	children := filepath.Join("/proc", fmt.Sprint(process.Process.Pid), "task", fmt.Sprint(process.Process.Pid), "children")
	deadline, tick := time.After(10*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for left := "?"; left != ""; {
		select {
		case err := <-ended:
			t.Fatalf("pause ended by itself: %v", err)
		case <-deadline:
			_ = process.Process.Kill()
			t.Fatalf("children %s are not reaped", left)
		case <-tick.C:
			program, err := os.ReadFile(filepath.Join(filepath.Dir(children), "comm"))
			if err != nil || string(program) != "pause\n" {
				continue
			}
			text, err := os.ReadFile(children)
			if err != nil {
				t.Fatal(err)
			}
			left = string(text)
		}
	}
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("told to end, pause says %v", err)
	}
}

func TestFailedBuildTellsWhy(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	tools := findToolchain(t.Context())
	if tools.err != nil {
		t.Fatal(tools.err)
	}
	module := func(source string) (cache.Workplace, pin) {
		w := cache.Workplace{Out: t.TempDir(), Work: t.TempDir(), Report: func(string, ...any) {}}
		if err := os.WriteFile(filepath.Join(w.Work, "main.go"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		return w, pin{mod: "module hello\n\ngo 1.26.0\n\ntool hello\n"}
	}
	w, p := module("package main\n\nfunc main() { missing() }\n")
	if err := buildPrograms(t.Context(), tools, w, p, nil); err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Errorf("a program that does not compile: %v", err)
	}
	w, p = module("package main\n\nfunc main() {}\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := buildPrograms(ctx, tools, w, p, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	p.mod = strings.Replace(p.mod, "tool hello", "tool hello/v3", 1)
	if err := buildPrograms(t.Context(), tools, w, p, nil); err == nil {
		t.Error("a tool that is not there was built")
	}
}

func TestOtherContentThanPinnedIsRefused(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	tools := findToolchain(t.Context())
	p, err := readPin("cluster-api")
	if tools.err != nil || err != nil {
		t.Fatal(tools.err, err)
	}
	for name, sum := range map[string]string{
		"another checksum": strings.Replace(p.sum, clusterAPIModule+" v1.14.2 h1:", clusterAPIModule+" v1.14.2 h1:AAAA", 1),
		"none":             "",
	} {
		w := cache.Workplace{Work: t.TempDir(), Report: func(string, ...any) {}}
		if folder, err := fetch(t.Context(), tools, w, pin{mod: p.mod, sum: sum}, clusterAPIModule+"@v1.14.2"); err == nil {
			t.Errorf("%s: the module was taken from %s", name, folder)
		} else {
			t.Log(err)
		}
	}
}

func TestLines(t *testing.T) {
	var got []string
	l := &lines{each: func(line string) { got = append(got, line) }}
	for _, part := range []string{"one\ntw", "o\n", "three"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.end()
	if want := []string{"one", "two", "three"}; !slices.Equal(got, want) || l.tail() != "one\ntwo\nthree" {
		t.Errorf("%q, tail %q", got, l.tail())
	}
	for range 100 {
		_, _ = l.Write([]byte("more\n"))
	}
	if n := strings.Count(l.tail(), "\n") + 1; n != 20 {
		t.Errorf("the tail has %d lines", n)
	}
}

func TestNarrate(t *testing.T) {
	var told []string
	each := narrate(func(format string, values ...any) { told = append(told, format) }, 0)
	each("go: downloading k8s.io/api v0.36.3")
	each("k8s.io/api")
	each("k8s.io/api/core/v1")
	if len(told) != 1 {
		t.Errorf("one sentence a second at most, got %q", told)
	}
}

// TestNarrateLeft: where it is known how many packages there are, it is said how many of them are compiled and how long the rest takes.
func TestNarrateLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		each := narrate(func(format string, values ...any) { told = append(told, fmt.Sprintf(format, values...)) }, 60)
		for range 60 {
			time.Sleep(2 * time.Second)
			each("k8s.io/api")
		}
		for n, want := range map[int]string{
			0: "1 of 60 packages compiled", 18: "19 of 60 packages compiled", 19: "20 of 60 packages compiled, about 1m20s left",
			58: "59 of 60 packages compiled, about 2s left", 59: "all 60 packages compiled, linking",
		} {
			if told[n] != want {
				t.Errorf("sentence %d: %q, want %q", n, told[n], want)
			}
		}
	})
}
