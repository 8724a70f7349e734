package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
)

// Secrets are what is known of a cluster's secrets. Each costs a request, and changes rarely.
type Secrets struct {
	// missing are the authorities that can be generated, given those that only the
	// user has; broken says what is wrong with what was given.
	Missing, given []string
	broken         string
	// keyless are the authorities whose key is kept elsewhere, disowned the secrets that the control
	// plane should control and does not.
	keyless, Disowned []string
	Kubeconfig        certs.Kubeconfig
	// Certificates are those in the secrets, but for the kubeconfig's.
	Certificates []certs.Dated
	// Read is when, and of says for which owner, Cluster and configuration.
	Read time.Time
	of   string
}

// fresh reports whether the facts may still be believed.
func (f Secrets) fresh(t *Observer, of string) bool {
	believed := t.Slow()
	switch {
	case len(f.given) > 0, f.broken != "", len(f.Missing) > 0 && !t.Facts.Group.New && t.hadAny(), !f.Kubeconfig.Exists && len(f.keyless) > 0:
		believed = SlowMissing
	case len(f.Missing) > 0, !f.Kubeconfig.Exists:
		believed = SlowOurs
	}
	return f.of == of && t.Facts.Now.Before(f.Read.Add(believed))
}

// Slow is how long a secret is believed that is as it should be.
func (t *Observer) Slow() time.Duration {
	if t.Memory.Rests {
		return SlowAtRest
	}
	return SlowTime
}

// hadAny reports whether the cluster ever had authorities that can be missing: where it has not, they are made.
func (t *View) hadAny() bool { return t.Facts.Group.Initialized || len(t.Machines) > 0 }

// ReadSecrets adds what is known of the cluster's authorities, as kubeadm needs them with a configuration, of the certificates that the
// user copies to the machines, and of the kubeconfig.
func (t *Observer) ReadSecrets(ctx context.Context, config *bootstrapv1.KubeadmConfigSpec) error {
	found := &t.Memory.Secrets
	from := certs.Basis(t.Cluster, &config.ClusterConfiguration, t.ControllerRef(), config.Files...)
	if !found.fresh(t, from) {
		*found = Secrets{of: from, Read: t.Facts.Now}
		if err := found.look(ctx, t, config); err != nil {
			return err
		}
	}
	t.Lacking = found.lacking()
	missing := slices.Clone(found.Missing)
	if t.hadAny() {
		missing = append(missing, found.keysElsewhere(t)...)
	}
	switch {
	case found.broken != "":
		wants{t.View}.noteBroken(found.broken)
	case len(found.given) > 0:
		t.Refuse(plan.Refusal{Reason: "GivenCertificatesMissing",
			Message: fmt.Sprintf("etcd is external, and its certificates must be given as secrets of cluster %s: %s", t.Cluster.Name,
				strings.Join(found.given, ", "))})
	}
	wants{t.View}.addCertificates(missing)
	t.NoteKubeconfig(found.Kubeconfig, !slices.Contains(found.Missing, string(secret.ClusterCA)))
	return nil
}

// look reads the secrets.
func (f *Secrets) look(ctx context.Context, t *Observer, config *bootstrapv1.KubeadmConfigSpec) error {
	found, err := certs.Read(ctx, t.APIReader, t.Cluster, &config.ClusterConfiguration, t.ControllerRef(), config.Files...)
	if err != nil {
		return fmt.Errorf("looking for the secrets of cluster %s: %w", t.Cluster.Name, err)
	}
	f.Missing, f.given, f.broken, f.Kubeconfig = found.Missing, found.Given, found.Broken, found.Kubeconfig
	f.keyless, f.Disowned, f.Certificates = found.Keyless, found.Disowned, found.Certificates
	return nil
}

// lacking says what the certificates lack, in sentences that name purposes or secrets; empty: nothing.
func (f Secrets) lacking() []string {
	var all []string
	if f.broken != "" {
		all = append(all, f.broken)
	}
	if len(f.given) > 0 {
		all = append(all, "Secrets that only the user can give are missing, for "+strings.Join(f.given, ", "))
	}
	if len(f.Missing) > 0 {
		all = append(all, "No secrets with the authorities for "+strings.Join(f.Missing, ", "))
	}
	return all
}

// keysElsewhere names the authorities without which no machine joins although their certificates are
// there: the bootstrap provider refuses to let a machine join without their keys.
func (f *Secrets) keysElsewhere(t *Observer) []string {
	var all []string
	for _, purpose := range f.keyless {
		all = append(all, fmt.Sprintf("%s (secret %s/%s-%s lacks tls.key)", purpose, t.Object.GetNamespace(), t.Cluster.Name, purpose))
	}
	return all
}
