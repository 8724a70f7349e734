// Package removal asks for the deletion of a cluster and takes away what would hold it up: pauses. It does not wait for the end.
package removal

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// Delete asks for the deletion of a cluster, and ends what pauses it: controllers do nothing for a paused cluster, its deletion
// neither. The deletion comes first, so that nothing else is begun when the pause ends. It returns what was paused.
func Delete(ctx context.Context, c client.Client, key client.ObjectKey) ([]string, error) {
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = key.Namespace, key.Name
	if err := c.Delete(ctx, cluster); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("deleting cluster %s: %w", key, err)
	}
	err := c.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s: %w", key, err)
	}
	return endPauses(ctx, c, cluster)
}

// endPauses takes spec.paused from a cluster, and the annotation for a pause from it and from whatever is of it.
func endPauses(ctx context.Context, c client.Client, cluster *clusterv1.Cluster) ([]string, error) {
	p := &pauses{client: c}
	// From the parts to the whole: when the cluster goes on, nothing of it is paused.
	for _, part := range clusterParts() {
		if err := c.List(ctx, part.list, client.InNamespace(cluster.Namespace),
			client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}); err != nil {
			return p.ended, fmt.Errorf("listing what is paused of cluster %s: %w", cluster.Name, err)
		}
		for _, o := range part.objects() {
			if _, paused := o.GetAnnotations()[clusterv1.PausedAnnotation]; !paused {
				continue
			}
			if err := p.end(ctx, part.kind, o, func() { dropAnnotation(o) }); err != nil {
				return p.ended, err
			}
		}
	}
	_, annotated := cluster.Annotations[clusterv1.PausedAnnotation]
	if !annotated && !ptr.Deref(cluster.Spec.Paused, false) {
		return p.ended, nil
	}
	err := p.end(ctx, "Cluster", cluster, func() { cluster.Spec.Paused = nil; dropAnnotation(cluster) })
	return p.ended, err
}

// pauses ends pauses of objects, and remembers whose.
type pauses struct {
	client client.Client
	ended  []string
}

// end writes the change that ends an object's pause; an object that is gone is none that was paused.
func (p *pauses) end(ctx context.Context, kind string, o client.Object, change func()) error {
	before, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("ending the pause of %s %s: %T is no object", kind, o.GetName(), o)
	}
	change()
	err := p.client.Patch(ctx, o, client.MergeFrom(before))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("ending the pause of %s %s: %w", kind, o.GetName(), err)
	}
	if err == nil {
		p.ended = append(p.ended, kind+" "+o.GetName())
	}
	return nil
}

func dropAnnotation(o client.Object) {
	annotations := o.GetAnnotations()
	delete(annotations, clusterv1.PausedAnnotation)
	o.SetAnnotations(annotations)
}

// part is one kind of what a cluster consists of.
type part struct {
	kind    string
	list    client.ObjectList
	objects func() []client.Object
}

func clusterParts() []part {
	machines, locals, configs := &clusterv1.MachineList{}, &infrav1.LocalMachineList{}, &bootstrapv1.KubeadmConfigList{}
	sets, deployments := &clusterv1.MachineSetList{}, &clusterv1.MachineDeploymentList{}
	kubeadm, controlPlanes := &controlplanev1.KubeadmControlPlaneList{}, &controlplanev1alpha1.ControlPlaneList{}
	clusters := &infrav1.LocalClusterList{}
	return []part{
		{"LocalMachine", locals, func() []client.Object { return pointers(locals.Items) }},
		{"KubeadmConfig", configs, func() []client.Object { return pointers(configs.Items) }},
		{"Machine", machines, func() []client.Object { return pointers(machines.Items) }},
		{"MachineSet", sets, func() []client.Object { return pointers(sets.Items) }},
		{"MachineDeployment", deployments, func() []client.Object { return pointers(deployments.Items) }},
		{"KubeadmControlPlane", kubeadm, func() []client.Object { return pointers(kubeadm.Items) }},
		{"ControlPlane", controlPlanes, func() []client.Object { return pointers(controlPlanes.Items) }},
		{"LocalCluster", clusters, func() []client.Object { return pointers(clusters.Items) }},
	}
}

// pointers are the objects of a list.
func pointers[T any, P interface {
	*T
	client.Object
}](
	items []T,
) []client.Object {
	objects := make([]client.Object, len(items))
	for i := range items {
		objects[i] = P(&items[i])
	}
	return objects
}

// Sentence is the line about pauses that a deletion ended.
func Sentence(ended []string) string {
	return plaintext.List(ended) + " was paused: nothing that is paused is deleted, so the pause was ended"
}
