package recovery

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// objects returns all objects to be created for a Cluster, secrets last.
func (s *source) objects(cluster *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) []client.Object {
	all := s.inventory.Objects(s.use, cluster)
	for _, secret := range s.inventory.Secrets(s.use, kcp) {
		all = append(all, secret)
	}
	return all
}

// names are those of the objects, for people.
func (s *source) names() []string {
	top := s.inventory.Top(s.use)
	names, secrets := []string{"Cluster " + top.Name}, 0
	for _, o := range s.objects(top, s.inventory.ControlPlane) {
		if _, is := o.(*corev1.Secret); is {
			secrets++
			continue
		}
		names = append(names, titleOf(o))
	}
	return append(names, fmt.Sprintf("%d secrets", secrets))
}

func titleOf(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	switch o.(type) {
	case *clusterv1.Cluster:
		kind = "Cluster"
	case *controlplanev1.KubeadmControlPlane:
		kind = "KubeadmControlPlane"
	case *corev1.Secret:
		kind = "secret"
	}
	return kind + " " + o.GetName()
}

// check reports whether the Cluster was made by an earlier restore of this backup. The error names an object that is in the way, or whose
// kind is not known here.
func (s *source) check(ctx context.Context, c client.Client) (made bool, err error) {
	top := s.inventory.Top(s.use)
	there, err := s.lookFor(ctx, c, top)
	if err != nil {
		return false, err
	}
	for _, o := range s.objects(top, s.inventory.ControlPlane) {
		if _, err := s.lookFor(ctx, c, o); err != nil {
			return false, err
		}
	}
	return there != nil, nil
}

// lookFor returns the object of the same name that a restore of this backup made; nil: there is none. A secret of other origin counts if it
// has the same data.
func (s *source) lookFor(ctx context.Context, c client.Client, o client.Object) (client.Object, error) {
	found, err := empty(o, c.Scheme())
	if err != nil {
		return nil, err
	}
	err = c.Get(ctx, client.ObjectKeyFromObject(o), found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case meta.IsNoMatchError(err):
		of := found.GetObjectKind().GroupVersionKind()
		return nil, fmt.Errorf("the backup holds a %s of %s, which is not known here: install its provider first", of.Kind, of.GroupVersion())
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", titleOf(o), err)
	case found.GetAnnotations()[s.use.MarkKey] == s.use.Mark:
		return found, nil
	}
	if is, ok := found.(*corev1.Secret); ok && maps.EqualFunc(is.Data, o.(*corev1.Secret).Data, bytes.Equal) {
		return found, nil
	}
	return nil, fmt.Errorf("%s exists in namespace %s, and this restore did not make it: a cluster is restored only where its names are free",
		titleOf(o), s.use.Namespace)
}

// empty returns an empty object of the same kind.
func empty(o client.Object, scheme *runtime.Scheme) (client.Object, error) {
	gvk, err := apiutil.GVKForObject(o, scheme)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", titleOf(o), err)
	}
	if _, is := o.(*unstructured.Unstructured); !is {
		made, err := scheme.New(gvk)
		if of, is := made.(client.Object); err == nil && is {
			return of, nil
		}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// make creates what is not there yet. The Cluster comes first and is paused: nothing is done for the others until it is not.
func (s *source) make(ctx context.Context, c client.Client) error {
	top := s.inventory.Top(s.use)
	if err := s.create(ctx, c, top); err != nil {
		return err
	}
	kcp := &controlplanev1.KubeadmControlPlane{}
	for _, o := range s.inventory.Objects(s.use, top) {
		if err := s.create(ctx, c, o); err != nil {
			return err
		}
		if is, ok := o.(*controlplanev1.KubeadmControlPlane); ok {
			kcp = is
		}
	}
	for _, secret := range s.inventory.Secrets(s.use, kcp) {
		if err := s.create(ctx, c, secret); err != nil {
			return err
		}
	}
	return nil
}

// create creates an object, unless an earlier restore of this backup did. Either way the object has its UID afterwards.
func (s *source) create(ctx context.Context, c client.Client, o client.Object) error {
	title := titleOf(o)
	found, err := s.lookFor(ctx, c, o)
	switch {
	case err != nil:
		return err
	case found != nil:
		o.SetUID(found.GetUID())
		return nil
	}
	if err := c.Create(ctx, o); err != nil {
		return fmt.Errorf("creating %s: %w", title, err)
	}
	return nil
}

// unpause lets the controllers go on with the Cluster, once its recovery is approved.
func (s *source) unpause(ctx context.Context, c client.Client, of *lost) error {
	if !ptr.Deref(of.cluster.Spec.Paused, false) {
		return nil
	}
	after := of.cluster.DeepCopy()
	after.Spec.Paused = nil
	if err := c.Patch(ctx, after, client.MergeFrom(of.cluster)); err != nil {
		return fmt.Errorf("ending the pause of Cluster %s: %w", after.Name, err)
	}
	of.cluster = after
	return nil
}

// writeApproval approves the recovery as it is.
func (of *lost) writeApproval(ctx context.Context, c client.Client) error {
	r := of.recovery
	after := r.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, controlplanev1.ApprovedAnnotation, r.Status.Digest)
	if err := c.Patch(ctx, after, client.MergeFromWithOptions(r, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("approving EtcdRecovery %s: %w", r.Name, err)
	}
	of.recovery = after
	return nil
}

// hasEnded reports whether a recovery of the cluster from a former management cluster has ended.
func (of *lost) hasEnded(ctx context.Context, c client.Client) (bool, error) {
	list := &backupv1alpha1.EtcdRecoveryList{}
	if err := c.List(ctx, list, client.InNamespace(of.cluster.Namespace)); err != nil {
		return false, fmt.Errorf("listing EtcdRecoveries: %w", err)
	}
	for _, r := range list.Items {
		ended := r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] != ""
		if r.Spec.ClusterName == of.cluster.Name && r.Spec.FormerClusterUID != "" && ended {
			return true, nil
		}
	}
	return false, nil
}
