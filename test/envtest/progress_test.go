package envtest

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

const (
	begunPatch = `{"metadata":{"annotations":{"backup.quorate.io/begun":"2026-01-01T00:00:00Z"}}}`
	recovery   = `
apiVersion: backup.quorate.io/v1alpha1
kind: EtcdRecovery
metadata: {name: demo, namespace: default}
spec: {clusterName: demo, backup: b, giveUp: [a], storeRef: {name: host}}
`
)

// reports are ways to say how far a recovery is.
var reports = []attempt{
	patching("a merge patch", types.MergePatchType, begunPatch),
	patching("another time", types.MergePatchType, strings.Replace(begunPatch, "2026", "2027", 1)),
	patching("a JSON patch", types.JSONPatchType,
		`[{"op":"add","path":"/metadata/annotations","value":{"backup.quorate.io/begun":"2026-02-01T00:00:00Z"}}]`),
	patching("the end", types.MergePatchType, strings.Replace(begunPatch, "begun", "ended", 1)),
	patching("a seed", types.MergePatchType, strings.Replace(begunPatch, "begun", "seed", 1)),
	patching("a backup that was taken", types.MergePatchType, strings.Replace(begunPatch, "begun", "taken", 1)),
	{"server-side apply", func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Patch(ctx, o,
			client.RawPatch(types.ApplyPatchType, header(o, `"annotations":{"backup.quorate.io/begun":"2026-03-01T00:00:00Z"}`)),
			client.FieldOwner("somebody"), client.ForceOwnership)
	}},
	patching("beside an approval", types.MergePatchType, `{"metadata":{"annotations":
		{"controlplane.cluster.x-k8s.io/quorate-approved":"a1b2","backup.quorate.io/begun":"2026-04-01T00:00:00Z"}}}`),
}

// TestRecoveryProgress: only the manager says how far a recovery is, not even who may approve it; others may change what else they may.
func TestRecoveryProgress(t *testing.T) {
	needAssets(t)
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd", clusterAPI(t)}, ErrorIfCRDPathMissing: true}
	c := start(t, env)
	serve(t, env.Config)
	text, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	managers := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(text, managers); err != nil {
		t.Fatal(err)
	}
	roles := map[string]*rbacv1.ClusterRole{
		"approver": clusterRole(t, "quorate-approver"), "tenant": clusterRole(t, "quorate-tenant"), "manager": managers,
	}
	for name, role := range roles {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, RoleRef: roleRef("ClusterRole", role.Name),
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		}
		for _, o := range []client.Object{role, binding} {
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	approver, manager := as(t, env.Config, "approver"), as(t, env.Config, "manager")
	o := object(t, recovery)
	o.SetAnnotations(map[string]string{"backup.quorate.io/begun": "2026-01-01T00:00:00Z", "a": "b"})
	create(t, approver, o)
	if now := fresh(t, c, o).GetAnnotations(); len(now) != 1 || now["a"] != "b" {
		t.Errorf("created with %v", now)
	}
	for _, a := range reports {
		if err := a.try(t.Context(), approver, fresh(t, c, o)); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), "as Quorate's manager has") {
			t.Errorf("%s: %v", a.name, err)
		}
	}
	if err := reports[0].try(t.Context(), manager, fresh(t, c, o)); err != nil {
		t.Fatal(err)
	}
	for _, a := range append(reports[1:], patching("none any more", types.MergePatchType,
		`{"metadata":{"annotations":{"backup.quorate.io/begun":null}}}`)) {
		if err := a.try(t.Context(), approver, fresh(t, c, o)); !apierrors.IsForbidden(err) {
			t.Errorf("begun, %s: %v", a.name, err)
		}
	}
	for _, a := range []attempt{patching("an approval", types.MergePatchType, approvedPatch),
		patching("a label", types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`)} {
		if err := a.try(t.Context(), approver, fresh(t, c, o)); err != nil {
			t.Errorf("%s: %v", a.name, err)
		}
	}
	if now := fresh(t, c, o).GetAnnotations(); now["backup.quorate.io/begun"] != "2026-01-01T00:00:00Z" {
		t.Errorf("annotations %v", now)
	}
	hibernates(t, c, as(t, env.Config, "tenant"), manager)
}

const (
	hibernation = `{"requested":"2026-01-01T00:00:00Z","backup":"b","taken":"2026-01-01T00:00:01Z"}`
	sleeper     = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: demo, namespace: default}
spec:
  replicas: 1
  version: v1.37.2
  machineTemplate: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: demo}}}
`
)

// hibernates: machines go by what is noted of a hibernation, so that only the manager notes it. A user may ask for it by the spec.
func hibernates(t *testing.T, c, tenant, manager client.Client) {
	t.Helper()
	o := object(t, sleeper)
	o.SetAnnotations(map[string]string{controlplanev1.HibernationAnnotation: hibernation, "a": "b"})
	create(t, tenant, o)
	if now := fresh(t, c, o).GetAnnotations(); now[controlplanev1.HibernationAnnotation] != "" || now["a"] != "b" {
		t.Errorf("created with %v", now)
	}
	noted := func(text string) string {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			controlplanev1.HibernationAnnotation: text}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(patch)
	}
	patches := []attempt{
		patching("a hibernation", types.MergePatchType, noted(hibernation)),
		patching("another backup", types.MergePatchType, noted(strings.Replace(hibernation, `"b"`, `"c"`, 1))),
		patching("none any more", types.MergePatchType, noted("")),
	}
	for _, a := range patches[:2] {
		if err := a.try(t.Context(), tenant, fresh(t, c, o)); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", a.name, err)
		}
	}
	if err := patches[0].try(t.Context(), manager, fresh(t, c, o)); err != nil {
		t.Fatal(err)
	}
	for _, a := range patches[1:] {
		if err := a.try(t.Context(), tenant, fresh(t, c, o)); !apierrors.IsForbidden(err) {
			t.Errorf("noted, %s: %v", a.name, err)
		}
	}
	if now := fresh(t, c, o).GetAnnotations(); now[controlplanev1.HibernationAnnotation] != hibernation {
		t.Errorf("annotations %v", now)
	}
}
