package up

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/manifest"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/manager"
)

// The range of addresses that --network asks for is compared with what the host has.
func TestRangeInUse(t *testing.T) {
	none := func(string) string { return "" }
	u := &up{
		Invocation: &command.Invocation{Environment: none, State: filepath.Join(t.TempDir(), "state")},
		cluster:    manifest.Cluster{Version: artifacts.DefaultVersion},
		prefix:     netip.MustParsePrefix("127.3.0.0/16"),
	}
	t.Setenv("QUORATE_CACHE", t.TempDir())
	err := lacking(u.lacks(t.Context()))
	for _, want := range []string{"the free address range 127.3.0.0/16", "choose another range with --network",
		"interface lo has the address 127.0.0.1/8"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	if code := command.ExitCode(t.Context(), true, err); code != command.ExitHost {
		t.Errorf("exit code %d, want %d", code, command.ExitHost)
	}
}

// readOnly is a management plane with these objects, in which any write is a failure of the test.
func readOnly(t *testing.T, broken error, objects ...client.Object) client.Client {
	scheme := manager.Scheme()
	mapper := meta.NewDefaultRESTMapper(scheme.PrioritizedVersionsAllGroups())
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	wrote := func() error {
		t.Error("something was written")
		return errors.New("read only")
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if broken != nil {
				return broken
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return wrote() },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return wrote()
		},
	}).Build()
}

// What a running management plane shows to be impossible is refused before anything is written to it.
func TestImpossibleIsNotApplied(t *testing.T) {
	foreign := &clusterv1.Cluster{}
	foreign.Namespace, foreign.Name = "default", "demo"
	foreign.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.example.org", Kind: "Other", Name: "x"}
	template := &infrav1.LocalMachineTemplate{}
	template.Namespace, template.Name = "default", "nowhere"
	raw, err := os.ReadFile("testdata/lonely.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lonely, err := manifest.Parse(bytes.NewReader(raw), "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		files   []*unstructured.Unstructured
		objects []client.Object
		broken  error
		code    int
		want    string
	}{
		{"name in use", nil, []client.Object{foreign}, nil, command.ExitUsage, `name "demo" is in use by a cluster that was not made by`},
		{"template missing", lonely, nil, nil, command.ExitUsage,
			"is LocalMachineTemplate nowhere, which is neither in the manifests nor applied before"},
		{"template applied before", lonely, []client.Object{template}, nil, command.ExitOK, ""},
		{"no answer", lonely, nil, errors.New("connection refused"), command.ExitFailed, "connection refused"},
		{"no answer about a name", nil, nil, errors.New("connection refused"), command.ExitFailed, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bringUp{up: &up{Invocation: &command.Invocation{}, objects: tt.files, given: func(string) bool { return false }}}
			b.cluster = manifest.Cluster{Name: "demo", Namespace: "default", Kind: manifest.KubeadmControlPlane, Replicas: 3,
				Version: artifacts.DefaultVersion}
			steps, err := b.todo(t.Context(), readOnly(t, tt.broken, tt.objects...))
			if tt.code == command.ExitOK {
				if err != nil || len(steps) != len(tt.files) {
					t.Errorf("%d steps, %v", len(steps), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || command.ExitCode(t.Context(), true, err) != tt.code {
				t.Errorf("error is %v, want %q with exit code %d", err, tt.want, tt.code)
			}
		})
	}
}
