package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// Hibernation is how far the hibernation of a group is, as controlplanev1.HibernationAnnotation holds it.
type Hibernation struct {
	// Requested is since when the group is on its way.
	Requested time.Time `json:"requested,omitzero"`
	// Backup is the verified backup from which it wakes, Store where that is, as StoreOf names it, Taken when it was taken, and Since when
	// that was noted. Empty: no machine was let go.
	Backup string    `json:"backup,omitempty"`
	Store  string    `json:"store,omitempty"`
	Taken  time.Time `json:"taken,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	// Machines are those that were let go. Their Nodes are in the backup, and are deleted when the group has woken.
	Machines []string `json:"machines,omitempty"`
	// Woken: the group serves from the backup again.
	Woken bool `json:"woken,omitempty"`
}

// HibernationOf reads what is noted of the hibernation of a group; the zero value: nothing, nothing that can be read, or its kind does not
// hibernate.
func HibernationOf(group client.Object) Hibernation {
	var h Hibernation
	if _, can := group.(*controlplanev1.KubeadmControlPlane); !can {
		return h
	}
	if json.Unmarshal([]byte(group.GetAnnotations()[controlplanev1.HibernationAnnotation]), &h) != nil {
		return Hibernation{}
	}
	return h
}

// String writes the value of the annotation.
func (h Hibernation) String() string {
	text, err := json.Marshal(h)
	if err != nil { // a time of a year with five digits
		return ""
	}
	return string(text)
}

// IsAsleep reports whether machines go, or are gone.
func (h Hibernation) IsAsleep() bool { return h.Backup != "" && !h.Woken }

// IsNone reports whether no hibernation is noted.
func (h Hibernation) IsNone() bool { return h.Requested.IsZero() && h.Backup == "" && !h.Woken }

// StoreRef names the store of the backup as a spec does.
func (h Hibernation) StoreRef() controlplanev1.BackupStoreReference {
	kind, name, _ := strings.Cut(h.Store, "/")
	return controlplanev1.BackupStoreReference{Kind: controlplanev1.BackupStoreKind(kind), Name: name}
}

// WakeName is the name of the recovery by which a group wakes.
func (h Hibernation) WakeName(group client.Object) string {
	return group.GetName() + "-wake-" + h.Backup
}

// WakeIdentityName is the name of the secret with the age identity that decrypts the backup of a group that wakes.
func WakeIdentityName(group client.Object) string { return group.GetName() + "-wake-identity" }

// isWake reports whether a recovery is the one by which a group wakes: from the backup of its hibernation, and with no machine declared
// off.
func isWake(r *EtcdRecovery, group client.Object) bool {
	h, seed := HibernationOf(group), SeedOf(r)
	return h.Backup != "" && r.Name == h.WakeName(group) && r.Spec.Backup == h.Backup && StoreOf(r.Spec.StoreRef) == h.Store &&
		r.Spec.FormerClusterUID == "" && len(r.Spec.Off) == 0 && (seed == nil || seed.Backup == h.Backup)
}

// RecoveryAllowed is when a person approved a recovery as it is, or now, where a group wakes by it: what its spec says is the person's
// word. Zero: nobody did.
func RecoveryAllowed(r *EtcdRecovery, cluster string, group client.Object, now time.Time, hibernate bool) time.Time {
	begun := r.Annotations[backupv1alpha1.RecoveryBegunAnnotation] != ""
	if isWake(r, group) && (begun || !hibernate) {
		return now
	}
	return RecoveryApproved(r, cluster)
}

// addPower adds whether the machines are to run, and how far the group's hibernation is.
func (t wants) addPower() {
	h, p := HibernationOf(t.Object), &t.Facts.Power
	t.Hibernation = h
	p.Hibernate = t.Spec.Hibernate
	switch {
	case h.Woken:
		p.Woken = true
	default:
		p.Requested, p.Backup, p.Taken, p.Since = h.Requested, h.Backup, h.Taken, h.Since
	}
	if p.Hibernate && t.Spec.Backup == nil {
		p.Refused = "spec.powerState is Hibernated, and spec.backup is missing: the control plane could not wake; set spec.backup, or Running"
	}
}

// WorkerSets are what keeps the workers of a cluster.
type WorkerSets struct {
	Deployments []clusterv1.MachineDeployment
	// Pools are the names of MachinePools with machines.
	Pools []string
}

// ListWorkerSets returns what keeps the workers of a cluster.
func ListWorkerSets(ctx context.Context, from client.Reader, cluster *clusterv1.Cluster) (WorkerSets, error) {
	list, sets := &clusterv1.MachineDeploymentList{}, WorkerSets{}
	of := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}
	if err := from.List(ctx, list, client.InNamespace(cluster.Namespace), of); err != nil {
		return sets, fmt.Errorf("listing the MachineDeployments of cluster %s: %w", cluster.Name, err)
	}
	sets.Deployments = list.Items
	slices.SortFunc(sets.Deployments, func(a, b clusterv1.MachineDeployment) int { return strings.Compare(a.Name, b.Name) })
	pools, err := ListMachinePools(ctx, from, cluster.Namespace, cluster.Name)
	slices.Sort(pools)
	sets.Pools = pools
	return sets, err
}

// TopologyReplicas returns the numbers of replicas that the topology of a cluster names, by the names of its MachineDeployments there.
// Cluster API writes these into the MachineDeployments again and again; of one without a number it leaves the replicas alone.
func TopologyReplicas(cluster *clusterv1.Cluster) map[string]*int32 {
	named := map[string]*int32{}
	for i := range cluster.Spec.Topology.Workers.MachineDeployments {
		if d := &cluster.Spec.Topology.Workers.MachineDeployments[i]; d.Replicas != nil {
			named[d.Name] = d.Replicas
		}
	}
	return named
}

// TopologyName is the name that a MachineDeployment has in the topology of its cluster; empty: none.
func TopologyName(d *clusterv1.MachineDeployment) string {
	return d.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]
}

// addRunning adds what keeps workers of a group that is on its way into hibernation. MachinePools are not scaled.
func addRunning(ctx context.Context, t *Observer) error {
	p := &t.Facts.Power
	if !p.Hibernate || p.Backup != "" || p.Refused != "" {
		return nil
	}
	sets, err := ListWorkerSets(ctx, t.Cache, t.Cluster)
	if t.Once && apierrors.IsForbidden(err) {
		return nil // a user may look without that right
	}
	if err != nil {
		return err
	}
	if len(sets.Pools) > 0 {
		p.Refused = fmt.Sprintf("spec.powerState is Hibernated, and Quorate does not scale MachinePools: delete %s, or set Running",
			strings.Join(sets.Pools, ", "))
		return nil
	}
	p.Running = running(sets, t.Cluster)
	return nil
}

// running are the names of the MachineDeployments that want machines.
func running(sets WorkerSets, cluster *clusterv1.Cluster) []string {
	named := TopologyReplicas(cluster)
	var names []string
	for i := range sets.Deployments {
		d := &sets.Deployments[i]
		replicas := d.Spec.Replicas
		if of := named[TopologyName(d)]; of != nil {
			replicas = of
		}
		if ptr.Deref(replicas, 1) > 0 && d.DeletionTimestamp.IsZero() {
			names = append(names, d.Name)
		}
	}
	return names
}

// KeptReplicas reads what HibernatedReplicasAnnotation says of a Cluster. What is no number is left out.
func KeptReplicas(text string) map[string]int32 {
	kept := map[string]int32{}
	for _, entry := range strings.Split(text, ",") {
		name, number, _ := strings.Cut(entry, "=")
		if n, err := strconv.ParseInt(number, 10, 32); err == nil && n >= 0 {
			kept[name] = int32(n)
		}
	}
	return kept
}
