package drift

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup"

// templated is a scene whose machine carries all that its template says.
func templated() scene {
	s := newScene(false)
	template := &s.Spec.MachineTemplate
	template.ObjectMeta = clusterv1.ObjectMeta{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"}}
	template.Spec.Taints = []clusterv1.MachineTaint{{Key: "gpu", Effect: "NoSchedule", Propagation: "Always"}}
	template.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Mine"}}
	template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr(int32(5))
	s.Machine.Machine.Annotations[hook] = ""
	s.write()
	return s
}

func (s *scene) inPlace() Changes { return InPlace(s.KubeadmControlPlane, "demo", s.Machine) }

// write does what a shell would.
func (s *scene) write() {
	c := s.inPlace()
	m := s.Machine.Machine
	m.Labels, m.Annotations = c.Machine.Metadata.Labels, c.Machine.Metadata.Annotations
	m.Spec.Deletion, m.Spec.Taints, m.Spec.ReadinessGates = c.Machine.Deletion, c.Machine.Taints, c.Machine.ReadinessGates
	s.Config.Labels, s.Config.Annotations = c.Config.Labels, c.Config.Annotations
	s.Infrastructure.SetLabels(c.Infrastructure.Labels)
	s.Infrastructure.SetAnnotations(c.Infrastructure.Annotations)
}

// carried is what would be on the three objects: M, C and I.
func carried(c Changes) map[string]bool {
	out := map[string]bool{}
	for object, metadata := range map[string]Metadata{"M": c.Machine.Metadata, "C": c.Config, "I": c.Infrastructure} {
		for _, list := range []map[string]string{metadata.Labels, metadata.Annotations} {
			for key, value := range list {
				out[object+" "+key+"="+value] = true
			}
		}
	}
	for _, taint := range c.Machine.Taints {
		out[strings.TrimSpace(fmt.Sprintf("taint %s=%s:%s %s", taint.Key, taint.Value, taint.Effect, taint.Propagation))] = true
	}
	for _, gate := range c.Machine.ReadinessGates {
		out[strings.TrimSpace("gate "+gate.ConditionType+" "+string(gate.Polarity))] = true
	}
	for name, seconds := range map[string]*int32{
		"drain": c.Machine.Deletion.NodeDrainTimeoutSeconds, "detach": c.Machine.Deletion.NodeVolumeDetachTimeoutSeconds,
		"deletion": c.Machine.Deletion.NodeDeletionTimeoutSeconds,
	} {
		if seconds != nil {
			out[fmt.Sprintf("%s %d", name, *seconds)] = true
		}
	}
	return out
}

// change is what one change of a scene does to what the objects carry.
type change struct {
	name   string
	change func(s *scene)
	want   string // + and - before each that is added and removed, sorted; empty: none differs.
}

// origins leaves the lists of keys out, which have a test of their own.
func origins(what string) bool { return strings.Contains(what, OriginAnnotation) }

func checkChanges(t *testing.T, rows []change) {
	t.Helper()
	for _, r := range rows {
		s := templated()
		before := carried(s.inPlace())
		r.change(&s)
		c := s.inPlace()
		after := carried(c)
		var got []string
		for what := range after {
			if !before[what] && !origins(what) {
				got = append(got, "+"+what)
			}
		}
		for what := range before {
			if !after[what] && !origins(what) {
				got = append(got, "-"+what)
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, ", "); text != r.want {
			t.Errorf("%s:\n  %s\nwant\n  %s", r.name, text, r.want)
		}
		if differs := c.Machine.Differs || c.Config.Differs || c.Infrastructure.Differs; differs != (r.want != "") {
			t.Errorf("%s: it differs: %t", r.name, differs)
		}
		s.write()
		if c := s.inPlace(); c.Machine.Differs || c.Machine.Metadata.Differs || c.Config.Differs || c.Infrastructure.Differs {
			t.Errorf("%s: it still differs once it is written: %+v", r.name, c)
		}
		if d := s.of(); d.Outdated() {
			t.Errorf("%s: it takes a new machine: %s", r.name, d)
		}
	}
}

func TestInPlace(t *testing.T) {
	checkChanges(t, []change{
		{"nothing changed", func(*scene) {}, ""},
		{"a label more", func(s *scene) { s.Spec.MachineTemplate.ObjectMeta.Labels["x"] = "y" }, "+C x=y, +I x=y, +M x=y"},
		{"a label changed", func(s *scene) { s.Spec.MachineTemplate.ObjectMeta.Labels["team"] = "z" },
			"+C team=z, +I team=z, +M team=z, -C team=a, -I team=a, -M team=a"},
		{"a label less", func(s *scene) { s.Spec.MachineTemplate.ObjectMeta.Labels = nil }, "-C team=a, -I team=a, -M team=a"},
		{"an annotation more", func(s *scene) { s.Spec.MachineTemplate.ObjectMeta.Annotations["x"] = "y" }, "+C x=y, +I x=y, +M x=y"},
		{"an annotation less", func(s *scene) { s.Spec.MachineTemplate.ObjectMeta.Annotations = nil }, "-C note=b, -I note=b, -M note=b"},
		{"the control plane's watch label", func(s *scene) { s.Labels = map[string]string{clusterv1.WatchLabel: "w"} },
			"+C cluster.x-k8s.io/watch-filter=w, +I cluster.x-k8s.io/watch-filter=w, +M cluster.x-k8s.io/watch-filter=w"},
		{"another taint", func(s *scene) { s.Spec.MachineTemplate.Spec.Taints[0].Key = "tpu" },
			"+taint tpu=:NoSchedule Always, -taint gpu=:NoSchedule Always"},
		{"a taint's value", func(s *scene) { s.Spec.MachineTemplate.Spec.Taints[0].Value = "v" },
			"+taint gpu=v:NoSchedule Always, -taint gpu=:NoSchedule Always"},
		{"a taint's effect", func(s *scene) { s.Spec.MachineTemplate.Spec.Taints[0].Effect = "NoExecute" },
			"+taint gpu=:NoExecute Always, -taint gpu=:NoSchedule Always"},
		{"no more taints", func(s *scene) { s.Spec.MachineTemplate.Spec.Taints = nil }, "-taint gpu=:NoSchedule Always"},
		{"another readiness gate", func(s *scene) { s.Spec.MachineTemplate.Spec.ReadinessGates[0].ConditionType = "Yours" },
			"+gate Yours, -gate Mine"},
		{"a readiness gate the other way", func(s *scene) { s.Spec.MachineTemplate.Spec.ReadinessGates[0].Polarity = "Negative" },
			"+gate Mine Negative, -gate Mine"},
		{"the drain's timeout", func(s *scene) { s.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = ptr(int32(6)) },
			"+drain 6, -drain 5"},
		{"no drain's timeout", func(s *scene) { s.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = nil }, "-drain 5"},
		{"the volumes' timeout", func(s *scene) { s.Spec.MachineTemplate.Spec.Deletion.NodeVolumeDetachTimeoutSeconds = ptr(int32(7)) },
			"+detach 7"},
		{"the node's timeout", func(s *scene) { s.Spec.MachineTemplate.Spec.Deletion.NodeDeletionTimeoutSeconds = ptr(int32(8)) },
			"+deletion 8, -deletion 10"},
		{"the node's timeout: default, written out",
			func(s *scene) { s.Spec.MachineTemplate.Spec.Deletion.NodeDeletionTimeoutSeconds = ptr(int32(10)) }, ""},
		{"the node's timeout: no webhook wrote the default", func(s *scene) { s.Machine.Machine.Spec.Deletion.NodeDeletionTimeoutSeconds = nil },
			""},
	})
}

// TestLostHook: the hook is put on again, but for a machine whose deletion has begun.
func TestLostHook(t *testing.T) {
	s := templated()
	delete(s.Machine.Machine.Annotations, hook)
	c := InPlace(s.KubeadmControlPlane, "demo", s.Machine).Machine
	if _, on := c.Metadata.Annotations[hook]; !on || !c.Differs {
		t.Errorf("the annotations become %v, differs %t", c.Metadata.Annotations, c.Differs)
	}
	s.Machine.Machine.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	c = InPlace(s.KubeadmControlPlane, "demo", s.Machine).Machine
	if _, on := c.Metadata.Annotations[hook]; on {
		t.Error("it is put on a machine that is being deleted")
	}
}

// TestNewMachine: of an empty machine it is what a new one is made with.
func TestNewMachine(t *testing.T) {
	s := templated()
	s.Spec.MachineTemplate.ObjectMeta.Labels[clusterv1.ClusterNameLabel] = "forged"
	s.Spec.MachineTemplate.ObjectMeta.Annotations[hook] = "forged"
	s.Spec.MachineTemplate.ObjectMeta.Annotations[controlplanev1.RemediationForAnnotation] = "forged"
	s.Spec.MachineTemplate.ObjectMeta.Annotations[OriginAnnotation] = "forged"
	s.Spec.MachineTemplate.Spec.ReadinessGates = append(s.Spec.MachineTemplate.Spec.ReadinessGates,
		clusterv1.MachineReadinessGate{ConditionType: "EtcdPodHealthy", Polarity: "Negative"})
	empty := Machine{Machine: &clusterv1.Machine{}, Config: &bootstrapv1.KubeadmConfig{}, Infrastructure: &unstructured.Unstructured{}}
	c := InPlace(s.KubeadmControlPlane, "demo", empty)
	labels := map[string]string{
		"team": "a", clusterv1.ClusterNameLabel: "demo", clusterv1.MachineControlPlaneLabel: "",
		clusterv1.MachineControlPlaneNameLabel: "demo-cp",
	}
	onMachine := map[string]string{"note": "b", hook: "",
		OriginAnnotation: `{"labels":["team"],"annotations":["note"],"taints":["gpu:NoSchedule"],"readinessGates":["EtcdPodHealthy","Mine"]}`}
	elsewhere := map[string]string{"note": "b", OriginAnnotation: `{"labels":["team"],"annotations":["note"]}`}
	for name, pair := range map[string][2]Metadata{
		"Machine":        {c.Machine.Metadata, {labels, onMachine, true}},
		"KubeadmConfig":  {c.Config, {labels, elsewhere, true}},
		"infrastructure": {c.Infrastructure, {labels, elsewhere, true}},
	} {
		got, want := pair[0], pair[1]
		if !maps.Equal(got.Labels, want.Labels) || !maps.Equal(got.Annotations, want.Annotations) || !got.Differs {
			t.Errorf("%s gets\n%v\nwant\n%v", name, got, want)
		}
	}
	if got, want := gates(c), "NodeKubeadmLabelsAndTaintsSet APIServerPodHealthy ControllerManagerPodHealthy SchedulerPodHealthy "+
		"EtcdPodHealthy EtcdMemberHealthy Mine"; got != want {
		t.Errorf("its gates are %s", got)
	}
	if !c.Machine.Differs {
		t.Error("an empty machine is as wanted")
	}
	s.cluster.Etcd.External.Endpoints = []string{"https://etcd:2379"}
	if got, want := gates(InPlace(s.KubeadmControlPlane, "demo", empty)),
		"NodeKubeadmLabelsAndTaintsSet APIServerPodHealthy ControllerManagerPodHealthy SchedulerPodHealthy Mine EtcdPodHealthy"; got != want {
		t.Errorf("with external etcd its gates are %s", got)
	}
	s.Name = strings.Repeat("x", 70)
	if name := InPlace(s.KubeadmControlPlane, "demo",
		empty).Machine.Metadata.Labels[clusterv1.MachineControlPlaneNameLabel]; !strings.HasPrefix(name, "hash_") {
		t.Errorf("a name that is too long for a label becomes %q", name)
	}
}

func gates(c Changes) string {
	var list []string
	for _, gate := range c.Machine.ReadinessGates {
		list = append(list, gate.ConditionType)
	}
	return strings.Join(list, " ")
}

// TestForOthers: what others wrote stays, and is no difference.
func TestForOthers(t *testing.T) {
	s := templated()
	m := s.Machine.Machine
	m.Labels["theirs"], m.Annotations["theirs"], s.Config.Labels["theirs"] = "1", "2", "3"
	m.Spec.Taints = append([]clusterv1.MachineTaint{{Key: "theirs", Effect: "NoExecute"}}, m.Spec.Taints...)
	m.Spec.ReadinessGates = append([]clusterv1.MachineReadinessGate{{ConditionType: "Theirs"}}, m.Spec.ReadinessGates...)
	if c := s.inPlace(); c.Machine.Differs || c.Config.Differs {
		t.Errorf("what others added is a difference: %+v", c)
	}
	s.Spec.MachineTemplate.ObjectMeta = clusterv1.ObjectMeta{}
	s.Spec.MachineTemplate.Spec.Taints, s.Spec.MachineTemplate.Spec.ReadinessGates = nil, nil
	after := carried(s.inPlace())
	for _, theirs := range []string{"M theirs=1", "M theirs=2", "C theirs=3", "taint theirs=:NoExecute", "gate Theirs"} {
		if !after[theirs] {
			t.Errorf("%s was lost: %v", theirs, slices.Sorted(maps.Keys(after)))
		}
	}
	for _, ours := range []string{"M team=a", "C note=b", "gate Mine", "taint gpu=:NoSchedule Always"} {
		if after[ours] {
			t.Errorf("%s is still there", ours)
		}
	}
	for what := range after {
		if origins(what) {
			t.Errorf("%s lists nothing and is still there", what)
		}
	}
}

// TestOrigin: what leaves the template is removed where it is known that it came
// from there, and only there.
func TestOrigin(t *testing.T) {
	for _, test := range []struct {
		name, origin string
		lost         string
	}{
		{"not known", "", ""},
		{"not readable", "{", ""},
		{"half readable", `{"labels":["team"],"annotations":3}`, ""},
		{"label", `{"labels":["team"]}`, "M team=a"},
		{"annotation", `{"annotations":["note"]}`, "M note=b"},
		{"taint", `{"taints":["gpu:NoSchedule"]}`, "taint gpu=:NoSchedule Always"},
		{"taint of another effect", `{"taints":["gpu:NoExecute"]}`, ""},
		{"gate", `{"readinessGates":["Mine"]}`, "gate Mine"},
		{"what is never removed", `{"annotations":["` + hook + `","` + controlplanev1.RemediationForAnnotation +
			`"],"labels":["cluster.x-k8s.io/cluster-name"]}`, ""},
	} {
		s := templated()
		s.Machine.Machine.Annotations[controlplanev1.RemediationForAnnotation] = "x"
		before := carried(s.inPlace())
		s.Spec.MachineTemplate.ObjectMeta = clusterv1.ObjectMeta{}
		s.Spec.MachineTemplate.Spec.Taints, s.Spec.MachineTemplate.Spec.ReadinessGates = nil, nil
		s.Machine.Machine.Annotations[OriginAnnotation] = test.origin
		after := carried(s.inPlace())
		var lost []string
		for what := range before {
			if !after[what] && !origins(what) && !strings.HasPrefix(what, "C ") && !strings.HasPrefix(what, "I ") {
				lost = append(lost, what)
			}
		}
		if got := strings.Join(lost, ", "); got != test.lost {
			t.Errorf("%s: lost is %q, want %q", test.name, got, test.lost)
		}
	}
	s := templated()
	delete(s.Machine.Machine.Annotations, OriginAnnotation)
	if c := s.inPlace(); !c.Machine.Differs || !c.Machine.Metadata.Differs || c.Machine.Metadata.Annotations[OriginAnnotation] == "" {
		t.Errorf("a machine without its origin does not get it: %+v", c.Machine.Metadata)
	}
}

// TestEtcdElsewhere: a machine made with etcd's gates loses them when etcd is external.
func TestEtcdElsewhere(t *testing.T) {
	s := templated()
	s.cluster.Etcd.External.Endpoints = []string{"https://etcd:2379"}
	c := s.inPlace()
	if got := gates(c); strings.Contains(got, "Etcd") || !c.Machine.Differs || c.Machine.Metadata.Differs {
		t.Errorf("its gates are %s; it differs: %t", got, c.Machine.Differs)
	}
}

// TestDeleting: a machine that is being deleted gets timeouts and taints, and
// nothing else is touched.
func TestDeleting(t *testing.T) {
	s := templated()
	s.Machine.Machine.DeletionTimestamp = ptr(metav1.NewTime(now))
	labels, annotations := maps.Clone(s.Machine.Machine.Labels), maps.Clone(s.Machine.Machine.Annotations)
	s.Spec.MachineTemplate.ObjectMeta.Labels["x"] = "y"
	s.Spec.MachineTemplate.Spec.ReadinessGates = nil
	c := s.inPlace()
	if c.Machine.Differs || c.Config.Differs || c.Infrastructure.Differs || c.Config.Labels != nil {
		t.Errorf("labels and gates differ: %+v", c)
	}
	s.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = ptr(int32(1))
	s.Spec.MachineTemplate.Spec.Taints = nil
	c = s.inPlace()
	if !c.Machine.Differs || *c.Machine.Deletion.NodeDrainTimeoutSeconds != 1 || len(c.Machine.Taints) != 0 ||
		!strings.HasSuffix(gates(c), "Mine") {
		t.Errorf("the machine gets %+v", c.Machine)
	}
	if !maps.Equal(c.Machine.Metadata.Labels, labels) || !maps.Equal(c.Machine.Metadata.Annotations, annotations) ||
		c.Machine.Metadata.Differs {
		t.Errorf("its metadata become %+v", c.Machine.Metadata)
	}
}

// TestNotKnown: objects that are not known get nothing.
func TestNotKnown(t *testing.T) {
	s := templated()
	s.Config, s.Infrastructure = nil, nil
	if c := s.inPlace(); c.Machine.Differs || c.Config.Labels != nil || c.Infrastructure.Annotations != nil {
		t.Errorf("it says %+v", c)
	}
}

// TestOwnMaps: who writes into what is returned changes neither control plane nor machine.
func TestOwnMaps(t *testing.T) {
	s := templated()
	c := s.inPlace()
	c.Machine.Metadata.Labels["x"], c.Config.Annotations["x"] = "", ""
	*c.Machine.Deletion.NodeDrainTimeoutSeconds, c.Machine.Taints[0].Key, c.Machine.ReadinessGates[6].ConditionType = 99, "x", "x"
	if c := s.inPlace(); c.Machine.Differs || c.Config.Differs || c.Machine.Taints[0].Key != "gpu" ||
		*c.Machine.Deletion.NodeDrainTimeoutSeconds != 5 || !strings.HasSuffix(gates(c), "Mine") {
		t.Errorf("what was returned is not a copy: %+v", c)
	}
}
