// Package hostile has managed clusters that live in this process: an API server and an etcd with one member, both with TLS. They answer all
// that Quorate's manager asks of a cluster at rest, and store what it writes. An Attack makes one of them hostile: it answers more, slower,
// or otherwise than any honest one does.
//
// The test of this package runs the manager against each attack, beside nine honest clusters.
package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Attack is what a cluster does that no honest one does.
type Attack struct {
	Name string
	// API answers a request, and reports whether it did; an honest answer follows where it did not. nil: all answers are honest.
	API func(*Cluster, http.ResponseWriter, *http.Request) bool
	// Conn is done with each connection to the API server instead of serving it; nil: it is served.
	Conn func(net.Conn)
	// ManyNames: the API server's certificate has 500 names, and not its own; EtcdManyNames: that of etcd.
	ManyNames, EtcdManyNames bool
	// Etcd changes what etcd answers, or fails it; nil: it answers honestly.
	Etcd func(*pb.StatusResponse, *pb.MemberListResponse) error
	// NoEtcd: nothing listens where etcd does, so that a port-forward is the only way to it.
	NoEtcd bool
	// EtcdConn is done with each connection to etcd instead of serving it; nil: it is served.
	EtcdConn func(net.Conn)
	// Says is what the status of the attacked control plane must say; empty: the attack is of no consequence, and the status says that all is
	// as wanted.
	Says string
}

// etcdPort is where etcd serves clients.
const etcdPort = 2379

// Cluster is a managed cluster of one machine.
type Cluster struct {
	// Name is the Cluster's in the management cluster. Its control plane is NAME-cp, and its machine, with its Node, NAME-cp-1.
	Name string
	// Address is that of its API server's endpoint.
	Address *net.TCPAddr

	attack Attack
	http   *http.Server
	grpc   *grpc.Server
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	objects map[string]map[string]any // by their paths
	version int
}

// Start starts a cluster on an address of loopback of its own, which no other cluster has.
func Start(name string, ip net.IP, ca *Authority, attack Attack) (*Cluster, error) {
	c := &Cluster{Name: name, attack: attack, objects: map[string]map[string]any{}}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		return nil, err
	}
	c.Address = listener.Addr().(*net.TCPAddr)
	c.populate()
	etcd, err := net.Listen("tcp", net.JoinHostPort(ip.String(), strconv.Itoa(etcdPort)))
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	api, err := ca.server(ip)
	if attack.ManyNames {
		api, err = ca.server(nil, manyNames()...)
	}
	member, memberErr := ca.server(ip, c.Node())
	if attack.EtcdManyNames {
		member, memberErr = ca.server(nil, manyNames()...)
	}
	if err := errors.Join(err, memberErr); err != nil {
		return nil, errors.Join(err, listener.Close(), etcd.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.http = &http.Server{Handler: c, TLSConfig: api, BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: quiet}
	c.grpc = grpc.NewServer(grpc.Creds(credentials.NewTLS(member)))
	pb.RegisterClusterServer(c.grpc, &members{c: c})
	pb.RegisterMaintenanceServer(c.grpc, &members{c: c})
	c.serve(listener, attack.Conn, func(l net.Listener) error { return c.http.ServeTLS(l, "", "") })
	if attack.NoEtcd {
		return c, etcd.Close()
	}
	c.serve(etcd, attack.EtcdConn, c.grpc.Serve)
	return c, nil
}

// serve serves connections, or has something else done with each.
func (c *Cluster) serve(l net.Listener, instead func(net.Conn), serve func(net.Listener) error) {
	if instead == nil {
		c.ended.Go(func() { _ = serve(l) }) // it ends with Stop
		return
	}
	c.http.RegisterOnShutdown(func() { _ = l.Close() })
	c.ended.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.ended.Go(func() {
				defer func() { _ = conn.Close() }()
				ended := context.AfterFunc(c.http.BaseContext(nil), func() { _ = conn.Close() })
				defer ended()
				instead(conn)
			})
		}
	})
}

// Stop ends both servers.
func (c *Cluster) Stop() {
	c.stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.http.Shutdown(ctx) // for those that are registered
	_ = c.http.Close()
	c.grpc.Stop()
	c.ended.Wait()
}

// Node is the name of the cluster's only Node, and of its Machine.
func (c *Cluster) Node() string { return c.Name + "-cp-1" }

// populate makes what kubeadm and the kubelet leave in a cluster.
func (c *Cluster) populate() {
	now := metav1.Now()
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Node(), UID: "node", CreationTimestamp: now, Labels: map[string]string{controlPlane: ""}},
	}
	node.Spec.Taints = []corev1.Taint{{Key: controlPlane, Effect: corev1.TaintEffectNoSchedule}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: c.Address.IP.String()}}
	node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	c.put("/api/v1/nodes/"+node.Name, node)
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		pod := &corev1.Pod{
			TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name + "-" + node.Name, CreationTimestamp: now,
				Labels: map[string]string{"tier": "control-plane"}},
		}
		pod.Spec.NodeName = node.Name
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
		c.put("/api/v1/namespaces/kube-system/pods/"+pod.Name, pod)
	}
	for at, data := range map[string]map[string]string{
		"kube-system/configmaps/kubeadm-config": {"ClusterConfiguration": fmt.Sprintf(clusterConfiguration, c.Name, c.Address)},
		"kube-public/configmaps/cluster-info":   {"kubeconfig": "{}"},
	} {
		namespace, rest, _ := strings.Cut(at, "/")
		c.put("/api/v1/namespaces/"+at, &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
				Name: path.Base(rest)}, Data: data,
		})
	}
}

// controlPlane is kubeadm's label and taint for Nodes of control planes.
const controlPlane = "node-role.kubernetes.io/control-plane"

// clusterConfiguration is what kubeadm writes of a cluster, with its name and its endpoint.
const clusterConfiguration = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: %s
controlPlaneEndpoint: %s
encryptionAlgorithm: ECDSA-P256
kubernetesVersion: v1.36.3
`

// put stores an object.
func (c *Cluster) put(at string, object any) {
	text, err := json.Marshal(object)
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		panic(err) // the objects are our own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(at, fields)
}

// store stores an object in a new version. The caller holds the lock.
func (c *Cluster) store(at string, fields map[string]any) {
	c.version++
	meta, _ := fields["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		fields["metadata"] = meta
	}
	meta["resourceVersion"] = strconv.Itoa(c.version)
	c.objects[at] = fields
}

// ServeHTTP answers as an API server does that only the manager asks.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.attack.API != nil && c.attack.API(c, w, r) {
		return
	}
	switch {
	case r.URL.Path == "/readyz":
		_, _ = io.WriteString(w, "ok")
	case r.URL.Query().Get("watch") == "true":
		w.Header().Set("Content-Type", "application/json")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodGet:
		c.get(w, r)
	default:
		c.write(w, r)
	}
}

// get answers with an object, or with a list of those below a path.
func (c *Cluster) get(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, is := c.objects[r.URL.Path]; is {
		reply(w, http.StatusOK, one)
		return
	}
	kind := map[string]string{"nodes": "NodeList", "pods": "PodList", "secrets": "SecretList"}[path.Base(r.URL.Path)]
	if kind == "" {
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", path.Base(path.Dir(r.URL.Path)), path.Base(r.URL.Path)))
		return
	}
	items := []any{}
	for at, one := range c.objects {
		if path.Dir(at) == r.URL.Path {
			items = append(items, one)
		}
	}
	reply(w, http.StatusOK, map[string]any{"kind": kind, "apiVersion": "v1",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(c.version)}, "items": items})
}

// write creates, replaces or deletes an object.
func (c *Cluster) write(w http.ResponseWriter, r *http.Request) {
	fields := map[string]any{}
	if r.Method != http.MethodDelete && json.NewDecoder(r.Body).Decode(&fields) != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", "no JSON")
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := r.URL.Path
	if meta, is := fields["metadata"].(map[string]any); is && r.Method == http.MethodPost {
		at = path.Join(at, fmt.Sprint(meta["name"]))
	}
	if r.Method == http.MethodDelete {
		delete(c.objects, at)
	} else {
		c.store(at, fields)
	}
	reply(w, http.StatusOK, fields)
}

// refuse answers with a Status.
func refuse(w http.ResponseWriter, code int, reason, message string) {
	reply(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
		"message": message})
}

func reply(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // who asked may be gone
}

// members is the cluster's etcd.
type members struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	c *Cluster
}

// answers are those of the only member, as the attack has them.
func (m *members) answers() (*pb.StatusResponse, *pb.MemberListResponse, error) {
	url := func(port string) []string {
		return []string{"https://" + net.JoinHostPort(m.c.Address.IP.String(), port)}
	}
	header := &pb.ResponseHeader{ClusterId: 1, MemberId: 1, RaftTerm: 2}
	status := &pb.StatusResponse{
		Header: header, Version: "3.6.16", StorageVersion: "3.6.0", DbSize: 1 << 20, DbSizeQuota: 2 << 30, Leader: 1, RaftTerm: 2, RaftIndex: 10,
		RaftAppliedIndex: 10,
		DowngradeInfo:    &pb.DowngradeInfo{},
	}
	list := &pb.MemberListResponse{Header: header,
		Members: []*pb.Member{{ID: 1, Name: m.c.Node(), PeerURLs: url("2380"), ClientURLs: url("2379")}}}
	if m.c.attack.Etcd == nil {
		return status, list, nil
	}
	err := m.c.attack.Etcd(status, list)
	return status, list, err
}

// Status implements etcd's Maintenance service.
func (m *members) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	status, _, err := m.answers()
	return status, err
}

// MemberList implements etcd's Cluster service.
func (m *members) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	_, list, err := m.answers()
	return list, err
}
