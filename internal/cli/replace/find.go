package replace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// target is a machine that is to be replaced, and the group that it belongs to.
type target struct {
	machine *clusterv1.Machine
	cluster client.ObjectKey
	// paused is the Cluster's.
	paused bool
	of     *facts.Group
	object observe.Object
	// names are those of the group's machines.
	names []string
}

// find reads the machine that a name means, NAME or NAMESPACE/NAME, and its group.
func find(ctx context.Context, c client.Reader, name string) (*target, error) {
	m, err := machineOf(ctx, c, name)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}
	objects, err := facts.Read(ctx, c, key)
	if err != nil {
		return nil, err
	}
	for _, of := range append(objects.EtcdClusters, objects.ControlPlane) {
		if of == nil || !isOf(m, of) {
			continue
		}
		t := &target{machine: m, cluster: key, paused: ptr.Deref(objects.Cluster.Spec.Paused, false), of: of, object: of.Kind.New()}
		if err := c.Get(ctx, of.Key, t.object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", facts.Title(of), err)
		}
		for i := range objects.Machines {
			if isOf(&objects.Machines[i], of) {
				t.names = append(t.names, objects.Machines[i].Name)
			}
		}
		return t, nil
	}
	return nil, strange(m)
}

// isOf reports whether a group controls a Machine.
func isOf(m *clusterv1.Machine, of *facts.Group) bool {
	owner := metav1.GetControllerOf(m)
	return owner != nil && owner.Kind == of.Kind.Type().Kind && owner.Name == of.Key.Name
}

// machineOf returns the Machine that a name means. The error lists what is valid.
func machineOf(ctx context.Context, c client.Reader, name string) (*clusterv1.Machine, error) {
	var all clusterv1.MachineList
	if err := c.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	var found []*clusterv1.Machine
	var names, others []string
	for i := range all.Items {
		m := &all.Items[i]
		if m.Name == name || m.Namespace+"/"+m.Name == name {
			found = append(found, m)
			names = append(names, m.Namespace+"/"+m.Name)
		}
		if owner := metav1.GetControllerOf(m); owner != nil && owner.Kind != "MachineSet" {
			others = append(others, m.Name)
		}
	}
	slices.Sort(others)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, command.Usagef("%d Machines have the name %q: must be NAMESPACE/NAME (%s)", len(found), name, strings.Join(names, ", "))
	case len(others) == 0:
		return nil, command.Usagef("no such Machine: %q; there is none of a control plane or an EtcdCluster", name)
	}
	return nil, command.Usagef("no such Machine: %q; there are %s", name, plaintext.List(others))
}

// strange says what replaces a machine that is none of a control plane or an EtcdCluster.
func strange(m *clusterv1.Machine) error {
	if of := m.Labels[clusterv1.MachineDeploymentNameLabel]; of != "" {
		return command.Usagef("Machine %s is a worker of MachineDeployment %s, which creates another when it is deleted: "+
			"kubectl delete machine -n %s %s; to replace all, a new one first, set spec.rollout.after of the MachineDeployment",
			m.Name, of, m.Namespace, m.Name)
	}
	return command.Usagef("Machine %s belongs to no KubeadmControlPlane, ControlPlane or EtcdCluster of cluster %s: "+
		"what made it replaces it", m.Name, m.Spec.ClusterName)
}

// check returns an error if the machine would never be replaced, whatever is asked for.
func (t *target) check() error {
	title := facts.Title(t.of)
	_, paused := t.object.GetAnnotations()[clusterv1.PausedAnnotation]
	spec := t.of.Kind.Spec(t.object)
	switch policy := spec.Policy.InPlace; {
	case !t.machine.DeletionTimestamp.IsZero():
		return command.Usagef("Machine %s is being deleted already; see quorate status %s", t.machine.Name, t.cluster.Name)
	case !t.object.GetDeletionTimestamp().IsZero():
		return command.Usagef("%s is being deleted", title)
	case t.paused, paused:
		return command.Usagef("%s is paused: nothing is replaced until spec.paused of Cluster %s and the annotation %s are removed",
			title, t.cluster.Name, clusterv1.PausedAnnotation)
	case spec.Hibernate:
		return command.Usagef("%s hibernates: it gets new machines when it wakes (quorate wake %s)", title, t.cluster.Name)
	case policy == plan.InPlaceOnly:
		return command.Usagef("spec.inPlace.policy of %s is Only: Quorate replaces no machine; set it to %s, or delete the Machine",
			title, controlplanev1.InPlacePreferred)
	case policy == plan.InPlaceExternal:
		return command.Usagef("spec.inPlace.policy of %s is External: others change its machines, and Quorate replaces none; "+
			"delete the Machine", title)
	}
	return nil
}
