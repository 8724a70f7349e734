package machines

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// Where a KubeadmConfigTemplate, and a KubeadmConfig, say which etcd a cluster has.
var (
	templateEtcd    = []string{"spec", "template", "spec", "clusterConfiguration", "etcd"}
	configEndpoints = []string{"spec", "clusterConfiguration", "etcd", "external", "endpoints"}
)

// readManagedEtcd adds what the EtcdCluster reports, if there is one, and has kubeadm's machines made with it. Of other
// bootstrap providers nothing is known: they find the certificates in the cluster's secrets, and the endpoints are their template's to say.
func readManagedEtcd(ctx context.Context, t *observe.Observer) error {
	ref := of(t.View).Spec.ManagedExternalEtcdRef
	if err := t.ReadManagedEtcd(ctx, ref); err != nil {
		return err
	}
	m := memoryOf(t.Memory)
	if !ref.IsDefined() || !usesKubeadm(of(t.View)) || m.template == nil {
		return nil
	}
	if own, said, _ := unstructured.NestedMap(m.template.Object, templateEtcd...); said && len(own) > 0 {
		t.Refuse(plan.Refusal{Reason: "EtcdManagementInvalid", Message: fmt.Sprintf(
			"KubeadmConfigTemplate %s must not have clusterConfiguration.etcd: spec.managedExternalEtcdRef names the cluster's etcd",
			m.template.GetName())})
		return nil
	}
	etcd := observe.ExternalEtcd(t.Memory.ManagedEtcd.Endpoints)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&etcd)
	if err != nil {
		return fmt.Errorf("writing the endpoints of etcd: %w", err)
	}
	m.made = m.template.DeepCopy()
	if err := unstructured.SetNestedMap(m.made.Object, fields, templateEtcd...); err != nil {
		return fmt.Errorf("writing the endpoints of etcd into what KubeadmConfigTemplate %s makes: %w", m.template.GetName(), err)
	}
	return nil
}

// etcdDrift reports whether a machine was made with other endpoints of the managed etcd. While they are not known, none is. A machine that
// was not made with an external etcd has its data elsewhere: it is not replaced for this.
func etcdDrift(t *observe.View, m *observe.Machine) []drift.Difference {
	config, _ := m.Bootstrap.(*unstructured.Unstructured)
	want := t.Memory.ManagedEtcd.Endpoints
	if config == nil || len(want) == 0 || !of(t).Spec.ManagedExternalEtcdRef.IsDefined() || !usesKubeadm(of(t)) {
		return nil
	}
	has, found, _ := unstructured.NestedStringSlice(config.Object, configEndpoints...)
	slices.Sort(has)
	if !found || slices.Equal(has, want) {
		return nil
	}
	return []drift.Difference{{Field: "spec.managedExternalEtcdRef, endpoints", Was: strings.Join(has, ","), Want: strings.Join(want, ",")}}
}
