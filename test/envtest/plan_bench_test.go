package envtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/releases"
)

const (
	// planMany is how many control planes of three machines there are, beside one of planLarge machines.
	planMany  = 500
	planLarge = 7
	// planAtOnce is how many of them are made at the same time.
	planAtOnce = 16
)

// BenchmarkPlan runs the command `quorate plan`, as a user does and with its start, against an API server with many control planes whose
// managed clusters refuse connections. The bounds are 0.3 s for the one of seven machines, and 30 s for all. cpu-s/op is the processor time
// of the command alone.
func BenchmarkPlan(b *testing.B) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		b.Skip("KUBEBUILDER_ASSETS is not set: make unit builds what it names")
	}
	program := build(b, "quorate")
	kubeconfig := planFleet(b)
	// The API server opens the store of a kind with the first request for it, and lets that wait for a second.
	if out, err := exec.CommandContext(b.Context(), program, "plan", "seven", "--kubeconfig", kubeconfig).CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	b.Run("seven", func(b *testing.B) {
		benchmarkPlan(b, 1, program, "plan", "seven", "--kubeconfig", kubeconfig, "-o", "json")
	})
	b.Run("all", func(b *testing.B) {
		benchmarkPlan(b, planMany+1, program, "plan", "--all", "--kubeconfig", kubeconfig, "-o", "json")
	})
}

// benchmarkPlan runs the command, which must print that many plans and nothing else.
func benchmarkPlan(b *testing.B, plans int, program string, args ...string) {
	var busy time.Duration
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), program, args...)
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		if err := cmd.Run(); err != nil {
			b.Fatalf("%s: %v\n%.2000s", strings.Join(args, " "), err, stderr.String())
		}
		busy += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if got := strings.Count(out.String(), `"group":`); got != plans {
			b.Fatalf("%s: %d plans, want %d\n%.2000s", strings.Join(args, " "), got, plans, out.String())
		}
	}
	b.ReportMetric(busy.Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/op")
}

// build builds one of the programs below cmd, and returns its path.
func build(b testing.TB, name string) string {
	program := filepath.Join(b.TempDir(), name)
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "../../cmd/"+name).CombinedOutput(); err != nil {
		b.Fatalf("building %s: %v\n%s", name, err, out)
	}
	return program
}

// startPlanServer starts an API server with the definitions of Cluster API's and our kinds.
func startPlanServer(b testing.TB) (*envtest.Environment, *rest.Config) {
	ctrl.SetLogger(logr.Discard())
	dir, err := exec.CommandContext(b.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		b.Fatalf("finding the module of Cluster API: %v", err)
	}
	root := strings.TrimSpace(string(dir))
	env := &envtest.Environment{ErrorIfCRDPathMissing: true, CRDDirectoryPaths: []string{
		"../../config/crd", filepath.Join(root, "core/config/crd/bases"), filepath.Join(root, "bootstrap/kubeadm/config/crd/bases"),
	}}
	b.Cleanup(func() { _ = env.Stop() })
	config, err := env.Start()
	if err != nil {
		b.Fatal(err)
	}
	return env, config
}

// administrator returns the administrator's kubeconfig file.
func administrator(b testing.TB, env *envtest.Environment) string {
	user, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := user.KubeConfig()
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

// planFleet starts an API server with the control planes, and returns its administrator's kubeconfig file.
func planFleet(b *testing.B) string {
	env, config := startPlanServer(b)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	recorded, err := releases.Read("../releases/2026-11-23/kubeadm-plain-3.yaml")
	if err != nil {
		b.Fatal(err)
	}
	err = releases.LabelContracts(b.Context(), c)
	all, ctx := errgroup.WithContext(b.Context())
	all.SetLimit(planAtOnce)
	all.Go(func() error { return makePlanned(ctx, c, grown(b, recorded), "seven") })
	for i := range planMany {
		all.Go(func() error { return makePlanned(ctx, c, recorded.Objects, fmt.Sprintf("c%03d", i)) })
	}
	if err := errors.Join(err, all.Wait()); err != nil {
		b.Fatal(err)
	}
	return administrator(b, env)
}

// grown is a recording of a control plane with copies of its last machine.
func grown(b *testing.B, r *releases.Recording) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range r.Objects {
		if o.GetKind() == "KubeadmControlPlane" {
			o = o.DeepCopy()
			if err := unstructured.SetNestedField(o.Object, int64(planLarge), "spec", "replicas"); err != nil {
				b.Fatal(err)
			}
		}
		all = append(all, o)
		for i := 4; i <= planLarge && o.GetName() == "demo-cp-3"; i++ {
			copied, err := releases.Renamed(o, "demo-cp-3", fmt.Sprintf("demo-cp-%d", i))
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, copied)
		}
	}
	return all
}

// makePlanned makes a control plane's objects under another name, in a namespace of that name.
func makePlanned(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, name string) error {
	return releases.Make(ctx, c, objects, name, func(o *unstructured.Unstructured) error {
		if o.GetName() == name+"-kubeconfig" {
			o.Object["stringData"] = map[string]any{"value": refusing}
		}
		return nil
	})
}

// refusing is the kubeconfig of a managed cluster that refuses connections.
const refusing = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`
