package inplace

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCanUpdate(t *testing.T) {
	const kubeadm = "clusterConfiguration: "
	for _, c := range []struct {
		name             string
		machine, wanted  string // Machine specs
		config, desired  string // bootstrap specs
		kind             string // KubeadmConfig if empty
		infra, infraWant string
		patch            string   // the patch of the bootstrap spec
		replacing        []string // parts of the reasons
	}{
		{name: "nothing"},
		{name: "a patch release", machine: "version: v1.36.2", wanted: "version: v1.36.3"},
		{name: "the next minor", machine: "version: v1.35.4", wanted: "version: v1.36.3"},
		{name: "two minors", machine: "version: v1.34.1", wanted: "version: v1.36.3", replacing: []string{"spec.version: v1.34.1 to v1.36.3: " +
			"kubeadm goes up by one minor version at a time"}},
		{name: "another major", machine: "version: v1.36.3", wanted: "version: v2.0.0", replacing: []string{"one minor version at a time"}},
		{name: "back", machine: "version: v1.36.3", wanted: "version: v1.36.2", replacing: []string{"does not go back"}},
		{name: "no version before", machine: "{}", wanted: "version: v1.36.2", replacing: []string{"none to v1.36.2: the versions cannot be " +
			"compared"}},
		{name: "no version after", machine: "version: v1.36.2", wanted: "version: latest", replacing: []string{"to latest: the versions cannot " +
			"be compared"}},
		{name: "what makes no difference", machine: "{version: v1.36.2, providerID: 'local://a', clusterName: c, bootstrap: {dataSecretName: " +
			"a}, deletion: {nodeDrainTimeoutSeconds: 1}}",
			wanted: "{version: v1.36.2, infrastructureRef: {name: b}, taints: [{key: a}], readinessGates: [], minReadySeconds: 3}"},
		{name: "another failure domain", machine: "{version: v1.35.4, failureDomain: a}", wanted: "{version: v1.36.3, failureDomain: b}",
			replacing: []string{"Machine: spec.failureDomain"}},

		{name: "arguments", config: kubeadm + "{apiServer: {extraArgs: [{name: v, value: '1'}]}}", desired: kubeadm +
			"{apiServer: {extraArgs: [{name: v, value: '2'}]}}",
			patch: kubeadm + "{apiServer: {extraArgs: [{name: v, value: '2'}]}}"},
		{name: "the first arguments", config: "{}", desired: kubeadm + "{scheduler: {extraArgs: [{name: v, value: '2'}]}}", patch: kubeadm +
			"{scheduler: {extraArgs: [{name: v, value: '2'}]}}"},
		{name: "no arguments any more", config: kubeadm + "{scheduler: {extraArgs: [{name: v, value: '2'}]}}", desired: kubeadm + "{}",
			patch: kubeadm + "{scheduler: null}"},
		{name: "no configuration any more", config: kubeadm + "{controllerManager: {extraArgs: [{name: v, value: '2'}]}}", desired: "{}",
			patch: kubeadm + "null"},
		{name: "an empty one", config: "{}", desired: kubeadm + "{}", patch: kubeadm + "{}"},
		{name: "images and etcd", config: kubeadm + "{imageRepository: a, etcd: {local: {imageTag: '1', extraArgs: [{name: a}]}}}",
			desired: kubeadm + "{imageRepository: b, etcd: {local: {imageTag: '2', imageRepository: c}}}",
			patch:   kubeadm + "{imageRepository: b, etcd: {local: {imageTag: '2', imageRepository: c, extraArgs: null}}}"},
		{name: "CoreDNS", config: kubeadm + "{dns: {imageTag: a, imageRepository: b}}", desired: kubeadm + "{dns: {imageTag: c}}",
			patch: kubeadm + "{dns: {imageTag: c, imageRepository: null}}"},
		{name: "a gate that kubeadm forgot", config: kubeadm + "{featureGates: {ControlPlaneKubeletLocalMode: true, A: true}}", desired: kubeadm +
			"{featureGates: {A: true}}",
			patch: kubeadm + "{featureGates: {ControlPlaneKubeletLocalMode: null}}"},
		{name: "the machine that was initialised", config: "{joinConfiguration: {nodeRegistration: {name: a}}}",
			desired: "{joinConfiguration: {nodeRegistration: {name: a}, timeouts: {etcdAPICallSeconds: 300}}}",
			patch:   "{joinConfiguration: {timeouts: {etcdAPICallSeconds: 300}}}"},
		{name: "other timeouts", config: "{joinConfiguration: {timeouts: {discoverySeconds: 1}}}", desired: "{joinConfiguration: {timeouts: " +
			"{etcdAPICallSeconds: 300}}}",
			patch: "{joinConfiguration: {timeouts: {etcdAPICallSeconds: 300, discoverySeconds: null}}}"},
		{name: "no timeouts any more", config: "{joinConfiguration: {timeouts: {discoverySeconds: 1}}}", desired: "{}",
			patch: "{joinConfiguration: null}"},
		{name: "another gate", config: kubeadm + "{featureGates: {A: true}}", desired: kubeadm + "{featureGates: {A: false}}",
			replacing: []string{"KubeadmConfig: spec.clusterConfiguration.featureGates.A"}},
		{name: "another place of etcd's data", config: kubeadm + "{etcd: {local: {dataDir: a, imageTag: '1'}}}", desired: kubeadm +
			"{etcd: {local: {dataDir: b, imageTag: '2'}}}",
			patch: kubeadm + "{etcd: {local: {imageTag: '2'}}}", replacing: []string{"etcd.local.dataDir"}},
		{name: "what kubeadm uses once", config: "{files: [{path: /a, content: secret}], joinConfiguration: {nodeRegistration: {name: a}}}",
			desired:   "{files: [{path: /a, content: hidden}], joinConfiguration: {nodeRegistration: {name: b}}, preKubeadmCommands: [secret]}",
			replacing: []string{"KubeadmConfig: spec.files", "spec.joinConfiguration.nodeRegistration.name", "spec.preKubeadmCommands"}},
		{name: "arguments of the kubelet", config: "{joinConfiguration: {nodeRegistration: {kubeletExtraArgs: [{name: v, value: '1'}]}}}",
			desired:   "{joinConfiguration: {nodeRegistration: {kubeletExtraArgs: [{name: v, value: '2'}]}}}",
			replacing: []string{"spec.joinConfiguration.nodeRegistration.kubeletExtraArgs"}},
		{name: "volumes and names of certificates", config: "{}", desired: kubeadm +
			"{apiServer: {certSANs: [a], extraVolumes: [{name: a}], extraArgs: [{name: v}]}}",
			patch: kubeadm + "{apiServer: {extraArgs: [{name: v}]}}", replacing: []string{"apiServer.certSANs", "apiServer.extraVolumes"}},
		{name: "a template of workers", kind: "KubeadmConfigTemplate", config: kubeadm + "{imageRepository: a}", desired: kubeadm +
			"{imageRepository: b}", patch: kubeadm + "{imageRepository: b}"},
		{name: "another bootstrap provider", kind: "OtherConfig", config: kubeadm + "{imageRepository: a}", desired: kubeadm +
			"{imageRepository: b}",
			replacing: []string{"OtherConfig: spec.clusterConfiguration.imageRepository"}},

		{name: "other infrastructure", infra: "{resources: {cpu: '2'}}", infraWant: "{resources: {cpu: '3'}, flavour: big}",
			replacing: []string{"infrastructure machine: spec.flavour", "infrastructure machine: spec.resources.cpu"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := c.kind
			if kind == "" {
				kind = "KubeadmConfig"
			}
			current := Objects{Machine: object(t, c.machine), Bootstrap: object(t, c.config), Infrastructure: object(t, c.infra),
				BootstrapKind: kind}
			desired := Objects{Machine: object(t, c.wanted), Bootstrap: object(t, c.desired), Infrastructure: object(t, c.infraWant),
				BootstrapKind: kind}
			got := CanUpdate(current, desired)
			if len(got.Replacing) != len(c.replacing) {
				t.Errorf("replaced for %q, want %q", got.Replacing, c.replacing)
			}
			for _, part := range c.replacing {
				if !slices.ContainsFunc(got.Replacing, func(r string) bool { return strings.Contains(r, part) }) {
					t.Errorf("replaced for %q, want %q among it", got.Replacing, part)
				}
			}
			if text := strings.Join(got.Replacing, " "); strings.Contains(text, "secret") || strings.Contains(text, "hidden") {
				t.Errorf("%q tells the contents of a field", text)
			}
			if want := object(t, c.patch); !reflect.DeepEqual(got.Bootstrap, want) {
				t.Errorf("patch %v, want %v", got.Bootstrap, want)
			}
			if len(c.replacing) == 0 {
				becomes(t, "Machine", without(current.Machine, ignoredFields), got.Machine, without(desired.Machine, ignoredFields))
				becomes(t, "bootstrap", current.Bootstrap, got.Bootstrap, desired.Bootstrap)
			}
		})
	}
}

// becomes applies a patch as Cluster API does, and expects what is wanted.
func becomes(t *testing.T, what string, current, patch, desired map[string]any) {
	t.Helper()
	if patch == nil {
		patch = map[string]any{}
	}
	data, err := json.Marshal(map[string]any{"spec": current})
	if err != nil {
		t.Fatal(err)
	}
	if data, err = jsonpatch.MergePatch(data, Patch("spec", patch)); err != nil {
		t.Fatal(err)
	}
	var got struct{ Spec map[string]any }
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Spec)+len(desired) > 0 && !reflect.DeepEqual(got.Spec, desired) {
		t.Errorf("%s: with the patch %v it becomes %v, want %v", what, patch, got.Spec, desired)
	}
}

func TestOtherBootstrapObject(t *testing.T) {
	for _, c := range []struct{ was, want, reason string }{
		{"", "", ""}, {"KubeadmConfig", "", "a none is wanted"}, {"", "KubeadmConfig", "is a none"}, {"A", "B", "is a A and a B is wanted"},
	} {
		got := strings.Join(CanUpdate(Objects{BootstrapKind: c.was}, Objects{BootstrapKind: c.want}).Replacing, "; ")
		if (got == "") != (c.reason == "") || !strings.Contains(got, c.reason) {
			t.Errorf("%q to %q: %q, want %q", c.was, c.want, got, c.reason)
		}
	}
}

func TestPatch(t *testing.T) {
	if got := Patch("spec", nil); got != nil {
		t.Errorf("of nothing: %s", got)
	}
	if got := string(Patch("spec.template.spec", map[string]any{"version": "v1"})); got != `{"spec":{"template":{"spec":{"version":"v1"}}}}` {
		t.Error(got)
	}
}
