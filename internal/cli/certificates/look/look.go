// Package look looks at the certificates and keys of a cluster: in the secrets of the management cluster, in the handshakes of servers, and
// in the files of nodes. It changes nothing but for the pods that it makes on nodes, and deletes.
package look

import (
	"cmp"
	"context"
	"crypto/x509"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/pki"
	"github.com/quorate/quorate/internal/cluster/pki/inventory"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// Report lists the certificates and keys of one cluster.
type Report struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	inventory.Inventory
}

const (
	// answerTime is how long a server may take to show its certificate.
	answerTime = 3 * time.Second
	// serversAtOnce is how many servers of one cluster are asked at the same time.
	serversAtOnce = 32
)

// The ports of servers, where no configuration can change them.
const (
	etcdPort     = 2379
	etcdPeerPort = 2380
	kubeletPort  = 10250
)

// look is one look at a cluster.
type look struct {
	from    client.Reader
	objects *facts.Objects
	// config is how the cluster's API server is reached; nil: that is not known.
	config *rest.Config
	// roots are the authorities of the secrets, the first that were found.
	roots []*x509.Certificate
	// inPlace has the groups whose machines are upgraded in place.
	inPlace map[*facts.Group]bool

	mu     sync.Mutex
	found  []inventory.Material
	unseen []inventory.Unseen
}

// At looks at the certificates of a cluster. images finds the image of the pods that look at the files of nodes; nil: they are not looked
// at. The error is about the management cluster. All else that cannot be looked at is in the report.
func At(ctx context.Context, c client.Reader, key client.ObjectKey, images *upgraders.Images) (Report, error) {
	l := &look{from: observe.NewSnapshot(c), inPlace: map[*facts.Group]bool{}}
	var err error
	if l.objects, err = facts.Read(ctx, l.from, key); err != nil {
		return Report{}, err
	}
	l.readPolicies(ctx)
	l.readSecrets(ctx)
	if l.config, err = workload.ConfigOf(ctx, l.from, key); err == nil {
		l.config.QPS = -1
	}
	var both sync.WaitGroup
	both.Go(func() { l.askServers(ctx) })
	both.Go(func() {
		if images == nil {
			l.skipFiles()
			return
		}
		l.readFiles(ctx, *images)
	})
	both.Wait()
	return Report{Namespace: key.Namespace, Cluster: key.Name, Inventory: inventory.List(l.found, l.unseen, time.Now())}, nil
}

// groups are the cluster's control plane, if it is of a known kind, and its etcd clusters.
func (l *look) groups() []*facts.Group {
	groups := slices.Clone(l.objects.EtcdClusters)
	if cp := l.objects.ControlPlane; cp != nil {
		groups = append(groups, cp)
	}
	return groups
}

// readPolicies reads whether machines are upgraded in place.
func (l *look) readPolicies(ctx context.Context) {
	for _, g := range l.groups() {
		object := g.Kind.New()
		if err := l.from.Get(ctx, g.Key, object); err == nil { // it was read a moment ago
			spec := g.Kind.Spec(object)
			l.inPlace[g] = spec.Policy.InPlace.Ours() || spec.ByExtension
		}
	}
}

// hasEtcd reports whether etcd may run on the machines of the control plane.
func (l *look) hasEtcd() bool {
	return l.objects.ControlPlane != nil && l.objects.ControlPlane.HoldsQuorum
}

func (l *look) readSecrets(ctx context.Context) {
	external := l.objects.ControlPlane != nil && !l.hasEtcd()
	purposes := certs.Expected(external, len(l.objects.EtcdClusters) > 0)
	l.found, l.unseen = certs.Inventory(ctx, l.from, l.objects.Cluster, purposes)
	for _, m := range l.found {
		l.roots = append(l.roots, m.Certificates...)
	}
	if external && len(l.objects.EtcdClusters) == 0 {
		l.miss(inventory.Unseen{Where: inventory.Handshake, Location: "etcd",
			Why: "etcd is external, and no EtcdCluster keeps it: its servers belong to somebody else"})
	}
}

func (l *look) miss(u inventory.Unseen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unseen = append(l.unseen, u)
}

// server is one server of a machine, and what its certificate is for.
type server struct {
	name string
	port int
}

// servers are those of a machine.
func (l *look) servers(ctx context.Context, m *clusterv1.Machine) []server {
	etcd := []server{{inventory.EtcdServer, etcdPort}, {inventory.EtcdPeer, etcdPeerPort}}
	if machine.IsEtcd(m) {
		return etcd
	}
	all := []server{{inventory.KubeletServer, kubeletPort}}
	if machine.IsControlPlane(m) {
		all = append(all, server{inventory.APIServer, l.apiServerPort(ctx, m)})
		if l.hasEtcd() {
			all = append(all, etcd...)
		}
	}
	return all
}

// apiServerPort is the port of the API server of a machine, as its KubeadmConfig says, if it has one.
func (l *look) apiServerPort(ctx context.Context, m *clusterv1.Machine) int {
	ref, config := m.Spec.Bootstrap.ConfigRef, &bootstrapv1.KubeadmConfig{}
	if ref.Kind != "KubeadmConfig" || l.from.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, config) != nil {
		config = nil
	}
	return machine.APIServerPort(config)
}

// askServers asks all servers of all machines at the same time.
func (l *look) askServers(ctx context.Context) {
	var all errgroup.Group
	all.SetLimit(serversAtOnce)
	for i := range l.objects.Machines {
		m := &l.objects.Machines[i]
		all.Go(func() error {
			var servers errgroup.Group
			for _, s := range l.servers(ctx, m) {
				servers.Go(func() error {
					l.askServer(ctx, m, s)
					return nil
				})
			}
			return servers.Wait()
		})
	}
	_ = all.Wait() // none fails
}

// askServer asks one server, at the address of its machine first. What is shown there by none of the cluster's authorities may be another
// host's: then it is asked once more through the API server, where that can be.
func (l *look) askServer(ctx context.Context, m *clusterv1.Machine, s server) {
	node, ip := cmp.Or(machine.NodeName(m), m.Name), machine.InternalIP(m)
	forwards := l.config != nil && machine.IsControlPlane(m)
	found := inventory.Material{Where: inventory.Handshake, Machine: m.Name, Location: "port " + strconv.Itoa(s.port), Name: s.name,
		InPlace: l.isInPlace(m)}
	config := l.config
	if !forwards {
		config = nil
	}
	switch {
	case ip == "" && !forwards:
		found.Problem = "the machine has no address"
	default:
		shown, err := ask(ctx, workload.DialDirect(config, node, ip, s.port))
		if err == nil && forwards && ip != "" && s.name != inventory.KubeletServer && !l.knows(shown) {
			if again, failure := ask(ctx, workload.Dial(config, node, "", s.port)); failure == nil {
				shown = again
			}
		}
		if err != nil {
			found.Problem = workload.Explain(err)
		}
		found.Contents = pki.Contents{Certificates: shown}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = append(l.found, found)
}

// ask asks a server for its certificates.
func ask(ctx context.Context, dial func(context.Context) (net.Conn, error)) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return certs.Shown(ctx, dial)
}

// knows reports whether one of the cluster's authorities signed what a server showed, or none is known.
func (l *look) knows(shown []*x509.Certificate) bool {
	return len(l.roots) == 0 || len(shown) > 0 && slices.ContainsFunc(l.roots, func(root *x509.Certificate) bool {
		return shown[0].CheckSignatureFrom(root) == nil
	})
}

// isInPlace reports whether a machine is upgraded in place.
func (l *look) isInPlace(m *clusterv1.Machine) bool {
	for _, g := range l.objects.EtcdClusters {
		if machine.EtcdCluster(m) == g.Key.Name {
			return l.inPlace[g]
		}
	}
	return machine.IsControlPlane(m) && l.inPlace[l.objects.ControlPlane]
}

// noKubelet says why the files of a machine of etcd cannot be looked at.
const noKubelet = "the machine has no kubelet: no pod can look at its files"

// skipFiles says that the files of nodes were not looked at.
func (l *look) skipFiles() {
	for i := range l.objects.Machines {
		why := "files of nodes are looked at with --nodes only"
		if machine.IsEtcd(&l.objects.Machines[i]) {
			why = noKubelet
		}
		l.miss(inventory.Unseen{Where: inventory.File, Machine: l.objects.Machines[i].Name, Why: why})
	}
}
