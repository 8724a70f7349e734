// Package manifest makes the objects that `quorate up` applies, and reads and
// checks the ones that a user brings. It knows the kinds of Cluster API that a
// local cluster is made of, and what of them can be found wrong without asking
// a management plane. It opens no connection.
package manifest

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// Cluster is what the flags of `quorate up` describe.
type Cluster struct {
	Name      string
	Namespace string
	// Kind is that of the control plane.
	Kind Kind
	// Version of Kubernetes, with its v.
	Version  string
	Replicas int32
	Workers  int32
	// MaxParallel is how many machines may join at once; 0: as many as are missing.
	MaxParallel int32
	// Eager makes all machines at the same moment as the first.
	Eager bool
	// AutoRepair replaces machines of the control plane that break.
	AutoRepair bool
	// InPlace says which machines of the control plane are changed in place instead of being replaced; empty: none.
	InPlace controlplanev1.InPlacePolicy
	// Etcd is how many machines of its own etcd has; 0: it runs on those of the control plane.
	Etcd int32
	// EtcdVersion is etcd's on machines of its own; empty: the newest.
	EtcdVersion string
	// IPFamily is which addresses machines, pods and Services have; empty: those of IPv4.
	IPFamily IPFamily
	// FailureDomains are names that machines are spread over. Empty: no domains.
	FailureDomains []string
	// Backup is the schedule of backups of etcd; empty: none are taken.
	Backup string
	// BackupStore is the BackupStore that backups go to, and BackupRecipient the age recipient that they are encrypted for; empty: they are
	// not.
	BackupStore, BackupRecipient string
}

// Document is one object of a manifest, and what it is for.
type Document struct {
	// About is one or more lines for a reader; they are written above the object as comments.
	About  string
	Object client.Object
}

// Names of the objects that belong to the cluster of this name.
func controlPlaneName(cluster string) string { return cluster + "-cp" }
func workersName(cluster string) string      { return cluster + "-workers" }

// Documents are the objects of the cluster, in the order in which they are
// applied. What is left to a default that matters is spelled out, so that the
// written manifests tell all there is to know.
func (c Cluster) Documents() []Document {
	docs := []Document{
		{"The cluster itself: its networks, and who provides the rest.", c.cluster()},
		{"What its machines share on this host: an endpoint (a free address is taken) and failure domains.", c.infrastructure()},
		{"What machines of the control plane are made from.", c.machineTemplate(controlPlaneName(c.Name))},
	}
	docs = append(docs, c.etcdDocuments()...)
	docs = append(docs, c.controlPlaneDocuments()...)
	if c.Workers == 0 {
		return docs
	}
	return append(docs,
		Document{"What worker machines are made from.", c.machineTemplate(workersName(c.Name))},
		Document{"How workers join.", c.workerConfig()},
		Document{"The workers.", c.workers()})
}

func (c Cluster) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      name,
		Namespace: c.Namespace,
		Labels:    map[string]string{clusterv1.ClusterNameLabel: c.Name},
	}
}

func (c Cluster) cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace},
		Spec: clusterv1.ClusterSpec{
			ClusterNetwork:    c.IPFamily.networks(),
			ControlPlaneRef:   reference(controlPlaneGroup, string(c.Kind), controlPlaneName(c.Name)),
			InfrastructureRef: reference(infrav1.GroupVersion.Group, "LocalCluster", c.Name),
		},
	}
}

func (c Cluster) infrastructure() *infrav1.LocalCluster {
	return &infrav1.LocalCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "LocalCluster"},
		ObjectMeta: c.meta(c.Name),
		Spec:       infrav1.LocalClusterSpec{FailureDomains: c.FailureDomains},
	}
}

// machineTemplate is written without its Go type: the type leaves out what is empty, and nothing can be cloned
// from a template without a spec.template.
func (c Cluster) machineTemplate(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}},
	}}
	o.SetGroupVersionKind(infrav1.GroupVersion.WithKind("LocalMachineTemplate"))
	meta := c.meta(name)
	o.SetName(meta.Name)
	o.SetNamespace(meta.Namespace)
	o.SetLabels(meta.Labels)
	return o
}

func (c Cluster) workerConfig() *bootstrapv1.KubeadmConfigTemplate {
	return c.configTemplate(workersName(c.Name), bootstrapv1.KubeadmConfigSpec{
		JoinConfiguration: bootstrapv1.JoinConfiguration{NodeRegistration: registration()},
	})
}

func (c Cluster) configTemplate(name string, spec bootstrapv1.KubeadmConfigSpec) *bootstrapv1.KubeadmConfigTemplate {
	return &bootstrapv1.KubeadmConfigTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "KubeadmConfigTemplate"},
		ObjectMeta: c.meta(name),
		Spec:       bootstrapv1.KubeadmConfigTemplateSpec{Template: bootstrapv1.KubeadmConfigTemplateResource{Spec: spec}},
	}
}

func (c Cluster) workers() *clusterv1.MachineDeployment {
	name := workersName(c.Name)
	labels := map[string]string{clusterv1.ClusterNameLabel: c.Name, clusterv1.MachineDeploymentNameLabel: name}
	md := &clusterv1.MachineDeployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment"},
		ObjectMeta: c.meta(name),
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName:   c.Name,
			Replicas:      ptr.To(c.Workers),
			Selector:      metav1.LabelSelector{MatchLabels: labels},
			MachineNaming: clusterv1.MachineNamingSpec{Template: "{{ .cluster.name }}-worker-{{ .random }}"},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: labels},
				Spec: clusterv1.MachineSpec{
					ClusterName: c.Name,
					Version:     c.Version,
					Bootstrap: clusterv1.Bootstrap{
						ConfigRef: reference(bootstrapv1.GroupVersion.Group, "KubeadmConfigTemplate", name),
					},
					InfrastructureRef: reference(infrav1.GroupVersion.Group, "LocalMachineTemplate", name),
					Deletion:          clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: ptr.To(drainSeconds)},
				},
			},
		},
	}
	if c.policy() != controlplanev1.InPlaceNever {
		md.Annotations = map[string]string{upgradev1.PolicyAnnotation: string(c.policy())}
		md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
	}
	return md
}

func reference(group, kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: name}
}

// Shape reports whether an existing cluster has the shape that Documents gives it, so that `up` knows which
// objects to change. The error names what differs.
func (c Cluster) Shape(existing *clusterv1.Cluster) error {
	want := c.cluster().Spec
	var wrong []string
	for _, r := range []struct {
		field      string
		have, want clusterv1.ContractVersionedObjectReference
	}{
		{"controlPlaneRef", existing.Spec.ControlPlaneRef, want.ControlPlaneRef},
		{"infrastructureRef", existing.Spec.InfrastructureRef, want.InfrastructureRef},
	} {
		if r.have != r.want {
			wrong = append(wrong, fmt.Sprintf("its %s is %s %s, not %s %s", r.field, r.have.Kind, r.have.Name, r.want.Kind, r.want.Name))
		}
	}
	if existing.Spec.Topology.IsDefined() {
		wrong = append(wrong, "it follows a ClusterClass")
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("name %q is in use by a cluster that was not made by `quorate up --name` (%s): take another name, or change that "+
		"cluster's own manifests and apply them with -f",
		c.Name, strings.Join(wrong, "; "))
}

// Scheme holds the kinds that Documents makes and Parse reads strictly.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, controlplanev1alpha1.AddToScheme,
		etcdclusterv1alpha1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(fmt.Sprintf("registering kinds: %v", err)) // two types for one kind: a fault of this program
		}
	}
	return s
}

// Domains splits a list of failure domains at its commas.
func Domains(list string) []string {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	domains := strings.Split(list, ",")
	for i := range domains {
		domains[i] = strings.TrimSpace(domains[i])
	}
	slices.Sort(domains)
	return domains
}
