package manifest

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Step is one thing to ask of the management plane.
type Step struct {
	// What says it to a person.
	What string
	// Object is what is applied, if Patch is nil; else what Patch is merged into.
	Object *unstructured.Unstructured
	Patch  map[string]any
}

// All are the objects that the cluster may have, whether it has workers or not.
func (c Cluster) All() ([]*unstructured.Unstructured, error) {
	c.Workers = max(c.Workers, 1)
	var objects []*unstructured.Unstructured
	for _, d := range c.Documents() {
		o, err := Generic(d)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// Steps lead from what exists, of All, to what is wanted. Flags that were given
// are wanted; of all others, what the cluster has stays. Only fields that
// differ are touched. The error names what cannot be changed.
func (c Cluster) Steps(existing []*unstructured.Unstructured, given func(flag string) bool) ([]Step, error) {
	have := inventory{}
	for _, o := range existing {
		if !o.GetDeletionTimestamp().IsZero() {
			return nil, fmt.Errorf("%s %s is still being deleted: wait until it is gone, or take another name", o.GetKind(), o.GetName())
		}
		have[o.GetKind()+" "+o.GetName()] = o
	}
	if err := c.checkShape(have); err != nil {
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
		if have[o.GetKind()+" "+o.GetName()] == nil {
			steps = append(steps, Step{What: o.GetKind() + " " + o.GetName() + " is made", Object: o})
		}
	}
	return steps, nil
}

type inventory map[string]*unstructured.Unstructured

func (have inventory) number(object string, path ...string) (int32, bool) {
	o := have[object]
	if o == nil {
		return 0, false
	}
	n, found, _ := unstructured.NestedInt64(o.Object, path...)
	return int32(n), found
}

func (c Cluster) checkShape(have inventory) error {
	o := have["Cluster "+c.Name]
	if o == nil {
		return nil
	}
	var typed clusterv1.Cluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed); err != nil {
		return fmt.Errorf("reading Cluster %s: %w", c.Name, err)
	}
	return c.Shape(&typed)
}

// adopt takes over what the cluster has, and returns the changes to what is there.
func (c *Cluster) adopt(have inventory, given func(flag string) bool) ([]Step, error) {
	if err := c.adoptFixed(have, given); err != nil {
		return nil, err
	}
	controlPlane, workers := "KubeadmControlPlane "+controlPlaneName(c.Name), "MachineDeployment "+workersName(c.Name)
	steps := append(c.adoptVersion(have, controlPlane, workers, given), c.adoptRepair(have[controlPlane], given)...)
	for _, f := range []struct {
		flag, object, what string
		path               []string
		value              *int32
	}{
		{"replicas", controlPlane, "replicas", []string{"spec", "replicas"}, &c.Replicas},
		{"max-parallel", controlPlane, "machines that may join at once", []string{"spec", "joins", "maxParallel"}, &c.MaxParallel},
		{"workers", workers, "workers", []string{"spec", "replicas"}, &c.Workers},
	} {
		if have[f.object] == nil {
			continue
		}
		current, _ := have.number(f.object, f.path...)
		if !given(f.flag) {
			*f.value = current
			continue
		}
		if current == *f.value {
			continue
		}
		var value any = int64(*f.value)
		if f.flag == "max-parallel" && *f.value == 0 {
			value = nil // no limit: the field goes
		}
		steps = append(steps, Step{
			What:   fmt.Sprintf("%s: %d -> %d", f.what, current, *f.value),
			Object: have[f.object],
			Patch:  nested(value, f.path),
		})
	}
	return steps, nil
}

// adoptVersion takes over the version, or returns the changes to another. The workers wait for the control plane
// by themselves: Cluster API makes none that would be newer.
func (c *Cluster) adoptVersion(have inventory, controlPlane, workers string, given func(flag string) bool) []Step {
	var steps []Step
	for _, at := range []struct {
		object string
		path   []string
	}{
		{controlPlane, []string{"spec", "version"}},
		{workers, []string{"spec", "template", "spec", "version"}},
	} {
		o := have[at.object]
		if o == nil {
			continue
		}
		version, _, _ := unstructured.NestedString(o.Object, at.path...)
		switch {
		case !given("kubernetes-version"):
			if at.object == controlPlane {
				c.Version = version
			}
		case version != c.Version:
			steps = append(steps, Step{
				What:   fmt.Sprintf("version of %s: %s -> %s", o.GetName(), version, c.Version),
				Object: o,
				Patch:  nested(c.Version, at.path),
			})
		}
	}
	return steps
}

// adoptRepair takes over whether broken machines are replaced, or returns the change of that.
func (c *Cluster) adoptRepair(controlPlane *unstructured.Unstructured, given func(flag string) bool) []Step {
	if controlPlane == nil {
		return nil
	}
	path := []string{"spec", "autoRepair"}
	_, repairs, _ := unstructured.NestedMap(controlPlane.Object, path...)
	if !given("auto-repair") {
		c.AutoRepair = repairs
	}
	if repairs == c.AutoRepair {
		return nil
	}
	change := Step{What: "broken machines are replaced", Object: controlPlane, Patch: nested(map[string]any{}, path)}
	if !c.AutoRepair {
		change.What, change.Patch = "broken machines are no longer replaced", nested(nil, path)
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
