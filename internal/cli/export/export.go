// Package export is `quorate export`: the KubeadmControlPlane that the machines of a control plane amount to, when its
// spec is lost. It reads what each machine was made from, and no secret.
package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/manifest"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// Command is `quorate export`.
func Command(a *command.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [NAME]",
		Short: "Write the KubeadmControlPlane that the machines of a control plane amount to",
		Long: `Write the KubeadmControlPlane that the machines of a cluster's control plane amount to, ready for kubectl apply: help for a spec that was
lost, or to see what a control plane was made from.

It is read from each Machine, its KubeadmConfig and its infrastructure machine, whose newest counts. What a machine has otherwise
is a comment above the manifest: such a machine would be replaced, or changed in place, once the manifest is applied. So read
these comments before you apply it. 'quorate plan -f FILE' shows which machines are replaced. If the control plane's object is
gone, that plan ends when the new one has adopted the machines, and does not show which are replaced after that. What no machine
shows, such as spec.rollout and spec.remediation, is left to its default.

Bootstrap tokens are left out. A text that may be secret is not written: 'fillIn' stands in its place, with which the API server
refuses the manifest, until you put the value there. Such are passwords, files that are encoded, that not everybody may read or
that lie where secrets are, and what is assigned to a name such as "token". No rule finds every secret: read the manifest before
you give it to others.`,
		Example: `  quorate export demo > demo-cp.yaml
  quorate plan -f demo-cp.yaml                 # which machines are replaced; if the object is gone, only that they are adopted
  quorate export demo --context management     # in a management cluster of your own`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE:              func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), a, args) },
	}
	a.AddManagementTo(cmd)
	return cmd
}

// run writes the manifest of the cluster that is named, or the only one.
func run(ctx context.Context, a *command.Invocation, args []string) error {
	c, key, err := a.Cluster(ctx, args)
	if err != nil {
		return err
	}
	found, err := read(ctx, c, key)
	if err != nil {
		return err
	}
	kcp, notes := found.controlPlane(time.Now())
	object, err := manifest.Generic(manifest.Document{Object: kcp})
	if err != nil {
		return err
	}
	notes = append(notes, withhold(object)...)
	for i, note := range notes {
		notes[i] = plaintext.Visible(strings.Join(strings.Fields(plaintext.Redact(note)), " "))
	}
	return manifest.Write(a.Out, []manifest.Document{{About: strings.Join(notes, "\n"), Object: object}})
}

// sources are what a control plane is read from.
type sources struct {
	cluster *clusterv1.Cluster
	// machines are the newest first; those that go last.
	machines []drift.Machine
	// managed is the EtcdCluster that keeps the cluster's etcd; empty: none does.
	managed string
}

// read reads a control plane's machines.
func read(ctx context.Context, c client.Reader, key client.ObjectKey) (*sources, error) {
	s := &sources{cluster: &clusterv1.Cluster{}}
	if err := c.Get(ctx, key, s.cluster); err != nil {
		return nil, fmt.Errorf("reading cluster %s: %w", key, err)
	}
	of := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}}
	var all clusterv1.MachineList
	if err := c.List(ctx, &all, of...); err != nil {
		return nil, fmt.Errorf("listing the Machines of cluster %s: %w", key, err)
	}
	var etcds v1alpha1.EtcdClusterList
	if err := c.List(ctx, &etcds, client.InNamespace(key.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the EtcdClusters of cluster %s: %w", key, err)
	}
	if keeper := etcdadm.Keeper(etcds.Items, key.Name); keeper != nil {
		s.managed = keeper.Name
	}
	for i := range all.Items {
		if !machine.IsControlPlane(&all.Items[i]) {
			continue
		}
		m, err := readMachine(ctx, c, &all.Items[i])
		if err != nil {
			return nil, err
		}
		s.machines = append(s.machines, m)
	}
	slices.SortFunc(s.machines, newestFirst)
	if !slices.ContainsFunc(s.machines, func(m drift.Machine) bool { return m.Config != nil }) {
		return nil, fmt.Errorf("cluster %s has no control plane machine with a KubeadmConfig: its spec is not known", key)
	}
	return s, nil
}

// newestFirst orders machines: what goes last, then the newest first.
func newestFirst(a, b drift.Machine) int {
	goes := func(m drift.Machine) int {
		if m.Machine.DeletionTimestamp.IsZero() {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(goes(a), goes(b)),
		b.Machine.CreationTimestamp.Compare(a.Machine.CreationTimestamp.Time),
		cmp.Compare(b.Machine.Name, a.Machine.Name),
	)
}

// readMachine reads what a machine was made from. What does not exist any more is not known.
func readMachine(ctx context.Context, c client.Reader, of *clusterv1.Machine) (drift.Machine, error) {
	m := drift.Machine{Machine: of}
	if ref := of.Spec.Bootstrap.ConfigRef; ref.IsDefined() {
		if ref.APIGroup != bootstrapv1.GroupVersion.Group || ref.Kind != "KubeadmConfig" {
			return m, fmt.Errorf("spec.bootstrap.configRef of Machine %s is %s %s: must be a KubeadmConfig; other control planes have their spec "+
				"in their bootstrap template",
				of.Name, ref.Kind, ref.Name)
		}
		config := &bootstrapv1.KubeadmConfig{}
		err := c.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: ref.Name}, config)
		if client.IgnoreNotFound(err) != nil {
			return m, fmt.Errorf("reading KubeadmConfig %s: %w", ref.Name, err)
		}
		if err == nil {
			m.Config = config
		}
	}
	if !of.Spec.InfrastructureRef.IsDefined() {
		return m, nil
	}
	found, err := machine.InfrastructureRef.Find(ctx, c, of.Spec.InfrastructureRef, of.Namespace)
	var refused *machine.RefusedError
	if err != nil && !apierrors.IsNotFound(err) && !errors.As(err, &refused) {
		return m, fmt.Errorf("reading %s %s: %w", of.Spec.InfrastructureRef.Kind, of.Spec.InfrastructureRef.Name, err)
	}
	m.Infrastructure = found
	return m, nil
}
