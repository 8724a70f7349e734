package programs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

func arg(name, value string) []bootstrapv1.Arg {
	return []bootstrapv1.Arg{{Name: name, Value: ptr.To(value)}}
}

// etcd sets a flag that etcd 3.6 has and etcd 3.7 has not, of the etcd of an image's tag.
func etcd(tag string) func(*bootstrapv1.KubeadmConfigSpec) {
	return func(s *bootstrapv1.KubeadmConfigSpec) {
		s.ClusterConfiguration.Etcd.Local.ImageTag = tag
		s.ClusterConfiguration.Etcd.Local.ExtraArgs = arg("experimental-initial-corrupt-check", "true")
	}
}

// TestCheck: what a version does not take is named with its field, and what no table knows is not called wrong.
func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name, version string
		change        func(*bootstrapv1.KubeadmConfigSpec)
		want          string
	}{
		{"nothing said", "v1.36.3", func(*bootstrapv1.KubeadmConfigSpec) {}, ""},
		{"nothing said, of a version that is not known", "v1.99.0", func(*bootstrapv1.KubeadmConfigSpec) {}, ""},
		{"no version", "latest", func(s *bootstrapv1.KubeadmConfigSpec) { s.ClusterConfiguration.APIServer.ExtraArgs = arg("v", "4") }, ""},
		{"a flag that it has", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.APIServer.ExtraArgs = arg("audit-log-maxage", "4")
		}, ""},
		{"written with hyphens", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.APIServer.ExtraArgs = arg("--audit-log-maxage", "4")
		}, ""},
		{"a flag that is not there yet", "v1.35.4", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.APIServer.ExtraArgs = arg("tls-curve-preferences", "X25519")
		}, "v1.35 kube-apiserver has no flag --tls-curve-preferences: remove it from clusterConfiguration.apiServer.extraArgs"},
		{"a flag that etcd has no more", "v1.37.2", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.Etcd.Local.ExtraArgs = arg("experimental-initial-corrupt-check", "true")
		}, "etcd 3.7 has no flag --experimental-initial-corrupt-check: remove it from clusterConfiguration.etcd.local.extraArgs"},
		{"an older etcd by its tag, which has the flag", "v1.37.2", etcd("3.6.16-0"), ""},
		{"a newer etcd by its tag, which does not have the flag", "v1.36.3", etcd("v3.7.3"),
			"etcd 3.7 has no flag --experimental-initial-corrupt-check: remove it from clusterConfiguration.etcd.local.extraArgs"},
		{"a newer etcd of a version that is not known", "v1.99.0", etcd("3.7.3-0"),
			"etcd 3.7 has no flag --experimental-initial-corrupt-check: remove it from clusterConfiguration.etcd.local.extraArgs"},
		{"an etcd without a table", "v1.36.3", etcd("3.60.1-0"),
			`not known: cannot check flags of etcd (clusterConfiguration.etcd.local.extraArgs): there is no table for imageTag "3.60.1-0"`},
		{"an etcd by a tag that tells no version", "v1.36.3", etcd("latest"),
			`not known: cannot check flags of etcd (clusterConfiguration.etcd.local.extraArgs): there is no table for imageTag "latest"`},
		{"a tag without flags", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) { s.ClusterConfiguration.Etcd.Local.ImageTag = "latest" }, ""},
		{"a flag that no table names", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.Scheduler.ExtraArgs = arg("typo", "x")
		}, "not known: cannot check flag --typo of kube-scheduler (clusterConfiguration.scheduler.extraArgs): it is in no table"},
		{"gates of client-go", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			const gates = "WatchListClient=false,ClientsAllowCBOR=true,InOrderInformers=true"
			s.ClusterConfiguration.APIServer.ExtraArgs = arg("feature-gates", gates)
			s.ClusterConfiguration.ControllerManager.ExtraArgs = arg("feature-gates", gates)
			s.ClusterConfiguration.Scheduler.ExtraArgs = arg("feature-gates", gates)
			s.JoinConfiguration.NodeRegistration.KubeletExtraArgs = arg("feature-gates", gates)
		}, ""},
		{"a gate of another program", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.ControllerManager.ExtraArgs = arg("feature-gates", "ControllerManagerReleaseLeaderElectionLockOnExit=true")
			s.ClusterConfiguration.Scheduler.ExtraArgs = arg("feature-gates", "ControllerManagerReleaseLeaderElectionLockOnExit=true")
		}, "v1.36 kube-scheduler has no feature gate ControllerManagerReleaseLeaderElectionLockOnExit: remove it from " +
			"clusterConfiguration.scheduler.extraArgs"},
		{"a gate that no table names", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.Scheduler.ExtraArgs = arg("feature-gates", "Typo=true")
		}, "not known: cannot check feature gate Typo of kube-scheduler (clusterConfiguration.scheduler.extraArgs): it is in no table"},
		{"a gate of kubeadm that is gone", "v1.37.2", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.FeatureGates = map[string]bool{"PublicKeysECDSA": true, "RootlessControlPlane": false}
		}, "v1.37 kubeadm has no feature gate PublicKeysECDSA: remove it from clusterConfiguration.featureGates"},
		{"a gate that is locked", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.ControllerManager.ExtraArgs = arg("feature-gates", "AllAlpha=false,kube:ImageVolume=false,wardle:Other=true")
		}, "v1.36 kube-controller-manager has the feature gate ImageVolume locked to true: clusterConfiguration.controllerManager.extraArgs " +
			"sets it to false"},
		{"a locked gate, set to its value in other words", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.APIServer.ExtraArgs = arg("feature-gates", "ImageVolume=True")
			s.ClusterConfiguration.Scheduler.ExtraArgs = arg("feature-gates", "ImageVolume=1")
		}, ""},
		{"a locked gate, set to another value in other words", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.Scheduler.ExtraArgs = arg("feature-gates", "ImageVolume=F")
		}, "v1.36 kube-scheduler has the feature gate ImageVolume locked to true: clusterConfiguration.scheduler.extraArgs sets it to F"},
		{"a gate with a value that is none", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.Scheduler.ExtraArgs = arg("feature-gates", "AllAlpha=maybe,AllBeta")
		}, `invalid feature gate AllAlpha "maybe" of kube-scheduler (clusterConfiguration.scheduler.extraArgs): must be true or false; ` +
			`invalid feature gate AllBeta "" of kube-scheduler (clusterConfiguration.scheduler.extraArgs): must be true or false`},
		{"a gate that is gone, of kubelets", "v1.36.3", func(s *bootstrapv1.KubeadmConfigSpec) {
			s.InitConfiguration.NodeRegistration.KubeletExtraArgs = arg("feature-gates", "MemoryManager=true")
			s.JoinConfiguration.NodeRegistration.KubeletExtraArgs = arg("feature-gates", "MemoryManager=true")
		}, "v1.36 kubelet has no feature gate MemoryManager: remove it from initConfiguration.nodeRegistration.kubeletExtraArgs; " +
			"v1.36 kubelet has no feature gate MemoryManager: remove it from joinConfiguration.nodeRegistration.kubeletExtraArgs"},
		{"a version that is not known", "v1.99.0",
			func(s *bootstrapv1.KubeadmConfigSpec) { s.ClusterConfiguration.APIServer.ExtraArgs = arg("v", "4") },
			"not known: cannot check flags and feature gates of v1.99: there are tables of v1.35, v1.36, v1.37"},
	} {
		spec := &bootstrapv1.KubeadmConfigSpec{}
		test.change(spec)
		found := Check(test.version, spec)
		for _, text := range found.NotKnown {
			found.Refused = append(found.Refused, "not known: "+text)
		}
		if got := strings.Join(found.Refused, "; "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestReadTables: a minor version has one table. Of two, the one whose name comes last would be used: v1.36.3 rather than v1.36.10.
func TestReadTables(t *testing.T) {
	table := func(flag string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("kubelet\n\t" + flag + "\n")} }
	for name, test := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"one of each": {fstest.MapFS{"tables/v1.36.10.txt": table("new"), "tables/v1.35.4.txt": table("old")}, ""},
		"two of a minor": {fstest.MapFS{"tables/v1.36.10.txt": table("new"), "tables/v1.36.3.txt": table("old")},
			"tables/v1.36.3.txt: there is another table of v1.36"},
		"no version": {fstest.MapFS{"tables/latest.txt": table("new")}, `tables/latest.txt: version "latest" is not one like v1.36.3`},
	} {
		all, err := readTables(test.files)
		if got := fmt.Sprint(err); got != cmp.Or(test.want, "<nil>") {
			t.Errorf("%s: %s, want %q", name, got, test.want)
		}
		if _, has := all[36][Kubelet]["new"]; test.want == "" && (!has || len(all) != 2) {
			t.Errorf("%s: read as %v", name, all)
		}
	}
}

// TestTables: each table has what every version of a program has, and is written as it is read.
func TestTables(t *testing.T) {
	known := Known()
	if len(known) < 2 {
		t.Fatalf("tables of v1.%v only", known)
	}
	for minor, table := range tables {
		for program, flag := range map[string]string{
			APIServer: "etcd-servers", ControllerManager: "cluster-cidr", Scheduler: "kubeconfig", Kubelet: "config", Etcd: "data-dir",
			Gates: "AllBeta", KubeadmGates: "RootlessControlPlane", Versions: Etcd,
		} {
			if _, has := table[program][flag]; !has || len(table[program]) == 0 {
				t.Errorf("v1.%d %s has no %s among %d", minor, program, flag, len(table[program]))
			}
		}
		if again := Parse(table.String()); again.String() != table.String() {
			t.Errorf("v1.%d is read otherwise than written", minor)
		}
	}
	for i, minor := range known[1:] {
		if minor != known[i]+1 {
			t.Errorf("there is no table between v1.%d and v1.%d", known[i], minor)
		}
	}
	if !HasGate("v1.99.0", "Any") || HasGate("v1.36.3", "ControlPlaneKubeletLocalMode") ||
		!HasGate("v1.35.4", "ControlPlaneKubeletLocalMode") {
		t.Error("kubeadm's feature gates are told wrongly")
	}
	if !slices.IsSorted(known) {
		t.Errorf("%v are not sorted", known)
	}
}
