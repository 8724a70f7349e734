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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientfeatures "k8s.io/client-go/features"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

func TestContents(t *testing.T) {
	names := map[string]bool{}
	var all []string
	for _, p := range contents {
		if names[p.name] {
			t.Errorf("%s is listed twice", p.name)
		}
		names[p.name] = true
		all = append(all, p.name)
	}
	// What the role in config/rbac and the deployment in config/manager are made for.
	want := "KubeadmControlPlane,ControlPlane,EtcdCluster,EtcdadmCluster,EtcdadmConfig,backups,NodeUpgrade,MachineDeploymentUpgrade," +
		"Runtime Extension,webhooks"
	if strings.Join(all, ",") != want {
		t.Errorf("contents: %v", all)
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

func TestClusterSecrets(t *testing.T) {
	for name, kept := range map[string]bool{
		"demo-kubeconfig": true, "demo-ca": true, "demo-etcd": true, "demo-sa": true, "demo-proxy": true, "demo-control-plane-xyz": false,
		"password": false,
	} {
		out, err := clusterSecrets().Transform(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
			Data:       map[string][]byte{"key": []byte("value")},
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

// TestManagedFields: Quorate's own cache has managed fields of groups only, whose history is made of them; one that it shares with
// upstream's controllers has all.
func TestManagedFields(t *testing.T) {
	if transform := cacheOptions(Options{ManagedFields: true}).DefaultTransform; transform != nil {
		t.Error("the cache of upstream's controllers changes what it holds")
	}
	plain := &unstructured.Unstructured{Object: map[string]any{}}
	for object, want := range map[client.Object]int{
		&clusterv1.Machine{}: 0, &clusterv1.Cluster{}: 0, plain: 0,
		&controlplanev1.KubeadmControlPlane{}: 1, &controlplanev1alpha1.ControlPlane{}: 1, &etcdclusterv1.EtcdCluster{}: 1,
	} {
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody"}})
		out, err := cacheOptions(Options{}).DefaultTransform(object)
		if err != nil {
			t.Fatal(err)
		}
		if kept, is := out.(client.Object); !is || len(kept.GetManagedFields()) != want {
			t.Errorf("%T: %v, want %d managers", object, out, want)
		}
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
		if got, err := APIVersion(t.Context(), d, schema.GroupKind{Group: "example.com", Kind: kind}); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", kind, got, err, want)
		}
	}
	for kind, want := range map[string]string{"None": "cluster.x-k8s.io/v1beta2", "Missing": "Missing.example.com"} {
		if _, err := APIVersion(t.Context(), d, schema.GroupKind{Group: "example.com", Kind: kind}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", kind, err, want)
		}
	}
}

// TestListThenWatch: caches fill from lists.
func TestListThenWatch(t *testing.T) {
	if err := listThenWatch(); err != nil {
		t.Fatal(err)
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
	controlPlane := []string{"KubeadmControlPlane", "ControlPlane", "EtcdCluster", "EtcdadmCluster", "NodeUpgrade", "MachineDeploymentUpgrade",
		"backups"}
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
}
