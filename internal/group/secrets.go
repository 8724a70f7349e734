package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
)

// errRested has a turn that would do something after a rest begin anew: what is believed for longer at rest is read again before.
var errRested = errors.New("what was read before a rest is read again")

// Secrets are what is known of a cluster's secrets. Each costs a request, and changes rarely.
type Secrets struct {
	// missing are the authorities that can be generated, given those that only the
	// user has; broken says what is wrong with what was given.
	missing, given []string
	broken         string
	// keyless are the authorities whose key is kept elsewhere, disowned the secrets that the control
	// plane should control and does not.
	keyless, disowned []string
	kubeconfig        certs.Kubeconfig
	// Read is when, and of says for which owner, Cluster and configuration.
	Read time.Time
	of   string
}

// fresh reports whether the facts may still be believed.
func (f Secrets) fresh(t *Observer, of string) bool {
	believed := t.Slow()
	switch {
	case len(f.given) > 0, f.broken != "", len(f.missing) > 0 && !t.Facts.Group.New && t.hadAny(), !f.kubeconfig.Exists && len(f.keyless) > 0:
		believed = SlowMissing
	case len(f.missing) > 0, !f.kubeconfig.Exists:
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

// ReadSecrets adds what is known of the cluster's authorities, as kubeadm needs them with a configuration, of the certificates that the user
// copies to the machines, and of the kubeconfig.
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
	missing := slices.Clone(found.missing)
	if t.hadAny() {
		missing = append(missing, found.keysElsewhere(t)...)
	}
	switch {
	case found.broken != "":
		t.noteBroken(found.broken)
	case len(found.given) > 0:
		t.Refuse(plan.Refusal{Reason: "GivenCertificatesMissing",
			Message: fmt.Sprintf("etcd is external, and its certificates must be given as secrets of cluster %s: %s", t.Cluster.Name, strings.Join(found.given, ", "))})
	}
	t.addCertificates(missing)
	t.NoteKubeconfig(found.kubeconfig, !slices.Contains(found.missing, string(secret.ClusterCA)))
	return nil
}

// look reads the secrets.
func (f *Secrets) look(ctx context.Context, t *Observer, config *bootstrapv1.KubeadmConfigSpec) error {
	found, err := certs.Read(ctx, t.APIReader, t.Cluster, &config.ClusterConfiguration, t.ControllerRef(), config.Files...)
	if err != nil {
		return fmt.Errorf("looking for the secrets of cluster %s: %w", t.Cluster.Name, err)
	}
	f.missing, f.given, f.broken, f.kubeconfig = found.Missing, found.Given, found.Broken, found.Kubeconfig
	f.keyless, f.disowned = found.Keyless, found.Disowned
	return nil
}

// GenerateSecrets makes the authorities that are missing, as kubeadm needs them with a configuration. What it made need not be read again; where a secret has
// appeared meanwhile, all are.
func (t *Writer) GenerateSecrets(ctx context.Context, config *bootstrapv1.KubeadmConfigSpec) error {
	known := t.Memory.Secrets
	t.Memory.Secrets = Secrets{}
	made, err := certs.Generate(ctx, t.Client.to, t.Cluster, &config.ClusterConfiguration, known.missing, t.ControllerRef(), config.Files...)
	if err != nil {
		return fmt.Errorf("generating the certificate authorities of cluster %s: %w", t.Cluster.Name, err)
	}
	if len(made) == len(known.missing) {
		known.missing = nil
		t.Memory.Secrets = known
	}
	return nil
}

// WriteKubeconfig writes the kubeconfig of the cluster, signed by its own authority.
func (t *Writer) WriteKubeconfig(ctx context.Context) error {
	known := t.Memory.Secrets
	t.Memory.Secrets = Secrets{}
	written, err := certs.WriteKubeconfig(ctx, t.Client.to, t.Cluster, t.ControllerRef(), known.kubeconfig.Absent)
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of cluster %s: %w", t.Cluster.Name, err)
	}
	known.kubeconfig = written
	t.Memory.Secrets = known
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
	if len(f.missing) > 0 {
		all = append(all, "No secrets with the authorities for "+strings.Join(f.missing, ", "))
	}
	return all
}

// keysElsewhere names the authorities without which nobody joins although their certificates are
// there: the bootstrap provider refuses to let a machine join without their keys.
func (f *Secrets) keysElsewhere(t *Observer) []string {
	var all []string
	for _, purpose := range f.keyless {
		all = append(all, fmt.Sprintf("%s (secret %s/%s-%s lacks tls.key)", purpose, t.Object.GetNamespace(), t.Cluster.Name, purpose))
	}
	return all
}

// ControlSecrets makes the group the controller of the cluster's own secrets that lost it, or name it by
// a UID from before a move or a restore. One that changes meanwhile is left to the next turn.
func (t *Writer) ControlSecrets(ctx context.Context, but ...secret.Purpose) error {
	m := &t.Memory.Secrets
	m.disowned = slices.DeleteFunc(m.disowned, func(purpose string) bool { return slices.Contains(but, secret.Purpose(purpose)) })
	if len(m.disowned) == 0 {
		return nil
	}
	// The garbage collector takes the owner off what shall outlive it: put on again, it would go with it.
	err := t.Remains(ctx)
	if err == nil {
		err = certs.Own(ctx, t.APIReader, t.Client.to, t.Cluster, m.disowned, t.ControllerRef())
	}
	if t.LookAgain(err) != nil {
		return fmt.Errorf("keeping the secrets of cluster %s: %w", t.Cluster.Name, err)
	}
	if err != nil {
		return nil
	}
	m.disowned = nil
	return nil
}
