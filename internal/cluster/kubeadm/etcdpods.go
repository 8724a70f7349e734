package kubeadm

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// IsEtcdPod reports whether a pod is the object of a static pod of etcd, from which kubeadm on a machine that joins reads where a member is
// (getRawEtcdEndpointsFromPodAnnotationWithoutRetry in its app/util/etcd, v1.37). A kubelet made it: its Node owns it.
func IsEtcdPod(p *corev1.Pod) bool {
	ofNode := slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Node" })
	return ofNode && p.Labels["component"] == "etcd" && p.Labels["tier"] == "control-plane"
}

// DropPods deletes the objects of static pods that no kubelet answers for any more. One that another has taken the place of stays.
func DropPods(ctx context.Context, set kubernetes.Interface, pods []*corev1.Pod) error {
	for _, p := range pods {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
		err := set.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, now)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting pod %s: %w", p.Name, err)
		}
	}
	return nil
}
