// Package upgraders finds the image that upgrades a node in place to a version of Kubernetes.
package upgraders

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get

// ConfigMap maps versions of Kubernetes to upgrader images: each key is a version. The key with bringsSuffix lists what the image brings
// beside Kubernetes.
const (
	ConfigMap    = "quorate-upgrader-images"
	bringsSuffix = ".brings"
)

// ownNamespace is the file in which a pod finds the name of its namespace.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// OwnNamespace returns the namespace of the pod that this process runs in. It returns "" outside of a pod.
func OwnNamespace() string {
	namespace, _ := os.ReadFile(ownNamespace)
	return strings.TrimSpace(string(namespace))
}

// Images finds upgrader images. The nearest source wins: the ConfigMap in the cluster's namespace, the ConfigMap in the manager's, then
// Default.
type Images struct {
	// Reader reads ConfigMaps.
	Reader client.Reader
	// Namespace is the manager's own. Empty: only the cluster's namespace is read.
	Namespace string
	// Default is the image of --upgrader-image, with %s for the version. Empty: there is none.
	Default string
}

// Of returns the image for a version in a cluster's namespace. It returns "" if no source has one: Missing has the words for that.
func (i Images) Of(ctx context.Context, namespace, version string) (string, error) {
	image, err := i.value(ctx, namespace, Key(version))
	if err != nil || image != "" {
		return image, err
	}
	return strings.ReplaceAll(i.Default, "%s", Key(version)), nil
}

// Key returns the name under which a version has its image, in a ConfigMap and in an image's tag. Neither can have a plus sign: as in the
// tags of kubeadm's images an underscore stands for it.
func Key(version string) string { return strings.ReplaceAll(version, "+", "_") }

// value returns the value of a key of the ConfigMap, from the cluster's namespace or else from the manager's. It returns "" if neither has
// the key.
func (i Images) value(ctx context.Context, namespace, key string) (string, error) {
	for _, in := range i.namespaces(namespace) {
		images := &corev1.ConfigMap{}
		err := i.Reader.Get(ctx, client.ObjectKey{Namespace: in, Name: ConfigMap}, images)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading ConfigMap %s/%s: %w", in, ConfigMap, err)
		}
		if value := images.Data[key]; value != "" {
			return value, nil
		}
	}
	return "", nil
}

// Brings returns what the version's image brings beside Kubernetes, and where that is set. The value is "" if neither ConfigMap has the
// key.
func (i Images) Brings(ctx context.Context, namespace, version string) (value, source string, err error) {
	source = "ConfigMap " + ConfigMap + ", key " + Key(version) + bringsSuffix
	value, err = i.value(ctx, namespace, Key(version)+bringsSuffix)
	return value, source, err
}

// Entry is what a ConfigMap has of one version of Kubernetes.
type Entry struct {
	// Version is that of Kubernetes, such as v1.36.3.
	Version string
	// Image upgrades nodes to the version.
	Image string
	// Brings is what the image brings beside Kubernetes, as JSON. Empty: nothing.
	Brings string
}

// Data returns the data of a ConfigMap from which Images reads these entries.
func Data(entries []Entry) map[string]string {
	data := map[string]string{}
	for _, e := range entries {
		data[Key(e.Version)] = e.Image
		if e.Brings != "" {
			data[Key(e.Version)+bringsSuffix] = e.Brings
		}
	}
	return data
}

// Missing reports that no source has an image for a version, and which settings add one.
func (i Images) Missing(namespace, version string) string {
	return fmt.Sprintf("no upgrader image for %s: set key %s of ConfigMap %s in namespace %s, or the manager's flag --upgrader-image",
		version, Key(version), ConfigMap, strings.Join(i.namespaces(namespace), " or "))
}

func (i Images) namespaces(of string) []string {
	if i.Namespace == "" || i.Namespace == of {
		return []string{of}
	}
	return []string{of, i.Namespace}
}
