package stacked

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/quorate/quorate/internal/certs"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/plan"
)

// secretFacts are what is known of a cluster's secrets. Each costs a request, and changes rarely.
type secretFacts struct {
	// missing are the authorities that can be generated, given those that only the
	// user has; broken says what is wrong with a secret that is there.
	missing, given []string
	broken         string
	// keyless are the authorities whose key is kept elsewhere, disowned the secrets that the control
	// plane should control and does not.
	keyless, disowned []string
	kubeconfig        plan.Kubeconfig
	// of says which objects were read, and at which generation.
	of   string
	read time.Time
}

// fresh reports whether the facts may still be believed.
func (f secretFacts) fresh(of string, now time.Time) bool {
	well := len(f.missing) == 0 && len(f.given) == 0 && f.broken == "" && f.kubeconfig.Exists
	believed := group.SlowTime
	if !well {
		believed = group.SlowMissing
	}
	return f.of == of && now.Before(f.read.Add(believed))
}

// Read implements group.Kind: it adds what is known of the cluster's secrets.
func (*Kind) Read(ctx context.Context, t *group.Turn) error {
	found := &memoryOf(t.Memory).secrets
	from := fmt.Sprintf("%s %s %d", t.Object.GetUID(), t.Cluster.UID, t.Object.GetGeneration())
	if !found.fresh(from, t.Facts.Now) {
		*found = secretFacts{of: from, read: t.Facts.Now}
		if err := found.look(ctx, t); err != nil {
			return err
		}
	}
	facts := &t.Facts.Cluster
	facts.MissingCertificates, facts.Kubeconfig = found.missing, found.kubeconfig
	t.Lacking = found.lacking()
	if t.Facts.Group.Initialized || len(t.Machines) > 0 {
		facts.MissingCertificates = append(slices.Clone(found.missing), found.keysElsewhere(t)...)
	}
	switch {
	case found.broken != "" && !t.Facts.Group.Initialized:
		t.Refuse(plan.Refusal{Reason: "CertificatesInvalid", Message: found.broken})
	case found.broken != "":
		// What runs goes on without it; but nobody may join.
		facts.MissingCertificates = append(slices.Clone(facts.MissingCertificates), found.broken)
	case len(found.given) > 0:
		t.Refuse(plan.Refusal{Reason: "GivenCertificatesMissing",
			Message: fmt.Sprintf("etcd is external, and its certificates must be given as secrets of cluster %s: %s", t.Cluster.Name, strings.Join(found.given, ", "))})
	}
	return nil
}

// look reads the secrets.
func (f *secretFacts) look(ctx context.Context, t *group.Turn) error {
	found, err := certs.Read(ctx, t.APIReader, t.Cluster, &of(t).Spec.KubeadmConfigSpec.ClusterConfiguration, t.ControllerRef())
	if err != nil {
		return fmt.Errorf("looking for the secrets of cluster %s: %w", t.Cluster.Name, err)
	}
	f.missing, f.given, f.broken, f.kubeconfig = found.Missing, found.Given, found.Broken, found.Kubeconfig
	f.keyless, f.disowned = found.Keyless, found.Disowned
	return nil
}

// sentences joins what the certificates lack.
func sentences(all []string) string { return strings.Join(all, "; ") }

// lacking says what the certificates lack, in sentences that name purposes or secrets; empty: nothing.
func (f secretFacts) lacking() []string {
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
func (f *secretFacts) keysElsewhere(t *group.Turn) []string {
	var all []string
	for _, purpose := range f.keyless {
		all = append(all, fmt.Sprintf("%s (secret %s/%s-%s lacks tls.key)", purpose, t.Object.GetNamespace(), t.Cluster.Name, purpose))
	}
	return all
}

// controlSecrets makes the control plane the controller of the cluster's own secrets that lost it, or name it by
// a UID from before a move or a restore. One that changes meanwhile is left to the next turn.
func controlSecrets(ctx context.Context, t *group.Turn) error {
	m := memoryOf(t.Memory)
	if len(m.secrets.disowned) == 0 {
		return nil
	}
	// The garbage collector takes the owner off what shall outlive it: put on again, it would go with it.
	err := t.Remains(ctx)
	if err == nil {
		err = certs.Own(ctx, t.APIReader, t.Client, t.Cluster, m.secrets.disowned, t.ControllerRef())
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("keeping the secrets of cluster %s: %w", t.Cluster.Name, err)
	}
	m.secrets.disowned = nil
	return nil
}
