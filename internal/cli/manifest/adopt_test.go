package manifest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

func objectsOf(t *testing.T, c Cluster) []*unstructured.Unstructured {
	t.Helper()
	var out strings.Builder
	if err := Write(&out, c.Documents()); err != nil {
		t.Fatal(err)
	}
	objects, err := Parse(strings.NewReader(out.String()), "written")
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestSteps(t *testing.T) {
	with := func(change func(*Cluster)) Cluster {
		c := demo()
		change(&c)
		return c
	}
	withWorkers := with(func(c *Cluster) { c.Workers = 2 })
	limited := with(func(c *Cluster) { c.MaxParallel = 1 })
	repaired := with(func(c *Cluster) { c.AutoRepair = true })
	inPlace := with(func(c *Cluster) { c.InPlace = controlplanev1.InPlacePreferred })
	machines := with(func(c *Cluster) { c.Kind, c.AutoRepair = ControlPlane, true })
	oneByOne := with(func(c *Cluster) { c.Kind, c.MaxParallel = ControlPlane, 1 })
	apart := with(func(c *Cluster) { c.Etcd, c.EtcdVersion = 3, "3.5.35" })
	hourly := func(c *Cluster) { c.Backup, c.BackupStore, c.BackupRecipient = "@hourly", "host", "age1x" }
	daily := func(c *Cluster) { c.Backup, c.BackupStore, c.BackupRecipient = "@daily", "host", "age1x" }
	off := func(c *Cluster) { c.Backup = NoBackup }
	backedUp, apartBackedUp := with(hourly), with(func(c *Cluster) { c.Etcd = 3; hourly(c) })
	six := with(func(c *Cluster) { c.IPFamily = IPv6 })
	old := with(func(c *Cluster) { c.Version, c.Replicas, c.FailureDomains = "v1.36.3", 5, []string{"x"} })
	for _, tt := range []struct {
		name   string
		has    *Cluster
		wants  Cluster
		given  string
		steps  []string
		patch  string
		refuse string
	}{
		{"new", nil, demo(), "", []string{
			"Cluster demo is made", "LocalCluster demo is made", "LocalMachineTemplate demo-cp is made", "KubeadmControlPlane demo-cp is made",
		}, "", ""},
		{"again", new(demo()), demo(), "replicas workers kubernetes-version failure-domains max-parallel", nil, "", ""},
		{"again without flags", &old, demo(), "", nil, "", ""},
		{"grow", new(demo()), with(func(c *Cluster) { c.Replicas = 5 }), "replicas", []string{"replicas: 3 -> 5"}, `{"spec":{"replicas":5}}`, ""},
		{"first workers", new(demo()), withWorkers, "workers", []string{
			"LocalMachineTemplate demo-workers is made", "KubeadmConfigTemplate demo-workers is made", "MachineDeployment demo-workers is made",
		}, "", ""},
		{"more workers", &withWorkers, with(func(c *Cluster) { c.Workers = 3 }), "workers", []string{"workers: 2 -> 3"},
			`{"spec":{"replicas":3}}`, ""},
		{"no workers", &withWorkers, demo(), "workers", []string{"workers: 2 -> 0"}, `{"spec":{"replicas":0}}`, ""},
		{"workers stay", &withWorkers, demo(), "", nil, "", ""},
		{"limit", new(demo()), limited, "max-parallel", []string{"machines that may join at once: 0 -> 1"},
			`{"spec":{"joins":{"maxParallel":1}}}`, ""},
		{"limit goes", &limited, demo(), "max-parallel", []string{"machines that may join at once: 1 -> 0"},
			`{"spec":{"joins":{"maxParallel":null}}}`, ""},
		{"limit stays", &limited, demo(), "", nil, "", ""},
		{"repair", new(demo()), repaired, "auto-repair", []string{"broken machines are replaced"}, `{"spec":{"autoRepair":{}}}`, ""},
		{"repair goes", &repaired, demo(), "auto-repair", []string{"broken machines are no longer replaced"}, `{"spec":{"autoRepair":null}}`, ""},
		{"repair stays", &repaired, demo(), "", nil, "", ""},
		{"in place", new(demo()), inPlace, "in-place", []string{"machines are changed in place: Never -> Preferred"},
			`{"spec":{"inPlace":{"policy":"Preferred"}}}`, ""},
		{"in place no more", &inPlace, demo(), "in-place", []string{"machines are changed in place: Preferred -> Never"},
			`{"spec":{"inPlace":{"policy":"Never"}}}`, ""},
		{"in place stays", &inPlace, demo(), "", nil, "", ""},
		{"in place before another version", new(with(func(c *Cluster) { c.Version = "v1.36.3" })), inPlace, "in-place kubernetes-version",
			[]string{
				"machines are changed in place: Never -> Preferred", "version of demo-cp: v1.36.3 -> v1.37.2",
			}, `{"spec":{"inPlace":{"policy":"Preferred"}}}`, ""},
		{"workers in place", &withWorkers, with(func(c *Cluster) { c.Workers, c.InPlace = 2, controlplanev1.InPlaceOnly }), "in-place", []string{
			"machines are changed in place: Never -> Only", "workers are changed in place: Never -> Only",
		}, `{"spec":{"inPlace":{"policy":"Only"}}}`, ""},
		{"workers in place stay", new(with(func(c *Cluster) { c.Workers, c.InPlace = 2, controlplanev1.InPlaceOnly })), demo(), "", nil, "", ""},
		{"machines in place", &machines, with(func(c *Cluster) { c.Kind, c.InPlace = ControlPlane, controlplanev1.InPlaceOnly }), "in-place",
			[]string{
				"machines are changed in place: Never -> Only",
			}, `{"spec":{"inPlace":{"policy":"Only"}}}`, ""},
		{"other version", new(with(func(c *Cluster) { c.Version = "v1.36.3" })), demo(), "kubernetes-version",
			[]string{"version of demo-cp: v1.36.3 -> v1.37.2"}, `{"spec":{"version":"v1.37.2"}}`, ""},
		{"other version with workers", new(with(func(c *Cluster) { c.Version, c.Workers = "v1.36.3", 2 })), withWorkers, "kubernetes-version",
			[]string{
				"version of demo-cp: v1.36.3 -> v1.37.2", "version of demo-workers: v1.36.3 -> v1.37.2",
			}, `{"spec":{"version":"v1.37.2"}}`, ""},
		{"new machines", nil, machines, "kind", []string{
			"Cluster demo is made", "LocalCluster demo is made", "LocalMachineTemplate demo-cp is made", "KubeadmConfigTemplate demo-cp is made",
			"ControlPlane demo-cp is made",
		}, "", ""},
		{"machines again", &machines, machines, "kind replicas kubernetes-version max-parallel auto-repair", nil, "", ""},
		{"machines again without flags", &oneByOne, demo(), "", nil, "", ""},
		{"machines, first workers", &machines, withWorkers, "workers", []string{
			"LocalMachineTemplate demo-workers is made", "KubeadmConfigTemplate demo-workers is made", "MachineDeployment demo-workers is made",
		}, "", ""},
		{"machines, grow", &machines, with(func(c *Cluster) { c.Replicas = 5 }), "replicas", []string{"replicas: 3 -> 5"},
			`{"spec":{"replicas":5}}`, ""},
		{"machines, other version", new(with(func(c *Cluster) { c.Kind, c.Version = ControlPlane, "v1.36.3" })), demo(), "kubernetes-version",
			[]string{"version of demo-cp: v1.36.3 -> v1.37.2"}, `{"spec":{"version":"v1.37.2"}}`, ""},
		{"machines, limit", &machines, limited, "max-parallel", []string{"machines that may join at once: 0 -> 1"},
			`{"spec":{"joins":{"maxParallel":1}}}`, ""},
		{"machines, limit goes", &oneByOne, demo(), "max-parallel", []string{"machines that may join at once: 1 -> 0"},
			`{"spec":{"joins":{"maxParallel":7}}}`, ""},
		{"machines, repair", &oneByOne, repaired, "auto-repair", []string{"broken machines are replaced"}, `{"spec":{"enableAutorepair":true}}`,
			""},
		{"machines, repair goes", &machines, demo(), "auto-repair", []string{"broken machines are no longer replaced"},
			`{"spec":{"enableAutorepair":false}}`, ""},
		{"another version of etcd", &apart, with(func(c *Cluster) { c.EtcdVersion = "3.6.16" }), "etcd-version",
			[]string{"version of etcd: 3.5.35 -> 3.6.16"}, `{"spec":{"version":"3.6.16"}}`, ""},
		{"more machines of etcd", &apart, with(func(c *Cluster) { c.Etcd = 5 }), "etcd", []string{"machines of etcd: 3 -> 5"},
			`{"spec":{"replicas":5}}`, ""},
		{"etcd stays", &apart, demo(), "", nil, "", ""},
		{"etcd goes", &apart, demo(), "etcd", nil, "", `invalid --etcd "0": must be 1, 3, 5 or 7: cluster demo has etcd on machines of its own`},
		{"etcd comes", new(demo()), apart, "etcd etcd-version", nil, "", "cluster demo has its etcd on the machines of the control plane"},
		{"a version of stacked etcd", new(demo()), with(func(c *Cluster) { c.EtcdVersion = "3.6.16" }), "etcd-version", nil, "",
			`--etcd-version is "3.6.16", and cluster demo has its etcd on the machines of the control plane, where it comes with ` +
				`--kubernetes-version`},
		{"a version of etcd, and no machines for it", nil, with(func(c *Cluster) { c.EtcdVersion = "3.6.16" }), "etcd-version", nil, "",
			"cannot be combined with --etcd 0: it needs etcd on machines of its own, such as --etcd 3"},
		{"another kind", new(demo()), machines, "kind", nil, "",
			"--kind is ControlPlane and cluster demo has a KubeadmControlPlane: a control plane does not change its kind"},
		{"back to the other kind", &machines, demo(), "kind", nil, "", "--kind is KubeadmControlPlane and cluster demo has a ControlPlane"},
		{"its addresses stay", &six, demo(), "", nil, "", ""},
		{"the same addresses", &six, six, "ip-family", nil, "", ""},
		{"other addresses", &six, with(func(c *Cluster) { c.IPFamily = Dual }), "ip-family", nil, "",
			`invalid --ip-family "dual": cluster demo has ipv6, and addresses cannot be changed`},
		{"IPv6 comes", new(demo()), six, "ip-family", nil, "", `invalid --ip-family "ipv6": cluster demo has ipv4`},
		{"IPv4 comes", new(with(func(c *Cluster) { c.IPFamily = Dual })), with(func(c *Cluster) { c.IPFamily = IPv4 }), "ip-family", nil, "",
			`invalid --ip-family "ipv4": cluster demo has dual`},
		{"backups come", new(demo()), backedUp, "backup", []string{"schedule of backups: none -> @hourly"},
			`{"spec":{"backup":{"encryption":{"recipients":["age1x"]},"retention":{"last":7},"schedule":"@hourly",` +
				`"storeRef":{"name":"host"}}}}`, ""},
		{"backups do not come by themselves", new(demo()), with(daily), "", nil, "", ""},
		{"backups stay", &backedUp, with(daily), "", nil, "", ""},
		{"backups at other times", &backedUp, with(daily), "backup", []string{"schedule of backups: @hourly -> @daily"},
			`{"spec":{"backup":{"schedule":"@daily"}}}`, ""},
		{"the same backups", &backedUp, with(hourly), "backup", nil, "", ""},
		{"backups end", &backedUp, with(off), "backup", []string{"schedule of backups: @hourly -> none"}, `{"spec":{"backup":null}}`, ""},
		{"no backups, again", new(demo()), with(off), "backup", nil, "", ""},
		{"backups of etcd apart", &apartBackedUp, with(func(c *Cluster) { c.Etcd = 3; daily(c) }), "backup",
			[]string{"schedule of backups: @hourly -> @daily"}, `{"spec":{"backup":{"schedule":"@daily"}}}`, ""},
		{"backups of etcd apart stay", &apartBackedUp, with(daily), "", nil, "", ""},
		{"other domains", &old, demo(), "failure-domains", nil, "", `--failure-domains is "a,b,c" and cluster demo has "x"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var existing []*unstructured.Unstructured
			if tt.has != nil {
				existing = objectsOf(t, *tt.has)
			}
			given := strings.Fields(tt.given)
			steps, err := tt.wants.Steps(existing, func(flag string) bool { return slices.Contains(given, flag) })
			expectError(t, err, tt.refuse)
			var got []string
			for _, s := range steps {
				got = append(got, s.What)
			}
			if !slices.Equal(got, tt.steps) {
				t.Errorf("steps are %q, want %q", got, tt.steps)
			}
			if tt.patch != "" {
				raw, _ := json.Marshal(steps[0].Patch)
				if string(raw) != tt.patch {
					t.Errorf("patch is %s, want %s", raw, tt.patch)
				}
			}
		})
	}
}

// What an interrupted `up` left is completed, and what it adopted is what is made.
func TestStepsCompleteWhatWasBegun(t *testing.T) {
	has := demo()
	has.FailureDomains = []string{"x", "y"}
	steps, err := demo().Steps(objectsOf(t, has)[:2], func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps[1].Object.GetKind() != "KubeadmControlPlane" {
		t.Errorf("steps are %v", steps)
	}
}

// What is added to a cluster fits what it has, not the flags' defaults.
func TestStepsFitWhatIsThere(t *testing.T) {
	has := demo()
	has.Version = "v1.36.3"
	wants := demo()
	wants.Workers = 1
	steps, err := wants.Steps(objectsOf(t, has), func(flag string) bool { return flag == "workers" })
	if err != nil || len(steps) != 3 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	version, _, _ := unstructured.NestedString(steps[2].Object.Object, "spec", "template", "spec", "version")
	if version != "v1.36.3" {
		t.Errorf("workers are of version %q, the cluster is of v1.36.3", version)
	}
	// Without flags, workers that are there are workers that are wanted.
	all := objectsOf(t, wants)
	steps, err = demo().Steps(append(all[:5:5], all[6]), func(string) bool { return false })
	if err != nil || len(steps) != 1 || steps[0].Object.GetKind() != "KubeadmConfigTemplate" {
		t.Errorf("steps are %v, %v", steps, err)
	}
}

func TestStepsRefuseWhatGoesAway(t *testing.T) {
	existing := objectsOf(t, demo())
	now := metav1.NewTime(time.Unix(1, 0))
	existing[3].SetDeletionTimestamp(&now)
	_, err := demo().Steps(existing, func(string) bool { return false })
	expectError(t, err, "KubeadmControlPlane demo-cp is still being deleted")
}

func TestStepsRefuseAForeignCluster(t *testing.T) {
	existing := objectsOf(t, demo())[:1]
	if err := unstructured.SetNestedField(existing[0].Object, "theirs", "spec", "controlPlaneRef", "name"); err != nil {
		t.Fatal(err)
	}
	_, err := demo().Steps(existing, func(string) bool { return false })
	expectError(t, err, `name "demo" is in use by a cluster that was not made by`)
}

// Of a ControlPlane that the user's manifests made, what is left out has the defaults of its kind.
func TestStepsKnowTheDefaultsOfAControlPlane(t *testing.T) {
	has := demo()
	has.Kind = ControlPlane
	existing := objectsOf(t, has)
	spec, _, _ := unstructured.NestedMap(existing[4].Object, "spec")
	delete(spec, "joins")
	delete(spec, "enableAutorepair")
	existing[4].Object["spec"] = spec
	for flag, change := range map[string]func(*Cluster){
		"max-parallel": func(c *Cluster) { c.MaxParallel = 1 },
		"auto-repair":  func(c *Cluster) { c.AutoRepair = true },
	} {
		wants := demo()
		change(&wants)
		steps, err := wants.Steps(existing, func(f string) bool { return f == flag })
		if err != nil || len(steps) > 0 {
			t.Errorf("%s: steps are %v, %v", flag, steps, err)
		}
	}
}

// All are read before anything is changed, and deleted after the cluster: those of each kind, and each once.
func TestAll(t *testing.T) {
	objects, err := demo().All()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, nameOf(o))
	}
	want := []string{
		"Cluster demo", "LocalCluster demo", "LocalMachineTemplate demo-cp", "LocalMachineTemplate demo-etcd", "EtcdCluster demo-etcd",
		"KubeadmControlPlane demo-cp",
		"LocalMachineTemplate demo-workers", "KubeadmConfigTemplate demo-workers", "MachineDeployment demo-workers",
		"KubeadmConfigTemplate demo-cp", "ControlPlane demo-cp",
	}
	if !slices.Equal(got, want) {
		t.Errorf("objects are %q, want %q", got, want)
	}
}
