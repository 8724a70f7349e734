package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/internal/upgrade/updates"
)

// apart is the namespace of a cluster with etcd on machines of its own; all others are in namespace default.
const apart = "apart"

// create creates an object, and then writes its status, if it has one.
func (c *cluster) create(t *testing.T, o client.Object) {
	t.Helper()
	with := o.DeepCopyObject().(client.Object)
	if err := c.client.Create(t.Context(), o); err != nil {
		t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
	with.SetResourceVersion(o.GetResourceVersion())
	with.SetUID(o.GetUID())
	if err := c.client.Status().Update(t.Context(), with); client.IgnoreNotFound(err) != nil {
		t.Fatalf("writing the status of %T %s: %v", o, o.GetName(), err)
	}
}

// change reads an object, changes it and writes it.
func change[T client.Object](t *testing.T, c *cluster, o T, how func(T)) {
	t.Helper()
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	how(o)
	with := o.DeepCopyObject().(client.Object)
	if err := c.client.Update(t.Context(), o); err != nil {
		t.Fatalf("changing %T %s: %v", o, o.GetName(), err)
	}
	with.SetResourceVersion(o.GetResourceVersion())
	if err := c.client.Status().Update(t.Context(), with); client.IgnoreNotFound(err) != nil {
		t.Fatalf("writing the status of %T %s: %v", o, o.GetName(), err)
	}
}

// example applies one of the examples in a namespace.
func (c *cluster) example(t *testing.T, file, namespace string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(sources, "examples", file))
	if err != nil {
		t.Fatal(err)
	}
	all, err := utilyaml.ToUnstructured(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].SetNamespace(namespace)
		if err := c.client.Create(t.Context(), &all[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// owned is metadata of an object that belongs to another one.
func owned(name string, owner client.Object, kind string, labels map[string]string) metav1.ObjectMeta {
	group := map[string]metav1.GroupVersion{
		"Cluster": metav1.GroupVersion(clusterv1.GroupVersion), "MachineDeployment": metav1.GroupVersion(clusterv1.GroupVersion),
		"MachineSet": metav1.GroupVersion(clusterv1.GroupVersion), "Machine": metav1.GroupVersion(clusterv1.GroupVersion),
		"KubeadmConfig": {Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2"},
	}
	ref := metav1.OwnerReference{APIVersion: group[kind].String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(),
		Controller: ptr.To(kind != "Cluster")}
	return metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{ref}}
}

// adopt does what Cluster API's core does with what Clusters refer to, and what MachineDeployments are made from: it makes the Cluster
// their owner, and says that the infrastructure is there.
func (c *cluster) adopt(t *testing.T) {
	t.Helper()
	var clusters clusterv1.ClusterList
	if err := c.client.List(t.Context(), &clusters); err != nil {
		t.Fatal(err)
	}
	for i := range clusters.Items {
		found := &clusters.Items[i]
		for kind, name := range map[string]string{
			found.Spec.ControlPlaneRef.Kind: found.Spec.ControlPlaneRef.Name, "LocalCluster": found.Name,
			"MachineDeployment": found.Name + "-workers", "KubeadmConfigTemplate": found.Name + "-workers", "LocalMachineTemplate": found.Name +
				"-workers",
		} {
			o := &unstructured.Unstructured{}
			o.SetKind(kind)
			o.SetAPIVersion(map[string]string{
				"KubeadmControlPlane": controlplanev1.GroupVersion.String(), "ControlPlane": controlplanev1alpha1.GroupVersion.String(),
				"MachineDeployment": clusterv1.GroupVersion.String(), "KubeadmConfigTemplate": "bootstrap.cluster.x-k8s.io/v1beta2",
			}[kind])
			if o.GetAPIVersion() == "" {
				o.SetAPIVersion(infrav1.GroupVersion.String())
			}
			o.SetNamespace(found.Namespace)
			o.SetName(name)
			err := c.client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if err != nil {
				continue
			}
			o.SetOwnerReferences(owned(name, found, "Cluster", nil).OwnerReferences)
			if err := c.client.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		change(t, c, found, func(found *clusterv1.Cluster) {
			found.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
			found.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		})
	}
}

// workers makes a MachineDeployment's MachineSet and Machine of an older version, as Cluster API's core does, and the MachineDeployment one
// that is updated in place.
func (c *cluster) workers(t *testing.T) {
	t.Helper()
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "small-workers"}}
	change(t, c, md, func(md *clusterv1.MachineDeployment) {
		metav1.SetMetaDataAnnotation(&md.ObjectMeta, upgradev1.PolicyAnnotation, "Preferred")
		md.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{Type: clusterv1.OnDeleteMachineDeploymentStrategyType}
	})
	template := md.Spec.Template.DeepCopy()
	template.Spec.Version = "v1.35.4"
	set := &clusterv1.MachineSet{ObjectMeta: owned("small-workers-1", md, "MachineDeployment", md.Spec.Template.Labels)}
	set.Spec = clusterv1.MachineSetSpec{ClusterName: "small", Replicas: ptr.To(int32(1)), Selector: md.Spec.Selector, Template: *template}
	c.create(t, set)
	m := &clusterv1.Machine{ObjectMeta: owned("small-worker-1", set, "MachineSet", maps.Clone(md.Spec.Template.Labels)),
		Spec: *template.Spec.DeepCopy()}
	m.Labels[clusterv1.MachineDeploymentNameLabel] = md.Name
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig",
		Name: m.Name}
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachine",
		Name: m.Name}
	c.create(t, m)
	config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"format": "cloud-config"}}}
	config.SetAPIVersion("bootstrap.cluster.x-k8s.io/v1beta2")
	config.SetKind("KubeadmConfig")
	config.SetNamespace(m.Namespace)
	config.SetName(m.Name)
	config.SetOwnerReferences(owned(m.Name, m, "Machine", nil).OwnerReferences)
	c.create(t, config)
	c.create(t, &infrav1.LocalMachine{ObjectMeta: owned(m.Name, m, "Machine", nil)})
	// A person's upgrade of that machine: Quorate makes the Machine its owner.
	c.create(t, &upgradev1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "by-a-person"},
		Spec: upgradev1.NodeUpgradeSpec{
			Machine: upgradev1.MachineReference{Name: m.Name}, KubernetesVersion: "v1.36.3", NodeType: upgradev1.Worker,
		},
	})
}

// manage runs Quorate's own controllers until something is so.
func (c *cluster) manage(t *testing.T, what string, is func(context.Context) bool) {
	t.Helper()
	mgr, err := manager.New(c.cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}, manager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Setup(t.Context(), mgr, manager.Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	eventually(t, what, is)
}

// made reports whether Quorate has made what it can make without machines that run.
func (c *cluster) made(ctx context.Context) bool {
	var machines clusterv1.MachineList
	var configMaps corev1.ConfigMapList
	var upgrades upgradev1.MachineDeploymentUpgradeList
	var person upgradev1.NodeUpgrade
	for _, list := range []client.ObjectList{&machines, &configMaps, &upgrades} {
		if c.client.List(ctx, list) != nil {
			return false
		}
	}
	histories := 0
	for _, m := range configMaps.Items {
		if _, is := m.Data["history.json"]; is {
			histories++
		}
	}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "by-a-person"}, &person)
	return err == nil && len(person.OwnerReferences) > 0 && len(machines.Items) >= 4 && histories >= 3 && len(upgrades.Items) == 1
}

// finish has all machines be there, as bootstrap and infrastructure providers and Cluster API's core do; but for those of etcd, which have
// no Nodes.
func (c *cluster) finish(t *testing.T) {
	t.Helper()
	var machines clusterv1.MachineList
	if err := c.client.List(t.Context(), &machines); err != nil {
		t.Fatal(err)
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		bootstrap := &unstructured.Unstructured{}
		bootstrap.SetGroupVersionKind(m.Spec.Bootstrap.ConfigRef.GroupKind().WithVersion(map[string]string{"KubeadmConfig": "v1beta2",
			"EtcdadmConfig": "v1alpha1"}[m.Spec.Bootstrap.ConfigRef.Kind]))
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Bootstrap.ConfigRef.Name},
			bootstrap); err != nil {
			t.Fatal(err)
		}
		data := &corev1.Secret{ObjectMeta: owned(m.Name, bootstrap, "KubeadmConfig",
			map[string]string{clusterv1.ClusterNameLabel: m.Spec.ClusterName}), Type: clusterv1.ClusterSecretType}
		data.Data = map[string][]byte{"value": []byte("#cloud-config")}
		data.OwnerReferences[0].APIVersion, data.OwnerReferences[0].Kind = bootstrap.GetAPIVersion(), bootstrap.GetKind()
		if err := c.client.Create(t.Context(), data); err != nil {
			t.Logf("the data of %s are there already: %v", m.Name, err)
		}
		change(t, c, m, func(m *clusterv1.Machine) {
			m.Spec.Bootstrap.DataSecretName = &data.Name
			m.Spec.ProviderID = "local://" + m.Name
			if bootstrap.GetKind() == "KubeadmConfig" {
				m.Status.NodeRef = clusterv1.MachineNodeReference{Name: m.Name}
			}
		})
	}
	var clusters clusterv1.ClusterList
	if err := c.client.List(t.Context(), &clusters); err != nil {
		t.Fatal(err)
	}
	for i := range clusters.Items {
		change(t, c, &clusters.Items[i], func(found *clusterv1.Cluster) {
			found.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
			conditions.Set(found, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue,
				Reason: clusterv1.ClusterControlPlaneInitializedReason})
		})
	}
}

// updating is an update in place that is under way: one node was upgraded to a version before and that is recorded, and is now upgraded to
// the next one. What is made for it is made by the code that Quorate makes it by.
func (c *cluster) updating(t *testing.T) {
	t.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "small-cp"}}
	change(t, c, kcp, func(kcp *controlplanev1.KubeadmControlPlane) {
		for k, v := range map[string]string{
			controlplanev1.InitializedAnnotation: "true", controlplanev1.ApprovedAnnotation: "0123456789ab",
			controlplanev1.ReplacementsAnnotation:   "small-cp-1=2026-11-23T04:05:06Z",
			controlplanev1.ReplaceAnnotation:        "small-cp-1=2026-11-23T04:05:06Z",
			controlplanev1.EtcdRequestsAnnotation:   "defragment=2026-11-23T04:05:06Z",
			controlplanev1.BackupIdentityAnnotation: "u1",
			controlplanev1.BackupRequiredAnnotation: "2026-11-23T04:05:06Z",
			controlplanev1.BackupVerifiedAnnotation: "store=BackupStore/host,uid=u1,name=20261123t040507z-x7k2p,taken=2026-11-23T04:05:07Z",
		} {
			metav1.SetMetaDataAnnotation(&kcp.ObjectMeta, k, v)
		}
		kcp.Spec.Approval = controlplanev1.ApprovalSpec{Policy: controlplanev1.ApprovalRequired, MaxReplacementsPerDay: ptr.To(int32(3))}
		kcp.Spec.Backup = &controlplanev1.BackupSpec{
			StoreRef: controlplanev1.BackupStoreReference{Name: "host"}, Schedule: "@daily",
			Before:       []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion},
			MaxAgeBefore: &metav1.Duration{Duration: 20 * time.Minute},
		}
	})
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "small-cp-1"}}
	for _, version := range []string{"v1.36.2", "v1.36.3"} {
		g := updates.Group{
			Namespace: "default", Name: kcp.Name, Cluster: "small", Goal: drift.Goal{Version: version},
			Ref: clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane",
				Name: kcp.Name},
			Owner: *metav1.NewControllerRef(kcp, controlplanev1.GroupVersion.WithKind("KubeadmControlPlane")),
		}
		parent := g.ControlPlaneUpgrade([]string{m.Name})
		c.create(t, parent)
		u := g.NodeUpgrade(parent, m.Name, true)
		if version == "v1.36.2" {
			metav1.SetMetaDataAnnotation(&u.ObjectMeta, upgradev1.RecordedAnnotation, time.Now().UTC().Format(time.RFC3339))
			u.Status.Completed = ptr.To(true)
		} else {
			u.Finalizers = []string{upgradev1.Finalizer}
			u.Status.Attempts = ptr.To(int32(1))
			conditions.Set(u, metav1.Condition{Type: upgradev1.Progressing, Status: metav1.ConditionTrue, Reason: upgradev1.Running})
			change(t, c, m, func(m *clusterv1.Machine) {
				metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, "")
				metav1.SetMetaDataAnnotation(&m.ObjectMeta, upgradev1.MachineHeldAnnotation, u.Name)
			})
		}
		c.create(t, u)
	}
	c.create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "quorate-upgrader-images",
			Labels: map[string]string{"clusterctl.cluster.x-k8s.io/move": ""}},
		Data: map[string]string{"v1.36.3": "registry.example.com/upgrader:v1.36.3"},
	})
}

// fill brings a management cluster to a state with all kinds of Quorate's, as its own controllers make them.
func (c *cluster) fill(t *testing.T) {
	t.Helper()
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: apart}})
	for _, file := range []string{"with-workers.yaml", "control-plane-of-machines.yaml"} {
		c.example(t, file, "default")
	}
	c.example(t, "etcd-on-machines-of-its-own.yaml", apart)
	c.adopt(t)
	c.workers(t)
	c.manage(t, "what Quorate makes", c.made)
	c.finish(t)
	c.updating(t)
}
