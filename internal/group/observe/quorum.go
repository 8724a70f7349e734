package observe

import (
	"context"
	"fmt"
	"sync"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// etcdPort is where kubeadm lets etcd serve its clients.
const etcdPort = 2379

// Quorum is the etcd of one cluster. *etcd.Cluster is one.
type Quorum interface {
	// Survey asks every target by itself what it knows.
	Survey(ctx context.Context, targets []etcd.Target) etcd.Survey
	// Glance asks one target whether what a survey found still stands. It opens no connection to another one.
	Glance(ctx context.Context, target etcd.Target, last etcd.Survey) bool
	// MoveLeader makes a voter the leader.
	MoveLeader(ctx context.Context, targets []etcd.Target, to uint64) error
	// Promote lets a learner vote.
	Promote(ctx context.Context, targets []etcd.Target, id uint64) error
	// EnableDowngrade has etcd lower its version to a minor version, such as 3.5; CancelDowngrade ends that.
	EnableDowngrade(ctx context.Context, targets []etcd.Target, to string) error
	CancelDowngrade(ctx context.Context, targets []etcd.Target) error
	// AddPlaceholder adds a learner that no process ever starts; where etcd takes no more learners and one of them is such, that is no error.
	AddPlaceholder(ctx context.Context, targets []etcd.Target) error
	// RemoveMember removes a member; removing what is gone is no error.
	RemoveMember(ctx context.Context, targets []etcd.Target, id uint64) error
}

// DataKeeper makes an etcd that is full take data again, and compares the data of its members. *etcd.Cluster is one.
type DataKeeper interface {
	// Compare compares the data of all voters that a survey found. It takes as long as each needs to read all of them.
	Compare(ctx context.Context, targets []etcd.Target, over etcd.Survey) etcd.Comparison
	// Compact drops what was overwritten before a revision.
	Compact(ctx context.Context, targets []etcd.Target, revision int64) error
	// Defragment has a member give back the space that its data do not need. It does not answer meanwhile.
	Defragment(ctx context.Context, targets []etcd.Target, id uint64) error
	// Disarm ends the alarm NOSPACE of all members.
	Disarm(ctx context.Context, targets []etcd.Target) error
}

// Quorums are the etcds of all clusters, by cluster.
type Quorums interface {
	// Of returns the etcd of a cluster, with credentials that are valid.
	Of(ctx context.Context, cluster *clusterv1.Cluster) (Quorum, error)
	// Data returns the same etcd, for what concerns its data.
	Data(ctx context.Context, cluster *clusterv1.Cluster) (DataKeeper, error)
	// Rest ends the connections to a cluster's etcd until somebody asks for it again. Port-forwards cost memory here, and streams in API
	// servers and kubelets, as long as they are open.
	Rest(key client.ObjectKey)
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

// ManagedEtcdAuthority is Type.Authority of a kind whose etcd runs on machines of its own.
const ManagedEtcdAuthority = certs.ManagedEtcd

// NewQuorums returns the etcds of all clusters whose secrets a client reads, those of the kind whose authority is given (Type.Authority).
// It keeps their connections.
func NewQuorums(secrets client.Reader, authority secret.Purpose) Quorums {
	q := &quorums{secrets: secrets}
	q.clients.Authority = authority
	return q
}

// Of implements Quorums.
func (q *quorums) Of(ctx context.Context, cluster *clusterv1.Cluster) (Quorum, error) {
	return q.etcd(ctx, cluster)
}

// Data implements Quorums.
func (q *quorums) Data(ctx context.Context, cluster *clusterv1.Cluster) (DataKeeper, error) {
	return q.etcd(ctx, cluster)
}

// etcd returns the etcd of a cluster, with credentials that are valid.
func (q *quorums) etcd(ctx context.Context, cluster *clusterv1.Cluster) (*etcd.Cluster, error) {
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

// Rest implements Quorums.
func (q *quorums) Rest(key client.ObjectKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.open[key]; c != nil {
		c.Close()
	}
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
