package observe

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
)

// EtcdRecovery is the object of a recovery.
type EtcdRecovery = backupv1alpha1.EtcdRecovery

// Annotations of a recovery, and of the Machine that was made by its seed.
const (
	SeededByAnnotation      = backupv1alpha1.SeededByAnnotation
	RecoveryBegunAnnotation = backupv1alpha1.RecoveryBegunAnnotation
	RecoveryEndedAnnotation = backupv1alpha1.RecoveryEndedAnnotation
)

// Seed describes the backup that a recovery restores, as backupv1alpha1.RecoverySeedAnnotation holds it.
type Seed struct {
	// Backup is the backup's name, and Taken when it was taken.
	Backup string    `json:"backup"`
	Taken  time.Time `json:"taken"`
	// Revision is the revision of etcd that it holds.
	Revision int64 `json:"revision"`
	// Size and SHA256 are those of the snapshot, its own checksum included.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Member is the machine whose member was asked for it; empty: it is not known.
	Member string `json:"member,omitempty"`
}

// SeedOf reads the seed of a recovery; nil: there is none that can be read.
func SeedOf(r *EtcdRecovery) *Seed {
	s := &Seed{}
	if json.Unmarshal([]byte(r.Annotations[backupv1alpha1.RecoverySeedAnnotation]), s) != nil || s.Backup == "" || s.SHA256 == "" {
		return nil
	}
	return s
}

// digestLength is how many hexadecimal digits the digest of a recovery has.
const digestLength = 16

// RecoveryDigest is what a person approves of a recovery: the cluster, the seed and the machines that are given up. Empty while there is
// no seed.
func RecoveryDigest(r *EtcdRecovery, cluster string) string {
	if SeedOf(r) == nil {
		return ""
	}
	giveUp, off := slices.Sorted(slices.Values(r.Spec.GiveUp)), slices.Sorted(slices.Values(r.Spec.Off))
	approved := []any{cluster, r.UID, r.Annotations[backupv1alpha1.RecoverySeedAnnotation], giveUp, off}
	if former := r.Spec.FormerClusterUID; former != "" {
		approved = append(approved, former)
	}
	text, err := json.Marshal(approved)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digestLength]
}

// RecoveryApproved is when a person approved a recovery as it is; zero: not approved.
func RecoveryApproved(r *EtcdRecovery, cluster string) time.Time {
	digest := RecoveryDigest(r, cluster)
	if digest == "" || r.Annotations[controlplanev1.ApprovedAnnotation] != digest {
		return time.Time{}
	}
	at, _, _ := strings.Cut(r.Annotations[controlplanev1.ApprovedByAnnotation], " ")
	approved, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return time.Time{}
	}
	return approved
}

// RecoveryOf returns the recovery of a cluster that is to be carried out; nil: there is none. One that has begun comes first, then the
// oldest.
func RecoveryOf(all []EtcdRecovery, cluster string) *EtcdRecovery {
	var found *EtcdRecovery
	for i := range all {
		r := &all[i]
		if r.Spec.ClusterName != cluster || !r.DeletionTimestamp.IsZero() || r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] != "" {
			continue
		}
		if found == nil || compareRecoveries(r, found) < 0 {
			found = r
		}
	}
	return found
}

// HeldBackups returns the names of the backups that the EtcdRecoveries of a namespace name, or have found, and that have not ended.
// Retention keeps them: newer ones may be taken before a person approves the recovery.
func HeldBackups(ctx context.Context, c client.Reader, namespace string) (map[string]bool, error) {
	list := &backupv1alpha1.EtcdRecoveryList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the EtcdRecoveries of namespace %s: %w", namespace, err)
	}
	held := map[string]bool{}
	for i := range list.Items {
		r := &list.Items[i]
		if r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] != "" {
			continue
		}
		held[r.Spec.Backup] = true
		if seed := SeedOf(r); seed != nil {
			held[seed.Backup] = true
		}
	}
	return held, nil
}

func compareRecoveries(a, b *EtcdRecovery) int {
	begun := func(r *EtcdRecovery) int {
		if r.Annotations[backupv1alpha1.RecoveryBegunAnnotation] != "" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(begun(a), begun(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// IsOpen reports whether the snapshot of a recovery is handed out: it began, and has not ended.
func IsOpen(r *EtcdRecovery) bool {
	begun, ended := r.Annotations[RecoveryBegunAnnotation], r.Annotations[RecoveryEndedAnnotation]
	return begun != "" && ended == "" && r.DeletionTimestamp.IsZero()
}

// addRecovery adds the requested recovery.
func addRecovery(ctx context.Context, t *Observer) error {
	if !t.Type.Seeds || !t.Spec.HoldsQuorum {
		return nil
	}
	list := &backupv1alpha1.EtcdRecoveryList{}
	err := t.Cache.List(ctx, list, client.InNamespace(t.Object.GetNamespace()))
	if t.Once && (apierrors.IsForbidden(err) || meta.IsNoMatchError(err)) {
		return nil // a user may look without that right, and at a manager of before
	}
	if err != nil {
		return fmt.Errorf("listing the EtcdRecoveries of cluster %s: %w", t.Cluster.Name, err)
	}
	r := RecoveryOf(list.Items, t.Cluster.Name)
	off := declaredOff(list.Items, t.Cluster.Name, string(t.Cluster.UID))
	if is, err := isRecovered(ctx, t, r != nil || len(off) > 0); err != nil || !is {
		return err
	}
	if t.Off = off; r == nil {
		return nil
	}
	t.Recovery = r
	t.Facts.Recovery = plan.Recovery{
		Name: r.Name, Approved: RecoveryAllowed(r, string(t.Cluster.UID), t.Object, t.Facts.Now, t.Spec.Hibernate),
		Begun:  r.Annotations[backupv1alpha1.RecoveryBegunAnnotation] != "",
		GiveUp: slices.Sorted(slices.Values(r.Spec.GiveUp)), Off: slices.Sorted(slices.Values(r.Spec.Off)),
	}
	if s := SeedOf(r); s != nil {
		t.Facts.Recovery.Seed = s.Backup
	}
	if c := conditions.Get(r, backupv1alpha1.RecoveredCondition); c != nil && t.Facts.Recovery.Seed == "" {
		t.Facts.Recovery.Trouble = Cut(c.Message, longestDrift)
	}
	return nil
}

// RecoveryTarget returns the object whose machines hold the etcd of a Cluster, and which a seed recovers. The error says why none can.
func RecoveryTarget(
	ctx context.Context, c client.Reader, cluster *clusterv1.Cluster,
) (clusterv1.ContractVersionedObjectReference, error) {
	target, why, err := kubeadm.RecoveryTarget(ctx, c, cluster)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return target, err
}

// IsOfTarget reports whether a Machine is one of those of what RecoveryTarget returned.
func IsOfTarget(m *clusterv1.Machine, target clusterv1.ContractVersionedObjectReference) bool {
	if target.Kind == "EtcdCluster" {
		return machine.EtcdCluster(m) == target.Name
	}
	return machine.IsControlPlane(m)
}

// isRecovered reports whether the recoveries of a Cluster are those of the group. Of an EtcdCluster they are while the control plane uses
// it.
func isRecovered(ctx context.Context, t *Observer, any bool) (bool, error) {
	if !any || !t.Type.Standalone {
		return any, nil
	}
	target, why, err := kubeadm.RecoveryTarget(ctx, t.Cache, t.Cluster)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return why == "" && target.Kind == t.Type.Kind && target.Name == t.Object.GetName(), nil
}

// declaredOff returns the machines of a cluster that a person declared off, by approved recoveries that began, and when each was created.
func declaredOff(all []EtcdRecovery, cluster, uid string) map[string]metav1.Time {
	off := map[string]metav1.Time{}
	for i := range all {
		r := &all[i]
		begun := r.Annotations[backupv1alpha1.RecoveryBegunAnnotation] != ""
		if r.Spec.ClusterName != cluster || !begun || RecoveryApproved(r, uid).IsZero() {
			continue
		}
		for _, name := range r.Spec.Off {
			if at := off[name]; at.Before(&r.CreationTimestamp) {
				off[name] = r.CreationTimestamp
			}
		}
	}
	return off
}

// isOff reports whether a person declared off for good a machine that is being deleted, in a recovery that was asked for after the machine
// was made. It had its member in a cluster of etcd that is no more.
func (o matching) isOff(m *Machine) bool {
	at, off := o.Off[m.Name]
	return off && !m.DeletionTimestamp.IsZero() && !at.Before(&m.CreationTimestamp)
}

// isGone reports whether nothing is left of a machine on its host: its infrastructure says so, or, in a recovery, Cluster API has deleted
// it.
func (o matching) isGone(m *Machine) bool {
	return machine.Vanished(m.Infrastructure) || o.Facts.Recovery.Begun && machine.InfrastructureDeleted(m.Machine)
}

// isSeeded reports whether a machine was made by the seed of the recovery.
func (o matching) isSeeded(m *Machine) bool {
	return o.Recovery != nil && m.Annotations[SeededByAnnotation] == string(o.Recovery.UID)
}

// SeedSource is where the machine that is made by a seed fetches the snapshot.
type SeedSource struct {
	// Host is the name in the server's certificate, Address the host:port at which it is reached, and Path where the snapshot is.
	Host, Address, Path string
	// Certificate is the server's, in PEM, and Token the key of the machines' tokens.
	Certificate, Token string
}

// TokenOf returns what a machine shows to fetch the snapshot: its name, and the proof that it was told by who made it.
func (s SeedSource) TokenOf(machine string) string {
	mac := hmac.New(sha256.New, []byte(s.Token))
	mac.Write([]byte(machine))
	return machine + "." + hex.EncodeToString(mac.Sum(nil))
}

// The keys of the secret of a seed, beside those of a TLS secret.
const (
	SeedTokenKey   = "token"
	SeedAddressKey = "address"
)

// SeedSecretName is the name of the secret by which the snapshot of a recovery is handed out.
func SeedSecretName(r *EtcdRecovery) string { return r.Name + "-seed" }

// SeedHost is the name in the certificate of the server that hands out the snapshot of a recovery. It resolves nowhere.
func SeedHost(r *EtcdRecovery) string { return string(r.UID) + ".seed.quorate" }

// SeedPath is where that server has the snapshot.
func SeedPath(r *EtcdRecovery) string { return "v1/seeds/" + r.Namespace + "/" + r.Name }

// SeedSourceOf reads where the snapshot of a recovery is handed out.
func SeedSourceOf(ctx context.Context, secrets client.Reader, r *EtcdRecovery) (SeedSource, error) {
	s := &corev1.Secret{}
	if err := secrets.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: SeedSecretName(r)}, s); err != nil {
		return SeedSource{}, fmt.Errorf("reading secret %s: %w", SeedSecretName(r), err)
	}
	from := SeedSource{
		Host: SeedHost(r), Address: string(s.Data[SeedAddressKey]), Path: SeedPath(r),
		Certificate: string(s.Data[corev1.TLSCertKey]), Token: string(s.Data[SeedTokenKey]),
	}
	if from.Address == "" || from.Certificate == "" || from.Token == "" {
		return SeedSource{}, fmt.Errorf("secret %s must have %s, %s and %s", s.Name, SeedAddressKey, corev1.TLSCertKey, SeedTokenKey)
	}
	return from, nil
}

// Silent returns an error unless nothing answers at the endpoint of a cluster now. Before a snapshot is handed out that is asked once more:
// minutes may have passed since the machine was made, and a machine without an object may have come back meanwhile.
func Silent(ctx context.Context, secrets client.Reader, cluster *clusterv1.Cluster) error {
	config, err := workload.ConfigOf(ctx, secrets, client.ObjectKeyFromObject(cluster))
	if err != nil {
		return err
	}
	return workload.Silent(ctx, config)
}
