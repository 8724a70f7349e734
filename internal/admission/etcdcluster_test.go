package admission

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// TestEtcdCluster: what cannot be carried out is refused with its field, in an etcd cluster and in a template.
func TestEtcdCluster(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*etcdclusterv1alpha1.EtcdCluster)
		want   string
	}{
		{"good", func(*etcdclusterv1alpha1.EtcdCluster) {}, ""},
		{"endpoints", func(e *etcdclusterv1alpha1.EtcdCluster) { e.Spec.Endpoint = "etcd.example:2379" }, ""},
		{"address", func(e *etcdclusterv1alpha1.EtcdCluster) { e.Spec.Endpoint = "10.0.0.1" }, ""},
		{"IPv6", func(e *etcdclusterv1alpha1.EtcdCluster) { e.Spec.Endpoint = "[fd00::1]:2379" }, ""},
		{"URL", func(e *etcdclusterv1alpha1.EtcdCluster) { e.Spec.Endpoint = "https://etcd.example:2379" }, "spec.endpoint: Invalid value"},
		{"port", func(e *etcdclusterv1alpha1.EtcdCluster) { e.Spec.Endpoint = "etcd.example:0" },
			"spec.endpoint: Invalid value: \"etcd.example:0\": a port"},
		{"version", func(e *etcdclusterv1alpha1.EtcdCluster) { e.Spec.Version = "3.4.1" }, "spec.version: Invalid value"},
		{"flag", func(e *etcdclusterv1alpha1.EtcdCluster) {
			e.Spec.EtcdadmConfigSpec.EtcdadmArgs = map[string]string{"retry": "false"}
		}, "spec.etcdadmConfigSpec.etcdadmArgs[retry]: Forbidden"},
		{"version twice", func(e *etcdclusterv1alpha1.EtcdCluster) {
			e.Spec.EtcdadmConfigSpec.EtcdadmArgs = map[string]string{"version": "3.6.1"}
		}, "spec.etcdadmConfigSpec.etcdadmArgs[version]: Forbidden"},
		{"label", func(e *etcdclusterv1alpha1.EtcdCluster) {
			e.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"a b": "c"}
		}, "spec.machineTemplate.metadata.labels"},
		{"name", func(e *etcdclusterv1alpha1.EtcdCluster) { e.Name = "a.b" }, "metadata.name: Invalid value"},
	} {
		e := &etcdclusterv1alpha1.EtcdCluster{}
		e.Name = "demo-etcd"
		before := e.DeepCopy()
		test.change(e)
		v := &EtcdCluster{}
		_, err := v.ValidateCreate(t.Context(), e)
		check(t, test.name, err, test.want)
		if e.Name == before.Name {
			_, err = v.ValidateUpdate(t.Context(), before, e)
			check(t, test.name+" later", err, test.want)
		}
		if _, err := v.ValidateUpdate(t.Context(), e, e); err != nil {
			t.Errorf("%s, stored: %v", test.name, err)
		}
		template := &etcdclusterv1alpha1.EtcdClusterTemplate{}
		template.Spec.Template.Spec = e.Spec.CommonSpec
		if strings.HasPrefix(test.want, "spec.") && e.Spec.Endpoint == "" {
			_, err = (&EtcdClusterTemplate{}).ValidateCreate(t.Context(), template)
			check(t, test.name+" in a template", err, strings.Replace(test.want, "spec.", "spec.template.spec.", 1))
		}
	}
}

func check(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// TestEtcdClusterTemplateIsImmutable: but for its labels, and dry runs of the topology controller.
func TestEtcdClusterTemplateIsImmutable(t *testing.T) {
	before, after := &etcdclusterv1alpha1.EtcdClusterTemplate{}, &etcdclusterv1alpha1.EtcdClusterTemplate{}
	ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{}})
	v := &EtcdClusterTemplate{}
	after.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
	_, err := v.ValidateUpdate(ctx, before, after)
	check(t, "labels", err, "")
	after.Spec.Template.Spec.Version = "3.6.16"
	_, err = v.ValidateUpdate(ctx, before, after)
	check(t, "spec", err, "spec.template.spec: Forbidden: it is immutable")
	dry := true
	after.Annotations = map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
	ctx = admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{DryRun: &dry}})
	_, err = v.ValidateUpdate(ctx, before, after)
	check(t, "a dry run", err, "")
}
