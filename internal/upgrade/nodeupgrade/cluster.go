package nodeupgrade

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/untrusted"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// requestTimeout is how long one request to a managed cluster may take.
const requestTimeout = 2 * time.Second

// Clusters opens a managed cluster for one look; the function that it returns ends that.
type Clusters func(ctx context.Context, cluster client.ObjectKey) (kubernetes.Interface, func(), error)

// fromSecrets opens clusters as the secrets with their kubeconfigs say, over connections that end with the look: of one
// that was open before an API server restarted it is not known whether it still works.
func fromSecrets(secrets client.Reader) Clusters {
	return func(ctx context.Context, key client.ObjectKey) (kubernetes.Interface, func(), error) {
		config, err := workload.ConfigOf(ctx, secrets, key)
		if err != nil {
			return nil, nil, err
		}
		config = rest.CopyConfig(config)
		config.QPS = -1 // a look asks a few times; who waits here could not tell that from a server that is away
		security, err := rest.TLSConfigFor(config)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the credentials in the kubeconfig of cluster %s: %w", key.Name, err)
		}
		proxy := http.ProxyFromEnvironment
		if config.Proxy != nil {
			proxy = config.Proxy
		}
		transport := &http.Transport{
			Proxy:                  proxy,
			DialContext:            (&net.Dialer{Timeout: requestTimeout}).DialContext,
			TLSClientConfig:        security,
			TLSHandshakeTimeout:    requestTimeout,
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: untrusted.MostHeader,
		}
		wrapped, err := rest.HTTPWrappersForConfig(config, transport)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the credentials in the kubeconfig of cluster %s: %w", key.Name, err)
		}
		set, err := kubernetes.NewForConfigAndClient(config, &http.Client{Transport: wrapped, Timeout: requestTimeout})
		if err != nil {
			return nil, nil, fmt.Errorf("making a client for cluster %s: %w", key.Name, err)
		}
		return set, transport.CloseIdleConnections, nil
	}
}

// look is one look into a managed cluster, and what it found for the next pod.
type look struct {
	set kubernetes.Interface
	end func()
	env upgradepod.Environment
	// node is the one that is upgraded.
	node   *corev1.Node
	wanted steps.Wanted
	list   []steps.Step
	// contents are what the files of the environment are to hold, in their order. They may be secret.
	contents [][]byte
}

// errClosed: nothing is known of how the cluster is reached.
var errClosed = errors.New("the managed cluster cannot be reached")

// open opens the cluster of a NodeUpgrade, or says why it cannot.
func (c *Controller) open(ctx context.Context, s *scope) (string, *look) {
	if s.cluster == nil {
		return "there is no Cluster", &look{}
	}
	clusters := c.Clusters
	if clusters == nil {
		clusters = fromSecrets(c.APIReader)
	}
	set, end, err := clusters(ctx, client.ObjectKeyFromObject(s.cluster))
	if err != nil {
		return brief(err), &look{}
	}
	return "", &look{set: set, end: end}
}

// close ends the look.
func (w *look) close() {
	if w.end != nil {
		w.end()
	}
}

// pod reads the pod of a NodeUpgrade; nil: there is none.
func (w *look) pod(ctx context.Context, u *upgradev1.NodeUpgrade) (*corev1.Pod, error) {
	pod, err := w.set.CoreV1().Pods(upgradepod.Namespace).Get(ctx, upgradepod.Name(u), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return pod, nil
}

// environment reads what of the node the steps depend on.
func (w *look) environment(ctx context.Context, name string) error {
	node, err := w.set.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading Node %s: %w", name, err)
	}
	nodes, err := w.set.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 2})
	if err != nil {
		return fmt.Errorf("listing Nodes: %w", err)
	}
	_, err = w.set.CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, "etcd-"+name, metav1.GetOptions{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading pod etcd-%s: %w", name, err)
	}
	w.env.Node, w.env.KubeletVersion = name, node.Status.NodeInfo.KubeletVersion
	w.env.Runtime = node.Status.NodeInfo.ContainerRuntimeVersion
	w.env.SingleNode, w.env.StackedEtcd = len(nodes.Items) == 1, err == nil
	w.node = node
	return nil
}

// makePod makes the next pod.
func (c *Controller) makePod(ctx context.Context, s *scope, w *look) error {
	u := s.upgrade
	pod, err := upgradepod.Pod(u, w.wanted, w.list, w.env.Image)
	if err != nil {
		return err
	}
	if err := w.dropRights(ctx, u); err != nil {
		return err
	}
	if err := w.makeFiles(ctx, u); err != nil {
		return err
	}
	if _, err := w.set.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
	return c.count(ctx, s, w.wanted.Attempt)
}

// makeFiles hands over what files are to hold. What an earlier attempt was given may be another.
func (w *look) makeFiles(ctx context.Context, u *upgradev1.NodeUpgrade) error {
	held := upgradepod.Files(u, w.contents)
	if held == nil {
		return nil
	}
	secrets := w.set.CoreV1().Secrets(held.Namespace)
	if err := secrets.Delete(ctx, held.Name, metav1.DeleteOptions{}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting secret %s: %w", held.Name, err)
	}
	if _, err := secrets.Create(ctx, held, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating secret %s: %w", held.Name, err)
	}
	return nil
}

// count notes the number of the pod that was made.
func (c *Controller) count(ctx context.Context, s *scope, attempt int32) error {
	after := s.upgrade.DeepCopy()
	after.Status.Attempts = ptr.To(attempt)
	if err := c.Client.Status().Patch(ctx, after, client.MergeFrom(s.upgrade)); err != nil {
		return fmt.Errorf("writing the status of NodeUpgrade %s: %w", after.Name, err)
	}
	s.upgrade = after
	return nil
}

// deletePod removes the pod.
func (w *look) deletePod(ctx context.Context, u *upgradev1.NodeUpgrade) error {
	if w.set == nil {
		return errClosed
	}
	err := w.set.CoreV1().Pods(upgradepod.Namespace).Delete(ctx, upgradepod.Name(u), metav1.DeleteOptions{})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s: %w", upgradepod.Name(u), err)
	}
	return nil
}

// cleanUp removes all that was made for a NodeUpgrade.
func (w *look) cleanUp(ctx context.Context, u *upgradev1.NodeUpgrade) error {
	if err := w.deletePod(ctx, u); err != nil {
		return err
	}
	if err := w.dropRights(ctx, u); err != nil {
		return err
	}
	if err := w.set.CoreV1().Secrets(upgradepod.Namespace).Delete(ctx, upgradepod.Name(u),
		metav1.DeleteOptions{}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting secret %s: %w", upgradepod.Name(u), err)
	}
	return nil
}

// dropRights removes the ServiceAccount and the role that the pods of an upgrade had before Quorate drained with the node's own
// credentials: they allow to evict any pod.
func (w *look) dropRights(ctx context.Context, u *upgradev1.NodeUpgrade) error {
	name, options := upgradepod.Name(u), metav1.DeleteOptions{}
	err1 := w.set.CoreV1().ServiceAccounts(upgradepod.Namespace).Delete(ctx, name, options)
	err2 := w.set.RbacV1().ClusterRoleBindings().Delete(ctx, name, options)
	err3 := w.set.RbacV1().ClusterRoles().Delete(ctx, name, options)
	if err := errors.Join(client.IgnoreNotFound(err1), client.IgnoreNotFound(err2), client.IgnoreNotFound(err3)); err != nil {
		return fmt.Errorf("removing what pod %s was allowed to do: %w", name, err)
	}
	return nil
}
