package drift

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// now is the moment at which machines are looked at; they were made a day before.
var now = time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// controlPlane is one with something in every part.
func controlPlane() *controlplanev1.KubeadmControlPlane {
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "demo-cp", Namespace: "default"}}
	kcp.Spec.Version = "v1.35.4"
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "LocalMachineTemplate", Name: "small",
	}
	node := bootstrapv1.NodeRegistrationOptions{
		Name:             "{{ ds.meta_data.local_hostname }}",
		KubeletExtraArgs: []bootstrapv1.Arg{{Name: "v", Value: ptr("2")}},
	}
	kcp.Spec.KubeadmConfigSpec = bootstrapv1.KubeadmConfigSpec{
		ClusterConfiguration: bootstrapv1.ClusterConfiguration{
			APIServer: bootstrapv1.APIServer{
				ExtraArgs: []bootstrapv1.Arg{{Name: "audit-log-path", Value: ptr("/var/log/audit")}, {Name: "profiling", Value: ptr("false")}},
				CertSANs:  []string{"a.example", "b.example"},
				ExtraEnvs: &[]bootstrapv1.EnvVar{{EnvVar: corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://me:hunter2@proxy"}}},
			},
		},
		InitConfiguration:   bootstrapv1.InitConfiguration{NodeRegistration: *node.DeepCopy()},
		JoinConfiguration:   bootstrapv1.JoinConfiguration{NodeRegistration: *node.DeepCopy()},
		Files:               []bootstrapv1.File{{Path: "/etc/a", Content: "hunter2", Owner: "root"}, {Path: "/etc/b", Content: "b"}},
		Users:               []bootstrapv1.User{{Name: "admin", Passwd: "hunter2"}, {Name: "guest"}},
		PreKubeadmCommands:  []string{"one", "two", "three"},
		PostKubeadmCommands: []string{"done"},
		Mounts:              []bootstrapv1.MountPoints{{"a", "/a"}, {"b", "/b"}},
		DiskSetup: bootstrapv1.DiskSetup{
			Partitions:  []bootstrapv1.Partition{{Device: "/dev/a"}, {Device: "/dev/b"}},
			Filesystems: []bootstrapv1.Filesystem{{Device: "/dev/a", Label: "a"}},
		},
		NTP: bootstrapv1.NTP{Servers: []string{"ntp1", "ntp2"}},
	}
	return kcp
}

// made returns a machine as a control plane makes it: by init or by join, with
// what the bootstrap provider fills in.
func made(kcp *controlplanev1.KubeadmControlPlane, byInit bool) Machine {
	spec := kcp.Spec.KubeadmConfigSpec.DeepCopy()
	if byInit {
		spec.JoinConfiguration = bootstrapv1.JoinConfiguration{}
		if spec.ClusterConfiguration.ControlPlaneEndpoint == "" {
			spec.ClusterConfiguration.ControlPlaneEndpoint = "10.0.0.1:6443"
		}
	} else {
		spec.InitConfiguration = bootstrapv1.InitConfiguration{}
		if spec.JoinConfiguration.ControlPlane == nil {
			spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
		}
		spec.JoinConfiguration.Discovery.BootstrapToken = bootstrapv1.BootstrapTokenDiscovery{
			Token: "abcdef.0123456789abcdef", APIServerEndpoint: "10.0.0.1:6443", CACertHashes: []string{"sha256:1"},
		}
	}
	infrastructure := &unstructured.Unstructured{Object: map[string]any{}}
	infrastructure.SetAnnotations(map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation:      "small",
		clusterv1.TemplateClonedFromGroupKindAnnotation: "LocalMachineTemplate.infrastructure.cluster.x-k8s.io",
	})
	return Machine{
		Machine: &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Name: "demo-cp-1", CreationTimestamp: metav1.NewTime(now.Add(-24 * time.Hour)),
				Annotations: map[string]string{}},
			Spec: clusterv1.MachineSpec{Version: kcp.Spec.Version},
		},
		Config:         &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: *spec},
		Infrastructure: infrastructure,
	}
}

// scene is a control plane, and a machine that it made before it was changed.
type scene struct {
	*controlplanev1.KubeadmControlPlane
	Machine
	want    *bootstrapv1.KubeadmConfigSpec // What the control plane wants.
	cluster *bootstrapv1.ClusterConfiguration
	was     *bootstrapv1.KubeadmConfigSpec // What the machine was made from.
}

func newScene(byInit bool) scene {
	kcp := controlPlane()
	m := made(kcp, byInit)
	want := &kcp.Spec.KubeadmConfigSpec
	return scene{kcp, m, want, &want.ClusterConfiguration, &m.Config.Spec}
}

func (s scene) of() Drift { return Of(s.KubeadmControlPlane, s.Machine, now) }

// row is one change of one field and what is said about it.
type row struct {
	name   string
	change func(s *scene)
	want   string // Empty: no difference.
}

func check(t *testing.T, byInit bool, rows []row) {
	t.Helper()
	for _, r := range rows {
		s := newScene(byInit)
		r.change(&s)
		got := s.of()
		if text := strings.ReplaceAll(got.String(), "spec.kubeadmConfigSpec", "S"); text != r.want {
			t.Errorf("%s:\n  said %q\n  want %q", r.name, text, r.want)
		}
		if got.Outdated() != (r.want != "") {
			t.Errorf("%s: outdated is %t", r.name, got.Outdated())
		}
	}
}

func TestVersion(t *testing.T) {
	check(t, false, []row{
		{"nothing changed", func(*scene) {}, ""},
		{"another version is wanted", func(s *scene) { s.Spec.Version = "v1.36.3" }, "spec.version: v1.35.4, wanted v1.36.3"},
		{"another build of the same version is wanted", func(s *scene) { s.Spec.Version = "v1.35.4+vendor.2" },
			"spec.version: v1.35.4, wanted v1.35.4+vendor.2"},
		{"only the v is missing on the machine", func(s *scene) { s.Machine.Machine.Spec.Version = "1.35.4" }, ""},
		{"only the v is missing on the control plane", func(s *scene) { s.Spec.Version = "1.35.4" }, ""},
		{"the machine has no version", func(s *scene) { s.Machine.Machine.Spec.Version = "" }, "spec.version: unset, wanted v1.35.4"},
	})
}

func TestTemplate(t *testing.T) {
	annotate := func(s *scene, key, value string) {
		annotations := s.Infrastructure.GetAnnotations()
		delete(annotations, key)
		if value != "" {
			annotations[key] = value
		}
		s.Infrastructure.SetAnnotations(annotations)
	}
	check(t, false, []row{
		{"another template is wanted", func(s *scene) { s.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "large" },
			"spec.machineTemplate.spec.infrastructureRef.name: small, wanted large"},
		{"a template of another kind is wanted", func(s *scene) { s.Spec.MachineTemplate.Spec.InfrastructureRef.Kind = "BigTemplate" },
			"spec.machineTemplate.spec.infrastructureRef.kind: LocalMachineTemplate.infrastructure.cluster.x-k8s.io, wanted " +
				"BigTemplate.infrastructure.cluster.x-k8s.io"},
		{"a template of another group is wanted", func(s *scene) { s.Spec.MachineTemplate.Spec.InfrastructureRef.APIGroup = "b" },
			"spec.machineTemplate.spec.infrastructureRef.kind: LocalMachineTemplate.infrastructure.cluster.x-k8s.io, wanted LocalMachineTemplate.b"},
		{"the infrastructure does not say from which template", func(s *scene) {
			annotate(s, clusterv1.TemplateClonedFromNameAnnotation, "")
			s.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "large"
		}, ""},
		{"the infrastructure does not say from which kind", func(s *scene) {
			annotate(s, clusterv1.TemplateClonedFromGroupKindAnnotation, "")
			s.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "large"
		}, ""},
		{"the infrastructure is not known", func(s *scene) {
			s.Infrastructure = nil
			s.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "large"
		}, ""},
	})
}

func TestDeadlines(t *testing.T) {
	born := now.Add(-24 * time.Hour)
	after := func(at time.Time) func(*scene) {
		return func(s *scene) { s.Spec.Rollout.After = metav1.NewTime(at) }
	}
	// The object is made again in another management cluster, or from a backup.
	moved := func(noted string, at time.Time) func(*scene) {
		return func(s *scene) {
			s.Spec.Rollout.After = metav1.NewTime(at)
			s.Machine.Machine.Annotations[controlplanev1.CreatedAnnotation] = noted
			s.Machine.Machine.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
		}
	}
	const overdue = "spec.rollout.after: made 2026-05-01T12:00:00Z, wanted made after "
	check(t, false, []row{
		{"after: passed an hour ago", after(now.Add(-time.Hour)), overdue + "2026-05-02T11:00:00Z"},
		{"after: a second after the machine was made", after(born.Add(time.Second)), overdue + "2026-05-01T12:00:01Z"},
		{"after: the second in which the machine was made", after(born), ""},
		{"after: before the machine was made", after(born.Add(-time.Hour)), ""},
		{"after: now", after(now), ""},
		{"after: still to come", after(now.Add(time.Hour)), ""},
		{"after: passed, and then the machine was moved", moved("2026-05-01T12:00:00Z", now.Add(-time.Hour)), overdue + "2026-05-02T11:00:00Z"},
		{"after: made afterwards, and then moved", moved("2026-05-02T11:00:00Z", now.Add(-time.Hour)), ""},
		{"after: moved, and what was noted is no time", moved("yesterday", now.Add(-time.Hour)), ""},
		{"after: in another time zone", after(now.Add(-time.Hour).In(time.FixedZone("", 7200))), overdue + "2026-05-02T11:00:00Z"},
	})

	day := 24 * time.Hour
	expiring := func(days int32, end time.Time, where ...func(s *scene) map[string]string) func(*scene) {
		return func(s *scene) {
			s.Spec.Rollout.Before.CertificatesExpiryDays = days
			for _, place := range where {
				place(s)[clusterv1.MachineCertificatesExpiryDateAnnotation] = end.Format(time.RFC3339)
			}
		}
	}
	onMachine := func(s *scene) map[string]string { return s.Machine.Machine.Annotations }
	onConfig := func(s *scene) map[string]string { return s.Config.Annotations }
	const soon = "spec.rollout.before.certificatesExpiryDays: certificates end "
	check(t, false, []row{
		{"before: the certificate ends a second too soon", expiring(30, now.Add(30*day-time.Second), onMachine),
			soon + "2026-06-01T11:59:59Z, wanted at least 30 days left"},
		{"before: the certificate has just enough", expiring(30, now.Add(30*day), onMachine), ""},
		{"before: the KubeadmConfig says it", expiring(30, now.Add(10*day), onConfig),
			soon + "2026-05-12T12:00:00Z, wanted at least 30 days left"},
		{"before: the end is not known", expiring(30, now), ""},
		{"before: no new machine's certificate would last so long", expiring(365, now.Add(364*day), onMachine), ""},
		{"before: a new machine's certificate would last a day longer", expiring(364, now.Add(363*day), onMachine),
			soon + "2027-04-30T12:00:00Z, wanted at least 364 days left"},
		{"before: nor with a validity of the user's", func(s *scene) {
			expiring(90, now.Add(10*day), onMachine)(s)
			s.Spec.KubeadmConfigSpec.ClusterConfiguration.CertificateValidityPeriodDays = 90
			s.cluster.CertificateValidityPeriodDays, s.was.ClusterConfiguration.CertificateValidityPeriodDays = 90, 90
		}, ""},
		{"before: it is not asked for", expiring(0, now.Add(-day), onMachine), ""},
		{"before: the Machine counts more than the KubeadmConfig", func(s *scene) {
			expiring(30, now.Add(90*day), onMachine)(s)
			expiring(30, now.Add(10*day), onConfig)(s)
		}, ""},
		{"before: what the Machine says cannot be read", func(s *scene) {
			expiring(30, now.Add(10*day), onConfig)(s)
			onMachine(s)[clusterv1.MachineCertificatesExpiryDateAnnotation] = "soon"
		}, soon + "2026-05-12T12:00:00Z, wanted at least 30 days left"},
		{"before: only the status says it, and the KubeadmConfig is not known", func(s *scene) {
			expiring(30, now)(s)
			s.Config = nil
			s.Machine.Machine.Status.CertificatesExpiryDate = metav1.NewTime(now.Add(10 * day))
		}, soon + "2026-05-12T12:00:00Z, wanted at least 30 days left"},
	})
}

// TestAsked: a machine is asked for that was made by the time of the request, and nothing of that can be changed in place.
func TestAsked(t *testing.T) {
	made := now.Add(-24 * time.Hour)
	m := func(noted string) Machine {
		object := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}}
		if noted != "" {
			object.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
			object.Annotations = map[string]string{controlplanev1.CreatedAnnotation: noted}
		}
		return Machine{Machine: object}
	}
	const as = "annotation quorate-replace: made 2026-05-01T12:00:00Z, wanted a machine made after "
	for name, test := range map[string]struct {
		noted string
		by    time.Time
		want  string
	}{
		"not asked":                    {"", time.Time{}, ""},
		"by when the machine was made": {"", made, as + "2026-05-01T12:00:00Z"},
		"before it was made":           {"", made.Add(-time.Second), ""},
		"now":                          {"", now, as + "2026-05-02T12:00:00Z"},
		"still to come":                {"", now.Add(time.Second), ""},
		"moved meanwhile":              {"2026-05-01T12:00:00Z", made, as + "2026-05-01T12:00:00Z"},
		"made again under the name, and then moved": {"2026-05-02T11:00:00Z", made, ""},
	} {
		d := Drift{Due: Asked(m(test.noted), test.by, now)}
		if got := d.String(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if d.Outdated() && (d.ReplacingText() != d.String() || !d.OnNode()) {
			t.Errorf("%s: it can be changed in place: %q", name, d.ReplacingText())
		}
	}
}

// TestTheOrder: version, template, configuration, deadlines.
func TestTheOrder(t *testing.T) {
	s := newScene(false)
	s.Spec.Version = "v1.36.3"
	s.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "large"
	s.want.Verbosity = ptr(int32(4))
	s.want.JoinConfiguration.SkipPhases = []string{"preflight"}
	s.cluster.CertificatesDir = "/pki"
	s.Spec.Rollout.After = metav1.NewTime(now.Add(-time.Hour))
	s.Spec.Rollout.Before.CertificatesExpiryDays = 7
	s.Config.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation] = now.Format(time.RFC3339)
	want := "version infrastructureRef.name clusterConfiguration.certificatesDir joinConfiguration.skipPhases[0] verbosity | after " +
		"certificatesExpiryDays"
	var got []string
	drift := s.of()
	for _, d := range drift.Reasons {
		got = append(got, d.Field)
	}
	got = append(got, "|")
	for _, d := range drift.Due {
		got = append(got, d.Field)
	}
	text := strings.Join(got, " ")
	for _, prefix := range []string{"spec.kubeadmConfigSpec.", "spec.machineTemplate.spec.", "spec.rollout.before.", "spec.rollout.",
		"spec."} {
		text = strings.ReplaceAll(text, prefix, "")
	}
	if text != want {
		t.Errorf("the order is\n  %s\nwant\n  %s", text, want)
	}
	if data, err := json.Marshal(Drift{}); string(data) != "{}" {
		t.Errorf("no drift as JSON: %s, %v", data, err)
	}
}

// TestNothingIsChanged: what is handed in stays as it is.
func TestNothingIsChanged(t *testing.T) {
	for _, byInit := range []bool{true, false} {
		s := newScene(byInit)
		s.want.JoinConfiguration.NodeRegistration.Name = "other"
		s.want.InitConfiguration.NodeRegistration.Name = "another"
		before, _ := json.Marshal([]any{s.KubeadmControlPlane, s.Machine})
		s.of()
		InPlace(s.KubeadmControlPlane, "demo", s.Machine)
		if after, _ := json.Marshal([]any{s.KubeadmControlPlane, s.Machine}); string(after) != string(before) {
			t.Errorf("comparing changed\n%s\ninto\n%s", before, after)
		}
	}
}
