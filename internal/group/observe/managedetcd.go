package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters,verbs=get;list;watch

// Where kubeadm's bootstrap provider puts the certificates for an external etcd on a machine.
const (
	etcdCAFile   = "/etc/kubernetes/pki/etcd/ca.crt"
	etcdCertFile = "/etc/kubernetes/pki/apiserver-etcd-client.crt"
	etcdKeyFile  = "/etc/kubernetes/pki/apiserver-etcd-client.key"
)

// ManagedEtcd is what the object that keeps a control plane's etcd on machines of its own said last.
type ManagedEtcd struct {
	// Endpoints are the URLs of etcd, sorted; none: they are not known.
	Endpoints []string
	// waits says why it cannot be used; empty: it can. rolls says why the control plane leaves the first turn to it, while its own machines
	// are replaced; empty: it does not.
	waits, rolls string
}

// ReadManagedEtcd adds what the object says that keeps the control plane's etcd, if a spec refers to one: by its contract status.ready,
// and status.endpoints, URLs separated by commas. Until it is ready nothing is begun.
func (t *Observer) ReadManagedEtcd(ctx context.Context, given controlplanev1.ManagedEtcdReference) error {
	if !given.IsDefined() {
		return nil
	}
	ref := given.Of(t.Cluster.Name)
	found, err := t.Find(ctx, machine.EtcdRef, ref)
	refused := machine.Refused(err)
	if err != nil && refused == nil {
		return err
	}
	m := managedEtcdOf(found)
	if other := otherCluster(found, t.Cluster.Name); other != "" {
		m.waits = fmt.Sprintf("belongs to Cluster %s, not to %s: a control plane can use only the etcd of its own Cluster", other, t.Cluster.Name)
	}
	if refused != nil {
		m.waits = "cannot be used: " + refused.Error()
	}
	t.Memory.ManagedEtcd = m
	switch told := fmt.Sprintf("spec.managedExternalEtcdRef: %s %s ", ref.Kind, ref.Name); {
	case m.waits != "":
		t.Refuse(plan.Refusal{Reason: "EtcdNotReady", Message: told + m.waits})
	case m.rolls != "":
		t.Refuse(plan.Refusal{Reason: "EtcdRollingOut", Message: told + m.rolls, Replaceable: true})
	}
	return nil
}

// mostEndpoints is how many endpoints etcd may have: as many as clusterConfiguration.etcd.external.endpoints. Each is dialed, and written
// into each machine's configuration.
const mostEndpoints = 50

// managedEtcdOf is what an object says of the etcd that it keeps; nil: there is none.
func managedEtcdOf(found *unstructured.Unstructured) ManagedEtcd {
	if found == nil {
		return ManagedEtcd{waits: "does not exist"}
	}
	said, _, _ := unstructured.NestedString(found.Object, "status", "endpoints")
	m := ManagedEtcd{Endpoints: strings.FieldsFunc(said, func(c rune) bool { return c == ',' || c == ' ' })}
	slices.Sort(m.Endpoints)
	ready, _, _ := unstructured.NestedBool(found.Object, "status", "ready")
	why, _, _ := unstructured.NestedString(found.Object, "status", "plan", "message")
	switch {
	case !ready:
		m.waits = "is not ready: " + cmp.Or(why, "status.ready is not true")
	case len(m.Endpoints) == 0:
		m.waits = "names no endpoints in status.endpoints"
	case len(m.Endpoints) > mostEndpoints:
		m.waits = fmt.Sprintf("names %d endpoints in status.endpoints: at most %d can be used", len(m.Endpoints), mostEndpoints)
	}
	m.rolls = rollsOut(found)
	return m
}

// otherCluster returns the Cluster that the object which keeps etcd belongs to, by its owner or else its label, if it is another than the
// control plane's. Empty: it is the same, or none is named.
func otherCluster(found *unstructured.Unstructured, own string) string {
	if found == nil {
		return ""
	}
	name := found.GetLabels()[clusterv1.ClusterNameLabel]
	for _, owner := range found.GetOwnerReferences() {
		if group, _, _ := strings.Cut(owner.APIVersion, "/"); owner.Kind == "Cluster" && group == clusterv1.GroupVersion.Group {
			name = owner.Name
		}
	}
	if name == own {
		return ""
	}
	return name
}

// notRolling are the rules of an etcd cluster by which it does not replace machines although they are not as wanted. A person holds it, or
// it refuses its spec, as it does while it waits for the control plane to follow its endpoints.
var notRolling = []string{"hold", "refuse"}

// rollsOut says why the control plane leaves the first turn to its etcd: that replaces its machines, or has not seen its newest spec.
func rollsOut(etcd *unstructured.Unstructured) string {
	_, paused := etcd.GetAnnotations()[clusterv1.PausedAnnotation]
	rule, _, _ := unstructured.NestedString(etcd.Object, "status", "plan", "rule")
	if paused || slices.Contains(notRolling, rule) {
		return ""
	}
	if seen, told, _ := unstructured.NestedInt64(etcd.Object, "status", "observedGeneration"); told && seen < etcd.GetGeneration() {
		return "has not seen its newest spec: it goes first"
	}
	list, _, _ := unstructured.NestedSlice(etcd.Object, "status", "conditions")
	for _, c := range list {
		c, _ := c.(map[string]any)
		if c["type"] == clusterv1.RollingOutCondition && c["status"] == string(metav1.ConditionTrue) {
			message, _ := c["message"].(string)
			first, _, _ := strings.Cut(message, "\n")
			return "replaces its machines first: " + cmp.Or(strings.TrimSuffix(first, ":"), "it is rolling out")
		}
	}
	return ""
}

// ManagedEtcdSecrets are the secrets that belong to the EtcdCluster of a control plane, which renews them; none without such a one.
func ManagedEtcdSecrets(ref controlplanev1.ManagedEtcdReference) []secret.Purpose {
	if !ref.IsDefined() {
		return nil
	}
	return []secret.Purpose{secret.EtcdCA, secret.APIServerEtcdClient}
}

// ExternalEtcd is how kubeadm's machines use an etcd at endpoints, with the certificates of the cluster's secrets.
func ExternalEtcd(endpoints []string) bootstrapv1.Etcd {
	return bootstrapv1.Etcd{External: bootstrapv1.ExternalEtcd{Endpoints: endpoints, CAFile: etcdCAFile, CertFile: etcdCertFile,
		KeyFile: etcdKeyFile}}
}
