package envtest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// TestRecoveries: what of an EtcdRecovery may be written, and what may change of it. One that gives up no machine, because none is left,
// can be written to as any other.
func TestRecoveries(t *testing.T) {
	needAssets(t)
	c := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true})
	const common = "clusterName: demo, storeRef: {name: host}"
	for name, test := range map[string]struct{ spec, after, refused string }{
		"no machines":                {common + ", backup: b", "", ""},
		"machines":                   {common + ", backup: b, giveUp: [a]", "", ""},
		"of a former cluster":        {common + ", backup: b, formerClusterUID: u-1", "", ""},
		"one more is off":            {common + ", survivor: Best, giveUp: [a]", common + ", survivor: Best, giveUp: [a], off: [a]", ""},
		"neither":                    {common, "", "exactly one of survivor and backup"},
		"both":                       {common + ", backup: b, survivor: Best", "", "exactly one of survivor and backup"},
		"a former survivor":          {common + ", survivor: Best, formerClusterUID: u", "", "formerClusterUID requires backup"},
		"a path":                     {common + ", backup: b, formerClusterUID: ../u", "", "formerClusterUID"},
		"machines come":              {common + ", backup: b", common + ", backup: b, giveUp: [a]", "only off and identitySecretRef"},
		"machines go":                {common + ", backup: b, giveUp: [a]", common + ", backup: b", "only off"},
		"another machine":            {common + ", backup: b, giveUp: [a]", common + ", backup: b, giveUp: [b]", "only off"},
		"another backup":             {common + ", backup: b", common + ", backup: c", "only off and identitySecretRef"},
		"another former cluster":     {common + ", backup: b, formerClusterUID: u", common + ", backup: b, formerClusterUID: v", "only off"},
		"no former cluster any more": {common + ", backup: b, formerClusterUID: u", common + ", backup: b", "only off"},
		"a former cluster now":       {common + ", backup: b", common + ", backup: b, formerClusterUID: u", "only off and identitySecretRef"},
	} {
		spec := func(text string) map[string]any {
			var of map[string]any
			if err := yaml.Unmarshal([]byte("{"+text+"}"), &of); err != nil {
				t.Fatal(err)
			}
			return of
		}
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec(test.spec)}}
		o.SetAPIVersion("backup.quorate.io/v1alpha1")
		o.SetKind("EtcdRecovery")
		o.SetNamespace("default")
		o.SetGenerateName("demo-")
		err := c.Create(t.Context(), o)
		if err == nil {
			after := o.DeepCopy()
			after.SetAnnotations(map[string]string{"a": "b"})
			if test.after != "" {
				after.Object["spec"] = spec(test.after)
			}
			err = c.Patch(t.Context(), after, client.MergeFrom(o))
		}
		if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: %v, want %q", name, err, test.refused)
		}
	}
}
