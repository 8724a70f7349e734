package kubeadm

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// audited is written by somebody who said more to kubeadm than the control plane does.
var audited = strings.Replace(written, "apiServer: {}", `apiServer:
  extraArgs:
  - name: audit-log-path
    value: /var/log/audit
certificateValidityPeriod: 2160h0m0s
encryptionAlgorithm: ECDSA-P256`, 1)

// old is what kubeadm v1.30 writes: lists of newer versions are objects there.
const old = `apiServer:
  extraArgs:
    audit-log-path: /var/log/audit
  timeoutForControlPlane: 4m0s
apiVersion: kubeadm.k8s.io/v1beta3
certificatesDir: /etc/kubernetes/pki
clusterName: demo
controlPlaneEndpoint: 10.0.0.1:6443
controllerManager: {}
dns: {}
etcd:
  local:
    dataDir: /var/lib/etcd
    extraArgs:
      quota-backend-bytes: "8589934592"
imageRepository: registry.k8s.io
kind: ClusterConfiguration
kubernetesVersion: v1.30.9
networking:
  dnsDomain: cluster.local
  podSubnet: 10.244.0.0/16
scheduler: {}
`

// TestConfigKeeps: what the control plane does not speak of stays.
func TestConfigKeeps(t *testing.T) {
	silent := func(version string, gates map[string]bool) Wanted {
		return Wanted{Version: version, Configuration: bootstrapv1.ClusterConfiguration{FeatureGates: gates}}
	}
	own := map[string]bool{"ControlPlaneKubeletLocalMode": true}
	tests := []struct {
		name   string
		text   string
		want   Wanted
		behind string
		has    []string
		gone   []string
	}{
		{"nothing is said", audited, silent("v1.35.4", nil), "featureGates changed",
			[]string{"audit-log-path", "certificateValidityPeriod: 2160h0m0s", "encryptionAlgorithm: ECDSA-P256"},
			[]string{"ControlPlaneKubeletLocalMode"}},
		{"nothing but our own feature gate", audited, silent("v1.35.4", own), "",
			[]string{"audit-log-path", "ControlPlaneKubeletLocalMode: true"}, nil},
		{"nothing is said, and another version", audited, silent("v1.36.3", nil),
			"kubernetesVersion v1.35.4, v1.36.3 wanted; featureGates changed",
			[]string{"audit-log-path", "kubernetesVersion: v1.36.3", "encryptionAlgorithm: ECDSA-P256"}, []string{"ControlPlaneKubeletLocalMode"}},
		{"another gate", strings.Replace(audited, "featureGates:", "featureGates:\n  RootlessControlPlane: true", 1), silent("v1.36.3", nil),
			"kubernetesVersion v1.35.4, v1.36.3 wanted; featureGates changed", []string{"RootlessControlPlane: true"},
			[]string{"ControlPlaneKubeletLocalMode"}},
		{"what is said no more", audited, wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.ImageRepository = "registry.k8s.io" }),
			"apiServer changed; certificateValidityPeriod changed; encryptionAlgorithm changed", []string{"podSubnet: 10.244.0.0/16"},
			[]string{"audit-log-path", "2160h", "ECDSA"}},
		{"an older form", old, silent("v1.31.4", own), "kubernetesVersion v1.30.9, v1.31.4 wanted; featureGates changed",
			[]string{"kubeadm.k8s.io/v1beta4", "name: audit-log-path", "name: quota-backend-bytes", "podSubnet: 10.244.0.0/16",
				"controlPlaneEndpoint: 10.0.0.1:6443", "clusterName: demo"},
			[]string{"timeoutForControlPlane", "v1beta3"}},
		{"an older form that is wanted", old, silent("v1.30.9", nil), "", []string{"kubeadm.k8s.io/v1beta3"}, nil},
		{"where CoreDNS comes from",
			strings.Replace(written, "dns: {}", "dns:\n  disabled: false\n  imageRepository: example.com/dns\n  imageTag: v1.13.1", 1),
			wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.DNS.ImageTag = "v1.14.2" }), "dns changed",
			[]string{"disabled: false", "imageRepository: example.com/dns", "imageTag: v1.14.2"}, nil},
		{"where somebody else's CoreDNS comes from", written,
			Wanted{Version: "v1.35.4", SkipDNS: true, Configuration: bootstrapv1.ClusterConfiguration{FeatureGates: own,
				DNS: bootstrapv1.DNS{ImageTag: "v1.14.2"}}}, "", []string{"dns: {}"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := fake.NewClientset(configMap(test.text))
			behind, err := ConfigBehind(t.Context(), c, test.want)
			if err != nil || behind != test.behind {
				t.Fatalf("behind %q, %v, want %q", behind, err, test.behind)
			}
			text := configWritten(t, c, test.want)
			for _, line := range test.has {
				if !strings.Contains(text, line) {
					t.Errorf("lacks %q:\n%s", line, text)
				}
			}
			for _, line := range test.gone {
				if strings.Contains(text, line) {
					t.Errorf("still has %q:\n%s", line, text)
				}
			}
			if again, err := ConfigBehind(t.Context(), c, test.want); again != "" || err != nil {
				t.Errorf("once written it is still behind: %q, %v", again, err)
			}
		})
	}
}

// configWritten brings the configuration up to date and returns it.
func configWritten(t *testing.T, c *fake.Clientset, want Wanted) string {
	t.Helper()
	if err := WriteConfig(t.Context(), c, want); err != nil {
		t.Fatal(err)
	}
	m, err := c.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "kubeadm-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Data["ClusterConfiguration"]
}

// TestConfigUnreadable: content that is no configuration is refused, for a person to mend, and nothing is written over it.
func TestConfigUnreadable(t *testing.T) {
	tests := map[string]struct {
		found runtime.Object
		says  string
	}{
		"no data": {&corev1.ConfigMap{ObjectMeta: named("kubeadm-config")}, "ConfigMap kubeadm-config has no ClusterConfiguration"},
		"another key": {&corev1.ConfigMap{ObjectMeta: named("kubeadm-config"), Data: map[string]string{"ClusterStatus": "{}"}},
			"has no ClusterConfiguration"},
		"nothing":         {configMap(""), "has no ClusterConfiguration"},
		"null":            {configMap("null"), "has no ClusterConfiguration"},
		"a list":          {configMap("- a\n- b\n"), "reading ClusterConfiguration of ConfigMap kubeadm-config"},
		"no YAML":         {configMap("["), "reading ClusterConfiguration of ConfigMap kubeadm-config"},
		"another kind":    {configMap("kind: InitConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\n"), "is of kind InitConfiguration"},
		"an unknown form": {configMap("kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1alpha1\n"), "unknown kubeadm types"},
		"a text for parts": {configMap("kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta3\napiServer: much\n"),
			"unknown kubeadm types"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientset(test.found)
			want := wanted("v1.36.3", func(c *bootstrapv1.ClusterConfiguration) { c.DNS.ImageTag = "v1.14.2" })
			_, err := ConfigBehind(t.Context(), c, want)
			var refusal *Refusal
			if !errors.As(err, &refusal) || !refusal.Config || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want a refusal that says %q", err, test.says)
			}
			if err := WriteConfig(t.Context(), c, want); !errors.As(err, &refusal) {
				t.Errorf("writing: %v", err)
			}
			if count(c, "update")+count(c, "patch") > 0 {
				t.Error("it was written over")
			}
		})
	}
	// What is odd in a part alone is replaced with the part.
	c := fake.NewClientset(configMap("kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\nfeatureGates: [1]\ndns: none\n"))
	if text := configWritten(t, c,
		wanted("v1.36.3", func(c *bootstrapv1.ClusterConfiguration) { c.DNS.ImageTag = "v1.14.2" })); !strings.Contains(text,
		"imageTag: v1.14.2") {
		t.Errorf("written: %s", text)
	}
	c = fake.NewClientset(configMap("kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\nfeatureGates: [1]\n"))
	if text := configWritten(t, c, Wanted{Version: "v1.36.3"}); !strings.Contains(text, "kubernetesVersion: v1.36.3") {
		t.Errorf("written: %s", text)
	}
}

// TestConfigLost: a configuration that is lost is written as Cluster API had it, where all of that is known.
func TestConfigLost(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: clusterv1.ClusterSpec{
		ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443},
		ClusterNetwork: clusterv1.ClusterNetwork{
			Pods:     clusterv1.NetworkRanges{CIDRBlocks: []string{"10.244.0.0/16"}},
			Services: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.96.0.0/12"}},
		},
	}}
	want := wanted("v1.36.3", func(c *bootstrapv1.ClusterConfiguration) { c.APIServer.CertSANs = []string{"api.example.com"} })
	want.Cluster = DataOf(cluster)
	for name, found := range map[string]runtime.Object{
		"no data": &corev1.ConfigMap{ObjectMeta: named("kubeadm-config")}, "nothing": configMap(""), "null": configMap("null"),
	} {
		c := fake.NewClientset(found)
		if behind, err := ConfigBehind(t.Context(), c, want); behind != "it is lost" || err != nil {
			t.Errorf("%s: behind %q, %v", name, behind, err)
		}
		text := configWritten(t, c, want)
		for _, line := range []string{"kind: ClusterConfiguration", "clusterName: demo", "controlPlaneEndpoint: 10.0.0.1:6443",
			"kubernetesVersion: v1.36.3",
			"podSubnet: 10.244.0.0/16", "serviceSubnet: 10.96.0.0/12", "- api.example.com"} {
			if !strings.Contains(text, line) {
				t.Errorf("%s: there is no %q in\n%s", name, line, text)
			}
		}
		if again, err := ConfigBehind(t.Context(), c, want); again != "" || err != nil {
			t.Errorf("%s: once written it is still behind: %q, %v", name, again, err)
		}
	}
	silent := wanted("v1.36.3", nil)
	silent.Cluster = DataOf(cluster)
	if _, err := ConfigBehind(t.Context(), fake.NewClientset(configMap("")), silent); err == nil ||
		!strings.Contains(err.Error(), "has no ClusterConfiguration") {
		t.Errorf("of a user who says nothing: %v", err)
	}
}
