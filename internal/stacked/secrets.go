package stacked

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/quorate/quorate/internal/certs"
)

// lacking says what the certificates lack, in sentences that name purposes or secrets; empty: nothing.
func (f slowFacts) lacking() []string {
	var all []string
	if f.broken != "" {
		all = append(all, f.broken)
	}
	if len(f.given) > 0 {
		all = append(all, "Secrets that only the user can give are missing, for "+strings.Join(f.given, ", "))
	}
	if len(f.missing) > 0 {
		all = append(all, "No secrets with the authorities for "+strings.Join(f.missing, ", "))
	}
	return all
}

// keysElsewhere names the authorities without which nobody joins although their certificates are
// there: the bootstrap provider refuses to let a machine join without their keys.
func (s *scene) keysElsewhere(f *slowFacts) []string {
	var all []string
	for _, purpose := range f.keyless {
		all = append(all, fmt.Sprintf("%s (secret %s/%s-%s lacks tls.key)", purpose, s.kcp.Namespace, s.Cluster.Name, purpose))
	}
	return all
}

// ownSecrets makes the control plane the controller of the cluster's own secrets that lost it, or name it by
// a UID from before a move or a restore. One that changes meanwhile is left to the next turn.
func (r *Reconciler) ownSecrets(ctx context.Context, s *scene, m *memory) error {
	if len(m.slow.disowned) == 0 {
		return nil
	}
	// The garbage collector takes the owner off what shall outlive it: put on again, it would go with it.
	err := r.remains(ctx, s.kcp)
	if err == nil {
		err = certs.Own(ctx, r.APIReader, r.Client, s.Cluster, m.slow.disowned, controllerRef(s.kcp))
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("keeping the secrets of cluster %s: %w", s.Cluster.Name, err)
	}
	m.slow.disowned = nil
	return nil
}
