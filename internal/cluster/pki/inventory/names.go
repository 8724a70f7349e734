package inventory

import (
	"path"
	"strings"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// What certificates and keys are for, as kubeadm names them where it does. There are no other names: they are the values of a metric's
// label.
const (
	ClusterCA              = "ca"
	EtcdCA                 = "etcd-ca"
	FrontProxyCA           = "front-proxy-ca"
	ServiceAccount         = "sa"
	APIServer              = "apiserver"
	APIServerKubeletClient = "apiserver-kubelet-client"
	APIServerEtcdClient    = "apiserver-etcd-client"
	FrontProxyClient       = "front-proxy-client"
	EtcdServer             = "etcd-server"
	EtcdPeer               = "etcd-peer"
	EtcdHealthcheckClient  = "etcd-healthcheck-client"
	Kubeconfig             = "kubeconfig"
	AdminConf              = "admin.conf"
	SuperAdminConf         = "super-admin.conf"
	ControllerManagerConf  = "controller-manager.conf"
	SchedulerConf          = "scheduler.conf"
	KubeletConf            = "kubelet.conf"
	KubeletClient          = "kubelet-client"
	KubeletServer          = "kubelet-server"
	Other                  = "other"
)

// signers are the names of the authorities that must have signed. Names without one may be signed by any.
var signers = map[string]string{
	APIServer: ClusterCA, APIServerKubeletClient: ClusterCA, Kubeconfig: ClusterCA, AdminConf: ClusterCA, SuperAdminConf: ClusterCA,
	ControllerManagerConf: ClusterCA, SchedulerConf: ClusterCA, KubeletConf: ClusterCA, KubeletClient: ClusterCA,
	FrontProxyClient:    FrontProxyCA,
	APIServerEtcdClient: EtcdCA, EtcdServer: EtcdCA, EtcdPeer: EtcdCA, EtcdHealthcheckClient: EtcdCA,
}

// ofRole are the names of what lies in kubeadm's folder of certificates.
var ofRole = map[pki.Role]string{
	pki.ClusterCA: ClusterCA, pki.FrontProxyCA: FrontProxyCA, pki.EtcdCA: EtcdCA, pki.ServiceAccount: ServiceAccount,
	pki.APIServer: APIServer, pki.APIServerKubeletClient: APIServerKubeletClient, pki.APIServerEtcdClient: APIServerEtcdClient,
	pki.FrontProxyClient: FrontProxyClient, pki.EtcdServer: EtcdServer, pki.EtcdPeer: EtcdPeer,
	pki.EtcdHealthcheckClient: EtcdHealthcheckClient,
}

func isAuthority(name string) bool {
	return name == ClusterCA || name == EtcdCA || name == FrontProxyCA
}

// renewal is what renews an entry.
func renewal(m Material, e Entry) Renewal {
	switch {
	case m.Where == Secret && m.Managed && !e.Authority && !e.Key:
		return ByManager
	case e.Key, e.Authority, m.Where == Secret, e.Name == Other:
		return ByNobody
	case e.Name == KubeletClient, e.Name == KubeletConf, e.Name == KubeletServer && strings.HasPrefix(path.Base(m.Location), rotated):
		return ByKubelet
	case m.InPlace && e.Name != KubeletServer:
		return ByUpdate
	}
	return ByReplacement
}

// rotated is how the files begin in which a kubelet keeps the serving certificates that it renews. It never renews kubelet.crt, which it
// signs itself.
const rotated = "kubelet-server-"

// keepsKeyBeside reports whether a private key belongs into the text of a certificate, as kubelets and kubeconfigs keep it.
func keepsKeyBeside(m Material) bool {
	switch m.Name {
	case KubeletClient, KubeletServer, Kubeconfig, AdminConf, SuperAdminConf, ControllerManagerConf, SchedulerConf, KubeletConf:
		return true
	}
	return false
}

// FileName returns what a file of a node is for, by its place below the folder of certificates or by its own name; known: it is one of
// kubeadm or the kubelet.
func FileName(folder, file string) (name string, known bool) {
	if role, _, is := pki.RoleOf(folder, file); is {
		return ofRole[role], true
	}
	switch base := path.Base(file); {
	case base == AdminConf, base == SuperAdminConf, base == ControllerManagerConf, base == SchedulerConf, base == KubeletConf:
		return base, true
	case strings.HasPrefix(base, "kubelet-client-"):
		return KubeletClient, true
	case strings.HasPrefix(base, rotated), base == "kubelet.crt", base == "kubelet.key":
		return KubeletServer, true
	}
	return Other, false
}
