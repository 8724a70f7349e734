package hostile

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/releases"
)

// world is a management cluster: a real API server, and the manager as a process of its own.
type world struct {
	t          *testing.T
	ca         *Authority
	client     client.Client
	machines   cache.Cache
	recorded   *releases.Recording
	kubeconfig string
	program    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	w := &world{t: t, program: filepath.Join(t.TempDir(), "quorate-manager"), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", w.program, "../../cmd/manager").CombinedOutput()
	if err != nil {
		t.Fatalf("building the manager: %v\n%s", err, out)
	}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	must(t, err)
	root := strings.TrimSpace(string(dir))
	env := &envtest.Environment{ErrorIfCRDPathMissing: true, CRDDirectoryPaths: []string{
		"../../config/crd", filepath.Join(root, "core/config/crd/bases"), filepath.Join(root, "bootstrap/kubeadm/config/crd/bases"),
	}}
	t.Cleanup(func() { _ = env.Stop() })
	config, err := env.Start()
	must(t, err)
	config.QPS = -1
	w.client, err = client.New(config, client.Options{Scheme: manager.Scheme()})
	must(t, err)
	must(t, releases.LabelContracts(t.Context(), w.client))
	w.ca, err = NewAuthority()
	must(t, err)
	w.recorded, err = releases.Read("../releases/2026-11-23/kubeadm-plain-1.yaml")
	must(t, err)
	user, err := env.AddUser(envtest.User{Name: "manager", Groups: []string{"system:masters"}}, nil)
	must(t, err)
	raw, err := user.KubeConfig()
	must(t, err)
	must(t, os.WriteFile(w.kubeconfig, raw, 0o600))
	w.follow(config)
	return w
}

// follow keeps the Machines in memory, so that looking at them costs the API server nothing.
func (w *world) follow(config *rest.Config) {
	w.t.Helper()
	var err error
	w.machines, err = cache.New(config, cache.Options{Scheme: manager.Scheme()})
	must(w.t, err)
	_, err = w.machines.GetInformer(w.t.Context(), &clusterv1.Machine{})
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	go func() { _ = w.machines.Start(ctx) }() // what it cannot do, the waits tell
	if !w.machines.WaitForCacheSync(w.t.Context()) {
		w.t.Fatal("Machines cannot be watched")
	}
}

// make makes the objects of a managed cluster at rest, as the manager left them, with what leads to the cluster.
func (w *world) make(c *Cluster) {
	w.t.Helper()
	must(w.t, releases.Make(w.t.Context(), w.client, w.recorded.Objects, c.Name, func(o *unstructured.Unstructured) error {
		data := map[string]map[string][]byte{
			c.Name + "-ca": w.ca.Secret, c.Name + "-etcd": w.ca.Secret, c.Name + "-proxy": w.ca.Secret, c.Name + "-sa": w.ca.ServiceAccount,
			c.Name + "-kubeconfig": {"value": w.leads(c)},
		}[o.GetName()]
		if o.GetKind() == "Secret" && data != nil {
			encoded := map[string]any{}
			for key, value := range data {
				encoded[key] = base64.StdEncoding.EncodeToString(value)
			}
			o.Object["data"] = encoded
		}
		if o.GetKind() != "Cluster" {
			return nil
		}
		return unstructured.SetNestedMap(o.Object, map[string]any{"host": c.Address.IP.String(), "port": int64(c.Address.Port)}, "spec",
			"controlPlaneEndpoint")
	}))
}

// leads is the kubeconfig of a cluster.
func (w *world) leads(c *Cluster) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s", certificate-authority-data: %s}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, c.Address, base64.StdEncoding.EncodeToString(w.ca.Secret["tls.crt"]))
}

// drop takes away all objects of a cluster; nobody else ends what they hold.
func (w *world) drop(c *Cluster) {
	w.t.Helper()
	for _, o := range w.recorded.Objects {
		other, err := releases.Renamed(o, "demo", c.Name, `"namespace":"default"`, `"namespace":"`+c.Name+`"`)
		must(w.t, err)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		must(w.t, client.IgnoreNotFound(w.client.Delete(w.t.Context(), other)))
		must(w.t, client.IgnoreNotFound(w.client.Patch(w.t.Context(), other, patch)))
	}
}

// plane is a cluster's control plane.
func (w *world) plane(c *Cluster) *unstructured.Unstructured {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"})
	must(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: c.Name, Name: c.Name + "-cp"}, o))
	return o
}

// texts are all texts of a value, each in a line.
func texts(value any) string {
	var out strings.Builder
	switch value := value.(type) {
	case string:
		out.WriteString(value + "\n")
	case []any:
		for _, one := range value {
			out.WriteString(texts(one))
		}
	case map[string]any:
		for _, one := range value {
			out.WriteString(texts(one))
		}
	}
	return out.String()
}

// says is all that the status of a cluster's control plane and of its Machine say.
func (w *world) says(c *Cluster) string {
	w.t.Helper()
	m := &unstructured.Unstructured{}
	m.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	must(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: c.Name, Name: c.Node()}, m))
	return texts(w.plane(c).Object["status"]) + texts(m.Object["status"])
}

// process is the manager.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   *bytes.Buffer
	ended chan struct{}
}

// run starts the manager, which ends with the test at the latest.
func (w *world) run(flags ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, log: &bytes.Buffer{}, ended: make(chan struct{})}
	all := append([]string{"--kubeconfig", w.kubeconfig, "--health-addr", "127.0.0.1:0", "--diagnostics-address", "127.0.0.1:0",
		"--insecure-diagnostics"}, flags...)
	p.cmd = exec.Command(w.program, all...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(w.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // asked to end, it says so as an error
		close(p.ended)
	}()
	w.t.Cleanup(p.stop)
	return p
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// lives reports whether it has not ended.
func (p *process) lives() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// peak is the most memory that it had since it was started, or since forget was called, in bytes.
func (p *process) peak() int64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	must(p.t, err)
	for line := range strings.Lines(string(status)) {
		if value, is := strings.CutPrefix(line, "VmHWM:"); is {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			must(p.t, err)
			return n << 10
		}
	}
	return 0
}

// forget makes peak begin again.
func (p *process) forget() {
	p.t.Helper()
	must(p.t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0))
}

// until waits until something is so, and reports whether it is in that time.
func until(within time.Duration, so func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for !so() {
		select {
		case <-limit.C:
			return false
		case <-tick.C:
		}
	}
	return true
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
