package observe

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiannotations "sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
)

// Workloads are the connections to the managed clusters, by cluster.
// *workload.Connections is one.
type Workloads interface {
	// Want asks for a connection, and reports whether something is under way there.
	Want(key client.ObjectKey, busy bool)
	// Forget ends the connection.
	Forget(key client.ObjectKey)
	// Own says which Nodes may belong to the control plane, besides those with its label.
	Own(key client.ObjectKey, mine workload.Mine)
	// Config returns how the cluster is reached; nil before it was connected for the first time.
	Config(key client.ObjectKey) *rest.Config
	// View returns what is known now, without waiting.
	View(key client.ObjectKey) workload.View
	// Dial returns a way to a port of a control plane's machine.
	Dial(key client.ObjectKey, node, nodeIP string, port int) func(context.Context) (net.Conn, error)
	// Events yields a Cluster whenever its view has changed.
	Events() <-chan event.GenericEvent
}

// SlowTime is how long facts that cost a request and change rarely are believed while all is
// well, SlowAtRest where besides nothing is left to do: nothing that is done rests on facts so old. SlowMissing is how long while a person
// must give something that is missing, and SlowOurs where it is for us to make, which looks once more itself. What we write ourselves is
// read again at once.
const (
	SlowTime    = 5 * time.Minute
	SlowAtRest  = time.Hour
	SlowOurs    = 30 * time.Second
	SlowMissing = 2 * time.Second
)

// Observe reads everything that a decision may depend on, once. While an own
// write is not to be seen yet, it returns how long to wait for it instead.
func Observe(
	ctx context.Context, from Sources, kind Kind, m *Memory, object Object, cluster *clusterv1.Cluster,
) (*Observer, time.Duration, error) {
	machines, err := ListMachines(ctx, from.Cache, object, cluster.Name, kind.Spec(object).Selector)
	if err != nil {
		return nil, 0, err
	}
	if wait, err := m.Writes.Unseen(ctx, from.APIReader, object, slices.Concat(machines.Ours, machines.Others), time.Now()); err != nil ||
		wait > 0 {
		return nil, wait, err
	}
	t := Begin(from, kind, m, m.Writes.Newest(object, machines.Ours), cluster, machines, time.Now())
	if err := t.read(ctx, machines); err != nil {
		return nil, 0, err
	}
	if wait := t.Memory.Parts.Unseen(t.parts(), t.Facts.Now); wait > 0 {
		return nil, wait, nil
	}
	t.Facts.Group.PartialCreate = cmp.Or(t.Facts.Group.PartialCreate, t.Memory.Begun)
	var seen Seen
	if t.Nodeless {
		seen = t.seeNodeless()
	} else {
		t.Workload.Own(t.ClusterKey(), t.Mine())
		seen = t.See(t.Workload.View(t.ClusterKey()))
		Extensions{t}.addAnswers(ctx)
		if err := t.addUpgrader(ctx); err != nil {
			return nil, 0, err
		}
	}
	if err := t.Own.Look(ctx, seen); err != nil {
		return nil, 0, err
	}
	return t, 0, t.observeEtcd(ctx)
}

// Begin begins to look at a group: with what the objects themselves say.
func Begin(from Sources, kind Kind, m *Memory, object Object, cluster *clusterv1.Cluster, machines Machines, now time.Time) *Observer {
	m.Cluster = client.ObjectKeyFromObject(cluster)
	t := &Observer{Sources: from, Kind: kind, View: NewView(cluster, machines.Ours, beginning(kind, object, cluster, machines, now))}
	t.Type, t.Object, t.Spec, t.Memory = kind.Type(), object, kind.Spec(object), m
	t.Others, t.Nodeless = machines.Others, t.Type.Nodeless
	if cluster.Spec.ControlPlaneEndpoint.IsValid() {
		t.Facts.Cluster.Endpoint = cluster.Spec.ControlPlaneEndpoint.String()
	}
	t.Own = wants{t.View}.addWanted(t.Kind)
	return t
}

// beginning are the facts that the objects themselves tell.
func beginning(kind Kind, object Object, cluster *clusterv1.Cluster, machines Machines, now time.Time) plan.Observed {
	annotations, spec := object.GetAnnotations(), kind.Spec(object)
	return plan.Observed{
		Now: now,
		Group: plan.Group{
			Name:        object.GetName(),
			Deleting:    !object.GetDeletionTimestamp().IsZero(),
			Orphaning:   controllerutil.ContainsFinalizer(object, metav1.FinalizerOrphanDependents),
			Paused:      ptr.Deref(cluster.Spec.Paused, false) || capiannotations.HasPaused(object),
			Initialized: recordedInitialized(kind, object),
			LastMachine: LastMachine(annotations),
			Repairing:   ReplacementIn(annotations, upstream.RemediationInProgressAnnotation) != nil,
		},
		Want: plan.Want{
			Replicas:   int(ptr.Deref(spec.Replicas, 1)),
			Domains:    spec.Domains,
			DomainSeed: cluster.Name,
		},
		Policy: spec.Policy,
		Cluster: plan.Cluster{
			Infrastructure: ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false),
		},
		Etcd:    plan.Etcd{Owner: spec.Etcd},
		Workers: machines.Workers,
	}
}

// addWanted adds what is wanted, also what the kind wants, and refuses what cannot be begun.
func (t wants) addWanted(kind Kind) Own {
	want, g := &t.Facts.Want, &t.Facts.Group
	if want.Domains == nil {
		want.Domains = domains(t.Cluster)
	}
	var err error
	if want.NameFormat, err = machine.NameFormatOf(t.Type.NameVariable, t.Spec.Names, t.Object.GetName(), t.Cluster.Name); err != nil {
		t.Refuse(plan.Refusal{Reason: "InvalidMachineNaming", Message: err.Error()})
	}
	if want.Replicas < 1 {
		t.Refuse(plan.Refusal{Reason: "InvalidReplicas", Message: fmt.Sprintf("spec.replicas is %d; at least one machine is needed",
			want.Replicas)})
	}
	g.New = !g.Initialized && t.Initializing() && !othersMade(want.NameFormat, g.LastMachine, t.Objects())
	own := kind.Want(t.View)
	if text := machine.Leap(t.Spec.Version, t.Objects()); text != "" {
		t.Refuse(plan.Refusal{Reason: "InvalidVersionChange", Message: text, Replaceable: true})
	}
	t.addApproval()
	t.addWindows()
	t.addChoices()
	t.addReplacements()
	t.addPower()
	t.addBackup()
	t.refuseBeforeTopology()
	return own
}

// read adds all that the management cluster knows.
func (t *Observer) read(ctx context.Context, machines Machines) error {
	if t.Facts.Group.Deleting {
		return t.addMachinePools(ctx)
	}
	if t.Facts.Group.Paused {
		t.Memory.Secrets = Secrets{} // others may change what they like, and are not watched there
		return nil
	}
	if err := t.addUncontrolled(ctx, machines.Others); err != nil {
		return err
	}
	if err := addRecovery(ctx, t); err != nil {
		return err
	}
	if err := addRunning(ctx, t); err != nil {
		return err
	}
	if err := t.Own.Read(ctx, t); err != nil {
		return err
	}
	t.addTemplate(ctx)
	if err := t.readParts(ctx); err != nil {
		return err
	}
	if err := (updates{t}).readUpdates(ctx); err != nil {
		return err
	}
	if len(machines.Ours) >= t.Facts.Want.Replicas+t.Facts.Policy.Surge {
		return nil
	}
	var err error
	t.Facts.Group.PartialCreate, err = t.begun(ctx)
	return err
}

// addMachinePools adds the MachinePools of the cluster to its workers.
func (t *Observer) addMachinePools(ctx context.Context) error {
	pools, err := ListMachinePools(ctx, t.Cache, t.Object.GetNamespace(), t.Cluster.Name)
	if err != nil {
		return err
	}
	t.Facts.Workers = slices.Sorted(slices.Values(slices.Concat(t.Facts.Workers, pools)))
	return nil
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

// recordedInitialized reports whether it is on record that a cluster was initialised: in the
// status, or where a move and a backup keep it.
func recordedInitialized(kind Kind, object Object) bool {
	_, recorded := object.GetAnnotations()[controlplanev1.InitializedAnnotation]
	return recorded || ptr.Deref(*kind.Status(object).Initialized, false)
}

// Initializing reports whether it is proven that no machine of this very object had
// initialised a cluster when its first was made.
func (t *View) Initializing() bool {
	uid := t.Object.GetUID()
	return uid != "" && t.Object.GetAnnotations()[controlplanev1.InitializingAnnotation] == string(uid)
}

// LastMachine reads the highest number that was ever put into a machine's name.
// One that cannot be read counts as none: the machines that exist are counted besides.
func LastMachine(annotations map[string]string) int {
	n, err := strconv.Atoi(annotations[controlplanev1.LastMachineAnnotation])
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// addTemplate adds the machine template, and what is wrong with it. Its kind is watched, so that reading it costs no request.
func (t *Observer) addTemplate(ctx context.Context) {
	t.Memory.Template = t.ReadTemplate(ctx)
	t.Facts.Cluster.Template = cmp.Or(t.Memory.Template.Missing, t.Facts.Cluster.Template)
}

// ReadTemplate returns the machine template and the kind of machines that it makes, or what is wrong with it.
func (t *Observer) ReadTemplate(ctx context.Context) Template {
	if t.Spec.Inline != nil {
		gvk := t.Spec.Inline.GroupVersionKind()
		if err := machine.InfrastructureRef.Check(gvk.GroupKind()); err != nil {
			return Template{Missing: "spec.providerSpec.value: " + err.Error()}
		}
		return Template{Kind: gvk}
	}
	field := cmp.Or(t.Type.TemplateField, "spec.machineTemplate.spec.infrastructureRef")
	found, missing := t.FindTemplate(ctx, machine.InfrastructureTemplateRef, field, t.Spec.Infrastructure)
	if found == nil {
		return Template{Missing: missing}
	}
	return Template{Object: found, Kind: MadeBy(found)}
}

// readParts reads the objects that each machine consists of. What is gone is not known.
func (t *Observer) readParts(ctx context.Context) error {
	if err := t.readBootstraps(ctx); err != nil {
		return err
	}
	return t.readInfrastructure(ctx)
}

// readBootstraps reads the bootstrap object of each machine.
func (t *Observer) readBootstraps(ctx context.Context) error {
	for _, m := range t.Machines {
		m.Read = true
		if err := t.Own.ReadBootstrap(ctx, t, m); err != nil {
			return err
		}
	}
	return nil
}

// readInfrastructure reads the infrastructure machine of each machine.
func (t *Observer) readInfrastructure(ctx context.Context) error {
	for _, m := range t.Machines {
		infrastructure, err := t.FindPart(ctx, machine.InfrastructureRef, "spec.infrastructureRef of Machine "+m.Name, m.Spec.InfrastructureRef)
		if err != nil {
			return err
		}
		if infrastructure != nil {
			m.Infrastructure = infrastructure
		}
	}
	return nil
}

// begun returns the name of a machine whose creation was begun and not finished:
// there is a bootstrap object or an infrastructure machine of ours that no Machine
// has taken over. Of several the first by name.
func (t *Observer) begun(ctx context.Context) (string, error) {
	found, err := t.Own.Created(ctx, t)
	if err != nil {
		return "", err
	}
	clones, err := t.Made(ctx, t.Memory.Template.Kind)
	if refused := machine.Refused(err); refused != nil {
		t.Facts.Cluster.Template = cmp.Or(t.Facts.Cluster.Template, "machines cannot be made: "+refused.Error())
		return "", nil
	}
	if err != nil {
		return "", err
	}
	found = append(found, clones...)
	wants{t.View}.addNamesOf(found)
	return firstOrphan(found, t.Object, t.Objects()), nil
}

// MadeForGroup selects the objects that were made for the group's machines.
func (t *View) MadeForGroup() []client.ListOption {
	return []client.ListOption{client.InNamespace(t.Object.GetNamespace()), client.MatchingLabels(t.Identity())}
}

// firstOrphan returns the first name, in order, of those objects that are the
// group's own and that no Machine owns or will own.
func firstOrphan(found []client.Object, object client.Object, machines []*clusterv1.Machine) string {
	first := ""
	for _, o := range found {
		if !o.GetDeletionTimestamp().IsZero() || !Unclaimed(o.GetOwnerReferences(), object) {
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

// Unclaimed reports whether the group owns an object and no Machine
// does. An object that a Machine has owned goes with it, and is no beginning.
func Unclaimed(owners []metav1.OwnerReference, object client.Object) bool {
	ours := false
	for _, o := range owners {
		if o.Kind == "Machine" {
			return false
		}
		ours = ours || o.UID == object.GetUID()
	}
	return ours
}

// Seen is an Observer that has seen the managed cluster: what is known of its Nodes, static pods and machines is in the facts.
type Seen struct{ *Observer }

// See adds what is known from the workload cluster: Nodes and static pods, and what is wanted beside it.
func (t *Observer) See(view workload.View) Seen {
	t.AddWorkload(view, t.Spec.Components)
	wants{t.View}.addNames()
	wants{t.View}.addEtcdPods()
	wants{t.View}.refuseStrayNodes()
	t.addMachinesWanted()
	return Seen{t}
}

// addMachinesWanted adds what is wanted of each machine, and of whom it took the place.
func (t *Observer) addMachinesWanted() {
	for _, m := range t.Machines {
		if !m.Read {
			continue
		}
		facts, found := m.Facts, driftOf(t, m)
		m.Drift = &found
		facts.Outdated, facts.NeedsBackup = Cut(found.String(), longestDrift), wants{t.View}.needsBackup(found)
		facts.Marked, facts.MarkedByPerson = machine.Marked(m.Machine), machine.MarkedByPerson(m.Machine)
		facts.Held, facts.Started = IsHeld(m), BootstrapStarted(m.Machine)
		updates{t}.addUpdate(m)
		facts.Gate = machine.ShutGate(m.Machine, t.Spec.ReadinessGates)
		_, facts.DeletePreferred = m.Annotations[clusterv1.DeleteMachineAnnotation]
		if r := ReplacementIn(m.Annotations, upstream.RemediationForAnnotation); r != nil {
			facts.Replaced, facts.Retries = r.Timestamp.Time, r.Retries
		}
	}
}

// longestDrift is how many bytes of a machine's differences a decision tells.
const longestDrift = 200

// Identity are the labels that say whose a machine is.
func (t *View) Identity() map[string]string {
	if t.Nodeless {
		return drift.EtcdLabels(t.Object.GetName(), t.Cluster.Name)
	}
	return drift.IdentityLabels(t.Object.GetName(), t.Cluster.Name)
}
