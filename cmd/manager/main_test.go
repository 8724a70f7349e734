package main

import (
	"crypto/tls"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/internal/manager/backups"
)

func parse(t *testing.T, args ...string) *settings {
	t.Helper()
	s := &settings{}
	fs := pflag.NewFlagSet("quorate-manager", pflag.ContinueOnError)
	s.add(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, err string }{
		{args: ""},
		{args: "--leader-elect --watch-filter=a --namespace=b --concurrency=3"},
		{args: "--concurrency=0", err: "--concurrency=0"},
		{args: "--sync-period=1s", err: "--sync-period=1s"},
		{args: "--kube-api-qps=0", err: "--kube-api-qps=0"},
		{args: "--kube-api-burst=0", err: "--kube-api-burst=0"},
		{args: "--webhook-port=9443 --webhook-cert-name=a.crt --webhook-key-name=a.key"},
		{args: "--profiling"},
		{args: "--providers=bootstrap"},
		{args: "--providers=bootstrap,etcd", err: `no provider "etcd"; there are control-plane and bootstrap`},
		{args: "--providers=", err: "nothing to do"},
		{args: "--providers= --runtime-extension-port=9445"},
		{args: "--memory-headroom=0"},
		{args: "--memory-headroom=-1", err: "--memory-headroom=-1: it must be from 0 to 50"},
		{args: "--memory-headroom=51", err: "--memory-headroom=51"},
		{args: "--profiling --insecure-diagnostics", err: "--insecure-diagnostics"},
		{args: "--profiler-address=localhost:6060 --feature-gates=KubeadmBootstrapFormatIgnition=true"},
		{args: "--webhook-port=-1", err: "--webhook-port=-1"},
		{args: "--webhook-port=65536", err: "--webhook-port=65536"},
		{args: "--runtime-extension-port=9445"},
		{args: "--runtime-extension-port=-1", err: "--runtime-extension-port=-1"},
		{args: "--runtime-extension-port=65536", err: "--runtime-extension-port=65536"},
		{args: "--leader-elect --leader-elect-renew-deadline=1s", err: "renew deadline 1s"},
		{args: "--leader-elect --leader-elect-lease-duration=10s", err: "lease duration 10s"},
		{args: "--leader-elect-lease-duration=10s"},
	} {
		err := parse(t, strings.Fields(c.args)...).check()
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v, want one with %q", c.args, err, c.err)
		}
	}
}

// TestShardsHaveALeaseEach: managers that share a management cluster, by label or by namespace, elect a leader each.
func TestShardsHaveALeaseEach(t *testing.T) {
	names := map[string]bool{}
	for _, args := range []string{
		"", "--watch-filter=a", "--watch-filter=b", "--namespace=a", "--namespace=b",
		"--providers=bootstrap", "--providers=bootstrap --watch-filter=a", "--namespace=bootstrap", "--watch-filter=bootstrap",
		"--watch-filter=bootstrap-only",
		"--providers=bootstrap --namespace=a", "--namespace=a --watch-filter=b", "--namespace=b --watch-filter=a", "--watch-filter=a-b",
		"--namespace=a-b",
		"--watch-filter=East_1", "--watch-filter=east_1", "--watch-filter=" + strings.Repeat("x", 63) + " --namespace=" + strings.Repeat("y", 63),
	} {
		o, err := parse(t, append(strings.Fields(args), "--leader-elect")...).options()
		if err != nil {
			t.Fatal(err)
		}
		if !o.LeaderElection || names[o.LeaderElectionID] {
			t.Errorf("%s: lease %q, elected %t", args, o.LeaderElectionID, o.LeaderElection)
		}
		if wrong := validation.IsDNS1123Subdomain(o.LeaderElectionID); len(wrong) > 0 {
			t.Errorf("%s: %q is no name of a lease: %v", args, o.LeaderElectionID, wrong)
		}
		names[o.LeaderElectionID] = true
	}
	// Those that earlier releases use: replicas of two releases must not lead at once.
	for _, old := range []string{"quorate-manager", "quorate-manager-a", "quorate-manager-b"} {
		if !names[old] {
			t.Errorf("no lease %s, only %v", old, names)
		}
	}
}

// TestMemoryLimit: Go leaves a part of the container's limit, and has none where the container has none.
func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		limit    int64
		headroom int
		want     int64
	}{
		{2000, 10, 1800},
		{2000, 0, 2000},
		{math.MaxInt64, 10, math.MaxInt64},
		{math.MaxInt64 - 1, 50, math.MaxInt64/2 + 3},
	} {
		if got := memoryLimit(c.limit, c.headroom); got != c.want {
			t.Errorf("%d with %d %% headroom: %d, want %d", c.limit, c.headroom, got, c.want)
		}
	}
}

// TestLeaseIsReleased: after an orderly end the other replica need not wait until the lease expires.
func TestLeaseIsReleased(t *testing.T) {
	o, err := parse(t, "--leader-elect").options()
	if err != nil || !o.LeaderElectionReleaseOnCancel {
		t.Errorf("released %t, %v", o.LeaderElectionReleaseOnCancel, err)
	}
}

// TestTLS: the webhooks are served with the TLS that the flags ask for, as the diagnostics are.
func TestTLS(t *testing.T) {
	const suite = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
	s := parse(t, "--webhook-port=9443", "--tls-min-version=VersionTLS13", "--tls-cipher-suites="+suite)
	o, err := s.options()
	if err != nil {
		t.Fatal(err)
	}
	server, ok := o.WebhookServer.(*webhook.DefaultServer)
	if !ok {
		t.Fatalf("webhooks are served by %T", o.WebhookServer)
	}
	for name, set := range map[string][]func(*tls.Config){"webhooks": server.Options.TLSOpts, "diagnostics": o.Metrics.TLSOpts,
		"extension": s.manager.Extension.TLS} {
		cfg := &tls.Config{}
		for _, f := range set {
			f(cfg)
		}
		if cfg.MinVersion != tls.VersionTLS13 || len(cfg.CipherSuites) != 1 || tls.CipherSuiteName(cfg.CipherSuites[0]) != suite {
			t.Errorf("%s: TLS from %s, suites %v", name, tls.VersionName(cfg.MinVersion), cfg.CipherSuites)
		}
	}
}

// TestProfiling: profiles are served only where a flag says so, and then to those only who may; so is the log level.
func TestProfiling(t *testing.T) {
	for _, c := range []struct {
		args              string
		profiles, guarded bool
	}{
		{"--diagnostics-address=:8443", false, true},
		{"--profiling", true, true},
		{"--insecure-diagnostics", false, false},
	} {
		o, err := parse(t, c.args).options()
		if err != nil {
			t.Fatal(err)
		}
		served := 0
		for path := range o.Metrics.ExtraHandlers {
			if strings.Contains(path, "pprof") {
				served++
			}
		}
		if guarded := o.Metrics.SecureServing && o.Metrics.FilterProvider != nil; served > 0 != c.profiles || guarded != c.guarded ||
			o.PprofBindAddress != "" {
			t.Errorf("%s: %d paths of profiles, guarded %t", c.args, served, guarded)
		}
		if _, has := o.Metrics.ExtraHandlers["/debug/flags/v"]; has != c.guarded {
			t.Errorf("%s: the log level can be changed: %t", c.args, has)
		}
	}
}

// TestFeatureGates: what upstream's checks accept only with a gate can be turned on, as in upstream's manager.
func TestFeatureGates(t *testing.T) {
	t.Cleanup(func() { parse(t, "--feature-gates=KubeadmBootstrapFormatIgnition=false") })
	parse(t, "--feature-gates=KubeadmBootstrapFormatIgnition=true")
	if !feature.Gates.Enabled(feature.KubeadmBootstrapFormatIgnition) {
		t.Error("the gate is off")
	}
}

func TestBadTLSVersion(t *testing.T) {
	if _, err := parse(t, "--tls-min-version=VersionTLS09").options(); err == nil {
		t.Error("an unknown TLS version is accepted")
	}
}

// read reads the manifests in a file of config/.
func read(t *testing.T, file string, into ...any) {
	t.Helper()
	data, err := os.ReadFile("../../config/" + file)
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(strings.TrimPrefix(string(data), "---\n"), "\n---\n")
	if len(documents) != len(into) {
		t.Fatalf("%s has %d manifests, want %d", file, len(documents), len(into))
	}
	for i, d := range documents {
		if err := yaml.UnmarshalStrict([]byte(d), into[i]); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// variable is what clusterctl puts something in for: what follows := where the variable is not set.
var variable = regexp.MustCompile(`\$\{\w+:=([^}]*)\}`)

// parseDefaults parses arguments as they are where no variable is set.
func parseDefaults(t *testing.T, args []string) *settings {
	t.Helper()
	var given []string
	for _, a := range args {
		given = append(given, variable.ReplaceAllString(a, "$1"))
	}
	return parse(t, given...)
}

// TestDeployment keeps the arguments in config/ valid.
func TestDeployment(t *testing.T) {
	var d appsv1.Deployment
	read(t, "manager/manager.yaml", &d)
	s := parse(t, d.Spec.Template.Spec.Containers[0].Args...)
	if err := s.check(); err != nil {
		t.Error(err)
	}
	if !s.elect || *d.Spec.Replicas < 2 {
		t.Errorf("%d replicas, elected %t", *d.Spec.Replicas, s.elect)
	}
	checkWebhooks(t, s, d.Spec.Template.Spec)
	checkExtension(t, s, d.Spec.Template.Spec.Containers[0])
	checkAvailability(t, &d)
	if grace := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= s.gracePeriod {
		t.Errorf("it is killed after %s and may take %s to end", grace, s.gracePeriod)
	}
}

// TestClusterctlArguments: each of clusterctl's providers runs what is its own, with the ports and the election of config/manager.
func TestClusterctlArguments(t *testing.T) {
	var base appsv1.Deployment
	read(t, "manager/manager.yaml", &base)
	want := parse(t, base.Spec.Template.Spec.Containers[0].Args...)
	for _, c := range []struct {
		provider           string
		providers          []string
		webhook, extension int
		elect              bool
	}{
		{"control-plane", []string{manager.ControlPlaneProvider}, want.webhookPort, 0, true},
		{"bootstrap", []string{manager.BootstrapProvider}, want.webhookPort, 0, true},
		{"runtime-extension", []string{}, 0, 9445, false},
	} {
		var d appsv1.Deployment
		read(t, "clusterctl/"+c.provider+"/arguments.yaml", &d)
		s := parseDefaults(t, d.Spec.Template.Spec.Containers[0].Args)
		if err := s.check(); err != nil {
			t.Errorf("%s: %v", c.provider, err)
		}
		if !slices.Equal(s.manager.Providers, c.providers) || s.webhookPort != c.webhook || s.manager.Extension.Port != c.extension ||
			s.elect != c.elect ||
			s.serving.DiagnosticsAddress != want.serving.DiagnosticsAddress || s.profiling || s.manager.WatchFilter != "" {
			t.Errorf("%s: providers %q, webhooks at %d, extension at %d, elected %t", c.provider, s.manager.Providers, s.webhookPort,
				s.manager.Extension.Port, s.elect)
		}
	}
}

// checkWebhooks: the webhooks listen where the Service finds them, with the certificate that is mounted.
func checkWebhooks(t *testing.T, s *settings, pod corev1.PodSpec) {
	t.Helper()
	var service corev1.Service
	read(t, "webhook/service.yaml", &service)
	target := service.Spec.Ports[0].TargetPort.StrVal
	if !slices.ContainsFunc(pod.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return p.Name == target && p.ContainerPort == int32(s.webhookPort)
	}) {
		t.Errorf("the Service's port %q is none that listens at %d: %+v", target, s.webhookPort, pod.Containers[0].Ports)
	}
	// The second is where snapshots are restored, with room for what the flags allow.
	mounts := pod.Containers[0].VolumeMounts
	if len(mounts) != 2 || mounts[0].MountPath != s.webhookCert || mounts[0].Name != pod.Volumes[0].Name {
		t.Fatalf("certificate in %s, mounted: %+v", s.webhookCert, mounts)
	}
	scratch := pod.Volumes[1]
	if mounts[1].MountPath != backups.DefaultScratch || mounts[1].Name != scratch.Name ||
		scratch.EmptyDir.SizeLimit.Value() <= s.manager.Backups.Limits.Disk {
		t.Errorf("the scratch folder is %s, %+v: restores may take %d bytes", mounts[1].MountPath, scratch, s.manager.Backups.Limits.Disk)
	}
}

// checkExtension: the Runtime Extension is off unless asked for. Asked for as the documentation says, it listens where its ExtensionConfig
// finds it.
func checkExtension(t *testing.T, s *settings, container corev1.Container) {
	t.Helper()
	var clusterctl appsv1.Deployment
	read(t, "clusterctl/control-plane/arguments.yaml", &clusterctl)
	if args := clusterctl.Spec.Template.Spec.Containers[0].Args; s.manager.Extension.Port != 0 ||
		!slices.Contains(args, "--runtime-extension-port=${QUORATE_RUNTIME_EXTENSION_PORT:=0}") {
		t.Errorf("the Runtime Extension is at port %d: %v", s.manager.Extension.Port, args)
	}
	var service corev1.Service
	read(t, "webhook/service.yaml", &service)
	var config runtimev1.ExtensionConfig
	read(t, "extension/extensionconfig.yaml", &config)
	ref := config.Spec.ClientConfig.Service
	var target string
	for _, p := range service.Spec.Ports {
		if ref.Port != nil && p.Port == *ref.Port {
			target = p.TargetPort.StrVal
		}
	}
	if ref.Name != "quorate-"+service.Name || ref.Namespace != "quorate-system" || target != "extension" ||
		!slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == target && p.ContainerPort == 9445 }) {
		t.Errorf("the ExtensionConfig names %+v, the Service has %+v, the manager %+v", ref, service.Spec.Ports, container.Ports)
	}
	if config.Annotations[runtimev1.InjectCAFromSecretAnnotation] != "quorate-system/quorate-webhook-service-cert" {
		t.Errorf("its authority comes from %v", config.Annotations)
	}
}

// TestAggregation: the manager has its own role and what infrastructure providers add to it.
func TestAggregation(t *testing.T) {
	var role rbacv1.ClusterRole
	read(t, "rbac/aggregated_role.yaml", &role)
	var binding rbacv1.ClusterRoleBinding
	read(t, "rbac/role_binding.yaml", &binding)
	if binding.RoleRef.Name != role.Name {
		t.Errorf("bound is %s, aggregated is %s", binding.RoleRef.Name, role.Name)
	}
	var built struct {
		Resources []string `json:"resources"`
		Patches   []struct {
			Patch  string            `json:"patch"`
			Target map[string]string `json:"target"`
		} `json:"patches"`
	}
	data, err := os.ReadFile("../../config/rbac/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &built); err != nil {
		t.Fatal(err)
	}
	var own rbacv1.ClusterRole
	read(t, "rbac/role.yaml", &own)
	for label := range role.AggregationRule.ClusterRoleSelectors[0].MatchLabels {
		if len(built.Patches) != 1 || built.Patches[0].Target["name"] != own.Name || !strings.Contains(built.Patches[0].Patch, label) {
			t.Errorf("role %s does not get the label %s: %+v", own.Name, label, built.Patches)
		}
	}
	if !slices.Contains(built.Resources, "aggregated_role.yaml") {
		t.Errorf("deployed are %v", built.Resources)
	}
}

// TestDefinitions: all kinds of control planes are deployed, and those with several versions are converted by the manager, whose
// certificate cert-manager puts into what calls it.
func TestDefinitions(t *testing.T) {
	type kustomization struct {
		Resources []string `json:"resources"`
		Patches   []struct {
			Patch  string            `json:"patch"`
			Target map[string]string `json:"target"`
		} `json:"patches"`
	}
	parts := map[string]kustomization{}
	for _, file := range []string{"crd/kustomization.yaml", "default/kustomization.yaml"} {
		data, err := os.ReadFile("../../config/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var k kustomization
		if err := yaml.Unmarshal(data, &k); err != nil {
			t.Fatal(err)
		}
		parts[file] = k
	}
	files, err := filepath.Glob("../../config/crd/controlplane.*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		file = filepath.Base(file)
		if !slices.Contains(parts["crd/kustomization.yaml"].Resources, file) {
			t.Errorf("%s is not deployed", file)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		read(t, "crd/"+file, &crd)
		for name, k := range parts {
			converted := false
			for _, p := range k.Patches {
				if p.Target["kind"] == "CustomResourceDefinition" && !strings.Contains(p.Patch, "$patch: delete") {
					converted = regexp.MustCompile("^(" + p.Target["name"] + ")$").MatchString(crd.Name)
				}
			}
			if converted != (len(crd.Spec.Versions) > 1) {
				t.Errorf("%s has %d versions; converted by %s: %t", crd.Name, len(crd.Spec.Versions), name, converted)
			}
		}
	}
}

// checkAvailability: of several replicas a drain or a node that is short of memory leaves one, and all that listens can be reached.
func checkAvailability(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	var budget policyv1.PodDisruptionBudget
	var class schedulingv1.PriorityClass
	read(t, "manager/availability.yaml", &budget, &class)
	if spec := budget.Spec; !maps.Equal(spec.Selector.MatchLabels, d.Spec.Selector.MatchLabels) ||
		spec.MaxUnavailable.IntValue() != int(*d.Spec.Replicas)-1 {
		t.Errorf("the disruption budget is %+v", spec)
	}
	pod := d.Spec.Template.Spec
	if pod.PriorityClassName != class.Name || class.Value < 1000000000 {
		t.Errorf("it has the priority %q, the class is %+v", pod.PriorityClassName, class)
	}
	resources := pod.Containers[0].Resources
	if resources.Requests.Memory().IsZero() || resources.Requests.Cpu().IsZero() ||
		resources.Limits.Memory().Cmp(*resources.Requests.Memory()) < 0 {
		t.Errorf("its resources are %+v", resources)
	}
	var policy networkingv1.NetworkPolicy
	read(t, "manager/network.yaml", &policy)
	if !maps.Equal(policy.Spec.PodSelector.MatchLabels, d.Spec.Selector.MatchLabels) {
		t.Errorf("the network policy is for %+v", policy.Spec.PodSelector)
	}
	var open, listens []string
	for _, p := range policy.Spec.Ingress[0].Ports {
		open = append(open, p.Port.StrVal)
	}
	for _, p := range pod.Containers[0].Ports {
		listens = append(listens, p.Name)
	}
	slices.Sort(open)
	slices.Sort(listens)
	if !slices.Equal(open, listens) {
		t.Errorf("it listens at %v, and %v can be reached", listens, open)
	}
}
