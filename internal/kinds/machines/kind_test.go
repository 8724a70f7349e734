package machines

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// grown is a world in which three machines are there, one after the other.
func grown(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, testControlPlane())
	w.view.Reachable = true
	if p := w.settle(); p.Reason != "Initializing" {
		t.Fatalf("an API server answers, and no machine has a Node: %+v", p)
	}
	for i := 1; i <= 3; i++ {
		if p := w.settle(); len(w.machines()) != i {
			t.Fatalf("%d machines are there, and made are %v: %+v", i-1, w.machines(), p)
		}
		w.join(fmt.Sprintf("cp-%d", i))
	}
	if p := w.settle(); p.Reason != "AsWanted" {
		t.Fatalf("with three machines: %+v", p)
	}
	return w
}

// TestLife: machines are made one after the other from the templates, and the control plane is told of.
func TestLife(t *testing.T) {
	w := grown(t)
	cp := w.controlPlane()
	for _, name := range []string{"demo-ca", "demo-etcd", "demo-sa", "demo-proxy", "demo-kubeconfig"} {
		secret := &corev1.Secret{}
		if w.get(name, secret); !metav1.IsControlledBy(secret, cp) {
			t.Errorf("secret %s is owned by %v: it would go with whoever that is", name, secret.OwnerReferences)
		}
	}
	for _, name := range w.machines() {
		m, config, local := &clusterv1.Machine{}, &bootstrapv1.KubeadmConfig{}, &infrav1.LocalMachine{}
		w.get(name, m)
		w.get(name, config)
		w.get(name, local)
		if !metav1.IsControlledBy(m, cp) || m.Spec.Bootstrap.ConfigRef.Kind != "KubeadmConfig" || m.Spec.Version != "v1.36.3" ||
			m.Spec.InfrastructureRef.Name != name {
			t.Errorf("Machine %s is %+v", name, m.Spec)
		}
		for _, o := range []client.Object{m, config, local} {
			if _, controls := o.GetLabels()[clusterv1.MachineControlPlaneLabel]; !controls ||
				o.GetLabels()[clusterv1.MachineControlPlaneNameLabel] != "cp" {
				t.Errorf("%T %s has the labels %v", o, name, o.GetLabels())
			}
		}
		if !machine.HasHook(m) {
			t.Errorf("nothing holds Machine %s until its member is gone", name)
		}
	}
	check := &clusterv1.MachineHealthCheck{}
	if w.get("cp", check); check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo.IntValue() != 1 {
		t.Errorf("of three machines %v may be unhealthy", check.Spec.Remediation.TriggerIf)
	}
	status := cp.Status
	if !ptr.Deref(status.Initialization.ControlPlaneInitialized, false) || *status.Replicas != 3 || *status.UpdatedReplicas != 3 ||
		status.Version != "v1.36.3" || *status.UnavailableReplicas != 3 {
		t.Errorf("the status is %+v", status)
	}
	for _, kind := range []string{"Available", "EtcdClusterHealthy", "ControlPlaneComponentsHealthy", "MachinesUpToDate"} {
		if !conditions.IsTrue(cp, kind) {
			t.Errorf("%s is %+v", kind, conditions.Get(cp, kind))
		}
	}
	w.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.EnableAutorepair = ptr.To(false) })
	w.settle()
	if err := w.client.Get(t.Context(), key, check); !apierrors.IsNotFound(err) {
		t.Errorf("nobody wants machines to be repaired, and there is a health check: %v", err)
	}
}

// TestSickNodeHoldsScaling: while a Node is not ready nothing is scaled, and the wait names the machine.
func TestSickNodeHoldsScaling(t *testing.T) {
	for _, to := range []int32{1, 5} {
		w := grown(t)
		w.ready("cp-2", corev1.ConditionFalse)
		w.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.Replicas = &to })
		p := w.settle()
		if len(w.machines()) != 3 || !strings.Contains(p.Message, "cp-2") {
			t.Errorf("to %d: machines are %v, and told is %+v", to, w.machines(), p)
		}
		w.ready("cp-2", corev1.ConditionTrue)
		if w.turn(); to == 5 && len(w.machines()) != 4 {
			t.Errorf("to %d: machines are %v when all Nodes are ready", to, w.machines())
		}
	}
}

// TestChangedTemplate: another template replaces the machines, one more at most.
func TestChangedTemplate(t *testing.T) {
	w := grown(t)
	larger := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "larger"}}
	if err := w.client.Create(t.Context(), larger); err != nil {
		t.Fatal(err)
	}
	w.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "larger" })
	w.settle()
	if got := w.machines(); len(got) != 4 {
		t.Fatalf("machines are %v", got)
	}
	if c := conditions.Get(w.controlPlane(), "MachinesUpToDate"); c.Status != metav1.ConditionFalse ||
		!strings.Contains(c.Message, "infrastructureRef") {
		t.Errorf("told is %+v", c)
	}
}

// TestAsked: a machine that a person named is replaced, a new one first.
func TestAsked(t *testing.T) {
	w := grown(t)
	w.change(func(cp *v1alpha1.ControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, v1beta2.ReplaceAnnotation, "cp-2="+time.Now().UTC().Format(time.RFC3339))
	})
	w.settle()
	if got := w.machines(); len(got) != 4 {
		t.Fatalf("machines are %v", got)
	}
	w.join("cp-4")
	w.settle()
	for _, name := range w.machines() {
		m := &clusterv1.Machine{}
		if w.get(name, m); m.DeletionTimestamp.IsZero() == (name == "cp-2") {
			t.Errorf("%s: deleted %v", name, m.DeletionTimestamp)
		}
	}
}

// TestVersionChange: before a machine of another version joins, kubeadm's own configuration in the cluster is for that version.
func TestVersionChange(t *testing.T) {
	w := grown(t)
	w.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.Version = "v1.36.4" })
	w.settle()
	if got := w.machines(); len(got) != 4 || w.files[observe.ChorePermissions] != "v1.36.4" ||
		w.files[observe.ChoreKubeadmConfig] != "v1.36.4" || w.files[observe.ChoreAddons] != "v1.36.3" {
		t.Errorf("machines are %v, kubeadm's files are of %v", got, w.files)
	}
	newest := &clusterv1.Machine{}
	w.get("cp-4", newest)
	if newest.Spec.Version != "v1.36.4" {
		t.Errorf("the new machine has version %s", newest.Spec.Version)
	}
}

// TestVersionOfOthers: where kubeadm does not make the machines, nothing of its is looked for or written.
func TestVersionOfOthers(t *testing.T) {
	cp := testControlPlane()
	cp.Spec.MachineTemplate.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{}
	cp.Spec.MachineTemplate.Spec.Bootstrap.DataSecretName = ptr.To("")
	w := newWorld(t, cp)
	w.files = nil
	w.settle()
	w.view.Reachable = true
	w.join("cp-1")
	if p := w.settle(); strings.HasPrefix(p.Step, "Write") || w.files != nil {
		t.Errorf("told is %+v, written %v", p, w.files)
	}
}

// TestSecretsOfOthersAfterRest: the secrets of another bootstrap provider are believed for an hour at rest, and are read again before
// anything is done.
func TestSecretsOfOthersAfterRest(t *testing.T) {
	cp := testControlPlane()
	cp.Spec.Replicas = ptr.To(int32(1))
	cp.Spec.MachineTemplate.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{}
	cp.Spec.MachineTemplate.Spec.Bootstrap.DataSecretName = ptr.To("")
	w := newWorld(t, cp, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-kubeconfig"}})
	w.settle()
	w.view.Reachable = true
	w.join("cp-1")
	if p := w.settle(); p.Reason != "AsWanted" {
		t.Fatalf("with its machine: %+v", p)
	}
	m := memoryOf(w.c.Memories.Of(key))
	before := time.Now().Add(-2 * observe.SlowTime)
	m.read = before
	if w.settle(); !m.read.Equal(before) {
		t.Error("they are read at rest")
	}
	w.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.Replicas = ptr.To(int32(2)) })
	if w.settle(); len(w.machines()) != 2 || m.read.Equal(before) {
		t.Errorf("machines are %v, and the secrets were read %s before", w.machines(), time.Since(m.read))
	}
}

// TestInline: an infrastructure machine that is given inline needs no template, and another value replaces the machines.
func TestInline(t *testing.T) {
	cp := testControlPlane()
	cp.Spec.Replicas = ptr.To(int32(1))
	cp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
	value := func(cpu string) *runtime.RawExtension {
		return &runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1alpha1","kind":"LocalMachine",` +
			`"metadata":{"labels":{"mine":"yes"}},"spec":{"resources":{"cpu":"` + cpu + `"}}}`)}
	}
	cp.Spec.ProviderSpec.Value = value("500m")
	w := newWorld(t, cp)
	w.settle()
	local := &infrav1.LocalMachine{}
	w.get("cp-1", local)
	if local.Labels["mine"] != "yes" || local.Labels[clusterv1.MachineControlPlaneNameLabel] != "cp" ||
		local.Annotations[drift.ProviderSpecAnnotation] == "" || local.Spec.Resources.CPU.String() != "500m" {
		t.Errorf("made %+v", local)
	}
	w.join("cp-1")
	if p := w.settle(); p.Reason != "AsWanted" {
		t.Fatalf("with its machine: %+v", p)
	}
	w.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.ProviderSpec.Value = value("750m") })
	if w.settle(); len(w.machines()) != 2 {
		t.Errorf("another value, and machines are %v", w.machines())
	}
}

// uncontrolled is a machine that somebody made by hand.
func uncontrolled(name string, labels map[string]string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	for k, v := range labels {
		m.Labels[k] = v
	}
	m.Spec.ClusterName, m.Spec.Version = "demo", "v1.36.3"
	m.Spec.Bootstrap.DataSecretName = ptr.To("")
	return m
}

// TestInactive: whoever would adopt machines tells so, and does nothing until it is activated.
func TestInactive(t *testing.T) {
	own := map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	w := newWorld(t, testControlPlane(), uncontrolled("mine", own), uncontrolled("worker", nil))
	p := w.settle()
	m := &clusterv1.Machine{}
	if w.get("mine", m); p.Reason != "Inactive" || !strings.Contains(p.Message, "Adopt mine") || metav1.GetControllerOf(m) != nil {
		t.Fatalf("told %+v, and the machine is controlled by %v", p, metav1.GetControllerOf(m))
	}
	w.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.State = v1alpha1.StateActive })
	w.settle()
	if w.get("mine", m); !metav1.IsControlledBy(m, w.controlPlane()) {
		t.Errorf("it is active, and the machine is controlled by %v", metav1.GetControllerOf(m))
	}
	if w.get("worker", m); metav1.GetControllerOf(m) != nil {
		t.Error("a worker was adopted")
	}
	idle := testControlPlane()
	idle.Spec.State = v1alpha1.StateInactive
	w = newWorld(t, idle)
	if p := w.settle(); p.Reason != "Inactive" || len(w.machines()) > 0 {
		t.Errorf("it is inactive, and made %v: %+v", w.machines(), p)
	}
}

// TestLabelledMachine: a control plane that has acted goes on when somebody labels a Machine that nobody controls, also after all its
// machines are gone.
func TestLabelledMachine(t *testing.T) {
	w := grown(t)
	if err := w.client.Create(t.Context(), uncontrolled("foreign", map[string]string{clusterv1.MachineControlPlaneLabel: ""})); err != nil {
		t.Fatal(err)
	}
	if p := w.settle(); p.Reason == "Inactive" {
		t.Errorf("it has three machines, and is inactive: %+v", p)
	}
	cp := testControlPlane()
	cp.Annotations = map[string]string{v1beta2.LastMachineAnnotation: "1"}
	w = newWorld(t, cp, uncontrolled("foreign", map[string]string{clusterv1.MachineControlPlaneLabel: ""}))
	if p := w.settle(); p.Reason == "Inactive" {
		t.Errorf("it has made a machine, and is inactive: %+v", p)
	}
}

// TestSelector: a selector says which machines are adopted, and the label of control planes is put on them.
func TestSelector(t *testing.T) {
	cp := testControlPlane()
	cp.Spec.State = v1alpha1.StateActive
	cp.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "master"}}
	w := newWorld(t, cp, uncontrolled("mine", map[string]string{"role": "master"}),
		uncontrolled("other", map[string]string{clusterv1.MachineControlPlaneLabel: ""}))
	w.settle()
	m := &clusterv1.Machine{}
	if w.get("mine", m); !metav1.IsControlledBy(m, w.controlPlane()) || !machine.IsControlPlane(m) {
		t.Errorf("selected is %+v", m.ObjectMeta)
	}
	if w.get("other", m); metav1.GetControllerOf(m) != nil {
		t.Error("what is not selected was adopted")
	}
}

// TestStandalone: a control plane that no Cluster owns belongs to the one that its label names.
func TestStandalone(t *testing.T) {
	cp := testControlPlane()
	cp.OwnerReferences = nil
	w := newWorld(t, cp)
	if p := w.settle(); p.Reason != "NoCluster" {
		t.Fatalf("it belongs to nothing, and %+v", p)
	}
	w.change(func(cp *v1alpha1.ControlPlane) { cp.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"} })
	if w.settle(); len(w.machines()) != 1 {
		t.Errorf("machines are %v", w.machines())
	}
}

func TestManagement(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*v1alpha1.ControlPlane)
		managed bool
		want    v1alpha1.EtcdManagement
	}{
		{"kubeadm makes members", func(*v1alpha1.ControlPlane) {}, true, v1alpha1.EtcdManagementMembers},
		{"others may not", func(cp *v1alpha1.ControlPlane) { cp.Spec.MachineTemplate.Spec.Bootstrap = v1alpha1.BootstrapSpec{} }, false,
			v1alpha1.EtcdManagementNone},
		{"there was an authority", func(cp *v1alpha1.ControlPlane) {
			cp.Spec.MachineTemplate.Spec.Bootstrap = v1alpha1.BootstrapSpec{}
			cp.Annotations = map[string]string{ManagementAnnotation: "Members"}
		}, true, v1alpha1.EtcdManagementMembers},
		{"an operator", func(cp *v1alpha1.ControlPlane) { cp.Spec.Etcd.Management = v1alpha1.EtcdManagementOperator }, false,
			v1alpha1.EtcdManagementOperator},
		{"nobody, although kubeadm could", func(cp *v1alpha1.ControlPlane) { cp.Spec.Etcd.Management = v1alpha1.EtcdManagementNone }, false,
			v1alpha1.EtcdManagementNone},
	} {
		cp := testControlPlane()
		test.change(cp)
		if got, spec := management(cp), New().Spec(cp); got != test.want || (spec.Etcd == plan.EtcdOurs) != test.managed || !spec.HoldsQuorum {
			t.Errorf("%s: %s, %+v", test.name, got, spec)
		}
	}
}

// TestSpecRollout: how many machines are replaced in a day, and whether infrastructure that goes is waited for, is what the user says.
func TestSpecRollout(t *testing.T) {
	cp := testControlPlane()
	if got := New().Spec(cp).Policy; got.MaxReplacements != 0 || got.Overlap {
		t.Errorf("nothing is said, and it is %+v", got)
	}
	cp.Spec.Approval.MaxReplacementsPerDay, cp.Spec.Joins.Overlap = ptr.To(int32(3)), ptr.To(true)
	cp.Spec.Joins.TimeoutSeconds = ptr.To[int32](7200)
	cp.Spec.InPlace.Drain.Policy = v1beta2.InPlaceDrainRequired
	if got := New().Spec(cp).Drain; got.Policy != v1beta2.InPlaceDrainRequired {
		t.Errorf("%+v", got)
	}
	if got := New().Spec(cp).Policy; got.MemberAdd != 2*time.Hour || got.MaxReplacements != 3 || !got.Overlap {
		t.Errorf("it is %+v, want at most 3 and overlaps", got)
	}
}

// TestOtherBootstrap: of a cluster whose authorities somebody else keeps, an etcd authority is found, and stays found.
func TestOtherBootstrap(t *testing.T) {
	cp := testControlPlane()
	cp.Spec.MachineTemplate.Spec.Bootstrap = v1alpha1.BootstrapSpec{DataSecretName: ptr.To("join")}
	authority := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd"}}
	w := newWorld(t, cp, authority)
	if turn, _, err := w.c.Observe(t.Context(), w.controlPlane(), testCluster()); err != nil || !turn.Facts.Etcd.Ours() {
		t.Errorf("there is an authority, and members count as nobody's: %v", err)
	}
	if o, err := observe.Once(t.Context(), w.client, New(), key); err != nil || !o.Etcd.Ours() {
		t.Errorf("whoever looks once sees members as nobody's: %v", err)
	}
	w.settle()
	m := &clusterv1.Machine{}
	if w.get("cp-1", m); ptr.Deref(m.Spec.Bootstrap.DataSecretName, "") != "join" || m.Spec.Bootstrap.ConfigRef.IsDefined() {
		t.Errorf("made with %+v", m.Spec.Bootstrap)
	}
	if got := w.controlPlane().Annotations[ManagementAnnotation]; got != "Members" {
		t.Errorf("recorded is %q", got)
	}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo-ca"}, authority); !apierrors.IsNotFound(err) {
		t.Errorf("an authority was made for a provider that keeps its own: %v", err)
	}
	if err := w.client.Delete(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd"}}); err != nil {
		t.Fatal(err)
	}
	turn, _, err := w.c.Observe(t.Context(), w.controlPlane(), testCluster())
	if err != nil || !turn.Facts.Etcd.Ours() {
		t.Errorf("the secret is lost, and members count as nobody's: %v", err)
	}
}

// TestExternalEtcd: members that do not run on the machines cannot be kept there.
func TestExternalEtcd(t *testing.T) {
	w := newWorld(t, testControlPlane())
	template := &bootstrapv1.KubeadmConfigTemplate{}
	w.get("demo", template)
	template.Spec.Template.Spec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://etcd:2379"}
	if err := w.client.Update(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	p := w.settle()
	if status := w.controlPlane().Status; p.Reason != "EtcdManagementInvalid" || status.FailureReason != "EtcdManagementInvalid" ||
		!strings.Contains(ptr.Deref(status.FailureMessage, ""), "spec.etcd.management must be None") {
		t.Errorf("told %+v, and failed for %s", p, status.FailureReason)
	}
}

// TestMissingTemplate: the message names the field and what is missing.
func TestMissingTemplate(t *testing.T) {
	cp := testControlPlane()
	cp.Spec.MachineTemplate.Spec.Bootstrap.ConfigRef.Name = "nowhere"
	w := newWorld(t, cp)
	if p := w.settle(); len(w.machines()) > 0 ||
		!strings.Contains(p.Message, `spec.machineTemplate.spec.bootstrap.configRef: there is no KubeadmConfigTemplate "nowhere" in `+
			`namespace default`) {
		t.Errorf("told %+v, machines %v", p, w.machines())
	}
}

// TestOperator: while the operator does not say that etcd is healthy, nothing is scaled, with its words.
func TestOperator(t *testing.T) {
	says := func(status metav1.ConditionStatus, message string) *metav1.Condition {
		return &metav1.Condition{Type: "EtcdMembersAvailable", Status: status, Message: message}
	}
	for _, test := range []struct {
		name   string
		config *rest.Config
		said   *metav1.Condition
		failed error
		want   string
	}{
		{"healthy", &rest.Config{}, says(metav1.ConditionTrue, ""), nil, ""},
		{"not healthy", &rest.Config{}, says(metav1.ConditionFalse, "2 of 3 members are available"), nil,
			"Etcd cluster: condition EtcdMembersAvailable is False: 2 of 3 members are available"},
		{"no word", &rest.Config{}, nil, nil, "Etcd cluster has no condition EtcdMembersAvailable"},
		{"no answer", &rest.Config{}, nil, errors.New("refused"), "Etcd cluster could not be read: refused"},
		{"no connection", nil, says(metav1.ConditionTrue, ""), nil, "Etcd cluster is not known: the cluster was not reached yet"},
	} {
		w := grown(t)
		w.config, w.said, w.failed = test.config, test.said, test.failed
		w.c.Slots = observe.NewSlots(1)
		w.change(func(cp *v1alpha1.ControlPlane) {
			cp.Spec.Etcd.Management, cp.Spec.Replicas = v1alpha1.EtcdManagementOperator, ptr.To(int32(5))
		})
		p := w.settle()
		if reason := w.controlPlane().Status.FailureReason; reason != "" {
			t.Errorf("%s: what passes by itself is called a failure: %s", test.name, reason)
		}
		healthy := conditions.IsTrue(w.controlPlane(), "EtcdClusterHealthy")
		if grew := len(w.machines()) > 3; grew != (test.want == "") || healthy != grew || !strings.Contains(p.Message, test.want) {
			t.Errorf("%s: machines are %v, healthy %t, told %+v", test.name, w.machines(), healthy, p)
		}
	}
}

// TestNamesAreNewToTheCluster: after a backup of the management cluster was restored, only the cluster knows of the machines that came
// later.
func TestNamesAreNewToTheCluster(t *testing.T) {
	w := grown(t)
	w.join("cp-7")
	w.members = w.members[:3]
	w.settle()
	w.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.Replicas = ptr.To[int32](5) })
	w.settle()
	if got := w.machines(); !slices.Contains(got, "cp-8") {
		t.Errorf("there are %v, want cp-8 among them", got)
	}
}
