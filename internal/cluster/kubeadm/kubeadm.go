// Package kubeadm keeps up to date what kubeadm left in a cluster. That is its own configuration, which machines read
// as they join, the permissions that its certificates rely on, and the add-ons kube-proxy and CoreDNS.
//
// It knows how they are written and what of them follows a control plane's version and
// configuration. It does not know when it is time for it, nor what machines there are.
package kubeadm

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/core/programs"
)

// Wanted is what the cluster must have.
type Wanted struct {
	// Version is that of Kubernetes, with a leading v.
	Version string
	// Configuration is the ClusterConfiguration with which machines are made now. One with nothing but the feature gate
	// that control planes set by themselves says nothing: then only that and the version are followed.
	Configuration bootstrapv1.ClusterConfiguration
	// SkipProxy and SkipDNS: somebody else keeps kube-proxy, CoreDNS.
	SkipProxy, SkipDNS bool
	// ProxyOfOthers and DNSOfOthers: kubeadm init leaves them out, and whether they work is not reported.
	ProxyOfOthers, DNSOfOthers bool
	// Cluster is what Cluster API adds to the configuration of a first machine: where the cluster has lost all of its configuration, it is
	// written again. The zero value: that is for a person.
	Cluster ClusterData
}

// ClusterData is what kubeadm is told of a Cluster. Of what is empty kubeadm has defaults.
type ClusterData struct {
	// Name is the Cluster's.
	Name string
	// Endpoint is host and port of the control plane.
	Endpoint string
	// DNSDomain is that of services; ServiceSubnet and PodSubnet are ranges of addresses, with commas between them.
	DNSDomain, ServiceSubnet, PodSubnet string
}

// DataOf returns what kubeadm is told of a Cluster.
func DataOf(c *clusterv1.Cluster) ClusterData {
	network := c.Spec.ClusterNetwork
	data := ClusterData{Name: c.Name, DNSDomain: network.ServiceDomain, ServiceSubnet: network.Services.String(),
		PodSubnet: network.Pods.String()}
	if c.Spec.ControlPlaneEndpoint.IsValid() {
		data.Endpoint = c.Spec.ControlPlaneEndpoint.String()
	}
	return data
}

// Refusal is what only a person can mend: content of the cluster that cannot be read, or something wanted that would
// break what runs. Nothing was written.
type Refusal struct {
	// Config: machines cannot join with kubeadm's configuration as it is. Otherwise it is an add-on that stays as it is.
	Config bool
	why    string
}

// Error implements error.
func (r *Refusal) Error() string { return r.why }

func refuseConfig(format string, args ...any) error {
	return &Refusal{Config: true, why: fmt.Sprintf(format, args...)}
}

const (
	configName = "kubeadm-config"
	configKey  = "ClusterConfiguration"
	dnsKey     = "dns"
	versionKey = "apiVersion"
	gatesKey   = "featureGates"
)

// ownGate is set by control planes where kubeadm knows it and the user says nothing. Later versions refuse to read it.
const ownGate = "ControlPlaneKubeletLocalMode"

// silent reports whether the user says nothing of the configuration.
func (w Wanted) silent() bool {
	c := w.Configuration
	c.FeatureGates = maps.Clone(c.FeatureGates)
	delete(c.FeatureGates, ownGate)
	if len(c.FeatureGates) == 0 {
		c.FeatureGates = nil
	}
	return !c.IsDefined()
}

// followed are the parts of kubeadm's ClusterConfiguration that follow the wanted one, and dns follows in its own way.
// What is not named never changes in the life of a cluster, or is somebody else's.
var followed = []string{"kubernetesVersion", gatesKey, "imageRepository", "apiServer", "controllerManager", "scheduler", "etcd",
	"certificateValidityPeriod", "encryptionAlgorithm"}

// defaults are what kubeadm writes where nothing is said.
var defaults = map[string]any{
	"apiServer":                 map[string]any{"timeoutForControlPlane": "4m0s"},
	"etcd":                      map[string]any{"local": map[string]any{"dataDir": "/var/lib/etcd"}},
	"certificateValidityPeriod": "8760h0m0s",
	"encryptionAlgorithm":       "RSA-2048",
}

// ConfigBehind says in what kubeadm's configuration in the cluster differs from what
// is wanted; empty: in nothing, or there is none. What cannot be read as one is a Refusal.
func ConfigBehind(ctx context.Context, c kubernetes.Interface, want Wanted) (string, error) {
	_, _, changes, err := config(ctx, c, want)
	return strings.Join(changes, "; "), err
}

// WriteConfig brings kubeadm's configuration in the cluster up to date. Who wrote
// meanwhile is not overwritten.
func WriteConfig(ctx context.Context, c kubernetes.Interface, want Wanted) error {
	found, text, changes, err := config(ctx, c, want)
	if err != nil || len(changes) == 0 {
		return err
	}
	if found.Data == nil {
		found.Data = map[string]string{}
	}
	found.Data[configKey] = text
	if _, err := c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(ctx, found, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", configName, err)
	}
	return nil
}

// config reads kubeadm's configuration, and returns it with its text as it should be and what changes by it.
func config(ctx context.Context, c kubernetes.Interface, want Wanted) (*corev1.ConfigMap, string, []string, error) {
	found, err := c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, configName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "", nil, nil
	}
	if err != nil {
		return nil, "", nil, fmt.Errorf("reading ConfigMap %s: %w", configName, err)
	}
	wanted, err := render(want)
	if err != nil {
		return nil, "", nil, err
	}
	if want.restores(found.Data[configKey]) {
		text, err := configurationOf(want)
		return found, text, []string{"it is lost"}, err
	}
	has, err := parse(found.Data[configKey], want.Version, wanted[versionKey])
	if err != nil {
		return nil, "", nil, err
	}
	changes := follow(has, wanted, want)
	if moves, err := followDNS(ctx, c, has, wanted, want); err != nil {
		return nil, "", nil, err
	} else if moves {
		changes = append(changes, "dns changed")
	}
	text, err := yaml.Marshal(has)
	if err != nil {
		return nil, "", nil, fmt.Errorf("writing %s of ConfigMap %s: %w", configKey, configName, err)
	}
	return found, string(text), changes, nil
}

// follow changes what a configuration has to what is wanted, and says what that was.
func follow(has, wanted map[string]any, want Wanted) []string {
	parts := followed
	if want.silent() {
		parts = []string{"kubernetesVersion", gatesKey}
		wanted[gatesKey] = onlyOwnGate(has[gatesKey], want)
	}
	var changes []string
	for _, part := range parts {
		was, want := essence(part, has[part]), essence(part, wanted[part])
		if reflect.DeepEqual(was, want) || part == "imageRepository" && want == nil {
			continue
		}
		if want == nil {
			delete(has, part)
		} else {
			has[part] = wanted[part]
		}
		if part == "kubernetesVersion" {
			changes = append(changes, fmt.Sprintf("%s %v, %v wanted", part, was, want))
		} else {
			changes = append(changes, part+" changed")
		}
	}
	return changes
}

// onlyOwnGate returns the feature gates that there are, of which none but our own follows. Those that kubeadm of the wanted version does
// not have go: it refuses to read them, so that no machine could join.
func onlyOwnGate(has any, want Wanted) map[string]any {
	gates, _ := has.(map[string]any) // kubeadm reads nothing but an object
	gates = maps.Clone(gates)
	if gates == nil {
		gates = map[string]any{}
	}
	delete(gates, ownGate)
	maps.DeleteFunc(gates, func(name string, _ any) bool { return !programs.HasGate(want.Version, name) })
	if on, said := want.Configuration.FeatureGates[ownGate]; said {
		gates[ownGate] = on
	}
	return gates
}

// followDNS changes where CoreDNS comes from to what is wanted: machines that join fetch its image too. As with CoreDNS itself, what
// is not said stays, and so does all while the wanted one is refused.
func followDNS(ctx context.Context, c kubernetes.Interface, has, wanted map[string]any, want Wanted) (bool, error) {
	then, ok := wanted[dnsKey].(map[string]any)
	if !ok || want.SkipDNS {
		return false, nil
	}
	now, _ := has[dnsKey].(map[string]any)
	merged := map[string]any{}
	maps.Copy(merged, now)
	maps.Copy(merged, then)
	if len(then) == 0 || reflect.DeepEqual(now, merged) {
		return false, nil
	}
	dns, err := coreDNS(ctx, c, want)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	if dns.refused != "" {
		return false, nil
	}
	has[dnsKey] = merged
	return true, nil
}

// essence is a part of a configuration without what means nothing: empty values and
// defaults that are written out. nil: nothing is left.
func essence(part string, value any) any {
	standard := defaults[part]
	if standard != nil && reflect.DeepEqual(value, standard) {
		return nil
	}
	object, isObject := value.(map[string]any)
	if other, ok := standard.(map[string]any); ok && isObject {
		value = without(object, other)
	}
	return prune(value)
}

// without returns an object without the values that are those of another.
func without(object, other map[string]any) map[string]any {
	rest := maps.Clone(object)
	for key, value := range other {
		inner, isObject := value.(map[string]any)
		has, hasObject := rest[key].(map[string]any)
		switch {
		case isObject && hasObject:
			rest[key] = without(has, inner)
		case reflect.DeepEqual(rest[key], value):
			delete(rest, key)
		}
	}
	return rest
}

// prune returns a value without what is empty in it; nil if nothing is left.
func prune(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return pruneMap(v)
	case []any:
		if len(v) == 0 {
			return nil
		}
		return slices.Clone(v)
	case string:
		if v == "" {
			return nil
		}
	}
	return value
}

// pruneMap returns a map without what is empty in it; nil if nothing is left.
func pruneMap(m map[string]any) any {
	rest := map[string]any{}
	for key, inner := range m {
		if left := prune(inner); left != nil {
			rest[key] = left
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}
