package manager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/local"
)

func TestContents(t *testing.T) {
	names := map[string]bool{}
	var own []string
	for _, p := range contents {
		if names[p.name] {
			t.Errorf("%s is listed twice", p.name)
		}
		names[p.name] = true
		if p.runs == everywhere {
			own = append(own, p.name)
		}
	}
	// What the role in config/rbac and the deployment in config/manager are made for.
	if strings.Join(own, ",") != "KubeadmControlPlane,ControlPlane,EtcdCluster,EtcdadmConfig,NodeUpgrade,MachineDeploymentUpgrade,Runtime Extension,webhooks" {
		t.Errorf("runs everywhere: %v", own)
	}
}

func TestSchemeHasOurControlPlane(t *testing.T) {
	obj, err := Scheme().New(controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := obj.(*controlplanev1.KubeadmControlPlane); !ok {
		t.Errorf("KubeadmControlPlane is %T", obj)
	}
}

func TestConnectable(t *testing.T) {
	yes, no := true, false
	condition := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: status}}
	}
	for _, c := range []struct {
		name       string
		field      *bool
		conditions []metav1.Condition
		want       bool
	}{
		{name: "new"},
		{name: "not yet", field: &no, conditions: condition(metav1.ConditionFalse)},
		{name: "the field only", field: &yes, conditions: condition(metav1.ConditionFalse)},
		{name: "the condition only", conditions: condition(metav1.ConditionTrue)},
		{name: "both", field: &yes, conditions: condition(metav1.ConditionTrue), want: true},
	} {
		cluster := &clusterv1.Cluster{Status: clusterv1.ClusterStatus{Conditions: c.conditions}}
		cluster.Status.Initialization.ControlPlaneInitialized = c.field
		if got := connectable(cluster); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestClusterSecrets(t *testing.T) {
	for name, kept := range map[string]bool{
		"demo-kubeconfig": true, "demo-ca": true, "demo-etcd": true, "demo-sa": true, "demo-proxy": true, "demo-control-plane-xyz": false, "password": false,
	} {
		out, err := clusterSecrets().Transform(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{}}}, Data: map[string][]byte{"key": []byte("value")},
		})
		if err != nil {
			t.Fatal(err)
		}
		s, ok := out.(*corev1.Secret)
		if !ok {
			t.Fatalf("a secret became %T", out)
		}
		if got := len(s.Data) > 0; got != kept || s.ManagedFields != nil {
			t.Errorf("%s: contents kept %t, want %t; managed fields %v", name, got, kept, s.ManagedFields)
		}
	}
	selector := clusterSecrets().Label
	if selector.Matches(labels.Set{}) || !selector.Matches(labels.Set{clusterv1.ClusterNameLabel: "demo"}) {
		t.Errorf("selector %s", selector)
	}
}

// definitions is a reader of CRDs with these labels.
type definitions struct {
	client.Reader
	labels map[string]map[string]string
}

func (d definitions) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	l, ok := d.labels[key.Name]
	if !ok || obj.GetObjectKind().GroupVersionKind() != apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition") {
		return errors.New("not found")
	}
	obj.SetLabels(l)
	return nil
}

func TestAPIVersion(t *testing.T) {
	d := definitions{labels: map[string]map[string]string{
		"news.example.com":   {"cluster.x-k8s.io/v1beta1": "v1alpha3", "cluster.x-k8s.io/v1beta2": "v1alpha4"},
		"olds.example.com":   {"cluster.x-k8s.io/v1beta1": "v1alpha3_v1beta1_v1alpha4"},
		"manies.example.com": {"cluster.x-k8s.io/v1beta2": "v2_v10_v9beta1"},
		"nones.example.com":  {"other": "v1"},
	}}
	for kind, want := range map[string]string{"New": "example.com/v1alpha4", "Old": "example.com/v1beta1", "Many": "example.com/v10"} {
		if got, err := apiVersion(t.Context(), d, schema.GroupKind{Group: "example.com", Kind: kind}); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", kind, got, err, want)
		}
	}
	for kind, want := range map[string]string{"None": "cluster.x-k8s.io/v1beta2", "Missing": "Missing.example.com"} {
		if _, err := apiVersion(t.Context(), d, schema.GroupKind{Group: "example.com", Kind: kind}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", kind, err, want)
		}
	}
}

func TestFeatures(t *testing.T) {
	if err := listThenWatch(); err != nil {
		t.Fatal(err)
	}
	for _, extensions := range []bool{true, false} {
		if err := setGates(extensions); err != nil {
			t.Fatal(err)
		}
		for gate, want := range map[featuregate.Feature]bool{
			feature.ClusterTopology: true, feature.MachinePool: false, feature.ReconcilerRateLimiting: false,
			feature.RuntimeSDK: extensions, feature.InPlaceUpdates: extensions,
		} {
			if got := feature.Gates.Enabled(gate); got != want {
				t.Errorf("%s: %t, want %t", gate, got, want)
			}
		}
	}
	if clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient) {
		t.Error("caches fill from watches")
	}
}

// TestProviders: each of Quorate's own controllers belongs to one provider, and runs only where that does.
func TestProviders(t *testing.T) {
	of := func(o Options) []string {
		var names []string
		for _, p := range contents {
			if o.runs(p) {
				names = append(names, p.name)
			}
		}
		return names
	}
	served := []string{"Runtime Extension", "webhooks"}
	controlPlane := []string{"KubeadmControlPlane", "ControlPlane", "EtcdCluster", "NodeUpgrade", "MachineDeploymentUpgrade"}
	for _, c := range []struct {
		providers []string
		want      []string
	}{
		{nil, slices.Concat(controlPlane, []string{"EtcdadmConfig"}, served)},
		{Providers, slices.Concat(controlPlane, []string{"EtcdadmConfig"}, served)},
		{[]string{ControlPlaneProvider}, slices.Concat(controlPlane, served)},
		{[]string{BootstrapProvider}, slices.Concat([]string{"EtcdadmConfig"}, served)},
		{[]string{}, served},
	} {
		got := of(Options{Providers: c.providers})
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q run, want %q", c.providers, got, c.want)
		}
	}
	if all := of(Options{Embedded: &Embedded{}, Local: &local.Options{}}); len(all) != len(contents) {
		t.Errorf("on a single host only %q run", all)
	}
	if all := of(Options{Embedded: &Embedded{}}); len(all) != len(contents)-1 || slices.Contains(all, "LocalCluster and LocalMachine") {
		t.Errorf("without machines %q run", all)
	}
	if all := of(Options{Local: &local.Options{}, Providers: []string{}}); !slices.Equal(all, append([]string{"LocalCluster and LocalMachine"}, served...)) {
		t.Errorf("for machines alone %q run", all)
	}
}
