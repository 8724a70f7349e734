package facts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/etcdcluster"
)

// ReadAll reads what Read does, of all clusters, in one list of each kind. The clusters are sorted by namespace and name.
func ReadAll(ctx context.Context, c client.Client) ([]*Objects, error) {
	var clusters clusterv1.ClusterList
	var deployments clusterv1.MachineDeploymentList
	var machines clusterv1.MachineList
	known := append(kinds(), etcdcluster.New())
	groups := make([][]*Group, len(known))
	all, ctx := errgroup.WithContext(ctx)
	for what, list := range map[string]client.ObjectList{
		"clusters": &clusters, "MachineDeployments": &deployments, "Machines": &machines,
	} {
		all.Go(func() error {
			if err := c.List(ctx, list); err != nil {
				return fmt.Errorf("listing %s: %w", what, err)
			}
			return nil
		})
	}
	for i, kind := range known {
		all.Go(func() (err error) {
			groups[i], err = listGroups(ctx, c, kind)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	byKey := map[client.ObjectKey]*Objects{}
	found := make([]*Objects, 0, len(clusters.Items))
	for i := range clusters.Items {
		o := &Objects{Cluster: &clusters.Items[i]}
		byKey[client.ObjectKeyFromObject(o.Cluster)] = o
		found = append(found, o)
	}
	for i := range deployments.Items {
		d := deployments.Items[i]
		if o := byKey[clusterOfLabels(d.Namespace, d.Labels)]; o != nil {
			o.Deployments = append(o.Deployments, d)
		}
	}
	for i := range machines.Items {
		m := machines.Items[i]
		if o := byKey[clusterOfLabels(m.Namespace, m.Labels)]; o != nil {
			o.Machines = append(o.Machines, m)
		}
	}
	for _, g := range slices.Concat(groups...) {
		give(g, byKey, found)
	}
	for _, o := range found {
		o.sort()
	}
	slices.SortFunc(found, func(a, b *Objects) int {
		return strings.Compare(client.ObjectKeyFromObject(a.Cluster).String(), client.ObjectKeyFromObject(b.Cluster).String())
	})
	return found, nil
}

// clusterOfLabels is the cluster that an object names by its label.
func clusterOfLabels(namespace string, labels map[string]string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: labels[clusterv1.ClusterNameLabel]}
}

// give adds a group to the clusters that it is of: an etcd cluster names its cluster, and clusters name their control plane.
func give(g *Group, byKey map[client.ObjectKey]*Objects, all []*Objects) {
	t := g.Kind.Type()
	if t.Kind == etcdcluster.New().Type().Kind {
		if o := byKey[clusterOfLabels(g.Key.Namespace, g.Labels)]; o != nil {
			o.EtcdClusters = append(o.EtcdClusters, g)
		}
		return
	}
	for _, o := range all {
		ref := o.Cluster.Spec.ControlPlaneRef
		if o.Cluster.Namespace == g.Key.Namespace && ref.Name == g.Key.Name && ref.Kind == t.Kind && ref.APIGroup == t.Group {
			o.ControlPlane = g
		}
	}
}

// listGroups lists all groups of a kind.
func listGroups(ctx context.Context, c client.Client, kind observe.Kind) ([]*Group, error) {
	gvk := kind.Type().GroupVersionKind
	empty, err := c.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("listing each %s: %w", gvk.Kind, err)
	}
	list, is := empty.(client.ObjectList)
	if !is {
		return nil, fmt.Errorf("listing each %s: %T is no list", gvk.Kind, empty)
	}
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing each %s: %w", gvk.Kind, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("listing each %s: %w", gvk.Kind, err)
	}
	found := make([]*Group, 0, len(items))
	for _, item := range items {
		if object, is := item.(observe.Object); is {
			found = append(found, viewOf(kind, object))
		}
	}
	return found, nil
}

// sort brings what was read into the order of Objects.
func (o *Objects) sort() {
	slices.SortFunc(o.Deployments, func(a, b clusterv1.MachineDeployment) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(o.Machines, func(a, b clusterv1.Machine) int {
		if n := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	slices.SortFunc(o.EtcdClusters, func(a, b *Group) int { return strings.Compare(a.Key.Name, b.Key.Name) })
}

// NotLooked says why the state of etcd and machines is not known before a cluster itself was looked at.
const NotLooked = "the cluster itself was not looked at yet"

// DescribeObjects says of a cluster what the management plane alone tells. What only the cluster itself can tell is unknown.
func DescribeObjects(o *Objects) report.Cluster {
	out := Describe(Seen{Objects: o})
	out.Problem = ""
	unknown := func(machines []report.Machine) {
		for i := range machines {
			if !machines[i].Failed && !machines[i].Deleting {
				machines[i].Waiting = "a look: " + NotLooked
			}
		}
	}
	if o.ControlPlane != nil {
		out.Etcd = report.Etcd{Managed: o.ControlPlane.HoldsQuorum, Why: NotLooked}
	}
	unknown(out.ControlPlane.Machines)
	for i := range out.EtcdClusters {
		out.EtcdClusters[i].Etcd = report.Etcd{Managed: true, Why: NotLooked}
		unknown(out.EtcdClusters[i].Machines)
	}
	for i := range out.Workers {
		unknown(out.Workers[i].Machines)
	}
	return out
}
