package embed

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/quorate/quorate/internal/program/atomicfile"
)

// plane is the API server with what stands beside it, as processes: etcd, and the part of kube-controller-manager that
// carries out what the API promises by itself (owner references, deletion of namespaces).
type plane struct {
	dir     string // the folder management
	bin     string // where the programs are
	ports   Ports
	audit   bool // the API server keeps an audit log
	log     logr.Logger
	starter *starter
	etcd    *child
	api     *child
	garbage *child
}

func newPlane(state string, e Environment, audit bool, log logr.Logger) *plane {
	p := &plane{audit: audit, dir: filepath.Join(state, "management"), bin: e.Artifacts.Management, ports: e.Ports, log: log,
		starter: newStarter()}
	p.etcd = p.child("etcd", p.etcdArgs(), "GOGC=50", "GOMEMLIMIT=96MiB")
	p.api = p.child("kube-apiserver", p.apiArgs(), "GOGC=75", "GOMEMLIMIT=300MiB")
	p.garbage = p.child("kube-controller-manager", p.garbageArgs(), "GOGC=50", "GOMEMLIMIT=64MiB")
	return p
}

func (p *plane) child(name string, args []string, env ...string) *child {
	return &child{
		program: program{name: name, path: filepath.Join(p.bin, name), args: args, env: env},
		starter: p.starter, folder: p.logs(), log: p.log,
	}
}

func (p *plane) pki() string                   { return filepath.Join(p.dir, "pki") }
func (p *plane) logs() string                  { return filepath.Join(p.dir, "logs") }
func (p *plane) kubeconfig(of string) string   { return filepath.Join(p.dir, of+".kubeconfig") }
func (p *plane) secret(file string) string     { return filepath.Join(p.pki(), file) }
func (p *plane) flag(name, file string) string { return "--" + name + "=" + p.secret(file) }

// prepare makes folders, keys and kubeconfigs.
func (p *plane) prepare() error {
	for _, dir := range []string{p.dir, p.logs(), filepath.Join(p.dir, "etcd")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("creating a folder of the management plane: %w", err)
		}
	}
	if err := errors.Join(ensurePKI(p.pki(), time.Now()), atomicfile.Write(p.auditPolicy(), []byte(auditPolicy), 0o600)); err != nil {
		return err
	}
	server := loopbackURL(p.ports.APIServer)
	for certificate, path := range map[string]string{
		"admin":       filepath.Join(p.dir, "kubeconfig"),
		"controllers": p.kubeconfig("controllers"),
		"manager":     p.kubeconfig("manager"),
		"collector":   p.kubeconfig("collector"),
	} {
		if err := writeKubeconfig(path, p.pki(), certificate, server); err != nil {
			return err
		}
	}
	return nil
}

// run starts etcd and the API server, and returns at once. What it returns ends all, also what was started later, in
// an order in which each program can end cleanly: while the one that it writes to lives.
func (p *plane) run() (stop func(), err error) {
	stop = func() {
		for _, c := range []*child{p.garbage, p.api, p.etcd} {
			c.stop()
		}
		p.starter.close()
	}
	for _, c := range []*child{p.etcd, p.api} {
		if err := c.start(); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// trouble says which program does not come up; nil while all may.
func (p *plane) trouble() error {
	for _, c := range []*child{p.etcd, p.api} {
		if err := c.trouble(); err != nil {
			return err
		}
	}
	return nil
}

func (p *plane) etcdArgs() []string {
	const name = "management"
	peer := loopbackURL(p.ports.EtcdPeer)
	return []string{
		"--name=" + name,
		"--data-dir=" + filepath.Join(p.dir, "etcd"),
		"--listen-client-urls=" + loopbackURL(p.ports.Etcd),
		"--advertise-client-urls=" + loopbackURL(p.ports.Etcd),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + name + "=" + peer,
		p.flag("trusted-ca-file", etcdAuthority+".crt"), p.flag("cert-file", "etcd-server.crt"), p.flag("key-file", "etcd-server.key"),
		"--client-cert-auth",
		p.flag("peer-trusted-ca-file", etcdAuthority+".crt"), p.flag("peer-cert-file", "etcd-peer.crt"), p.flag("peer-key-file", "etcd-peer.key"),
		"--peer-client-cert-auth",
		// Alone, it has no peer to be patient with: a short election makes a short start.
		"--heartbeat-interval=20", "--election-timeout=200",
		// The API server compacts; this is for the time when it does not run.
		"--auto-compaction-mode=periodic", "--auto-compaction-retention=1h",
		"--quota-backend-bytes=1073741824",
		"--snapshot-count=5000",
		"--log-level=warn",
	}
}

// served are the APIs of the management plane beside Cluster API's. Others (pods' controllers, storage, ...) would
// cost memory, and there is no node that could run what they describe. The API server itself reads discovery and networking.
var served = []string{
	"v1", "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1", "authentication.k8s.io/v1",
	"authorization.k8s.io/v1", "coordination.k8s.io/v1", "discovery.k8s.io/v1", "events.k8s.io/v1", "networking.k8s.io/v1",
	"rbac.authorization.k8s.io/v1",
}

// unused are admission plugins for objects that are not served or not run here.
var unused = []string{
	"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest", "DefaultIngressClass",
	"DefaultStorageClass", "DefaultTolerationSeconds", "LimitRanger", "MutatingAdmissionPolicy", "PersistentVolumeClaimResize", "PodSecurity",
	"Priority", "ResourceQuota", "RuntimeClass", "ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition",
	"ValidatingAdmissionPolicy",
}

// services is the range of service addresses that the API server insists on. Nothing here is a service.
var services = netip.MustParsePrefix("10.255.255.0/24")

func (p *plane) apiArgs() []string {
	return append([]string{
		"--bind-address=" + loopback.String(), "--advertise-address=" + loopback.String(), fmt.Sprintf("--secure-port=%d", p.ports.APIServer),
		"--etcd-servers=" + loopbackURL(p.ports.Etcd),
		p.flag("etcd-cafile", etcdAuthority+".crt"), p.flag("etcd-certfile", "etcd-client.crt"), p.flag("etcd-keyfile", "etcd-client.key"),
		p.flag("tls-cert-file", "apiserver.crt"), p.flag("tls-private-key-file", "apiserver.key"),
		p.flag("client-ca-file", clusterAuthority+".crt"),
		p.flag("service-account-key-file", accountKey+".pub"), p.flag("service-account-signing-key-file", accountKey+".key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=" + services.String(),
		"--authorization-mode=RBAC", "--anonymous-auth=false",
		"--endpoint-reconciler-type=none",
		"--runtime-config=api/all=false," + strings.Join(served, "=true,") + "=true",
		"--disable-admission-plugins=" + strings.Join(unused, ","),
		// One user, trusted: fairness among many is not needed.
		"--enable-priority-and-fairness=false",
		"--profiling=false",
		"--event-ttl=1h",
		"--v=1",
	}, p.auditArgs()...)
}

func (p *plane) garbageArgs() []string {
	return []string{
		"--kubeconfig=" + p.kubeconfig("collector"),
		"--controllers=garbage-collector-controller,namespace-controller",
		"--leader-elect=false",
		"--use-service-account-credentials=false",
		"--concurrent-gc-syncs=5", "--concurrent-namespace-syncs=2",
		"--kube-api-qps=100", "--kube-api-burst=200",
		"--profiling=false",
		"--bind-address=" + loopback.String(), "--secure-port=0",
		"--v=1",
	}
}
