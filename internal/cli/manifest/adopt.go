package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// Step is one thing to ask of the management plane.
type Step struct {
	// What says it to a person.
	What string
	// Object is what is applied, if Patch is nil; else what Patch is merged into.
	Object *unstructured.Unstructured
	Patch  map[string]any
}

// All are the objects that the cluster may have, of whatever kind its control plane is and whether it has workers or not.
func (c Cluster) All() ([]*unstructured.Unstructured, error) {
	c.Workers, c.Etcd = max(c.Workers, 1), max(c.Etcd, 1)
	var objects []*unstructured.Unstructured
	for _, kind := range Kinds() {
		c.Kind = Kind(kind)
		for _, d := range c.Documents() {
			o, err := Generic(d)
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(objects, func(other *unstructured.Unstructured) bool { return nameOf(other) == nameOf(o) }) {
				objects = append(objects, o)
			}
		}
	}
	return objects, nil
}

func nameOf(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

// Steps lead from what exists, of All, to what is wanted. Flags that were given
// are wanted; of all others, what the cluster has stays. Only fields that
// differ are touched. The error names what cannot be changed.
func (c Cluster) Steps(existing []*unstructured.Unstructured, given func(flag string) bool) ([]Step, error) {
	have := inventory{}
	for _, o := range existing {
		if !o.GetDeletionTimestamp().IsZero() {
			return nil, fmt.Errorf("%s is still being deleted: wait until it is gone, or take another name", nameOf(o))
		}
		have[nameOf(o)] = o
	}
	if err := c.adoptKind(have["Cluster "+c.Name], given); err != nil {
		return nil, err
	}
	if err := c.adoptIPFamily(have["Cluster "+c.Name], given); err != nil {
		return nil, err
	}
	steps, err := c.adopt(have, given)
	if err != nil {
		return nil, err
	}
	for _, d := range c.Documents() {
		o, err := Generic(d)
		if err != nil {
			return nil, err
		}
		if have[nameOf(o)] == nil {
			steps = append(steps, Step{What: nameOf(o) + " is made", Object: o})
		}
	}
	return steps, nil
}

type inventory map[string]*unstructured.Unstructured

// adoptKind takes over the kind of the control plane, and refuses to change it, or anything else of a cluster's shape.
func (c *Cluster) adoptKind(cluster *unstructured.Unstructured, given func(flag string) bool) error {
	if cluster == nil {
		return nil
	}
	var typed clusterv1.Cluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cluster.Object, &typed); err != nil {
		return fmt.Errorf("reading Cluster %s: %w", c.Name, err)
	}
	asked, ref := c.Kind, typed.Spec.ControlPlaneRef
	if ref.APIGroup == controlPlaneGroup && slices.Contains(Kinds(), ref.Kind) {
		c.Kind = Kind(ref.Kind)
	}
	if err := c.Shape(&typed); err != nil {
		return err
	}
	if given("kind") && asked != c.Kind {
		return fmt.Errorf("--kind is %s and cluster %s has a %s: a control plane does not change its kind; make another cluster with --name",
			asked, c.Name, c.Kind)
	}
	return nil
}

// adopt takes over what the cluster has, and returns the changes to what is there.
func (c *Cluster) adopt(have inventory, given func(flag string) bool) ([]Step, error) {
	if err := c.adoptFixed(have, given); err != nil {
		return nil, err
	}
	controlPlane, workers := have[string(c.Kind)+" "+controlPlaneName(c.Name)], have["MachineDeployment "+workersName(c.Name)]
	steps, err := c.adoptEtcd(have, given)
	if err != nil {
		return nil, err
	}
	steps = slices.Concat(steps, c.adoptInPlace(controlPlane, workers, given), c.adoptVersion(controlPlane, workers, given),
		c.adoptRepair(controlPlane, given), c.adoptBackup(have, given))
	for _, f := range []struct {
		flag, what string
		object     *unstructured.Unstructured
		path       []string
		value      *int32
		read       func(*unstructured.Unstructured) int32
		write      func(int32) any
	}{
		{"replicas", "replicas", controlPlane, replicasPath, &c.Replicas, readReplicas, writeReplicas},
		{"max-parallel", "machines that may join at once", controlPlane, maxParallelPath, &c.MaxParallel, c.Kind.maxParallel,
			c.Kind.maxParallelValue},
		{"workers", "workers", workers, replicasPath, &c.Workers, readReplicas, writeReplicas},
	} {
		if f.object == nil {
			continue
		}
		current := f.read(f.object)
		if !given(f.flag) {
			*f.value = current
			continue
		}
		if current == *f.value {
			continue
		}
		steps = append(steps, Step{
			What:   fmt.Sprintf("%s: %d -> %d", f.what, current, *f.value),
			Object: f.object,
			Patch:  nested(f.write(*f.value), f.path),
		})
	}
	return steps, nil
}

var (
	replicasPath = []string{"spec", "replicas"}
	inPlacePath  = []string{"spec", "inPlace", "policy"}
)

func readReplicas(o *unstructured.Unstructured) int32 {
	n, _, _ := unstructured.NestedInt64(o.Object, replicasPath...)
	return int32(n)
}

func writeReplicas(n int32) any { return int64(n) }

// adoptVersion takes over the version, or returns the changes to another. The workers wait for the control plane
// by themselves: Cluster API makes none that would be newer.
func (c *Cluster) adoptVersion(controlPlane, workers *unstructured.Unstructured, given func(flag string) bool) []Step {
	var steps []Step
	for _, at := range []struct {
		object *unstructured.Unstructured
		path   []string
	}{
		{controlPlane, []string{"spec", "version"}},
		{workers, []string{"spec", "template", "spec", "version"}},
	} {
		if at.object == nil {
			continue
		}
		version, _, _ := unstructured.NestedString(at.object.Object, at.path...)
		switch {
		case !given("kubernetes-version"):
			if at.object == controlPlane {
				c.Version = version
			}
		case version != c.Version:
			steps = append(steps, Step{
				What:   fmt.Sprintf("version of %s: %s -> %s", at.object.GetName(), version, c.Version),
				Object: at.object,
				Patch:  nested(c.Version, at.path),
			})
		}
	}
	return steps
}

// adoptInPlace takes over which machines are changed in place, or returns the change of that, of the control plane and of the workers. It
// comes before the version: machines must not begin to be replaced that are to be changed in place.
func (c *Cluster) adoptInPlace(controlPlane, workers *unstructured.Unstructured, given func(flag string) bool) []Step {
	if controlPlane == nil {
		return nil
	}
	text, _, _ := unstructured.NestedString(controlPlane.Object, inPlacePath...)
	policy := controlplanev1.InPlacePolicy(cmp.Or(text, string(controlplanev1.InPlaceNever)))
	if !given("in-place") {
		c.InPlace = policy
	}
	var steps []Step
	if c.policy() != policy {
		steps = append(steps, Step{
			What: fmt.Sprintf("machines are changed in place: %s -> %s", policy, c.policy()), Object: controlPlane,
			Patch: nested(string(c.policy()), inPlacePath),
		})
	}
	if workers == nil || !given("in-place") {
		return steps
	}
	if said := cmp.Or(workers.GetAnnotations()[upgradev1.PolicyAnnotation], string(controlplanev1.InPlaceNever)); said != string(c.policy()) {
		steps = append(steps, Step{What: fmt.Sprintf("workers are changed in place: %s -> %s", said, c.policy()), Object: workers,
			Patch: c.workersInPlace()})
	}
	return steps
}

// workersInPlace is what of a MachineDeployment reports whether its machines are changed in place. Cluster API would replace them with any
// other strategy than OnDelete.
func (c *Cluster) workersInPlace() map[string]any {
	strategy := string(clusterv1.OnDeleteMachineDeploymentStrategyType)
	if c.policy() == controlplanev1.InPlaceNever {
		strategy = string(clusterv1.RollingUpdateMachineDeploymentStrategyType)
	}
	patch := nested(strategy, []string{"spec", "rollout", "strategy", "type"})
	patch["metadata"] = map[string]any{"annotations": map[string]any{upgradev1.PolicyAnnotation: string(c.policy())}}
	return patch
}

// adoptRepair takes over whether broken machines are replaced, or returns the change of that.
func (c *Cluster) adoptRepair(controlPlane *unstructured.Unstructured, given func(flag string) bool) []Step {
	if controlPlane == nil {
		return nil
	}
	repairs := c.Kind.repairs(controlPlane)
	if !given("auto-repair") {
		c.AutoRepair = repairs
	}
	if repairs == c.AutoRepair {
		return nil
	}
	change := Step{What: "broken machines are replaced", Object: controlPlane, Patch: c.Kind.repairPatch(c.AutoRepair)}
	if !c.AutoRepair {
		change.What = "broken machines are no longer replaced"
	}
	return []Step{change}
}

// adoptFixed takes over what cannot be changed, and refuses to change it.
func (c *Cluster) adoptFixed(have inventory, given func(flag string) bool) error {
	if o := have["LocalCluster "+c.Name]; o != nil {
		domains, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "failureDomains")
		slices.Sort(domains)
		if given("failure-domains") && !slices.Equal(domains, c.FailureDomains) {
			return fmt.Errorf("--failure-domains is %q and cluster %s has %q: machines do not move between domains; make another one with --name",
				strings.Join(c.FailureDomains, ","), c.Name, strings.Join(domains, ","))
		}
	}
	return nil
}

func nested(value any, path []string) map[string]any {
	for i := len(path) - 1; i > 0; i-- {
		value = map[string]any{path[i]: value}
	}
	return map[string]any{path[0]: value}
}
