package stacked

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/workload"
)

// Workloads are the connections to the managed clusters, by cluster.
// *workload.Connections is one.
type Workloads interface {
	// Want asks for a connection, and says whether something is under way there.
	Want(key client.ObjectKey, busy bool)
	// Forget ends the connection.
	Forget(key client.ObjectKey)
	// Own says which Nodes may belong to the control plane, besides those with its label.
	Own(key client.ObjectKey, mine workload.Mine)
	// Config returns how the cluster is reached; nil before it was connected for the first time.
	Config(key client.ObjectKey) *rest.Config
	// View returns what is known now, without waiting.
	View(key client.ObjectKey) workload.View
	// Dial returns a way to a port of a control plane's machine.
	Dial(key client.ObjectKey, node, nodeIP string, port int) func(context.Context) (net.Conn, error)
	// Events yields a Cluster whenever its view has changed.
	Events() <-chan event.GenericEvent
}

// observe reads everything that a decision may depend on, once. While an own
// write is not to be seen yet, it returns how long to wait for it instead.
func (r *Reconciler) observe(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster, m *memory) (*scene, time.Duration, error) {
	from := reader{objects: r.Client, direct: r.APIReader}
	machines, err := group.ListMachines(ctx, r.Client, kcp, cluster.Name)
	if err != nil {
		return nil, 0, err
	}
	if wait, err := m.writes.Unseen(ctx, r.APIReader, kcp, slices.Concat(machines.Ours, machines.Others), time.Now()); err != nil || wait > 0 {
		return nil, wait, err
	}
	s, err := from.gather(ctx, kcp, cluster, machines, &m.slow, time.Now())
	if err != nil {
		return nil, 0, err
	}
	s.began = m.began
	if s.Facts.Group.Begun == "" {
		s.Facts.Group.Begun = m.begun
	}
	r.Workload.Own(client.ObjectKeyFromObject(cluster), group.Mine(slices.Concat(machines.Ours, machines.Others)...))
	s.addWorkload(r.Workload.View(client.ObjectKeyFromObject(cluster)))
	r.observeInit(ctx, s)
	if err := r.observeKubeadm(ctx, s, m); err != nil {
		return nil, 0, err
	}
	r.observeExpiries(ctx, s, m)
	return s, 0, r.observeEtcd(ctx, s, m)
}

// observeKubeadm finds out whether kubeadm's files in the cluster are behind. They are
// asked for when a machine is outdated or missing, when the spec has changed, and now and then.
func (r *Reconciler) observeKubeadm(ctx context.Context, s *scene, m *memory) error {
	o := &s.Facts
	if !o.Group.Initialized || o.Group.Deleting || o.Group.Paused || !o.Cluster.Reachable || len(o.Strangers) > 0 {
		return nil
	}
	of := fmt.Sprint(s.kcp.UID, s.kcp.Generation)
	moving := len(o.Machines) != o.Want.Replicas || slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return m.Outdated != "" })
	age := slowTime
	switch {
	case moving, m.files.behind.Config != "", m.files.behind.Addons != "", m.files.behind.Permissions != "":
		age = filesAge
	case m.files.behind != KubeadmBehind{}, o.Etcd.Managed && !m.surveys.Last.Known:
		age = group.SurveyAgeAtRest // a person mends it, or permissions are missing to reach etcd: neither shall wait for long
	}
	if m.files.of != of || o.Now.Sub(m.files.read) >= age {
		behind, err := r.Kubeadm.Behind(ctx, s.buildable(), s.Cluster)
		if err != nil && moving {
			// Machines that join with an old configuration would be as old themselves.
			return fmt.Errorf("looking at kubeadm's files in cluster %s: %w", s.Cluster.Name, err)
		}
		if err == nil {
			m.files = filesBehind{behind: behind, of: of, read: o.Now}
		}
	}
	b := m.files.behind
	o.Cluster.Kubeadm, o.Cluster.Addons, o.Cluster.Permissions = b.Config, b.Addons, b.Permissions
	o.Cluster.KubeadmUnusable, o.Cluster.AddonsRefused = b.ConfigUnusable, b.AddonsRefused
	return nil
}

// observeInit finds out whether the first machine has initialised the cluster. It never turns back.
func (r *Reconciler) observeInit(ctx context.Context, s *scene) {
	o := &s.Facts
	if o.Group.Initialized || o.Group.Deleting || o.Group.Paused || !o.Cluster.Reachable {
		return
	}
	// A machine that is deleted while it initialises takes the cluster with it; those that
	// others made may have others beside them.
	if o.Group.New && !slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return !m.Deleting }) {
		return
	}
	missing, err := r.Kubeadm.Initialised(ctx, s.kcp, s.Cluster)
	if err != nil {
		// An API server that has just come up may fail yet; the next turn asks again.
		missing = err.Error()
	}
	o.Cluster.Initializing = missing
	if missing == "" {
		o.Group.Initialized, o.Group.New = true, false
	}
}

// filesAge is how long kubeadm's files in the cluster are believed while machines join or the files are behind.
// What we write ourselves is read again at once.
const filesAge = 10 * time.Second

// observeEtcd adds what etcd says, and has it asked unless that was done a moment ago. The error is
// group.ErrSurveyRuns while the answers are not there.
func (r *Reconciler) observeEtcd(ctx context.Context, s *scene, m *memory) error {
	if !s.Surveys() {
		m.surveys.Drop()
		return nil
	}
	s.Left = m.left
	around := s.Around()
	m.surveys.Take()
	if !m.surveys.Usable(around, time.Now()) {
		if err := m.surveys.Renew(ctx, r.asker(s), around, ""); err != nil {
			return err
		}
	}
	s.useSurvey(m)
	return nil
}

// useSurvey adds the newest survey.
func (s *scene) useSurvey(m *memory) {
	s.Facts.Now = time.Now()
	s.Retry = m.surveys.Retry()
	s.AddEtcd(m.surveys.Last, &m.since, s.Facts.Now)
}

// How soon to look again. Objects, Nodes and Pods are watched; what is not are
// etcd, kubeadm's progress, secrets and templates.
const (
	soonAfterAct      = 10 * time.Millisecond
	soonAfterConflict = 100 * time.Millisecond
	soonInit          = 300 * time.Millisecond
	soonBusy          = time.Second
	soonMissing       = 5 * time.Second
	soonLongBusy      = 5 * time.Second
	soonAtRest        = 30 * time.Second
	longWithoutNew    = 5 * time.Minute
)

// again returns when to look again after a decision.
func (s *scene) again(d plan.Decision) time.Duration {
	o := s.Facts
	soon := soonAtRest
	switch {
	case d.Step.Acts():
		soon = soonAfterAct
	case o.Group.Paused:
		return 0
	case o.Want.Refused.Reason != "", len(o.Strangers) > 0, o.Cluster.Template != "":
		soon = soonMissing
	case !o.Group.Initialized && !o.Group.Deleting && len(o.Machines) > 0 && o.Cluster.Reachable:
		soon = soonInit
	case s.Surveys() && s.Busy():
		soon = soonBusy
		if o.Now.Sub(s.NewestFact(s.kcp)) > longWithoutNew {
			soon = soonLongBusy
		}
		soon = max(soon, s.Retry)
	}
	if d.Again > 0 {
		soon = min(soon, d.Again)
	}
	return soon
}
