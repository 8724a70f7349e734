package admission

import (
	"strings"
	"testing"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/bootstrap/v1beta1"
)

// TestEtcdadmConfig: what cannot be carried out is refused with its field, in a configuration and in a template; what is stored already
// stays changeable in all else.
func TestEtcdadmConfig(t *testing.T) {
	bad := bootstrapv1alpha1.EtcdadmConfigSpec{EtcdadmArgs: map[string]string{"certs-dir": "/x"}}
	config := func(spec bootstrapv1alpha1.EtcdadmConfigSpec) *bootstrapv1alpha1.EtcdadmConfig {
		return &bootstrapv1alpha1.EtcdadmConfig{Spec: spec}
	}
	template := func(spec bootstrapv1alpha1.EtcdadmConfigSpec) *bootstrapv1alpha1.EtcdadmConfigTemplate {
		var t bootstrapv1alpha1.EtcdadmConfigTemplate
		t.Spec.Template.Spec = spec
		return &t
	}
	none := bootstrapv1alpha1.EtcdadmConfigSpec{}
	v, vt := &EtcdadmConfig{}, &EtcdadmConfigTemplate{}
	for name, test := range map[string]struct {
		err  func() error
		want string
	}{
		"create": {func() error { _, err := v.ValidateCreate(t.Context(), config(bad)); return err },
			"spec.etcdadmArgs[certs-dir]: Forbidden"},
		"good":   {func() error { _, err := v.ValidateCreate(t.Context(), config(none)); return err }, ""},
		"update": {func() error { _, err := v.ValidateUpdate(t.Context(), config(none), config(bad)); return err }, "certs-dir"},
		"stored": {func() error { _, err := v.ValidateUpdate(t.Context(), config(bad), config(bad)); return err }, ""},
		"template": {func() error { _, err := vt.ValidateCreate(t.Context(), template(bad)); return err },
			"spec.template.spec.etcdadmArgs[certs-dir]: Forbidden"},
		"template updated": {func() error { _, err := vt.ValidateUpdate(t.Context(), template(none), template(bad)); return err }, "certs-dir"},
		"template stored":  {func() error { _, err := vt.ValidateUpdate(t.Context(), template(bad), template(bad)); return err }, ""},
	} {
		err := test.err()
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestKeptFields: what only v1beta1 has fields for, and Quorate cannot carry out, is refused with its reason, whichever version it was
// written in. What is stored already stays changeable in all else.
func TestKeptFields(t *testing.T) {
	config := func(kept string) *bootstrapv1alpha1.EtcdadmConfig {
		c := &bootstrapv1alpha1.EtcdadmConfig{}
		if kept != "" {
			c.Annotations = map[string]string{v1beta1.KeptAnnotation: kept}
		}
		return c
	}
	v := &EtcdadmConfig{}
	for kept, refusal := range map[string]string{
		"":                          "",
		`{"etcdadmBuiltin":true}`:   "",
		`{"format":"bottlerocket"}`: "spec.format: Forbidden: Quorate makes etcd machines with cloud-init",
		`{"bottlerocketConfig":{"bootstrapImage":"a","pauseImage":"b"}}`: "spec.bottlerocketConfig: Forbidden: Quorate makes etcd machines " +
			"with cloud-init",
		`{"registryMirror":{"endpoint":"a"}}`:       "spec.registryMirror: Forbidden",
		`{"cipherSuites":"a"}`:                      "spec.cipherSuites: Forbidden",
		`{"certBundles":[{"name":"a","data":"b"}]}`: "spec.certBundles: Forbidden",
		`{`: "metadata.annotations[bootstrap.cluster.x-k8s.io/v1beta1-fields]: Forbidden",
	} {
		_, err := v.ValidateCreate(t.Context(), config(kept))
		want(t, "created with "+kept, err, refusal)
		_, err = v.ValidateUpdate(t.Context(), config(""), config(kept))
		want(t, "updated to "+kept, err, refusal)
		after := config(kept)
		after.Spec.Version = "3.6.16"
		_, err = v.ValidateUpdate(t.Context(), config(kept), after)
		want(t, "stored with "+kept, err, "")
	}
}
