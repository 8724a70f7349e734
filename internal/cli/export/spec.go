package export

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/core/drift"
)

// untold are the fields that machines do not show.
const untold = "spec.rollout, spec.remediation, spec.machineNaming, spec.joins, spec.autoRepair, spec.inPlace and spec.approval"

// controlPlane returns the control plane that the machines amount to, and for a reader what is not certain about it.
func (s *sources) controlPlane(now time.Time) (*controlplanev1.KubeadmControlPlane, []string) {
	newest := s.newest()
	kcp := &controlplanev1.KubeadmControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlane"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.cluster.Namespace, Name: s.name()},
	}
	notes := []string{
		fmt.Sprintf("What the machines of cluster %s amount to: %s, the newest first.", s.cluster.Name, strings.Join(s.names(), ", ")),
		"Machines do not show " + untold + ": they have their defaults here.",
	}
	kcp.Spec.Replicas, kcp.Spec.Version = ptr.To(s.replicas()), newest.Machine.Spec.Version
	if filter, has := newest.Machine.Labels[clusterv1.WatchLabel]; has {
		kcp.Labels = map[string]string{clusterv1.WatchLabel: filter}
	}
	template := &kcp.Spec.MachineTemplate
	template.ObjectMeta = metadataOf(newest.Machine)
	template.Spec.Taints = newest.Machine.Spec.Taints
	template.Spec.Deletion = upstream.KubeadmControlPlaneMachineTemplateDeletionSpec(newest.Machine.Spec.Deletion)
	for _, gate := range newest.Machine.Spec.ReadinessGates {
		if !slices.Contains(drift.KubeadmGates(), gate.ConditionType) {
			template.Spec.ReadinessGates = append(template.Spec.ReadinessGates, gate)
		}
	}
	var note []string
	template.Spec.InfrastructureRef, note = s.infrastructure()
	notes = append(notes, note...)
	kcp.Spec.KubeadmConfigSpec, note = s.configuration()
	notes = append(notes, note...)
	if s.managed != "" && newest.Config.Spec.ClusterConfiguration.Etcd.External.IsDefined() {
		kcp.Spec.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "EtcdCluster",
			Name: s.managed}
	}
	return kcp, append(notes, s.contradictions(kcp, now)...)
}

// newest is the newest machine whose KubeadmConfig is known.
func (s *sources) newest() drift.Machine {
	return s.machines[slices.IndexFunc(s.machines, func(m drift.Machine) bool { return m.Config != nil })]
}

// name is that of the control plane: as the Cluster refers to it, or else by the label of its machines.
func (s *sources) name() string {
	if ref := s.cluster.Spec.ControlPlaneRef; ref.Kind == "KubeadmControlPlane" && ref.Name != "" {
		return ref.Name
	}
	return s.newest().Machine.Labels[clusterv1.MachineControlPlaneNameLabel]
}

// names are those of the machines.
func (s *sources) names() []string {
	var all []string
	for _, m := range s.machines {
		all = append(all, m.Machine.Name)
	}
	return all
}

// replicas is how many machines stay.
func (s *sources) replicas() int32 {
	n := int32(0)
	for _, m := range s.machines {
		if m.Machine.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return max(n, 1)
}

// infrastructure is the template that the newest machine was made from whose infrastructure machine is known.
func (s *sources) infrastructure() (clusterv1.ContractVersionedObjectReference, []string) {
	for _, m := range s.machines {
		if m.Infrastructure == nil {
			continue
		}
		annotations := m.Infrastructure.GetAnnotations()
		name, kind := annotations[clusterv1.TemplateClonedFromNameAnnotation],
			schema.ParseGroupKind(annotations[clusterv1.TemplateClonedFromGroupKindAnnotation])
		if name != "" && kind.Kind != "" {
			return clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: name}, nil
		}
	}
	return clusterv1.ContractVersionedObjectReference{}, []string{"No infrastructure machine names its template: set " +
		"spec.machineTemplate.spec.infrastructureRef."}
}

// metadataOf are the labels and annotations that a machine has from its template: those that Quorate noted, or else all that are not of
// Cluster API.
func metadataOf(m *clusterv1.Machine) clusterv1.ObjectMeta {
	labels, annotations, noted := drift.FromTemplate(m)
	if noted {
		return clusterv1.ObjectMeta{Labels: labels, Annotations: annotations}
	}
	own := func(all map[string]string) map[string]string {
		kept := maps.Clone(all)
		maps.DeleteFunc(kept, func(key, _ string) bool {
			domain, _, _ := strings.Cut(key, "/")
			return domain == clusterv1.GroupVersion.Group || strings.HasSuffix(domain, "."+clusterv1.GroupVersion.Group) ||
				domain == "kubectl.kubernetes.io"
		})
		if len(kept) == 0 {
			return nil // the API server refuses empty metadata
		}
		return kept
	}
	return clusterv1.ObjectMeta{Labels: own(m.Labels), Annotations: own(m.Annotations)}
}

// configuration is kubeadm's: the newest machine's, whose init or join part another one shows.
func (s *sources) configuration() (bootstrapv1.KubeadmConfigSpec, []string) {
	spec, notes := s.newest().Config.Spec.DeepCopy(), []string(nil)
	for _, m := range s.machines {
		if m.Config == nil {
			continue
		}
		if part := m.Config.Spec.DeepCopy(); !spec.InitConfiguration.IsDefined() && part.InitConfiguration.IsDefined() {
			spec.InitConfiguration = part.InitConfiguration
		} else if isEmpty(spec.JoinConfiguration) {
			spec.JoinConfiguration = part.JoinConfiguration
		}
	}
	switch {
	case isEmpty(spec.JoinConfiguration):
		spec.JoinConfiguration.NodeRegistration = *spec.InitConfiguration.NodeRegistration.DeepCopy()
		notes = append(notes, "No machine has joined: spec.kubeadmConfigSpec.joinConfiguration follows initConfiguration.")
	case !spec.InitConfiguration.IsDefined():
		spec.InitConfiguration.NodeRegistration = *spec.JoinConfiguration.NodeRegistration.DeepCopy()
		notes = append(notes, "The machine that initialised the cluster is gone: spec.kubeadmConfigSpec.initConfiguration follows "+
			"joinConfiguration.")
	}
	spec.InitConfiguration.BootstrapTokens = nil
	spec.JoinConfiguration.Discovery.BootstrapToken,
		spec.JoinConfiguration.Discovery.TLSBootstrapToken = bootstrapv1.BootstrapTokenDiscovery{}, ""
	if join := spec.JoinConfiguration.ControlPlane; join != nil && isEmpty(*join) {
		spec.JoinConfiguration.ControlPlane = nil
	}
	if endpoint := s.cluster.Spec.ControlPlaneEndpoint; spec.ClusterConfiguration.ControlPlaneEndpoint == endpoint.String() {
		spec.ClusterConfiguration.ControlPlaneEndpoint = ""
	}
	if s.managed != "" && spec.ClusterConfiguration.Etcd.External.IsDefined() {
		spec.ClusterConfiguration.Etcd = bootstrapv1.Etcd{}
		notes = append(notes, "EtcdCluster "+s.managed+" keeps etcd: spec.managedExternalEtcdRef names it, and the machines' endpoints are "+
			"left out.")
	}
	return *spec, notes
}

// isEmpty reports whether nothing is set.
func isEmpty[T any](v T) bool { return reflect.ValueOf(v).IsZero() }

// contradictions say in what machines differ from the control plane, without what may be secret.
func (s *sources) contradictions(kcp *controlplanev1.KubeadmControlPlane, now time.Time) []string {
	var notes []string
	compared := kcp
	if s.managed != "" {
		compared = kcp.DeepCopy()
		compared.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd = s.newest().Config.Spec.ClusterConfiguration.Etcd
	}
	for _, m := range s.machines {
		if m.Config == nil {
			notes = append(notes, fmt.Sprintf("Machine %s has no KubeadmConfig any more: what it was made from is not known.", m.Machine.Name))
		}
		for _, d := range drift.Of(compared, m, now).Reasons {
			notes = append(notes, fmt.Sprintf("Machine %s contradicts %s.", m.Machine.Name, d))
		}
	}
	return notes
}
