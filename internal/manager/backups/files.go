package backups

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/group/observe"
)

// purposes are the secrets of a cluster that a snapshot needs to be of use.
var purposes = []secret.Purpose{secret.ClusterCA, secret.EtcdCA, certs.ManagedEtcd, secret.FrontProxyCA, secret.ServiceAccount, secret.APIServerEtcdClient}

// Files returns the files of an archive, which are the cluster's secrets and objects, and the fingerprints of its authorities and keys. A
// cluster does not have all secrets.
func Files(
	ctx context.Context, from client.Reader, kind string, found *observe.EtcdMembers,
) (files map[string][]byte, fingerprints map[string]string, err error) {
	files, fingerprints = map[string][]byte{}, map[string]string{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found.Object)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", found.Object.GetName(), err)
	}
	names := referred(content)
	for _, p := range purposes {
		names = append(names, secret.Name(found.Cluster.Name, p))
	}
	for _, name := range names {
		s := &corev1.Secret{}
		err := from.Get(ctx, client.ObjectKey{Namespace: found.Cluster.Namespace, Name: name}, s)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading secret %s: %w", name, err)
		}
		for key, data := range s.Data {
			if strings.HasPrefix(key, ".") {
				key = "_" + key
			}
			files["secrets/"+name+"/"+key] = data
		}
		// That of the service account key is its public half.
		if certificate := s.Data[corev1.TLSCertKey]; len(certificate) > 0 {
			sum := sha256.Sum256(certificate)
			fingerprints[name] = hex.EncodeToString(sum[:])
		}
	}
	for name, object := range map[string]client.Object{kind: found.Object, "Cluster": found.Cluster} {
		plain := object.DeepCopyObject().(client.Object)
		plain.SetManagedFields(nil)
		data, err := json.MarshalIndent(plain, "", "  ")
		if err != nil {
			return nil, nil, fmt.Errorf("writing %s: %w", name, err)
		}
		files["objects/"+name+".json"] = data
	}
	return files, fingerprints, nil
}

// referred returns the secrets that kubeadm's files name, such as the configuration of encryption at rest.
func referred(content map[string]any) []string {
	var names []string
	list, _, _ := unstructured.NestedSlice(content, "spec", "kubeadmConfigSpec", "files")
	for _, file := range list {
		of, _ := file.(map[string]any)
		if name, found, _ := unstructured.NestedString(of, "contentFrom", "secret", "name"); found {
			names = append(names, name)
		}
	}
	return names
}
