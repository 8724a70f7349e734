package facts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// Plans forecasts what happens to a cluster's etcd clusters on machines of their own, and then to its control plane. Objects are as
// they are given in changed, whole and as the API server would store them. The cluster itself may be only given. Nothing is written. scheme
// knows the kinds that from reads.
func Plans(
	ctx context.Context, from client.Reader, scheme *runtime.Scheme, key client.ObjectKey, changed []*unstructured.Unstructured,
) ([]report.Plan, error) {
	as := newOverlay(from, scheme, changed)
	if err := as.bear(ctx, key); err != nil {
		return nil, err
	}
	from = as
	objects, err := readGroups(ctx, from, key)
	if err != nil {
		return nil, err
	}
	if objects.ControlPlane == nil {
		return nil, noControlPlane(objects.Cluster)
	}
	groups := slices.Concat(objects.EtcdClusters, []*Group{objects.ControlPlane})
	plans := make([]report.Plan, len(groups))
	all, ctx := errgroup.WithContext(ctx)
	for i, of := range groups {
		all.Go(func() (err error) {
			plans[i], err = planOf(ctx, from, key, of)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return plans, nil
}

// Snapshot reads a management cluster for one look, each thing once.
func Snapshot(from client.Reader) client.Reader { return observe.NewSnapshot(from) }

// planOf forecasts what happens to one group of a cluster.
func planOf(ctx context.Context, from client.Reader, key client.ObjectKey, of *Group) (report.Plan, error) {
	var observed plan.Observed
	var beside observe.Beside
	var past report.History
	var version string
	var config *bootstrapv1.KubeadmConfigSpec
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		if observed, beside, err = observe.OnceBeside(ctx, from, of.Kind, of.Key); err != nil {
			return fmt.Errorf("observing cluster %s: %w", key, err)
		}
		return nil
	})
	all.Go(func() (err error) {
		past, err = historyOf(ctx, from, key, of)
		return err
	})
	all.Go(func() (err error) {
		version, config, err = configurationOf(ctx, from, of)
		return err
	})
	if err := all.Wait(); err != nil {
		return report.Plan{}, err
	}
	p := report.NewPlan(key, Title(of), observed, beside.Following, past)
	p.NoteUpgrader(beside.UnseenUpgrader)
	p.NoteDrain(beside.Drain)
	if config != nil {
		p.NoteRefused(version, config)
	}
	return p, nil
}

// configurationOf returns the version of Kubernetes that a group wants, and the configuration for kubeadm of its machines, its own or that
// of a template; nil: there is none.
func configurationOf(ctx context.Context, from client.Reader, of *Group) (string, *bootstrapv1.KubeadmConfigSpec, error) {
	object := of.Kind.New()
	if err := from.Get(ctx, of.Key, object); err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", Title(of), err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", Title(of), err)
	}
	version := of.Kind.Spec(object).Version
	if own, found, _ := unstructured.NestedMap(fields, "spec", "kubeadmConfigSpec"); found {
		config := &bootstrapv1.KubeadmConfigSpec{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(own, config); err != nil {
			return "", nil, fmt.Errorf("reading %s: spec.kubeadmConfigSpec: %w", Title(of), err)
		}
		return version, config, nil
	}
	ref, _, _ := unstructured.NestedStringMap(fields, "spec", "machineTemplate", "spec", "bootstrap", "configRef")
	if ref["kind"] != "KubeadmConfigTemplate" || ref["apiGroup"] != bootstrapv1.GroupVersion.Group {
		return "", nil, nil
	}
	template := &bootstrapv1.KubeadmConfigTemplate{}
	if err := from.Get(ctx, client.ObjectKey{Namespace: of.Key.Namespace, Name: ref["name"]}, template); err != nil {
		return "", nil, client.IgnoreNotFound(err) // that it is missing is the plan's
	}
	return version, &template.Spec.Template.Spec, nil
}

// Title names a group: its kind and its name.
func Title(of *Group) string { return of.Kind.Type().Kind + " " + of.Key.Name }

// ErrNoControlPlane says that a cluster has no control plane of a kind that is known here.
var ErrNoControlPlane = errors.New("there is nothing to plan")

func noControlPlane(cluster *clusterv1.Cluster) error {
	return fmt.Errorf("cluster %s/%s has no %s yet: %w", cluster.Namespace, cluster.Name, wantedKind(cluster), ErrNoControlPlane)
}

// ControlPlane names the control plane of a cluster, to be changed.
func ControlPlane(ctx context.Context, c client.Reader, key client.ObjectKey) (*unstructured.Unstructured, error) {
	objects, err := readGroups(ctx, c, key)
	if err != nil {
		return nil, err
	}
	if objects.ControlPlane == nil {
		return nil, noControlPlane(objects.Cluster)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(objects.ControlPlane.Kind.Type().GroupVersionKind)
	o.SetNamespace(objects.ControlPlane.Key.Namespace)
	o.SetName(objects.ControlPlane.Key.Name)
	return o, nil
}

// overlay reads objects, some of which are as if they had been changed.
type overlay struct {
	client.Reader
	scheme  *runtime.Scheme
	changed map[changedKey]*unstructured.Unstructured
}

func newOverlay(under client.Reader, scheme *runtime.Scheme, changed []*unstructured.Unstructured) overlay {
	from := overlay{Reader: observe.NewSnapshot(under), scheme: scheme, changed: map[changedKey]*unstructured.Unstructured{}}
	for _, o := range changed {
		from.changed[changedKey{o.GroupVersionKind(), client.ObjectKeyFromObject(o)}] = o
	}
	return from
}

type changedKey struct {
	schema.GroupVersionKind
	client.ObjectKey
}

// Get implements client.Reader.
func (o overlay) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(object, o.scheme)
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	changed := o.changed[changedKey{gvk, key}]
	if changed == nil {
		return o.Reader.Get(ctx, key, object, options...)
	}
	if generic, ok := object.(*unstructured.Unstructured); ok {
		changed.DeepCopyInto(generic)
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, object); err != nil {
		return fmt.Errorf("reading %s %s as it would be: %w", gvk.Kind, key, err)
	}
	return nil
}
