package facts

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
)

// The kinds of control planes that are known here.
const (
	kubeadmControlPlane = "KubeadmControlPlane"
	controlPlane        = "ControlPlane"
)

// ControlPlane is what a control plane of any kind says, in one shape.
type ControlPlane struct {
	metav1.ObjectMeta
	Kind string
	// Replicas are wanted.
	Replicas int
	Version  string
	// Initialized: its cluster once answered.
	Initialized        bool
	ObservedGeneration int64
	Conditions         []metav1.Condition
	Plan               controlplanev1.PlanStatus
	// CertificateExpiry is zero where the kind does not tell it.
	CertificateExpiry controlplanev1.CertificateExpiryStatus
	// Etcd is who manages etcd on the machines. Empty: Quorate, if the cluster has an etcd authority.
	Etcd controlplanev1alpha1.EtcdManagement
	// Kubeadm: each machine runs all of kubeadm's static pods. Otherwise it may run its components in any way.
	Kubeadm bool
}

// kinds read a control plane, each one of its kind.
var kinds = map[string]func(context.Context, client.Reader, client.ObjectKey) (*ControlPlane, error){
	kubeadmControlPlane: readAs(ofKubeadm),
	controlPlane:        readAs(ofMachines),
}

func readAs[T any, P interface {
	*T
	client.Object
}](view func(P) *ControlPlane) func(context.Context, client.Reader, client.ObjectKey) (*ControlPlane, error) {
	return func(ctx context.Context, c client.Reader, key client.ObjectKey) (*ControlPlane, error) {
		o := P(new(T))
		if err := c.Get(ctx, key, o); err != nil {
			return nil, err
		}
		return view(o), nil
	}
}

func ofKubeadm(kcp *controlplanev1.KubeadmControlPlane) *ControlPlane {
	etcd := controlplanev1alpha1.EtcdManagementMembers
	if kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined() {
		etcd = controlplanev1alpha1.EtcdManagementNone
	}
	return &ControlPlane{
		ObjectMeta:         kcp.ObjectMeta,
		Kind:               kubeadmControlPlane,
		Replicas:           int(ptr.Deref(kcp.Spec.Replicas, 1)),
		Version:            kcp.Spec.Version,
		Initialized:        ptr.Deref(kcp.Status.Initialization.ControlPlaneInitialized, false),
		ObservedGeneration: kcp.Status.ObservedGeneration,
		Conditions:         kcp.Status.Conditions,
		Plan:               kcp.Status.Plan,
		CertificateExpiry:  kcp.Status.CertificateExpiry,
		Etcd:               etcd,
		Kubeadm:            true,
	}
}

func ofMachines(cp *controlplanev1alpha1.ControlPlane) *ControlPlane {
	return &ControlPlane{
		ObjectMeta:         cp.ObjectMeta,
		Kind:               controlPlane,
		Replicas:           int(ptr.Deref(cp.Spec.Replicas, 1)),
		Version:            cp.Spec.Version,
		Initialized:        ptr.Deref(cp.Status.Initialization.ControlPlaneInitialized, false),
		ObservedGeneration: cp.Status.ObservedGeneration,
		Conditions:         cp.Status.Conditions,
		Plan:               cp.Status.Plan,
		Etcd:               cp.Spec.Etcd.Management,
	}
}

// readControlPlane reads the cluster's control plane, if it is of a kind that is known here.
func (o *Objects) readControlPlane(ctx context.Context, c client.Reader) error {
	ref := o.Cluster.Spec.ControlPlaneRef
	read, known := kinds[ref.Kind]
	if !known || ref.APIGroup != controlplanev1.GroupVersion.Group {
		return nil
	}
	cp, err := read(ctx, c, client.ObjectKey{Namespace: o.Cluster.Namespace, Name: ref.Name})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	o.ControlPlane = cp
	return nil
}

// components are the static pods of a machine with this Node. Where the machines need not run any, those count that there are.
func (cp *ControlPlane) components(node string, pods []corev1.Pod) []plan.Component {
	names := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	if cp.Etcd != controlplanev1alpha1.EtcdManagementNone {
		names = append([]string{"etcd"}, names...)
	}
	all := machine.Components(node, pods, names)
	if cp.Kubeadm {
		return all
	}
	running := map[string]bool{}
	for i := range pods {
		if p := &pods[i]; p.Namespace == metav1.NamespaceSystem && p.Spec.NodeName == node {
			running[p.Name] = true
		}
	}
	var out []plan.Component
	for _, component := range all {
		if running[component.Name+"-"+node] {
			out = append(out, component)
		}
	}
	return out
}

// managesEtcd reports whether etcd's members on the machines are Quorate's to keep, for all that the control plane says.
func (cp *ControlPlane) managesEtcd() bool {
	return cp.Etcd == controlplanev1alpha1.EtcdManagementMembers || cp.Etcd == ""
}
