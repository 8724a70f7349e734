package embed

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestReadyThoughAVersionCameLater: the mapper finds a group while one of its two versions is not served yet.
func TestReadyThoughAVersionCameLater(t *testing.T) {
	var all atomic.Bool
	versions := map[bool]string{
		false: `{"groupVersion":"example.com/v1","version":"v1"}`,
		true:  `{"groupVersion":"example.com/v1","version":"v1"},{"groupVersion":"example.com/v2","version":"v2"}`,
	}
	answer := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/api", func(w http.ResponseWriter, _ *http.Request) { answer(w, `{"kind":"APIVersions","versions":["v1"]}`) })
	mux.HandleFunc("/apis", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"example.com","versions":[`+versions[all.Load()]+`]}]}`)
	})
	mux.HandleFunc("/apis/example.com/v1", func(w http.ResponseWriter, _ *http.Request) {
		all.Store(true) // whoever asks for it has read the list of groups
		answer(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":[{"name":"olds","kind":"Old",`+
			`"namespaced":true}]}`)
	})
	mux.HandleFunc("/apis/example.com/v2", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v2","resources":[{"name":"news","kind":"New",`+
			`"namespaced":true}]}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	mapper, err := apiutil.NewDynamicRESTMapper(&rest.Config{Host: server.URL}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}).Build()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := ready(ctx, c, mapper, []*apiextensionsv1.CustomResourceDefinition{kindIn("Old", "v1"), kindIn("New", "v2")}); err != nil {
		t.Fatal(err)
	}
}

// kindIn is a kind of a group that has kinds in two versions.
func kindIn(kind, version string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Group, crd.Spec.Names.Kind = "example.com", kind
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: version, Served: true}, {Name: "v0"}}
	return crd
}
