//go:build e2e

package peer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	ctrl "sigs.k8s.io/controller-runtime"
)

// What the specs share, set before the first.
var (
	ctx       = ctrl.SetupSignalHandler()
	config    *clusterctl.E2EConfig
	plane     framework.ClusterProxy
	configAt  string
	artifacts string
)

// variable returns a setting of the run, which `make e2e RUN=peer` gives.
func variable(name string) string {
	value := os.Getenv(name)
	gomega.Expect(value).NotTo(gomega.BeEmpty(), "%s is not set: run make e2e RUN=peer", name)
	return value
}

// TestPeer runs the specs. QUORATE_PEER_KUBECONFIG is of the management plane, QUORATE_PEER_ARTIFACTS a folder for what they write.
func TestPeer(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	ctrl.SetLogger(klog.Background())
	ginkgo.RunSpecs(t, "Cluster API's e2e specs on Quorate")
}

var _ = ginkgo.BeforeSuite(func() {
	artifacts = variable("QUORATE_PEER_ARTIFACTS")
	var err error
	configAt, err = WriteRepository(filepath.Join(artifacts, "repository"), "../../examples")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	plane = framework.NewClusterProxy("quorate", variable("QUORATE_PEER_KUBECONFIG"), scheme)
	config = &clusterctl.E2EConfig{
		Variables: map[string]string{
			e2e.KubernetesVersion:            variable("QUORATE_PEER_VERSION"),
			e2e.KubernetesVersionUpgradeFrom: variable("QUORATE_PEER_FROM"),
			e2e.KubernetesVersionUpgradeTo:   variable("QUORATE_PEER_VERSION"),
		},
		Intervals: intervals,
	}
	gomega.Expect(serveClusterInfo(ctx)).To(gomega.Succeed())
})

// intervals are how long the specs wait, and how often they look: upstream's (test/e2e/config/docker.yaml), but that they look more often.
var intervals = map[string][]string{
	"default/wait-controllers":                     {"4m", "1s"},
	"default/wait-cluster":                         {"5m", "1s"},
	"default/wait-control-plane":                   {"10m", "1s"},
	"default/wait-machine-pool-nodes":              {"5m", "1s"},
	"default/wait-worker-nodes":                    {"5m", "1s"},
	"default/wait-delete-cluster":                  {"3m", "1s"},
	"default/wait-machine-upgrade":                 {"20m", "1s"},
	"default/wait-control-plane-upgrade":           {"15m", "1s"},
	"default/wait-machine-deployment-upgrade":      {"10m", "1s"},
	"default/wait-nodes-ready":                     {"10m", "1s"},
	"default/wait-machine-remediation":             {"5m", "1s"},
	"default/wait-resource-versions-become-stable": {"2m", "15s"},
	"default/wait-resource-versions-remain-stable": {"2m", "5s"},
	"node-drain/wait-deployment-available":         {"3m", "1s"},
	"node-drain/wait-control-plane":                {"15m", "1s"},
	"node-drain/wait-machine-deleted":              {"2m", "1s"},
	"kcp-remediation/wait-machines":                {"5m", "10s"},
	"kcp-remediation/check-machines-stable":        {"30s", "5s"},
	"kcp-remediation/wait-machine-provisioned":     {"5m", "1s"},
}
