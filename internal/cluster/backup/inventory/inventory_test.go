package inventory

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/backup"
)

const (
	namespace = "team"
	infra     = "infrastructure.cluster.x-k8s.io"
)

var use = Use{Namespace: namespace, MarkKey: "mark", Mark: "m", Store: controlplanev1.BackupStoreReference{Name: "new"}}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

// definition is that of a kind of Cluster API's contract.
func definition(kind string) client.Object {
	group := infra
	if strings.HasPrefix(kind, "Kubeadm") {
		group = bootstrapv1.GroupVersion.Group
	}
	plural := strings.ToLower(kind) + "s"
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: plural + "." + group, Labels: map[string]string{clusterv1.GroupVersion.Group + "/v1beta2": "v1beta2"},
	}}
}

func infrastructure(kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"host": name}, "status": map[string]any{"ready": true},
	}}
	o.SetAPIVersion(infra + "/v1beta2")
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID("old")
	o.SetFinalizers([]string{"old"})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Cluster", Name: "demo", UID: "old"}})
	return o
}

func ref(kind, name string) clusterv1.ContractVersionedObjectReference {
	group := infra
	if strings.HasPrefix(kind, "Kubeadm") {
		group = bootstrapv1.GroupVersion.Group
	}
	return clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: name}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "old", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}
}

// whole is a cluster with all that belongs to one.
type whole struct {
	cluster *clusterv1.Cluster
	kcp     *controlplanev1.KubeadmControlPlane
	md      *clusterv1.MachineDeployment
	config  *bootstrapv1.KubeadmConfigTemplate
	others  []client.Object
	secrets map[string]map[string][]byte
}

func newWhole() *whole {
	w := &whole{
		cluster: &clusterv1.Cluster{ObjectMeta: meta("demo")},
		kcp:     &controlplanev1.KubeadmControlPlane{ObjectMeta: meta("demo-cp")},
		md:      &clusterv1.MachineDeployment{ObjectMeta: meta("demo-workers")},
		config:  &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: meta("demo-workers")},
		secrets: map[string]map[string][]byte{
			"encryption": {".config": []byte("e")}, "workers": {"a": []byte("w")}, "others": {"a": []byte("o")},
		},
	}
	for _, name := range []string{"demo-ca", "demo-etcd", "demo-proxy", "demo-sa"} {
		w.secrets[name] = map[string][]byte{"tls.crt": []byte("c" + name), "tls.key": []byte("k" + name)}
	}
	w.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "demo-cp",
	}
	w.cluster.Spec.InfrastructureRef = ref("HostCluster", "demo")
	w.kcp.Annotations = map[string]string{
		controlplanev1.LastMachineAnnotation: "7", controlplanev1.InitializingAnnotation: "old",
		controlplanev1.BackupIdentityAnnotation: "old",
		controlplanev1.BackupVerifiedAnnotation: "x", controlplanev1.ApprovedAnnotation: "x", "example.com/team": "a",
		"controlplane.cluster.x-k8s.io/remediation-in-progress": "{}",
	}
	w.kcp.Spec.MachineTemplate.Spec.InfrastructureRef = ref("HostMachineTemplate", "demo-cp")
	w.kcp.Spec.Backup = &controlplanev1.BackupSpec{Schedule: "@daily"}
	w.kcp.Spec.Backup.StoreRef.Name = "old"
	w.kcp.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/etc/e", ContentFrom: bootstrapv1.FileSource{
		Secret: bootstrapv1.SecretFileSource{Name: "encryption", Key: ".config"},
	}}}
	w.md.Spec.Template.Spec.Bootstrap.ConfigRef = ref("KubeadmConfigTemplate", "demo-workers")
	w.md.Spec.Template.Spec.InfrastructureRef = ref("HostMachineTemplate", "demo-workers")
	w.config.Spec.Template.Spec.Users = []bootstrapv1.User{{Name: "a", PasswdFrom: bootstrapv1.PasswdSource{
		Secret: bootstrapv1.SecretPasswdSource{Name: "workers", Key: "a"},
	}}}
	for _, o := range []*unstructured.Unstructured{
		infrastructure("HostCluster", "demo"), infrastructure("HostMachineTemplate", "demo-cp"),
		infrastructure("HostMachineTemplate", "demo-workers"),
	} {
		w.others = append(w.others, o)
	}
	w.others = append(w.others, &clusterv1.MachineHealthCheck{ObjectMeta: meta("demo-check")})
	return w
}

// files are those of an archive of it.
func (w *whole) files(t *testing.T) map[string][]byte {
	t.Helper()
	all := append([]client.Object{
		w.cluster, w.kcp, w.md, w.config, definition("HostCluster"), definition("HostMachineTemplate"), definition("KubeadmConfigTemplate"),
	}, w.others...)
	c := fake.NewClientBuilder().WithScheme(scheme()).WithObjects(all...).Build()
	g, err := Gather(t.Context(), c, w.cluster, w.kcp, controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"))
	if err != nil {
		t.Fatal(err)
	}
	hasWorkers := g.Files["objects/KubeadmConfigTemplate/demo-workers.json"] != nil
	if !slices.Equal(g.Secrets, []string{"encryption"}) || slices.Equal(g.Others, []string{"workers"}) != hasWorkers {
		t.Errorf("secrets %v, those of workers %v", g.Secrets, g.Others)
	}
	for name, data := range w.secrets {
		maps.Copy(g.Files, SecretFiles(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}))
	}
	for name := range g.Files {
		if !backup.IsFile(name) {
			t.Errorf("%s cannot be in an archive", name)
		}
	}
	return g.Files
}

// TestMadeAgain: what an archive holds of a cluster is made again in the order in which it is needed, by nothing of the old management
// cluster but what it wants, and with the Cluster paused and the control plane recorded as initialised.
func TestMadeAgain(t *testing.T) {
	i, err := Read(newWhole().files(t))
	if err != nil {
		t.Fatal(err)
	}
	top := i.Top(use)
	named := top.Namespace == namespace && top.Name == "demo" && top.UID == ""
	if !named || !ptr.Deref(top.Spec.Paused, false) || top.Annotations["mark"] != "m" {
		t.Errorf("%+v", top)
	}
	top.UID = "new"
	var names []string
	for _, o := range i.Objects(use, top) {
		kind := o.GetObjectKind().GroupVersionKind().Kind
		if kcp, is := o.(*controlplanev1.KubeadmControlPlane); is {
			kind = "KubeadmControlPlane"
			checkControlPlane(t, kcp)
		}
		names = append(names, kind+" "+o.GetName())
		if o.GetUID() != "" || len(o.GetFinalizers()) > 0 || o.GetAnnotations()["mark"] != "m" || o.GetNamespace() != namespace {
			t.Errorf("%s: %v", names, o)
		}
		for _, owner := range o.GetOwnerReferences() {
			if owner.UID != "new" || !ptr.Deref(owner.Controller, false) {
				t.Errorf("%s is owned by %+v", names, owner)
			}
		}
		if u, is := o.(*unstructured.Unstructured); is && u.Object["status"] != nil {
			t.Errorf("%s has its old status", names)
		}
	}
	want := []string{
		"HostCluster demo", "HostMachineTemplate demo-cp", "KubeadmControlPlane demo-cp", "KubeadmConfigTemplate demo-workers",
		"HostMachineTemplate demo-workers", "MachineDeployment demo-workers", "MachineHealthCheck demo-check",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	checkSecrets(t, i)
}

func checkControlPlane(t *testing.T, kcp *controlplanev1.KubeadmControlPlane) {
	t.Helper()
	want := map[string]string{
		controlplanev1.LastMachineAnnotation: "7", controlplanev1.InitializedAnnotation: "true", "example.com/team": "a", "mark": "m",
	}
	if !maps.Equal(kcp.Annotations, want) {
		t.Errorf("annotations %v, want %v", kcp.Annotations, want)
	}
	if kcp.Spec.Backup.StoreRef.Name != "new" || kcp.Spec.Backup.Schedule != "@daily" {
		t.Errorf("%+v", kcp.Spec.Backup)
	}
}

func checkSecrets(t *testing.T, i *Inventory) {
	t.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "demo-cp", UID: "new-cp"}}
	made := map[string]*corev1.Secret{}
	for _, s := range i.Secrets(use, kcp) {
		made[s.Name] = s
	}
	if len(made) != 6 || made["others"] != nil {
		t.Errorf("%d secrets", len(made))
	}
	ca, encryption := made["demo-ca"], made["encryption"]
	if string(ca.Data["tls.key"]) != "kdemo-ca" || ca.Type != clusterv1.ClusterSecretType || !metav1.IsControlledBy(ca, kcp) {
		t.Errorf("%+v", ca.ObjectMeta)
	}
	if string(encryption.Data[".config"]) != "e" || len(encryption.OwnerReferences) > 0 || encryption.Namespace != namespace {
		t.Errorf("%+v", encryption)
	}
}

// TestRefused: what cannot be made again is refused with what is missing, before anything is made.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*whole)
		files  func(map[string][]byte)
		says   string
	}{
		"an older archive": {nil, func(f map[string][]byte) {
			for name := range f {
				if strings.HasPrefix(name, objectsFolder) {
					delete(f, name)
				}
			}
			f["objects/Cluster.json"] = []byte(`{"metadata":{"name":"demo"}}`)
		}, "it holds 0 objects of kind Cluster: it was taken by a version of Quorate that stored no such object"},
		"no infrastructure": {nil, func(f map[string][]byte) { delete(f, "objects/HostCluster/demo.json") },
			"it holds no HostCluster demo, which Cluster demo names"},
		"no template": {nil, func(f map[string][]byte) { delete(f, "objects/HostMachineTemplate/demo-cp.json") },
			"it holds no HostMachineTemplate demo-cp, which KubeadmControlPlane demo-cp names"},
		"no template of workers": {nil, func(f map[string][]byte) { delete(f, "objects/KubeadmConfigTemplate/demo-workers.json") },
			"which MachineDeployment demo-workers names"},
		"no key": {nil, func(f map[string][]byte) { delete(f, "secrets/demo-sa/tls.key") }, "it holds no tls.key of secret demo-sa"},
		"no secret of a file": {nil, func(f map[string][]byte) { delete(f, "secrets/encryption/_.config") },
			"it holds nothing of secret encryption, which KubeadmControlPlane demo-cp names"},
		"of a class": {func(w *whole) { w.cluster.Spec.Topology.ClassRef.Name = "class" }, nil, "spec.topology of Cluster demo is set"},
		"another kind": {func(w *whole) { w.cluster.Spec.ControlPlaneRef.Kind = "ControlPlane" }, nil,
			"is ControlPlane demo-cp: its machines have bootstrap data of another provider"},
		"external etcd": {func(w *whole) {
			w.kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://a:2379"}
		}, nil, "does not run on its machines"},
		"ignition": {func(w *whole) { w.kcp.Spec.KubeadmConfigSpec.Format = bootstrapv1.Ignition }, nil, "format is ignition"},
		"a kind that no field may name": {nil, func(f map[string][]byte) {
			rename(t, f, "objects/Cluster/demo.json", func(o map[string]any) {
				of := map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRoleBinding", "name": "all"}
				o["spec"].(map[string]any)["infrastructureRef"] = of
			})
		}, "cannot be referenced"},
	} {
		w := newWhole()
		if test.change != nil {
			test.change(w)
		}
		files := w.files(t)
		if test.files != nil {
			test.files(files)
		}
		if _, err := Read(files); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

// rename changes an object in an archive.
func rename(t *testing.T, files map[string][]byte, name string, change func(map[string]any)) {
	t.Helper()
	o := map[string]any{}
	if err := json.Unmarshal(files[name], &o); err != nil {
		t.Fatal(err)
	}
	change(o)
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	files[name] = data
}

// TestGatherLeavesOut: what is not there or too much keeps no backup from being taken.
func TestGatherLeavesOut(t *testing.T) {
	w := newWhole()
	w.others = w.others[3:]
	w.md.Annotations = map[string]string{"large": strings.Repeat("x", mostObjects)}
	files := w.files(t)
	for _, name := range []string{"objects/MachineDeployment/demo-workers.json", "objects/HostCluster/demo.json"} {
		if _, is := files[name]; is {
			t.Errorf("%s is there", name)
		}
	}
	if len(files["objects/MachineHealthCheck/demo-check.json"]) == 0 || len(files["objects/KubeadmControlPlane/demo-cp.json"]) == 0 {
		t.Errorf("files %v", slices.Sorted(maps.Keys(files)))
	}
}
