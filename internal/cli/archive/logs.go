package archive

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/machine"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cluster/workload"
)

const (
	// podsTimeout is how long a cluster may take to give the logs of its pods.
	podsTimeout = 20 * time.Second
	// mostPods is of how many pods of a node logs are read, and mostBytes how much of one log.
	mostPods  = 20
	mostBytes = 4 << 20
)

// broken are the machines of a cluster of which something is not as wanted.
func broken(c report.Cluster) []report.Machine {
	all := slices.Clone(c.ControlPlane.Machines)
	for _, e := range c.EtcdClusters {
		all = append(all, e.Machines...)
	}
	for _, w := range c.Workers {
		all = append(all, w.Machines...)
	}
	return slices.DeleteFunc(all, report.Machine.IsWell)
}

// logs adds the last lines of what broken machines have logged, and of the management plane of this host.
func (c *contents) logs(ctx context.Context, from source, key client.ObjectKey, cluster report.Cluster) error {
	sick := broken(cluster)
	if from.host == nil {
		if len(sick) > 0 {
			if err := c.podLogs(ctx, from, key, sick); err != nil {
				c.lacks("logs of machines", err)
			}
		}
		c.lacks("log of the manager", errors.New("it runs in a management cluster; read it there, such as by kubectl logs"))
		return ctx.Err()
	}
	for _, m := range sick {
		add := func(component, text string) {
			c.add(logName(m.Name, component), "log of "+component+" on "+m.Name, text)
		}
		if err := machine.Tail(ctx, from.host, m.Name, from.lines, add); err != nil {
			c.lacks("logs of "+m.Name, err)
		}
	}
	if from.daemon == nil {
		return ctx.Err()
	}
	text, err := from.daemon(ctx, from.lines)
	if err != nil {
		c.lacks("log of the management plane", err)
		return ctx.Err()
	}
	c.add("logs/management-plane.log", "log of the management plane of this host, which all its clusters share", text)
	return ctx.Err()
}

// notInNames are characters that a file's name is not to have.
var notInNames = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

// logName is the name of the file of a log.
func logName(machine, component string) string {
	return "logs/" + notInNames.ReplaceAllString(machine+"-"+component, "-") + ".log"
}

// podLogs adds the logs of the pods that keep a cluster going, on broken machines, as the cluster's API server tells them.
func (c *contents) podLogs(ctx context.Context, from source, key client.ObjectKey, sick []report.Machine) error {
	config, err := workload.ConfigOf(ctx, from.client, key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pods := cluster.CoreV1().Pods(metav1.NamespaceSystem)
	for _, m := range sick {
		if m.Node == "" {
			c.lacks("logs of "+m.Name, errors.New("it has no Node"))
			continue
		}
		list, err := pods.List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", m.Node).String(), Limit: mostPods,
		})
		if err != nil {
			return fmt.Errorf("listing pods on %s: %w", m.Name, err)
		}
		for i := range list.Items[:min(len(list.Items), mostPods)] {
			pod := &list.Items[i]
			for _, container := range pod.Spec.Containers {
				text, err := workload.PodLog(ctx, cluster, client.ObjectKeyFromObject(pod), mostBytes,
					corev1.PodLogOptions{Container: container.Name, TailLines: ptr.To(int64(from.lines))})
				if err != nil {
					c.lacks("log of "+pod.Name, err)
					continue
				}
				c.add(logName(m.Name, container.Name), "log of "+container.Name+" in "+pod.Name, string(text))
			}
		}
	}
	return nil
}
