package extension

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

func newClient(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), bootstrapv1.AddToScheme(scheme), upgradev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&upgradev1.NodeUpgrade{}).WithObjects(objects...).Build()
}

// machineObject is a Machine of the cluster "c" that is being updated to a version.
func machineObject(name, version string, controlPlane bool) *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{clusterv1.ClusterNameLabel: "c"},
			Annotations: map[string]string{clusterv1.UpdateInProgressAnnotation: "", runtimev1.PendingHooksAnnotation: "Other,UpdateMachine"},
		},
		Spec: clusterv1.MachineSpec{ClusterName: "c", Version: version,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{Kind: "KubeadmConfig", Name: name}}},
	}
	if controlPlane {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	return m
}

func configObject(name string) *bootstrapv1.KubeadmConfig {
	return &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Annotations: map[string]string{clusterv1.UpdateInProgressAnnotation: ""},
	}}
}

// updater asks an extension to update the Machine "m".
type updater struct {
	*testing.T
	client  client.WithWatch
	version string
}

func (u updater) ask() *runtimehooksv1.UpdateMachineResponse {
	u.Helper()
	request, response := &runtimehooksv1.UpdateMachineRequest{}, &runtimehooksv1.UpdateMachineResponse{}
	request.Desired.Machine = clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"},
		Spec: clusterv1.MachineSpec{Version: u.version}}
	(&Extension{Client: u.client, APIReader: u.client}).UpdateMachine(u.Context(), request, response)
	return response
}

// waits expects that the update is under way.
func (u updater) waits(message string) {
	u.Helper()
	r := u.ask()
	if r.Status != runtimehooksv1.ResponseStatusSuccess || r.RetryAfterSeconds != retrySeconds || !strings.Contains(r.Message, message) {
		u.Fatalf("%+v, want a wait with %q", r, message)
	}
}

func (u updater) upgrades() []upgradev1.NodeUpgrade {
	u.Helper()
	var all upgradev1.NodeUpgradeList
	if err := u.client.List(u.Context(), &all); err != nil {
		u.Fatal(err)
	}
	return all.Items
}

// only returns the one NodeUpgrade that there must be.
func (u updater) only() *upgradev1.NodeUpgrade {
	u.Helper()
	all := u.upgrades()
	if len(all) != 1 {
		u.Fatalf("%d NodeUpgrades, want 1", len(all))
	}
	return &all[0]
}

// reports writes a NodeUpgrade's status.
func (u updater) reports(n *upgradev1.NodeUpgrade, reason, message string, change func(*upgradev1.NodeUpgradeStatus)) {
	u.Helper()
	n.Status.Conditions = append([]metav1.Condition{{Type: upgradev1.Progressing, Status: metav1.ConditionTrue, Reason: reason,
		Message: message, LastTransitionTime: metav1.Now()}}, n.Status.Conditions...)
	change(&n.Status)
	if err := u.client.Status().Update(u.Context(), n); err != nil {
		u.Fatal(err)
	}
	n.Status.Conditions = n.Status.Conditions[1:]
}

// TestUpdateMachine is the life of an update: made once, followed, failed, retried, done; then another version.
func TestUpdateMachine(t *testing.T) {
	machine, config := machineObject("m", "v1.36.3", true), configObject("m")
	other := machineObject("o", "v1.35.4", true)
	other.Annotations = nil
	worker := machineObject("w", "v1.36.3", false)
	u := updater{t, newClient(t, machine, config, other, worker), "v1.36.3"}
	u.waits("about to begin")
	u.waits("it has not begun")
	made := u.only()
	if s := made.Spec; s.Machine.Name != "m" || s.KubernetesVersion != "v1.36.3" || s.NodeType != upgradev1.ControlPlane ||
		!ptr.Deref(s.FirstNodeToBeUpgraded, false) {
		t.Errorf("made: %+v", s)
	}
	if !metav1.IsControlledBy(made, machine) || made.Labels[clusterv1.ClusterNameLabel] != "c" ||
		ptr.Deref(made.OwnerReferences[0].BlockOwnerDeletion, false) {
		t.Errorf("made: labels %v, owners %v", made.Labels, made.OwnerReferences)
	}

	u.reports(made, upgradev1.Running, "copying", func(s *upgradev1.NodeUpgradeStatus) {
		s.Attempts, s.Steps = ptr.To[int32](1), []string{"Copy", "Swap"}
		s.Conditions = append(s.Conditions, metav1.Condition{Type: "Copy", Status: metav1.ConditionTrue, Reason: "Done",
			LastTransitionTime: metav1.Now()})
	})
	u.waits("Running, step Swap (2 of 2): copying")
	u.reports(made, upgradev1.RolledBack, "the API server did not come up", func(s *upgradev1.NodeUpgradeStatus) { s.FailedStep = "Swap" })
	if r := u.ask(); r.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(r.Message, "did not come up") ||
		!strings.Contains(r.Message, "upgrade retry") || !strings.Contains(r.Message, "default/m") {
		t.Errorf("after a failure: %+v", r)
	}
	u.reports(made, upgradev1.Running, "again", func(s *upgradev1.NodeUpgradeStatus) { s.FailedStep = "" })
	u.waits("again")
	u.reports(made, upgradev1.Done, "", func(s *upgradev1.NodeUpgradeStatus) { s.Completed = ptr.To(true) })
	if r := u.ask(); r.Status != runtimehooksv1.ResponseStatusSuccess || r.RetryAfterSeconds != 0 {
		t.Errorf("when it is done: %+v", r)
	}

	// Arguments change: what was done before is forgotten, so that a return to it is an upgrade too.
	config.Spec.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To("2")}}
	if err := u.client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	u.waits("something else than what is wanted now")
	u.waits("about to begin")
	if again := u.only(); again.Name == made.Name {
		t.Errorf("both upgrades are called %s", made.Name)
	}
}

func TestUpdateMachineWorker(t *testing.T) {
	machine, before := machineObject("m", "v1.36.3", false), machineObject("o", "v1.35.4", true)
	before.Annotations = nil
	machine.Labels[clusterv1.WatchLabel] = "mine"
	machine.Annotations[upgradev1.DrainPolicyAnnotation] = "Required"
	u := updater{t, newClient(t, machine, before), "v1.36.3"} // its KubeadmConfig says nothing that counts
	u.waits("waits for control plane machine o")
	before.Spec.Version = "v1.36.3"
	if err := u.client.Update(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	u.waits("about to begin")
	if made := u.only(); made.Spec.NodeType != upgradev1.Worker || made.Spec.FirstNodeToBeUpgraded != nil ||
		made.Labels[clusterv1.WatchLabel] != "mine" || made.Spec.Drain.Policy != upgradev1.DrainRequired {
		t.Errorf("made: %+v, labels %v", made.Spec, made.Labels)
	}
}

// TestNobodyIsTrusted: whoever reaches the port can have done only what Cluster API has written already.
func TestNobodyIsTrusted(t *testing.T) {
	unmarked, notPending, unmarkedConfig := machineObject("m", "v1.36.3", true), machineObject("m", "v1.36.3", true), configObject("m")
	delete(unmarked.Annotations, clusterv1.UpdateInProgressAnnotation)
	notPending.Annotations[runtimev1.PendingHooksAnnotation] = "AnotherUpdateMachine"
	unmarkedConfig.Annotations = nil
	for name, c := range map[string]struct {
		machine *clusterv1.Machine
		config  *bootstrapv1.KubeadmConfig
		version string
		message string
	}{
		"a Machine that is not marked":     {notPending, configObject("m"), "v1.36.3", "not marked"},
		"a KubeadmConfig that is not":      {machineObject("m", "v1.36.3", true), unmarkedConfig, "v1.36.3", "not marked"},
		"a version that nobody wants":      {machineObject("m", "v1.35.4", true), configObject("m"), "v1.36.3", "out of date"},
		"a Machine whose update was ended": {unmarked, configObject("m"), "v1.36.2", "out of date"},
	} {
		t.Run(name, func(t *testing.T) {
			u := updater{t, newClient(t, c.machine, c.config), c.version}
			u.waits(c.message)
			if n := len(u.upgrades()); n != 0 {
				t.Errorf("%d NodeUpgrades were made", n)
			}
		})
	}
	u := updater{t, newClient(t), "v1.36.3"}
	if r := u.ask(); r.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(r.Message, "no such Machine") {
		t.Errorf("without a Machine: %+v", r)
	}
	u = updater{t, newClient(t, machineObject("m", "v1.36.3", true)), "v1.36.3"}
	if r := u.ask(); r.Status != runtimehooksv1.ResponseStatusFailure || !strings.Contains(r.Message, "KubeadmConfig m") {
		t.Errorf("without a KubeadmConfig: %+v", r)
	}
}

// TestObsoleteChangedMeanwhile: what has begun since it was looked at is not removed.
func TestObsoleteChangedMeanwhile(t *testing.T) {
	machine := machineObject("m", "v1.36.3", true)
	u := updater{t, newClient(t, machine, configObject("m")), "v1.36.3"}
	e := &Extension{Client: u.client, APIReader: u.client}
	u.waits("about to begin")
	s, err := e.observe(t.Context(), client.ObjectKeyFromObject(machine))
	if err != nil {
		t.Fatal(err)
	}
	made := u.only()
	u.reports(made, upgradev1.Running, "", func(*upgradev1.NodeUpgradeStatus) {})
	if err := e.remove(t.Context(), s, made.Name); err != nil {
		t.Fatal(err)
	}
	u.only()
	if s, err = e.observe(t.Context(), client.ObjectKeyFromObject(machine)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // that it is gone already is no error
		if err := e.remove(t.Context(), s, made.Name); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(u.upgrades()); n != 0 {
		t.Errorf("%d NodeUpgrades are left", n)
	}
}

func raw(t *testing.T, kind string, spec map[string]any) runtime.RawExtension {
	t.Helper()
	data, err := json.Marshal(map[string]any{"kind": kind, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}

func TestCanUpdateMachine(t *testing.T) {
	for _, c := range []struct {
		name       string
		annotation string
		setting    string
		file       string // of the desired KubeadmConfig: no change in place
		status     runtimehooksv1.ResponseStatus
		patched    bool
		message    string
	}{
		{name: "registered", status: "Success", patched: true},
		{name: "registered for nobody", setting: "Never", status: "Success", message: "policy Never"},
		{name: "asked for", setting: "Never", annotation: "Preferred", status: "Success", patched: true},
		{name: "declined", setting: "Preferred", annotation: "Never", status: "Success", message: "policy Never"},
		{name: "left to somebody else", annotation: "External", status: "Success", message: "policy External"},
		{name: "only", annotation: "Only", status: "Success", patched: true},
		{name: "not possible", annotation: "Preferred", file: "/a", status: "Success", patched: true, message: "KubeadmConfig: spec.files"},
		{name: "only, and not possible", annotation: "Only", file: "/a", status: "Failure", message: "spec.files; policy Only keeps it from " +
			"being replaced"},
		{name: "a policy that does not exist", annotation: "Sometimes", status: "Failure", message: `"Sometimes": it must be Never, Preferred, ` +
			`Only or External`},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := map[string]string{}
			if c.setting != "" {
				settings[PolicySetting] = c.setting
			}
			annotations := map[string]string{upgradev1.PolicyAnnotation: c.annotation}
			config := map[string]any{}
			if c.file != "" {
				config["files"] = []any{map[string]any{"path": c.file}}
			}
			one := &runtimehooksv1.CanUpdateMachineRequest{CommonRequest: runtimehooksv1.CommonRequest{Settings: settings}}
			one.Current.Machine.Spec.Version, one.Desired.Machine.Spec.Version = "v1.35.4", "v1.36.3"
			one.Desired.Machine.Annotations = annotations
			one.Current.BootstrapConfig, one.Desired.BootstrapConfig = raw(t, "KubeadmConfig", map[string]any{}), raw(t, "KubeadmConfig", config)
			answered := &runtimehooksv1.CanUpdateMachineResponse{}
			(&Extension{}).CanUpdateMachine(t.Context(), one, answered)
			expect(t, answered, c.status, c.message)
			if want := `{"spec":{"version":"v1.36.3"}}`; c.patched != (string(answered.MachinePatch.Patch) == want) ||
				c.patched != answered.MachinePatch.IsDefined() || answered.InfrastructureMachinePatch.IsDefined() {
				t.Errorf("patch %s, want it: %t", answered.MachinePatch.Patch, c.patched)
			}

			set := &runtimehooksv1.CanUpdateMachineSetRequest{CommonRequest: runtimehooksv1.CommonRequest{Settings: settings}}
			set.Current.MachineSet.Spec.Template.Spec.Version, set.Desired.MachineSet.Spec.Template.Spec.Version = "v1.35.4", "v1.36.3"
			set.Desired.MachineSet.Annotations = annotations
			template := func(spec map[string]any) map[string]any {
				return map[string]any{"template": map[string]any{"spec": spec}}
			}
			set.Current.BootstrapConfigTemplate = raw(t, "KubeadmConfigTemplate", template(map[string]any{}))
			set.Desired.BootstrapConfigTemplate = raw(t, "KubeadmConfigTemplate", template(config))
			all := &runtimehooksv1.CanUpdateMachineSetResponse{}
			(&Extension{}).CanUpdateMachineSet(t.Context(), set, all)
			expect(t, all, c.status, strings.ReplaceAll(c.message, "KubeadmConfig:", "KubeadmConfigTemplate:"))
			if want := `{"spec":{"template":{"spec":{"version":"v1.36.3"}}}}`; c.patched != (string(all.MachineSetPatch.Patch) == want) ||
				c.patched != all.MachineSetPatch.IsDefined() {
				t.Errorf("patch of the MachineSet %s, want it: %t", all.MachineSetPatch.Patch, c.patched)
			}
		})
	}
}

func expect(t *testing.T, r runtimehooksv1.ResponseObject, status runtimehooksv1.ResponseStatus, message string) {
	t.Helper()
	if r.GetStatus() != status || (r.GetMessage() == "") != (message == "") || !strings.Contains(r.GetMessage(), message) {
		t.Errorf("%s %q, want %s with %q", r.GetStatus(), r.GetMessage(), status, message)
	}
}

func TestOddRequests(t *testing.T) {
	for name, bad := range map[string]runtime.RawExtension{
		"no JSON": {Raw: []byte("{")}, "no object": {Raw: []byte(`{"kind":"KubeadmConfig","spec":3}`)},
	} {
		request, response := &runtimehooksv1.CanUpdateMachineRequest{}, &runtimehooksv1.CanUpdateMachineResponse{}
		request.Current.BootstrapConfig = bad
		(&Extension{}).CanUpdateMachine(context.Background(), request, response)
		if response.Status != runtimehooksv1.ResponseStatusFailure || response.Message == "" {
			t.Errorf("%s: %+v", name, response)
		}
		request, response = &runtimehooksv1.CanUpdateMachineRequest{}, &runtimehooksv1.CanUpdateMachineResponse{}
		request.Desired.InfrastructureMachine = bad
		(&Extension{}).CanUpdateMachine(context.Background(), request, response)
		if response.Status != runtimehooksv1.ResponseStatusFailure || response.Message == "" {
			t.Errorf("%s as infrastructure: %+v", name, response)
		}
	}
}
