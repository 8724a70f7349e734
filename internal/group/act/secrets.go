package act

import (
	"context"
	"fmt"
	"slices"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/group/observe"
)

// GenerateSecrets makes the authorities that are missing, as kubeadm needs them with a configuration. What it made need not be read again;
// where a secret has appeared meanwhile, all are.
func (t *Writer) GenerateSecrets(ctx context.Context, config *bootstrapv1.KubeadmConfigSpec) error {
	known := t.Memory.Secrets
	t.Memory.Secrets = observe.Secrets{}
	made, err := certs.Generate(ctx, t.to, t.Cluster, &config.ClusterConfiguration, known.Missing, t.ControllerRef(), config.Files...)
	if err != nil {
		return fmt.Errorf("generating the certificate authorities of cluster %s: %w", t.Cluster.Name, err)
	}
	if len(made.Purposes) == len(known.Missing) {
		known.Missing, known.Certificates = nil, append(slices.Clone(known.Certificates), made.Certificates...)
		t.Memory.Secrets = known
	}
	return nil
}

// WriteKubeconfig writes the kubeconfig of the cluster, signed by its own authority.
func (t *Writer) WriteKubeconfig(ctx context.Context) error {
	known := t.Memory.Secrets
	t.Memory.Secrets = observe.Secrets{}
	written, err := certs.WriteKubeconfig(ctx, t.to, t.Cluster, t.ControllerRef(), known.Kubeconfig.Absent)
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of cluster %s: %w", t.Cluster.Name, err)
	}
	known.Kubeconfig = written
	t.Memory.Secrets = known
	return nil
}

// ControlSecrets makes the group the controller of the cluster's own secrets that lost it, or name it by
// a UID from before a move or a restore. One that changes meanwhile is left to the next turn.
func (t *Writer) ControlSecrets(ctx context.Context, but ...secret.Purpose) error {
	m := &t.Memory.Secrets
	m.Disowned = slices.DeleteFunc(m.Disowned, func(purpose string) bool { return slices.Contains(but, secret.Purpose(purpose)) })
	if len(m.Disowned) == 0 {
		return nil
	}
	// The garbage collector takes the owner off what must outlive it: put on again, it would go with it.
	err := t.Remains(ctx)
	if err == nil {
		err = certs.Own(ctx, t.APIReader, t.to, t.Cluster, m.Disowned, t.ControllerRef())
	}
	if t.LookAgain(err) != nil {
		return fmt.Errorf("keeping the secrets of cluster %s: %w", t.Cluster.Name, err)
	}
	if err != nil {
		return nil
	}
	m.Disowned = nil
	return nil
}
