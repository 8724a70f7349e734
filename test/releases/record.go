// Package releases records what Quorate has made, as an API server stores it, so that every newer Quorate is held against it: none may
// begin to replace machines because it was updated. It knows which objects belong to a cluster, and what of them must not be kept. It does
// not know how a recording is judged.
package releases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/core/plan"
)

// Environment names the variable that holds the folder into which tests record; without it they record nothing that stays.
const Environment = "QUORATE_RECORD"

// Recording is one cluster at rest.
type Recording struct {
	// Recorded is when, by the clock that the objects' times are of.
	Recorded time.Time `json:"recorded"`
	// Source is who recorded it: a test's name, and what it ran on.
	Source string `json:"source"`
	// Objects are the cluster's, by kind and name. Secrets are without their data.
	Objects []*unstructured.Unstructured `json:"-"`
}

// kinds are those whose objects a decision may depend on, in the order in which they are recorded.
var kinds = []schema.GroupVersionKind{
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"},
	{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"},
	{Group: "controlplane.cluster.x-k8s.io", Version: "v1alpha1", Kind: "ControlPlane"},
	{Group: "etcdcluster.cluster.x-k8s.io", Version: "v1alpha1", Kind: "EtcdCluster"},
	{Group: "upgrade.cluster.x-k8s.io", Version: "v1alpha1", Kind: "ControlPlaneUpgrade"},
	{Group: "upgrade.cluster.x-k8s.io", Version: "v1alpha1", Kind: "NodeUpgrade"},
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"},
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineHealthCheck"},
	{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfig"},
	{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfigTemplate"},
	{Group: "bootstrap.cluster.x-k8s.io", Version: "v1alpha1", Kind: "EtcdadmConfig"},
	{Group: "bootstrap.cluster.x-k8s.io", Version: "v1alpha1", Kind: "EtcdadmConfigTemplate"},
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Kind: "LocalCluster"},
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Kind: "LocalMachine"},
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Kind: "LocalMachineTemplate"},
	{Version: "v1", Kind: "Secret"},
}

// ErrBusy says that a cluster cannot be recorded, because one of its groups of machines has something to do.
var ErrBusy = errors.New("it is not at rest")

// Record writes the objects of a cluster at rest into a file of the folder, which is made if need be. name is the file's, without its
// ending. Keys and join tokens are left out; an object that holds a private key elsewhere is an error, and so is a cluster that is not at
// rest: ErrBusy. The objects must not change meanwhile.
func Record(ctx context.Context, from client.Reader, folder, name, source string, cluster client.ObjectKey) error {
	all, err := list(ctx, from, cluster.Namespace)
	if err != nil {
		return err
	}
	r := Recording{Recorded: time.Now().UTC().Truncate(time.Second), Source: source, Objects: belonging(all, cluster.Name)}
	if len(r.Objects) == 0 {
		return fmt.Errorf("recording cluster %s: it has no objects", cluster)
	}
	for _, o := range r.Objects {
		if step, decides, _ := unstructured.NestedString(o.Object, "status", "plan", "step"); decides && step != string(plan.Nothing) {
			return fmt.Errorf("recording cluster %s: %s %s: step %s: %w", cluster, o.GetKind(), o.GetName(), step, ErrBusy)
		}
		if err := clean(o); err != nil {
			return err
		}
	}
	text, err := r.encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("recording cluster %s: %w", cluster, err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("recording cluster %s: %w", cluster, err)
	}
	return nil
}

// list reads all objects of the known kinds. A kind that the API server does not have has none.
func list(ctx context.Context, from client.Reader, namespace string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, kind := range kinds {
		found := &unstructured.UnstructuredList{}
		found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := from.List(ctx, found, client.InNamespace(namespace))
		switch {
		case meta.IsNoMatchError(err), runtime.IsNotRegisteredError(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("listing the %s objects to record: %w", kind.Kind, err)
		}
		for i := range found.Items {
			found.Items[i].SetGroupVersionKind(kind)
			all = append(all, &found.Items[i])
		}
	}
	return all, nil
}

// belonging are the objects of a cluster: itself, those with its label or owned by one of these, and whatever one of these refers to.
func belonging(all []*unstructured.Unstructured, cluster string) []*unstructured.Unstructured {
	taken := map[*unstructured.Unstructured]bool{}
	for _, o := range all {
		taken[o] = o.GetLabels()[clusterv1.ClusterNameLabel] == cluster || o.GetKind() == "Cluster" && o.GetName() == cluster
	}
	for more := true; more; {
		more = false
		for _, o := range all {
			if !taken[o] && slices.ContainsFunc(all, func(by *unstructured.Unstructured) bool { return taken[by] && related(by, o) }) {
				taken[o], more = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool { return !taken[o] })
}

// related: an object is referred to by another, or owned by it.
func related(by, o *unstructured.Unstructured) bool {
	for _, owner := range o.GetOwnerReferences() {
		if owner.UID == by.GetUID() && owner.UID != "" {
			return true
		}
	}
	return refers(by.Object["spec"], o)
}

// refers reports whether a value has a reference to an object in it.
func refers(value any, o *unstructured.Unstructured) bool {
	switch v := value.(type) {
	case map[string]any:
		if v["kind"] == o.GetKind() && v["name"] == o.GetName() {
			return true
		}
		for _, inner := range v {
			if refers(inner, o) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return refers(inner, o) })
	}
	return false
}

// noToken and noKey stand where a join token and the key for uploaded certificates were: valid, and of no use.
const (
	noToken = "000000.0000000000000000"
	noKey   = "0000000000000000000000000000000000000000000000000000000000000000"
)

// clean removes secrets, and what only the API server needs.
func clean(o *unstructured.Unstructured) error {
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	if o.GetKind() == "Secret" {
		delete(o.Object, "data")
		delete(o.Object, "stringData")
	}
	return redact(o.GetKind()+" "+o.GetName(), o.Object)
}

// redact replaces tokens in a value, and refuses private keys. at is where the value is.
func redact(at string, value any) error {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if _, text := inner.(string); text && name == "token" {
				v[name] = noToken
			} else if text && name == "certificateKey" {
				v[name] = noKey
			}
			if err := redact(at+"."+name, v[name]); err != nil {
				return err
			}
		}
	case []any:
		for i, inner := range v {
			if err := redact(fmt.Sprintf("%s[%d]", at, i), inner); err != nil {
				return err
			}
		}
	case string:
		if strings.Contains(v, "PRIVATE KEY") {
			return fmt.Errorf("recording %s: it holds a private key, which must not be kept", at)
		}
	}
	return nil
}

// separator stands between documents.
const separator = "---\n"

// encode writes a recording as YAML documents, itself first.
func (r Recording) encode() (string, error) {
	head, err := yaml.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("writing a recording: %w", err)
	}
	text := string(head)
	for _, o := range r.Objects {
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			return "", fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		text += separator + string(raw)
	}
	return text, nil
}

// Read reads a recording from a file. A field of the recording itself that is not known is an error; those of its objects are the reader's.
func Read(file string) (*Recording, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a recording: %w", err)
	}
	docs := strings.Split(string(raw), "\n"+separator)
	r := &Recording{}
	if err := yaml.UnmarshalStrict([]byte(docs[0]), r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	for i, doc := range docs[1:] {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
			return nil, fmt.Errorf("reading object %d of %s: %w", i+1, file, err)
		}
		r.Objects = append(r.Objects, o)
	}
	return r, nil
}
