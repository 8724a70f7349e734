package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// side is whose controller keeps the control planes.
type side string

const (
	upstream side = "upstream"
	quorate  side = "quorate"
)

// world is a management cluster whose machines are in memory: a real API server and etcd, Cluster API's own controllers, and the controller
// of one side.
type world struct {
	side    side
	folder  string
	env     *envtest.Environment
	config  *rest.Config
	audit   string
	running []*process
	// kept is the side's controller.
	kept *process
	// diagnostics is where it serves metrics and profiles.
	diagnostics string
}

// process is one that the world started.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// newWorld starts a world whose logs go into a folder. The programs are in another.
func newWorld(ctx context.Context, o options, s side, folder string) (*world, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	w := &world{side: s, folder: folder, audit: filepath.Join(folder, "audit.log")}
	if err := w.start(ctx, o); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *world) start(ctx context.Context, o options) error {
	definitions, err := w.definitions(ctx, o.root)
	if err != nil {
		return err
	}
	policy := filepath.Join(w.folder, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	w.env = &envtest.Environment{CRDInstallOptions: envtest.CRDInstallOptions{CRDs: definitions}}
	w.env.ControlPlane.GetAPIServer().Configure().
		Append("audit-policy-file", policy).Append("audit-log-path", w.audit).Append("audit-log-mode", "batch").
		Append("audit-log-maxsize", "1000000") // megabytes: the whole log is counted
	if w.config, err = w.env.Start(); err != nil {
		return fmt.Errorf("starting the management cluster: %w", err)
	}
	w.config.QPS = -1
	shared := []string{"--feature-gates", "ClusterTopology=true", "--skip-crd-migration-phases",
		"StorageVersionMigration,CleanupManagedFields"}
	if o.quick {
		shared[1] = "ClusterTopology=true,ReconcilerRateLimiting=false"
	}
	for _, name := range []string{"core", "bootstrap", "in-memory"} {
		if _, err := w.run(o, name, append(shared, "--health-addr", "127.0.0.1:0", "--diagnostics-address", "127.0.0.1:0")...); err != nil {
			return err
		}
	}
	if w.diagnostics, err = freeAddress(); err != nil {
		return err
	}
	flags := []string{"--health-addr", "127.0.0.1:0", "--diagnostics-address", w.diagnostics, "--insecure-diagnostics", "--profiler-address",
		""}
	if w.side == upstream {
		flags = append(flags, shared...)
	}
	w.kept, err = w.run(o, string(w.side), append(flags, o.flags[w.side]...)...)
	return err
}

// run starts one of the programs as a user of its own, whose requests the audit log tells from those of others.
func (w *world) run(o options, name string, flags ...string) (*process, error) {
	user, err := w.env.AddUser(envtest.User{Name: name, Groups: []string{"system:masters"}}, &rest.Config{})
	if err != nil {
		return nil, err
	}
	raw, err := user.KubeConfig()
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(w.folder, name+".kubeconfig")
	if err := os.WriteFile(kubeconfig, raw, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(w.folder, name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	if name != string(quorate) {
		// Upstream's programs serve webhooks, which nothing calls here.
		port, err := freeAddress()
		if err != nil {
			return nil, err
		}
		_, number, err := net.SplitHostPort(port)
		if err != nil {
			return nil, err
		}
		local := w.env.ControlPlane.GetAPIServer().CertDir
		flags = append(flags, "--webhook-port", number, "--webhook-cert-dir", local, "--webhook-cert-name", "apiserver.crt", "--webhook-key-name",
			"apiserver.key")
	}
	cmd := exec.Command(filepath.Join(o.programs, name), append(flags, "--kubeconfig", kubeconfig)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "POD_IP=127.0.0.1", "POD_NAMESPACE=default", "POD_NAME="+name, "POD_UID="+name)
	// They end with this program, however it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // asked to end, it says so as an error
		close(p.ended)
	}()
	w.running = append(w.running, p)
	return p, nil
}

// alive says which of the processes has ended.
func (w *world) alive() error {
	for _, p := range w.running {
		select {
		case <-p.ended:
			return fmt.Errorf("%s has ended: see %s", p.name, filepath.Join(w.folder, p.name+".log"))
		default:
		}
	}
	return nil
}

func (w *world) stop() error {
	for _, p := range w.running {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	for _, p := range w.running {
		<-p.ended
	}
	if w.env == nil {
		return nil
	}
	return w.env.Stop()
}

// definitions are those of Cluster API's kinds, the in-memory backend's, and the side's KubeadmControlPlane. Conversions are neither served
// nor needed.
func (w *world) definitions(ctx context.Context, root string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	core, err := moduleDir(ctx, root, coreModule)
	if err != nil {
		return nil, err
	}
	backend, err := moduleDir(ctx, root, testModule)
	if err != nil {
		return nil, err
	}
	folders := []string{core + "/core/config/crd/bases", core + "/bootstrap/kubeadm/config/crd/bases",
		backend + "/infrastructure/docker/config/crd/bases"}
	if w.side == upstream {
		folders = append(folders, core+"/controlplane/kubeadm/config/crd/bases")
	} else {
		folders = append(folders, filepath.Join(root, "config/crd"))
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, folder := range folders {
		files, err := fs.Glob(os.DirFS(folder), "*.yaml")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			d, err := definition(filepath.Join(folder, file))
			if err != nil {
				return nil, err
			}
			if d != nil {
				all = append(all, d)
			}
		}
	}
	return all, nil
}

// definition reads one definition, and adds the label that says which of its versions follows the contract; nil: the file has another
// object.
func definition(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, d); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if d.Kind != "CustomResourceDefinition" {
		return nil, nil
	}
	d.Spec.Conversion = nil
	for _, v := range d.Spec.Versions {
		if v.Storage {
			d.Labels = map[string]string{"cluster.x-k8s.io/v1beta2": v.Name}
		}
	}
	return d, nil
}

// freeAddress is one of this host on which nothing listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String(), nil
}

// auditPolicy logs who asked for what, once each request has ended.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`
