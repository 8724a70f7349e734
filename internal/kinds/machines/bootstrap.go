package machines

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// memory is what is kept of one control plane between turns.
type memory struct {
	// template is that of the bootstrap objects; nil: there is none, or it was not read.
	template *unstructured.Unstructured
	// made is the template as machines are made from it: with the managed etcd.
	made *unstructured.Unstructured
	// kubeconfig, authority and etcd report which secrets of a cluster there are whose authorities Quorate does not keep.
	kubeconfig, authority, etcd bool
	read                        time.Time
	// said is what the operator of etcd said last.
	said operatorSays
}

// memoryOf returns what is kept of a turn's control plane.
func memoryOf(m *observe.Memory) *memory {
	if m.Own == nil {
		m.Own = &memory{}
	}
	return m.Own.(*memory)
}

// usesKubeadm reports whether the kubeadm bootstrap provider makes the bootstrap data. It reads the cluster's authorities from
// secrets, which the control plane makes and controls: the provider would make them the first machine's own, and they would go with it.
func usesKubeadm(cp *v1alpha1.ControlPlane) bool {
	ref := cp.Spec.MachineTemplate.Spec.Bootstrap.ConfigRef
	return ref.Kind == "KubeadmConfigTemplate" && ref.APIGroup == bootstrapv1.GroupVersion.Group
}

// observeFiles adds in what kubeadm's files in the cluster are behind, where kubeadm makes the machines.
func observeFiles(ctx context.Context, t *observe.Observer) error {
	if !usesKubeadm(of(t.View)) || t.Spec.Version == "" || memoryOf(t.Memory).template == nil {
		return nil
	}
	config, err := kubeadm.TemplateConfiguration(memoryOf(t.Memory).made)
	if err != nil {
		return err
	}
	t.ObserveExternalEtcd(ctx, config.ClusterConfiguration.Etcd.External.Endpoints)
	return t.ObserveKubeadm(ctx, filesWanted(t.View, config))
}

// filesWanted is what kubeadm's files in the cluster must say.
func filesWanted(t *observe.View, config *bootstrapv1.KubeadmConfigSpec) kubeadm.Wanted {
	annotations := t.Object.GetAnnotations()
	_, skipProxy := annotations[upstream.SkipKubeProxyAnnotation]
	_, skipDNS := annotations[upstream.SkipCoreDNSAnnotation]
	proxyOfOthers, dnsOfOthers := kubeadm.AddonsOfOthers(config)
	return kubeadm.Wanted{
		Version: t.BuildVersion(), Configuration: config.ClusterConfiguration,
		SkipProxy: skipProxy, SkipDNS: skipDNS, ProxyOfOthers: proxyOfOthers, DNSOfOthers: dnsOfOthers,
	}
}

// Read implements group.Kind: the bootstrap template, the authorities and the kubeconfig.
func (*Kind) Read(ctx context.Context, t *observe.Observer) error {
	m := memoryOf(t.Memory)
	found, missing := t.FindTemplate(ctx, machine.BootstrapTemplateRef, "spec.machineTemplate.spec.bootstrap.configRef",
		of(t.View).Spec.MachineTemplate.Spec.Bootstrap.ConfigRef)
	if missing != "" {
		t.Facts.Cluster.Template = missing
	}
	m.template, m.made = found, found
	if err := readManagedEtcd(ctx, t); err != nil {
		return err
	}
	if !usesKubeadm(of(t.View)) {
		return readOthers(ctx, t)
	}
	config, err := kubeadm.TemplateConfiguration(m.made)
	if err != nil {
		return err
	}
	t.Facts.Policy.EtcdCall = kubeadm.EtcdCall(config)
	if config.ClusterConfiguration.Etcd.External.IsDefined() && t.Facts.Etcd.Ours() {
		t.Refuse(plan.Refusal{Reason: "EtcdManagementInvalid", Message: "etcd is external in KubeadmConfigTemplate " + m.template.GetName() +
			": spec.etcd.management must be None, and it is Members"})
	}
	if refused := kubeadm.SharedAddress(config); refused != "" && !config.ClusterConfiguration.Etcd.External.IsDefined() {
		t.Facts.Cluster.Template = fmt.Sprintf("KubeadmConfigTemplate %s: invalid spec.template.spec.%s %q: %s",
			m.template.GetName(), kubeadm.JoinAddressField, kubeadm.JoinAddress(config), refused)
	}
	return t.ReadSecrets(ctx, config)
}

// readOthers looks for the secrets of a cluster whose bootstrap provider keeps its authorities itself.
func readOthers(ctx context.Context, t *observe.Observer) error {
	m := memoryOf(t.Memory)
	if t.Facts.Now.Sub(m.read) > t.Slow() || !m.kubeconfig && t.Facts.Now.Sub(m.read) > observe.SlowMissing {
		for purpose, found := range map[secret.Purpose]*bool{secret.Kubeconfig: &m.kubeconfig, secret.ClusterCA: &m.authority,
			secret.EtcdCA: &m.etcd} {
			there, err := exists(ctx, t, purpose)
			if err != nil {
				return err
			}
			*found = there
		}
		m.read = t.Facts.Now
	}
	// Without an authority only others can make the kubeconfig.
	others := m.kubeconfig || !m.authority
	t.NoteOthersKubeconfig(others)
	if of(t.View).Spec.Etcd.Management == "" && !of(t.View).Spec.ManagedExternalEtcdRef.IsDefined() && m.etcd {
		t.Facts.Etcd.Owner = plan.EtcdOurs
	}
	return nil
}

// exists reports whether a secret of the cluster is there.
func exists(ctx context.Context, t *observe.Observer, purpose secret.Purpose) (bool, error) {
	name := secret.Name(t.Cluster.Name, purpose)
	err := t.APIReader.Get(ctx, client.ObjectKey{Namespace: t.Object.GetNamespace(), Name: name}, &corev1.Secret{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("looking for secret %s: %w", name, err)
	}
	return err == nil, nil
}

// ReadBootstrap implements group.Kind.
func (*Kind) ReadBootstrap(ctx context.Context, t *observe.Observer, m *observe.Machine) error {
	found, err := t.FindPart(ctx, machine.BootstrapRef, "spec.bootstrap.configRef of Machine "+m.Name, m.Spec.Bootstrap.ConfigRef)
	if found != nil {
		m.Bootstrap = found
	}
	return err
}

// Created implements group.Kind.
func (*Kind) Created(ctx context.Context, t *observe.Observer) ([]client.Object, error) {
	template := memoryOf(t.Memory).template
	if template == nil {
		return nil, nil
	}
	return t.Made(ctx, observe.MadeBy(template))
}

// Bootstrap implements group.Kind. Who initialises the cluster is decided by the bootstrap provider.
func (k *Kind) Bootstrap(_ context.Context, t *observe.View, step plan.Step) (client.Object, clusterv1.Bootstrap, error) {
	given := of(t).Spec.MachineTemplate.Spec.Bootstrap
	if !given.ConfigRef.IsDefined() {
		// A machine without bootstrap data joins by itself.
		return nil, clusterv1.Bootstrap{DataSecretName: ptr.To(ptr.Deref(given.DataSecretName, ""))}, nil
	}
	template := memoryOf(t.Memory).made
	if template == nil {
		return nil, clusterv1.Bootstrap{}, fmt.Errorf("making the bootstrap of Machine %s: there is no %s %s", step.Machine, given.ConfigRef.Kind,
			given.ConfigRef.Name)
	}
	newborn := &observe.Machine{Machine: &clusterv1.Machine{}, Bootstrap: &unstructured.Unstructured{Object: map[string]any{}}}
	made, err := act.Clone(t, template, step.Machine, k.InPlace(t, newborn).Config)
	if err != nil {
		return nil, clusterv1.Bootstrap{}, err
	}
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: made.GroupVersionKind().Group, Kind: made.GetKind(), Name: step.Machine}
	return made, clusterv1.Bootstrap{ConfigRef: ref}, nil
}

// Unadoptable implements group.Kind. Whatever a machine was made of, it may be adopted.
func (*Kind) Unadoptable(_ context.Context, t *observe.Observer, m *clusterv1.Machine) (string, error) {
	if !m.DeletionTimestamp.IsZero() || t.Spec.Version == "" {
		return "", nil
	}
	return machine.TooFar(t.Spec.Version, m.Spec.Version), nil
}

// Adopt implements group.Kind: a machine's bootstrap object gets the group's labels, and the cluster's secrets that a
// KubeadmConfig controls become the control plane's own.
func (*Kind) Adopt(ctx context.Context, t *act.Writer, m *clusterv1.Machine) error {
	ref := m.Spec.Bootstrap.ConfigRef
	found, err := t.FindPart(ctx, machine.BootstrapRef, "spec.bootstrap.configRef of Machine "+m.Name, ref)
	if err != nil || found == nil {
		return err
	}
	if ref.Kind == "KubeadmConfig" && ref.APIGroup == bootstrapv1.GroupVersion.Group {
		config := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Namespace: found.GetNamespace(), Name: found.GetName(),
			UID: found.GetUID()}}
		if err := t.TakeOver(ctx, config); err != nil {
			return err
		}
	}
	after := found.DeepCopy()
	after.SetLabels(t.Identified(found.GetLabels()))
	if maps.Equal(after.GetLabels(), found.GetLabels()) {
		return nil
	}
	if err := t.Merge(ctx, found, after); err != nil {
		return fmt.Errorf("adopting %s %s: %w", ref.Kind, ref.Name, err)
	}
	return nil
}
