package selfmanaged

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/cluster/kubeconfig"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/embed"
)

// TestSources: Quorate's manifests name the images that were made here, and all that clusterctl installs is among them.
func TestSources(t *testing.T) {
	r := &run{image: artifacts.ManagerImage + ":0123456789ab"}
	folder := filepath.Join(t.TempDir(), "config")
	version, err := r.writeSources(folder)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(version, "v") {
		t.Errorf("version %q", version)
	}
	data, err := os.ReadFile(filepath.Join(folder, "manager", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names named
	if err := yaml.Unmarshal(data, &names); err != nil {
		t.Fatal(err)
	}
	if got := names.Images[0]; got.NewName+":"+got.NewTag != r.image {
		t.Errorf("the manager's image is %+v, want %s", got, r.image)
	}
	arguments, err := os.ReadFile(filepath.Join(folder, "clusterctl", "control-plane", "arguments.yaml"))
	if err != nil || !strings.Contains(string(arguments), "\n        - --upgrader-image=quorate.io/upgrader:%s\n") {
		t.Errorf("%v: the manager gets no upgrader image:\n%s", err, arguments)
	}
	for _, w := range wanted {
		if w.source == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, "clusterctl", w.source, "kustomization.yaml")); err != nil {
			t.Error(err)
		}
	}
}

// TestConfiguration: clusterctl finds each provider in the one version that there is.
func TestConfiguration(t *testing.T) {
	repository := t.TempDir()
	for _, file := range []string{"cluster-api/v1.14.2/core-components.yaml", "twice/v1/a.yaml", "twice/v2/a.yaml"} {
		if err := os.MkdirAll(filepath.Join(repository, filepath.Dir(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repository, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url, err := only(filepath.Join(repository, "cluster-api"), "core-components.yaml")
	if want := "file://" + repository + "/cluster-api/v1.14.2/core-components.yaml"; err != nil || url != want {
		t.Errorf("%s, %v; want %s", url, err, want)
	}
	for _, missing := range []string{"twice", "none"} {
		if _, err := only(filepath.Join(repository, missing), "a.yaml"); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: %v", missing, err)
		}
	}
}

// TestProviderKubeconfig: the provider of machines has the cluster's server, and nothing of its administrator.
func TestProviderKubeconfig(t *testing.T) {
	admin := clientcmdapi.NewConfig()
	admin.Clusters["home"] = &clientcmdapi.Cluster{Server: "https://192.0.2.1:6443", CertificateAuthorityData: []byte("authority")}
	admin.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("certificate"), ClientKeyData: []byte("key")}
	admin.Contexts["admin@home"] = &clientcmdapi.Context{Cluster: "home", AuthInfo: "admin"}
	admin.CurrentContext = "admin@home"
	data, err := clientcmd.Write(*admin)
	if err != nil {
		t.Fatal(err)
	}
	made, err := providerKubeconfig(data)
	if err != nil {
		t.Fatal(err)
	}
	config, err := kubeconfig.RESTConfig(made)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://192.0.2.1:6443" || string(config.CAData) != "authority" || config.BearerToken != "" || config.KeyData != nil ||
		config.CertData != nil {
		t.Errorf("%s, %q, a token: %t, a key: %t", config.Host, config.CAData, config.BearerToken != "", config.KeyData != nil)
	}
}

// TestKeeper: the cluster that keeps the Clusters is known as soon as the machines follow it.
func TestKeeper(t *testing.T) {
	state := t.TempDir()
	if _, kept := Keeper(state); kept {
		t.Error("a folder without an environment has a management cluster")
	}
	for _, kept := range []*embed.ManagementCluster{nil, {Namespace: "default", Name: "home", Machines: true}} {
		if err := (embed.Environment{ManagementCluster: kept}).Save(state); err != nil {
			t.Fatal(err)
		}
		got, is := Keeper(state)
		if is != (kept != nil) || is && got.String() != "default/home" {
			t.Errorf("%v, %t", got, is)
		}
	}
}

// TestGranted: nothing that the provider of machines is given in a cluster is a token that never ends; it may ask for tokens of its own
// alone.
func TestGranted(t *testing.T) {
	for _, o := range granted() {
		if _, is := o.(*corev1.Secret); is {
			t.Errorf("secret %s/%s is made: a token in it never ends", o.GetNamespace(), o.GetName())
		}
	}
	for _, rule := range slices.Concat(rules(), ownRules()) {
		if slices.Contains(rule.Resources, "serviceaccounts/token") && !slices.Equal(rule.ResourceNames, []string{embed.ProviderName}) {
			t.Errorf("tokens of other ServiceAccounts may be asked for: %+v", rule)
		}
	}
}
