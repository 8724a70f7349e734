package command

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
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

// versionText is what a version of Kubernetes looks like.
var versionText = regexp.MustCompile(`^v?[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}([-+.][0-9A-Za-z.+-]{1,40})?$`)

// mostReplicas is how many machines can be typed in.
const mostReplicas = 99

// ParseSpecChange reads what a person typed in; empty texts change nothing. An error names the field, what was typed, and what is valid.
func ParseSpecChange(wanted, replicas, inPlace string) (SpecChange, error) {
	c := SpecChange{Version: strings.TrimSpace(wanted), InPlace: inPlace}
	if c.Version != "" && !versionText.MatchString(c.Version) {
		return SpecChange{}, Usagef("invalid version %.60q: must be like v1.37.2", wanted)
	}
	if replicas = strings.TrimSpace(replicas); replicas != "" {
		n, err := strconv.ParseInt(replicas, 10, 32)
		if err != nil || n < 1 || n > mostReplicas {
			return SpecChange{}, Usagef("invalid replicas %.60q: must be from 1 to %d", replicas, mostReplicas)
		}
		c.Replicas = int32(n)
	}
	if inPlace != "" && !slices.Contains(Policies(), inPlace) {
		return SpecChange{}, Usagef("invalid in-place policy %.60q: must be one of %s", inPlace, strings.Join(Policies(), ", "))
	}
	return c, nil
}

// Policies are the values of spec.inPlace.policy.
func Policies() []string {
	return []string{string(controlplanev1.InPlaceNever), string(controlplanev1.InPlacePreferred), string(controlplanev1.InPlaceOnly),
		string(controlplanev1.InPlaceExternal)}
}
