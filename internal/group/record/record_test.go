package record

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/history"
	"github.com/quorate/quorate/internal/core/plan"
)

// scene is a group, its keeper, and the API server in which the history is kept.
type scene struct {
	*testing.T
	keeper Keeper
	group  Group
	kcp    *controlplanev1.KubeadmControlPlane
	// now is the time of the facts.
	now time.Time
	// calls are the requests about ConfigMaps; refuse is what they are answered.
	calls  []string
	refuse error
}

var key = client.ObjectKey{Namespace: "default", Name: "demo-cp-kcp-quorate-history"}

func newScene(t *testing.T, objects ...client.Object) *scene {
	s := &scene{T: t, now: time.Now()}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	call := func(name string) error {
		s.calls = append(s.calls, name)
		return s.refuse
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			return errors.Join(call("get"), c.Get(ctx, key, o, options...))
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := call("create"); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if err := call("patch"); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, options...)
		},
	}).Build()
	s.kcp = &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp", UID: "kcp-uid",
		Generation: 4}}
	s.group = Group{Writer: writer{c}, Reader: c, Kind: "KubeadmControlPlane", Cluster: "demo",
		Owner: metav1.OwnerReference{Kind: "KubeadmControlPlane", Name: "demo-cp", UID: "kcp-uid"}}
	return s
}

// step lets a step be tried.
func (s *scene) step(machine string, failure error) {
	s.keeper.Step(plan.Decision{Step: plan.Step{Verb: plan.Create, Machine: machine}, Rule: "grow", Reason: "ScalingUp"}, s.now, failure)
}

// keep is the end of a turn, and returns the requests that it made.
func (s *scene) keep(deleting bool) string {
	s.calls = nil
	s.group.Object = s.kcp.DeepCopy()
	s.now = s.now.Add(time.Second)
	s.keeper.Keep(context.Background(), s.group, plan.Observed{Now: s.now, Group: plan.Group{Deleting: deleting}}, plan.Assessment{})
	return strings.Join(s.calls, " ")
}

// stored tells what is stored: the steps, and who changed what.
func (s *scene) stored() string {
	s.Helper()
	var words []string
	for _, e := range history.Decode(s.configMap().Data[history.Key], s.now).Entries {
		switch {
		case e.Count > 0:
			words = append(words, "repeated")
		case e.Change != nil && e.Change.Created:
			words = append(words, "created:"+e.Change.By)
		case e.Change != nil:
			words = append(words, "changed:"+e.Change.By+":"+strings.Join(e.Change.Fields, ","))
		case e.Approval != nil:
			words = append(words, "by "+e.Approval.By+": "+e.Approval.Revision+e.Approval.Decision+e.Approval.Request)
		case e.Note != "":
			words = append(words, "note")
		default:
			words = append(words, e.Machine)
		}
	}
	return strings.Join(words, " ")
}

func (s *scene) configMap() *corev1.ConfigMap {
	s.Helper()
	found := &corev1.ConfigMap{}
	if err := s.group.Reader.Get(context.Background(), key, found); err != nil {
		s.Fatal(err)
	}
	return found
}

func (s *scene) want(stored string) {
	s.Helper()
	if refuse := s.refuse; refuse != nil {
		s.refuse = nil
		defer func() { s.refuse = refuse }()
	}
	if got := s.stored(); got != stored {
		s.Errorf("stored is %q, want %q", got, stored)
	}
}

func (s *scene) wantCalls(got, want string) {
	s.Helper()
	if got != want {
		s.Errorf("the requests are %q, want %q", got, want)
	}
}

// The history is read once, and written only when it has changed.
func TestWritten(t *testing.T) {
	s := newScene(t)
	s.step("m1", nil)
	s.wantCalls(s.keep(false), "get create")
	s.wantCalls(s.keep(false), "")
	s.step("m2", nil)
	s.step("m3", errors.New("no"))
	s.wantCalls(s.keep(false), "patch")
	s.wantCalls(s.keep(false), "")
	s.want("m1 m2 m3")
	found := s.configMap()
	if len(found.OwnerReferences) != 1 || found.OwnerReferences[0] != s.group.Owner || found.Labels[clusterv1.ClusterNameLabel] != "demo" {
		t.Errorf("it is owned by %v, with the labels %v", found.OwnerReferences, found.Labels)
	}
}

// What ended in a conflict was not done.
func TestConflictIsNoStep(t *testing.T) {
	s := newScene(t)
	s.step("m1", nil)
	s.step("m2", apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m2", errors.New("changed")))
	s.keep(false)
	s.want("m1")
}

// A process that starts goes on with what the one before has stored.
func TestRestart(t *testing.T) {
	s := newScene(t)
	s.step("m1", nil)
	s.keep(false)
	s.keeper = Keeper{}
	s.step("m2", nil) // before anything was read
	s.wantCalls(s.keep(false), "get patch")
	s.want("m1 m2")
	s.keeper = Keeper{}
	s.wantCalls(s.keep(false), "get")
}

// What cannot be read or written now is kept, and written when it can be.
func TestRefused(t *testing.T) {
	s := newScene(t)
	s.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, key.Name, errors.New("no"))
	s.step("m1", nil)
	s.wantCalls(s.keep(false), "get")
	s.refuse = nil
	s.wantCalls(s.keep(false), "get create")
	s.refuse = errors.New("not answered")
	s.step("m2", nil)
	s.wantCalls(s.keep(false), "patch")
	s.want("m1")
	s.refuse = nil
	s.wantCalls(s.keep(false), "patch")
	s.want("m1 m2")
}

// Others may remove the ConfigMap or write to it: what is known here is written again.
func TestOthersWrite(t *testing.T) {
	s := newScene(t)
	s.step("m1", nil)
	s.keep(false)
	if err := s.group.Writer.(writer).Delete(context.Background(), s.configMap()); err != nil {
		t.Fatal(err)
	}
	s.step("m2", nil)
	s.wantCalls(s.keep(false), "patch")
	s.wantCalls(s.keep(false), "get create")
	s.want("m1 m2")

	found := s.configMap()
	found.Data[history.Key], found.OwnerReferences = "garbage", nil
	if err := s.group.Writer.(writer).Update(context.Background(), found); err != nil {
		t.Fatal(err)
	}
	s.step("m3", nil)
	s.wantCalls(s.keep(false), "patch")
	s.wantCalls(s.keep(false), "get patch")
	s.want("m1 m2 m3")
	if owners := s.configMap().OwnerReferences; len(owners) != 1 {
		t.Errorf("it is owned by %v", owners)
	}
}

// A history that cannot be read begins again, and says so.
func TestGarbage(t *testing.T) {
	s := newScene(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}},
		Data:       map[string]string{history.Key: "garbage"},
	})
	s.step("m1", nil)
	s.keep(false)
	s.want("note m1")
}

// Somebody else's ConfigMap of that name is left alone.
func TestForeign(t *testing.T) {
	s := newScene(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Data: map[string]string{"a": "b"}})
	s.step("m1", nil)
	s.wantCalls(s.keep(false), "get")
	s.wantCalls(s.keep(false), "get")
	if data := s.configMap().Data; len(data) != 1 || data["a"] != "b" {
		t.Errorf("it holds %v", data)
	}
}

// manages lets a field manager have written fields of the spec.
func (s *scene) manages(manager string, fields ...string) {
	raw := `{"f:spec":{"f:` + strings.Join(fields, `":{},"f:`) + `":{}}}`
	s.kcp.ManagedFields = append(s.kcp.ManagedFields, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: s.now}, FieldsV1: metav1.NewFieldsV1(raw),
	})
}

// Changes of the spec are told by whom and of what, once each; of what came before the history nothing is known.
func TestChanges(t *testing.T) {
	s := newScene(t)
	s.manages("kubectl", "replicas", "version")
	s.keep(false)
	s.want("")
	s.manages("kubectl-edit", "version", "replicas", "rollout")
	s.kcp.Generation, s.kcp.Spec.Version = 5, "v1.36.3"
	s.keep(false)
	s.wantCalls(s.keep(false), "")
	s.want("changed:kubectl-edit:version")

	s.keeper = Keeper{} // what it was before is not known now
	s.manages("autoscaler", "replicas")
	s.kcp.Generation, s.kcp.Spec.Replicas = 6, ptr.To(int32(3))
	s.keep(false)
	s.want("changed:kubectl-edit:version changed:autoscaler:replicas")

	s.keeper = Keeper{}
	s.kcp.Generation = 7 // by its deletion
	s.keep(true)
	s.kcp.Generation = 8 // by nothing that is told
	s.keep(false)
	s.want("changed:kubectl-edit:version changed:autoscaler:replicas")
}

// Who approved, decided, and asked for something is told once, each at its time.
func TestApprovals(t *testing.T) {
	s := newScene(t)
	at := func(ago time.Duration) string { return s.now.Add(-ago).UTC().Format(time.RFC3339) }
	s.kcp.Annotations = map[string]string{
		controlplanev1.ApprovedAnnotation: "a1b2", controlplanev1.ApprovedByAnnotation: at(4*time.Minute) + " ann",
		controlplanev1.DecisionPrefix + "c3": "remove-voter 77", controlplanev1.DecidedByPrefix + "c3": at(3*time.Minute) + " bob",
		controlplanev1.ReplaceAnnotation: "m1=T", controlplanev1.ReplaceByAnnotation: at(2*time.Minute) + " cem",
		controlplanev1.EtcdRequestsAnnotation: "disarm=T", controlplanev1.EtcdRequestsByAnnotation: at(time.Minute) + " dee",
	}
	s.keep(false)
	s.wantCalls(s.keep(false), "")
	s.want("by ann: a1b2 by bob: remove-voter 77 by cem: replace m1=T by dee: etcd disarm=T")
	delete(s.kcp.Annotations, controlplanev1.ReplaceByAnnotation)
	s.kcp.Annotations[controlplanev1.ReplaceAnnotation] = "m1=T,m2=T" // nobody knows by whom
	s.wantCalls(s.keep(false), "")
}

// The object's creation comes first, whoever is known to have created it.
func TestCreated(t *testing.T) {
	for _, manager := range []string{"", "quorate"} {
		s := newScene(t)
		s.kcp.Generation, s.kcp.CreationTimestamp = 1, metav1.Time{Time: s.now.Truncate(time.Second)}
		if manager != "" {
			s.manages(manager, "replicas")
		}
		s.step("m1", nil)
		s.keep(false)
		s.want("created:" + manager + " m1")
	}
}

// writer changes objects that nobody else has written since they were read.
type writer struct{ client.Client }

func (w writer) Create(ctx context.Context, o client.Object) error { return w.Client.Create(ctx, o) }

func (w writer) Change(ctx context.Context, before, after client.Object) error {
	return w.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
