// Package kubeconfig reads the kubeconfigs of managed clusters. A user who may write such a secret in one
// namespace must not gain what the reader may do: run commands, read files, or act as another
// user. So only data that is written into the kubeconfig itself is taken, and every other field
// is refused by name. The reader's own kubeconfig is another matter (Own). It knows neither secrets nor clusters.
package kubeconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/quorate/quorate/internal/cluster/pki"
	"github.com/quorate/quorate/internal/program/untrusted"
)

// The fields that are taken, by their names in the file. Extensions are taken because nothing reads them.
var (
	clusterFields = []string{"server", "tls-server-name", "certificate-authority-data", "proxy-url", "disable-compression", "extensions"}
	userFields    = []string{"client-certificate-data", "client-key-data", "token", "extensions"}
)

// longestName is how much of an entry's name an error quotes.
const longestName = 80

// Load parses a kubeconfig, and refuses it when any of its clusters or users has a field that is
// not plain data, also one that the current context does not use. Errors name the entry and the
// field, and never quote a value.
func Load(data []byte) (*clientcmdapi.Config, error) {
	config, err := clientcmd.Load(data)
	if err != nil {
		// The parser's own error may quote what it read.
		return nil, errors.New("it cannot be parsed as a kubeconfig")
	}
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		if err := checkCluster(name, config.Clusters[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		if field := otherField(config.AuthInfos[name], userFields); field != "" {
			return nil, refuse("user", name, field, "only "+strings.Join(userFields[:3], ", ")+" are accepted")
		}
	}
	if err := checkSizes(config); err != nil {
		return nil, err
	}
	return config, nil
}

// checkSizes refuses certificates and keys that would take long to parse.
func checkSizes(config *clientcmdapi.Config) error {
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		c := config.Clusters[name]
		if c == nil {
			continue
		}
		if err := pki.Bounded(c.CertificateAuthorityData); err != nil {
			return refuse("cluster", name, "certificate-authority-data", "it "+err.Error())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		u := config.AuthInfos[name]
		if u == nil {
			continue
		}
		if err := pki.Bounded(u.ClientCertificateData); err != nil {
			return refuse("user", name, "client-certificate-data", "it "+err.Error())
		}
		if err := pki.BoundedKey(u.ClientKeyData); err != nil {
			return refuse("user", name, "client-key-data", "it "+err.Error())
		}
	}
	return nil
}

// Managed is like RESTConfig for the kubeconfig of a managed cluster, whose administrator controls what its API server answers: clients
// made from it read no more than the default bounds, and follow no redirects.
func Managed(data []byte) (*rest.Config, error) {
	made, err := RESTConfig(data)
	if err != nil {
		return nil, err
	}
	made.ContentType = untrusted.JSON // of which the parts are counted
	made.WrapTransport = untrusted.Bounds{}.Wrap
	return made, nil
}

// RESTConfig returns how the cluster of the current context is reached. What Load refuses, it refuses too.
func RESTConfig(data []byte) (*rest.Config, error) {
	config, err := Load(data)
	if err != nil {
		return nil, err
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return nil, errors.New("its current-context names no context")
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return nil, errors.New("its current context names no cluster, or no user")
	}
	made := &rest.Config{
		Host:               cluster.Server,
		DisableCompression: cluster.DisableCompression,
		BearerToken:        user.Token,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
	}
	if cluster.ProxyURL != "" {
		proxy, err := url.Parse(cluster.ProxyURL)
		if err != nil {
			return nil, refuse("cluster", current.Cluster, "proxy-url", "it is no URL")
		}
		made.Proxy = http.ProxyURL(proxy)
	}
	return made, nil
}

func checkCluster(name string, cluster *clientcmdapi.Cluster) error {
	if field := otherField(cluster, clusterFields); field != "" {
		return refuse("cluster", name, field, "only "+strings.Join(clusterFields[:5], ", ")+" are accepted")
	}
	if !isServer(cluster.Server) {
		return refuse("cluster", name, "server", "it must be https://HOST[:PORT][/PATH]")
	}
	if cluster.ProxyURL != "" && !isProxy(cluster.ProxyURL) {
		return refuse("cluster", name, "proxy-url", "it must be http://, https:// or socks5:// and a host")
	}
	return nil
}

// isServer reports whether an address is one of HTTPS, with a host and nothing else but a port and a path.
func isServer(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// isProxy reports whether an address is that of a proxy on a host.
func isProxy(address string) bool {
	u, err := url.Parse(address)
	return err == nil && slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) && u.Hostname() != ""
}

// otherField returns the name of the first field that is set and is not one of the accepted; empty: there is none. The
// fields are those of client-go's type: one that a later version adds is refused until it is known here.
func otherField(entry any, accepted []string) string {
	value := reflect.Indirect(reflect.ValueOf(entry))
	if !value.IsValid() {
		return ""
	}
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if name != "-" && !slices.Contains(accepted, name) && isSet(value.Field(i)) {
			return strings.TrimPrefix(name, "act-") // which only this type puts before the file's "as"
		}
	}
	return ""
}

// isSet reports whether a field was written. An empty map is none: the parser makes some.
func isSet(field reflect.Value) bool {
	if field.Kind() == reflect.Map || field.Kind() == reflect.Slice {
		return field.Len() > 0
	}
	return !field.IsZero()
}

func refuse(kind, name, field, accepted string) error {
	if len(name) > longestName {
		name = strings.ToValidUTF8(name[:longestName], "") + "..."
	}
	return fmt.Errorf("%s %q: field %s is refused: %s", kind, name, field, accepted)
}
