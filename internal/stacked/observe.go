package stacked

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	capiannotations "sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/certs"
	"github.com/quorate/quorate/internal/drift"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/version"
)

// slowTime is how long the facts that change rarely are believed while all is
// well, and slowMissing while something is missing. What we write ourselves is read again at once.
const (
	slowTime    = 5 * time.Minute
	slowMissing = 2 * time.Second
)

// slowFacts are facts that each cost a request and change rarely.
type slowFacts struct {
	// missing are the authorities that can be generated, given those that only the
	// user has; broken says what is wrong with a secret that is there.
	missing, given []string
	broken         string
	// keyless are the authorities whose key is kept elsewhere, disowned the secrets that the control
	// plane should control and does not.
	keyless, disowned []string
	kubeconfig        plan.Kubeconfig
	// template says what is wrong with the machine template; machines is the kind that it makes.
	template string
	machines schema.GroupVersionKind
	// owned is the machine template itself; nil: it is not known.
	owned *unstructured.Unstructured
	// of says which objects were read, and at which generation.
	of   string
	read time.Time
}

// fresh reports whether the facts may still be believed.
func (f slowFacts) fresh(of string, now time.Time) bool {
	well := len(f.missing) == 0 && len(f.given) == 0 && f.broken == "" && f.template == "" && f.kubeconfig.Exists
	believed := slowTime
	if !well {
		believed = slowMissing
	}
	return f.of == of && now.Before(f.read.Add(believed))
}

// reader reads the objects of the management cluster.
type reader struct {
	// objects may be a cache; direct is the API server.
	objects, direct client.Reader
}

// gather reads all that the management cluster knows. The workload cluster's part
// is added by addWorkload and addEtcd.
func (r reader) gather(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster, machines group.Machines, slow *slowFacts, now time.Time) (*scene, error) {
	deleting := !kcp.DeletionTimestamp.IsZero()
	if deleting {
		pools, err := group.ListMachinePools(ctx, r.objects, kcp.Namespace, cluster.Name)
		if err != nil {
			return nil, err
		}
		machines.Workers = append(machines.Workers, pools...)
		slices.Sort(machines.Workers)
	}
	s := newScene(kcp, cluster, machines.Ours, machines.Workers, now)
	if s.Facts.Group.Paused || deleting {
		return s, nil
	}
	err := r.addStrangers(ctx, s, machines.Others)
	if err == nil {
		err = r.addSlow(ctx, s, slow, now)
	}
	if err == nil {
		err = r.parts(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	s.foundInitialized()
	if len(machines.Ours) < s.Facts.Want.Replicas+s.Facts.Want.Surge {
		s.Facts.Group.Begun, err = r.begun(ctx, s, slow.machines)
	}
	return s, err
}

// newScene makes a scene of what the objects themselves say.
func newScene(kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster, ours []*clusterv1.Machine, workers []string, now time.Time) *scene {
	s := &scene{kcp: kcp, Observation: group.Observe(cluster, ours, plan.Observed{
		Now: now,
		Group: plan.Group{
			Name:        kcp.Name,
			Deleting:    !kcp.DeletionTimestamp.IsZero(),
			Orphaning:   controllerutil.ContainsFinalizer(kcp, metav1.FinalizerOrphanDependents),
			Paused:      ptr.Deref(cluster.Spec.Paused, false) || capiannotations.HasPaused(kcp),
			Initialized: recordedInitialized(kcp),
			LastMachine: lastMachine(kcp),
			Repairing:   group.ReplacementIn(kcp.Annotations, upstream.RemediationInProgressAnnotation) != nil,
		},
		Want: plan.Want{
			Replicas:    int(ptr.Deref(kcp.Spec.Replicas, 1)),
			MaxParallel: int(ptr.Deref(kcp.Spec.Joins.MaxParallel, 0)),
			Domains:     domains(cluster),
			Surge:       surge(kcp),
			Repair:      repairLimits(kcp),
			DomainSeed:  cluster.Name,
		},
		Cluster: plan.Cluster{
			Infrastructure: ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false),
		},
		Etcd:    plan.Etcd{Managed: managesEtcd(kcp)},
		Workers: workers,
	})}
	if cluster.Spec.ControlPlaneEndpoint.IsValid() {
		s.Facts.Cluster.Endpoint = cluster.Spec.ControlPlaneEndpoint.String()
	}
	want := &s.Facts.Want
	var err error
	if want.NameFormat, err = machine.NameFormat(kcp.Spec.MachineNaming.Template, kcp.Name, cluster.Name); err != nil {
		s.Refuse(plan.Refusal{Reason: "InvalidMachineNaming", Message: err.Error()})
	}
	if want.Replicas < 1 {
		s.Refuse(plan.Refusal{Reason: "InvalidReplicas", Message: fmt.Sprintf("spec.replicas is %d; at least one machine is needed", want.Replicas)})
	}
	g := &s.Facts.Group
	g.New = !g.Initialized && initializing(kcp) && !othersMade(want.NameFormat, g.LastMachine, ours)
	v, err := version.Parse(kcp.Spec.Version)
	if err != nil {
		s.Refuse(plan.Refusal{Reason: "InvalidVersion", Message: "spec.version: " + err.Error(), Replaceable: true})
	}
	if text := leap(kcp.Spec.Version, ours); text != "" {
		s.Refuse(plan.Refusal{Reason: "InvalidVersionChange", Message: text, Replaceable: true})
	}
	s.refuseBeforeTopology()
	gate, said := kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.FeatureGates["EtcdLearnerMode"]
	want.Learners = v.Learners() && (gate || !said)
	return s
}

// domains returns the failure domains that may hold control planes, sorted.
func domains(cluster *clusterv1.Cluster) []string {
	var names []string
	for _, d := range cluster.Status.FailureDomains {
		if ptr.Deref(d.ControlPlane, false) {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return names
}

// addSlow adds the facts that are read rarely.
func (r reader) addSlow(ctx context.Context, s *scene, slow *slowFacts, now time.Time) error {
	of := fmt.Sprintf("%s %s %d", s.kcp.UID, s.Cluster.UID, s.kcp.Generation)
	if !slow.fresh(of, now) {
		*slow = slowFacts{of: of, read: now}
		if err := r.readSlow(ctx, s, slow); err != nil {
			return err
		}
	}
	facts := &s.Facts.Cluster
	facts.MissingCertificates, facts.Kubeconfig, facts.Template = slow.missing, slow.kubeconfig, slow.template
	s.lacking = slow.lacking()
	if s.Facts.Group.Initialized || len(s.Machines) > 0 {
		facts.MissingCertificates = append(slices.Clone(slow.missing), s.keysElsewhere(slow)...)
	}
	switch {
	case slow.broken != "" && !s.Facts.Group.Initialized:
		s.Refuse(plan.Refusal{Reason: "CertificatesInvalid", Message: slow.broken})
	case slow.broken != "":
		// What runs goes on without it; but nobody may join.
		facts.MissingCertificates = append(slices.Clone(facts.MissingCertificates), slow.broken)
	case len(slow.given) > 0:
		s.Refuse(plan.Refusal{Reason: "GivenCertificatesMissing",
			Message: fmt.Sprintf("etcd is external, and its certificates must be given as secrets of cluster %s: %s", s.Cluster.Name, strings.Join(slow.given, ", "))})
	}
	return nil
}

// readSlow reads the facts that are read rarely.
func (r reader) readSlow(ctx context.Context, s *scene, slow *slowFacts) error {
	config := &s.kcp.Spec.KubeadmConfigSpec.ClusterConfiguration
	found, err := certs.Read(ctx, r.direct, s.Cluster, config, controllerRef(s.kcp))
	if err != nil {
		return fmt.Errorf("looking for the secrets of cluster %s: %w", s.Cluster.Name, err)
	}
	slow.missing, slow.given, slow.broken, slow.kubeconfig = found.Missing, found.Given, found.Broken, found.Kubeconfig
	slow.keyless, slow.disowned = found.Keyless, found.Disowned
	slow.owned, slow.machines, slow.template = r.template(ctx, s.kcp)
	return nil
}

// template returns the machine template and the kind of machines that it makes, or what is wrong with it.
func (r reader) template(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) (*unstructured.Unstructured, schema.GroupVersionKind, string) {
	ref := kcp.Spec.MachineTemplate.Spec.InfrastructureRef
	found, err := external.GetObjectFromContractVersionedRef(ctx, r.objects, ref, kcp.Namespace)
	switch {
	case apierrors.IsNotFound(err):
		return nil, schema.GroupVersionKind{}, fmt.Sprintf("spec.machineTemplate.spec.infrastructureRef: there is no %s %q in namespace %s", ref.Kind, ref.Name, kcp.Namespace)
	case err != nil:
		return nil, schema.GroupVersionKind{}, fmt.Sprintf("spec.machineTemplate.spec.infrastructureRef: %s %q: %v", ref.Kind, ref.Name, err)
	}
	gvk := found.GroupVersionKind()
	gvk.Kind = strings.TrimSuffix(gvk.Kind, clusterv1.TemplateSuffix)
	return found, gvk, ""
}

// begun returns the name of a machine whose creation was begun and not finished:
// there is a KubeadmConfig or an infrastructure machine of ours that no Machine
// has taken over. Of several the first by name.
func (r reader) begun(ctx context.Context, s *scene, machines schema.GroupVersionKind) (string, error) {
	ours := []client.ListOption{client.InNamespace(s.kcp.Namespace), client.MatchingLabels(drift.Identity(s.kcp, s.Cluster.Name))}
	configs := &bootstrapv1.KubeadmConfigList{}
	if err := r.objects.List(ctx, configs, ours...); err != nil {
		return "", fmt.Errorf("listing the KubeadmConfigs of %s: %w", s.kcp.Name, err)
	}
	var found []client.Object
	for i := range configs.Items {
		found = append(found, &configs.Items[i])
	}
	if machines.Kind != "" {
		clones := &unstructured.UnstructuredList{}
		clones.SetGroupVersionKind(machines.GroupVersion().WithKind(machines.Kind + "List"))
		if err := r.objects.List(ctx, clones, ours...); err != nil {
			return "", fmt.Errorf("listing the %s objects of %s: %w", machines.Kind, s.kcp.Name, err)
		}
		for i := range clones.Items {
			found = append(found, &clones.Items[i])
		}
	}
	return firstOrphan(found, s.kcp, s.Objects()), nil
}

// firstOrphan returns the first name, in order, of those objects that are the
// control plane's own and that no Machine owns or will own.
func firstOrphan(found []client.Object, kcp *controlplanev1.KubeadmControlPlane, machines []*clusterv1.Machine) string {
	first := ""
	for _, o := range found {
		if !o.GetDeletionTimestamp().IsZero() || !unclaimed(o.GetOwnerReferences(), kcp) {
			continue
		}
		if slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool { return m.Name == o.GetName() }) {
			continue
		}
		if first == "" || o.GetName() < first {
			first = o.GetName()
		}
	}
	return first
}

// unclaimed reports whether the control plane owns an object and no Machine
// does. An object that a Machine has owned goes with it, and is no beginning.
func unclaimed(owners []metav1.OwnerReference, kcp *controlplanev1.KubeadmControlPlane) bool {
	ours := false
	for _, o := range owners {
		if o.Kind == "Machine" {
			return false
		}
		ours = ours || o.UID == kcp.UID
	}
	return ours
}
