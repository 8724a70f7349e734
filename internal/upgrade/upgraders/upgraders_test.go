package upgraders

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestOf: the nearest source wins, a key without a value counts as missing, and without any source there is no image.
func TestOf(t *testing.T) {
	for name, test := range map[string]struct {
		configs map[string]string
		flag    string
		want    string
	}{
		"the cluster's namespace": {map[string]string{"team": "a", "quorate-system": "b"}, "c:%s", "a"},
		"the manager's namespace": {map[string]string{"quorate-system": "b"}, "c:%s", "b"},
		"an empty value":          {map[string]string{"team": "", "quorate-system": "b"}, "c:%s", "b"},
		"the flag":                {nil, "c:%s", "c:v1.36.3"},
		"another namespace":       {map[string]string{"other": "x"}, "", ""},
		"nothing":                 {nil, "", ""},
	} {
		b := fake.NewClientBuilder()
		for namespace, image := range test.configs {
			b.WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMap},
				Data: map[string]string{"v1.36.3": image}})
		}
		i := Images{Reader: b.Build(), Namespace: "quorate-system", Default: test.flag}
		if got, err := i.Of(t.Context(), "team", "v1.36.3"); got != test.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, test.want)
		}
	}
}

// TestData: what is written for a ConfigMap is what is read from it.
func TestData(t *testing.T) {
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: ConfigMap}, Data: Data([]Entry{
		{Version: "v1.36.3", Image: "a@sha256:b", Brings: `{"cni":"v1.9.1"}`}, {Version: "v1.35.4", Image: "a@sha256:c"},
		{Version: "v1.36.3+k3s1", Image: "d"},
	})}
	i := Images{Reader: fake.NewClientBuilder().WithObjects(written).Build()}
	for version, want := range map[string][2]string{"v1.36.3": {"a@sha256:b", `{"cni":"v1.9.1"}`}, "v1.35.4": {"a@sha256:c", ""},
		"v1.36.3+k3s1": {"d", ""}, "v1.34.0": {}} {
		image, err := i.Of(t.Context(), "team", version)
		brings, _, errOfBrings := i.Brings(t.Context(), "team", version)
		if image != want[0] || brings != want[1] || err != nil || errOfBrings != nil {
			t.Errorf("%s: %q brings %q, %v, %v", version, image, brings, err, errOfBrings)
		}
	}
}

// TestBuildMetadata: a version with a plus sign has its image under a name that a ConfigMap and an image's tag can have.
func TestBuildMetadata(t *testing.T) {
	const version, key = "v1.36.3+k3s1", "v1.36.3_k3s1"
	if wrong := validation.IsConfigMapKey(Key(version)); len(wrong) > 0 {
		t.Errorf("%s: %v", Key(version), wrong)
	}
	data := map[string]string{key: "a", key + ".brings": "b"}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: ConfigMap}, Data: data}
	i := Images{Reader: fake.NewClientBuilder().WithObjects(config).Build()}
	if got, err := i.Of(t.Context(), "team", version); got != "a" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, source, err := i.Brings(t.Context(), "team", version); got != "b" || !strings.Contains(source, key+".brings") || err != nil {
		t.Errorf("%q, %s, %v", got, source, err)
	}
	if got := i.Missing("team", version); !strings.Contains(got, "set key "+key+" of") {
		t.Errorf("%s", got)
	}
	i = Images{Reader: fake.NewClientBuilder().Build(), Default: "c:%s"}
	if got, err := i.Of(t.Context(), "team", version); got != "c:"+key || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestUnreadable: a ConfigMap that cannot be read is an error, so that the manager's flag does not win over it.
func TestUnreadable(t *testing.T) {
	refuse := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("forbidden")
	}}
	i := Images{Reader: fake.NewClientBuilder().WithInterceptorFuncs(refuse).Build(), Default: "c:%s"}
	if got, err := i.Of(t.Context(), "team", "v1.36.3"); got != "" || err == nil ||
		!strings.Contains(err.Error(), "reading ConfigMap team/quorate-upgrader-images: forbidden") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestMissing: the message names the key, the ConfigMap, each namespace once, and the flag.
func TestMissing(t *testing.T) {
	const set = "no upgrader image for v1.36.3: set key v1.36.3 of ConfigMap quorate-upgrader-images in namespace "
	for own, want := range map[string]string{"": "team,", "team": "team,", "quorate-system": "team or quorate-system,"} {
		if got := (Images{Namespace: own}).Missing("team", "v1.36.3"); got != set+want+" or the manager's flag --upgrader-image" {
			t.Errorf("%s: %s", own, got)
		}
	}
}
