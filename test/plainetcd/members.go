package plainetcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
)

// Ports of a member.
const (
	clientPort = "2379"
	peerPort   = "2380"
)

// authority is what signs the certificates of an etcd, with the client certificate of the API servers.
type authority struct {
	cert, key, client, clientKey []byte
}

// secrets has the three secrets of the contract there.
func (r *reconciler) secrets(ctx context.Context, e *etcd) (*authority, error) {
	own, err := r.secret(ctx, e, e.cluster.Name+"-managed-etcd", func() (map[string][]byte, error) {
		made := &secret.Certificate{Purpose: secret.EtcdCA}
		if err := made.Generate(); err != nil {
			return nil, err
		}
		return map[string][]byte{secret.TLSCrtDataName: made.KeyPair.Cert, secret.TLSKeyDataName: made.KeyPair.Key}, nil
	})
	if err != nil {
		return nil, err
	}
	keys := &authority{cert: own.Data[secret.TLSCrtDataName], key: own.Data[secret.TLSKeyDataName]}
	if _, err := r.secret(ctx, e, secret.Name(e.cluster.Name, secret.EtcdCA), func() (map[string][]byte, error) {
		return map[string][]byte{secret.TLSCrtDataName: keys.cert}, nil
	}); err != nil {
		return nil, err
	}
	client, err := r.secret(ctx, e, secret.Name(e.cluster.Name, secret.APIServerEtcdClient), func() (map[string][]byte, error) {
		cert, key, err := keys.sign(certs.Config{CommonName: "apiserver-etcd-client", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return map[string][]byte{secret.TLSCrtDataName: cert, secret.TLSKeyDataName: key}, err
	})
	if err != nil {
		return nil, err
	}
	keys.client, keys.clientKey = client.Data[secret.TLSCrtDataName], client.Data[secret.TLSKeyDataName]
	return keys, nil
}

// sign returns a certificate that the authority signed, and its key.
func (a *authority) sign(config certs.Config) (cert, key []byte, err error) {
	ca, err := certs.DecodeCertPEM(a.cert)
	if err != nil {
		return nil, nil, err
	}
	signer, err := certs.DecodePrivateKeyPEM(a.key)
	if err != nil {
		return nil, nil, err
	}
	own, err := certs.NewPrivateKey()
	if err != nil {
		return nil, nil, err
	}
	signed, err := config.NewSignedCert(own, ca, signer)
	if err != nil {
		return nil, nil, err
	}
	return certs.EncodeCertPEM(signed), certs.EncodePrivateKeyPEM(own), nil
}

// member has the Machine of a member there, its infrastructure and its bootstrap data. All members begin the cluster together.
func (r *reconciler) member(ctx context.Context, e *etcd, keys *authority, i int) error {
	name := e.memberName(i)
	if _, err := r.secret(ctx, e, name, func() (map[string][]byte, error) {
		data, err := e.bootstrapData(keys, i)
		return map[string][]byte{"value": data, "format": []byte("cloud-config")}, err
	}); err != nil {
		return err
	}
	infrastructure := &unstructured.Unstructured{Object: map[string]any{"spec": e.spec.Members[i].InfrastructureSpec}}
	infrastructure.SetGroupVersionKind(schema.FromAPIVersionAndKind(e.spec.Infrastructure.APIVersion, e.spec.Infrastructure.Kind))
	infrastructure.SetName(name)
	m := &clusterv1.Machine{}
	m.Name, m.Labels = name, map[string]string{MachineLabel: e.GetName()}
	m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName = e.cluster.Name, &name
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrastructure.GroupVersionKind().Group, Kind: infrastructure.GetKind(), Name: name,
	}
	if err := r.createInfrastructure(ctx, e, infrastructure); err != nil {
		return err
	}
	return r.create(ctx, e, m)
}

// memberName is the name of a member, and of its Machine.
func (e *etcd) memberName(i int) string { return fmt.Sprintf("%s-%d", e.GetName(), i) }

// file is one of a cloud-config.
type file struct {
	Path        string `json:"path"`
	Permissions string `json:"permissions"`
	Content     string `json:"content"`
}

// bootstrapData is a cloud-config that unpacks etcd and runs it as a unit.
func (e *etcd) bootstrapData(keys *authority, i int) ([]byte, error) {
	address := e.spec.Members[i].Address
	cert, key, err := keys.sign(certs.Config{
		CommonName: e.memberName(i), Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		AltNames: certs.AltNames{IPs: []net.IP{net.ParseIP(address)}},
	})
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(map[string]any{
		"write_files": []file{
			{"/etc/etcd/ca.crt", "0644", string(keys.cert)},
			{"/etc/etcd/member.crt", "0644", string(cert)},
			{"/etc/etcd/member.key", "0600", string(key)},
			{"/etc/systemd/system/etcd.service", "0644", e.unit(i)},
		},
		"runcmd": []string{
			"mkdir -p /opt/etcd /var/lib/etcd /run/cluster-api",
			"tar -xzf " + e.spec.Archive + " --strip-components=1 -C /opt/etcd",
			"systemctl daemon-reload && systemctl enable etcd && systemctl start etcd",
			"echo success >/run/cluster-api/bootstrap-success.complete",
		},
	})
	return append([]byte("#cloud-config\n"), data...), err
}

// unit is the systemd unit of a member.
func (e *etcd) unit(i int) string {
	url := func(address, port string) string { return "https://" + net.JoinHostPort(address, port) }
	var all []string
	for n, m := range e.spec.Members {
		all = append(all, e.memberName(n)+"="+url(m.Address, peerPort))
	}
	own, peer := url(e.spec.Members[i].Address, clientPort), url(e.spec.Members[i].Address, peerPort)
	command := strings.Join([]string{
		"/opt/etcd/etcd", "--name", e.memberName(i), "--data-dir", "/var/lib/etcd",
		"--listen-client-urls", own, "--advertise-client-urls", own, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(all, ","), "--initial-cluster-token", string(e.GetUID()),
		"--client-cert-auth", "--trusted-ca-file", "/etc/etcd/ca.crt", "--cert-file", "/etc/etcd/member.crt", "--key-file",
		"/etc/etcd/member.key",
		"--peer-client-cert-auth", "--peer-trusted-ca-file", "/etc/etcd/ca.crt",
		"--peer-cert-file", "/etc/etcd/member.crt", "--peer-key-file", "/etc/etcd/member.key",
	}, " ")
	return "[Service]\nExecStart=" + command + "\nRestart=always\nRestartSec=1\n\n[Install]\nWantedBy=multi-user.target\n"
}

// serves reports whether the member at an address says that it is healthy.
func serves(ctx context.Context, keys *authority, address string) bool {
	client, err := tls.X509KeyPair(keys.client, keys.clientKey)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(keys.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}},
		DisableKeepAlives: true}
	ask := &http.Client{
		Transport: transport, Timeout: 2 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(address, clientPort)+"/health", nil)
	if err != nil {
		return false
	}
	answer, err := ask.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
