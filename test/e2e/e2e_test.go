//go:build e2e

// Package e2e runs the promises of the README on real machines of this host,
// through the command line that a user has, and verifies them with the
// machines' own tools (etcdctl, the workload cluster's API) rather than with
// what Quorate says of itself. It needs root and built artifacts: `make e2e`.
package e2e

import (
	"os"
	"testing"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// lives are the tests, in the order in which they run. Each makes the cluster that it needs and takes it down
// again, so that any can run alone.
var lives = []struct {
	name string
	run  func(*testing.T, *environment)
}{
	{"create", create},
	{"worker", worker},
	{"ipv6", ipv6},
	{"dual-stack", dualStack},
	{"crash", crash},
	{"scale", scale},
	{"join-dies", joinDies},
	{"surge1", surge1},
	{"surge0", surge0},
	{"versions", versions},
	{"repair", repair},
	{"two-of-five", twoOfFive},
	{"after", after},
	{"template", template},
	{"kubelet-dead", kubeletDead},
	{"kill-daemon", killDaemonOften},
	{"adopt", adopt},
	{"takeover", takeover},
	{"external", external},
	{"examples", examples},
	{"freeze-delete", freezeDelete},
	{"status-lost", statusLost},
	{"restored-management", restoredManagement},
	{"decide", decides},
	{"slow-infrastructure", slowInfrastructure},
	{"kubectl-after-upgrade", kubectlAfterUpgrade},
	{"forward-only", forwardOnly},
	{"machines-scale", machinesScale},
	{"machines-vertical", machinesVertical},
	{"machines-upgrade", machinesUpgrade},
	{"machines-repair", machinesRepair},
	{"machines-adopt", machinesAdopt},
	{"machines-operator", machinesOperator},
	{"join-eager", joinEager},
	{"certificates", certificates},
	{"etcd-create", etcdCreate},
	{"etcd-versions", etcdVersions},
	{"etcd-newest", etcdNewest},
	{"join-dynamic", joinDynamic},
	{"join-static", joinStatic},
	{"join-certificates", joinCertificates},
	{"join-external", joinExternal},
	{"join-fails", joinFails},
	{"join-hangs", joinHangs},
	{"etcd-scale", etcdScale},
	{"etcd-repair", etcdRepair},
	{"etcd-endpoints", etcdEndpoints},
	{"etcd-delete", etcdDelete},
	{"etcd-together", etcdTogether},
	{"etcd-twice", etcdTwice},
	{"etcd-full", etcdFull},
	{"etcd-differs", etcdDiffers},
	{"etcd-foreign", etcdForeign},
	{"plan", planning},
	{"approve", approving},
	{"history", remembered},
	{"backup", backup},
	{"backup-gate", backupGate},
	{"backup-s3", backupS3},
	{"recover-survivor", recoverSurvivor},
	{"recover-all", recoverAll},
	{"recover-single", recoverSingle},
	{"recover-return", recoverReturn},
	{"recover-forward-only", recoverForwardOnly},
	{"recover-etcd", recoverEtcd},
	{"recover-drills", recoverDrills},
	{"restore-elsewhere", restoreElsewhere},
	{"hibernate", hibernate},
	{"replace", replace},
	{"dashboard", dashboard},
	{"inplace-one", inplaceOne},
	{"inplace-machines", inplaceMachines},
	{"inplace-three", inplaceThree},
	{"inplace-args", inplaceArgs},
	{"inplace-rollback", inplaceRollback},
	{"inplace-undo", inplaceUndo},
	{"inplace-workers", inplaceWorkers},
	{"inplace-patches", inplacePatches},
	{"inplace-matrix", inplaceMatrix},
	{"inplace-upstream", inplaceUpstream},
	{"inplace-extension", inplaceExtension},
	{"inplace-runtime", inplaceRuntime},
	{"inplace-only", inplaceOnly},
	{"inplace-fallback", inplaceFallback},
	{"inplace-kill", inplaceKill},
	{"inplace-move", inplaceMove},
	{"class", classes},
	{"class-chained", chainedClass},
	{"docs", documents},
	{"docs-change", documentsChange},
	{"docs-make", documentsMake},
	{"docs-bench", documentsBench},
	{"bundle", bundled},
	{"move", moved},
	{"self-managed", selfManaged},
	{"helm", helmed},
	{"peer", peer},
	{"soak-short", soakShort},
	{"upgrade-provider", upgradeProvider},
}

// beginE2E returns an environment that is taken down with the test.
func beginE2E(t *testing.T) *environment {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("machines are namespaces of this host: run as root")
	}
	log.SetLogger(klog.Background()) // of controllers that run in this process
	env := newEnvironment(t)
	t.Cleanup(func() { env.quorate(t, "down", "--yes") })
	env.endWhenInterrupted()
	return env
}

func TestE2E(t *testing.T) {
	before := lookAtHost(t)
	env := beginE2E(t)
	for _, l := range lives {
		if !t.Run(l.name, func(t *testing.T) { l.run(t, env) }) {
			env.tellWhy(t)
			env.clear(t)
		}
	}
	env.tellRights(t)
	t.Run("down", func(t *testing.T) { down(t, env, before) })
}
