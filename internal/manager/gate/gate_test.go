package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetes "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/cluster/machine"
)

const group = "infrastructure.example.com"

var kinds = map[string]struct {
	scope    meta.RESTScope
	contract bool
}{
	"GoodMachine":   {meta.RESTScopeNamespace, true},
	"WideMachine":   {meta.RESTScopeRoot, true},
	"PlainMachine":  {meta.RESTScopeNamespace, false},
	"SecretMachine": {meta.RESTScopeNamespace, true},
}

// informers are caches that never fill for some kinds.
type informers struct {
	cache.Informers
	empty map[string]bool
}

type informer struct {
	cache.Informer
	synced bool
}

func (i informer) HasSynced() bool { return i.synced }

func (i informers) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	var chosen cache.InformerGetOptions
	for _, option := range options {
		option(&chosen)
	}
	one := informer{synced: !i.empty[o.GetObjectKind().GroupVersionKind().Kind]}
	if !one.synced && (chosen.BlockUntilSynced == nil || *chosen.BlockUntilSynced) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return one, nil
}

// stage is a gate over a client that counts what reaches it.
type stage struct {
	*Client
	reached, aside, asked int
	granted               map[string]bool
}

func newStage(t *testing.T, empty ...string) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(clusterv1.GroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	var objects []client.Object
	for kind, k := range kinds {
		gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
		mapper.Add(gvk, k.scope)
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind) + "s." + group}}
		if k.contract {
			crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1"}
		}
		objects = append(objects, crd)
	}
	s := &stage{granted: map[string]bool{"goodmachines": true, "widemachines": true, "plainmachines": true, "machines": true}}
	count := func(o runtime.Object) {
		if untyped(o) {
			s.reached++
		}
	}
	below := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			count(o)
			if untyped(o) {
				return nil
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(_ context.Context, _ client.WithWatch, o client.ObjectList, _ ...client.ListOption) error {
			count(o)
			return nil
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			count(o)
			return nil
		},
		Update: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			count(o)
			return nil
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			count(o)
			return nil
		},
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			count(o)
			return nil
		},
		Apply: func(_ context.Context, _ client.WithWatch, _ runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			s.reached++
			return nil
		},
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, _ runtime.ApplyConfiguration,
			_ ...client.SubResourceApplyOption) error {
			s.reached++
			return nil
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch,
			_ ...client.SubResourcePatchOption) error {
			count(o)
			return nil
		},
		SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
			count(o)
			return nil
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			count(o)
			return nil
		},
	}).Build()
	reviews := kubernetes.NewClientset()
	reviews.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.asked++
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		of := review.Spec.ResourceAttributes
		review.Status.Allowed = s.granted[of.Resource] && of.Namespace == "ns" && (of.Verb == "get" || of.Verb == "list" || of.Verb == "watch")
		return true, review, nil
	})
	unfilled := map[string]bool{}
	for _, kind := range empty {
		unfilled[kind] = true
	}
	s.Client = New(below, Options{
		Informers: informers{empty: unfilled}, Direct: []client.Object{&corev1.Secret{}}, Namespace: "ns",
		Reviews: reviews.AuthorizationV1().SelfSubjectAccessReviews(),
		Aside:   func(_ context.Context, do func()) { s.aside++; do() },
	})
	return s
}

func object(gvk schema.GroupVersionKind, ns string) *unstructured.Unstructured {
	o := unstructuredOf(gvk)
	o.SetName("x")
	o.SetNamespace(ns)
	return o
}

// calls are all ways through the gate.
var calls = map[string]func(context.Context, *stage, *unstructured.Unstructured) error{
	"get": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error {
		return s.Get(ctx, client.ObjectKeyFromObject(o), o)
	},
	"list": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(o.GetAPIVersion())
		list.SetKind(o.GetKind() + "List")
		return s.List(ctx, list, client.InNamespace(o.GetNamespace()))
	},
	"create": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error { return s.Create(ctx, o) },
	"update": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error { return s.Update(ctx, o) },
	"delete": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error { return s.Delete(ctx, o) },
	"patch": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error {
		return s.Patch(ctx, o, client.MergeFrom(o))
	},
	"status patch": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error {
		return s.Status().Patch(ctx, o, client.MergeFrom(o))
	},
	"status update": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error {
		return s.Status().Update(ctx, o)
	},
	"apply": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error {
		return s.Apply(ctx, client.ApplyConfigurationFromUnstructured(o))
	},
	"status apply": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error {
		return s.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(o))
	},
	"part create": func(ctx context.Context, s *stage, o *unstructured.Unstructured) error {
		return s.SubResource("token").Create(ctx, o, o)
	},
}

// TestGate: each way to an object of each kind.
func TestGate(t *testing.T) {
	for kind, want := range map[string]struct{ group, ns, read, write string }{
		"GoodMachine":   {group: group, ns: "ns"},
		"WideMachine":   {group: group, ns: "ns", read: "cluster-scoped", write: "cluster-scoped"},
		"PlainMachine":  {group: group, ns: "ns", read: "contract", write: "contract"},
		"SecretMachine": {group: group, ns: "ns", read: "may not get, list, watch secretmachines"},
		"NoMachine":     {group: group, ns: "ns", read: "not served", write: "not served"},
		"Secret":        {ns: "ns", read: "belongs to Kubernetes", write: "belongs to Kubernetes"},
		"Machine":       {group: clusterv1.GroupVersion.Group, ns: "ns"},
	} {
		for way, call := range calls {
			s := newStage(t)
			gvk := schema.GroupVersionKind{Group: want.group, Version: "v1", Kind: kind}
			if want.group == clusterv1.GroupVersion.Group {
				gvk.Version = clusterv1.GroupVersion.Version
			}
			refused, reached := want.write, 1
			if way == "get" || way == "list" {
				refused = want.read
			}
			if refused != "" {
				reached = 0
			}
			err := call(t.Context(), s, object(gvk, want.ns))
			if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
				t.Errorf("%s %s: %v, want %q", way, kind, err, refused)
			}
			if err != nil && machine.Refused(err) == nil {
				t.Errorf("%s %s: %v is no refusal", way, kind, err)
			}
			if s.reached != reached {
				t.Errorf("%s %s: reached %d times, want %d", way, kind, s.reached, reached)
			}
			if err := call(t.Context(), newStage(t), object(gvk, "")); err == nil {
				t.Errorf("%s %s without a namespace is accepted", way, kind)
			}
		}
	}
}

// TestTogether: no untyped objects are deleted together, past the gate.
func TestTogether(t *testing.T) {
	s := newStage(t)
	o := object(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "GoodMachine"}, "ns")
	if err := s.DeleteAllOf(t.Context(), o, client.InNamespace("ns")); err == nil || s.reached > 0 {
		t.Errorf("all are deleted: %v, reached %d times", err, s.reached)
	}
}

// TestRights: an answer counts for a while, a missing right for less long.
func TestRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		good := object(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "GoodMachine"}, "ns")
		read := func(o *unstructured.Unstructured) error { return s.Get(t.Context(), client.ObjectKeyFromObject(o), o) }
		steps := []struct {
			wait    time.Duration
			granted bool
			asked   int
			refused bool
		}{
			{granted: true, asked: 3},
			{wait: grantedFor - time.Second, asked: 3},
			{wait: 2 * time.Second, asked: 6, refused: true},
			{wait: missingFor - time.Second, granted: true, asked: 6, refused: true},
			{wait: 2 * time.Second, granted: true, asked: 9},
		}
		for i, step := range steps {
			time.Sleep(step.wait)
			s.granted["goodmachines"] = step.granted
			err := read(good)
			if (err != nil) != step.refused || s.asked != step.asked {
				t.Errorf("step %d: %v after %d questions, want refused %t after %d", i, err, s.asked, step.refused, step.asked)
			}
		}
	})
}

// TestSync: a cache that does not fill is waited for once, aside, and not by those who come later; one that is full is not.
func TestSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "GoodMachine", "MachineList")
		o := object(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "GoodMachine"}, "ns")
		took := func() (time.Duration, error) {
			began := time.Now()
			err := s.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			return time.Since(began), err
		}
		if waited, err := took(); waited != SyncTimeout || machine.Refused(err) == nil || s.aside != 1 {
			t.Errorf("the first waited %v, %d times aside: %v", waited, s.aside, err)
		}
		if waited, err := took(); waited != 0 || machine.Refused(err) == nil || s.aside != 1 {
			t.Errorf("the second waited %v, %d times aside: %v", waited, s.aside, err)
		}
		s.options.Informers = informers{}
		if waited, err := took(); waited != 0 || err != nil {
			t.Errorf("of a full cache it waited %v: %v", waited, err)
		}
		s.options.Informers = informers{empty: map[string]bool{"GoodMachine": true}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Get(ctx, client.ObjectKeyFromObject(o), o); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a reader whose time is over gets %v", err)
		}
		if err := s.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "x"}, &corev1.Secret{}); machine.Refused(err) != nil {
			t.Errorf("what is not read from the cache waits for it: %v", err)
		}
	})
}
