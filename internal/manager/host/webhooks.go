package host

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapadmission "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/admission"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/quorate/quorate/internal/manager"
)

// addWebhooks serves upstream's defaulting, validation and conversion of its own kinds.
func addWebhooks(_ context.Context, p *parts) error {
	coreconversion.SetAPIVersionGetter(func(ctx context.Context, gk schema.GroupKind) (string, error) {
		return manager.APIVersion(ctx, p.mgr.GetClient(), gk)
	})
	type webhook interface {
		SetupWebhookWithManager(ctrl.Manager) error
	}
	for _, w := range []webhook{
		&coreadmission.Cluster{Client: p.mgr.GetClient(), ClusterCacheReader: p.clusters},
		&coreadmission.ClusterClass{Client: p.mgr.GetClient()},
		&coreadmission.Machine{}, &coreadmission.MachineSet{}, &coreadmission.MachineDeployment{},
		&coreadmission.MachineDrainRule{}, &coreadmission.MachineHealthCheck{}, &coreadmission.MachinePool{},
		&coreadmission.ClusterResourceSet{}, &coreadmission.ClusterResourceSetBinding{},
		&coreadmission.ExtensionConfig{},
		// Claims are read directly: one read a new address is cheaper than a cache of all claims.
		&coreadmission.IPAddress{Client: p.mgr.GetAPIReader()}, &coreadmission.IPAddressClaim{},
		&bootstrapadmission.KubeadmConfig{}, &bootstrapadmission.KubeadmConfigTemplate{},
	} {
		if err := w.SetupWebhookWithManager(p.mgr); err != nil {
			return fmt.Errorf("%T: %w", w, err)
		}
	}
	return nil
}
