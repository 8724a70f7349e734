package envtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/manager"
)

const (
	approvedPatch = `{"metadata":{"annotations":{"controlplane.cluster.x-k8s.io/quorate-approved":"a1b2"}}}`
	decidedPatch  = `{"metadata":{"annotations":{"decision.quorate.io/a1b2":"remove-voter 77"}}}`
	forgedPatch   = `{"metadata":{"annotations":{"controlplane.cluster.x-k8s.io/quorate-approved-by":"2026-01-01T00:00:00Z somebody else"}}}`
)

// An attempt is a way in which somebody approves, or ends that approvals are needed.
type attempt struct {
	name string
	try  func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error
}

func patching(name string, kind types.PatchType, patch string) attempt {
	return attempt{name, func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Patch(ctx, o, client.RawPatch(kind, []byte(patch)))
	}}
}

// updating changes an object by a PUT.
func updating(name string, change func(o *unstructured.Unstructured)) attempt {
	return attempt{name, func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		change(o)
		return c.Update(ctx, o)
	}}
}

func approve(o *unstructured.Unstructured) {
	const forged = "2026-01-01T00:00:00Z somebody else"
	o.SetAnnotations(map[string]string{
		controlplanev1.ApprovedAnnotation: "a1b2", controlplanev1.ApprovedByAnnotation: forged,
		controlplanev1.DecisionPrefix + "a1b2": "remove-voter 77", controlplanev1.DecidedByPrefix + "a1b2": forged,
	})
}

// attempts are refused where whoever tries has no right to approve. The e2e `approve` does it by another version of the kind.
var attempts = []attempt{
	patching("a merge patch", types.MergePatchType, approvedPatch),
	patching("a JSON patch", types.JSONPatchType,
		`[{"op":"add","path":"/metadata/annotations","value":{"controlplane.cluster.x-k8s.io/quorate-approved":"a1b2"}}]`),
	updating("an update", approve),
	{"server-side apply", func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Patch(ctx, o,
			client.RawPatch(types.ApplyPatchType, header(o, `"annotations":{"controlplane.cluster.x-k8s.io/quorate-approved":"a1b2"}`)),
			client.FieldOwner("somebody"), client.ForceOwnership)
	}},
	{"a dry run", func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(approvedPatch)), client.DryRunAll)
	}},
	patching("a decision, by a merge patch", types.MergePatchType, decidedPatch),
	patching("a decision, by a JSON patch", types.JSONPatchType,
		`[{"op":"add","path":"/metadata/annotations","value":
			{"decision.quorate.io/a1b2":"remove-voter 77","decided-by.quorate.io/a1b2":"x y"}}]`),
	updating("a decision, by an update", func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{controlplanev1.DecisionPrefix + "a1b2": "remove-voter 77"})
	}),
	{"a decision, by server-side apply", func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Patch(ctx, o, client.RawPatch(types.ApplyPatchType, header(o, `"annotations":{"decision.quorate.io/a1b2":"remove-voter 77"}`)),
			client.FieldOwner("somebody"), client.ForceOwnership)
	}},
	{"a decision, with finalizers and owners", func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		o.SetFinalizers(append(o.GetFinalizers(), "example.org/held"))
		o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}))
		o.SetAnnotations(map[string]string{controlplanev1.DecisionPrefix + "a1b2": "remove-voter 77"})
		return c.Update(ctx, o)
	}},
	patching("no policy any more", types.MergePatchType, `{"spec":{"approval":null}}`),
	patching("another policy", types.MergePatchType, `{"spec":{"approval":{"policy":"None"}}}`),
	patching("a limit in place of the policy", types.JSONPatchType,
		`[{"op":"replace","path":"/spec/approval","value":{"maxReplacementsPerDay":100}}]`),
	updating("an update without the policy",
		func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "spec", "approval") }),
}

// ineffective are ways that are let through, and approve nothing.
var ineffective = []attempt{
	patching("who approved, alone", types.MergePatchType, forgedPatch),
	{"by the status", func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(approvedPatch)))
	}},
	{"a decision, by the status", func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(decidedPatch)))
	}},
	{"a decision, by the scale", func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.SubResource("scale").Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(decidedPatch)))
	}},
	{"an approval, by the scale", func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
		return c.SubResource("scale").Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(approvedPatch)))
	}},
	patching("who decided, alone", types.MergePatchType,
		`{"metadata":{"annotations":{"decided-by.quorate.io/a1b2":"2026-01-01T00:00:00Z somebody else"}}}`),
	patching("an empty decision", types.MergePatchType, `{"metadata":{"annotations":{"decision.quorate.io/a1b2":""}}}`),
	patching("an empty approval", types.MergePatchType, strings.Replace(approvedPatch, "a1b2", "", 1)),
}

// header is an object's identity with more metadata, as JSON.
func header(o *unstructured.Unstructured, metadata string) []byte {
	return []byte(`{"apiVersion":"` + o.GetAPIVersion() + `","kind":"` + o.GetKind() + `","metadata":{"name":"` + o.GetName() +
		`","namespace":"default",` + metadata + `}}`)
}

// TestApprovals: only who has the verb approve approves, or ends that approvals are needed, whatever the way; and who it was is recorded.
func TestApprovals(t *testing.T) {
	needAssets(t)
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd", clusterAPI(t)}, ErrorIfCRDPathMissing: true}
	c := start(t, env)
	serve(t, env.Config)
	for name, role := range map[string]string{"operator": "quorate-tenant", "approver": "quorate-approver", "viewer": "quorate-viewer"} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, RoleRef: roleRef("ClusterRole", role),
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		}
		for _, o := range []client.Object{clusterRole(t, role), binding} {
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	tried, through := 0, 0
	for _, manifest := range []string{controlPlane, machines, etcdCluster} {
		o := object(t, strings.Replace(manifest, "replicas: 3", "replicas: 3\n  approval: {policy: Required}", 1))
		t.Run(o.GetKind(), func(t *testing.T) {
			create(t, c, o)
			t.Cleanup(func() { remove(t, c, o) })
			for _, user := range []string{"operator", "viewer"} {
				for _, a := range attempts {
					tried++
					if err := a.try(t.Context(), as(t, env.Config, user), fresh(t, c, o)); !apierrors.IsForbidden(err) {
						through++
						t.Errorf("%s, %s: %v", user, a.name, err)
					} else if user == "operator" && !strings.Contains(err.Error(), `"operator" needs the right to approve: the verb "approve"`) {
						t.Errorf("%s: %v", a.name, err)
					}
				}
			}
			for _, a := range ineffective {
				tried++
				if err := a.try(t.Context(), as(t, env.Config, "operator"), fresh(t, c, o)); err != nil && !apierrors.IsForbidden(err) {
					t.Errorf("%s: %v", a.name, err)
				}
			}
			if now := fresh(t, c, o); len(now.GetAnnotations()) > 0 {
				through++
				t.Errorf("annotations %v", now.GetAnnotations())
			}
			tried++
			createdWithout(t, c, as(t, env.Config, "operator"), o)
			approvals(t, env.Config, c, o)
		})
	}
	t.Logf("FIGURE ways to approve or decide without the verb approve: %d tried, %d got through", tried, through)
}

// createdWithout: what somebody without the right creates with an approval is created without it.
func createdWithout(t *testing.T, admin, operator client.Client, o *unstructured.Unstructured) {
	t.Helper()
	other := o.DeepCopy()
	other.SetName("other")
	other.SetResourceVersion("")
	approve(other)
	create(t, operator, other)
	t.Cleanup(func() { remove(t, admin, other) })
	if annotations := other.GetAnnotations(); len(annotations) != 0 {
		t.Errorf("created with %v", annotations)
	}
}

// approvals: who may approve does, and is recorded as who they are; later changes leave that; the annotation takes it along when it goes.
func approvals(t *testing.T, config *rest.Config, c client.Client, o *unstructured.Unstructured) {
	t.Helper()
	approver, operator := as(t, config, "approver"), as(t, config, "operator")
	if err := updateless(approver, fresh(t, c, o)); err != nil {
		t.Fatal(err)
	}
	by := fresh(t, c, o).GetAnnotations()[controlplanev1.ApprovedByAnnotation]
	if !regexp.MustCompile(`^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ approver$`).MatchString(by) {
		t.Errorf("approved by %q", by)
	}
	if at, err := time.Parse(time.RFC3339, strings.Fields(by + " ")[0]); err != nil || time.Since(at).Abs() > time.Hour {
		t.Errorf("approved at %s, %v", at, err)
	}
	for _, a := range append([]attempt{patching("a label", types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`)}, ineffective[:1]...) {
		if err := a.try(t.Context(), operator, fresh(t, c, o)); err != nil {
			t.Errorf("%s: %v", a.name, err)
		}
		if now := fresh(t, c, o).GetAnnotations(); now[controlplanev1.ApprovedByAnnotation] != by ||
			now[controlplanev1.ApprovedAnnotation] != "a1b2" {
			t.Errorf("%s: annotations %v", a.name, now)
		}
	}
	decisions(t, config, c, o)
	// As the manager does when an approval has served.
	gone := strings.Replace(approvedPatch, `"a1b2"`, "null", 1)
	if err := operator.Patch(t.Context(), fresh(t, c, o), client.RawPatch(types.MergePatchType, []byte(gone))); err != nil {
		t.Fatal(err)
	}
	if now := fresh(t, c, o).GetAnnotations(); len(now) != 0 {
		t.Errorf("annotations %v", now)
	}
}

// decisions: who may approve decides, and is recorded as who they are; what is too many or too long is refused; anybody may withdraw
// one.
func decisions(t *testing.T, config *rest.Config, c client.Client, o *unstructured.Unstructured) {
	t.Helper()
	approver, operator := as(t, config, "approver"), as(t, config, "operator")
	try := func(by client.Client, patch string) error {
		return by.Patch(t.Context(), fresh(t, c, o), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	if err := try(approver, decidedPatch); err != nil {
		t.Fatal(err)
	}
	by := fresh(t, c, o).GetAnnotations()[controlplanev1.DecidedByPrefix+"a1b2"]
	if !strings.HasSuffix(by, "Z approver") {
		t.Errorf("decided by %q", by)
	}
	if err := try(operator, strings.Replace(decidedPatch, "77", "78", 1)); !apierrors.IsForbidden(err) {
		t.Errorf("another target for the same decision: %v", err)
	}
	if err := try(approver, strings.Replace(decidedPatch, "77", strings.Repeat("7", 300), 1)); !apierrors.IsForbidden(err) {
		t.Errorf("a decision of 300 bytes: %v", err)
	}
	var many []string
	for i := range controlplanev1.MaxDecisions {
		many = append(many, fmt.Sprintf(`"decision.quorate.io/%d":"remove-voter 77"`, i))
	}
	if err := try(approver, `{"metadata":{"annotations":{`+strings.Join(many, ",")+`}}}`); !apierrors.IsForbidden(err) {
		t.Errorf("%d decisions: %v", len(many)+1, err)
	}
	if err := try(operator, strings.Replace(decidedPatch, `"remove-voter 77"`, "null", 1)); err != nil {
		t.Error(err)
	}
	if now := fresh(t, c, o).GetAnnotations(); now[controlplanev1.DecidedByPrefix+"a1b2"] != "" {
		t.Errorf("withdrawn: annotations %v", now)
	}
}

// updateless approves as somebody else, by a patch: who has the role may not update.
func updateless(c client.Client, o *unstructured.Unstructured) error {
	forged, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		controlplanev1.ApprovedAnnotation: "a1b2", controlplanev1.ApprovedByAnnotation: "2026-01-01T00:00:00Z somebody else",
	}}})
	if err != nil {
		return err
	}
	return c.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, forged))
}

// as is a client of a user.
func as(t *testing.T, config *rest.Config, user string) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fresh is an object as it is now.
func fresh(t *testing.T, c client.Client, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(o.GroupVersionKind())
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), now); err != nil {
		t.Fatal(err)
	}
	return now
}

// clusterRole is a role of config/tenant.
func clusterRole(t *testing.T, name string) *rbacv1.ClusterRole {
	t.Helper()
	for _, file := range []string{"role.yaml", "people.yaml"} {
		f, err := os.Open("../../config/tenant/" + file)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for decoder := utilyaml.NewYAMLOrJSONDecoder(f, 4096); ; {
			role := &rbacv1.ClusterRole{}
			if err := decoder.Decode(role); err != nil {
				break
			}
			if role.Name == name {
				return role
			}
		}
	}
	t.Fatalf("no ClusterRole %s", name)
	return nil
}
