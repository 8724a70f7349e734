package upgrader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/plaintext"
	"github.com/quorate/quorate/internal/upgrade/eviction"
)

// Draining needs no rights but those of the node itself: a kubelet may patch its own Node, and list and evict the pods that are bound to
// it. The API server's admission plugin NodeRestriction, which kubeadm enables, refuses the same for other Nodes and their pods. So a pod
// of an upgrade has no ServiceAccount.

// evictionInterval is how often pods are evicted again that a disruption budget keeps.
const evictionInterval = 2 * time.Second

// kubeletsAPI is the API server that the node's kubelet asks, with the kubelet's credentials. The Service kubernetes, which is what pods
// are told, needs a kube-proxy, and that is being replaced on all nodes once the first has the new version.
func kubeletsAPI() (*api, error) { return openAPI(kubeletConf, "") }

// drain makes the node unschedulable and evicts its pods, but for those of DaemonSets, static ones and the upgrader's own.
func (n *node) drain(ctx context.Context) (string, error) {
	a, err := kubeletsAPI()
	if err != nil {
		return "", err
	}
	return n.drainOver(ctx, a, evictionInterval)
}

func (n *node) drainOver(ctx context.Context, a *api, interval time.Duration) (string, error) {
	if err := eventually(ctx, patienceWithAPI, func(ctx context.Context) error { return cordon(ctx, a, n.wanted) }); err != nil {
		return "", err
	}
	limit := time.Duration(cmp.Or(n.wanted.DrainTimeoutSeconds, steps.DefaultDrainTimeout)) * time.Second
	err := until(ctx, limit, interval, func(ctx context.Context) error { return evictAll(ctx, a, n.wanted.Node) })
	switch {
	case err == nil:
		return "the node is drained", nil
	case n.wanted.Drain == steps.DrainBestEffort:
		n.say("%v", err)
		return fmt.Sprintf("not all pods have left: %v", err), nil
	default:
		_, undone := uncordon(ctx, a, n.wanted)
		if errors.Is(undone, errSkipped) {
			undone = nil
		}
		return "", errors.Join(err, undone)
	}
}

// uncordon makes the node schedulable again, if this upgrade made it unschedulable.
func (n *node) uncordon(ctx context.Context) (string, error) {
	if !n.wanted.Drains() {
		return "this upgrade drains no node", errSkipped
	}
	a, err := kubeletsAPI()
	if err != nil {
		return "", err
	}
	return uncordon(ctx, a, n.wanted)
}

// nodePath is the path of a Node in the API.
func nodePath(name string) string { return "/api/v1/nodes/" + url.PathEscape(name) }

// cordon makes the node unschedulable, and remembers on it that it was not before.
func cordon(ctx context.Context, a *api, w steps.Wanted) error {
	var is corev1.Node
	if err := a.get(ctx, nodePath(w.Node), &is); err != nil || is.Spec.Unschedulable {
		return err
	}
	return patchNode(ctx, a, &is, w.ID, true)
}

// patchNode writes whether the node is unschedulable, and because of which upgrade, if the Node is as it was read.
func patchNode(ctx context.Context, a *api, is *corev1.Node, by any, unschedulable any) error {
	patch := map[string]any{
		"metadata": map[string]any{"resourceVersion": is.ResourceVersion, "annotations": map[string]any{steps.CordonedAnnotation: by}},
		"spec":     map[string]any{"unschedulable": unschedulable},
	}
	return a.send(ctx, http.MethodPatch, nodePath(is.Name), patch, nil)
}

// uncordon makes the node schedulable again, if this upgrade made it unschedulable.
func uncordon(ctx context.Context, a *api, w steps.Wanted) (string, error) {
	did := false
	err := eventually(ctx, patienceWithAPI, func(ctx context.Context) error {
		var is corev1.Node
		if err := a.get(ctx, nodePath(w.Node), &is); err != nil || is.Annotations[steps.CordonedAnnotation] != w.ID {
			return err
		}
		did = true
		return patchNode(ctx, a, &is, nil, nil)
	})
	if err == nil && !did {
		return "this upgrade did not cordon the node", errSkipped
	}
	return "the node can be scheduled to", err
}

// evictAll evicts the pods that are to leave the node. It returns an error that names them as long as there are any.
func evictAll(ctx context.Context, a *api, nodeName string) error {
	var pods corev1.PodList
	if err := a.get(ctx, "/api/v1/pods?fieldSelector="+url.QueryEscape("spec.nodeName="+nodeName), &pods); err != nil {
		return err
	}
	var left []string
	for i := range pods.Items {
		p := &pods.Items[i]
		if !eviction.Leaves(p) {
			continue
		}
		why, err := "it is being deleted", error(nil)
		if p.DeletionTimestamp.IsZero() {
			why, err = evict(ctx, a, p)
		}
		if err != nil {
			return err
		}
		left = append(left, fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, why))
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("draining node %s: %s have not left", nodeName, plaintext.List(left))
}

// evict evicts a pod, and says why it is still there.
func evict(ctx context.Context, a *api, p *corev1.Pod) (why string, err error) {
	eviction := policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		// A pod that has this name by then is another one.
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	}
	err = a.send(ctx, http.MethodPost, "/api/v1/namespaces/"+url.PathEscape(p.Namespace)+"/pods/"+url.PathEscape(p.Name)+"/eviction", eviction,
		nil)
	answer, refused := errors.AsType[*statusError](err)
	switch {
	case err == nil || hasStatus(err, http.StatusNotFound) || hasStatus(err, http.StatusConflict):
		return "it was evicted", nil
	case refused && (answer.code == http.StatusTooManyRequests || answer.code == http.StatusForbidden):
		return "it may not be evicted: " + plaintext.Beginning(answer.message(), longestAnswer), nil
	default:
		return "", err
	}
}

// longestAnswer is how many bytes of an API server's message are told.
const longestAnswer = 200

// message is what an answer says in words.
func (e *statusError) message() string {
	var status metav1.Status
	if json.Unmarshal([]byte(e.text), &status) != nil || status.Message == "" {
		return http.StatusText(e.code)
	}
	return status.Message
}
