// Package kinds is the scheme of one process: every kind that Quorate, Cluster API's core and the kubeadm bootstrap provider use.
// It knows Go types, and nothing of who works on them.
package kinds

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1alpha1 "sigs.k8s.io/cluster-api/api/ipam/v1alpha1"
	ipamv1beta1 "sigs.k8s.io/cluster-api/api/ipam/v1beta1"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1alpha1 "sigs.k8s.io/cluster-api/api/runtime/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	etcdadmv1beta1 "github.com/quorate/quorate/api/bootstrap/v1beta1"
	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1beta1 "github.com/quorate/quorate/api/controlplane/v1beta1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	etcdclusterv1beta1 "github.com/quorate/quorate/api/etcdcluster/v1beta1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// Scheme returns a new scheme with every kind that Quorate, Cluster API's core and the kubeadm bootstrap provider
// use. Under upstream's name KubeadmControlPlane stands Quorate's type.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		clusterv1.AddToScheme, clusterv1beta1.AddToScheme,
		addonsv1.AddToScheme, addonsv1beta1.AddToScheme,
		runtimev1.AddToScheme, runtimev1alpha1.AddToScheme,
		ipamv1.AddToScheme, ipamv1beta1.AddToScheme, ipamv1alpha1.AddToScheme,
		bootstrapv1.AddToScheme, bootstrapv1beta1.AddToScheme,
		controlplanev1.AddToScheme, controlplanev1beta1.AddToScheme, controlplanev1alpha1.AddToScheme, infrav1.AddToScheme,
		bootstrapv1alpha1.AddToScheme, etcdadmv1beta1.AddToScheme, etcdclusterv1alpha1.AddToScheme, etcdclusterv1beta1.AddToScheme,
		upgradev1.AddToScheme,
		backupv1alpha1.AddToScheme,
	} {
		// It fails only when two Go types claim one kind: a mistake in this list.
		utilruntime.Must(add(s))
	}
	return s
}
