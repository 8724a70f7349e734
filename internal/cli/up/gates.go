package up

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/local/selfmanaged"
)

// checkGates reads the feature gates. A cluster that keeps itself has a Cluster API of its own.
func (u *up) checkGates() error {
	if !u.given("feature-gates") {
		return nil
	}
	if keeper, kept := selfmanaged.Keeper(u.State); kept {
		return fmt.Errorf("--feature-gates is for the management plane on this host, and the Cluster API of this environment runs in cluster %s",
			keeper)
	}
	if u.selfManaged {
		return errors.New("--feature-gates is for the management plane on this host, and --self-managed moves the Clusters to another")
	}
	gates, err := embed.ParseFeatureGates(u.featureGates)
	if err != nil {
		return fmt.Errorf("invalid --feature-gates %w", err)
	}
	u.gates = gates
	return nil
}

// planeDetail is what is shown of a management plane: where it is, and the feature gates that were chosen, also by an earlier command.
func planeDetail(state, host string) string {
	e, err := embed.Load(state)
	if gates := embed.ShowFeatureGates(e.FeatureGates); err == nil && gates != "" {
		return host + ", feature gates " + gates
	}
	return host
}
