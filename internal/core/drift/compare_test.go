package drift

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// TestLists: how lists are compared, and how their elements are named.
func TestLists(t *testing.T) {
	args := func(pairs ...string) []bootstrapv1.Arg {
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
	flags := func(was, want []bootstrapv1.Arg) func(*scene) {
		return func(s *scene) {
			s.was.ClusterConfiguration.Scheduler.ExtraArgs, s.cluster.Scheduler.ExtraArgs = was, want
		}
	}
	const at = "S.clusterConfiguration.scheduler.extraArgs"
	check(t, false, []row{
		{"flags: nil and empty are the same", flags(nil, []bootstrapv1.Arg{}), ""},
		{"flags: another value", flags(args("v=1"), args("v=2")), at + "[v]: 1, wanted 2"},
		{"flags: one more", flags(args("v=1"), args("a=1", "v=1")), at + "[a]: unset, wanted 1"},
		{"flags: one less", flags(args("a=1", "v=1"), args("v=1")), at + "[a]: 1, wanted unset"},
		{"flags: the same in another order", flags(args("a=1", "v=1"), args("v=1", "a=1")), ""},
		{"flags: one without a value is there", flags(nil, args("v")), at + `[v]: unset, wanted ""`},
		{"flags: an empty value is none", flags(args("v"), args("v=")), ""},
		{"flags: a value in place of none", flags(args("v"), args("v=1")), at + "[v]: unset, wanted 1"},
		{"flags: one more of a name", flags(args("v=1"), args("v=1", "v=2")), at + `[v]: 1, wanted ["1","2"]`},
		{"flags: two of a name, the same", flags(args("v=1", "v=2", "a=1"), args("a=1", "v=1", "v=2")), ""},
		{"flags: two of a name, in another order", flags(args("v=1", "v=2"), args("v=2", "v=1")), at + `[v]: ["1","2"], wanted ["2","1"]`},

		{"sets: the same in another order and twice",
			func(s *scene) { s.cluster.APIServer.CertSANs = []string{"b.example", "a.example", "b.example"} }, ""},
		{"sets: one more", func(s *scene) { s.cluster.APIServer.CertSANs = []string{"b.example", "a.example", "c"} },
			`S.clusterConfiguration.apiServer.certSANs: ["a.example","b.example"], wanted ["b.example","a.example","c"]`},
		{"sets: none left", func(s *scene) { s.cluster.APIServer.CertSANs = nil },
			`S.clusterConfiguration.apiServer.certSANs: ["a.example","b.example"], wanted unset`},
		{"sets: preflight errors in another order", func(s *scene) {
			s.was.JoinConfiguration.NodeRegistration.IgnorePreflightErrors = []string{"a", "b"}
			s.want.JoinConfiguration.NodeRegistration.IgnorePreflightErrors = []string{"b", "a"}
		}, ""},
		{"sets: etcd's names in another order", func(s *scene) {
			s.was.ClusterConfiguration.Etcd.Local = bootstrapv1.LocalEtcd{PeerCertSANs: []string{"a", "b"}, ServerCertSANs: []string{"c", "d"}}
			s.cluster.Etcd.Local = bootstrapv1.LocalEtcd{PeerCertSANs: []string{"b", "a"}, ServerCertSANs: []string{"d", "c"}}
		}, ""},

		{"sequences: one more at the end", func(s *scene) { s.want.NTP.Servers = []string{"ntp1", "ntp2", "ntp3"} },
			"S.ntp.servers[2]: unset, wanted ntp3"},
		{"sequences: one more at the beginning", func(s *scene) { s.want.NTP.Servers = []string{"ntp0", "ntp1", "ntp2"} },
			"S.ntp.servers[0]: unset, wanted ntp0"},
		{"sequences: one twice", func(s *scene) { s.want.NTP.Servers = []string{"ntp1", "ntp1", "ntp2"} },
			"S.ntp.servers[1]: unset, wanted ntp1"},
		{"sequences: one less", func(s *scene) { s.want.NTP.Servers = []string{"ntp2"} }, "S.ntp.servers[0]: ntp1, wanted unset"},
		{"sequences: another order", func(s *scene) { s.want.NTP.Servers = []string{"ntp2", "ntp1"} },
			`S.ntp.servers[0]: ["ntp1","ntp2"], wanted ["ntp2","ntp1"]`},
		{"sequences: of sequences", func(s *scene) { s.want.Mounts[1] = bootstrapv1.MountPoints{"b", "/c"} }, "S.mounts[1][1]: /b, wanted /c"},
		{"sequences: of objects", func(s *scene) { s.want.DiskSetup.Filesystems[0].Label = "b" },
			"S.diskSetup.filesystems[0].label: a, wanted b"},
		{"sequences: an object more", func(s *scene) {
			s.want.DiskSetup.Filesystems = append(s.want.DiskSetup.Filesystems, bootstrapv1.Filesystem{Device: "/dev/b"})
		}, `S.diskSetup.filesystems[1]: unset, wanted {"device":"/dev/b"}`},

		{"partitions: in another order", func(s *scene) { slices.Reverse(s.want.DiskSetup.Partitions) },
			`S.diskSetup.partitions: ["/dev/a","/dev/b"], wanted ["/dev/b","/dev/a"]`},
		{"partitions: one of them changed", func(s *scene) { s.want.DiskSetup.Partitions[1].TableType = "gpt" },
			"S.diskSetup.partitions[/dev/b].tableType: unset, wanted gpt"},
		{"files: in another order", func(s *scene) { slices.Reverse(s.want.Files) }, `S.files: ["/etc/a","/etc/b"], wanted ["/etc/b","/etc/a"]`},
		{"files: in another order, and one changed", func(s *scene) { slices.Reverse(s.want.Files); s.want.Files[1].Owner = "me" },
			"S.files[/etc/a].owner: root, wanted me"},
		{"users: in another order", func(s *scene) { slices.Reverse(s.want.Users) }, `S.users: ["admin","guest"], wanted ["guest","admin"]`},
		{"users: a switch that is off is not one that is unset", func(s *scene) { s.want.Users[1].LockPassword = ptr(false) },
			"S.users[guest].lockPassword: unset, wanted false"},
		{"volumes: in another order", func(s *scene) {
			a, b := bootstrapv1.HostPathMount{Name: "a"}, bootstrapv1.HostPathMount{Name: "b"}
			s.was.ClusterConfiguration.APIServer.ExtraVolumes = []bootstrapv1.HostPathMount{a, b}
			s.cluster.APIServer.ExtraVolumes = []bootstrapv1.HostPathMount{b, a}
		}, ""},
		{"volumes: a switch", func(s *scene) {
			s.was.ClusterConfiguration.APIServer.ExtraVolumes = []bootstrapv1.HostPathMount{{Name: "a"}}
			s.cluster.APIServer.ExtraVolumes = []bootstrapv1.HostPathMount{{Name: "a", ReadOnly: ptr(true)}}
		}, "S.clusterConfiguration.apiServer.extraVolumes[a].readOnly: false, wanted true"},
		{"variables: in another order", func(s *scene) {
			a, b := bootstrapv1.EnvVar{EnvVar: corev1.EnvVar{Name: "A"}}, bootstrapv1.EnvVar{EnvVar: corev1.EnvVar{Name: "B"}}
			s.was.ClusterConfiguration.Scheduler.ExtraEnvs = &[]bootstrapv1.EnvVar{a, b}
			s.cluster.Scheduler.ExtraEnvs = &[]bootstrapv1.EnvVar{b, a}
		}, `S.clusterConfiguration.scheduler.extraEnvs: ["A","B"], wanted ["B","A"]`},
		{"kubelet's flags: in another order", func(s *scene) {
			s.was.JoinConfiguration.NodeRegistration.KubeletExtraArgs = args("a=1", "b=2")
			s.want.JoinConfiguration.NodeRegistration.KubeletExtraArgs = args("b=2", "a=1")
		}, ""},
	})
}

// TestEmpty: what says nothing is the same as nothing, in either direction.
func TestEmpty(t *testing.T) {
	empty := bootstrapv1.KubeadmConfigSpec{
		ClusterConfiguration: bootstrapv1.ClusterConfiguration{
			FeatureGates: map[string]bool{},
			APIServer: bootstrapv1.APIServer{ExtraArgs: []bootstrapv1.Arg{}, ExtraVolumes: []bootstrapv1.HostPathMount{},
				ExtraEnvs: &[]bootstrapv1.EnvVar{}, CertSANs: []string{}},
			Etcd: bootstrapv1.Etcd{Local: bootstrapv1.LocalEtcd{ExtraEnvs: &[]bootstrapv1.EnvVar{}}},
		},
		InitConfiguration: bootstrapv1.InitConfiguration{SkipPhases: []string{}},
		JoinConfiguration: bootstrapv1.JoinConfiguration{SkipPhases: []string{}, ControlPlane: &bootstrapv1.JoinControlPlane{}},
		Files:             []bootstrapv1.File{}, Users: []bootstrapv1.User{}, Mounts: []bootstrapv1.MountPoints{}, BootCommands: []string{},
		NTP: bootstrapv1.NTP{Servers: []string{}}, DiskSetup: bootstrapv1.DiskSetup{Partitions: []bootstrapv1.Partition{}},
	}
	var none bootstrapv1.KubeadmConfigSpec
	for _, byInit := range []bool{true, false} {
		for _, pair := range [][2]bootstrapv1.KubeadmConfigSpec{{empty, none}, {none, empty}} {
			kcp := controlPlane()
			kcp.Spec.KubeadmConfigSpec = pair[0]
			m := made(kcp, byInit)
			kcp.Spec.KubeadmConfigSpec = pair[1]
			if d := Of(kcp, m, now); d.Outdated() {
				t.Errorf("made by init %t: %s", byInit, d)
			}
		}
	}
	check(t, false, []row{
		{"users: empty keys of a user", func(s *scene) { s.want.Users[1].SSHAuthorizedKeys = []string{} }, ""},
	})
}

// TestNewFields: what Cluster API may add to a flag is compared, not only its value.
func TestNewFields(t *testing.T) {
	p := path{field: "x", pattern: "scheduler"}.member("extraArgs")
	one := func(more ...string) any {
		flag := map[string]any{"name": "v"}
		for _, pair := range more {
			k, v, _ := strings.Cut(pair, "=")
			flag[k] = v
		}
		return []any{flag}
	}
	for _, test := range []struct {
		was, want any
		said      string
	}{
		{one("value=1", "new=a"), one("value=1", "new=b"), "x.extraArgs[v].new: a, wanted b"},
		{one("new=a"), one("new=b"), "x.extraArgs[v].new: a, wanted b"},
		{one("value=1", "new=a"), one("value=1", "new=a"), ""},
	} {
		if got := (Drift{Reasons: compare(p, test.was, test.want)}).String(); got != test.said {
			t.Errorf("%v and %v: said %q, want %q", test.was, test.want, got, test.said)
		}
	}
	if got := compare(p, one("value=1"), one("value=1", "new=a")); len(got) == 0 {
		t.Error("a flag that has one field more is the same")
	}
}

// TestTree: what is not plain data is a defect, and is not taken for no difference.
func TestTree(t *testing.T) {
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "func() as JSON") {
			t.Errorf("it said %q", said)
		}
	}()
	tree(func() {})
}
