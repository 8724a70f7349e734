package groups

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// indexer counts the indexes that it is asked for.
type indexer struct {
	asked int
	fails error
}

func (i *indexer) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	i.asked++
	return i.fails
}

// TestIndexed: what is listed by a Cluster's name is listed by an index, which is made once; where none can be made, and for all other lists, nothing is changed.
func TestIndexed(t *testing.T) {
	mine := client.MatchingLabels{clusterv1.ClusterNameLabel: "mine", "other": ""}
	for name, row := range map[string]struct {
		options []client.ListOption
		fails   error
		asked   int
		fields  string
	}{
		"of a cluster":      {options: []client.ListOption{client.InNamespace("ns"), mine}, asked: 1, fields: "quorate/cluster=mine"},
		"not served":        {options: []client.ListOption{client.InNamespace("ns"), mine}, fails: errors.New("no such kind"), asked: 2},
		"of several":        {options: []client.ListOption{client.HasLabels{clusterv1.ClusterNameLabel}}},
		"of all":            {},
		"by another field":  {options: []client.ListOption{mine, client.MatchingFields{"a": "b"}}, fields: "a=b"},
		"by another label":  {options: []client.ListOption{client.MatchingLabels{"other": ""}}},
		"in all namespaces": {options: []client.ListOption{mine}, asked: 1, fields: "quorate/cluster=mine"},
	} {
		by := &indexer{fails: row.fails}
		var said client.ListOptions
		c := Indexed(fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) error {
			said = client.ListOptions{}
			said.ApplyOptions(options)
			return nil
		}}).Build(), by)
		for range 2 {
			if err := c.List(t.Context(), &corev1.ConfigMapList{}, row.options...); err != nil {
				t.Fatal(err)
			}
		}
		var want client.ListOptions
		want.ApplyOptions(row.options)
		selected := ""
		if said.FieldSelector != nil {
			selected = said.FieldSelector.String()
		}
		if by.asked != row.asked || selected != row.fields || said.Namespace != want.Namespace || (said.LabelSelector == nil) != (want.LabelSelector == nil) {
			t.Errorf("%s: an index was asked for %d times, want %d; listed by %q, want %q; %+v", name, by.asked, row.asked, selected, row.fields, said)
		}
	}
}

// TestIndexOfRealCache: a cache that is full already lists the same by the index, of each Go type that a kind is read as, and follows changes.
func TestIndexOfRealCache(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set")
	}
	env := &envtest.Environment{ControlPlaneStartTimeout: 3 * time.Minute}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := cache.New(cfg, cache.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	cached, err := client.New(cfg, client.Options{Scheme: scheme.Scheme, Cache: &client.CacheOptions{Reader: kept, Unstructured: true}})
	if err != nil {
		t.Fatal(err)
	}
	object := func(name, cluster string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}}
	}
	for _, o := range []*corev1.ConfigMap{object("a", "mine"), object("b", "yours"), object("c", "mine")} {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kept.GetInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = kept.Start(t.Context()) }() // what it cannot do, the lists tell
	if !kept.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache is not filled")
	}
	c := Indexed(cached, kept)
	mine := []client.ListOption{client.InNamespace("default"), client.MatchingLabels{clusterv1.ClusterNameLabel: "mine"}}
	names := func(list client.ObjectList) []string {
		t.Helper()
		if err := c.List(t.Context(), list, mine...); err != nil {
			t.Fatal(err)
		}
		var all []string
		switch l := list.(type) {
		case *corev1.ConfigMapList:
			for i := range l.Items {
				all = append(all, l.Items[i].Name)
			}
		case *unstructured.UnstructuredList:
			for i := range l.Items {
				all = append(all, l.Items[i].GetName())
			}
		}
		slices.Sort(all)
		return all
	}
	untyped := func() *unstructured.UnstructuredList {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		return l
	}
	for range 2 {
		if got := names(&corev1.ConfigMapList{}); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("typed: %v", got)
		}
		if got := names(untyped()); !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("unstructured: %v", got)
		}
	}
	if err := api.Update(t.Context(), object("b", "mine")); err != nil {
		t.Fatal(err)
	}
	limit, again := time.After(30*time.Second), time.NewTicker(10*time.Millisecond)
	defer again.Stop()
	for !slices.Equal(names(&corev1.ConfigMapList{}), []string{"a", "b", "c"}) || !slices.Equal(names(untyped()), []string{"a", "b", "c"}) {
		select {
		case <-limit:
			t.Fatalf("another label is not noticed: %v, %v", names(&corev1.ConfigMapList{}), names(untyped()))
		case <-again.C:
		}
	}
}
