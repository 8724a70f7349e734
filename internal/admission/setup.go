package admission

import (
	"errors"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/conversion"
)

// SetupWithManager serves the defaulting, validation and conversion of all of Quorate's own kinds.
func SetupWithManager(mgr ctrl.Manager) error {
	server := mgr.GetWebhookServer()
	server.Register(recordApprovalsPath, &webhook.Admission{Handler: &approvalRecorder{client: mgr.GetClient(), now: time.Now}})
	server.Register(checkApprovalsPath, &webhook.Admission{Handler: &approvalJudge{client: mgr.GetClient()}})
	return errors.Join(
		ctrl.NewWebhookManagedBy(mgr, &controlplanev1.KubeadmControlPlane{}).
			WithDefaulter(&KubeadmControlPlane{}).
			WithValidator(&KubeadmControlPlane{Reader: mgr.GetAPIReader()}).
			WithConverter(conversion.ControlPlane).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &controlplanev1.KubeadmControlPlaneTemplate{}).
			WithValidator(&KubeadmControlPlaneTemplate{}).
			WithConverter(conversion.Template).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &controlplanev1alpha1.ControlPlane{}).
			WithValidator(&ControlPlane{Reader: mgr.GetAPIReader()}).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &controlplanev1alpha1.ControlPlaneTemplate{}).
			WithValidator(&ControlPlaneTemplate{}).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &bootstrapv1alpha1.EtcdadmConfig{}).
			WithValidator(&EtcdadmConfig{}).
			WithConverter(conversion.EtcdadmConfig).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &bootstrapv1alpha1.EtcdadmConfigTemplate{}).
			WithValidator(&EtcdadmConfigTemplate{}).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &etcdclusterv1alpha1.EtcdCluster{}).
			WithValidator(&EtcdCluster{Reader: mgr.GetAPIReader()}).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &etcdclusterv1alpha1.EtcdClusterTemplate{}).
			WithValidator(&EtcdClusterTemplate{}).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &upgradev1.NodeUpgrade{}).
			WithValidator(nodeUpgrades(mgr.GetAPIReader())).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &upgradev1.ControlPlaneUpgrade{}).
			WithValidator(controlPlaneUpgrades(mgr.GetAPIReader())).
			Complete(),
		ctrl.NewWebhookManagedBy(mgr, &upgradev1.MachineDeploymentUpgrade{}).
			WithValidator(machineDeploymentUpgrades(mgr.GetAPIReader())).
			Complete(),
	)
}
