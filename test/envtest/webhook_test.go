package envtest

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/quorate/quorate/internal/manager"
)

// TestWebhooks: what the schema refuses the webhooks refuse too, in the same words, where the schema is an older one; and
// they let be edited what is stored.
func TestWebhooks(t *testing.T) {
	needAssets(t)
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd", clusterAPI(t)}, ErrorIfCRDPathMissing: true}
	c := start(t, env)
	withoutRules(t, c, func() {
		makeUnruly(t, c)
		serve(t, env.Config)
		t.Run("create", func(t *testing.T) { createRows(t, c, sizes) })
		t.Run("names of machines", func(t *testing.T) { createRows(t, c, names) })
		t.Run("made before the rules", func(t *testing.T) { resize(t, c) })
	})
	// With both, the schema speaks first.
	t.Run("create by both", func(t *testing.T) { createRows(t, c, sizes) })
	// What of the kind ControlPlane only a webhook can refuse.
	t.Run("ControlPlane", func(t *testing.T) { dryRun(t, c, machines, hookedMachines) })
	t.Run("ControlPlaneTemplate", func(t *testing.T) { dryRun(t, c, machinesTemplate, hookedTemplates) })
	t.Run("ControlPlaneTemplate, changed", func(t *testing.T) { changedTemplate(t, c) })
}

// names are templates of machines' names.
var names = []row{
	{"as upstream's", "replicas: 3", "replicas: 3\n  machineNaming: {template: '{{ .kubeadmControlPlane.name }}-{{ .random }}'}", ""},
	{"two random parts", "replicas: 3", "replicas: 3\n  machineNaming: {template: '{{ .random }}-{{ .random }}'}", ""},
	{"no random part", "replicas: 3", "replicas: 3\n  machineNaming: {template: '{{ .cluster.name }}'}", "{{ .random }} is missing"},
	{"a random part that is never there", "replicas: 3", "replicas: 3\n  machineNaming: {template: 'x{{ if false }}{{ .random }}{{ end }}'}",
		"must contain {{ .random }}"},
	{"no name", "replicas: 3", "replicas: 3\n  machineNaming: {template: 'A_{{ .random }}'}", `makes the name "A_1"`},
}

// clusterAPI returns the folder of Cluster API's own kinds, for the caches of the controllers that come with the webhooks.
func clusterAPI(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatalf("finding the module of Cluster API: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "core", "config", "crd", "bases")
}

// serve runs Quorate's manager with its webhooks until the test ends.
func serve(t *testing.T, cfg *rest.Config) {
	t.Helper()
	run(t, cfg, hook(t, cfg))
}

// hook has the API server ask webhooks that nobody serves yet.
func hook(t *testing.T, cfg *rest.Config) *envtest.WebhookInstallOptions {
	t.Helper()
	at := &envtest.WebhookInstallOptions{Paths: []string{"../../config/webhook/manifests.yaml"}}
	if err := at.Install(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := at.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return at
}

// run runs Quorate's manager, which serves the webhooks, until the test ends.
func run(t *testing.T, cfg *rest.Config, at *envtest.WebhookInstallOptions) {
	t.Helper()
	o := manager.Options{Webhooks: true}
	mgr, err := manager.New(cfg, ctrl.Options{
		Metrics:       metricsserver.Options{BindAddress: "0"},
		Controller:    config.Controller{SkipNameValidation: ptr.To(true)}, // several tests run one
		WebhookServer: webhook.NewServer(webhook.Options{Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir}),
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Setup(t.Context(), mgr, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return mgr.GetWebhookServer().StartedChecker()(nil) == nil, nil
	})
	if err != nil {
		t.Fatalf("the webhooks are not served: %v", err)
	}
}
