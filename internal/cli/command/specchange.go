package command

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SpecChange is what a person would change of a control plane's spec. The zero value changes nothing.
type SpecChange struct {
	// Version is spec.version, Replicas spec.replicas, and InPlace spec.inPlace.policy. What is empty or 0 stays as it is.
	Version  string
	Replicas int32
	InPlace  string
}

// Patch is the merge patch of the change; nil: it changes nothing.
func (c SpecChange) Patch() map[string]any {
	spec := map[string]any{}
	if c.Version != "" {
		spec["version"] = WithV(c.Version)
	}
	if c.Replicas > 0 {
		spec["replicas"] = int64(c.Replicas)
	}
	if c.InPlace != "" {
		spec["inPlace"] = map[string]any{"policy": c.InPlace}
	}
	if len(spec) == 0 {
		return nil
	}
	return map[string]any{"spec": spec}
}

// Of is the change of a control plane, for a field manager.
func (c SpecChange) Of(controlPlane *unstructured.Unstructured, manager string) Change {
	return Change{Object: controlPlane, Patch: c.Patch(), Manager: manager}
}

// Plan is the command that plans the change of a cluster.
func (c SpecChange) Plan(cluster client.ObjectKey) string {
	text := "quorate plan " + cluster.String()
	if c.Version != "" {
		text += " --kubernetes-version " + WithV(c.Version)
	}
	if c.Replicas > 0 {
		text += fmt.Sprintf(" --replicas %d", c.Replicas)
	}
	if c.InPlace != "" {
		text += " --in-place=" + c.InPlace
	}
	return text
}
