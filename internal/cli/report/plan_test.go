package report

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/plan"
)

// threeMachines are observed, all well.
func threeMachines(change func(*plan.Observed)) plan.Observed {
	o := plan.Observed{
		Now:     start,
		Group:   plan.Group{Name: "demo-cp", Initialized: true, LastMachine: 3},
		Want:    plan.Want{Replicas: 3, NameFormat: "demo-cp-%s"},
		Policy:  plan.Policy{Learners: true, Surge: 1},
		Cluster: plan.Cluster{Infrastructure: true, Endpoint: "172.30.0.10:6443", Reachable: true},
		Etcd:    plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true},
	}
	for _, name := range []string{"demo-cp-1", "demo-cp-2", "demo-cp-3"} {
		o.Machines = append(o.Machines, plan.Machine{Name: name, Host: name, Created: start.AddDate(0, 0, -2), UpSince: start.AddDate(0, 0, -1),
			Ready: true, Hook: true,
			Components: []plan.Component{{Name: "kube-apiserver", Health: plan.Healthy}}})
		o.Etcd.Members = append(o.Etcd.Members,
			member("m"+name[len(name)-1:], name, func(m *plan.Member) { m.Leader, m.Since = name == "demo-cp-1", start.AddDate(0, 0, -1) }))
	}
	change(&o)
	return o
}

// A plan says what becomes of each machine and why, the steps with what they leave, and what it ends with.
func TestPlan(t *testing.T) {
	outdated := func(o *plan.Observed) {
		for i := range o.Machines {
			o.Machines[i].Outdated = "spec.version: v1.35.4, wanted v1.36.3"
		}
	}
	const inPlace = "in place"
	const unseen, removed = "an upgrader image that is not seen", "a flag and a feature gate that the version does not have"
	var b strings.Builder
	for _, test := range []struct {
		name      string
		following []string
		change    func(*plan.Observed)
	}{
		{"a rollout", nil, outdated},
		{inPlace, nil, func(o *plan.Observed) { outdated(o); o.Policy.InPlace = plan.InPlaceOnly }},
		{"one in a day", nil, func(o *plan.Observed) { outdated(o); o.Policy.MaxReplacements, o.Machines[0].Outdated = 1, "" }},
		{"to be approved", nil, func(o *plan.Observed) {
			outdated(o)
			o.Group.Unapproved, o.Machines[0].Outdated, o.Machines[2].Outdated = "0123456789ab", "", ""
		}},
		{"nothing to approve", nil, func(o *plan.Observed) { o.Want.Replicas, o.Group.Unapproved = 1, "0123456789ab" }},
		{"fewer", nil, func(o *plan.Observed) { o.Want.Replicas = 1 }},
		{"labels", []string{"demo-cp-2"}, func(*plan.Observed) {}},
		{"what cannot be", nil, func(o *plan.Observed) { o.Want.Replicas = 4 }},
		{"without a quorum", nil, func(o *plan.Observed) {
			outdated(o)
			o.Etcd.Members[0].Health, o.Etcd.Members[1].Health = plan.Unhealthy, plan.Unhealthy
		}},
		{unseen, nil, func(o *plan.Observed) { outdated(o); o.Policy.InPlace = plan.InPlaceOnly }},
		{unseen + ", and not needed", nil, outdated},
		{removed, nil, outdated},
		{"none yet", nil, func(o *plan.Observed) {
			o.Machines, o.Etcd.Members, o.Group, o.Cluster.Reachable = nil, nil, plan.Group{Name: "demo-cp", New: true}, false
			o.Etcd.Known, o.Cluster.Chores = false,
				[]plan.Chore{{Name: "Certificates", Due: plan.DueFirst, Reason: "CertificatesMissing", Message: "no certificate authority",
					Then: "Kubeconfig"}}
		}},
	} {
		b.WriteString("--- " + test.name + "\n")
		p := NewPlan(client.ObjectKey{Namespace: "default", Name: "demo"}, "KubeadmControlPlane demo-cp", threeMachines(test.change),
			test.following, History{})
		if test.name == inPlace || test.name == "a rollout" {
			p.NoteDrain("Never: pods stay on their nodes")
		}
		if strings.HasPrefix(test.name, unseen) {
			p.NoteUpgrader("v1.36.3")
		}
		if test.name == removed {
			spec := &bootstrapv1.KubeadmConfigSpec{}
			spec.ClusterConfiguration.FeatureGates = map[string]bool{"ControlPlaneKubeletLocalMode": true}
			spec.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "feature-gates", Value: ptr.To("ImageVolume=false,Typo=true")}}
			spec.ClusterConfiguration.Etcd.Local.ImageTag = "latest"
			spec.ClusterConfiguration.Etcd.Local.ExtraArgs = []bootstrapv1.Arg{{Name: "snapshot-count", Value: ptr.To("5000")}}
			p.NoteRefused("v1.36.3", spec)
		}
		for _, line := range Plans([]Plan{p}, false) {
			b.WriteString(line.String() + "\n")
		}
		b.WriteString("\n")
		for _, line := range Plans([]Plan{p}, true)[1:] {
			b.WriteString(line.String() + "\n\n")
		}
	}
	golden(t, "plan", b.String())
}
