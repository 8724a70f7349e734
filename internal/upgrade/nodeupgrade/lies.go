package nodeupgrade

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=controlplaneupgrades;machinedeploymentupgrades,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments,verbs=list;watch

// lies returns which field of a NodeUpgrade contradicts its Machine, with the value and what is valid; empty: none does. Other controllers
// count a NodeUpgrade by its label, and delete it with its owners.
func (c *Controller) lies(ctx context.Context, s *scope) (string, error) {
	u, m := s.upgrade, s.machine
	if m == nil {
		return "", nil
	}
	if named := u.Labels[clusterv1.ClusterNameLabel]; named != "" && named != m.Spec.ClusterName {
		return fmt.Sprintf("label %s is %q: must be %q, the Cluster of Machine %s",
			clusterv1.ClusterNameLabel, named, m.Spec.ClusterName, m.Name), nil
	}
	for i, o := range u.OwnerReferences {
		wrong, err := c.wrongOwner(ctx, s, o)
		if err != nil {
			return "", fmt.Errorf("reading %s %s, an owner of NodeUpgrade %s: %w", o.Kind, o.Name, u.Name, err)
		}
		if wrong != "" {
			return fmt.Sprintf("metadata.ownerReferences[%d] %s", i, wrong), nil
		}
	}
	return "", nil
}

// wrongOwner returns why an owner contradicts the Machine; empty: it does not. Kubernetes itself deletes the objects of owners that do not
// exist.
func (c *Controller) wrongOwner(ctx context.Context, s *scope, o metav1.OwnerReference) (string, error) {
	m := s.machine
	switch (schema.GroupKind{Group: schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group, Kind: o.Kind}) {
	case schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Machine"}:
		switch {
		case o.Name != m.Name:
			return fmt.Sprintf("names Machine %q: must be %q, which spec.machine names", o.Name, m.Name), nil
		case o.UID != m.UID:
			return fmt.Sprintf("has uid %q: must be %q, that of Machine %s", o.UID, m.UID, m.Name), nil
		}
	case schema.GroupKind{Group: upgradev1.GroupVersion.Group, Kind: "ControlPlaneUpgrade"}:
		return c.wrongControlPlane(ctx, s, o)
	case schema.GroupKind{Group: upgradev1.GroupVersion.Group, Kind: "MachineDeploymentUpgrade"}:
		return c.wrongDeployment(ctx, s, o)
	}
	return "", nil
}

// wrongControlPlane returns why a ControlPlaneUpgrade is not one of the Machine's Cluster; empty: it is.
func (c *Controller) wrongControlPlane(ctx context.Context, s *scope, o metav1.OwnerReference) (string, error) {
	owner := &upgradev1.ControlPlaneUpgrade{}
	if there, err := c.owner(ctx, s, o, owner); err != nil || !there {
		return "", err
	}
	if wrong := s.wrongLabel(o, owner); wrong != "" || s.cluster == nil || !s.cluster.Spec.ControlPlaneRef.IsDefined() {
		return wrong, nil
	}
	named, own := owner.Spec.ControlPlane, s.cluster.Spec.ControlPlaneRef
	if named.GroupKind() == own.GroupKind() && named.Name == own.Name {
		return "", nil
	}
	return fmt.Sprintf("names ControlPlaneUpgrade %q, whose spec.controlPlane is %s %q: must be %s %q, the control plane of Cluster %s",
		o.Name, named.Kind, named.Name, own.Kind, own.Name, s.cluster.Name), nil
}

// wrongDeployment returns why a MachineDeploymentUpgrade is not one of the Machine's Cluster; empty: it is.
func (c *Controller) wrongDeployment(ctx context.Context, s *scope, o metav1.OwnerReference) (string, error) {
	owner := &upgradev1.MachineDeploymentUpgrade{}
	if there, err := c.owner(ctx, s, o, owner); err != nil || !there {
		return "", err
	}
	if wrong := s.wrongLabel(o, owner); wrong != "" {
		return wrong, nil
	}
	md := &clusterv1.MachineDeployment{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: s.upgrade.Namespace, Name: owner.Spec.MachineDeployment.Name}, md)
	if err != nil || md.Spec.ClusterName == s.machine.Spec.ClusterName {
		return "", client.IgnoreNotFound(err)
	}
	return fmt.Sprintf("names MachineDeploymentUpgrade %q, whose spec.machineDeployment is %q of Cluster %s: must be a MachineDeployment of "+
		"Cluster %s",
		o.Name, md.Name, md.Spec.ClusterName, s.machine.Spec.ClusterName), nil
}

// wrongLabel returns why the label of an owner contradicts the Machine; empty: it does not.
func (s *scope) wrongLabel(o metav1.OwnerReference, owner client.Object) string {
	named := owner.GetLabels()[clusterv1.ClusterNameLabel]
	if named == "" || named == s.machine.Spec.ClusterName {
		return ""
	}
	return fmt.Sprintf("names %s %q, whose label %s is %q: must be %q",
		o.Kind, o.Name, clusterv1.ClusterNameLabel, named, s.machine.Spec.ClusterName)
}

// owner reads an owner, and reports whether it exists with the UID of the reference.
func (c *Controller) owner(ctx context.Context, s *scope, o metav1.OwnerReference, into client.Object) (bool, error) {
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: s.upgrade.Namespace, Name: o.Name}, into)
	return err == nil && into.GetUID() == o.UID, client.IgnoreNotFound(err)
}

// isOf reports whether the Machine of a NodeUpgrade belongs to the scope's Cluster. The label of a NodeUpgrade alone does not show it:
// anyone who may create NodeUpgrades in the namespace can write it.
func (c *Controller) isOf(ctx context.Context, s *scope, u *upgradev1.NodeUpgrade) (bool, error) {
	m := &clusterv1.Machine{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: u.Spec.Machine.Name}, m)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Machine %s of NodeUpgrade %s: %w", u.Spec.Machine.Name, u.Name, err)
	}
	return err == nil && m.Spec.ClusterName == s.cluster.Name, nil
}
