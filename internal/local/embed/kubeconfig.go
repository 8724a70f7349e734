package embed

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/quorate/quorate/internal/cluster/kubeconfig"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// KubeconfigPath is where the administrator's kubeconfig lies of what keeps the environment's Clusters: its management plane, or the
// cluster that they were moved to.
func KubeconfigPath(state string) string {
	if e, err := Load(state); err == nil && e.ManagementCluster != nil && e.ManagementCluster.Clusters {
		return filepath.Join(state, "management", clusterKubeconfig)
	}
	return PlaneKubeconfigPath(state)
}

// PlaneKubeconfigPath is where the administrator's kubeconfig of an environment's own management plane lies.
func PlaneKubeconfigPath(state string) string {
	return filepath.Join(state, "management", "kubeconfig")
}

// RESTConfig returns how to reach, as its administrator, what keeps an environment's Clusters: see KubeconfigPath. It does not say whether
// that runs.
func RESTConfig(state string) (*rest.Config, error) { return administrator(KubeconfigPath(state)) }

// PlaneRESTConfig returns how to reach an environment's own management plane as its administrator.
func PlaneRESTConfig(state string) (*rest.Config, error) {
	return administrator(PlaneKubeconfigPath(state))
}

func administrator(path string) (*rest.Config, error) {
	cfg, err := restConfig(path)
	if err != nil {
		return nil, fmt.Errorf("reading the management plane's kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = 50, 100
	return cfg, nil
}

func restConfig(path string) (*rest.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return kubeconfig.RESTConfig(data)
}

// writeKubeconfig writes a kubeconfig with a certificate of the folder pki.
func writeKubeconfig(path, pki, certificate, server string) error {
	var contents [3][]byte
	for i, name := range []string{clusterAuthority + ".crt", certificate + ".crt", certificate + ".key"} {
		data, err := os.ReadFile(filepath.Join(pki, name))
		if err != nil {
			return fmt.Errorf("reading for the kubeconfig of %s: %w", certificate, err)
		}
		contents[i] = data
	}
	const name = "quorate"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: contents[0]}
	cfg.AuthInfos[certificate] = &clientcmdapi.AuthInfo{ClientCertificateData: contents[1], ClientKeyData: contents[2]}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: certificate}
	cfg.CurrentContext = name
	data, err := clientcmd.Write(*cfg)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig of %s: %w", certificate, err)
	}
	return atomicfile.Write(path, data, 0o600)
}
