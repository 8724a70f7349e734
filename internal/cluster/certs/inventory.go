package certs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/pki"
	"github.com/quorate/quorate/internal/cluster/pki/inventory"
)

// secretNames are what the secrets of a cluster are for.
var secretNames = map[secret.Purpose]string{
	secret.ClusterCA: inventory.ClusterCA, secret.EtcdCA: inventory.EtcdCA, secret.FrontProxyCA: inventory.FrontProxyCA,
	secret.ServiceAccount: inventory.ServiceAccount, secret.Kubeconfig: inventory.Kubeconfig,
	secret.APIServerEtcdClient: inventory.APIServerEtcdClient, ManagedEtcd: inventory.EtcdCA,
}

// Expected returns the purposes of the secrets that hold certificates and keys of a cluster. external: etcd runs on other machines than
// the control plane's. managed: these are of an EtcdCluster.
func Expected(external, managed bool) []secret.Purpose {
	purposes := []secret.Purpose{secret.ClusterCA, secret.EtcdCA, secret.FrontProxyCA, secret.ServiceAccount, secret.Kubeconfig}
	if external || managed {
		purposes = append(purposes, secret.APIServerEtcdClient)
	}
	if managed {
		purposes = append(purposes, ManagedEtcd)
	}
	return purposes
}

// Inventory reads the secrets of a cluster for these purposes at the same time, and returns what they hold. A secret that cannot be read
// is among what could not be looked at.
func Inventory(
	ctx context.Context, c client.Reader, cluster *clusterv1.Cluster, purposes []secret.Purpose,
) (found []inventory.Material, unseen []inventory.Unseen) {
	secrets, errs := make([]*corev1.Secret, len(purposes)), make([]error, len(purposes))
	var all errgroup.Group
	for i, purpose := range purposes {
		all.Go(func() error {
			secrets[i], errs[i] = secret.Get(ctx, c, client.ObjectKeyFromObject(cluster), purpose)
			return nil
		})
	}
	_ = all.Wait()
	keyless := false
	for i, purpose := range purposes {
		keyless = keyless || purpose == secret.ClusterCA && errs[i] == nil && len(secrets[i].Data[secret.TLSKeyDataName]) == 0
	}
	for i, purpose := range purposes {
		if errs[i] == nil {
			found = append(found, materials(secrets[i], purpose, isRenewed(secrets[i], purpose, cluster, keyless))...)
			continue
		}
		why := errs[i].Error()
		if apierrors.IsNotFound(errs[i]) {
			why = "does not exist"
		}
		unseen = append(unseen, inventory.Unseen{Where: inventory.Secret, Location: secret.Name(cluster.Name, purpose), Why: why})
	}
	return found, unseen
}

// materials are what one secret holds, by its keys. renewed: a manager renews the certificate in it.
func materials(s *corev1.Secret, purpose secret.Purpose, renewed bool) []inventory.Material {
	keys := []string{secret.TLSCrtDataName, secret.TLSKeyDataName}
	if purpose == secret.Kubeconfig {
		keys = []string{secret.KubeconfigDataName}
	}
	var found []inventory.Material
	for _, key := range keys {
		m := inventory.Material{Where: inventory.Secret, Location: fmt.Sprintf("%s: %s", s.Name, key), Name: secretNames[purpose],
			Managed: renewed}
		switch text, there := s.Data[key]; {
		case len(text) == 0 && key == secret.TLSKeyDataName && keyMayLack(purpose):
			continue // it is kept elsewhere
		case !there || len(text) == 0:
			m.Problem = "is missing"
		case key == secret.KubeconfigDataName:
			contents, err := inventory.ReadKubeconfig(text)
			if err != nil {
				m.Problem = err.Error()
			}
			m.Contents = contents
		default:
			m.Contents = pki.Read(text)
		}
		found = append(found, m)
	}
	return found
}

// keyMayLack reports whether the secrets of a purpose may have a certificate without its key.
func keyMayLack(purpose secret.Purpose) bool {
	return slices.Contains([]secret.Purpose{secret.ClusterCA, secret.EtcdCA, secret.FrontProxyCA}, purpose)
}

// isRenewed reports whether a manager renews the certificate in a secret: that of a kubeconfig that is not foreign, and that of the API
// servers for an etcd on machines of its own, as its EtcdCluster controls it. keyless: the key of the cluster's authority is kept
// elsewhere, so that no kubeconfig can be signed.
func isRenewed(s *corev1.Secret, purpose secret.Purpose, cluster *clusterv1.Cluster, keyless bool) bool {
	switch purpose {
	case secret.Kubeconfig:
		return !keyless && !isForeign(s, cluster)
	case secret.APIServerEtcdClient:
		owner := metav1.GetControllerOf(s)
		return owner != nil && owner.Kind == "EtcdCluster"
	}
	return false
}

// Dated is a certificate in a secret, and when it expires.
type Dated struct {
	// Name is what it is for, as kubeadm names it, and Secret the secret that holds it.
	Name, Secret string
	End          time.Time
	// RenewedBy is what renews it, in the words of package inventory.
	RenewedBy string
}

// dated are the certificates in secrets, but for that of the kubeconfig, which Secrets.Kubeconfig has.
func dated(cluster *clusterv1.Cluster, secrets map[secret.Purpose]*corev1.Secret) []Dated {
	var all []Dated
	for _, purpose := range slices.Sorted(maps.Keys(secrets)) {
		if purpose == secret.Kubeconfig {
			continue
		}
		s := secrets[purpose]
		for _, e := range inventory.List(materials(s, purpose, isRenewed(s, purpose, cluster, false)), nil, time.Now()).Entries {
			if !e.Key {
				all = append(all, Dated{Name: e.Name, Secret: s.Name, End: e.NotAfter, RenewedBy: string(e.RenewedBy)})
			}
		}
	}
	return all
}
