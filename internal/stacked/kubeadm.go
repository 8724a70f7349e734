package stacked

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	kubeadmfiles "github.com/quorate/quorate/internal/kubeadm"
)

// Kubeadm tells how far kubeadm is with the first machine of a cluster.
type Kubeadm interface {
	// Initialised says what is not written yet of all that others need to join; empty: all is. It is
	// asked only while the cluster's API server answers.
	Initialised(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) (missing string, err error)
	// Behind says in what kubeadm's files in the cluster are not as wanted.
	Behind(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) (KubeadmBehind, error)
	// WritePermissions, WriteConfig and UpdateAddons bring them up to date.
	WritePermissions(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) error
	WriteConfig(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) error
	UpdateAddons(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) error
}

// KubeadmBehind says in what kubeadm's files in a cluster are not as wanted. The zero value: in nothing.
type KubeadmBehind struct {
	// Permissions, Config and Addons are what can be brought up to date.
	Permissions, Config, Addons string
	// ConfigUnusable and AddonsRefused are what only a person can mend.
	ConfigUnusable, AddonsRefused string
}

// tokenPhase is the phase of kubeadm init that lets others join.
const tokenPhase = "bootstrap-token"

// kubeadm asks the cluster itself, as the connection to it does; before there is one, as the secret says.
type kubeadm struct {
	secrets  client.Reader
	workload group.Workloads
}

// kubeadm returns who is asked about a turn's cluster.
func (k *Kind) kubeadm(t *group.Turn) Kubeadm {
	if k.Kubeadm != nil {
		return k.Kubeadm
	}
	return kubeadm{secrets: t.APIReader, workload: t.Workload}
}

// Initialised implements Kubeadm. kubeadm init writes the ConfigMap kubeadm-config
// once the first control plane is up. Later, after all roles for joining
// machines, it writes cluster-info, which they read first; a user may leave that phase out.
func (k kubeadm) Initialised(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) (string, error) {
	set, err := k.client(ctx, cluster)
	if err != nil {
		return "", err
	}
	return initialised(ctx, set, !skips(kcp, tokenPhase))
}

// Behind implements Kubeadm.
func (k kubeadm) Behind(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) (KubeadmBehind, error) {
	set, err := k.client(ctx, cluster)
	if err != nil {
		return KubeadmBehind{}, err
	}
	return behind(ctx, set, wantedOf(kcp))
}

// behind asks a cluster.
func behind(ctx context.Context, set kubernetes.Interface, want kubeadmfiles.Wanted) (KubeadmBehind, error) {
	var b KubeadmBehind
	var err error
	if b.Permissions, err = kubeadmfiles.PermissionsBehind(ctx, set, want); err != nil {
		return KubeadmBehind{}, err
	}
	if b.Config, err = kubeadmfiles.ConfigBehind(ctx, set, want); err != nil {
		if b.ConfigUnusable = refusal(err); b.ConfigUnusable == "" {
			return KubeadmBehind{}, err
		}
	}
	if b.Addons, err = kubeadmfiles.AddonsBehind(ctx, set, want); err != nil {
		if b.AddonsRefused = refusal(err); b.AddonsRefused == "" {
			return KubeadmBehind{}, err
		}
	}
	return b, nil
}

// refusal returns what only a person can mend of a look that failed; empty: the look itself did.
func refusal(err error) string {
	var refused *kubeadmfiles.Refusal
	if errors.As(err, &refused) {
		return refused.Error()
	}
	return ""
}

// WritePermissions implements Kubeadm.
func (k kubeadm) WritePermissions(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) error {
	set, err := k.client(ctx, cluster)
	if err != nil {
		return err
	}
	return kubeadmfiles.WritePermissions(ctx, set, wantedOf(kcp))
}

// WriteConfig implements Kubeadm.
func (k kubeadm) WriteConfig(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) error {
	set, err := k.client(ctx, cluster)
	if err != nil {
		return err
	}
	return kubeadmfiles.WriteConfig(ctx, set, wantedOf(kcp))
}

// UpdateAddons implements Kubeadm.
func (k kubeadm) UpdateAddons(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, cluster *clusterv1.Cluster) error {
	set, err := k.client(ctx, cluster)
	if err != nil {
		return err
	}
	return kubeadmfiles.UpdateAddons(ctx, set, wantedOf(kcp))
}

func (k kubeadm) client(ctx context.Context, cluster *clusterv1.Cluster) (kubernetes.Interface, error) {
	config := k.workload.Config(client.ObjectKeyFromObject(cluster))
	if config == nil {
		var err error
		if config, err = group.WorkloadConfig(ctx, k.secrets, cluster); err != nil {
			return nil, err
		}
	}
	config = rest.CopyConfig(config)
	config.Timeout = 2 * time.Second
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for cluster %s: %w", cluster.Name, err)
	}
	return set, nil
}

// wantedOf is what kubeadm's files in the cluster shall say.
func wantedOf(kcp *controlplanev1.KubeadmControlPlane) kubeadmfiles.Wanted {
	_, skipProxy := kcp.Annotations[upstream.SkipKubeProxyAnnotation]
	_, skipDNS := kcp.Annotations[upstream.SkipCoreDNSAnnotation]
	return kubeadmfiles.Wanted{
		Version:       kcp.Spec.Version,
		Configuration: withGates(kcp).Spec.KubeadmConfigSpec.ClusterConfiguration,
		SkipProxy:     skipProxy,
		SkipDNS:       skipDNS,
	}
}

// initialised looks for what kubeadm init writes last, and says what of it is missing.
func initialised(ctx context.Context, set kubernetes.Interface, tokens bool) (string, error) {
	wanted := [][2]string{{metav1.NamespaceSystem, "kubeadm-config"}}
	if tokens {
		wanted = append(wanted, [2]string{metav1.NamespacePublic, "cluster-info"})
	}
	for _, w := range wanted {
		_, err := set.CoreV1().ConfigMaps(w[0]).Get(ctx, w[1], metav1.GetOptions{})
		if apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
			return "the endpoint answers 404 where an API server would know its kinds: it may be another server's", nil
		}
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("kubeadm init has not written the ConfigMap %s in %s yet", w[1], w[0]), nil
		}
		if err != nil {
			return "", fmt.Errorf("reading ConfigMap %s/%s: %w", w[0], w[1], err)
		}
	}
	return "", nil
}

// skips reports whether the user lets kubeadm init leave out a phase.
func skips(kcp *controlplanev1.KubeadmControlPlane, phase string) bool {
	return slices.Contains(kcp.Spec.KubeadmConfigSpec.InitConfiguration.SkipPhases, phase)
}
