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
	"github.com/quorate/quorate/internal/cluster/machine"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-upgrade-cluster-x-k8s-io-v1alpha1-nodeupgrade,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=upgrade.cluster.x-k8s.io,resources=nodeupgrades,versions=v1alpha1,name=validation.nodeupgrade.upgrade.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-upgrade-cluster-x-k8s-io-v1alpha1-controlplaneupgrade,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=upgrade.cluster.x-k8s.io,resources=controlplaneupgrades,versions=v1alpha1,name=validation.controlplaneupgrade.upgrade.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-upgrade-cluster-x-k8s-io-v1alpha1-machinedeploymentupgrade,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=upgrade.cluster.x-k8s.io,resources=machinedeploymentupgrades,versions=v1alpha1,name=validation.machinedeploymentupgrade.upgrade.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list

// upgradeValidator validates what the schema of one kind of upgrade cannot express.
type upgradeValidator[T client.Object] struct {
	kind string
	// reader reads Machines; nil: only the object itself is checked.
	reader client.Reader
	// spec returns the spec.
	spec func(T) any
	// check returns what is wrong with the fields themselves.
	check func(T) field.ErrorList
	// made returns why an upgrade that Quorate did not create may not be created; nil: anybody may create one.
	made func(T) field.ErrorList
	// machines returns the Machines that the upgrade names.
	machines func(T) upgraded
}

// ValidateCreate refuses fields that cannot be, Machines of another Cluster or owner, and upgrades that only Quorate creates.
func (v *upgradeValidator[T]) ValidateCreate(ctx context.Context, u T) (admission.Warnings, error) {
	if v.made != nil {
		if wrong := v.made(u); len(wrong) > 0 {
			return nil, v.machines(u).refuse(ctx, v.reader, v.kind, wrong)
		}
	}
	return v.validate(ctx, u)
}

func (v *upgradeValidator[T]) validate(ctx context.Context, u T) (admission.Warnings, error) {
	return nil, v.machines(u).refuse(ctx, v.reader, v.kind, v.check(u))
}

// ValidateUpdate refuses a new spec or a new label that ValidateCreate refuses. Who created the upgrade is not asked again.
func (v *upgradeValidator[T]) ValidateUpdate(ctx context.Context, before, after T) (admission.Warnings, error) {
	switch {
	case !equality.Semantic.DeepEqual(v.spec(before), v.spec(after)):
		return v.validate(ctx, after)
	case isRelabelled(before, after):
		return nil, v.machines(after).refuse(ctx, v.reader, v.kind, nil)
	}
	return nil, nil
}

// ValidateDelete refuses nothing.
func (*upgradeValidator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

// nodeUpgrades validates NodeUpgrades: names and images that can exist.
func nodeUpgrades(reader client.Reader) *upgradeValidator[*upgradev1.NodeUpgrade] {
	at := field.NewPath("spec", "machine", "name")
	return &upgradeValidator[*upgradev1.NodeUpgrade]{
		kind: "NodeUpgrade", reader: reader,
		spec: func(u *upgradev1.NodeUpgrade) any { return u.Spec },
		check: func(u *upgradev1.NodeUpgrade) field.ErrorList {
			return append(checkName(u.Spec.Machine.Name, at), checkImage(u.Spec.UpgraderImage, field.NewPath("spec", "upgraderImage"))...)
		},
		machines: func(u *upgradev1.NodeUpgrade) upgraded {
			return upgraded{of: u, names: []upgradev1.MachineReference{u.Spec.Machine}, at: func(int) *field.Path { return at }}
		},
	}
}

// controlPlaneUpgrades validates ControlPlaneUpgrades: a control plane of a known kind, and Machines of it.
func controlPlaneUpgrades(reader client.Reader) *upgradeValidator[*upgradev1.ControlPlaneUpgrade] {
	return &upgradeValidator[*upgradev1.ControlPlaneUpgrade]{
		kind: "ControlPlaneUpgrade", reader: reader,
		spec: func(u *upgradev1.ControlPlaneUpgrade) any { return u.Spec },
		check: func(u *upgradev1.ControlPlaneUpgrade) field.ErrorList {
			at := field.NewPath("spec", "controlPlane")
			wrong := append(checkRef(machine.ControlPlaneRef, u.Spec.ControlPlane, at), checkName(u.Spec.ControlPlane.Name, at.Child("name"))...)
			return append(wrong, checkMachineNames(u.Spec.MachinesRequireUpgrade)...)
		},
		made: func(u *upgradev1.ControlPlaneUpgrade) field.ErrorList {
			return checkMade(u, u.Spec.ControlPlane.GroupKind(), u.Spec.ControlPlane.Name, "set its spec.version and spec.inPlace.policy")
		},
		machines: func(u *upgradev1.ControlPlaneUpgrade) upgraded {
			return upgraded{of: u, names: u.Spec.MachinesRequireUpgrade, at: atMachine, foreign: func(m *clusterv1.Machine) string {
				ref, owner := u.Spec.ControlPlane, metav1.GetControllerOf(m)
				switch {
				case !machine.IsControlPlane(m):
					return "the Machine belongs to no control plane"
				case owner != nil &&
					(owner.Name != ref.Name || schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() != ref.GroupKind()):
					return fmt.Sprintf("the Machine belongs to %s %s: must be one of %s %s", owner.Kind, owner.Name, ref.Kind, ref.Name)
				}
				return ""
			}}
		},
	}
}

// machineDeploymentUpgrades validates MachineDeploymentUpgrades: Machines of the MachineDeployment.
func machineDeploymentUpgrades(reader client.Reader) *upgradeValidator[*upgradev1.MachineDeploymentUpgrade] {
	return &upgradeValidator[*upgradev1.MachineDeploymentUpgrade]{
		kind: "MachineDeploymentUpgrade", reader: reader,
		spec: func(u *upgradev1.MachineDeploymentUpgrade) any { return u.Spec },
		check: func(u *upgradev1.MachineDeploymentUpgrade) field.ErrorList {
			wrong := checkName(u.Spec.MachineDeployment.Name, field.NewPath("spec", "machineDeployment", "name"))
			return append(wrong, checkMachineNames(u.Spec.MachinesRequireUpgrade)...)
		},
		made: func(u *upgradev1.MachineDeploymentUpgrade) field.ErrorList {
			return checkMade(u, clusterv1.GroupVersion.WithKind("MachineDeployment").GroupKind(), u.Spec.MachineDeployment.Name,
				"set its spec.template.spec.version and the annotation "+upgradev1.PolicyAnnotation)
		},
		machines: func(u *upgradev1.MachineDeploymentUpgrade) upgraded {
			return upgraded{of: u, names: u.Spec.MachinesRequireUpgrade, at: atMachine, foreign: func(m *clusterv1.Machine) string {
				if of := m.Labels[clusterv1.MachineDeploymentNameLabel]; of != u.Spec.MachineDeployment.Name {
					return fmt.Sprintf("the Machine belongs to MachineDeployment %q: must be one of %q", of, u.Spec.MachineDeployment.Name)
				}
				return ""
			}}
		},
	}
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

// refuse returns the refusal of an upgrade. Machines are read only if nothing is wrong already. Those that do not exist are accepted: a
// move to another management cluster may create them later.
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

// checkImage returns an error if a field holds no image reference. The parser does not check the tag before a digest, nor the elements of a
// path.
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
