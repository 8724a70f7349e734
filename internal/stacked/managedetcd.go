package stacked

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/plan"
)

// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters,verbs=get;list;watch

// Where kubeadm's bootstrap provider puts the certificates for an external etcd on a machine.
const (
	etcdCAFile   = "/etc/kubernetes/pki/etcd/ca.crt"
	etcdCertFile = "/etc/kubernetes/pki/apiserver-etcd-client.crt"
	etcdKeyFile  = "/etc/kubernetes/pki/apiserver-etcd-client.key"
)

// managedEtcd is what the object that keeps a control plane's etcd said last.
type managedEtcd struct {
	// endpoints are the URLs of etcd; none: they are not known.
	endpoints []string
	// waits says why it cannot be used; empty: it can.
	waits string
	read  time.Time
	of    string
}

// readManagedEtcd adds what the object says that keeps the control plane's etcd: by its contract status.ready, and status.endpoints,
// URLs separated by commas. Until it is ready nothing is begun.
func readManagedEtcd(ctx context.Context, t *group.Turn) error {
	ref := of(t).Spec.ManagedExternalEtcdRef
	if !ref.IsDefined() {
		return nil
	}
	m, from := &memoryOf(t.Memory).etcd, fmt.Sprint(of(t).UID, of(t).Generation)
	if m.of != from || t.Facts.Now.Sub(m.read) > group.SlowMissing {
		found, err := external.GetObjectFromContractVersionedRef(ctx, t.Client, ref, t.Object.GetNamespace())
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
		}
		if err != nil {
			found = nil
		}
		*m = etcdOf(found)
		m.of, m.read = from, t.Facts.Now
	}
	if m.waits != "" {
		t.Refuse(plan.Refusal{Reason: "EtcdNotReady", Message: fmt.Sprintf("spec.managedExternalEtcdRef: %s %s %s", ref.Kind, ref.Name, m.waits)})
	}
	return nil
}

// etcdOf is what an object says of the etcd that it keeps; nil: there is none.
func etcdOf(found *unstructured.Unstructured) managedEtcd {
	if found == nil {
		return managedEtcd{waits: "does not exist"}
	}
	said, _, _ := unstructured.NestedString(found.Object, "status", "endpoints")
	m := managedEtcd{endpoints: strings.FieldsFunc(said, func(c rune) bool { return c == ',' || c == ' ' })}
	slices.Sort(m.endpoints)
	ready, _, _ := unstructured.NestedBool(found.Object, "status", "ready")
	why, _, _ := unstructured.NestedString(found.Object, "status", "plan", "message")
	switch {
	case !ready:
		m.waits = "is not ready: " + cmp.Or(why, "status.ready is not true")
	case len(m.endpoints) == 0:
		m.waits = "names no endpoints in status.endpoints"
	}
	return m
}

// keptByEtcd are the secrets that belong to whoever keeps the control plane's etcd, and renews them.
func keptByEtcd(kcp *controlplanev1.KubeadmControlPlane) []secret.Purpose {
	if !kcp.Spec.ManagedExternalEtcdRef.IsDefined() {
		return nil
	}
	return []secret.Purpose{secret.EtcdCA, secret.APIServerEtcdClient}
}

// withEtcd returns a control plane with its managed etcd as an external one, at endpoints. Without one it is returned as it is.
func withEtcd(kcp *controlplanev1.KubeadmControlPlane, endpoints []string) *controlplanev1.KubeadmControlPlane {
	if !kcp.Spec.ManagedExternalEtcdRef.IsDefined() {
		return kcp
	}
	kcp = kcp.DeepCopy()
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd = bootstrapv1.Etcd{External: bootstrapv1.ExternalEtcd{
		Endpoints: endpoints, CAFile: etcdCAFile, CertFile: etcdCertFile, KeyFile: etcdKeyFile,
	}}
	return kcp
}

// wantedAs returns the control plane as a machine should be of it. While the endpoints of its managed etcd are not known, a machine
// keeps those that it was made with.
func wantedAs(t *group.Turn, m *group.Machine) *controlplanev1.KubeadmControlPlane {
	endpoints := memoryOf(t.Memory).etcd.endpoints
	if config := kubeadmConfig(m); len(endpoints) == 0 && config != nil {
		endpoints = config.Spec.ClusterConfiguration.Etcd.External.Endpoints
	}
	return withEtcd(of(t), endpoints)
}
