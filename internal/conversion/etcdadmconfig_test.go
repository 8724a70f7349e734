package conversion

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"
	kubeadmv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	data "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/randfill"

	"github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/bootstrap/v1beta1"
)

// fillEtcdadm fills an object as a client can write it: enumerations have their values, and what JSON leaves out is not there.
func fillEtcdadm(object any) {
	data.GetFuzzer(runtime.NewScheme(), fuzzer.FuzzerFuncs(func(serializer.CodecFactory) []any {
		return []any{
			func(f *v1alpha1.Format, c randfill.Continue) {
				*f = []v1alpha1.Format{"", v1alpha1.CloudConfig, v1alpha1.Ignition}[c.Intn(3)]
			},
			func(f *v1beta1.Format, c randfill.Continue) {
				*f = []v1beta1.Format{"", v1beta1.CloudConfig, v1beta1.Bottlerocket}[c.Intn(3)]
			},
			func(u *kubeadmv1beta1.User, c randfill.Continue) {
				c.FillNoCustom(u)
				for _, text := range []**string{&u.Gecos, &u.Groups, &u.HomeDir, &u.Shell, &u.Passwd, &u.PrimaryGroup, &u.Sudo} {
					if ptr.Deref(*text, "") == "" {
						*text = nil
					}
				}
				if ptr.Deref(u.PasswdFrom, kubeadmv1beta1.PasswdSource{}) == (kubeadmv1beta1.PasswdSource{}) {
					u.PasswdFrom = nil
				}
			},
			func(f *kubeadmv1beta1.File, c randfill.Continue) {
				c.FillNoCustom(f)
				if ptr.Deref(f.ContentFrom, kubeadmv1beta1.FileSource{}) == (kubeadmv1beta1.FileSource{}) {
					f.ContentFrom = nil
				}
			},
			func(s *v1beta1.EtcdadmConfigSpec, c randfill.Continue) {
				c.FillNoCustom(s)
				if ptr.Deref(s.CloudInitConfig, v1beta1.CloudInitConfig{}) == (v1beta1.CloudInitConfig{}) {
					s.CloudInitConfig = nil
				}
				if p := s.Proxy; p != nil && p.HTTPProxy == "" && p.HTTPSProxy == "" && len(p.NoProxy) == 0 {
					s.Proxy = nil
				}
				if n := s.NTP; n != nil && n.Enabled == nil && len(n.Servers) == 0 {
					s.NTP = nil
				}
			},
		}
	})).Fill(object)
}

// stored is an object as it comes out of a store.
func stored[T any](t *testing.T, object *T) *T {
	t.Helper()
	text, err := json.Marshal(object)
	succeed(t, err)
	read := new(T)
	succeed(t, json.Unmarshal(text, read))
	return read
}

// Of an EtcdadmConfig that goes to v1beta1 and back nothing is lost.
func TestEtcdadmConfigThereAndBack(t *testing.T) {
	for range rounds {
		var filled, end v1alpha1.EtcdadmConfig
		var old v1beta1.EtcdadmConfig
		fillEtcdadm(&filled)
		start := stored(t, &filled)
		before := start.DeepCopy()
		succeed(t, etcdadmConfigToOld(t.Context(), start, &old))
		same(t, "what is converted", start, before)
		between := stored(t, &old)
		succeed(t, etcdadmConfigFromOld(t.Context(), between.DeepCopy(), &end))
		same(t, "there and back", stored(t, &end), before)
	}
}

// Of one that was written in v1beta1 nothing is lost but the conditions, which are observed again.
func TestOldEtcdadmConfig(t *testing.T) {
	for range rounds {
		var filled, end v1beta1.EtcdadmConfig
		var now v1alpha1.EtcdadmConfig
		fillEtcdadm(&filled)
		filled.Status.Conditions = nil
		if ptr.Deref(filled.Status.DataSecretName, "") == "" {
			filled.Status.DataSecretName = nil
		}
		start := stored(t, &filled)
		before := start.DeepCopy()
		succeed(t, etcdadmConfigFromOld(t.Context(), start, &now))
		same(t, "what is converted", start, before)
		succeed(t, etcdadmConfigToOld(t.Context(), stored(t, &now), &end))
		delete(end.Annotations, v1beta1.NewerAnnotation) // of a false that is not written out
		same(t, "there and back", stored(t, &end), before)
	}
}

// What a person changes in v1beta1 counts, and what v1beta1 has no field for stays.
func TestEditOldEtcdadmConfig(t *testing.T) {
	now := &v1alpha1.EtcdadmConfig{Spec: v1alpha1.EtcdadmConfigSpec{
		Version: "3.6.16", EtcdadmArgs: map[string]string{"install-dir": "/opt/a", "log-level": "debug"},
	}}
	now.Status.Conditions = []metav1.Condition{{Type: "DataSecretAvailable", Status: metav1.ConditionFalse, Reason: "WaitingForFirstMember"}}
	old, end := &v1beta1.EtcdadmConfig{}, &v1alpha1.EtcdadmConfig{}
	succeed(t, etcdadmConfigToOld(t.Context(), now, old))
	if c := old.Status.Conditions; len(c) != 1 || c[0].Reason != "WaitingForFirstMember" || c[0].Severity != "Info" {
		t.Errorf("conditions in v1beta1 are %+v", c)
	}
	old.Spec.CloudInitConfig.Version, old.Spec.CloudInitConfig.InstallDir = "3.6.17", "/opt/b"
	succeed(t, etcdadmConfigFromOld(t.Context(), old, end))
	same(t, "version", end.Spec.Version, "3.6.17")
	same(t, "flags", end.Spec.EtcdadmArgs, map[string]string{"install-dir": "/opt/b", "log-level": "debug"})
	same(t, "conditions", end.Status.Conditions, now.Status.Conditions)
}

// A manifest of the other provider, and what becomes of it.
func TestManifestOfOld(t *testing.T) {
	old := &v1beta1.EtcdadmConfig{}
	succeed(t, json.Unmarshal([]byte(`{
		"metadata": {"name": "a", "annotations": {"x": "y"}},
		"spec": {
			"etcdadmBuiltin": true, "etcdadmInstallCommands": ["no"], "format": "cloud-config", "cipherSuites": "TLS_A",
			"preEtcdadmCommands": ["one"], "cloudInitConfig": {"version": "v3.5.26", "etcdReleaseURL": "https://a", "installDir": "/usr/bin"},
			"proxy": {"httpsProxy": "https://p"}, "files": [{"path": "/a", "content": "b"}], "users": [{"name": "u", "sudo": "ALL"}]
		},
		"status": {"ready": true, "dataSecretName": "a"}}`), old))
	now := &v1alpha1.EtcdadmConfig{}
	succeed(t, etcdadmConfigFromOld(t.Context(), old, now))
	want := &v1alpha1.EtcdadmConfig{}
	succeed(t, json.Unmarshal([]byte(`{
		"metadata": {"name": "a", "annotations": {
			"x": "y", "bootstrap.cluster.x-k8s.io/v1beta1-fields": "{\"etcdadmBuiltin\":true,\"etcdadmInstallCommands\":[\"no\"],\"cipherSuites\":\"TLS_A\"}"}},
		"spec": {
			"format": "cloud-config", "version": "v3.5.26", "releaseURL": "https://a", "etcdadmArgs": {"install-dir": "/usr/bin"},
			"preEtcdadmCommands": ["one"], "proxy": {"httpsProxy": "https://p"}, "files": [{"path": "/a", "content": "b"}], "users": [{"name": "u", "sudo": "ALL"}]
		},
		"status": {"ready": true, "dataSecretName": "a", "initialization": {"dataSecretCreated": true}}}`), want))
	same(t, "a manifest in v1alpha1", now, want)
}

// An annotation that somebody broke is an error that names it, not a loss.
func TestBrokenFields(t *testing.T) {
	now := &v1alpha1.EtcdadmConfig{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta1.KeptAnnotation: "{"}}}
	if err := etcdadmConfigToOld(t.Context(), now, &v1beta1.EtcdadmConfig{}); err == nil ||
		!strings.Contains(err.Error(), v1beta1.KeptAnnotation) {
		t.Errorf("a broken annotation of v1alpha1: %v", err)
	}
	old := &v1beta1.EtcdadmConfig{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta1.NewerAnnotation: "[]"}}}
	if err := etcdadmConfigFromOld(t.Context(), old, &v1alpha1.EtcdadmConfig{}); err == nil ||
		!strings.Contains(err.Error(), v1beta1.NewerAnnotation) {
		t.Errorf("a broken annotation of v1beta1: %v", err)
	}
}
