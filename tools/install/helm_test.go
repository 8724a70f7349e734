package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// load loads the chart as `helm install charts/quorate` does.
func load(t *testing.T) *chart.Chart {
	t.Helper()
	slog.SetLogLoggerLevel(slog.LevelWarn) // that files are links is no news
	c, err := loader.LoadDir(filepath.Join(sources, "charts", "quorate"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// template returns what `helm template quorate charts/quorate --namespace quorate-system` prints with some values, in YAML.
func template(t *testing.T, c *chart.Chart, values string) ([]byte, error) {
	t.Helper()
	return templateOf(t, c, "quorate", "quorate-system", values)
}

// templateOf returns what the release in a namespace consists of, in YAML.
func templateOf(t *testing.T, c *chart.Chart, release, namespace, values string) ([]byte, error) {
	t.Helper()
	var given map[string]any
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(c, given, common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			out.WriteString("\n---\n" + text)
		}
	}
	return out.Bytes(), nil
}

// installed returns what a release with some values consists of.
func installed(t *testing.T, c *chart.Chart, values string) map[string]unstructured.Unstructured {
	t.Helper()
	data, err := template(t, c, values)
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	return read(t, data)
}

// withoutHelm removes what is for Helm alone: its labels and annotations, wherever they are.
func withoutHelm(in any) any {
	switch v := in.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if strings.HasPrefix(key, "app.kubernetes.io/") || strings.HasPrefix(key, "helm.sh/") {
				continue
			}
			if clean := withoutHelm(value); !reflect.DeepEqual(clean, map[string]any{}) || key == "selfSigned" {
				out[key] = clean
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutHelm(v[i])
		}
		return out
	}
	return in
}

// TestChart: the chart with its default values is config/default but for the namespace, which Helm makes; limited to a namespace it is
// config/namespaced.
func TestChart(t *testing.T) {
	c := load(t)
	for _, row := range []struct{ folder, values string }{
		{"default", ""},
		{"namespaced", "namespaceScoped: {enabled: true, namespace: default}"},
	} {
		want, got := objects(t, row.folder), installed(t, c, row.values)
		delete(want, "Namespace /quorate-system")
		for name, o := range want {
			g, ok := got[name]
			if !ok {
				t.Errorf("%s: the chart lacks %s", row.folder, name)
				continue
			}
			if a, b := withoutHelm(o.Object), withoutHelm(g.Object); !reflect.DeepEqual(a, b) {
				t.Errorf("%s: %s differs: %s", row.folder, name, difference(a, b))
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("%s: only the chart has %s", row.folder, name)
			}
		}
	}
}

// TestChartRegisters: the chart registers the Runtime Extension as config/extension does.
func TestChartRegisters(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(sources, "config", "extension", "extensionconfig.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := installed(t, load(t), "runtimeExtension: {enabled: true, register: true}")[extension]
	labels := got.GetLabels()
	delete(labels, "cluster.x-k8s.io/provider")
	got.SetLabels(labels)
	want := read(t, data)[extension]
	if a, b := withoutHelm(want.Object), withoutHelm(got.Object); !reflect.DeepEqual(a, b) {
		t.Errorf("it differs: %s", difference(a, b))
	}
}

// secondRelease: a real API server takes a release beside another one, for another namespace, and admits its pods.
func (c *cluster) secondRelease(t *testing.T) {
	data, err := templateOf(t, load(t), "blue", "blue",
		"{webhooks: {enabled: false}, crds: {install: false}, namespaceScoped: {enabled: true}}")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "blue.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "create", "namespace", "blue")
	c.kubectl(t, "label", "namespace", "blue", "pod-security.kubernetes.io/enforce=restricted")
	c.kubectl(t, "apply", "-f", file)
	eventually(t, "two pods", func(ctx context.Context) bool {
		var pods corev1.PodList
		return c.client.List(ctx, &pods, client.InNamespace("blue")) == nil && len(pods.Items) == 2
	})
	const user = "system:serviceaccount:blue:blue-quorate-manager"
	eventually(t, "rights in the namespace", func(ctx context.Context) bool {
		return c.may(ctx, t, user, "patch", "kubeadmcontrolplanes", "controlplane.cluster.x-k8s.io", "blue")
	})
	if c.may(t.Context(), t, user, "patch", "kubeadmcontrolplanes", "controlplane.cluster.x-k8s.io", "default") {
		t.Error("it may change control planes of another namespace")
	}
}

// difference returns where two objects differ first.
func difference(a, b any) string {
	x, y := mustJSON(a), mustJSON(b)
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	around := func(s string) string { return s[max(0, n-100):min(len(s), n+100)] }
	return "\nkustomize: " + around(x) + "\nchart:     " + around(y)
}

func mustJSON(in any) string {
	out, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// at returns a field of an object, such as spec.template.spec.containers.0.image; nil: there is none.
func at(o unstructured.Unstructured, path string) any {
	var now any = o.Object
	for _, step := range strings.Split(path, ".") {
		switch v := now.(type) {
		case map[string]any:
			now = v[strings.ReplaceAll(step, "|", ".")]
		case []any:
			if step != "0" || len(v) == 0 {
				return nil
			}
			now = v[0]
		default:
			return nil
		}
	}
	return now
}

const (
	deployment = "Deployment quorate-system/quorate-manager"
	container  = "spec.template.spec.containers.0."
	validating = "ValidatingWebhookConfiguration /quorate-validating-webhook-configuration"
	definition = "CustomResourceDefinition /kubeadmcontrolplanes.controlplane.cluster.x-k8s.io"
	extension  = "ExtensionConfig /quorate"
	seeds      = "Service quorate-system/quorate-seeds"
)

// TestValues: each value does what values.yaml says. Want is the field in JSON; null: there is no such object or field.
func TestValues(t *testing.T) {
	const own = "certManager: {enabled: false}, certificate: {secretName: mine, caBundle: QUJD}"
	c := load(t)
	// Most rows do without the definitions, which take their time.
	light := load(t)
	light.Files = slices.DeleteFunc(light.Files, func(f *common.File) bool { return strings.HasPrefix(f.Name, "files/crd/") })
	for _, row := range []struct{ values, object, field, want string }{
		{"replicas: 3", deployment, "spec.replicas", "3"},
		{"replicas: 1", "PodDisruptionBudget quorate-system/quorate-manager", "kind", "null"},
		{"podDisruptionBudget: {enabled: false}", "PodDisruptionBudget quorate-system/quorate-manager", "kind", "null"},
		{"image: {repository: a/b, tag: v2}", deployment, container + "image", `"a/b:v2"`},
		{"image: {digest: 'sha256:" + strings.Repeat("0", 64) + "', tag: v2}", deployment, container + "image",
			`"ghcr.io/quorate/quorate-manager@sha256:` + strings.Repeat("0", 64) + `"`},
		{"image: {pullPolicy: Never}", deployment, container + "imagePullPolicy", `"Never"`},
		{"imagePullSecrets: [{name: a}]", deployment, "spec.template.spec.imagePullSecrets", `[{"name":"a"}]`},
		{"namespaceScoped: {enabled: true}", deployment, container + "args",
			`["--leader-elect","--diagnostics-address=:8443","--webhook-port=9443","--namespace=quorate-system"]`},
		{"namespaceScoped: {enabled: true, namespace: a}", "RoleBinding a/quorate-namespace", "roleRef.name", `"quorate-aggregated-manager"`},
		{"namespaceScoped: {enabled: true, namespace: a}", "ClusterRoleBinding /quorate-aggregated-manager", "kind", "null"},
		{"watchFilter: a", deployment, container + "args",
			`["--leader-elect","--diagnostics-address=:8443","--webhook-port=9443","--watch-filter=a"]`},
		{"features: {MachineTaintPropagation: true}", deployment, container + "args",
			`["--leader-elect","--diagnostics-address=:8443","--webhook-port=9443","--feature-gates=MachineTaintPropagation=true"]`},
		{"features: {MachineTaintPropagation: true, KubeadmBootstrapFormatIgnition: true}", deployment, container + "args",
			`["--leader-elect","--diagnostics-address=:8443","--webhook-port=9443","--feature-gates=KubeadmBootstrapFormatIgnition=true,` +
				`MachineTaintPropagation=true"]`},
		{"{profiling: true, extraArgs: [--v=4]}", deployment, container + "args",
			`["--leader-elect","--diagnostics-address=:8443","--webhook-port=9443","--profiling","--v=4"]`},
		{"runtimeExtension: {enabled: true}", deployment, container + "args",
			`["--leader-elect","--diagnostics-address=:8443","--webhook-port=9443","--runtime-extension-port=9445"]`},
		{"recovery: {address: 'seeds.example.com:9446'}", deployment, container + "args",
			`["--leader-elect","--diagnostics-address=:8443","--webhook-port=9443","--seed-address=seeds.example.com:9446"]`},
		{"recovery: {address: 'seeds.example.com:9446'}", seeds, "kind", "null"},
		{"recovery: {service: {type: LoadBalancer, annotations: {a: b}}}", seeds, "metadata.annotations", `{"a":"b"}`},
		{"recovery: {service: {type: LoadBalancer}}", seeds, "spec.type", `"LoadBalancer"`},
		{"recovery: {service: {type: ClusterIP, port: 443}}", seeds, "spec.ports", `[{"name":"seeds","port":443,"targetPort":"seeds"}]`},
		{"recovery: {service: {type: NodePort, nodePort: 30446}}", seeds, "spec.ports.0.nodePort", "30446"},
		{"runtimeExtension: {enabled: true}", extension, "kind", "null"},
		{"runtimeExtension: {enabled: true, register: true, policy: Only}", extension, "spec.settings.policy", `"Only"`},
		{"upgrader: {defaultImage: 'registry.example.com/upgrader:v2-%s'}", deployment, container + "args",
			`["--leader-elect","--diagnostics-address=:8443","--webhook-port=9443","--upgrader-image=registry.example.com/upgrader:v2-%s"]`},
		{"{webhooks: {enabled: false}, crds: {install: false}}", deployment, container + "args",
			`["--leader-elect","--diagnostics-address=:8443","--webhook-port=0"]`},
		{"{webhooks: {enabled: false}, crds: {install: false}}", deployment, "spec.template.spec.volumes",
			`[{"emptyDir":{"sizeLimit":"9Gi"},"name":"scratch"}]`},
		{"{webhooks: {enabled: false}, crds: {install: false}}", validating, "kind", "null"},
		{"{webhooks: {enabled: false}, crds: {install: false}}", definition, "kind", "null"},
		{"", definition, "metadata.annotations.helm|sh/resource-policy", `"keep"`},
		{"crds: {keep: false}", definition, "metadata.annotations.helm|sh/resource-policy", "null"},
		{"crds: {keep: false}", definition, "metadata.annotations.cert-manager|io/inject-ca-from", `"quorate-system/quorate-serving-cert"`},
		{"{" + own + "}", definition, "spec.conversion.webhook.clientConfig.caBundle", `"QUJD"`},
		{"{" + own + "}", definition, "metadata.annotations.cert-manager|io/inject-ca-from", "null"},
		{"{" + own + "}", validating, "webhooks.0.clientConfig.caBundle", `"QUJD"`},
		{"{" + own + "}", validating, "metadata.annotations", "null"},
		{"{" + own + "}", "Certificate quorate-system/quorate-serving-cert", "kind", "null"},
		{"{" + own + "}", deployment, "spec.template.spec.volumes.0.secret.secretName", `"mine"`},
		{"certificate: {secretName: mine}", "Certificate quorate-system/quorate-serving-cert", "spec.secretName", `"mine"`},
		{"certManager: {issuerRef: {kind: ClusterIssuer, name: a}}", "Certificate quorate-system/quorate-serving-cert", "spec.issuerRef",
			`{"kind":"ClusterIssuer","name":"a"}`},
		{"certManager: {issuerRef: {kind: ClusterIssuer, name: a}}", "Issuer quorate-system/quorate-selfsigned-issuer", "kind", "null"},
		{"resources: {limits: {memory: 4Gi}}", deployment, container + "resources.limits.memory", `"4Gi"`},
		{"resources: {limits: {memory: null}}", deployment, container + "env", "null"},
		{"serviceAccount: {annotations: {a: b}}", "ServiceAccount quorate-system/quorate-manager", "metadata.annotations", `{"a":"b"}`},
		{"priorityClass: {create: false, name: mine}", deployment, "spec.template.spec.priorityClassName", `"mine"`},
		{"priorityClass: {create: false}", deployment, "spec.template.spec.priorityClassName", "null"},
		{"priorityClass: {create: false}", "PriorityClass /quorate-manager", "kind", "null"},
		{"networkPolicy: {enabled: false}", "NetworkPolicy quorate-system/quorate-manager", "kind", "null"},
		{"networkPolicy: {egress: [{}]}", "NetworkPolicy quorate-system/quorate-manager", "spec.egress", "[{}]"},
		{"podLabels: {a: b}", deployment, "spec.template.metadata.labels.a", `"b"`},
		{"podLabels: {a: b}", deployment, "spec.selector.matchLabels.a", "null"},
		{"podAnnotations: {a: b}", deployment, "spec.template.metadata.annotations", `{"a":"b"}`},
		{"nodeSelector: {a: b}", deployment, "spec.template.spec.nodeSelector", `{"a":"b"}`},
		{"tolerations: []", deployment, "spec.template.spec.tolerations", "null"},
		{"affinity: {nodeAffinity: {}}", deployment, "spec.template.spec.affinity", `{"nodeAffinity":{}}`},
		{"topologySpreadConstraints: [{maxSkew: 2}]", deployment, "spec.template.spec.topologySpreadConstraints", `[{"maxSkew":2}]`},
	} {
		used := light
		if row.object == definition {
			used = c
		}
		if got := mustJSON(at(installed(t, used, row.values)[row.object], row.field)); got != row.want {
			t.Errorf("%s: %s of %s is %s, want %s", row.values, row.field, row.object, got, row.want)
		}
	}
}

// TestBadValues: a value that cannot be is refused, and the refusal names it.
func TestBadValues(t *testing.T) {
	c := load(t)
	for _, row := range []struct{ values, err string }{
		{"replicas: 0", "/replicas"},
		{"replicas: many", "/replicas"},
		{"replica: 3", "replica"},
		{"image: {tags: v1}", "tags"},
		{"image: {digest: v1}", "/image/digest"},
		{"image: {pullPolicy: Sometimes}", "/image/pullPolicy"},
		{"namespaceScoped: true", "/namespaceScoped"},
		{"namespaceScoped: {enabled: true, namespace: 'A b'}", "/namespaceScoped/namespace"},
		{"features: {ClusterTopology: true}", "ClusterTopology"},
		{"features: {MachineTaintPropagation: 'on'}", "/features/MachineTaintPropagation"},
		{"recovery: {address: seeds.example.com}", "/recovery/address"},
		{"recovery: {service: {type: ExternalName}}", "/recovery/service/type"},
		{"recovery: {service: {port: 0}}", "/recovery/service/port"},
		{"runtimeExtension: {policy: Maybe}", "/runtimeExtension/policy"},
		{"runtimeExtension: {register: true}", "runtimeExtension.register"},
		{"upgrader: {images: {v1.36.3: {digest: v1}}}", "/upgrader/images/v1.36.3/digest"},
		{"upgrader: {images: {v1.36.3: {}}}", "/upgrader/images/v1.36.3"},
		{"upgrader: {images: {newest: {digest: 'sha256:" + strings.Repeat("0", 64) + "'}}}", "newest"},
		{"upgrader: {repository: 'a b'}", "/upgrader/repository"},
		{"upgrader: {defaultImage: 'a --v=9'}", "/upgrader/defaultImage"},
		{"webhooks: {enabled: false}", "crds.install"},
		{"certManager: {enabled: false}", "certificate.secretName"},
		{"{certManager: {enabled: false}, certificate: {secretName: a}}", "certificate.caBundle"},
		{"certificate: {caBundle: '-----BEGIN CERTIFICATE-----'}", "/certificate/caBundle"},
		{"resources: {limit: {}}", "limit"},
		{"resources: {limits: {memory: [1]}}", "/resources/limits/memory"},
		{"networkPolicy: {enabled: maybe}", "/networkPolicy/enabled"},
		{"networkPolicy: {egress: {}}", "/networkPolicy/egress"},
		{"extraArgs: [leader-elect]", "/extraArgs/0"},
		{"priorityClass: {value: 5}", "value"},
	} {
		if _, err := template(t, c, row.values); err == nil || !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: error %v, want one that names %s", row.values, err, row.err)
		}
	}
}

// TestValuesAreDescribed: values.yaml and its schema have the same values, and values.yaml says what each is.
func TestValuesAreDescribed(t *testing.T) {
	c := load(t)
	var schema struct {
		Properties map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(c.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	var text string
	for _, f := range c.Raw {
		if f.Name == "values.yaml" {
			text = string(f.Data)
		}
	}
	lines := strings.Split(text, "\n")
	described := func(key string) bool {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, key+":") })
		return i > 0 && i < len(lines)-1 && (strings.HasPrefix(lines[i-1], "# ") || strings.HasPrefix(lines[i+1], "  # "))
	}
	for key, value := range c.Values {
		p, ok := schema.Properties[key]
		if !ok {
			t.Errorf("the schema lacks %s", key)
		}
		if !described(key) {
			t.Errorf("values.yaml does not say what %s is", key)
		}
		if inner, ok := value.(map[string]any); ok && len(p.Properties) > 0 {
			for k := range inner {
				if p.Properties[k] == nil {
					t.Errorf("the schema lacks %s.%s", key, k)
				}
			}
		}
	}
	for key := range schema.Properties {
		// Helm gives each chart the values of all charts.
		if _, ok := c.Values[key]; !ok && key != "global" {
			t.Errorf("values.yaml lacks %s", key)
		}
	}
}

// TestPackedChart: Helm loads the archive of a release, and makes of it what it makes of the folder, with the release's image.
func TestPackedChart(t *testing.T) {
	out := t.TempDir()
	pack := exec.CommandContext(t.Context(), "go", "run", "./hack/release", "-out", out, "-version", "v0.1.2", "-revision", "0123456789abcdef",
		"-date", "2026-01-02T03:04:05Z", "chart")
	pack.Dir = sources
	if said, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("packing the chart: %v\n%s", err, said)
	}
	packed, err := loader.LoadFile(filepath.Join(out, "quorate-0.1.2.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := packed.Validate(); err != nil {
		t.Error(err)
	}
	if m := packed.Metadata; m.Version != "0.1.2" || m.AppVersion != "v0.1.2" {
		t.Errorf("the chart has version %q and appVersion %q", m.Version, m.AppVersion)
	}
	if packed.Schema == nil {
		t.Error("the archive lacks the schema of values")
	}
	folder := load(t)
	folder.Metadata.Version, folder.Metadata.AppVersion = packed.Metadata.Version, packed.Metadata.AppVersion
	for _, values := range []string{"", "namespaceScoped: {enabled: true, namespace: default}"} {
		want, got := installed(t, folder, values), installed(t, packed, values)
		if len(want) != len(got) {
			t.Errorf("the archive makes %d objects, the folder %d", len(got), len(want))
		}
		for name, o := range want {
			if g, is := got[name]; !is || !reflect.DeepEqual(o.Object, g.Object) {
				t.Errorf("%s: the folder makes %v, the archive %v", name, o.Object, g.Object)
			}
		}
	}
	if image := installed(t, packed, "")["Deployment quorate-system/quorate-manager"]; !strings.Contains(fmt.Sprint(image.Object),
		":v0.1.2 ") {
		t.Errorf("the manager's image is not the release's: %v", image.Object)
	}
}

// TestReleaseFits: Helm keeps a release in a Secret, which the API server limits to 1 MiB.
func TestReleaseFits(t *testing.T) {
	c := load(t)
	manifest, err := template(t, c, "")
	if err != nil {
		t.Fatal(err)
	}
	release, err := json.Marshal(map[string]any{"chart": c, "manifest": string(manifest)})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, bytes.NewReader(release)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n := base64.StdEncoding.EncodedLen(packed.Len()); n > 900<<10 {
		t.Errorf("a release takes %d bytes of %d", n, 1<<20)
	} else {
		t.Logf("a release takes %d bytes", n)
	}
}
