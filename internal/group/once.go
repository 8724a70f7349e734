package group

import (
	"context"
	"fmt"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/workload"
)

// onceTimeout is how long the managed cluster may take to answer one who looks once.
const onceTimeout = 5 * time.Second

// ObserveOnce reads what a decision about one group would be made from, once
// and without a manager: for the command line. Since when members are as they
// are is not known to one who looks once; Member.Since is the time of the look.
// A managed cluster that does not answer is a fact, not an error. A group
// without a Cluster is an error.
func ObserveOnce(ctx context.Context, from client.Reader, kind Kind, key client.ObjectKey) (plan.Observed, error) {
	t, err := turnOnce(ctx, from, kind, key)
	if err != nil {
		return plan.Observed{}, err
	}
	return t.Facts, nil
}

// ObserveAll is ObserveOnce, and names the machines whose labels, annotations, timeouts, taints or gates follow the group without a step.
func ObserveAll(ctx context.Context, from client.Reader, kind Kind, key client.ObjectKey) (plan.Observed, []string, error) {
	t, err := turnOnce(ctx, from, kind, key)
	if err != nil {
		return plan.Observed{}, nil, err
	}
	return t.Facts, t.Following(), nil
}

// Following names the machines whose labels, annotations, timeouts, taints or gates follow the group without a step.
func (t *Turn) Following() []string {
	var following []string
	for _, m := range t.Machines {
		if !m.Read {
			continue
		}
		if wanted := t.Kind.InPlace(t, m); wanted.Machine.Differs || wanted.Config.Differs || wanted.Infrastructure.Differs {
			following = append(following, m.Name)
		}
	}
	return following
}

// turnOnce observes one group, once.
func turnOnce(ctx context.Context, from client.Reader, kind Kind, key client.ObjectKey) (*Turn, error) {
	object := kind.New()
	if err := from.Get(ctx, key, object); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Type().Kind, key, err)
	}
	cluster := &clusterv1.Cluster{}
	owner := (&Controller{Kind: kind}).clusterName(object)
	if owner == "" {
		return nil, fmt.Errorf("no Cluster owns %s %s", kind.Type().Kind, key)
	}
	if err := from.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: owner}, cluster); err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", owner, err)
	}
	c := &Controller{Client: readOnly{reader: from, versions: &versions{}}, APIReader: from, Kind: kind, Once: true}
	machines, err := ListMachines(ctx, from, object, cluster.Name, kind.Spec(object).Selector)
	if err != nil {
		return nil, err
	}
	t := c.Begin(object, cluster, machines, time.Now())
	if err := t.read(ctx, machines); err != nil {
		return nil, err
	}
	if err := t.lookOnce(ctx); err != nil {
		return nil, err
	}
	t.Facts.Now = time.Now()
	return t, nil
}

// readOnly is the client of one look, which cannot write.
type readOnly struct {
	client.Client
	reader   client.Reader
	versions *versions
}

// Get implements client.Client. The definition of a kind, from which only the version for Cluster API's contract is taken, is read once in a look:
// it would be for each machine.
func (r readOnly) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if definition, is := object.(*metav1.PartialObjectMetadata); is && definition.Kind == "CustomResourceDefinition" {
		return r.versions.get(ctx, r.reader, key, definition, options...)
	}
	return r.reader.Get(ctx, key, object, options...)
}

// versions are the metadata of definitions that one look has read.
type versions struct {
	read map[client.ObjectKey]*metav1.PartialObjectMetadata
}

// get reads the metadata of a definition, unless the look has.
func (v *versions) get(ctx context.Context, from client.Reader, key client.ObjectKey, definition *metav1.PartialObjectMetadata, options ...client.GetOption) error {
	if known := v.read[key]; known != nil {
		known.DeepCopyInto(definition)
		return nil
	}
	if err := from.Get(ctx, key, definition, options...); err != nil {
		return err
	}
	if v.read == nil {
		v.read = map[client.ObjectKey]*metav1.PartialObjectMetadata{}
	}
	v.read[key] = definition.DeepCopy()
	return nil
}

// List implements client.Client.
func (r readOnly) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return r.reader.List(ctx, list, options...)
}

// Patch implements client.Client: whoever only looks changes nothing.
func (readOnly) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return fmt.Errorf("writing %T %s: whoever looks once writes nothing", o, o.GetName())
}

// lookOnce adds what the managed cluster and its etcd say.
func (t *Turn) lookOnce(ctx context.Context) error {
	dial, err := t.seeOnce(ctx)
	t.addAnswers(ctx)
	if err != nil || dial == nil || !t.Surveys() {
		return err
	}
	q := NewQuorums(t.APIReader, t.Nodeless)
	defer q.Forget(t.ClusterKey())
	survey := etcd.Survey{}
	if quorum, err := q.Of(ctx, t.Cluster); err != nil {
		survey.Why = err.Error()
	} else {
		survey = t.Ask(ctx, quorum, dial, etcd.Survey{})
	}
	t.AddEtcd(survey, &MemberTimes{}, time.Now())
	return nil
}

// seeOnce adds what is known of the machines, and returns the way to their members; nil: there is none. Machines without Nodes
// have no managed cluster to be looked into, and their kind looks at what was read.
func (t *Turn) seeOnce(ctx context.Context) (Dial, error) {
	if t.Nodeless {
		t.seeNodeless()
		return dialDirectly, t.Kind.Look(ctx, t)
	}
	t.Workload = connection{}
	config, err := workload.ConfigOf(ctx, t.APIReader, t.ClusterKey())
	if err != nil {
		t.See(workload.View{Why: err.Error()})
		return nil, t.Kind.Look(ctx, t)
	}
	config.QPS = -1 // one look asks a few dozen times; client-go would let five a second through
	t.Workload = connection{config}
	short, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	view, err := workload.Once(short, config)
	if err != nil {
		view = workload.View{Why: err.Error()}
	}
	t.See(view)
	if err := t.Kind.Look(short, t); err != nil {
		t.Facts.Cluster.Reachable, t.Facts.Cluster.Unreachable = false, err.Error()
	}
	return t.dial(), nil
}

// connection is the way to the managed cluster of one who looks once. It watches nothing. config is nil where none is known.
type connection struct{ config *rest.Config }

// Want implements Workloads.
func (connection) Want(client.ObjectKey, bool) {}

// Forget implements Workloads.
func (connection) Forget(client.ObjectKey) {}

// Own implements Workloads.
func (connection) Own(client.ObjectKey, workload.Mine) {}

// Config implements Workloads.
func (c connection) Config(client.ObjectKey) *rest.Config { return c.config }

// View implements Workloads: what is seen is told with the look itself.
func (connection) View(client.ObjectKey) workload.View { return workload.View{} }

// Dial implements Workloads.
func (c connection) Dial(_ client.ObjectKey, node, ip string, port int) func(context.Context) (net.Conn, error) {
	return workload.Dial(c.config, node, ip, port)
}

// Events implements Workloads.
func (connection) Events() <-chan event.GenericEvent { return nil }

// clusterName returns the name of the Cluster that owns a group; empty when none does.
func clusterName(object client.Object) string {
	for _, o := range object.GetOwnerReferences() {
		if o.Kind == "Cluster" {
			return o.Name
		}
	}
	return ""
}
