package provider

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
)

// addRole decides whether the machine begins the etcd cluster or joins it, and through whom. Another etcd cluster beside one that exists
// would be the end of its data, so that all there is must agree that there was never a member before a machine begins.
func (r *Controller) addRole(ctx context.Context, s *scope, m *etcdadm.Member) (*obstacle, error) {
	now := &etcdclusterv1alpha1.EtcdCluster{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.etcd), now); err != nil {
		return nil, fmt.Errorf("reading EtcdCluster %s: %w", s.etcd.Name, err)
	}
	if now.UID != s.etcd.UID {
		return waits(bootstrapv1alpha1.WaitingForEtcdClusterReason, "EtcdCluster %s was made again", s.etcd.Name), nil
	}
	if by := s.machine.Annotations[observe.SeededByAnnotation]; by != "" {
		return r.restore(ctx, s, by, m)
	}
	if etcdadm.Initialized(now) {
		return r.join(ctx, now, m)
	}
	return r.begin(ctx, s, now, m)
}

// join has the machine join through the members that there are.
func (r *Controller) join(ctx context.Context, now *etcdclusterv1alpha1.EtcdCluster, m *etcdadm.Member) (*obstacle, error) {
	m.Role, m.Endpoints = etcdadm.Join, etcdadm.EndpointsOf(now)
	if len(m.Endpoints) == 0 {
		return waits(bootstrapv1alpha1.WaitingForEndpointsReason, "EtcdCluster %s names no member that answers", now.Name), nil
	}
	return nil, r.unlock(ctx, now)
}

// restore has the machine begin an etcd cluster with the seed of the EtcdRecovery of a UID. The controller of EtcdCluster made it for that
// once no member of the cluster before could answer.
func (r *Controller) restore(ctx context.Context, s *scope, by string, m *etcdadm.Member) (*obstacle, error) {
	var all backupv1alpha1.EtcdRecoveryList
	if err := r.Client.List(ctx, &all, client.InNamespace(s.config.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the EtcdRecoveries of namespace %s: %w", s.config.Namespace, err)
	}
	i := slices.IndexFunc(all.Items, func(e backupv1alpha1.EtcdRecovery) bool { return string(e.UID) == by })
	o := waits(bootstrapv1alpha1.WaitingForSeedReason, "Machine %s restores the seed of an EtcdRecovery, which goes on no more",
		s.machine.Name)
	o.unwatched = true
	if i < 0 || !observe.IsOpen(&all.Items[i]) {
		return o, nil
	}
	found := &all.Items[i]
	seed := observe.SeedOf(found)
	if seed == nil || observe.RecoveryApproved(found, string(s.cluster.UID)).IsZero() {
		o.message = fmt.Sprintf("EtcdRecovery %s is not approved as it is", found.Name)
		return o, nil
	}
	from, err := observe.SeedSourceOf(ctx, r.APIReader, found)
	if err != nil {
		return nil, err
	}
	m.Role = etcdadm.Restore
	m.Seed = &etcdadm.Seed{
		Host: from.Host, Address: from.Address, Path: from.Path, Certificate: from.Certificate, Token: from.TokenOf(s.machine.Name),
		SHA256: seed.SHA256, Cluster: s.machine.Name + "-" + by,
	}
	return nil, nil
}

// begin has the machine begin the etcd cluster, unless another one may have.
func (r *Controller) begin(ctx context.Context, s *scope, now *etcdclusterv1alpha1.EtcdCluster, m *etcdadm.Member) (*obstacle, error) {
	m.Role = etcdadm.Init
	if o, err := r.otherKeeper(ctx, s, now); o != nil || err != nil {
		return o, err
	}
	other, err := r.begun(ctx, s)
	if err == nil && other == "" {
		other, err = r.lock(ctx, now, s.machine)
	}
	if err == nil && other != "" {
		return waits(bootstrapv1alpha1.WaitingForFirstMemberReason, "waiting until Machine %s has become the first member", other), nil
	}
	return nil, err
}

// otherKeeper returns an obstacle where another EtcdCluster keeps the etcd of the Cluster.
func (r *Controller) otherKeeper(ctx context.Context, s *scope, now *etcdclusterv1alpha1.EtcdCluster) (*obstacle, error) {
	var all etcdclusterv1alpha1.EtcdClusterList
	if err := r.APIReader.List(ctx, &all, client.InNamespace(now.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the EtcdClusters of namespace %s: %w", now.Namespace, err)
	}
	keeper := etcdadm.Keeper(all.Items, s.cluster.Name)
	if keeper == nil || keeper.UID == now.UID {
		return nil, nil
	}
	o := waits(bootstrapv1alpha1.AnotherEtcdClusterReason, "EtcdCluster %s keeps the etcd of Cluster %s; a Cluster can have only one",
		keeper.Name, s.cluster.Name)
	o.unwatched = true
	return o, nil
}

// begun returns the name of another Machine of the Cluster's etcd that has bootstrap data. Whatever it was told, it may be a member of
// this EtcdCluster, or of one that was there before it. Empty: there is none.
func (r *Controller) begun(ctx context.Context, s *scope) (string, error) {
	var all clusterv1.MachineList
	if err := r.APIReader.List(ctx, &all, client.InNamespace(s.config.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}); err != nil {
		return "", fmt.Errorf("listing the Machines of cluster %s: %w", s.cluster.Name, err)
	}
	for i := range all.Items {
		m := &all.Items[i]
		if m.UID != s.machine.UID && etcdClusterOf(m) != "" && m.Spec.Bootstrap.DataSecretName != nil {
			return m.Name, nil
		}
	}
	return "", nil
}

// The entries of the lock.
const (
	lockMachine = "machine"
	lockUID     = "uid"
)

// lockName is the ConfigMap that lets one machine begin. The kubeadm bootstrap provider has one of its own, CLUSTER-lock.
func lockName(e *etcdclusterv1alpha1.EtcdCluster) string { return e.Name + "-etcd-lock" }

// lock lets the machine begin the etcd cluster, unless it is another one that may; then it returns that one's name. A machine that is
// gone lets the next one begin.
func (r *Controller) lock(ctx context.Context, e *etcdclusterv1alpha1.EtcdCluster, m *clusterv1.Machine) (string, error) {
	found := &corev1.ConfigMap{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: lockName(e)}, found)
	switch {
	case apierrors.IsNotFound(err):
		return r.take(ctx, e, m)
	case err != nil:
		return "", fmt.Errorf("reading ConfigMap %s: %w", lockName(e), err)
	case found.Data[lockUID] == string(m.UID):
		return "", nil
	}
	holder := found.Data[lockMachine]
	other := &clusterv1.Machine{}
	err = r.APIReader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: holder}, other)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading Machine %s: %w", holder, err)
	}
	if err == nil && string(other.UID) == found.Data[lockUID] {
		return holder, nil
	}
	if err := r.drop(ctx, found); err != nil {
		return "", err
	}
	return r.take(ctx, e, m)
}

// take makes the lock, and returns who was faster, if anybody.
func (r *Controller) take(ctx context.Context, e *etcdclusterv1alpha1.EtcdCluster, m *clusterv1.Machine) (string, error) {
	made := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: lockName(e), Labels: map[string]string{clusterv1.ClusterNameLabel: m.Spec.ClusterName},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, etcdclusterv1alpha1.GroupVersion.WithKind("EtcdCluster"))},
		},
		Data: map[string]string{lockMachine: m.Name, lockUID: string(m.UID)},
	}
	err := r.Client.Create(ctx, made)
	if err == nil {
		return "", nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("creating ConfigMap %s: %w", made.Name, err)
	}
	found := &corev1.ConfigMap{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(made), found); err != nil {
		return "", fmt.Errorf("reading ConfigMap %s: %w", made.Name, err)
	}
	if found.Data[lockUID] == string(m.UID) {
		return "", nil
	}
	return found.Data[lockMachine], nil
}

// unlock removes the lock of an etcd cluster that has begun.
func (r *Controller) unlock(ctx context.Context, e *etcdclusterv1alpha1.EtcdCluster) error {
	found := &corev1.ConfigMap{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: lockName(e)}, found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", lockName(e), err)
	}
	return r.drop(ctx, found)
}

func (r *Controller) drop(ctx context.Context, found *corev1.ConfigMap) error {
	err := r.Client.Delete(ctx, found, client.Preconditions{UID: ptr.To(found.UID)})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting ConfigMap %s: %w", found.Name, err)
	}
	return nil
}
