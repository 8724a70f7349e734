package observe

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/controllers/external"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
)

// BuildVersion is the version that machines of the group can be made with now: where its own
// is refused, the newest that its machines have, so that a broken one can be replaced.
func (t *View) BuildVersion() string {
	if refused := t.Facts.Want.Refused; refused.Reason == "" || !refused.Replaceable {
		return t.Spec.Version
	}
	if list := machine.Versions(t.Objects()); len(list) > 0 {
		return list[len(list)-1].Version
	}
	return t.Spec.Version
}

// Clone returns an object of a machine as its template makes it, with what it should carry.
func (t *View) Clone(template *unstructured.Unstructured, name string, carries drift.Metadata) (*unstructured.Unstructured, error) {
	owner := t.OwnerRef()
	made, err := external.GenerateTemplate(&external.GenerateTemplateInput{
		Template: template,
		TemplateRef: &corev1.ObjectReference{
			APIVersion: template.GetAPIVersion(),
			Kind:       template.GetKind(),
			Namespace:  template.GetNamespace(),
			Name:       template.GetName(),
		},
		Namespace:   t.Object.GetNamespace(),
		Name:        name,
		ClusterName: t.Cluster.Name,
		OwnerRef:    &owner,
		Labels:      carries.Labels,
		Annotations: carries.Annotations,
	})
	if err != nil {
		return nil, fmt.Errorf("cloning %s %s: %w", template.GetKind(), template.GetName(), err)
	}
	return made, nil
}
