package sim

import (
	"slices"

	"github.com/quorate/quorate/internal/core/plan"
)

// The chores of the worlds' groups, as kinds with kubeadm have them.
var (
	certificates = plan.Chore{Name: "Certificates", Due: plan.DueFirst, Reason: "CertificatesMissing", Then: "Kubeconfig"}
	kubeconfig   = plan.Chore{Name: "Kubeconfig", Due: plan.DueNow, Reason: "KubeconfigMissing",
		Message: "no kubeconfig for 10.0.0.1:6443 yet"}
	permissions = plan.Chore{Name: "Permissions", Due: plan.DueJoin, Reason: "PermissionsMissing", Inside: true,
		Message: "ClusterRoleBinding kubeadm:apiserver-kubelet-client is missing"}
	etcdPods = plan.Chore{Name: "EtcdPods", Due: plan.DueJoin, Reason: "EtcdPodsStale", Inside: true,
		Message: "machines that join would ask members of the etcd before"}
	kubeadmConfig = plan.Chore{Name: "KubeadmConfig", Due: plan.DueJoin, Reason: "KubeadmOutdated", Inside: true, FromSpec: true}
	addons        = plan.Chore{Name: "Addons", Due: plan.DueRest, Reason: "AddonsOutdated", Inside: true, FromSpec: true}
)

// addChores is what of the chores can be seen to be not as it should be.
func (w *World) addChores(o *plan.Observed) {
	add := func(c plan.Chore, message string) {
		if c.Message = message; message != "" {
			o.Cluster.Chores = append(o.Cluster.Chores, c)
		}
	}
	if w.setup.EtcdOnly {
		w.certificates, w.kubeconfig = true, true // the bootstrap provider's, with the first machine
		return
	}
	missing := ""
	switch {
	case w.lasts(NoAuthority, 0):
		missing = "no certificate authority for ca"
	case !w.certificates && !w.initialised:
		missing = "no certificate authority for ca, etcd, proxy, sa"
	}
	add(certificates, missing)
	if !w.kubeconfig && o.Cluster.Endpoint != "" && missing == "" {
		add(kubeconfig, kubeconfig.Message)
	}
	if w.recoveries.former && w.reachable() {
		add(etcdPods, etcdPods.Message)
	}
	if w.forbidden && w.reachable() {
		add(permissions, permissions.Message)
	}
	if w.initialised {
		add(kubeadmConfig, differs("kubeadm's configuration is for spec", w.kubeadm, w.spec))
		add(addons, differs("addons are of spec", w.addons, w.spec))
	}
}

// writes reports whether a step writes what one of the chores is about.
func writes(s plan.Step, c plan.Chore) bool { return s.Verb == plan.Write && s.Chore == c.Name }

// write does a chore.
func (w *World) write(s plan.Step) {
	switch s.Chore {
	case certificates.Name:
		w.certificates = true
		w.lasting = slices.DeleteFunc(w.lasting, func(l lasting) bool { return l.kind == NoAuthority })
	case kubeconfig.Name:
		w.kubeconfig = true
	case kubeadmConfig.Name:
		w.kubeadm = w.saw
	case permissions.Name:
		w.forbidden = false
	case etcdPods.Name:
		w.recoveries.former = false
	case addons.Name:
		w.addons = w.saw
	}
}
