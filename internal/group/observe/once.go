package observe

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/inplace"
)

// once looks once: for the command line, without what is kept between turns.
type once struct{ *Observer }

// onceTimeout is how long the managed cluster may take to answer one who looks once.
const onceTimeout = 5 * time.Second

// Once reads what a decision about one group would be made from, once
// and without a manager: for the command line. Since when members are as they
// are is not known to one who looks once; Member.Since is the time of the look.
// A managed cluster that does not answer is a fact, not an error. A group
// without a Cluster is an error.
func Once(ctx context.Context, from client.Reader, kind Kind, key client.ObjectKey) (plan.Observed, error) {
	t, err := turnOnce(ctx, from, kind, key)
	if err != nil {
		return plan.Observed{}, err
	}
	return t.Facts, nil
}

// OnceBeside is Once, with what is found beside the facts.
func OnceBeside(ctx context.Context, from client.Reader, kind Kind, key client.ObjectKey) (plan.Observed, Beside, error) {
	t, err := turnOnce(ctx, from, kind, key)
	if err != nil {
		return plan.Observed{}, Beside{}, err
	}
	return t.Facts, Beside{Following: t.Following(), UnseenUpgrader: once{t}.unseenUpgrader(ctx, from), Drain: once{t}.drainText()}, nil
}

// Beside is what one who looks once finds beside the facts that decide.
type Beside struct {
	// Following names the machines whose metadata follow the group without a step.
	Following []string
	// UnseenUpgrader is the version for which the manager may have an upgrader image or not: its flag and its own namespace are not seen.
	// Empty: it is known, or none is needed.
	UnseenUpgrader string
	// Drain says how nodes are drained before Quorate updates their machines in place; empty: it updates none.
	Drain string
}

// drainText says how nodes are drained before Quorate updates their machines in place; empty: it updates none.
func (t once) drainText() string {
	if !t.Facts.Policy.InPlace.Ours() || t.ByExtension() {
		return ""
	}
	return inplace.DrainText(t.Spec.Drain, len(t.Machines) == 1 && len(t.Facts.Workers) == 0)
}

// Following names the machines whose labels, annotations, timeouts, taints or gates follow the group without a step.
func (t *Observer) Following() []string {
	var following []string
	for _, m := range t.Machines {
		if !m.Read {
			continue
		}
		if wanted := t.Own.InPlace(t.View, m); wanted.Machine.Differs || wanted.Config.Differs || wanted.Infrastructure.Differs {
			following = append(following, m.Name)
		}
	}
	return following
}

// turnOnce observes one group, once. Independent requests are sent at the same time.
func turnOnce(ctx context.Context, from client.Reader, kind Kind, key client.ObjectKey) (*Observer, error) {
	from = NewSnapshot(from)
	object := kind.New()
	if err := from.Get(ctx, key, object); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Type().Kind, key, err)
	}
	owner := ClusterName(kind, object)
	if owner == "" {
		return nil, fmt.Errorf("no Cluster owns %s %s", kind.Type().Kind, key)
	}
	var inside <-chan inside
	if !kind.Type().Nodeless {
		inside = lookInside(ctx, from, client.ObjectKey{Namespace: key.Namespace, Name: owner})
	}
	cluster, machines := &clusterv1.Cluster{}, Machines{}
	both, short := errgroup.WithContext(ctx)
	both.Go(func() error {
		if err := from.Get(short, client.ObjectKey{Namespace: key.Namespace, Name: owner}, cluster); err != nil {
			return fmt.Errorf("reading Cluster %s: %w", owner, err)
		}
		return nil
	})
	both.Go(func() (err error) {
		machines, err = ListMachines(short, from, object, owner, kind.Spec(object).Selector)
		return err
	})
	if err := both.Wait(); err != nil {
		return nil, err
	}
	t := Begin(onceFrom(from), kind, &Memory{Began: time.Now()}, object, cluster, machines, time.Now())
	once{t}.readAhead(ctx, machines)
	if err := t.read(ctx, machines); err != nil {
		return nil, err
	}
	if err := (once{t}).lookOnce(ctx, inside); err != nil {
		return nil, err
	}
	t.Facts.Now = time.Now()
	remains{t}.add()
	return t, nil
}

// onceFrom are the sources of one look.
func onceFrom(from client.Reader) Sources { return Sources{Cache: from, APIReader: from, Once: true} }

// aheadAtOnce is how many questions of one look are asked ahead at the same time.
const aheadAtOnce = 16

// readAhead asks at the same time for what read asks for one after the other, in turns that are thrown away: the reader remembers the
// answers. What fails is asked once more by read, which tells why.
func (t once) readAhead(ctx context.Context, machines Machines) {
	if t.Facts.Group.Deleting || t.Facts.Group.Paused {
		return
	}
	var all errgroup.Group
	all.SetLimit(aheadAtOnce)
	ask := func(of Machines, question func(*Observer) error) {
		aside := Begin(onceFrom(t.APIReader), t.Kind, &Memory{}, t.Object, t.Cluster, of, t.Facts.Now)
		all.Go(func() error { return question(aside) })
	}
	ask(machines, func(a *Observer) error {
		if err := a.Own.Read(ctx, a); err != nil {
			return err
		}
		_, err := a.Own.Created(ctx, a)
		return err
	})
	ask(machines, func(a *Observer) error {
		a.addTemplate(ctx)
		_, err := a.Made(ctx, a.Memory.Template.Kind)
		return err
	})
	ask(machines, func(a *Observer) error { return updates{a}.readUpdates(ctx) })
	ask(machines, func(a *Observer) error { return addRecovery(ctx, a) })
	for _, m := range machines.Ours {
		of := Machines{Ours: []*clusterv1.Machine{m}}
		ask(of, func(a *Observer) error { return a.readBootstraps(ctx) })
		ask(of, func(a *Observer) error { return a.readInfrastructure(ctx) })
	}
	_ = all.Wait() // read tells
}

// inside is what one who looks once sees in a managed cluster. config is nil where it is not known how the cluster is reached.
type inside struct {
	config *rest.Config
	view   workload.View
}

// lookInside looks into a managed cluster in the background. A refused connection is an answer: nothing is tried twice.
func lookInside(ctx context.Context, secrets client.Reader, cluster client.ObjectKey) <-chan inside {
	seen := make(chan inside, 1)
	go func() {
		config, err := workload.ConfigOf(ctx, secrets, cluster)
		if err != nil {
			seen <- inside{view: workload.View{Why: err.Error()}}
			return
		}
		config.QPS = -1 // one look asks a few dozen times; client-go would let five a second through
		short, cancel := context.WithTimeout(ctx, onceTimeout)
		defer cancel()
		view, err := workload.Once(short, config)
		if err != nil {
			view = workload.View{Why: err.Error()}
		}
		seen <- inside{config, view}
	}()
	return seen
}

// lookOnce adds what the managed cluster and its etcd say. Machines without Nodes have no managed cluster to be looked into, and their kind
// looks at what was read.
func (t once) lookOnce(ctx context.Context, from <-chan inside) error {
	if t.Nodeless {
		err := t.Own.Look(ctx, t.seeNodeless())
		if err == nil && t.Surveys() {
			t.addSurveyOnce(t.surveyOnce(ctx, dialDirectly))
		}
		return err
	}
	seen := <-from
	t.Workload = connection{config: seen.config, direct: true}
	known := t.See(seen.view)
	if seen.config == nil {
		defer Extensions(t).addAnswers(ctx)
		return t.Own.Look(ctx, known)
	}
	asked := t.Surveys()
	survey := make(chan etcd.Survey, 1)
	if asked { // while the kind looks
		go func() { survey <- t.surveyOnce(ctx, t.Dial()) }()
	}
	short, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	err := t.Own.Look(short, known)
	Extensions(t).addAnswers(ctx)
	t.addReportedUpgrader()
	switch {
	case asked:
		t.addSurveyOnce(<-survey)
	case t.Surveys(): // the kind has found out that there is an etcd
		t.addSurveyOnce(t.surveyOnce(ctx, t.Dial()))
	}
	if err != nil {
		t.Facts.Cluster.Reachable, t.Facts.Cluster.Unreachable = false, err.Error()
	}
	return nil
}

// surveyOnce asks etcd's members, and those that do not answer well once more by the way on which a turn would ask them first. At the
// address that was tried first somebody else may be.
func (t once) surveyOnce(ctx context.Context, to Dial) etcd.Survey {
	q := NewQuorums(t.APIReader, t.Type.Authority)
	defer q.Forget(t.ClusterKey())
	quorum, err := q.Of(ctx, t.Cluster)
	if err != nil {
		return etcd.Survey{Why: err.Error()}
	}
	c, is := t.Workload.(connection)
	if !is || t.Nodeless {
		return t.Ask(ctx, quorum, to, etcd.Survey{})
	}
	c.direct = false
	return matching{t.View}.askTwice(ctx, quorum, to, func(node, ip string) etcd.Target {
		return etcd.Target{Name: node, Alias: workload.EtcdPod(node), Dial: c.Dial(t.ClusterKey(), node, ip, etcdPort)}
	})
}

// askTwice asks etcd's members by one way, and, where one whose address is known does not answer well, all by another. Connections to those
// that answered stay.
func (o matching) askTwice(ctx context.Context, quorum Surveyor, first, second Dial) etcd.Survey {
	addresses := false
	survey := o.Ask(ctx, quorum, func(node, ip string) etcd.Target {
		addresses = addresses || ip != ""
		return first(node, ip)
	}, etcd.Survey{})
	well := survey.Known && !slices.ContainsFunc(survey.Members, func(m etcd.Member) bool { return m.Health != plan.Healthy })
	if well || !addresses {
		return survey
	}
	return o.Ask(ctx, quorum, second, survey)
}

// addSurveyOnce adds what etcd's members said.
func (t once) addSurveyOnce(survey etcd.Survey) {
	t.AddEtcd(survey, &MemberTimes{}, time.Now())
	addSpace(t.View, survey, &Space{}, time.Now())
}

// connection is the way to the managed cluster of one who looks once. It watches nothing. config is nil where none is known. direct:
// machines are reached by their addresses where these answer.
type connection struct {
	config *rest.Config
	direct bool
}

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
	if c.direct {
		return workload.DialDirect(c.config, node, ip, port)
	}
	return workload.Dial(c.config, node, ip, port)
}

// Events implements Workloads.
func (connection) Events() <-chan event.GenericEvent { return nil }

// ClusterName returns the name of the Cluster that owns a group, or that its label names where that
// is enough; empty: there is none.
func ClusterName(kind Kind, object client.Object) string {
	if name := ownerName(object); name != "" || !kind.Type().Standalone {
		return name
	}
	return object.GetLabels()[clusterv1.ClusterNameLabel]
}

// ownerName returns the name of the Cluster that owns a group; empty when none does.
func ownerName(object client.Object) string {
	for _, o := range object.GetOwnerReferences() {
		if o.Kind == "Cluster" {
			return o.Name
		}
	}
	return ""
}
