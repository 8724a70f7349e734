package admission

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/quorate/quorate/internal/cluster/kubeadm"
)

// unrecoverable returns why the EtcdRecovery of a request can recover nothing; empty: it may. A Cluster or a control plane that is not
// there may come later, or not be in the cache yet: then the controller of recoveries says so.
func unrecoverable(ctx context.Context, c client.Reader, req admission.Request) (string, error) {
	var r struct {
		Spec struct {
			ClusterName string `json:"clusterName"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(req.Object.Raw, &r); err != nil {
		return "", fmt.Errorf("reading EtcdRecovery %s: %w", req.Name, err)
	}
	cluster := &clusterv1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: r.Spec.ClusterName}, cluster)
	why := ""
	if err == nil {
		_, why, err = kubeadm.RecoveryTarget(ctx, c, cluster)
	}
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading Cluster %s and its control plane: %w", r.Spec.ClusterName, err)
	case why != "":
		return fmt.Sprintf("invalid spec.clusterName %q: %s", r.Spec.ClusterName, why), nil
	}
	return "", nil
}
