package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/machine"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-upgrade-cluster-x-k8s-io-v1alpha1-nodeupgrade,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=upgrade.cluster.x-k8s.io,resources=nodeupgrades,versions=v1alpha1,name=validation.nodeupgrade.upgrade.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-upgrade-cluster-x-k8s-io-v1alpha1-controlplaneupgrade,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=upgrade.cluster.x-k8s.io,resources=controlplaneupgrades,versions=v1alpha1,name=validation.controlplaneupgrade.upgrade.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-upgrade-cluster-x-k8s-io-v1alpha1-machinedeploymentupgrade,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=upgrade.cluster.x-k8s.io,resources=machinedeploymentupgrades,versions=v1alpha1,name=validation.machinedeploymentupgrade.upgrade.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list

// NodeUpgrade validates what the schema of NodeUpgrades cannot express.
type NodeUpgrade struct {
	// Reader reads Machines; nil: only the object itself is checked.
	Reader client.Reader
}

var _ admission.Validator[*upgradev1.NodeUpgrade] = &NodeUpgrade{}

// ValidateCreate refuses names and images that cannot exist, and the Machine of another Cluster.
func (v *NodeUpgrade) ValidateCreate(ctx context.Context, u *upgradev1.NodeUpgrade) (admission.Warnings, error) {
	spec := field.NewPath("spec")
	wrong := checkName(u.Spec.Machine.Name, spec.Child("machine", "name"))
	wrong = append(wrong, checkImage(u.Spec.UpgraderImage, spec.Child("upgraderImage"))...)
	return nil, v.refuse(ctx, u, wrong)
}

// ValidateUpdate refuses a new spec or a new label that ValidateCreate refuses.
func (v *NodeUpgrade) ValidateUpdate(ctx context.Context, before, after *upgradev1.NodeUpgrade) (admission.Warnings, error) {
	switch {
	case !equality.Semantic.DeepEqual(before.Spec, after.Spec):
		return v.ValidateCreate(ctx, after)
	case isRelabelled(before, after):
		return nil, v.refuse(ctx, after, nil)
	}
	return nil, nil
}

// ValidateDelete refuses nothing.
func (v *NodeUpgrade) ValidateDelete(context.Context, *upgradev1.NodeUpgrade) (admission.Warnings, error) {
	return nil, nil
}

// refuse returns the refusal of a NodeUpgrade with what is wrong already, or with a Machine of another Cluster; nil: it is accepted.
func (v *NodeUpgrade) refuse(ctx context.Context, u *upgradev1.NodeUpgrade, wrong field.ErrorList) error {
	all := upgraded{of: u, names: []upgradev1.MachineReference{u.Spec.Machine}}
	all.at = func(int) *field.Path { return field.NewPath("spec", "machine", "name") }
	return all.refuse(ctx, v.Reader, "NodeUpgrade", wrong)
}

// ControlPlaneUpgrade validates what the schema of ControlPlaneUpgrades cannot express.
type ControlPlaneUpgrade struct {
	// Reader reads Machines; nil: only the object itself is checked.
	Reader client.Reader
}

var _ admission.Validator[*upgradev1.ControlPlaneUpgrade] = &ControlPlaneUpgrade{}

// ValidateCreate refuses names that cannot exist, kinds that are no control planes, Machines of another Cluster or control plane, and what Quorate did not create.
func (v *ControlPlaneUpgrade) ValidateCreate(ctx context.Context, u *upgradev1.ControlPlaneUpgrade) (admission.Warnings, error) {
	if wrong := checkMade(u, u.Spec.ControlPlane.GroupKind(), u.Spec.ControlPlane.Name, "set its spec.version and spec.inPlace.policy"); len(wrong) > 0 {
		return nil, v.refuse(ctx, u, wrong)
	}
	return v.validate(ctx, u)
}

func (v *ControlPlaneUpgrade) validate(ctx context.Context, u *upgradev1.ControlPlaneUpgrade) (admission.Warnings, error) {
	at := field.NewPath("spec", "controlPlane")
	wrong := append(checkRef(machine.ControlPlaneRef, u.Spec.ControlPlane, at), checkName(u.Spec.ControlPlane.Name, at.Child("name"))...)
	return nil, v.refuse(ctx, u, append(wrong, checkMachineNames(u.Spec.MachinesRequireUpgrade)...))
}

// ValidateUpdate refuses a new spec or a new label that ValidateCreate refuses.
func (v *ControlPlaneUpgrade) ValidateUpdate(ctx context.Context, before, after *upgradev1.ControlPlaneUpgrade) (admission.Warnings, error) {
	switch {
	case !equality.Semantic.DeepEqual(before.Spec, after.Spec):
		return v.validate(ctx, after)
	case isRelabelled(before, after):
		return nil, v.refuse(ctx, after, nil)
	}
	return nil, nil
}

// ValidateDelete refuses nothing.
func (v *ControlPlaneUpgrade) ValidateDelete(context.Context, *upgradev1.ControlPlaneUpgrade) (admission.Warnings, error) {
	return nil, nil
}

func (v *ControlPlaneUpgrade) refuse(ctx context.Context, u *upgradev1.ControlPlaneUpgrade, wrong field.ErrorList) error {
	all := upgraded{of: u, names: u.Spec.MachinesRequireUpgrade, at: atMachine, foreign: func(m *clusterv1.Machine) string {
		ref, owner := u.Spec.ControlPlane, metav1.GetControllerOf(m)
		switch {
		case !machine.IsControlPlane(m):
			return "the Machine belongs to no control plane"
		case owner != nil && (owner.Name != ref.Name || schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() != ref.GroupKind()):
			return fmt.Sprintf("the Machine belongs to %s %s: must be one of %s %s", owner.Kind, owner.Name, ref.Kind, ref.Name)
		}
		return ""
	}}
	return all.refuse(ctx, v.Reader, "ControlPlaneUpgrade", wrong)
}

// MachineDeploymentUpgrade validates what the schema of MachineDeploymentUpgrades cannot express.
type MachineDeploymentUpgrade struct {
	// Reader reads Machines; nil: only the object itself is checked.
	Reader client.Reader
}

var _ admission.Validator[*upgradev1.MachineDeploymentUpgrade] = &MachineDeploymentUpgrade{}

// ValidateCreate refuses names that cannot exist, Machines of another Cluster or MachineDeployment, and what Quorate did not create.
func (v *MachineDeploymentUpgrade) ValidateCreate(ctx context.Context, u *upgradev1.MachineDeploymentUpgrade) (admission.Warnings, error) {
	of := clusterv1.GroupVersion.WithKind("MachineDeployment").GroupKind()
	instead := "set its spec.template.spec.version and the annotation " + upgradev1.PolicyAnnotation
	if wrong := checkMade(u, of, u.Spec.MachineDeployment.Name, instead); len(wrong) > 0 {
		return nil, v.refuse(ctx, u, wrong)
	}
	return v.validate(ctx, u)
}

func (v *MachineDeploymentUpgrade) validate(ctx context.Context, u *upgradev1.MachineDeploymentUpgrade) (admission.Warnings, error) {
	wrong := checkName(u.Spec.MachineDeployment.Name, field.NewPath("spec", "machineDeployment", "name"))
	return nil, v.refuse(ctx, u, append(wrong, checkMachineNames(u.Spec.MachinesRequireUpgrade)...))
}

// ValidateUpdate refuses a new spec or a new label that ValidateCreate refuses.
func (v *MachineDeploymentUpgrade) ValidateUpdate(ctx context.Context, before, after *upgradev1.MachineDeploymentUpgrade) (admission.Warnings, error) {
	switch {
	case !equality.Semantic.DeepEqual(before.Spec, after.Spec):
		return v.validate(ctx, after)
	case isRelabelled(before, after):
		return nil, v.refuse(ctx, after, nil)
	}
	return nil, nil
}

// ValidateDelete refuses nothing.
func (v *MachineDeploymentUpgrade) ValidateDelete(context.Context, *upgradev1.MachineDeploymentUpgrade) (admission.Warnings, error) {
	return nil, nil
}

func (v *MachineDeploymentUpgrade) refuse(ctx context.Context, u *upgradev1.MachineDeploymentUpgrade, wrong field.ErrorList) error {
	all := upgraded{of: u, names: u.Spec.MachinesRequireUpgrade, at: atMachine, foreign: func(m *clusterv1.Machine) string {
		if of := m.Labels[clusterv1.MachineDeploymentNameLabel]; of != u.Spec.MachineDeployment.Name {
			return fmt.Sprintf("the Machine belongs to MachineDeployment %q: must be one of %q", of, u.Spec.MachineDeployment.Name)
		}
		return ""
	}}
	return all.refuse(ctx, v.Reader, "MachineDeploymentUpgrade", wrong)
}

// upgraded are the Machines that an upgrade names.
type upgraded struct {
	of    client.Object
	names []upgradev1.MachineReference
	// at is the field that names the Machine of an index.
	at func(int) *field.Path
	// foreign returns why a Machine of the Cluster is not one that the upgrade may name; nil: all are.
	foreign func(*clusterv1.Machine) string
}

// refuse returns the refusal of an upgrade. Machines are read only if nothing is wrong already. Those that do not exist are accepted: a move to
// another management cluster may create them later.
func (all upgraded) refuse(ctx context.Context, reader client.Reader, kind string, wrong field.ErrorList) error {
	if reader != nil && len(wrong) == 0 {
		machines, err := all.read(ctx, reader)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		wrong = all.check(machines)
	}
	if len(wrong) == 0 {
		return nil
	}
	return apierrors.NewInvalid(upgradev1.GroupVersion.WithKind(kind).GroupKind(), all.of.GetName(), wrong)
}

// fewMachines is how many Machines are read one by one. For more, one list of the namespace takes less time than a webhook has.
const fewMachines = 10

// read returns the Machines that exist, by their names.
func (all upgraded) read(ctx context.Context, reader client.Reader) (map[string]*clusterv1.Machine, error) {
	machines := map[string]*clusterv1.Machine{}
	if len(all.names) > fewMachines {
		var list clusterv1.MachineList
		err := reader.List(ctx, &list, client.InNamespace(all.of.GetNamespace()))
		if apierrors.IsForbidden(err) {
			return machines, nil // a manager of another namespace: the controllers check it
		}
		if err != nil {
			return nil, fmt.Errorf("listing the Machines of namespace %s: %w", all.of.GetNamespace(), err)
		}
		for i := range list.Items {
			machines[list.Items[i].Name] = &list.Items[i]
		}
		return machines, nil
	}
	for _, ref := range all.names {
		m := &clusterv1.Machine{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: all.of.GetNamespace(), Name: ref.Name}, m)
		if apierrors.IsForbidden(err) {
			return machines, nil // a manager of another namespace: the controllers check it
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Machine %s: %w", ref.Name, err)
		}
		if err == nil {
			machines[ref.Name] = m
		}
	}
	return machines, nil
}

// check returns which Machines an upgrade must not name. Without the label all must be of the Cluster of the first.
func (all upgraded) check(machines map[string]*clusterv1.Machine) field.ErrorList {
	var wrong field.ErrorList
	cluster := all.of.GetLabels()[clusterv1.ClusterNameLabel]
	for i, ref := range all.names {
		m := machines[ref.Name]
		if m == nil {
			continue
		}
		if cluster == "" {
			cluster = m.Spec.ClusterName
		}
		switch {
		case m.Spec.ClusterName != cluster:
			why := fmt.Sprintf("the Machine belongs to Cluster %s: must be one of Cluster %s", m.Spec.ClusterName, cluster)
			wrong = append(wrong, field.Invalid(all.at(i), ref.Name, why))
		case all.foreign != nil && all.foreign(m) != "":
			wrong = append(wrong, field.Invalid(all.at(i), ref.Name, all.foreign(m)))
		}
	}
	return wrong
}

func atMachine(i int) *field.Path {
	return field.NewPath("spec", "machinesRequireUpgrade").Index(i).Child("name")
}

// isRelabelled reports whether an update changes the Cluster that an upgrade is labelled with.
func isRelabelled(before, after client.Object) bool {
	return before.GetLabels()[clusterv1.ClusterNameLabel] != after.GetLabels()[clusterv1.ClusterNameLabel]
}

// checkMachineNames is checkName for each of an upgrade's Machines.
func checkMachineNames(names []upgradev1.MachineReference) field.ErrorList {
	var wrong field.ErrorList
	for i, ref := range names {
		wrong = append(wrong, checkName(ref.Name, atMachine(i))...)
	}
	return wrong
}

// checkName returns an error if a field holds what no object can be named.
func checkName(value string, at *field.Path) field.ErrorList {
	var wrong field.ErrorList
	for _, why := range validation.IsDNS1123Subdomain(value) {
		wrong = append(wrong, field.Invalid(at, value, why))
	}
	return wrong
}

// checkImage returns an error if a field holds no image reference. The parser does not check the tag before a digest, nor the elements of a path.
func checkImage(value string, at *field.Path) field.ErrorList {
	if value == "" {
		return nil
	}
	tagged, _, _ := strings.Cut(value, "@")
	_, err := name.ParseReference(value)
	_, errTagged := name.ParseReference(tagged)
	odd := func(element string) bool { return element == "" || strings.ContainsRune("-._", rune(element[0])) }
	if err != nil || errTagged != nil || slices.ContainsFunc(strings.Split(tagged, "/"), odd) {
		return field.ErrorList{field.Invalid(at, value, "must be an image reference, such as registry.example.com/upgrader:v1.36.3")}
	}
	return nil
}
