// Package inventory knows which objects and secrets of a cluster a backup holds beside the snapshot of etcd, and what a new management
// cluster gets of them. It reads objects, and writes none.
package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/backup"
)

// objectsFolder and secretsFolder are those of an archive's files.
const (
	objectsFolder = "objects/"
	secretsFolder = "secrets/"
)

// mostObjects is how many bytes all objects of an archive may have. The rest of its files is for secrets.
const mostObjects = archive.MostFiles / 2

// Gathered are the objects of a cluster.
type Gathered struct {
	// Files are the objects as an archive holds them, by name.
	Files map[string][]byte
	// Secrets are the names of the secrets that the group takes contents of files and passwords from, such as the configuration of
	// encryption at rest, and Others those that only configurations of workers name. Both are sorted.
	Secrets, Others []string

	size int
}

// Gather reads the objects from which a cluster can be made again. These are the Cluster, the control plane or EtcdCluster that is backed
// up, which is of a kind, those that these name, its MachineDeployments with their templates, and its MachineHealthChecks. An object that
// is not there, or that may not be read, is left out. So are those of workers that would make the archive too large: a backup of etcd alone
// is better than none.
func Gather(
	ctx context.Context, from client.Reader, cluster *clusterv1.Cluster, group client.Object, kind schema.GroupVersionKind,
) (*Gathered, error) {
	g := &Gathered{Files: map[string][]byte{}}
	of, err := plain(group, kind)
	if err != nil {
		return nil, err
	}
	top, err := plain(cluster, clusterv1.GroupVersion.WithKind("Cluster"))
	if err != nil {
		return nil, err
	}
	g.Secrets = slices.Compact(slices.Sorted(slices.Values(secretsIn(of.Object))))
	all := []*unstructured.Unstructured{top, of}
	for _, r := range []reference{
		{machine.InfrastructureRef, cluster.Spec.InfrastructureRef},
		{machine.InfrastructureTemplateRef, refAt(of, "spec", "machineTemplate", "spec", "infrastructureRef")},
	} {
		found, err := r.find(ctx, from, cluster.Namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	for _, o := range all {
		if err := g.add(o); err != nil {
			return nil, err
		}
	}
	if err := g.addWorkers(ctx, from, cluster); err != nil {
		return nil, err
	}
	slices.Sort(g.Others)
	g.Others = slices.Compact(g.Others)
	return g, nil
}

// addWorkers adds MachineDeployments, each after its templates, and MachineHealthChecks.
func (g *Gathered) addWorkers(ctx context.Context, from client.Reader, cluster *clusterv1.Cluster) error {
	ours := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}}
	deployments, checks := &clusterv1.MachineDeploymentList{}, &clusterv1.MachineHealthCheckList{}
	for _, list := range []client.ObjectList{deployments, checks} {
		if err := from.List(ctx, list, ours...); err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("listing what belongs to the workers of cluster %s: %w", cluster.Name, err)
		}
	}
	for i := range deployments.Items {
		md := &deployments.Items[i]
		var all []*unstructured.Unstructured
		for _, r := range []reference{
			{machine.BootstrapTemplateRef, md.Spec.Template.Spec.Bootstrap.ConfigRef},
			{machine.InfrastructureTemplateRef, md.Spec.Template.Spec.InfrastructureRef},
		} {
			found, err := r.find(ctx, from, cluster.Namespace)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		of, err := plain(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))
		if err != nil {
			return err
		}
		if err := g.addWithin(append(all, of)...); err != nil {
			return err
		}
	}
	for i := range checks.Items {
		of, err := plain(&checks.Items[i], clusterv1.GroupVersion.WithKind("MachineHealthCheck"))
		if err != nil {
			return err
		}
		if err := g.addWithin(of); err != nil {
			return err
		}
	}
	return nil
}

// addWithin adds objects that belong together, if there is room for them.
func (g *Gathered) addWithin(all ...*unstructured.Unstructured) error {
	size := 0
	for _, o := range all {
		data, err := o.MarshalJSON()
		if err != nil {
			return fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		size += len(data)
	}
	if g.size+size > mostObjects {
		return nil
	}
	for _, o := range all {
		if err := g.add(o); err != nil {
			return err
		}
	}
	return nil
}

// add adds an object.
func (g *Gathered) add(o *unstructured.Unstructured) error {
	data, err := json.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	name := fileOf(o)
	if _, is := g.Files[name]; !is {
		g.size += len(data)
	}
	g.Files[name] = data
	if o.GroupVersionKind().Group == bootstrapv1.GroupVersion.Group {
		g.Others = append(g.Others, secretsIn(o.Object)...)
	}
	return nil
}

// fileOf names the file of an object.
func fileOf(o *unstructured.Unstructured) string {
	name := objectsFolder + o.GetKind() + "/" + o.GetName() + ".json"
	if backup.IsFile(name) {
		return name
	}
	sum := sha256.Sum256([]byte(o.GetName()))
	return objectsFolder + o.GetKind() + "/" + hex.EncodeToString(sum[:]) + ".json"
}

// plain returns an object with its kind, and without what only its API server needs.
func plain(o client.Object, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	u.SetManagedFields(nil)
	return u, nil
}

// reference is what an object names.
type reference struct {
	field machine.Ref
	to    clusterv1.ContractVersionedObjectReference
}

// find reads what is named; nothing: it is not there, or cannot be referenced or read.
func (r reference) find(ctx context.Context, from client.Reader, namespace string) ([]*unstructured.Unstructured, error) {
	if !r.to.IsDefined() {
		return nil, nil
	}
	found, err := r.field.Find(ctx, from, r.to, namespace)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), machine.Refused(err) != nil:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", r.to.Kind, r.to.Name, err)
	}
	found = found.DeepCopy()
	found.SetManagedFields(nil)
	return []*unstructured.Unstructured{found}, nil
}

// refAt returns a reference in an object; empty: there is none.
func refAt(o *unstructured.Unstructured, at ...string) clusterv1.ContractVersionedObjectReference {
	text := func(field string) string {
		s, _, _ := unstructured.NestedString(o.Object, append(slices.Clone(at), field)...)
		return s
	}
	return clusterv1.ContractVersionedObjectReference{APIGroup: text("apiGroup"), Kind: text("kind"), Name: text("name")}
}

// secretsIn returns the secrets that an object takes contents of files and passwords of users from.
func secretsIn(content any) []string {
	var names []string
	switch of := content.(type) {
	case map[string]any:
		for field, value := range of {
			from, is := value.(map[string]any)
			if is && (field == "contentFrom" || field == "passwdFrom") {
				if name, _, _ := unstructured.NestedString(from, "secret", "name"); name != "" {
					names = append(names, name)
				}
			}
			names = append(names, secretsIn(value)...)
		}
	case []any:
		for _, one := range of {
			names = append(names, secretsIn(one)...)
		}
	}
	return names
}
