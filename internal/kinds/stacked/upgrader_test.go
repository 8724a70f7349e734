package stacked

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/inplace"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestNoUpgraderImage: without an image for the version no machine is touched, whichever policy lets machines be changed in place, and the
// plan names the settings. With one the update begins. One who looks once repeats what the manager reported of this version, and of no
// other.
func TestNoUpgraderImage(t *testing.T) {
	for _, policy := range []controlplanev1.InPlacePolicy{controlplanev1.InPlacePreferred, controlplanev1.InPlaceOnly} {
		w := grown(t, 3)
		before := w.machineNames()
		w.r.Upgraders = &inplace.Upgraders{Reader: w.client, Namespace: "quorate-system"}
		w.change(inPlacePolicy(policy))
		p := w.step()
		const want = "cannot update 3 machines in place: no upgrader image for v1.37.0: set key v1.37.0 of ConfigMap quorate-upgrader-images " +
			"in namespace " +
			"default or quorate-system, or the manager's flag --upgrader-image"
		if p.Reason != "NoUpgraderImage" || p.Message != want {
			t.Fatalf("%s: %+v", policy, p)
		}
		if len(w.upgrades()) != 0 || len(w.groupUpgrades()) != 0 || !slices.Equal(w.machineNames(), before) {
			t.Fatalf("%s: %d upgrades, machines %v", policy, len(w.upgrades()), w.machineNames())
		}
		serveManaged(t, w, &rounds{})
		if got := w.noUpgrader("v1.37.0"); got == "" || want != "cannot update 3 machines in place: "+got {
			t.Errorf("%s: one who looks once finds %q", policy, got)
		}
		if got := w.noUpgrader("v1.36.4"); got != "" {
			t.Errorf("%s: one who looks once finds %q for another version", policy, got)
		}
		images := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "quorate-system", Name: "quorate-upgrader-images"},
			Data: map[string]string{"v1.37.0": "example.com/upgrader@sha256:abc"}}
		if err := w.client.Create(t.Context(), images); err != nil {
			t.Fatal(err)
		}
		w.use(w.client) // as after a restart: the image counts as missing for some seconds more otherwise
		w.r.Upgraders = &inplace.Upgraders{Reader: w.client, Namespace: "quorate-system"}
		if p := w.step(); p.Reason != "UpdatingInPlace" || len(w.upgrades()) != 1 {
			t.Errorf("%s: %+v", policy, p)
		}
	}
}

// noUpgrader returns what one who looks once finds of a missing upgrader image if a version is wanted.
func (w *world) noUpgrader(version string) string {
	w.t.Helper()
	wants := interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, o, options...)
			if kcp, ok := o.(*controlplanev1.KubeadmControlPlane); ok {
				kcp.Spec.Version = version
			}
			return err
		},
	})
	o, err := observe.Once(w.t.Context(), wants, New(), kcpKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return o.Group.NoUpgrader
}

// TestUnseenUpgrader: one who looks once, as quorate plan does, knows of an upgrader image from the cluster's namespace or from an
// upgrade that has begun, and else
// that it does not know.
func TestUnseenUpgrader(t *testing.T) {
	forbidden := func(_ context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if _, is := o.(*corev1.ConfigMap); is {
			return errors.New("forbidden")
		}
		return c.Get(t.Context(), key, o, options...)
	}
	for _, test := range []struct {
		name   string
		policy controlplanev1.InPlacePolicy
		image  string
		begun  bool
		get    func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error
		want   string
	}{
		{"not seen", controlplanev1.InPlacePreferred, "", false, nil, "v1.37.0"},
		{"the cluster's namespace", controlplanev1.InPlacePreferred, "v1.37.0", false, nil, ""},
		{"another version's", controlplanev1.InPlaceOnly, "v1.36.4", false, nil, "v1.37.0"},
		{"forbidden", controlplanev1.InPlacePreferred, "v1.37.0", false, forbidden, "v1.37.0"},
		{"an upgrade that has begun", controlplanev1.InPlacePreferred, "", true, nil, ""},
		{"replaced", controlplanev1.InPlaceNever, "", false, nil, ""},
	} {
		w := grown(t, 3)
		w.change(inPlacePolicy(test.policy))
		if test.begun {
			w.step()
		}
		serveManaged(t, w, &rounds{})
		if test.image != "" {
			images := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: kcpKey.Namespace, Name: "quorate-upgrader-images"},
				Data: map[string]string{test.image: "a@sha256:b"}}
			if err := w.client.Create(t.Context(), images); err != nil {
				t.Fatal(err)
			}
		}
		_, beside, err := observe.OnceBeside(t.Context(), interceptor.NewClient(w.client, interceptor.Funcs{Get: test.get}), New(), kcpKey)
		if err != nil || beside.UnseenUpgrader != test.want {
			t.Errorf("%s: %q, want %q, %v", test.name, beside.UnseenUpgrader, test.want, err)
		}
		if replaced := test.policy == controlplanev1.InPlaceNever; (beside.Drain == "") != replaced {
			t.Errorf("%s: drain %q", test.name, beside.Drain)
		}
	}
}

// TestUpgraderOfNobody: an upgrader image is looked up only where Quorate's own upgrader is to change a node: it is not read where machines
// are replaced.
func TestUpgraderOfNobody(t *testing.T) {
	w := grown(t, 1)
	refused := interceptor.NewClient(w.client, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
		...client.GetOption) error {
		t.Error("a ConfigMap was read")
		return nil
	}})
	w.r.Upgraders = &inplace.Upgraders{Reader: refused}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.37.0" })
	w.step()
	if slices.Equal(w.machineNames(), []string{"demo-cp-1"}) {
		t.Errorf("%v", w.machineNames())
	}
}
