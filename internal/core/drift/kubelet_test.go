package drift

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// argsOf are arguments from name=value.
func argsOf(pairs ...string) []bootstrapv1.Arg {
	var list []bootstrapv1.Arg
	for _, pair := range pairs {
		name, value, has := strings.Cut(pair, "=")
		arg := bootstrapv1.Arg{Name: name}
		if has {
			arg.Value = &value
		}
		list = append(list, arg)
	}
	return list
}

func shown(args []bootstrapv1.Arg) string {
	var list []string
	for name, values := range valuesOf(args) {
		list = append(list, name+"="+strings.Join(values, "+"))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// nodeOf returns the part of a spec that a machine was made with.
func nodeOf(config *bootstrapv1.KubeadmConfigSpec, byInit bool) *bootstrapv1.NodeRegistrationOptions {
	if byInit {
		return &config.InitConfiguration.NodeRegistration
	}
	return &config.JoinConfiguration.NodeRegistration
}

// TestKubeletArgs: which arguments of the kubelet are changed on a live node, what its upgrade is told, and that afterwards the record says
// so.
func TestKubeletArgs(t *testing.T) {
	long := strings.Repeat("TLS_SOME_CIPHER,", 20)
	for name, test := range map[string]struct {
		was, want      []bootstrapv1.Arg
		replacing      string // why it takes another machine, in part; empty: it does not
		extra, removed string
	}{
		"another value": {argsOf("v=1"), argsOf("v=2"), "", "v=2", ""},
		"one more":      {argsOf("v=1"), argsOf("v=1", "max-pods=20"), "", "max-pods=20 v=1", ""},
		"one less":      {argsOf("v=1", "max-pods=20"), argsOf("v=1"), "", "v=1", "max-pods"},
		"all go":        {argsOf("v=1", "a=2"), nil, "", "", "a v"},
		"one twice":     {argsOf("v=1"), argsOf("reserved=1", "reserved=2"), "", "reserved=1+2", "v"},
		"a long list":   {argsOf("c=" + long + "A"), argsOf("c=" + long + "B"), "", "c=" + long + "B", ""},
		"thresholds": {nil, argsOf("eviction-hard=memory.available<5%,nodefs.available<1Gi"), "",
			"eviction-hard=memory.available<5%,nodefs.available<1Gi", ""},
		"no value": {nil, argsOf("v"), "", "v=", ""},
		"a label": {argsOf("node-labels=a=b"), argsOf("node-labels=a=c", "v=1"),
			"kubeletExtraArgs[node-labels]: a=b, wanted a=c (the kubelet uses it when it registers", "v=1", ""},
		"a label goes":             {argsOf("node-labels=a=b"), nil, "when it registers", "", ""},
		"written in another way":   {argsOf("node_labels=a=b"), nil, "when it registers", "", ""},
		"taints":                   {nil, argsOf("register-with-taints=a=b:NoSchedule"), "when it registers", "", ""},
		"the Node's name":          {nil, argsOf("hostname-override=a"), "which Node", "", ""},
		"the runtime":              {argsOf("container-runtime-endpoint=a"), nil, "kubeadm sets it itself", "", ""},
		"the driver of cgroups":    {nil, argsOf("cgroup-driver=cgroupfs"), "pods that run", "", ""},
		"its folder":               {nil, argsOf("root-dir=/a"), "would be lost", "", ""},
		"filled in at boot":        {nil, argsOf("foo={{ ds.meta_data.local_ipv4 }}"), "first boot", "", ""},
		"filled in, far behind":    {argsOf("c=" + long), argsOf("c=" + long + long + "${A}"), "first boot", "", ""},
		"a value in place of that": {argsOf("foo={{ ds.a }}"), argsOf("foo=1"), "", "foo=1", ""},
		"that goes":                {argsOf("foo={{ ds.a }}", "v=1"), argsOf("v=2"), "", "v=2", "foo"},
		"that stays": {argsOf("foo={{ ds.a }}", "node-ip=1.2.3.4", "v=1"), argsOf("foo={{ ds.a }}", "node-ip=1.2.3.4", "v=2"), "",
			"v=2", ""},
		"quoted":    {nil, argsOf(`foo="a"`), "first boot", "", ""},
		"two words": {nil, argsOf("foo=a b"), "spaces", "", ""},
		"two lines": {nil, argsOf("foo=a\nb"), "spaces", "", ""},
		"no flag":   {nil, argsOf("a b=c"), "no flag", "", ""},
		"no name":   {nil, argsOf("=c"), "no flag", "", ""},
		"a dash":    {nil, argsOf("--v=c"), "no flag", "", ""},
	} {
		for _, byInit := range []bool{true, false} {
			at := fmt.Sprintf("%s, made by init %t", name, byInit)
			kcp := controlPlane()
			nodeOf(&kcp.Spec.KubeadmConfigSpec, byInit).KubeletExtraArgs = test.was
			m := made(kcp, byInit)
			if !byInit {
				m.Config.Spec.InitConfiguration.NodeRegistration.KubeletExtraArgs = argsOf("unused=1")
			}
			nodeOf(&kcp.Spec.KubeadmConfigSpec, byInit).KubeletExtraArgs = test.want
			found := Of(kcp, m, now)
			if got := found.ReplacingText(); (got == "") != (test.replacing == "") || !strings.Contains(got, test.replacing) || !found.OnNode() {
				t.Errorf("%s: %q, want %q; %s", at, got, test.replacing, found)
			}
			g := NewGoal("v1.35.4", kcp.Spec.KubeadmConfigSpec.ClusterConfiguration,
				clusterv1.ContractVersionedObjectReference{}).WithKubelets(kcp.Spec.KubeadmConfigSpec)
			args, known := g.KubeletArgs(m)
			if shown(args.Extra) != test.extra || strings.Join(args.Removed, " ") != test.removed || !known {
				t.Errorf("%s: %s, without %v, known %t", at, shown(args.Extra), args.Removed, known)
			}
			g.RecordKubelet(&m.Config.Spec)
			if d := Of(kcp, m, now); d.Outdated() {
				t.Errorf("%s: recorded, and yet %s", at, d)
			}
			if nodeOf(&m.Config.Spec, !byInit).KubeletExtraArgs != nil != !byInit {
				t.Errorf("%s: the part that was not used was written", at)
			}
		}
	}
}

// TestKubeletArgsOfEither: a machine that was made by init and is as a join would make it today stays so, also where init is to be another
// one.
func TestKubeletArgsOfEither(t *testing.T) {
	kcp := controlPlane()
	nodeOf(&kcp.Spec.KubeadmConfigSpec, true).KubeletExtraArgs = argsOf("node-labels=a=b", "v=1")
	m := made(kcp, true)
	nodeOf(&kcp.Spec.KubeadmConfigSpec, true).KubeletExtraArgs = argsOf("node-labels=a=c", "v=2")
	nodeOf(&kcp.Spec.KubeadmConfigSpec, false).KubeletExtraArgs = argsOf("v=1", "node-labels=a=b")
	if d := Of(kcp, m, now); d.Outdated() {
		t.Fatalf("%s", d)
	}
	g := Goal{}.WithKubelets(kcp.Spec.KubeadmConfigSpec)
	if args, _ := g.KubeletArgs(m); shown(args.Extra) != "v=1" || len(args.Removed) > 0 {
		t.Errorf("%+v", args)
	}
	g.RecordKubelet(&m.Config.Spec)
	if d := Of(kcp, m, now); d.Outdated() {
		t.Errorf("recorded, and yet %s", d)
	}
}

// TestGoalOfKubelets: a goal that says nothing of kubelets changes none of them, and is the same as one without arguments.
func TestGoalOfKubelets(t *testing.T) {
	kcp := controlPlane()
	m := made(kcp, true)
	plain := NewGoal("v1.36.3", kcp.Spec.KubeadmConfigSpec.ClusterConfiguration, clusterv1.ContractVersionedObjectReference{})
	if args, known := plain.KubeletArgs(m); known {
		t.Errorf("%+v", args)
	}
	plain.RecordKubelet(&m.Config.Spec)
	if d := Of(kcp, m, now); d.Outdated() {
		t.Errorf("%s", d)
	}
	if none := plain.WithKubelets(bootstrapv1.KubeadmConfigSpec{}); none.Hash() != plain.Hash() {
		t.Errorf("%s %s", none.Hash(), plain.Hash())
	}
	whole := plain.WithKubelets(kcp.Spec.KubeadmConfigSpec)
	if _, known := whole.KubeletArgs(Machine{Machine: m.Machine}); known || whole.Hash() == plain.Hash() {
		t.Errorf("known %t, %s", known, whole.Hash())
	}
	kcp.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.KubeletExtraArgs = argsOf("v=3", "my-password=hunter2")
	changed := plain.WithKubelets(kcp.Spec.KubeadmConfigSpec)
	if changed.Hash() == whole.Hash() {
		t.Error("other arguments, and the same goal")
	}
	again, err := ParseGoal(changed.String())
	if err != nil || strings.Contains(changed.String(), "hunter2") ||
		shown(again.KubeadmConfig.JoinConfiguration.NodeRegistration.KubeletExtraArgs) != "my-password= v=3" {
		t.Errorf("%s, %v", changed, err)
	}
	if shown(changed.KubeadmConfig.JoinConfiguration.NodeRegistration.KubeletExtraArgs) != "my-password=hunter2 v=3" {
		t.Error("to be shown it was changed")
	}
}
