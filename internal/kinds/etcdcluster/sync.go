package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
)

// Sync implements group.Kind: the Cluster owns the etcd cluster, the certificates that control planes read are renewed, and when those of
// members end is recorded.
func (*Kind) Sync(ctx context.Context, t *act.Writer) error {
	return errors.Join(ownedByCluster(ctx, t), publish(ctx, t), recordExpiries(ctx, t))
}

// ownedByCluster makes the Cluster an owner of the etcd cluster, so that it moves with the Cluster.
func ownedByCluster(ctx context.Context, t *act.Writer) error {
	owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: t.Cluster.Name, UID: t.Cluster.UID}
	if util.HasExactOwnerRef(t.Object.GetOwnerReferences(), owner) {
		return nil
	}
	after := of(t.View).DeepCopy()
	after.OwnerReferences = util.EnsureOwnerRef(after.OwnerReferences, owner)
	if err := t.Change(ctx, t.Object, after); err != nil {
		return fmt.Errorf("making cluster %s an owner of EtcdCluster %s: %w", t.Cluster.Name, t.Object.GetName(), err)
	}
	t.Object = after
	t.Memory.Writes.ExpectObject(after)
	return nil
}

// memory is what is kept of one etcd cluster between turns.
type memory struct {
	// endpoint is the one that the infrastructure offers; empty: none. looked: that was read. published is when the certificates were
	// looked at.
	endpoint  string
	looked    bool
	published metav1.Time
}

// memoryOf returns what is kept of a turn's etcd cluster.
func memoryOf(m *observe.Memory) *memory {
	if m.Own == nil {
		m.Own = &memory{}
	}
	return m.Own.(*memory)
}

// publish has the secrets there that control planes read, and renews the client certificate in them long before its end.
func publish(ctx context.Context, t *act.Writer) error {
	m := memoryOf(t.Memory)
	if !t.Facts.Group.Initialized || t.Facts.Now.Sub(m.published.Time) < observe.SlowTime {
		return nil
	}
	if err := t.PublishEtcd(ctx); err != nil {
		return err
	}
	m.published.Time = t.Facts.Now
	return nil
}

// offerKnown reports whether the infrastructure was asked whether it offers an endpoint.
func offerKnown(t *observe.View) bool {
	return !t.Cluster.Spec.InfrastructureRef.IsDefined() || memoryOf(t.Memory).looked
}

// Read implements group.Kind: the endpoint that the infrastructure offers. The secrets are the bootstrap provider's, which knows when
// there is no member yet.
func (*Kind) Read(ctx context.Context, t *observe.Observer) error {
	if err := refuseSecond(ctx, t); err != nil {
		return err
	}
	m := memoryOf(t.Memory)
	ref := t.Cluster.Spec.InfrastructureRef
	if !ref.IsDefined() {
		return nil
	}
	infrastructure, err := t.Find(ctx, machine.InfrastructureRef, ref)
	if refused := machine.Refused(err); refused != nil {
		t.Refuse(plan.Refusal{Reason: "ReferenceRefused", Message: "spec.infrastructureRef of Cluster " + t.Cluster.Name + ": " +
			refused.Error()})
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for an endpoint for etcd: %w", err)
	}
	if infrastructure == nil {
		return nil // it comes: no machine is made before
	}
	m.endpoint, _, _ = unstructured.NestedString(infrastructure.Object, "status", "etcdEndpoint", "host")
	if port, _, _ := unstructured.NestedInt64(infrastructure.Object, "status", "etcdEndpoint", "port"); m.endpoint != "" && port > 0 {
		m.endpoint = net.JoinHostPort(m.endpoint, strconv.FormatInt(port, 10))
	}
	if t.Facts.Cluster.Infrastructure { // what it offers before it is provisioned is not all
		m.looked = true
	}
	return nil
}

// refuseSecond begins nothing where another EtcdCluster keeps the etcd of the Cluster.
func refuseSecond(ctx context.Context, t *observe.Observer) error {
	keeper, err := otherKeeper(ctx, t)
	if keeper != "" {
		t.Refuse(plan.Refusal{Reason: "AnotherEtcdCluster", Message: fmt.Sprintf(
			"EtcdCluster %s keeps the etcd of Cluster %s; a Cluster can have only one: delete EtcdCluster %s", keeper, t.Cluster.Name,
			t.Object.GetName())})
	}
	return err
}

// needNothing: no machine of the Cluster has to go before an EtcdCluster without machines if another one keeps their etcd.
func needNothing(ctx context.Context, t *observe.Observer) error {
	if !t.Facts.Group.Deleting || len(t.Machines) > 0 || len(t.Facts.Workers) == 0 {
		return nil
	}
	keeper, err := otherKeeper(ctx, t)
	if keeper != "" {
		t.Facts.Workers = nil
	}
	return err
}

// otherKeeper returns the name of the EtcdCluster that keeps the etcd of the Cluster if it is not the turn's; "" otherwise.
func otherKeeper(ctx context.Context, t *observe.Observer) (string, error) {
	var all v1alpha1.EtcdClusterList
	if err := t.Cache.List(ctx, &all, client.InNamespace(t.Object.GetNamespace())); err != nil {
		return "", fmt.Errorf("listing the EtcdClusters of namespace %s: %w", t.Object.GetNamespace(), err)
	}
	if keeper := etcdadm.Keeper(all.Items, t.Cluster.Name); keeper != nil && keeper.UID != t.Object.GetUID() {
		return keeper.Name, nil
	}
	return "", nil
}
