package inventory

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/quorate/quorate/internal/cluster/certs"
)

// Purposes are the secrets of a cluster that a snapshot needs to be of use.
var Purposes = []secret.Purpose{
	secret.ClusterCA, secret.EtcdCA, certs.ManagedEtcd, secret.FrontProxyCA, secret.ServiceAccount, secret.APIServerEtcdClient,
}

// hidden stands before a key of a secret that begins with a dot, as the name of no file may.
const hidden = "_"

// SecretFiles returns the files of a secret in an archive.
func SecretFiles(s *corev1.Secret) map[string][]byte {
	files := map[string][]byte{}
	for key, data := range s.Data {
		if strings.HasPrefix(key, ".") {
			key = hidden + key
		}
		files[secretsFolder+s.Name+"/"+key] = data
	}
	return files
}

// secretsOf returns the data of the secrets in an archive, by name.
func secretsOf(files map[string][]byte) map[string]map[string][]byte {
	all := map[string]map[string][]byte{}
	for path, data := range files {
		rest, is := strings.CutPrefix(path, secretsFolder)
		name, key, whole := strings.Cut(rest, "/")
		if !is || !whole {
			continue
		}
		if strings.HasPrefix(key, hidden+".") {
			key = strings.TrimPrefix(key, hidden)
		}
		if all[name] == nil {
			all[name] = map[string][]byte{}
		}
		all[name][key] = data
	}
	return all
}
