package export

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/manifest"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/releases"
)

// recorded returns a recorded cluster without its control plane object, which is returned beside it.
func recorded(t *testing.T, name string) (client.Client, *controlplanev1.KubeadmControlPlane) {
	t.Helper()
	r, err := releases.Read(filepath.Join("../../../test/releases/2026-11-23", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	lost := &controlplanev1.KubeadmControlPlane{}
	objects := []client.Object{&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: "localmachines.infrastructure.cluster.x-k8s.io", Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1alpha1"},
	}}}
	for _, o := range r.Objects {
		if o.GetKind() != "KubeadmControlPlane" {
			objects = append(objects, o)
		} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, lost); err != nil {
			t.Fatal(err)
		}
	}
	scheme := manager.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), lost
}

// exported is what is written of the only cluster.
func exported(t *testing.T, c client.Client) (*controlplanev1.KubeadmControlPlane, []string) {
	t.Helper()
	var all clusterv1.ClusterList
	if err := c.List(context.Background(), &all); err != nil || len(all.Items) != 1 {
		t.Fatalf("%d clusters: %v", len(all.Items), err)
	}
	found, err := read(t.Context(), c, client.ObjectKeyFromObject(&all.Items[0]))
	if err != nil {
		t.Fatal(err)
	}
	return found.controlPlane(time.Now())
}

// TestLostSpec: of control planes that were recorded at rest the spec is found again, as far as machines show it, and no machine
// contradicts it.
func TestLostSpec(t *testing.T) {
	for _, name := range []string{"kubeadm-plain-1", "kubeadm-plain-3", "kubeadm-configured-1", "kubeadm-configured-3", "kubeadm-metadata-3",
		"kubeadm-policies-3", "e2e-etcd-versions-zulu-4"} {
		t.Run(name, func(t *testing.T) {
			c, lost := recorded(t, name)
			found, notes := exported(t, c)
			for _, note := range notes {
				if strings.Contains(note, "contradicts") {
					t.Error(note)
				}
			}
			if found.Name != lost.Name || *found.Spec.Replicas != *lost.Spec.Replicas || found.Spec.Version != lost.Spec.Version {
				t.Errorf("it is %s, %d of %s", found.Name, *found.Spec.Replicas, found.Spec.Version)
			}
			if got, want := found.Spec.ManagedExternalEtcdRef.Of(lost.Name), lost.Spec.ManagedExternalEtcdRef.Of(lost.Name); got.Kind != want.Kind {
				t.Errorf("etcd is kept by %v, want %v", got, want)
			}
			if template := found.Spec.MachineTemplate; template.ObjectMeta.Labels != nil && len(template.ObjectMeta.Labels) == 0 {
				t.Error("the API server refuses empty metadata")
			}
			template, want := found.Spec.MachineTemplate, lost.Spec.MachineTemplate
			if template.Spec.InfrastructureRef != want.Spec.InfrastructureRef || !equality.Semantic.DeepEqual(template.ObjectMeta,
				want.ObjectMeta) ||
				!equality.Semantic.DeepEqual(template.Spec.ReadinessGates, want.Spec.ReadinessGates) {
				t.Errorf("machineTemplate is %+v, want %+v", template, want)
			}
			config := lost.Spec.KubeadmConfigSpec
			if !equality.Semantic.DeepEqual(found.Spec.KubeadmConfigSpec.Files, config.Files) ||
				!equality.Semantic.DeepEqual(found.Spec.KubeadmConfigSpec.PreKubeadmCommands, config.PreKubeadmCommands) {
				t.Errorf("kubeadmConfigSpec is %+v, want %+v", found.Spec.KubeadmConfigSpec, config)
			}
		})
	}
}

// TestContradictions: the newest machine counts, and what another has otherwise is said; who is going counts last, and not at all as a
// replica.
func TestContradictions(t *testing.T) {
	c, lost := recorded(t, "kubeadm-plain-3")
	for name, change := range map[string]func(*clusterv1.Machine){
		"demo-cp-1": func(m *clusterv1.Machine) { m.Spec.Version = "v1.34.1" },
		"demo-cp-3": func(m *clusterv1.Machine) { m.Finalizers = append(m.Finalizers, "test/held") },
	} {
		m := &clusterv1.Machine{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: lost.Namespace, Name: name}, m); err != nil {
			t.Fatal(err)
		}
		change(m)
		if err := c.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if name == "demo-cp-3" {
			if err := c.Delete(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	found, notes := exported(t, c)
	text := strings.Join(notes, "\n")
	if want := "Machine demo-cp-1 contradicts spec.version: v1.34.1, wanted " + lost.Spec.Version; !strings.Contains(text, want) {
		t.Errorf("the notes do not say %q:\n%s", want, text)
	}
	if *found.Spec.Replicas != 2 || !strings.Contains(text, "demo-cp-3, the newest first") {
		t.Errorf("%d replicas; %s", *found.Spec.Replicas, text)
	}
}

// TestOtherBootstrap: who has another bootstrap than kubeadm's, or none that is known, is told.
func TestOtherBootstrap(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*clusterv1.Machine)
		want   string
	}{
		"another kind": {func(m *clusterv1.Machine) { m.Spec.Bootstrap.ConfigRef.Kind = "Other" }, "is Other demo-cp-1: must be a KubeadmConfig"},
		"gone":         {func(m *clusterv1.Machine) { m.Spec.Bootstrap.ConfigRef.Name = "gone" }, "its spec is not known"},
		"no machine": {func(m *clusterv1.Machine) { m.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"} },
			"its spec is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			c, lost := recorded(t, "kubeadm-plain-1")
			m := &clusterv1.Machine{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: lost.Namespace, Name: "demo-cp-1"}, m); err != nil {
				t.Fatal(err)
			}
			row.change(m)
			if err := c.Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if _, err := read(t.Context(), c, client.ObjectKey{Namespace: lost.Namespace, Name: m.Spec.ClusterName}); err == nil ||
				!strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want %q", err, row.want)
			}
		})
	}
}

// TestSecretsAreWithheld: tokens are left out, and what may be secret is neither in the manifest nor in its comments.
func TestSecretsAreWithheld(t *testing.T) {
	c, lost := recorded(t, "kubeadm-plain-1")
	config := &bootstrapv1.KubeadmConfig{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: lost.Namespace, Name: "demo-cp-1"}, config); err != nil {
		t.Fatal(err)
	}
	const key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBkg4LVWM9nuwNSk3yByxZpYRTBnVJk7oqFmE3kA2c4CoAoGCCqGSM49\n-----END EC PRIVATE " +
		"KEY-----\n"
	config.Spec.Files = append(config.Spec.Files, bootstrapv1.File{Path: "/etc/key", Content: key},
		bootstrapv1.File{Path: "/etc/motd", Content: "welcome"})
	config.Spec.Users = []bootstrapv1.User{{Name: "admin", Passwd: "plain"}}
	config.Spec.InitConfiguration.BootstrapTokens = []bootstrapv1.BootstrapToken{{Token: bootstrapv1.BootstrapTokenString{ID: "abcdef",
		Secret: "0123456789abcdef"}}}
	config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = "abcdef.0123456789abcdef"
	if err := c.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	kcp, notes := exported(t, c)
	object, err := manifest.Generic(manifest.Document{Object: kcp})
	if err != nil {
		t.Fatal(err)
	}
	notes = append(notes, withhold(object)...)
	var out bytes.Buffer
	if err := manifest.Write(&out, []manifest.Document{{About: strings.Join(notes, "\n"), Object: object}}); err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{"MHcCAQEE", "plain\n", "0123456789abcdef", "abcdef"} {
		if strings.Contains(out.String(), hidden) {
			t.Errorf("it has %q:\n%s", hidden, out.String())
		}
	}
	for _, said := range []string{"content may be secret", "users[0].passwd may be secret", "welcome", "fillIn: not shown"} {
		if !strings.Contains(out.String(), said) {
			t.Errorf("it does not have %q:\n%s", said, out.String())
		}
	}
	if _, is, _ := unstructured.NestedString(object.Object, "spec", "version"); !is {
		t.Error("it has no version")
	}
}
