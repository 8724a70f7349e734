package act

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
)

// Tokens gives machines their bootstrap tokens, and removes those that are of no more use.
type Tokens struct{ *Writer }

// giveToken puts a bootstrap token into the bootstrap object of a machine that is to join, where the user gave no way to do so. Cluster
// API's bootstrap provider makes one otherwise, once it has a connection of its own, which it tries again only half a minute after a
// failure. It fails when the cluster's first machine is not up yet. Where none can be made it is left to the provider.
func (t Tokens) giveToken(ctx context.Context, object client.Object) {
	config, is := object.(*bootstrapv1.KubeadmConfig)
	if !is {
		return
	}
	with := &config.Spec.JoinConfiguration.Discovery
	if with.BootstrapToken.IsDefined() || with.File.IsDefined() || with.TLSBootstrapToken != "" {
		return
	}
	if err := t.newToken(ctx, config); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The bootstrap provider has to make a bootstrap token", "machine", config.Name)
	}
}

// newToken puts a new bootstrap token into a machine's bootstrap object, and when that was made.
func (t Tokens) newToken(ctx context.Context, config *bootstrapv1.KubeadmConfig) error {
	var token string
	var err error
	observe.Aside(ctx, func() { token, err = t.Files().NewToken(ctx, t.Cluster) })
	if err != nil {
		return fmt.Errorf("giving %s a bootstrap token: %w", config.Name, err)
	}
	config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = token
	metav1.SetMetaDataAnnotation(&config.ObjectMeta, controlplanev1.TokenMadeAnnotation, t.Facts.Now.UTC().Format(time.RFC3339))
	return nil
}

// tokenAge is after how long a token that we made is replaced, unless there is bootstrap data with it. That may be made long before a
// machine comes up, and the provider prolongs a token only once it is.
const tokenAge = 5 * time.Minute

// RenewTokens gives another bootstrap token to the machines whose bootstrap data has not been made for minutes, as while the bootstrap
// provider does not run. It takes the one that is there, whether it has expired or not. A machine that is up needs none. A failure is
// logged and holds up nothing else.
func (t Tokens) RenewTokens(ctx context.Context) {
	if !t.Inspects() || t.Facts.Now.Sub(t.Memory.Tokens.Renewed) < observe.FilesAge {
		return
	}
	for _, m := range t.Machines {
		if !t.needsToken(m) {
			continue
		}
		t.Memory.Tokens.Renewed = t.Facts.Now
		config := m.Bootstrap.(*bootstrapv1.KubeadmConfig)
		after := config.DeepCopy()
		err := t.newToken(ctx, after)
		if err == nil {
			// Not when data has been made of it meanwhile.
			err = t.Change(ctx, config, after)
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "A bootstrap token that may expire before it is used is not renewed", "machine", m.Name)
		}
	}
}

// needsToken reports whether a machine waits for its data, and the token for these was made so long ago that it may expire before.
func (t Tokens) needsToken(m *observe.Machine) bool {
	if m.Facts.Deleting || m.Facts.Host != "" || !AwaitsData(m) {
		return false
	}
	made, err := time.Parse(time.RFC3339, m.Bootstrap.GetAnnotations()[controlplanev1.TokenMadeAnnotation])
	return err == nil && t.Facts.Now.Sub(made) >= tokenAge
}

// AwaitsData reports whether bootstrap data may still be made of a machine's KubeadmConfig. Its Machine names the data some time after the
// provider has said that it is there, which a move forgets.
func AwaitsData(m *observe.Machine) bool {
	config, is := m.Bootstrap.(*bootstrapv1.KubeadmConfig)
	return is && config != nil && config.DeletionTimestamp.IsZero() &&
		m.Spec.Bootstrap.DataSecretName == nil && !ptr.Deref(config.Status.Initialization.DataSecretCreated, false)
}

// DropTokens removes the bootstrap tokens with which machines of the cluster, workers among them, have joined: they need none any
// more, and others could join with them until they expire. It also removes those that we made for machines that are being deleted: one that
// hangs in its bootstrap finds no cluster with it any more. It looks when a machine of the group has joined or is being deleted, and now
// and then. A failure is logged and holds up nothing else.
func (t Tokens) DropTokens(ctx context.Context) {
	o, last := t.Facts, &t.Memory.Tokens
	if !o.Group.Initialized || !t.Inspects() {
		return
	}
	var useless []string
	for _, m := range t.Machines {
		if m.Status.NodeRef.IsDefined() || m.Facts.Deleting {
			useless = append(useless, m.Name)
		}
	}
	if slices.Equal(useless, last.Useless) && o.Now.Sub(last.At) < observe.SlowTime {
		return
	}
	last.Useless, last.At = useless, o.Now
	if err := t.dropTokens(ctx); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Bootstrap tokens that were used may be left, and are looked for again", "after", observe.SlowTime)
	}
}

func (t Tokens) dropTokens(ctx context.Context) error {
	used, err := t.usedTokens(ctx)
	if err != nil || len(used) == 0 {
		return err
	}
	observe.Aside(ctx, func() { err = t.Files().DropTokens(ctx, t.Cluster, used) })
	if err != nil {
		return fmt.Errorf("removing the bootstrap tokens of cluster %s that were used: %w", t.Cluster.Name, err)
	}
	return nil
}

// usedTokens are the IDs of the bootstrap tokens with which machines of the cluster have joined, and of those that we made for machines
// that are being deleted. The bootstrap provider keeps others.
func (t Tokens) usedTokens(ctx context.Context) (map[string]bool, error) {
	var machines clusterv1.MachineList
	var configs bootstrapv1.KubeadmConfigList
	of := []client.ListOption{client.InNamespace(t.Cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: t.Cluster.Name}}
	for _, list := range []client.ObjectList{&machines, &configs} {
		if err := t.Cache.List(ctx, list, of...); err != nil {
			return nil, fmt.Errorf("listing the machines of cluster %s and their bootstrap objects: %w", t.Cluster.Name, err)
		}
	}
	joined, going := map[string]bool{}, map[string]bool{}
	for i := range machines.Items {
		m := &machines.Items[i]
		joined[m.Spec.Bootstrap.ConfigRef.Name] = m.Status.NodeRef.IsDefined()
		going[m.Spec.Bootstrap.ConfigRef.Name] = !m.DeletionTimestamp.IsZero()
	}
	used := map[string]bool{}
	for i := range configs.Items {
		c := &configs.Items[i]
		if id, _, is := strings.Cut(c.Spec.JoinConfiguration.Discovery.BootstrapToken.Token, "."); is &&
			(joined[c.Name] || going[c.Name] && c.Annotations[controlplanev1.TokenMadeAnnotation] != "") {
			used[id] = true
		}
	}
	return used, nil
}
