package drift

import (
	"strings"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func diff(field, was, want string) Difference { return Difference{Field: field, Was: was, Want: want} }

// TestReplacing: which differences can be changed in place, and for which something is done on the node.
func TestReplacing(t *testing.T) {
	const config = "spec.kubeadmConfigSpec.clusterConfiguration."
	for name, test := range map[string]struct {
		found  Difference
		due    bool
		want   string // what forces another machine, in part; empty: nothing does
		onNode bool
	}{
		"a minor version": {diff("spec.version", "v1.35.4", "v1.36.3"), false, "", true},
		"a patch":         {diff("spec.version", "v1.36.1", "v1.36.3"), false, "", true},
		"another build":   {diff("spec.version", "v1.36.3+a", "v1.36.3+b"), false, "", true},
		"two minor versions": {diff("spec.version", "v1.34.4", "v1.36.3"), false,
			"spec.version: v1.34.4, wanted v1.36.3 (kubeadm goes up by one", true},
		"another major version":     {diff("spec.version", "v1.36.4", "v2.36.4"), false, "kubeadm goes up by one", true},
		"a distribution's build":    {diff("spec.version", "v1.36.3-eks-1-36-9", "v1.36.3-eks-1-36-10"), false, "", true},
		"to a distribution":         {diff("spec.version", "v1.36.3", "v1.36.3-eks-1-36-10"), false, "", true},
		"back":                      {diff("spec.version", "v1.36.3", "v1.36.2"), false, "does not go back", true},
		"no version":                {diff("spec.version", "", "v1.36.2"), false, "cannot be compared", true},
		"an argument":               {diff(config+"apiServer.extraArgs[v]", "1", "2"), false, "", true},
		"an argument, controllers":  {diff(config+"controllerManager.extraArgs[v]", "1", "2"), false, "", true},
		"an argument, scheduler":    {diff(config+"scheduler.extraArgs[v]", "1", "2"), false, "", true},
		"an argument, etcd":         {diff(config+"etcd.local.extraArgs[v]", "1", "2"), false, "", true},
		"etcd's image":              {diff(config+"etcd.local.imageTag", "1", "2"), false, "", true},
		"etcd's repository":         {diff(config+"etcd.local.imageRepository", "1", "2"), false, "", true},
		"the repository":            {diff(config+"imageRepository", "1", "2"), false, "", true},
		"etcd's data":               {diff(config+"etcd.local.dataDir", "1", "2"), false, "dataDir", true},
		"a volume":                  {diff(config+"apiServer.extraVolumes[a].hostPath", "1", "2"), false, "extraVolumes", true},
		"a variable":                {diff(config+"apiServer.extraEnvs[A].value", "", ""), false, "extraEnvs", true},
		"a name of the API server":  {diff(config+"apiServer.certSANs", "1", "2"), false, "certSANs", true},
		"a field that begins alike": {diff(config+"imageRepositoryMirror", "1", "2"), false, "imageRepositoryMirror", true},
		"a file":                    {diff("spec.kubeadmConfigSpec.files[/a].content", "", ""), false, "", true},
		"a file of kubeadm's": {Difference{Field: "spec.kubeadmConfigSpec.files[/etc/kubernetes/pki/a]", fixed: "held"}, false,
			"files[/etc/kubernetes/pki/a] changed (held)", true},
		"the order of files": {diff("spec.kubeadmConfigSpec.files", "1", "2"), false, "it depends on the file", true},
		"a command":          {diff("spec.kubeadmConfigSpec.preKubeadmCommands[0]", "1", "2"), false, "preKubeadmCommands", true},
		"a kubelet argument": {diff("spec.kubeadmConfigSpec.joinConfiguration.nodeRegistration.kubeletExtraArgs[v]", "1", "2"), false, "",
			true},
		"a kubelet's label": {Difference{Field: "spec.kubeadmConfigSpec.joinConfiguration.nodeRegistration.kubeletExtraArgs[node-labels]",
			fixed: "once"}, false, "kubeletExtraArgs[node-labels] changed (once)", true},
		"kubelet arguments": {diff("spec.kubeadmConfigSpec.initConfiguration.nodeRegistration.kubeletExtraArgs", "1", "2"), false,
			"it depends on the argument", true},
		"another name of the node": {diff("spec.kubeadmConfigSpec.initConfiguration.nodeRegistration.name", "1", "2"), false,
			"nodeRegistration.name", true},
		"the template":     {diff("spec.machineTemplate.spec.infrastructureRef.name", "a", "b"), false, "", false},
		"another provider": {diff("spec.machineTemplate.spec.infrastructureRef.kind", "A", "B"), false, "infrastructureRef.kind", true},
		"certificates":     {diff("spec.rollout.before.certificatesExpiryDays", "soon", "later"), true, "", true},
		"a deadline":       {diff("spec.rollout.after", "before", "after"), true, "spec.rollout.after", true},
	} {
		d := Drift{Reasons: []Difference{test.found}}
		if test.due {
			d = Drift{Due: []Difference{test.found}}
		}
		got := d.ReplacingText()
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) || (len(d.Replacing()) == 0) != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if d.OnNode() != test.onNode {
			t.Errorf("%s: on the node: %t", name, d.OnNode())
		}
		if len(d.Reasons)+len(d.Due) != 1 {
			t.Errorf("%s: the differences were changed: %+v", name, d)
		}
	}
	if (Drift{}).OnNode() {
		t.Error("without a difference nothing is to be done")
	}
}

// TestChangesAreReal: each field that can be changed in place is one that a comparison finds, and that a goal carries.
func TestChangesAreReal(t *testing.T) {
	args := func(value string) []bootstrapv1.Arg { return []bootstrapv1.Arg{{Name: "v", Value: ptr(value)}} }
	config := func(value string) bootstrapv1.ClusterConfiguration {
		var c bootstrapv1.ClusterConfiguration
		c.APIServer.ExtraArgs, c.ControllerManager.ExtraArgs, c.Scheduler.ExtraArgs = args(value), args(value), args(value)
		c.Etcd.Local.ExtraArgs, c.Etcd.Local.ImageRepository, c.Etcd.Local.ImageTag = args(value), value, value
		c.ImageRepository, c.DNS.ImageTag = value, value
		return c
	}
	was := config("1")
	was.ControlPlaneEndpoint, was.CertificatesDir = "endpoint:6443", "/pki"
	want := config("2")
	want.ControlPlaneEndpoint, want.CertificatesDir = "endpoint:6443", "/pki"
	found := compare(spec.member(clusterPart), tree(was), tree(want))
	for _, c := range changeable {
		if !strings.HasPrefix(c.field, spec.member(clusterPart).field) {
			continue
		}
		hits := 0
		for _, d := range found {
			if strings.HasPrefix(d.Field, c.field) {
				hits++
			}
		}
		if hits != 1 || c.why == "" {
			t.Errorf("%s is found %d times in %v", c.field, hits, found)
		}
	}
	if d := (Drift{Reasons: found}); len(d.Replacing()) != 0 || len(found) != 7 {
		t.Errorf("%v need another machine, of %v", d.Replacing(), found)
	}
	g := NewGoal("v1.36.3", want, clusterv1.ContractVersionedObjectReference{Name: "b"})
	if left := compare(spec.member(clusterPart), tree(g.Record(was)), tree(want)); len(left) != 0 {
		t.Errorf("recorded, and yet: %v", left)
	}
	if was.ImageRepository != "1" {
		t.Error("what is recorded anew was changed in place")
	}
	if got, ok := readRecord(RecordText(want)); !ok || got.ImageRepository != "2" || *got.Scheduler.ExtraArgs[0].Value != "2" {
		t.Errorf("%+v, %t", got, ok)
	}
}

// TestGoal: what a goal says of itself can be read again, without secrets, and its hash changes with what changes nodes only.
func TestGoal(t *testing.T) {
	var config bootstrapv1.ClusterConfiguration
	config.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr("2")}, {Name: "some-password", Value: ptr("hunter2")}}
	config.APIServer.CertSANs = []string{"not.in.place"}
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "K", Name: "a"}
	g := NewGoal("v1.36.3", config, ref)
	text := g.String()
	if strings.Contains(text, "hunter2") || strings.Contains(text, "not.in.place") ||
		*g.KubeadmConfig.ClusterConfiguration.APIServer.ExtraArgs[1].Value != "hunter2" {
		t.Errorf("%s %+v", text, g)
	}
	again, err := ParseGoal(text)
	if err != nil || again.Version != "v1.36.3" || again.Infrastructure() != ref ||
		*again.KubeadmConfig.ClusterConfiguration.APIServer.ExtraArgs[0].Value != "2" {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := ParseGoal("{"); err == nil {
		t.Error("half a goal is read")
	}
	same, template, version, arguments := NewGoal("v1.36.3", config, ref), g, g, NewGoal("v1.36.3", bootstrapv1.ClusterConfiguration{}, ref)
	template.MachineTemplate.Spec.InfrastructureRef.Name = "b"
	version.Version = "v1.36.4"
	if len(g.Hash()) != 10 || g.Hash() != same.Hash() || g.Hash() != template.Hash() || g.Hash() == version.Hash() ||
		g.Hash() == arguments.Hash() {
		t.Errorf("%s %s %s %s", g.Hash(), template.Hash(), version.Hash(), arguments.Hash())
	}
}
