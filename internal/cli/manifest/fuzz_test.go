package manifest

import (
	"bytes"
	"testing"
)

// FuzzParse reads a user's manifests: what is accepted can be looked through.
func FuzzParse(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n# only a comment\n"))
	f.Add([]byte("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\nspec: {controlPlaneRef: {apiGroup: " +
		"controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: b}, topology: {version: 1}}\n"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {name: b}}]\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		objects, err := Parse(bytes.NewReader(data), "test")
		if err != nil {
			return
		}
		_ = CheckObjects(objects, []string{"v1.37.2"}, func(Reference) (bool, error) { return true, nil })
		_, _, _ = Versions(objects), Clusters(objects), Machines(objects)
	})
}
