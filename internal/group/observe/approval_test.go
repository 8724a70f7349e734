package observe

import (
	"testing"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestRevision: another revision is wanted when machines are to be another way, and not when there are to be others of the same.
func TestRevision(t *testing.T) {
	of := func(change func(*controlplanev1.KubeadmControlPlane)) string {
		kcp := &controlplanev1.KubeadmControlPlane{}
		kcp.Spec.Version, kcp.Spec.Replicas = "v1.35.4", ptr.To[int32](3)
		change(kcp)
		revision, err := Revision(kcp)
		if err != nil || len(revision) != revisionLength {
			t.Fatalf("the revision is %q, %v", revision, err)
		}
		return revision
	}
	base := of(func(*controlplanev1.KubeadmControlPlane) {})
	for name, test := range map[string]struct {
		change func(*controlplanev1.KubeadmControlPlane)
		same   bool
	}{
		"replicas": {func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Replicas = ptr.To[int32](5) }, true},
		"approval": {func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Approval.Policy = controlplanev1.ApprovalRequired }, true},
		"backup": {func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.Backup = &controlplanev1.BackupSpec{Schedule: "@daily"}
		}, true},
		"annotation": {func(k *controlplanev1.KubeadmControlPlane) { k.Annotations = map[string]string{"a": "b"} }, true},
		"request": {func(k *controlplanev1.KubeadmControlPlane) {
			k.Annotations = map[string]string{controlplanev1.ReplaceAnnotation: "a=2026-11-23T04:05:06Z"}
		}, false},
		"empty request": {func(k *controlplanev1.KubeadmControlPlane) {
			k.Annotations = map[string]string{controlplanev1.ReplaceAnnotation: ""}
		}, true},
		"status":   {func(k *controlplanev1.KubeadmControlPlane) { k.Status.Version = "v1.35.4" }, true},
		"version":  {func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Version = "v1.36.3" }, false},
		"template": {func(k *controlplanev1.KubeadmControlPlane) { k.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "b" }, false},
		"policy":   {func(k *controlplanev1.KubeadmControlPlane) { k.Spec.InPlace.Policy = controlplanev1.InPlaceOnly }, false},
	} {
		if got := of(test.change); (got == base) != test.same {
			t.Errorf("%s: the revision is %s, and was %s", name, got, base)
		}
	}
}

// TestAddApproval: what is approved is the spec as it is, where an approval is asked for.
func TestAddApproval(t *testing.T) {
	kcp := &controlplanev1.KubeadmControlPlane{}
	kcp.Spec.Version = "v1.36.3"
	revision, err := Revision(kcp)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		policy   controlplanev1.ApprovalPolicy
		approved string
		want     string
	}{
		"not asked for":    {controlplanev1.ApprovalNone, "", ""},
		"not approved":     {controlplanev1.ApprovalRequired, "", revision},
		"another approved": {controlplanev1.ApprovalRequired, "0123456789ab", revision},
		"approved":         {controlplanev1.ApprovalRequired, revision, ""},
	} {
		kcp.Annotations = map[string]string{controlplanev1.ApprovedAnnotation: test.approved}
		turn := &Observer{View: &View{Object: kcp, Spec: Spec{Approval: controlplanev1.ApprovalSpec{Policy: test.policy}}}}
		wants{turn.View}.addApproval()
		if got := turn.Facts.Group.Unapproved; got != test.want {
			t.Errorf("%s: %q waits for an approval, want %q", name, got, test.want)
		}
	}
	if !NeedsApproval(controlplanev1.ApprovalSpec{Policy: controlplanev1.ApprovalRequired}) ||
		NeedsApproval(controlplanev1.ApprovalSpec{Policy: controlplanev1.ApprovalNone}) || NeedsApproval(controlplanev1.ApprovalSpec{}) {
		t.Error("approvals are asked for where they are not, or not where they are")
	}
}
