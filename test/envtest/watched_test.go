package envtest

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/releases"
)

// TestWatchedTemplate: the owner of a machine template comes back because its loss is noticed, and not with the next look: a control plane
// that waits for its infrastructure is looked at every 30 s, so that ten of those take five minutes.
func TestWatchedTemplate(t *testing.T) {
	needAssets(t)
	const times = 10
	_, cfg := startPlanServer(t)
	c, err := client.New(cfg, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := releases.LabelContracts(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	template := makeWaiting(t, c)
	runManager(t, cfg)
	began := time.Now()
	for n := range times + 1 {
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, times*observe.SoonAtRest/2-time.Since(began), true,
			func(ctx context.Context) (bool, error) {
				err := c.Get(ctx, client.ObjectKeyFromObject(template), template)
				return len(template.OwnerReferences) > 0, err
			})
		if err != nil {
			t.Fatalf("the owner of the template came back %d times: %v", n-1, err)
		}
		before := template.DeepCopy()
		template.OwnerReferences = nil
		if err := c.Patch(t.Context(), template, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
}

// makeWaiting makes a control plane whose infrastructure is not there yet, and returns its machine template.
func makeWaiting(t *testing.T, c client.Client) *infrav1.LocalMachineTemplate {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "default", Name: "waiting"}
	cluster := &clusterv1.Cluster{ObjectMeta: meta}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
		Kind: "KubeadmControlPlane", Name: meta.Name}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalCluster",
		Name: meta.Name}
	template := &infrav1.LocalMachineTemplate{ObjectMeta: meta}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: meta}
	kcp.Spec.Version, kcp.Spec.Replicas = "v1.36.3", ptr.To(int32(3))
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachineTemplate", Name: meta.Name,
	}
	for _, o := range []client.Object{cluster, template, kcp} {
		if o == kcp {
			kcp.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: meta.Name,
				UID: cluster.UID}}
		}
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return template
}

// runManager runs Quorate's controllers until the test ends.
func runManager(t *testing.T, cfg *rest.Config) {
	t.Helper()
	mgr, err := manager.New(cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}, manager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Setup(t.Context(), mgr, manager.Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
