package manager

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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

// TestIndexed: what is listed by a Cluster's name is listed by an index, which is made once; where none can be made, and for all other
// lists, nothing is changed.
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
		c := &indexed{indexer: by, direct: []client.Object{&corev1.Secret{}}, have: map[kept]bool{},
			Client: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch,
				_ client.ObjectList, options ...client.ListOption) error {
				said = client.ListOptions{}
				said.ApplyOptions(options)
				return nil
			}}).Build()}
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
		if by.asked != row.asked || selected != row.fields || said.Namespace != want.Namespace ||
			(said.LabelSelector == nil) != (want.LabelSelector == nil) {
			t.Errorf("%s: an index was asked for %d times, want %d; listed by %q, want %q; %+v", name, by.asked, row.asked, selected, row.fields,
				said)
		}
		if err := c.List(t.Context(), &corev1.SecretList{}, client.MatchingLabels{clusterv1.ClusterNameLabel: "mine"}); err != nil ||
			said.FieldSelector != nil {
			t.Errorf("%s: what is read from the API server is listed by %v: %v", name, said.FieldSelector, err)
		}
	}
}
