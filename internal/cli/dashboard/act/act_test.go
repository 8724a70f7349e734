package act

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard/actions"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/manager"
)

var key = client.ObjectKey{Namespace: "default", Name: "demo"}

// scene is a management cluster of a user.
type scene struct {
	client.Client
	// denied are the rights that the user lacks, as "verb resource", and unasked is an error of the API server when it is asked for them.
	denied  []string
	unasked error
	// writes counts what was written, and before is called before each.
	writes int
	before func()
	// asked are the rights that were asked for.
	asked []string
}

// kinds are those that actions write.
var kinds = []schema.GroupVersionKind{
	controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"), clusterv1.GroupVersion.WithKind("MachineDeployment"),
	upgradev1.GroupVersion.WithKind("ControlPlaneUpgrade"), upgradev1.GroupVersion.WithKind("NodeUpgrade"),
}

func newScene(objects ...client.Object) *scene {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	s := &scene{}
	s.Client = fake.NewClientBuilder().WithScheme(manager.Scheme()).WithRESTMapper(mapper).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{Create: s.create, Patch: s.patch}).Build()
	return s
}

// create answers which rights the user has.
func (s *scene) create(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
	review, is := o.(*authorizationv1.SelfSubjectAccessReview)
	if !is {
		return errors.New("something was created")
	}
	of := review.Spec.ResourceAttributes
	s.asked = append(s.asked, of.Verb+" "+of.Resource+"."+of.Group+" "+of.Namespace+"/"+of.Name)
	review.Status.Allowed = !slices.Contains(s.denied, of.Verb+" "+of.Resource)
	return s.unasked
}

// patch returns what a trial would make of an object, as an API server does and the fake client does not.
func (s *scene) patch(ctx context.Context, c client.WithWatch, o client.Object, by client.Patch, options ...client.PatchOption) error {
	var given client.PatchOptions
	given.ApplyOptions(options)
	if len(given.DryRun) == 0 {
		if s.before != nil {
			s.before()
		}
		s.writes++
		return s.write(ctx, c, o, by, options...)
	}
	raw, err := by.Data(o)
	if err != nil {
		return err
	}
	var change map[string]any
	tried := o.(*unstructured.Unstructured)
	if err := errors.Join(json.Unmarshal(raw, &change), c.Get(ctx, client.ObjectKeyFromObject(o), tried)); err != nil {
		return err
	}
	merge(tried.Object, change)
	return nil
}

// write changes an object, and counts the change of a spec as an API server does.
func (s *scene) write(ctx context.Context, c client.WithWatch, o client.Object, by client.Patch, options ...client.PatchOption) error {
	raw, err := by.Data(o)
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, o, by, options...); err != nil || !strings.Contains(string(raw), `"spec"`) {
		return err
	}
	o.SetGeneration(o.GetGeneration() + 1)
	return c.Update(ctx, o)
}

// merge applies a merge patch.
func merge(to, change map[string]any) {
	for name, value := range change {
		inner, is := value.(map[string]any)
		into, was := to[name].(map[string]any)
		switch {
		case value == nil:
			delete(to, name)
		case is && was:
			merge(into, inner)
		default:
			to[name] = value
		}
	}
}

func (s *scene) actor() *Actor {
	return New(s, &command.Invocation{Context: "other"}, "--context other")
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Generation: 1,
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}, CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0))}
}

// authorities are certificate authorities, which take time to make.
var authorities = sync.OnceValue(func() secret.Certificates {
	all := secret.NewCertificatesForInitialControlPlane(&bootstrapv1.ClusterConfiguration{})
	if err := all.Generate(); err != nil {
		panic(err)
	}
	return all
})

// cluster is a Cluster with a control plane whose first machine never came up, and is outdated.
func cluster() []client.Object {
	c := &clusterv1.Cluster{ObjectMeta: named("demo")}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
		Kind: "KubeadmControlPlane", Name: "demo-cp"}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: named("demo-cp")}
	kcp.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(c, clusterv1.GroupVersion.WithKind("Cluster"))}
	kcp.Spec.Version, kcp.Spec.Replicas = "v1.36.3", ptr.To[int32](1)
	kcp.Spec.Approval.Policy = controlplanev1.ApprovalRequired
	kcp.Spec.Backup = &controlplanev1.BackupSpec{StoreRef: controlplanev1.BackupStoreReference{Kind: "BackupStore", Name: "store"}}
	objects := []client.Object{c, kcp, machine("demo-cp-1", kcp)}
	for _, given := range authorities() {
		objects = append(objects, given.AsSecret(key, metav1.OwnerReference{Name: "demo-cp", Kind: "KubeadmControlPlane", UID: kcp.UID}))
	}
	return objects
}

// machine is a Machine of the version before.
func machine(name string, of client.Object) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: named(name)}
	m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	m.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(of, controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"))}
	m.Spec.ClusterName, m.Spec.Version = "demo", "v1.35.4"
	return m
}

// upgrading adds an upgrade in place whose only node failed, if it has begun.
func upgrading(paused, failed bool) []client.Object {
	all := &upgradev1.ControlPlaneUpgrade{ObjectMeta: named("demo-cp-1a2b"), Spec: upgradev1.ControlPlaneUpgradeSpec{
		ControlPlane:           clusterv1.ContractVersionedObjectReference{Kind: "KubeadmControlPlane", Name: "demo-cp"},
		MachinesRequireUpgrade: []upgradev1.MachineReference{{Name: "demo-cp-1"}}, KubernetesVersion: "v1.36.3",
	}}
	if paused {
		all.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	}
	objects := append(cluster(), all)
	if failed {
		node := &upgradev1.NodeUpgrade{ObjectMeta: named("demo-cp-1-1a2b"), Status: upgradev1.NodeUpgradeStatus{FailedStep: "Swap",
			Conditions: []metav1.Condition{
				{Type: upgradev1.Progressing, Status: metav1.ConditionFalse, Reason: upgradev1.RolledBack},
				{Type: "Swap", Status: metav1.ConditionFalse, Reason: upgradev1.RolledBack},
			}}}
		node.Spec = upgradev1.NodeUpgradeSpec{Machine: upgradev1.MachineReference{Name: "demo-cp-1"}, KubernetesVersion: "v1.36.3"}
		node.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(all, upgradev1.GroupVersion.WithKind("ControlPlaneUpgrade"))}
		objects = append(objects, node)
	}
	return objects
}

// tests are all actions: where they apply, which object they write, and which rights that needs.
var tests = []struct {
	name    actions.Name
	objects func() []client.Object
	kind    string
	object  string
	rights  []string
	command string
	// changed says that the object is as the command makes it.
	changed func(*unstructured.Unstructured) bool
}{
	{actions.Approve, cluster, "KubeadmControlPlane", "demo-cp",
		[]string{"patch kubeadmcontrolplanes", "approve kubeadmcontrolplanes"}, "quorate approve default/demo --context other",
		func(o *unstructured.Unstructured) bool {
			return len(o.GetAnnotations()[controlplanev1.ApprovedAnnotation]) == 12
		}},
	{actions.Pause, func() []client.Object { return upgrading(false, false) }, "ControlPlaneUpgrade", "demo-cp-1a2b",
		[]string{"patch controlplaneupgrades"}, "quorate upgrade pause default/demo --context other",
		func(o *unstructured.Unstructured) bool {
			_, is := o.GetAnnotations()[clusterv1.PausedAnnotation]
			return is
		}},
	{actions.Resume, func() []client.Object { return upgrading(true, false) }, "ControlPlaneUpgrade", "demo-cp-1a2b",
		[]string{"patch controlplaneupgrades"}, "quorate upgrade resume default/demo --context other",
		func(o *unstructured.Unstructured) bool {
			_, is := o.GetAnnotations()[clusterv1.PausedAnnotation]
			return !is
		}},
	{actions.Retry, func() []client.Object { return upgrading(false, true) }, "NodeUpgrade", "demo-cp-1-1a2b",
		[]string{"patch nodeupgrades"}, "quorate upgrade retry default/demo --context other",
		func(o *unstructured.Unstructured) bool {
			_, is := o.GetAnnotations()[upgradev1.RetryAnnotation]
			return is
		}},
	{actions.Rollback, func() []client.Object { return upgrading(false, true) }, "KubeadmControlPlane", "demo-cp",
		[]string{"patch kubeadmcontrolplanes"}, "quorate upgrade rollback default/demo --context other",
		func(o *unstructured.Unstructured) bool {
			version, _, _ := unstructured.NestedString(o.Object, "spec", "version")
			return version == "v1.35.4"
		}},
	{actions.Backup, cluster, "KubeadmControlPlane", "demo-cp", []string{"patch kubeadmcontrolplanes"},
		"quorate backup now default/demo --context other",
		func(o *unstructured.Unstructured) bool {
			at, err := time.Parse(time.RFC3339Nano, o.GetAnnotations()[controlplanev1.BackupRequestedAnnotation])
			return err == nil && time.Since(at).Abs() < 10*time.Second
		}},
}

// read returns an object of one of kinds.
func (s *scene) read(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	for _, k := range kinds {
		if k.Kind == kind {
			o.SetGroupVersionKind(k)
		}
	}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// same reports whether two objects are the same but for the versions that the API server gives, and the time of a request for a backup.
func same(t *testing.T, a, b *unstructured.Unstructured) bool {
	t.Helper()
	text := func(o *unstructured.Unstructured) string {
		o = o.DeepCopy()
		o.SetResourceVersion("")
		if annotations := o.GetAnnotations(); annotations[controlplanev1.BackupRequestedAnnotation] != "" {
			annotations[controlplanev1.BackupRequestedAnnotation] = "a time"
			o.SetAnnotations(annotations)
		}
		raw, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	return text(a) == text(b)
}

// TestDo: each action is offered with its plan, writes nothing before it is confirmed, and then what the command writes, once.
func TestDo(t *testing.T) {
	for _, test := range tests {
		t.Run(string(test.name), func(t *testing.T) {
			s := newScene(test.objects()...)
			a := s.actor()
			o, err := a.Look(t.Context(), key, test.name)
			if err != nil || !o.Offered() || s.writes != 0 || o.Command != test.command || len(o.Writes) != 1 || len(o.Shown) != 1 {
				t.Fatalf("offered: %+v, %v, %d writes", o, err, s.writes)
			}
			if test.name != actions.Backup && len(o.Plans) != 1 {
				t.Errorf("there are %d plans: %s", len(o.Plans), o.PlanWhy)
			}
			if _, _, err := a.Offers(t.Context(), key); err != nil || s.writes != 0 {
				t.Fatalf("the offers: %v, %d writes", err, s.writes)
			}
			if test.changed(s.read(t, test.kind, test.object)) {
				t.Fatal("it is changed before it is confirmed")
			}
			s.asked = nil
			out := a.Do(t.Context(), key, test.name, o.Shown)
			if !out.AsAsked() || s.writes != 1 || out.Command != test.command {
				t.Fatalf("the outcome is %+v after %d writes", out, s.writes)
			}
			if len(s.asked) != len(test.rights) {
				t.Errorf("before it was written it was asked for %v", s.asked)
			}
			written := s.read(t, test.kind, test.object)
			if !test.changed(written) {
				t.Errorf("it is %v", written.Object)
			}
			other := newScene(test.objects()...) // what the command writes
			orders, _, err := other.actor().orders(t.Context(), other, key, test.name, time.Now().UTC())
			if err != nil {
				t.Fatal(err)
			}
			for _, order := range orders {
				if err := order.Write(t.Context(), other); err != nil {
					t.Fatal(err)
				}
			}
			if byCommand := other.read(t, test.kind, test.object); !same(t, written, byCommand) {
				t.Errorf("the page wrote %v\nand the command %v", written.Object, byCommand.Object)
			}
			if again := a.Do(t.Context(), key, test.name, o.Shown); len(again.Done) != 0 || len(again.Gone) == 0 || s.writes != 1 {
				t.Errorf("the same page once more: %+v, %d writes", again, s.writes)
			}
		})
	}
}

// TestRights: without one of the rights that an action needs it is not offered, and not done. So it is if rights cannot be asked for.
func TestRights(t *testing.T) {
	for _, test := range tests {
		for _, denied := range test.rights {
			s := newScene(test.objects()...)
			s.denied = []string{denied}
			a := s.actor()
			o, err := a.Look(t.Context(), key, test.name)
			if err != nil || o.Offered() || len(o.Missing) != 1 || !strings.HasPrefix(o.Missing[0].String(), denied+".") ||
				!strings.HasSuffix(o.Missing[0].String(), test.object+" in namespace default") {
				t.Errorf("%s without %s: %+v, %v", test.name, denied, o, err)
			}
			out := a.Do(t.Context(), key, test.name, o.Shown)
			if len(out.Done) != 0 || len(out.Missing) != 1 || s.writes != 0 {
				t.Errorf("%s without %s was done: %+v, %d writes", test.name, denied, out, s.writes)
			}
		}
		s := newScene(test.objects()...)
		s.unasked = errors.New("token: abcdef.0123456789abcdef is refused")
		o, err := s.actor().Look(t.Context(), key, test.name)
		if err != nil || o.Offered() || !strings.Contains(o.Why, "not known") || strings.Contains(o.Why, "0123456789abcdef") {
			t.Errorf("%s, and the rights are not known: %+v, %v", test.name, o, err)
		}
		out := s.actor().Do(t.Context(), key, test.name, o.Shown)
		if len(out.Done) != 0 || out.Failed == "" || s.writes != 0 {
			t.Errorf("%s, and the rights are not known: %+v", test.name, out)
		}
	}
}

// TestStale: an action whose object, spec or basis changed after it was shown is not done, and the outcome says what changed. A change of
// the status alone does not matter.
func TestStale(t *testing.T) {
	for _, test := range tests {
		for what, change := range map[string]func(*unstructured.Unstructured){
			"another object": func(o *unstructured.Unstructured) { o.SetUID("another") },
			"another spec":   func(o *unstructured.Unstructured) { o.SetGeneration(2) },
		} {
			s := newScene(test.objects()...)
			o, err := s.actor().Look(t.Context(), key, test.name)
			if err != nil {
				t.Fatal(err)
			}
			changed := s.read(t, test.kind, test.object)
			change(changed)
			if err := s.Update(t.Context(), changed); err != nil {
				t.Fatal(err)
			}
			out := s.actor().Do(t.Context(), key, test.name, o.Shown)
			if len(out.Done) != 0 || s.writes != 0 || len(out.Gone) != 1 || what == "another spec" && len(out.Come) != 1 {
				t.Errorf("%s, %s: %+v, %d writes", test.name, what, out, s.writes)
			}
		}
		s := newScene(test.objects()...)
		if out := s.actor().Do(t.Context(), key, test.name, nil); len(out.Done) != 0 || len(out.Come) != 1 || s.writes != 0 {
			t.Errorf("%s, and nothing was shown: %+v", test.name, out)
		}
	}
}

// TestSameMoment: what others change between the look and the write is not written over. A change that leaves the meaning is none.
func TestSameMoment(t *testing.T) {
	for _, test := range tests {
		for _, matters := range []bool{false, true} {
			s := newScene(test.objects()...)
			o, err := s.actor().Look(t.Context(), key, test.name)
			if err != nil {
				t.Fatal(err)
			}
			s.before = func() {
				s.before = nil
				changed := s.read(t, test.kind, test.object)
				annotations := maps.Clone(changed.GetAnnotations())
				if annotations == nil {
					annotations = map[string]string{}
				}
				annotations["note"] = "of another"
				changed.SetAnnotations(annotations)
				if matters {
					changed.SetGeneration(7)
				}
				if err := s.Update(t.Context(), changed); err != nil {
					t.Error(err)
				}
			}
			out := s.actor().Do(t.Context(), key, test.name, o.Shown)
			now := s.read(t, test.kind, test.object)
			if out.AsAsked() == matters || test.changed(now) == matters || now.GetAnnotations()["note"] == "" {
				t.Errorf("%s, it matters: %v: %+v, %v", test.name, matters, out, now.Object)
			}
			if matters && len(out.Gone) != 1 {
				t.Errorf("%s: it does not say what changed: %+v", test.name, out)
			}
		}
	}
}

// TestReplacement: the plan of a machine's replacement is shown, with the command, and nothing is written.
func TestReplacement(t *testing.T) {
	s := newScene(cluster()...)
	p, text, err := s.actor().Replacement(t.Context(), key, "demo-cp-1")
	if err != nil || p.Group != "KubeadmControlPlane demo-cp" || text != "quorate replace default/demo-cp-1 --context other" || s.writes != 0 {
		t.Errorf("%+v, %q, %v, %d writes", p, text, err, s.writes)
	}
	for _, name := range []string{"demo-cp-9", "x/demo-cp-1"} {
		if _, _, err := s.actor().Replacement(t.Context(), key, name); err == nil {
			t.Errorf("%s has a plan", name)
		}
	}
	if _, _, err := s.actor().Replacement(t.Context(), client.ObjectKey{Namespace: "default", Name: "other"}, "demo-cp-1"); err == nil {
		t.Error("the machine of another cluster has a plan")
	}
}

// TestNothing: an action that does not apply is not offered, and says why. Errors of the API server have no secret.
func TestNothing(t *testing.T) {
	objects := cluster()
	kcp := objects[1].(*controlplanev1.KubeadmControlPlane)
	kcp.Spec.Approval.Policy, kcp.Spec.Backup = controlplanev1.ApprovalNone, nil
	s := newScene(objects...)
	all, left, err := s.actor().Offers(t.Context(), key)
	if err != nil || len(all) != len(actions.All()) || len(s.asked) != 0 {
		t.Fatalf("%+v, %v, asked for %v", all, err, s.asked)
	}
	for _, o := range all {
		if o.Offered() || o.Why == "" {
			t.Errorf("%s is offered: %+v", o.Name, o)
		}
		if out := s.actor().Do(t.Context(), key, o.Name, o.Shown); len(out.Done) > 0 || out.Failed == "" || s.writes > 0 {
			t.Errorf("%s is done: %+v", o.Name, out)
		}
	}
	var commands []string
	for _, l := range left {
		for _, c := range l.Commands {
			commands = append(commands, c.Text)
		}
	}
	if text := strings.Join(commands, ", "); text != "quorate replace default/demo-cp-1 --context other, "+
		"quorate backup list default/demo --context other, quorate backup delete default/demo BACKUP --context other, "+
		"quorate recover default/demo --context other" {
		t.Errorf("left to the command line: %s", text)
	}
	none := client.ObjectKey{Namespace: "default", Name: "none"}
	if _, _, err := s.actor().Offers(t.Context(), none); !errors.Is(err, facts.ErrNoCluster) {
		t.Errorf("the offers of no cluster: %v", err)
	}
	s = newScene(upgrading(false, false)...)
	o, _ := s.actor().Look(t.Context(), key, actions.Pause)
	s.Client = interceptor.NewClient(s.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewInternalError(errors.New("token: abcdef.0123456789abcdef"))
		},
	})
	out := s.actor().Do(t.Context(), key, actions.Pause, o.Shown)
	if out.Failed == "" || strings.Contains(out.Failed, "0123456789abcdef") || len(out.Done) > 0 {
		t.Errorf("an error with a secret: %+v", out)
	}
}
