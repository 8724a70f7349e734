package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager" // for its definitions: see moduleDir

	"github.com/quorate/quorate/internal/manager"
)

// sources is the folder of Quorate's sources.
const sources = "../.."

// cluster is a management cluster: an etcd and a kube-apiserver that admit what a real one admits, and kube-controller-manager. No pod runs
// in it.
type cluster struct {
	client     client.Client
	cfg        *rest.Config
	kubeconfig string
}

// start starts a management cluster that has cert-manager's kinds and those in folders, and stops it when the test ends.
func start(t *testing.T, folders ...string) *cluster {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set")
	}
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths:        append(folders, filepath.Join(moduleDir(t, "github.com/cert-manager/cert-manager"), "deploy", "crds")),
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 3 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	// A pod must name a ServiceAccount that is there.
	env.ControlPlane.GetAPIServer().Configure().Disable("disable-admission-plugins")
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	user, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{cfg: cfg, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := os.WriteFile(c.kubeconfig, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	if c.client, err = client.New(cfg, client.Options{Scheme: manager.Scheme()}); err != nil {
		t.Fatal(err)
	}
	c.control(t)
	return c
}

// control runs the controllers that make ClusterRoles of others, and pods of a Deployment.
func (c *cluster) control(t *testing.T) {
	t.Helper()
	program := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		"--kubeconfig="+c.kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0",
		"--controllers=clusterrole-aggregation-controller,deployment-controller,replicaset-controller,disruption-controller,"+
			"serviceaccount-controller,namespace-controller,garbage-collector-controller")
	var output bytes.Buffer
	program.Stdout, program.Stderr = &output, &output
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
		if t.Failed() {
			t.Logf("the end of what kube-controller-manager said:\n%s", output.Bytes()[max(0, output.Len()-4000):])
		}
	})
}

// kubectl runs the real kubectl and returns what it prints.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	program := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig=" + c.kubeconfig},
		args...)...)
	out, err := program.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// inNamespace is a copy of the kubeconfig whose namespace is another one.
func (c *cluster) inNamespace(t *testing.T, namespace string) string {
	t.Helper()
	data, err := os.ReadFile(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	shell(t, file, "kubectl config set-context --current --namespace="+namespace)
	return file
}

// documented is the first block of commands below a heading of a document.
func documented(t *testing.T, file, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sources, file))
	if err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(string(text), "\n"+heading+"\n")
	found := regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindString(below)
	if found == "" {
		t.Fatalf("%s has no commands below %q", file, heading)
	}
	return found
}

// shell runs a script with the real kubectl for a management cluster. It ends with the first command that fails, and the test with it.
func shell(t *testing.T, kubeconfig, script string) {
	t.Helper()
	program := exec.Command("bash", "-euo", "pipefail", "-c", script)
	program.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
	if out, err := program.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
}

// eventually fails the test unless something becomes true within a minute.
func eventually(t *testing.T, what string, is func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) { return is(ctx), nil })
	if err != nil {
		t.Fatalf("%s: still not after a minute", what)
	}
}

// may reports whether a user may do something.
func (c *cluster) may(ctx context.Context, t *testing.T, user, verb, resource, group, namespace string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Group: group, Namespace: namespace},
	}}
	if err := c.client.Create(ctx, review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// refusals counts the requests that an API server refuses to somebody for want of a right.
type refusals struct {
	http.RoundTripper
	sync.Mutex
	seen []string
}

// RoundTrip sends a request.
func (r *refusals) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusForbidden {
		r.Lock()
		r.seen = append(r.seen, request.Method+" "+request.URL.Path)
		r.Unlock()
	}
	return response, err
}

// run runs Quorate's manager as a user until all its controllers have what they look at, and fails the test if the user may not have it.
func (c *cluster) run(t *testing.T, user string, o manager.Options, kinds ...client.Object) {
	t.Helper()
	cfg := rest.CopyConfig(c.cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated", "system:serviceaccounts"}}
	refused := &refusals{}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		refused.RoundTripper = next
		return refused
	})
	mgr, err := manager.New(cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Setup(t.Context(), mgr, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	for _, kind := range kinds {
		if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil {
			t.Errorf("watching %T: %v", kind, err)
		}
	}
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Error("the caches are not full after a minute")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(refused.seen) > 0 {
		t.Errorf("refused to %s: %q", user, refused.seen)
	}
}

// moduleDir returns the folder of a module's sources.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("finding the module %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

// coreKinds is the folder of Cluster API's own kinds.
func coreKinds(t *testing.T) string {
	t.Helper()
	return filepath.Join(moduleDir(t, "sigs.k8s.io/cluster-api"), "core", "config", "crd", "bases")
}
