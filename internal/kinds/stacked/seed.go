package stacked

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	kubeadmupstream "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstream"
	utilversion "sigs.k8s.io/cluster-api/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

//go:embed seed.sh
var seedScript string

// Paths on the machine.
const (
	seedFolder = "/etc/quorate/seed/"
	// dataCheck is kubeadm's check that etcd has no data yet. The restored data are there.
	dataCheck = "DirAvailable--var-lib-etcd"
)

// SeedData implements act.Seeder: what the bootstrap provider makes for a machine that initialises a cluster (its function
// handleClusterNotInitialized in v1.14.2), with a command before kubeadm that restores the snapshot.
func (k *Kind) SeedData(ctx context.Context, t *act.Writer, step plan.Step) ([]byte, string, error) {
	kcp := buildable(t.View)
	spec := desiredConfig(kcp, t.Cluster.Name, step.Machine, true).Spec
	if why := kubeadm.Unseedable(&spec); why != "" {
		return nil, "", errors.New(why)
	}
	certificates, err := certs.ForInit(ctx, t.APIReader, t.Cluster, &spec.ClusterConfiguration)
	if err != nil {
		return nil, "", err
	}
	input := &cloudinit.ControlPlaneInput{Certificates: certificates}
	if err := marshalKubeadm(input, t.Cluster, &spec, kcp.Spec.Version); err != nil {
		return nil, "", err
	}
	if err := fillBase(ctx, t, &input.BaseUserData, &spec); err != nil {
		return nil, "", err
	}
	if err := addSeed(ctx, t, &input.BaseUserData, step); err != nil {
		return nil, "", err
	}
	data, err := cloudinit.NewInitControlPlane(input)
	return data, string(bootstrapv1.CloudConfig), err
}

// marshalKubeadm adds kubeadm's configuration.
func marshalKubeadm(
	input *cloudinit.ControlPlaneInput, cluster *clusterv1.Cluster, spec *bootstrapv1.KubeadmConfigSpec, kubernetes string,
) error {
	version, err := utilversion.ParseTolerantImageTag(kubernetes)
	if err != nil {
		return fmt.Errorf("parsing version %q: %w", kubernetes, err)
	}
	input.KubernetesVersion = version
	if spec.ClusterConfiguration.ControlPlaneEndpoint == "" && cluster.Spec.ControlPlaneEndpoint.IsValid() {
		spec.ClusterConfiguration.ControlPlaneEndpoint = cluster.Spec.ControlPlaneEndpoint.String()
	}
	more := &kubeadmupstream.AdditionalData{
		ClusterName: ptr.To(cluster.Name), KubernetesVersion: ptr.To(kubernetes),
		ControlPlaneComponentHealthCheckSeconds: spec.InitConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds,
	}
	network := cluster.Spec.ClusterNetwork
	if network.ServiceDomain != "" {
		more.DNSDomain = ptr.To(network.ServiceDomain)
	}
	if len(network.Services.CIDRBlocks) > 0 {
		more.ServiceSubnet = ptr.To(network.Services.String())
	}
	if len(network.Pods.CIDRBlocks) > 0 {
		more.PodSubnet = ptr.To(network.Pods.String())
	}
	node := &spec.InitConfiguration.NodeRegistration
	node.IgnorePreflightErrors = append(node.IgnorePreflightErrors, dataCheck)
	input.ClusterConfiguration, err = kubeadmtypes.MarshalClusterConfigurationForVersion(&spec.ClusterConfiguration, version, more)
	if err != nil {
		return fmt.Errorf("writing kubeadm's ClusterConfiguration: %w", err)
	}
	if input.InitConfiguration, err = kubeadmtypes.MarshalInitConfigurationForVersion(&spec.InitConfiguration, version); err != nil {
		return fmt.Errorf("writing kubeadm's InitConfiguration: %w", err)
	}
	return nil
}

// fillBase adds what the user's configuration has beside kubeadm's. Contents of files and passwords are read from their secrets.
func fillBase(ctx context.Context, t *act.Writer, base *cloudinit.BaseUserData, spec *bootstrapv1.KubeadmConfigSpec) error {
	for _, f := range spec.Files {
		if from := f.ContentFrom.Secret; from.Name != "" {
			content, err := secretKey(ctx, t, from.Name, from.Key)
			if err != nil {
				return fmt.Errorf("reading the content of file %s: %w", f.Path, err)
			}
			f.ContentFrom, f.Content = bootstrapv1.FileSource{}, content
		}
		base.AdditionalFiles = append(base.AdditionalFiles, f)
	}
	for _, u := range spec.Users {
		if from := u.PasswdFrom.Secret; from.Name != "" {
			password, err := secretKey(ctx, t, from.Name, from.Key)
			if err != nil {
				return fmt.Errorf("reading the password of user %s: %w", u.Name, err)
			}
			u.PasswdFrom, u.Passwd = bootstrapv1.PasswdSource{}, password
		}
		base.Users = append(base.Users, u)
	}
	if spec.NTP.IsDefined() {
		base.NTP = &spec.NTP
	}
	if spec.DiskSetup.IsDefined() {
		base.DiskSetup = &spec.DiskSetup
	}
	if spec.Verbosity != nil {
		base.KubeadmVerbosity = fmt.Sprintf("--v %d", *spec.Verbosity)
	}
	base.BootCommands, base.Mounts = spec.BootCommands, spec.Mounts
	base.PreKubeadmCommands, base.PostKubeadmCommands = spec.PreKubeadmCommands, spec.PostKubeadmCommands
	return nil
}

func secretKey(ctx context.Context, t *act.Writer, name, key string) (string, error) {
	s := &corev1.Secret{}
	if err := t.APIReader.Get(ctx, client.ObjectKey{Namespace: t.Object.GetNamespace(), Name: name}, s); err != nil {
		return "", err
	}
	content, is := s.Data[key]
	if !is {
		return "", fmt.Errorf("secret %s has no key %q", name, key)
	}
	return string(content), nil
}

// addSeed adds the command that fetches and restores the snapshot, and what it needs for that.
func addSeed(ctx context.Context, t *act.Writer, base *cloudinit.BaseUserData, step plan.Step) error {
	seed := observe.SeedOf(t.Recovery)
	if seed == nil {
		return fmt.Errorf("EtcdRecovery %s has no seed", t.Recovery.Name)
	}
	from, err := observe.SeedSourceOf(ctx, t.APIReader, t.Recovery)
	if err != nil {
		return err
	}
	script := strings.NewReplacer("@HOST@", from.Host, "@ADDRESS@", from.Address, "@PATH@", from.Path, "@SHA256@", seed.SHA256,
		"@TOKEN@", step.Machine+"-"+string(t.Recovery.UID)).Replace(seedScript)
	file := func(name, mode, content string) bootstrapv1.File {
		return bootstrapv1.File{Path: seedFolder + name, Owner: "root:root", Permissions: mode, Content: content}
	}
	base.AdditionalFiles = append(base.AdditionalFiles, file("restore.sh", "0700", script), file("ca.crt", "0600", from.Certificate),
		file("authorization", "0600", "Authorization: Bearer "+from.TokenOf(step.Machine)))
	base.PreKubeadmCommands = append(base.PreKubeadmCommands, "sh "+seedFolder+"restore.sh")
	return nil
}
