package stacked

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/certs"
	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/machine"
)

// etcdPort is where kubeadm lets etcd serve its clients.
const etcdPort = 2379

// Quorum is the etcd of one cluster. *etcd.Cluster is one.
type Quorum interface {
	// Survey asks every target by itself what it knows.
	Survey(ctx context.Context, targets []etcd.Target) etcd.Survey
	// MoveLeader makes a voter the leader.
	MoveLeader(ctx context.Context, targets []etcd.Target, to uint64) error
	// RemoveMember removes a member; removing what is gone is no error.
	RemoveMember(ctx context.Context, targets []etcd.Target, id uint64) error
}

// Quorums are the etcds of all clusters, by cluster.
type Quorums interface {
	// Of returns the etcd of a cluster, with credentials that are valid.
	Of(ctx context.Context, cluster *clusterv1.Cluster) (Quorum, error)
	// Forget ends the connections to a cluster's etcd.
	Forget(key client.ObjectKey)
}

// quorums opens etcd with client certificates signed by the cluster's own authority.
type quorums struct {
	secrets client.Reader

	mu      sync.Mutex
	clients certs.EtcdClients
	open    map[client.ObjectKey]*etcd.Cluster
}

// Of implements Quorums.
func (q *quorums) Of(ctx context.Context, cluster *clusterv1.Cluster) (Quorum, error) {
	// No lock is held meanwhile: reading one cluster's secrets must not hold up the others.
	config, err := q.clients.Config(ctx, q.secrets, cluster)
	if err != nil {
		return nil, fmt.Errorf("making credentials for the etcd of cluster %s: %w", cluster.Name, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	key := client.ObjectKeyFromObject(cluster)
	if q.open == nil {
		q.open = map[client.ObjectKey]*etcd.Cluster{}
	}
	if q.open[key] == nil {
		q.open[key] = etcd.Open(config)
	} else {
		q.open[key].Use(config)
	}
	return q.open[key], nil
}

// Forget implements Quorums.
func (q *quorums) Forget(key client.ObjectKey) {
	q.clients.Forget(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.open[key]; c != nil {
		c.Close()
		delete(q.open, key)
	}
}

// dial returns a way to the etcd of a Node.
type dial func(node, ip string) etcd.Target

// targets returns the members that can be asked: on the Nodes of the machines,
// and on every other Node that calls itself a control plane, because a member
// whose Machine is gone may still run there.
func (s *scene) targets(to dial) []etcd.Target {
	var targets []etcd.Target
	known := map[string]bool{}
	for _, m := range s.machines {
		name, ip := m.facts.Node, machine.InternalIP(m.Machine)
		if name == "" {
			continue
		}
		if m.node != nil && machine.NodeIP(m.node) != "" {
			ip = machine.NodeIP(m.node)
		}
		known[name] = true
		if facts := m.facts; facts.Deleting && (!facts.Hook || facts.Name == s.left) {
			continue // its member has left, and waiting for the answer of what is going costs up to 2 s
		}
		targets = append(targets, to(name, ip))
	}
	for i := range s.view.Nodes {
		node := &s.view.Nodes[i]
		if _, controls := node.Labels[controlPlaneLabel]; controls && !known[node.Name] {
			targets = append(targets, to(node.Name, machine.NodeIP(node)))
		}
	}
	slices.SortFunc(targets, func(a, b etcd.Target) int { return strings.Compare(a.Name, b.Name) })
	return targets
}

// unregistered returns further targets: members that have started on machines
// whose Node is not registered yet. kubeadm lets etcd join before the kubelet,
// and a voter that nobody can ask counts as failed.
func (s *scene) unregistered(survey etcd.Survey, to dial, known []etcd.Target) []etcd.Target {
	var targets []etcd.Target
	matched := s.match(survey.Members)
	for _, member := range survey.Members {
		if member.Name == "" || slices.ContainsFunc(known, func(t etcd.Target) bool { return t.Name == member.Name }) {
			continue
		}
		name := matched.Hosts[member.ID]
		for _, m := range s.machines {
			if m.Name == name && m.facts.Node == "" {
				targets = append(targets, to(member.Name, machine.InternalIP(m.Machine)))
			}
		}
	}
	return targets
}

// ask asks all members that can be asked. last is what they said before. It takes
// about 2 s when one does not answer, half a second when it did not the last time either, twice that when one is met
// for the first time besides.
func (s *scene) ask(ctx context.Context, quorum Quorum, to dial, last etcd.Survey) etcd.Survey {
	targets := s.targets(to)
	targets = append(targets, s.unregistered(last, to, targets)...)
	if len(targets) == 0 {
		return etcd.Survey{Why: "no Node of a control plane is known"}
	}
	survey := quorum.Survey(ctx, targets)
	if more := s.unregistered(survey, to, targets); len(more) > 0 {
		survey = quorum.Survey(ctx, append(targets, more...))
	}
	return survey
}
