package facts

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/group/observe"
)

// Decidable is what a person can decide about a group.
type Decidable struct {
	Of *Group
	report.Decisions
}

// Decisions looks once at a cluster's etcd clusters on machines of their own, and at its control plane, and returns what a person can
// decide.
func Decisions(ctx context.Context, from client.Reader, key client.ObjectKey) ([]Decidable, error) {
	from = observe.NewSnapshot(from)
	objects, err := readGroups(ctx, from, key)
	if err != nil {
		return nil, err
	}
	if objects.ControlPlane == nil {
		return nil, noControlPlane(objects.Cluster)
	}
	var found []Decidable
	for _, of := range slices.Concat(objects.EtcdClusters, []*Group{objects.ControlPlane}) {
		observed, err := observe.Once(ctx, from, of.Kind, of.Key)
		if err != nil {
			return nil, fmt.Errorf("observing cluster %s: %w", key, err)
		}
		found = append(found, Decidable{Of: of, Decisions: report.NewDecisions(key.Name, Title(of), observed)})
	}
	return found, nil
}
