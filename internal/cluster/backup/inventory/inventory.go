package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// Inventory is what an archive holds of a cluster that can be made again from it.
type Inventory struct {
	// Cluster is the Cluster, and ControlPlane its control plane, as they were.
	Cluster      *clusterv1.Cluster
	ControlPlane *controlplanev1.KubeadmControlPlane
	// before are the objects that the control plane needs, and workers those of workers, each after those that it names.
	before, workers []*unstructured.Unstructured
	secrets         map[string]map[string][]byte
}

// Read returns what the files of an archive hold. The error says why no cluster can be made from them.
func Read(files map[string][]byte) (*Inventory, error) {
	held, err := heldBy(files)
	if err != nil {
		return nil, err
	}
	i := &Inventory{Cluster: &clusterv1.Cluster{}, ControlPlane: &controlplanev1.KubeadmControlPlane{}, secrets: secretsOf(files)}
	if err := held.only("Cluster", clusterv1.GroupVersion.Group, i.Cluster); err != nil {
		return nil, err
	}
	if i.Cluster.Spec.Topology.IsDefined() {
		return nil, fmt.Errorf("spec.topology of Cluster %s is set: a cluster of a ClusterClass cannot be restored elsewhere", i.Cluster.Name)
	}
	if why := kubeadm.Unrecoverable(i.Cluster); why != "" {
		return nil, errors.New(why)
	}
	ref := i.Cluster.Spec.ControlPlaneRef
	if err := held.only(ref.Kind, ref.APIGroup, i.ControlPlane); err != nil {
		return nil, err
	}
	if why := kubeadm.UnrecoverableEtcd(i.ControlPlane); why != "" {
		return nil, errors.New(why)
	}
	if err := i.addObjects(held); err != nil {
		return nil, err
	}
	return i, i.keepSecrets()
}

// addObjects adds the objects that the Cluster, its control plane and its workers name.
func (i *Inventory) addObjects(held objects) error {
	kcp := i.ControlPlane
	for _, n := range []named{
		{"Cluster " + i.Cluster.Name, machine.InfrastructureRef, i.Cluster.Spec.InfrastructureRef},
		{"KubeadmControlPlane " + kcp.Name, machine.InfrastructureTemplateRef, kcp.Spec.MachineTemplate.Spec.InfrastructureRef},
	} {
		found, err := held.take(n)
		if err != nil {
			return err
		}
		i.before = append(i.before, found...)
	}
	for _, o := range held.ofKind("MachineDeployment", clusterv1.GroupVersion.Group) {
		md := &clusterv1.MachineDeployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, md); err != nil {
			return fmt.Errorf("reading MachineDeployment %s: %w", o.GetName(), err)
		}
		of, by := md.Spec.Template.Spec, "MachineDeployment "+md.Name
		for _, n := range []named{
			{by, machine.BootstrapTemplateRef, of.Bootstrap.ConfigRef}, {by, machine.InfrastructureTemplateRef, of.InfrastructureRef},
		} {
			found, err := held.take(n)
			if err != nil {
				return err
			}
			i.workers = append(i.workers, found...)
		}
		i.workers = append(i.workers, o)
	}
	i.workers = append(i.workers, held.ofKind("MachineHealthCheck", clusterv1.GroupVersion.Group)...)
	return nil
}

// keepSecrets keeps the secrets that the cluster needs, and says which authority, key or file is missing: with another authority nothing
// that the snapshot holds could be used.
func (i *Inventory) keepSecrets() error {
	var keep []string
	for _, p := range Purposes {
		keep = append(keep, secret.Name(i.Cluster.Name, p))
	}
	for _, p := range []secret.Purpose{secret.ClusterCA, secret.EtcdCA, secret.FrontProxyCA, secret.ServiceAccount} {
		name := secret.Name(i.Cluster.Name, p)
		for _, key := range []string{secret.TLSCrtDataName, secret.TLSKeyDataName} {
			if len(i.secrets[name][key]) == 0 {
				return fmt.Errorf("it holds no %s of secret %s, without which the snapshot is of no use", key, name)
			}
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(i.ControlPlane)
	if err != nil {
		return fmt.Errorf("reading KubeadmControlPlane %s: %w", i.ControlPlane.Name, err)
	}
	for _, name := range secretsIn(content) {
		if len(i.secrets[name]) == 0 {
			return fmt.Errorf("it holds nothing of secret %s, which KubeadmControlPlane %s names", name, i.ControlPlane.Name)
		}
		keep = append(keep, name)
	}
	for _, o := range i.workers {
		if o.GroupVersionKind().Group == bootstrapv1.GroupVersion.Group {
			keep = append(keep, secretsIn(o.Object)...)
		}
	}
	maps.DeleteFunc(i.secrets, func(name string, _ map[string][]byte) bool { return !slices.Contains(keep, name) })
	return nil
}

// Use is how the objects of an inventory are made in a management cluster.
type Use struct {
	// Namespace is that of all objects.
	Namespace string
	// MarkKey is an annotation of every object, and Mark its value: by it a restore that was interrupted knows what it made.
	MarkKey, Mark string
	// Store is the store that spec.backup of the control plane names from now on.
	Store controlplanev1.BackupStoreReference
}

// Top returns the Cluster to be created, which is paused until the recovery by the seed may begin.
func (i *Inventory) Top(u Use) *clusterv1.Cluster {
	made := &clusterv1.Cluster{ObjectMeta: u.renewed(i.Cluster), Spec: *i.Cluster.Spec.DeepCopy()}
	paused := true
	made.Spec.Paused = &paused
	return made
}

// Objects returns the objects to be created for a Cluster that was, in their order. All but the workers' come before the control plane,
// which is recorded as initialised: nothing but a recovery by a seed makes its first machine.
func (i *Inventory) Objects(u Use, cluster *clusterv1.Cluster) []client.Object {
	owner := *metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster"))
	var all []client.Object
	for _, o := range i.before {
		made := u.remake(o)
		if ref := i.Cluster.Spec.InfrastructureRef; o.GetKind() == ref.Kind && o.GetName() == ref.Name {
			made.SetOwnerReferences([]metav1.OwnerReference{owner})
		}
		all = append(all, made)
	}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: u.renewed(i.ControlPlane), Spec: *i.ControlPlane.Spec.DeepCopy()}
	kcp.OwnerReferences = []metav1.OwnerReference{owner}
	metav1.SetMetaDataAnnotation(&kcp.ObjectMeta, controlplanev1.InitializedAnnotation, "true")
	if kcp.Spec.Backup != nil {
		kcp.Spec.Backup.StoreRef = u.Store
	}
	all = append(all, kcp)
	for _, o := range i.workers {
		all = append(all, u.remake(o))
	}
	return all
}

// Secrets returns the secrets to be created once the control plane is: the cluster's own are its, as those that it makes itself.
func (i *Inventory) Secrets(u Use, kcp *controlplanev1.KubeadmControlPlane) []*corev1.Secret {
	owner := *metav1.NewControllerRef(kcp, controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"))
	var all []*corev1.Secret
	for _, name := range slices.Sorted(maps.Keys(i.secrets)) {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: u.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: i.Cluster.Name},
				Annotations: map[string]string{u.MarkKey: u.Mark},
			},
			Data: i.secrets[name],
		}
		if slices.ContainsFunc(Purposes, func(p secret.Purpose) bool { return name == secret.Name(i.Cluster.Name, p) }) {
			s.Type, s.OwnerReferences = clusterv1.ClusterSecretType, []metav1.OwnerReference{owner}
		}
		all = append(all, s)
	}
	return all
}

// kept are Quorate's annotations of a control plane that say something of the cluster. The others are about the machines and the backups of
// the former management cluster.
var kept = []string{controlplanev1.LastMachineAnnotation, controlplanev1.InitializedAnnotation}

// renewed returns the metadata of an object to be created.
func (u Use) renewed(o client.Object) metav1.ObjectMeta {
	annotations := map[string]string{}
	for key, value := range o.GetAnnotations() {
		group, name, _ := strings.Cut(key, "/")
		passes := strings.HasPrefix(name, "quorate-") || strings.HasPrefix(name, "remediation-")
		if group != controlplanev1.GroupVersion.Group || !passes || slices.Contains(kept, key) {
			annotations[key] = value
		}
	}
	annotations[u.MarkKey] = u.Mark
	return metav1.ObjectMeta{Namespace: u.Namespace, Name: o.GetName(), Labels: maps.Clone(o.GetLabels()), Annotations: annotations}
}

// remake returns an object as it was, without its status and without what its API server gave it.
func (u Use) remake(o *unstructured.Unstructured) *unstructured.Unstructured {
	content := o.DeepCopy().Object
	for _, field := range []string{"metadata", "status"} {
		delete(content, field)
	}
	made := &unstructured.Unstructured{Object: content}
	of := u.renewed(o)
	made.SetNamespace(of.Namespace)
	made.SetName(of.Name)
	made.SetLabels(of.Labels)
	made.SetAnnotations(of.Annotations)
	return made
}
