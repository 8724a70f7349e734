package kubeadm

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// written is what kubeadm init v1.35.4 leaves.
const written = `apiServer: {}
apiVersion: kubeadm.k8s.io/v1beta4
certificatesDir: /etc/kubernetes/pki
clusterName: demo
controlPlaneEndpoint: 10.0.0.1:6443
controllerManager: {}
dns: {}
etcd:
  local:
    dataDir: /var/lib/etcd
featureGates:
  ControlPlaneKubeletLocalMode: true
imageRepository: registry.k8s.io
kind: ClusterConfiguration
kubernetesVersion: v1.35.4
networking:
  dnsDomain: cluster.local
  podSubnet: 10.244.0.0/16
proxy: {}
scheduler: {}
`

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "kube-system", Name: name}
}

func configMap(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: named("kubeadm-config"), Data: map[string]string{"ClusterConfiguration": text}}
}

func wanted(version string, change func(*bootstrapv1.ClusterConfiguration)) Wanted {
	w := Wanted{Version: version}
	w.Configuration.FeatureGates = map[string]bool{"ControlPlaneKubeletLocalMode": true}
	if change != nil {
		change(&w.Configuration)
	}
	return w
}

func TestConfig(t *testing.T) {
	argument := func(c *bootstrapv1.ClusterConfiguration) {
		c.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "audit-log-path", Value: ptr.To("/var/log/audit")}}
	}
	tests := []struct {
		name   string
		want   Wanted
		behind string
		has    []string // lines that are there afterwards
		gone   []string // and words that are not
	}{
		{"the same", wanted("v1.35.4", nil), "", []string{"kubernetesVersion: v1.35.4"}, nil},
		{"another version", wanted("v1.36.3", nil), "kubernetesVersion v1.35.4, v1.36.3 wanted",
			[]string{"kubernetesVersion: v1.36.3", "controlPlaneEndpoint: 10.0.0.1:6443", "podSubnet: 10.244.0.0/16",
				"imageRepository: registry.k8s.io", "dataDir: /var/lib/etcd"}, nil},
		{"a feature gate that is gone", wanted("v1.36.3", func(c *bootstrapv1.ClusterConfiguration) { c.FeatureGates = nil }),
			"kubernetesVersion v1.35.4, v1.36.3 wanted; featureGates changed", nil, []string{"ControlPlaneKubeletLocalMode"}},
		{"an argument", wanted("v1.35.4", argument), "apiServer changed", []string{"name: audit-log-path", "value: /var/log/audit"}, nil},
		{"another registry", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.ImageRepository = "example.com/k8s" }),
			"imageRepository changed", []string{"imageRepository: example.com/k8s"}, nil},
		{"etcd's default written out", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.Etcd.Local.DataDir = "/var/lib/etcd" }),
			"", nil, nil},
		{"etcd elsewhere on the disk", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.Etcd.Local.DataDir = "/data" }),
			"etcd changed", []string{"dataDir: /data"}, nil},
		{"how long certificates are valid", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.CertificateValidityPeriodDays = 90 }),
			"certificateValidityPeriod changed", []string{"certificateValidityPeriod: 2160h0m0s"}, nil},
		{"kubeadm's own validity", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.CertificateValidityPeriodDays = 365 }), "",
			nil, nil},
		{"the authorities' validity, which never changes",
			wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.CACertificateValidityPeriodDays = 90 }), "", nil, nil},
		{"other keys", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) {
			c.EncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmECDSAP256
		}),
			"encryptionAlgorithm changed", []string{"encryptionAlgorithm: ECDSA-P256"}, nil},
		{"kubeadm's own keys", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) {
			c.EncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmRSA2048
		}), "", nil, nil},
		{"CoreDNS of a version", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.DNS.ImageTag = "v1.14.2" }),
			"dns changed", []string{"dns:\n  imageTag: v1.14.2\n"}, nil},
		{"CoreDNS from elsewhere", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.DNS.ImageRepository = "example.com/dns" }),
			"dns changed", []string{"dns:\n  imageRepository: example.com/dns\n"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := fake.NewClientset(configMap(written))
			behind, err := ConfigBehind(t.Context(), c, test.want)
			if err != nil || behind != test.behind {
				t.Fatalf("behind %q, %v, want %q", behind, err, test.behind)
			}
			if err := WriteConfig(t.Context(), c, test.want); err != nil {
				t.Fatal(err)
			}
			if behind, err := ConfigBehind(t.Context(), c, test.want); err != nil || behind != "" {
				t.Errorf("once written it is still behind: %q, %v", behind, err)
			}
			m, err := c.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "kubeadm-config", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			text := m.Data["ClusterConfiguration"]
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
			if updates := count(c, "update"); (updates > 0) != (test.behind != "") {
				t.Errorf("%d updates", updates)
			}
		})
	}
}

// TestGatesThatAreGone: a feature gate that somebody once gave to kubeadm, and that kubeadm of the wanted version refuses to read, goes;
// others stay.
func TestGatesThatAreGone(t *testing.T) {
	const gates = "  ControlPlaneKubeletLocalMode: true\n  NodeLocalCRISocket: true\n  RootlessControlPlane: false\n"
	text := strings.Replace(written, "  ControlPlaneKubeletLocalMode: true\n", gates, 1)
	for version, want := range map[string]string{
		"v1.35.4": gates, // as it is
		"v1.36.3": "  NodeLocalCRISocket: true\n  RootlessControlPlane: false\n",
		"v1.37.2": "  RootlessControlPlane: false\n",
		"v1.99.0": "  NodeLocalCRISocket: true\n  RootlessControlPlane: false\n", // what its kubeadm has is not known
	} {
		c := fake.NewClientset(configMap(text))
		want := "featureGates:\n" + want + "imageRepository:"
		if err := WriteConfig(t.Context(), c, wanted(version, func(c *bootstrapv1.ClusterConfiguration) {
			if version != "v1.35.4" {
				c.FeatureGates = nil // as control planes set it
			}
		})); err != nil {
			t.Fatal(err)
		}
		m, err := c.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "kubeadm-config", metav1.GetOptions{})
		if err != nil || !strings.Contains(m.Data["ClusterConfiguration"], want) {
			t.Errorf("%s: there is no %q in %v, %v", version, want, m.Data, err)
		}
	}
}

func count(c *fake.Clientset, verb string) int {
	n := 0
	for _, a := range c.Actions() {
		if a.GetVerb() == verb {
			n++
		}
	}
	return n
}

func TestNoConfig(t *testing.T) {
	c := fake.NewClientset()
	if behind, err := ConfigBehind(t.Context(), c, wanted("v1.36.3", nil)); behind != "" || err != nil {
		t.Errorf("without a ConfigMap: %q, %v", behind, err)
	}
	if err := WriteConfig(t.Context(), c, wanted("v1.36.3", nil)); err != nil {
		t.Error(err)
	}
	if _, err := ConfigBehind(t.Context(), fake.NewClientset(configMap("[")), wanted("v1.36.3", nil)); err == nil ||
		!strings.Contains(err.Error(), "ClusterConfiguration of ConfigMap kubeadm-config") {
		t.Errorf("of what is no YAML: %v", err)
	}
	if _, err := ConfigBehind(t.Context(), fake.NewClientset(configMap(written)), wanted("latest", nil)); err == nil ||
		!strings.Contains(err.Error(), `"latest"`) {
		t.Errorf("of what is no version: %v", err)
	}
}

func pods(name, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other:1"},
		{Name: name, Image: image}}}}
}

const corefile = ".:53 {\n    errors\n    health\n    kubernetes cluster.local in-addr.arpa ip6.arpa {\n        pods insecure\n    }\n   " +
	" forward . /etc/resolv.conf\n}\n"

func cluster() []runtime.Object {
	return []runtime.Object{
		&appsv1.DaemonSet{ObjectMeta: named("kube-proxy"),
			Spec: appsv1.DaemonSetSpec{Template: pods("kube-proxy", "registry.k8s.io/kube-proxy:v1.35.4")}},
		&appsv1.Deployment{ObjectMeta: named("coredns"),
			Spec: appsv1.DeploymentSpec{Template: pods("coredns", "registry.k8s.io/coredns/coredns:v1.11.1")}},
		&corev1.ConfigMap{ObjectMeta: named("coredns"), Data: map[string]string{"Corefile": corefile}},
	}
}

func TestAddons(t *testing.T) {
	tests := []struct {
		name       string
		want       Wanted
		behind     string
		proxy, dns string
	}{
		{"as they are", wanted("v1.35.4", nil), "", "registry.k8s.io/kube-proxy:v1.35.4", "registry.k8s.io/coredns/coredns:v1.11.1"},
		{"a version", wanted("v1.36.3", nil), "kube-proxy is registry.k8s.io/kube-proxy:v1.35.4, registry.k8s.io/kube-proxy:v1.36.3 wanted",
			"registry.k8s.io/kube-proxy:v1.36.3", "registry.k8s.io/coredns/coredns:v1.11.1"},
		{"a build", wanted("v1.36.3+vendor.1", nil),
			"kube-proxy is registry.k8s.io/kube-proxy:v1.35.4, registry.k8s.io/kube-proxy:v1.36.3_vendor.1 wanted",
			"registry.k8s.io/kube-proxy:v1.36.3_vendor.1", "registry.k8s.io/coredns/coredns:v1.11.1"},
		{"CoreDNS by its tag", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) { c.DNS.ImageTag = "v1.12.0" }),
			"coredns is registry.k8s.io/coredns/coredns:v1.11.1, registry.k8s.io/coredns/coredns:v1.12.0 wanted",
			"registry.k8s.io/kube-proxy:v1.35.4", "registry.k8s.io/coredns/coredns:v1.12.0"},
		{"registries with a port", wanted("v1.35.4", func(c *bootstrapv1.ClusterConfiguration) {
			c.ImageRepository, c.DNS.ImageRepository = "example.com:5000/k8s/", "example.com:5000/dns"
		}), "kube-proxy is registry.k8s.io/kube-proxy:v1.35.4, example.com:5000/k8s/kube-proxy:v1.35.4 wanted; coredns is " +
			"registry.k8s.io/coredns/coredns:v1.11.1, example.com:5000/dns/coredns:v1.11.1 wanted",
			"example.com:5000/k8s/kube-proxy:v1.35.4", "example.com:5000/dns/coredns:v1.11.1"},
		{"somebody else's", Wanted{Version: "v1.36.3", SkipProxy: true, SkipDNS: true,
			Configuration: bootstrapv1.ClusterConfiguration{DNS: bootstrapv1.DNS{ImageTag: "v1.12.0"}}},
			"", "registry.k8s.io/kube-proxy:v1.35.4", "registry.k8s.io/coredns/coredns:v1.11.1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := fake.NewClientset(cluster()...)
			behind, err := AddonsBehind(t.Context(), c, test.want)
			if err != nil || behind != test.behind {
				t.Fatalf("behind %q, %v, want %q", behind, err, test.behind)
			}
			if err := UpdateAddons(t.Context(), c, test.want); err != nil {
				t.Fatal(err)
			}
			set, err := c.AppsV1().DaemonSets("kube-system").Get(t.Context(), "kube-proxy", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			deployment, err := c.AppsV1().Deployments("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := set.Spec.Template.Spec.Containers; got[1].Image != test.proxy || got[0].Image != "other:1" {
				t.Errorf("kube-proxy has %v, want %s", got, test.proxy)
			}
			if got := deployment.Spec.Template.Spec.Containers[1].Image; got != test.dns {
				t.Errorf("CoreDNS has %s, want %s", got, test.dns)
			}
			if test.behind == "" && count(c, "update") > 0 {
				t.Error("something was written although nothing differs")
			}
		})
	}
	for _, chosen := range []string{
		"registry.k8s.io/kube-proxy@sha256:" + strings.Repeat("a", 64), "registry.k8s.io/kube-proxy:v1.35.4@sha256:" + strings.Repeat("a", 64),
		"registry.k8s.io/kube-proxy", "kube-proxy:v1.35.4",
	} {
		set := &appsv1.DaemonSet{ObjectMeta: named("kube-proxy"), Spec: appsv1.DaemonSetSpec{Template: pods("kube-proxy", chosen)}}
		if behind, err := AddonsBehind(t.Context(), fake.NewClientset(set), wanted("v1.36.3", nil)); behind != "" || err != nil {
			t.Errorf("an image that somebody chose otherwise, %s: %q, %v", chosen, behind, err)
		}
	}
	if behind, err := AddonsBehind(t.Context(), fake.NewClientset(),
		wanted("v1.36.3", func(c *bootstrapv1.ClusterConfiguration) { c.DNS.ImageTag = "v1.12.0" })); behind != "" || err != nil {
		t.Errorf("without add-ons: %q, %v", behind, err)
	}
	if err := UpdateAddons(t.Context(), fake.NewClientset(), wanted("v1.36.3", nil)); err != nil {
		t.Errorf("without add-ons: %v", err)
	}
}
