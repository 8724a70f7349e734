package stacked

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// alone are machines that somebody made without a control plane: the first by init, the others by join.
var alone = []string{"demo-b4m9t", "demo-x7k2p", "demo-zz6cv"}

// standing makes what a machine without a control plane consists of. The Cluster is an
// owner of its Machine, as Cluster API has it.
func standing(name string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now()}
	m := &clusterv1.Machine{ObjectMeta: *meta.DeepCopy()}
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachineControlPlaneLabel: ""}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo",
		UID: "cluster-uid"}}
	m.Finalizers = []string{clusterv1.MachineFinalizer}
	m.Spec.ClusterName, m.Spec.Version = "demo", "v1.36.3"
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachine",
		Name: name}
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig",
		Name: name + "-config"}
	m.Status.NodeRef.Name = name
	owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: m.UID,
		Controller: ptr.To(true)}
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: *meta.DeepCopy()}
	config.Name, config.UID, config.OwnerReferences = name+"-config", meta.UID+"-config", []metav1.OwnerReference{owner}
	config.Status.DataSecretName = name + "-config"
	if name == alone[0] {
		config.Spec.ClusterConfiguration.EncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmECDSAP256
	} else {
		config.Spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
	}
	infra := &infrav1.LocalMachine{ObjectMeta: *meta.DeepCopy()}
	infra.OwnerReferences = []metav1.OwnerReference{owner}
	data := &corev1.Secret{ObjectMeta: *meta.DeepCopy(), Type: clusterv1.ClusterSecretType}
	data.Name, data.OwnerReferences = config.Name, []metav1.OwnerReference{configRef(config)}
	return []client.Object{m, config, infra, data}
}

func configRef(config *bootstrapv1.KubeadmConfig) metav1.OwnerReference {
	return *metav1.NewControllerRef(config, bootstrapv1.GroupVersion.WithKind("KubeadmConfig"))
}

// forsaken returns a world with a cluster of machines that nobody controls, the secrets
// that were made for it, one that its user gave, and a new control plane.
func forsaken(t *testing.T, change func(*controlplanev1.KubeadmControlPlane, map[string]*clusterv1.Machine)) *world {
	t.Helper()
	kcp, machines := testKCP(3), map[string]*clusterv1.Machine{}
	objects := []client.Object{testCluster(), kcp}
	for _, name := range alone {
		parts := standing(name)
		machines[name] = parts[0].(*clusterv1.Machine)
		objects = append(objects, parts...)
	}
	if change != nil {
		change(kcp, machines)
	}
	w := newWorld(t, objects...)
	first := &bootstrapv1.KubeadmConfig{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: alone[0] + "-config"}, first); err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Generate(context.Background(), w.client, testCluster(), &kcp.Spec.KubeadmConfigSpec.ClusterConfiguration, authorities,
		configRef(first)); err != nil {
		t.Fatal(err)
	}
	if err := kubeconfig.CreateSecret(context.Background(), w.client, testCluster()); err != nil {
		t.Fatal(err)
	}
	users := w.secret("demo-proxy")
	users.OwnerReferences, users.Type = nil, corev1.SecretTypeTLS
	if err := w.client.Update(context.Background(), users); err != nil {
		t.Fatal(err)
	}
	w.init = true
	for _, name := range alone {
		w.appear(name)
	}
	return w
}

func (w *world) secret(name string) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// owners lists the owners of an object, its controller with a star.
func owners(o client.Object) string {
	var list []string
	for _, ref := range o.GetOwnerReferences() {
		text := ref.Kind + "/" + ref.Name
		if ptr.Deref(ref.Controller, false) {
			text += "*"
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// adopted checks that all that belongs to the machines is the control plane's, and nothing else was made or changed.
func (w *world) adopted(data map[string]map[string][]byte) {
	w.t.Helper()
	if got := w.machineNames(); !slices.Equal(got, alone) {
		w.t.Fatalf("machines are %v, want %v", got, alone)
	}
	want := map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachineControlPlaneLabel: "",
		clusterv1.MachineControlPlaneNameLabel: "demo-cp"}
	for _, m := range w.machines() {
		if owners(&m) != "Cluster/demo KubeadmControlPlane/demo-cp*" || !maps.Equal(m.Labels, want) || !machine.HasHook(&m) {
			w.t.Errorf("%s is owned by %s, has %v, %v", m.Name, owners(&m), m.Labels, m.Annotations)
		}
		config := &bootstrapv1.KubeadmConfig{}
		if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: m.Name + "-config"}, config); err != nil {
			w.t.Fatal(err)
		}
		if owners(config) != "Machine/"+m.Name+"*" || !maps.Equal(config.Labels, want) {
			w.t.Errorf("%s is owned by %s, has %v", config.Name, owners(config), config.Labels)
		}
		if got := owners(w.secret(config.Name)); got != "KubeadmConfig/"+config.Name+"*" {
			w.t.Errorf("the bootstrap data of %s are owned by %s", m.Name, got)
		}
	}
	for name, owner := range map[string]string{
		"demo-ca": "KubeadmControlPlane/demo-cp*", "demo-etcd": "KubeadmControlPlane/demo-cp*", "demo-sa": "KubeadmControlPlane/demo-cp*",
		"demo-proxy": "", "demo-kubeconfig": "Cluster/demo KubeadmControlPlane/demo-cp*",
	} {
		s := w.secret(name)
		if owners(s) != owner {
			w.t.Errorf("secret %s is owned by %q, want %q", name, owners(s), owner)
		}
		if !reflect.DeepEqual(s.Data, data[name]) {
			w.t.Errorf("the data of secret %s were changed", name)
		}
	}
}

// data are those of all secrets.
func (w *world) data() map[string]map[string][]byte {
	list := &corev1.SecretList{}
	if err := w.client.List(context.Background(), list); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]map[string][]byte{}
	for _, s := range list.Items {
		all[s.Name] = s.Data
	}
	return all
}

// TestAdoption: three machines that nobody controls, with their configurations and secrets.
func TestAdoption(t *testing.T) {
	w := forsaken(t, nil)
	data := w.data()
	if p := w.settle(); p.Step != string(plan.Nothing) {
		t.Fatalf("it ends with %+v", p)
	}
	w.adopted(data)
	if !ptr.Deref(w.kcp().Status.Initialization.ControlPlaneInitialized, false) || ptr.Deref(w.kcp().Status.Replicas, 0) != 3 {
		t.Errorf("status is %+v", w.kcp().Status)
	}
	heard := strings.Join(w.heard(), "\n")
	for _, name := range alone {
		if !strings.Contains(heard, "Normal Adopting Adopt "+name+": "+name+" has the labels") {
			t.Errorf("no event of the adoption of %s in\n%s", name, heard)
		}
	}
	if !w.scene().Facts.Group.Initialized {
		t.Error("nothing was seen of the cluster, although it is known to be initialised")
	}
	if got := w.scene().Kubeconfig; got.Foreign || got.Expires.IsZero() {
		t.Errorf("the kubeconfig is %+v: nobody will renew it", got)
	}
	// Names at random say nothing of the numbers of those to come.
	w.scale(5)
	w.settle()
	if got, want := w.machineNames(), slices.Sorted(slices.Values(append(slices.Clone(alone), "demo-cp-1", "demo-cp-2"))); !slices.Equal(got,
		want) {
		t.Errorf("machines are %v, want %v", got, want)
	}
	if got := w.kcp().Annotations[controlplanev1.LastMachineAnnotation]; got != "2" {
		t.Errorf("the last number is %q", got)
	}
}

// TestAdoptionAfterCrash ends the process after each write of the adoptions.
func TestAdoptionAfterCrash(t *testing.T) {
	dead := errors.New("the process is dead")
	for writes := range 11 {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			w := forsaken(t, nil)
			data := w.data()
			left := writes
			w.intercept(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
				options ...client.PatchOption) error {
				if left--; left < 0 {
					return dead
				}
				return c.Patch(ctx, o, p, options...)
			}})
			var err error
			for range 10 {
				if _, err = w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey}); err != nil {
					break
				}
			}
			if writes < 10 && !errors.Is(err, dead) { // 4 secrets, 3 configurations, 3 Machines
				t.Fatalf("the crash: %v", err)
			}
			w.use(w.client)
			if p := w.settle(); p.Step != string(plan.Nothing) {
				t.Fatalf("it ends with %+v", p)
			}
			w.adopted(data)
		})
	}
}

// TestAdoptionRefused: while one of three cannot be adopted, none is, and nothing is made or written.
func TestAdoptionRefused(t *testing.T) {
	for _, test := range []struct {
		name, says string
		change     func(*controlplanev1.KubeadmControlPlane, *clusterv1.Machine)
	}{
		{"controlled by another", "it is controlled by Other other", func(_ *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) {
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "a/v1", Kind: "Other", Name: "other", UID: "u",
				Controller: ptr.To(true)})
		}},
		{"controlled by an earlier control plane of that name",
			"it is controlled by KubeadmControlPlane demo-cp, which is another than today's (UID old)",
			func(_ *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) {
				m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: controlplanev1.GroupVersion.String(), Kind: kind,
					Name: "demo-cp", UID: "old", Controller: ptr.To(true)})
			}},
		{"being deleted, and controlled by another", "it is controlled by Other other",
			func(_ *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) {
				m.DeletionTimestamp = ptr.To(metav1.Now())
				m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "a/v1", Kind: "Other", Name: "other", UID: "u",
					Controller: ptr.To(true)})
			}},
		{"too old", "its version is v1.34.9, more than one minor version from v1.36.3",
			func(_ *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) {
				m.Spec.Version = "v1.34.9"
			}},
		{"another kind of configuration", "its bootstrap configuration is OtherConfig x of bootstrap.cluster.x-k8s.io, no KubeadmConfig of " +
			"bootstrap.cluster.x-k8s.io", func(_ *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) {
			m.Spec.Bootstrap.ConfigRef.Kind, m.Spec.Bootstrap.ConfigRef.Name = "OtherConfig", "x"
		}},
		{"another group's KubeadmConfig", "its bootstrap configuration is KubeadmConfig demo-x7k2p-config of example.com, no KubeadmConfig of " +
			"bootstrap.cluster.x-k8s.io", func(_ *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) {
			m.Spec.Bootstrap.ConfigRef.APIGroup = "example.com"
		}},
		{"no configuration", "it refers to no KubeadmConfig", func(_ *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) {
			m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: ptr.To("given")}
		}},
		{"a configuration that is gone", "its KubeadmConfig gone does not exist",
			func(_ *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) {
				m.Spec.Bootstrap.ConfigRef.Name = "gone"
			}},
		{"another cluster's", `it belongs to cluster "other" by its spec, and to "demo" by its label`,
			func(_ *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) {
				m.Spec.ClusterName = "other"
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := forsaken(t, func(kcp *controlplanev1.KubeadmControlPlane, machines map[string]*clusterv1.Machine) {
				test.change(kcp, machines[alone[1]])
			})
			before := w.versions()
			w.turn()
			p := w.settle()
			if p.Step != string(plan.Wait) || p.Reason != "CannotAdopt" || !strings.Contains(p.Message, alone[1]+": "+test.says) ||
				!strings.Contains(p.Message, alone[0]+", "+alone[2]+" could be, and wait") {
				t.Errorf("it ends with %+v", p)
			}
			if after := w.versions(); !maps.Equal(before, after) {
				t.Errorf("something was written: %v before, %v after", before, after)
			}
			if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "CannotAdopt") || !strings.Contains(heard, test.says) {
				t.Errorf("events are %s", heard)
			}
		})
	}
}

// versions are the resource versions of all that an adoption could touch.
func (w *world) versions() map[string]string {
	all := map[string]string{}
	for _, list := range []client.ObjectList{&clusterv1.MachineList{}, &bootstrapv1.KubeadmConfigList{}, &infrav1.LocalMachineList{},
		&corev1.SecretList{}} {
		if err := w.client.List(context.Background(), list); err != nil {
			w.t.Fatal(err)
		}
		text, _ := json.Marshal(list)
		items := struct {
			Items []struct{ Metadata metav1.ObjectMeta }
		}{}
		if err := json.Unmarshal(text, &items); err != nil {
			w.t.Fatal(err)
		}
		for _, item := range items.Items {
			all[fmt.Sprintf("%T %s", list, item.Metadata.Name)] = item.Metadata.ResourceVersion
		}
	}
	return all
}

// TestNoAdoptionWhilePausedOrDeleted: a control plane that is held, or goes, adopts nobody.
func TestNoAdoptionWhilePausedOrDeleted(t *testing.T) {
	w := forsaken(t, func(kcp *controlplanev1.KubeadmControlPlane, _ map[string]*clusterv1.Machine) {
		kcp.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	before := w.versions()
	if p := w.settle(); p.Reason != "Paused" || !maps.Equal(before, w.versions()) {
		t.Errorf("paused: %+v", p)
	}
	w = forsaken(t, nil)
	before = w.versions()
	if err := w.client.Delete(context.Background(), w.kcp()); err != nil {
		t.Fatal(err)
	}
	if w.settle(); w.kcp() != nil || !maps.Equal(before, w.versions()) {
		t.Error("deleted: the control plane is still there, or something was written")
	}
}

// TestNoAdoptionOnOldFacts: the control plane was deleted, and the cache does not know it yet.
func TestNoAdoptionOnOldFacts(t *testing.T) {
	w := forsaken(t, nil)
	s, before := w.scene(), w.versions()
	if err := w.client.Delete(context.Background(), w.kcp()); err != nil {
		t.Fatal(err)
	}
	step := plan.Step{Verb: plan.Adopt, Machine: alone[0]}
	if err := s.Do(context.Background(), step); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want a conflict", err)
	}
	if !maps.Equal(before, w.versions()) {
		t.Error("something was written")
	}
	// Another has the name of the control plane that was read.
	w = forsaken(t, nil)
	s = w.scene()
	of(s.View).UID = "earlier"
	if err := s.Do(context.Background(), step); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want a conflict", err)
	}
	if err := s.Do(context.Background(), plan.Step{Verb: plan.Adopt, Machine: "nobody"}); err == nil || apierrors.IsConflict(err) {
		t.Errorf("error is %v for a Machine that is not there", err)
	}
	// Somebody else took it meanwhile.
	w = forsaken(t, nil)
	s = w.scene()
	taken := w.machine(alone[0])
	taken.OwnerReferences = append(taken.OwnerReferences, metav1.OwnerReference{APIVersion: "a/v1", Kind: "Other", Name: "other", UID: "u",
		Controller: ptr.To(true)})
	if err := w.client.Update(context.Background(), taken); err != nil {
		t.Fatal(err)
	}
	if err := s.Do(context.Background(), step); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want a conflict", err)
	}
}

// TestAdoptionSeen: no decision is made before the cache shows the adoption.
func TestAdoptionSeen(t *testing.T) {
	w := forsaken(t, nil)
	m := w.r.Memories.Of(kcpKey)
	s := w.scene()
	if err := s.Do(context.Background(), plan.Step{Verb: plan.Adopt, Machine: alone[0]}); err != nil {
		t.Fatal(err)
	}
	unseen := func(machines ...*clusterv1.Machine) bool {
		wait, err := m.Writes.Unseen(context.Background(), w.r.APIReader, w.kcp(), machines, time.Now())
		return err != nil || wait > 0
	}
	if !unseen(s.Others...) {
		t.Error("the Machine as it was before the adoption will do")
	}
	if unseen(w.machine(alone[0])) {
		t.Error("the Machine as it is after the adoption will not do")
	}
	list, err := observe.ListMachines(context.Background(), w.client, of(s.View), "demo", nil)
	if err != nil || len(list.Ours) != 1 || len(list.Others) != 2 {
		t.Errorf("ours %d, strangers %d, %v", len(list.Ours), len(list.Others), err)
	}
	w.intercept(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList,
		options ...client.ListOption) error {
		err := c.List(ctx, l, options...)
		if machines, ok := l.(*clusterv1.MachineList); ok {
			for i := range machines.Items {
				if machines.Items[i].Name == alone[0] {
					machines.Items[i] = *s.Others[0]
				}
			}
		}
		return err
	}})
	w.r.Memories.Of(kcpKey).Writes.ExpectMachine(w.machine(alone[0]))
	if _, wait, err := w.r.Observe(context.Background(), w.kcp(), testCluster()); err != nil || wait == 0 {
		t.Errorf("a cache that does not show the adoption is believed: wait %v, %v", wait, err)
	}
}

// TestAdoptionBeforeTheClusterAnswers: what was adopted is no beginning, and nothing of it is given up.
func TestAdoptionBeforeTheClusterAnswers(t *testing.T) {
	w := forsaken(t, func(_ *controlplanev1.KubeadmControlPlane, machines map[string]*clusterv1.Machine) {
		machines[alone[1]].Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
		machines[alone[2]].Status.NodeRef = clusterv1.MachineNodeReference{}
		machines[alone[2]].Spec.Version = "v1.35.4"
		machines[alone[2]].CreationTimestamp = longAgo
	})
	w.view.Reachable, w.view.Why = false, "connection refused"
	if p := w.settle(); p.Reason != "Unreachable" || !strings.Contains(p.Message, "connection refused") {
		t.Errorf("it ends with %+v", p)
	}
	if o := w.scene().Facts; len(o.Machines) != 3 || slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return m.Deleting }) ||
		o.Group.New {
		t.Errorf("observed %+v", o)
	}
	// A machine that goes meanwhile is held until its member is known, and let go then.
	if err := w.client.Delete(context.Background(), w.machine(alone[1])); err != nil {
		t.Fatal(err)
	}
	w.terminate(alone[1])
	w.settle()
	if !machine.HasHook(w.machine(alone[1])) {
		t.Fatal("its hook was released before anything was known of its member")
	}
	w.view.Reachable, w.view.Why = true, ""
	w.forgetEtcd()
	w.settle()
	if machine.HasHook(w.machine(alone[1])) || len(w.members) != 2 {
		t.Errorf("%+v, members %v", w.kcp().Status.Plan, w.members)
	}
}

// TestAdoptedAndAllDeleted: a cluster that others made is seen, and kept, also when all its machines go.
func TestAdoptedAndAllDeleted(t *testing.T) {
	w := forsaken(t, nil)
	w.view.Reachable = false
	w.settle()
	for _, name := range alone {
		if err := w.client.Delete(context.Background(), w.machine(name)); err != nil {
			t.Fatal(err)
		}
		w.terminate(name)
	}
	w.view.Reachable = true
	w.forgetEtcd()
	w.settle()
	if len(w.members) != 1 || !ptr.Deref(w.kcp().Status.Initialization.ControlPlaneInitialized, false) {
		t.Errorf("%+v, members %v", w.kcp().Status.Plan, w.members)
	}
}

// TestAdoptionAsksNobody: what cannot be read of the cluster does not hold it up.
func TestAdoptionAsksNobody(t *testing.T) {
	w := forsaken(t, func(kcp *controlplanev1.KubeadmControlPlane, _ map[string]*clusterv1.Machine) {
		kcp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	})
	w.failBehind = errors.New("the API server is busy")
	for i := range w.members {
		w.members[i].Health = plan.Unhealthy
	}
	for range alone {
		w.turn()
	}
	for _, m := range w.machines() {
		if !metav1.IsControlledBy(&m, w.kcp()) {
			t.Errorf("%s is owned by %s", m.Name, owners(&m))
		}
	}
}

// TestAdoptionIsFinished: what holds all else up does not leave half of it.
func TestAdoptionIsFinished(t *testing.T) {
	w := forsaken(t, func(kcp *controlplanev1.KubeadmControlPlane, machines map[string]*clusterv1.Machine) {
		kcp.Spec.Version = "v1.35.4"
	})
	if p := w.settle(); p.Reason != "InvalidVersionChange" {
		t.Errorf("it ends with %+v", p)
	}
	for _, m := range w.machines() {
		if !metav1.IsControlledBy(&m, w.kcp()) {
			t.Errorf("%s is owned by %s", m.Name, owners(&m))
		}
	}
}

// TestAdoptedAfterCorrection: as soon as nothing contradicts it any more, it goes on.
func TestAdoptedAfterCorrection(t *testing.T) {
	w := forsaken(t, func(_ *controlplanev1.KubeadmControlPlane, machines map[string]*clusterv1.Machine) {
		machines[alone[2]].Spec.ClusterName = "other"
	})
	data := w.data()
	w.settle()
	if got := w.turn().RequeueAfter; got != observe.SoonMissing {
		t.Errorf("looks again after %v", got)
	}
	m := w.machine(alone[2])
	m.Spec.ClusterName = "demo"
	if err := w.client.Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	if p := w.settle(); p.Step != string(plan.Nothing) {
		t.Fatalf("it ends with %+v", p)
	}
	w.adopted(data)
}

func TestTooFar(t *testing.T) {
	for _, test := range []struct{ want, has, says string }{
		{"v1.36.3", "", ""},
		{"v1.36.3", "1.36.0", ""},
		{"v1.36.3", "v1.35.0", ""},
		{"v1.36.3", "v1.37.9", ""},
		{"v1.36.3", "v1.34.0", "its version is v1.34.0, more than one minor version from v1.36.3"},
		{"v1.36.3", "v1.38.0", "its version is v1.38.0, more than one minor version from v1.36.3"},
		{"v1.36.3", "v2.36.3", "its version is v2.36.3, more than one minor version from v1.36.3"},
		{"v1.36.3", "latest", `version "latest" is not one like v1.36.3`},
		{"latest", "v1.36.3", `spec.version of its control plane is none: version "latest" is not one like v1.36.3`},
	} {
		if got := machine.TooFar(test.want, test.has); got != test.says {
			t.Errorf("%s to %s: %q, want %q", test.has, test.want, got, test.says)
		}
	}
}

// TestWorkersStayWorkers: a machine that joined as a worker is not adopted, whatever labels somebody gave it.
func TestWorkersStayWorkers(t *testing.T) {
	w := forsaken(t, func(*controlplanev1.KubeadmControlPlane, map[string]*clusterv1.Machine) {})
	config := &bootstrapv1.KubeadmConfig{}
	if err := w.client.Get(context.Background(),
		client.ObjectKey{Namespace: "default", Name: w.machine(alone[1]).Spec.Bootstrap.ConfigRef.Name}, config); err != nil {
		t.Fatal(err)
	}
	config.Spec.JoinConfiguration = bootstrapv1.JoinConfiguration{}
	config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = "aaaaaa.0123456789abcdef"
	if err := w.client.Update(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	w.turn()
	if p := w.settle(); p.Reason != "CannotAdopt" || !strings.Contains(p.Message, alone[1]+": it joined as a worker") {
		t.Errorf("it ends with %+v", p)
	}
}
