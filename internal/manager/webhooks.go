package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	controlplaneconversion "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/admission"
)

// addWebhooks serves the defaulting, validation and conversion of Quorate's own kinds.
func addWebhooks(_ context.Context, p *parts) error {
	if !p.opts.Webhooks {
		return nil
	}
	// Who installed the kind KubeadmControlPlaneTemplate means to use it: upstream refuses it without the gate.
	if err := feature.MutableGates.SetFromMap(map[string]bool{string(feature.ClusterTopology): true}); err != nil {
		return fmt.Errorf("choosing Cluster API's features: %w", err)
	}
	controlplaneconversion.SetAPIVersionGetter(func(ctx context.Context, gk schema.GroupKind) (string, error) {
		return APIVersion(ctx, p.serving.GetClient(), gk)
	})
	if err := admission.SetupWithManager(p.serving); err != nil {
		return fmt.Errorf("serving Quorate's own kinds: %w", err)
	}
	return nil
}

// contracts are the versions of Cluster API's contract that upstream's core understands, the newest first.
var contracts = []string{"v1beta2", "v1beta1"}

// APIVersion returns group/version under which a kind is to be referred to: the newest version that its CRD's labels
// name for the newest contract they name.
func APIVersion(ctx context.Context, c client.Reader, gk schema.GroupKind) (string, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	name := contract.CalculateCRDName(gk.Group, gk.Kind)
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return "", fmt.Errorf("reading the CRD of %s: %w", gk, err)
	}
	for _, contractVersion := range contracts {
		named := crd.Labels[clusterv1.GroupVersion.Group+"/"+contractVersion]
		if named == "" {
			continue
		}
		newest := slices.MaxFunc(strings.Split(named, "_"), version.CompareKubeAwareVersionStrings)
		return gk.Group + "/" + newest, nil
	}
	return "", fmt.Errorf("the CRD %s has no label cluster.x-k8s.io/%s that names the versions for that contract", name, contracts[0])
}
