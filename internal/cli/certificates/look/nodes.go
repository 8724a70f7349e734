package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/pki/inventory"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

const (
	// nodeTime is how long a pod on a node may take, with its image there or not.
	nodeTime = 60 * time.Second
	// every is how often such a pod is looked at.
	every = 200 * time.Millisecond
	// farewell is how long the deletion of such a pod may take.
	farewell = 5 * time.Second
)

// nodes looks at the files of nodes by a pod on each.
type nodes struct {
	*look
	images upgraders.Images
	pods   kubernetes.Interface
}

// readFiles looks at the files of all machines at the same time. What cannot be looked at is told.
func (l *look) readFiles(ctx context.Context, images upgraders.Images) {
	n := &nodes{look: l, images: images}
	n.images.Reader = l.from
	if l.config != nil {
		if clients, err := kubernetes.NewForConfig(l.config); err == nil {
			n.pods = clients
		}
	}
	var all errgroup.Group
	for i := range l.objects.Machines {
		m := &l.objects.Machines[i]
		all.Go(func() error {
			found, err := n.filesOf(ctx, m)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.found = append(l.found, found...)
			if err != nil {
				l.unseen = append(l.unseen, inventory.Unseen{Where: inventory.File, Machine: m.Name, Why: err.Error()})
			}
			return nil
		})
	}
	_ = all.Wait() // none fails
}

// filesOf returns what the files of a machine hold.
func (n *nodes) filesOf(ctx context.Context, m *clusterv1.Machine) ([]inventory.Material, error) {
	switch {
	case machine.IsEtcd(m):
		return nil, errors.New(noKubelet)
	case machine.NodeName(m) == "":
		return nil, errors.New("the machine has no Node yet")
	case n.pods == nil:
		return nil, errors.New("it is not known how the API server of the cluster is reached")
	}
	image, err := n.images.Of(ctx, m.Namespace, m.Spec.Version)
	if err != nil {
		return nil, err
	}
	if image == "" {
		return nil, errors.New(n.images.Missing(m.Namespace, m.Spec.Version))
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	text, err := n.run(ctx, upgradepod.Certificates(machine.NodeName(m), image))
	if err != nil {
		return nil, err
	}
	return inventory.FilesOf(m.Name, text, n.isInPlace(m))
}

// run runs a pod, returns what it printed, and deletes it.
func (n *nodes) run(ctx context.Context, pod *corev1.Pod) (text []byte, err error) {
	pods := n.pods.CoreV1().Pods(pod.Namespace)
	made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("no pod can be made on the node: %s", workload.Explain(err))
	}
	defer func() {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if gone := pods.Delete(short, made.Name, metav1.DeleteOptions{}); client.IgnoreNotFound(gone) != nil && err == nil {
			err = fmt.Errorf("pod %s/%s is left: %s", pod.Namespace, made.Name, workload.Explain(gone))
		}
	}()
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("pod %s did not end within %s", made.Name, nodeTime)
		case <-again.C:
		}
		seen, err := pods.Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("looking at pod %s: %s", made.Name, workload.Explain(err))
		}
		ended, err := endOf(seen, pod.Spec.Containers[0].Image)
		if err != nil {
			return nil, err
		}
		if ended {
			return n.printed(ctx, pod.Namespace, made.Name)
		}
	}
}

// noStart are the reasons for which a kubelet cannot start a container.
var noStart = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError"}

// endOf reports whether a pod with an image has done its work. The error says why it does not.
func endOf(p *corev1.Pod, image string) (bool, error) {
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && slices.Contains(noStart, w.Reason) {
			return false, fmt.Errorf("the image %s cannot be used on the node: %s", image, cmp.Or(w.Message, w.Reason))
		}
		if ended := c.State.Terminated; ended != nil && ended.ExitCode == usage {
			return false, errors.New("the upgrader image of the machine's version does not know this look: use that of this release")
		}
	}
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return true, nil
	case corev1.PodFailed:
		return false, fmt.Errorf("the pod on the node failed: %s", cmp.Or(p.Status.Message, p.Status.Reason, "its log says why"))
	}
	return false, nil
}

// usage is the exit code of an upgrader that does not know its command.
const usage = 64

// printed is what a pod printed.
func (n *nodes) printed(ctx context.Context, namespace, name string) ([]byte, error) {
	pod := client.ObjectKey{Namespace: namespace, Name: name}
	text, err := workload.PodLog(ctx, n.pods, pod, inventory.MostNodeFiles+1, corev1.PodLogOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading what pod %s printed: %s", name, workload.Explain(err))
	}
	return text, nil
}
