// Package kubeadm keeps up to date what kubeadm left in a cluster: its own
// configuration, which machines read as they join, and the add-ons kube-proxy and CoreDNS.
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

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstream"
	"sigs.k8s.io/yaml"
)

// Wanted is what the cluster shall have.
type Wanted struct {
	// Version is that of Kubernetes, with a leading v.
	Version string
	// Configuration is the ClusterConfiguration with which machines are made now.
	Configuration bootstrapv1.ClusterConfiguration
	// SkipProxy and SkipDNS: somebody else keeps kube-proxy, CoreDNS.
	SkipProxy, SkipDNS bool
}

const (
	configName = "kubeadm-config"
	configKey  = "ClusterConfiguration"
)

// followed are the parts of kubeadm's ClusterConfiguration that follow the wanted one.
// What is not named never changes in the life of a cluster, or is an add-on's.
var followed = []string{"kubernetesVersion", "imageRepository", "featureGates", "apiServer", "controllerManager", "scheduler", "etcd"}

// defaults are what kubeadm writes where nothing is said.
var defaults = map[string]map[string]any{
	"apiServer": {"timeoutForControlPlane": "4m0s"},
	"etcd":      {"local": map[string]any{"dataDir": "/var/lib/etcd"}},
}

// ConfigBehind says in what kubeadm's configuration in the cluster differs from what
// is wanted; empty: in nothing, or there is none.
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
	has := map[string]any{}
	if err := yaml.Unmarshal([]byte(found.Data[configKey]), &has); err != nil {
		return nil, "", nil, fmt.Errorf("reading %s of ConfigMap %s: %w", configKey, configName, err)
	}
	wanted, err := render(want)
	if err != nil {
		return nil, "", nil, err
	}
	changes := follow(has, wanted)
	text, err := yaml.Marshal(has)
	if err != nil {
		return nil, "", nil, fmt.Errorf("writing %s of ConfigMap %s: %w", configKey, configName, err)
	}
	return found, string(text), changes, nil
}

// render writes the wanted configuration as kubeadm of that version reads it.
func render(want Wanted) (map[string]any, error) {
	v, err := semver.ParseTolerant(want.Version)
	if err != nil {
		return nil, fmt.Errorf("version %q: %w", want.Version, err)
	}
	text, err := kubeadmtypes.MarshalClusterConfigurationForVersion(&want.Configuration, v, &upstream.AdditionalData{KubernetesVersion: &want.Version})
	if err != nil {
		return nil, fmt.Errorf("writing a ClusterConfiguration for %s: %w", want.Version, err)
	}
	wanted := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &wanted); err != nil {
		return nil, fmt.Errorf("reading the ClusterConfiguration for %s: %w", want.Version, err)
	}
	return wanted, nil
}

// follow changes what a configuration has to what is wanted, and says what that was.
func follow(has, wanted map[string]any) []string {
	var changes []string
	for _, part := range followed {
		was, want := essence(part, has[part]), essence(part, wanted[part])
		if reflect.DeepEqual(was, want) || part == "imageRepository" && want == nil {
			continue
		}
		has["apiVersion"] = wanted["apiVersion"]
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

// essence is a part of a configuration without what means nothing: empty values and
// defaults that are written out. nil: nothing is left.
func essence(part string, value any) any {
	if object, ok := value.(map[string]any); ok {
		value = without(object, defaults[part])
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
		rest := map[string]any{}
		for key, inner := range v {
			if left := prune(inner); left != nil {
				rest[key] = left
			}
		}
		if len(rest) == 0 {
			return nil
		}
		return rest
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
