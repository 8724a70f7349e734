package upgrader

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/internal/core/steps"
)

// server is an API server with one Node and pods.
type server struct {
	*testing.T
	node corev1.Node
	pods []corev1.Pod
	// keeps says how often the eviction of a pod is refused before it is done; below 0: always.
	keeps map[string]int
	// evicted are the pods that were, in their order.
	evicted []string
	// conflicts is how many patches of the Node fail because it was changed.
	conflicts int
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes/n1":
		answer = s.node
	case r.Method == http.MethodPatch && r.URL.Path == "/api/v1/nodes/n1" && r.Header.Get("Content-Type") == "application/merge-patch+json":
		answer = s.patch(r.Body)
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/pods" && r.URL.Query().Get("fieldSelector") == "spec.nodeName=n1":
		answer = corev1.PodList{Items: s.pods}
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/eviction"):
		answer = s.evict(strings.Split(r.URL.Path, "/"))
	default:
		answer = apierrors.NewForbidden(corev1.Resource("any"), r.URL.String(), nil).Status()
	}
	if status, is := answer.(metav1.Status); is {
		w.WriteHeader(int(status.Code))
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.Error(err)
	}
}

func (s *server) patch(body io.Reader) any {
	var patch struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Unschedulable *bool `json:"unschedulable"`
		} `json:"spec"`
	}
	if err := json.NewDecoder(body).Decode(&patch); err != nil || patch.Metadata.ResourceVersion != s.node.ResourceVersion {
		s.Errorf("the Node may have been changed meanwhile: %+v, %v", patch, err)
	}
	if s.conflicts--; s.conflicts >= 0 {
		return apierrors.NewConflict(corev1.Resource("nodes"), "n1", nil).Status()
	}
	s.node.Annotations = map[string]string{}
	for key, value := range patch.Metadata.Annotations {
		if value != nil {
			s.node.Annotations[key] = *value
		}
	}
	s.node.Spec.Unschedulable = ptr.Deref(patch.Spec.Unschedulable, false)
	return s.node
}

func (s *server) evict(path []string) any {
	namespace, name := path[4], path[6]
	if s.keeps[name] != 0 {
		s.keeps[name]--
		return apierrors.NewTooManyRequests("the disruption budget needs it", 1).Status()
	}
	for i, p := range s.pods {
		if p.Namespace == namespace && p.Name == name {
			s.pods = append(s.pods[:i:i], s.pods[i+1:]...)
			s.evicted = append(s.evicted, name)
			return metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
		}
	}
	return apierrors.NewNotFound(corev1.Resource("pods"), name).Status()
}

// open returns a connection to the server.
func (s *server) open() *api {
	listens := httptest.NewServer(s)
	s.Cleanup(listens.Close)
	return &api{server: listens.URL, client: listens.Client()}
}

// podsOf is a node's usual company: of these, only "web", "bare" and "ran" leave.
func podsOf() []corev1.Pod {
	pod := func(namespace, name string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid"}}
		change(&p)
		return p
	}
	daemon := []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
	return []corev1.Pod{
		pod("default", "web", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: ptr.To(true)}}
		}),
		pod("default", "bare", func(*corev1.Pod) {}),
		pod("kube-system", "proxy", func(p *corev1.Pod) { p.OwnerReferences = daemon }),
		pod("kube-system", "ran", func(p *corev1.Pod) { p.OwnerReferences, p.Status.Phase = daemon, corev1.PodFailed }),
		pod("kube-system", "etcd-n1", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("kube-system", "quorate-upgrade-x", func(p *corev1.Pod) { p.Labels = map[string]string{steps.PodLabel: steps.PodLabelValue} }),
	}
}

// TestDrain: pods leave that can, and what keeps others is said; the node is as it was where that must not be so.
func TestDrain(t *testing.T) {
	type want struct{ says, fails, evicted, cordonedBy string }
	for name, test := range map[string]struct {
		keeps     map[string]int
		policy    steps.DrainPolicy
		conflicts int
		cordoned  bool
		want      want
	}{
		"all leave":            {nil, steps.DrainRequired, 0, false, want{"the node is drained", "", "web bare ran", "id"}},
		"a budget opens":       {map[string]int{"web": 2}, steps.DrainRequired, 0, false, want{"the node is drained", "", "bare ran web", "id"}},
		"the Node was changed": {nil, steps.DrainRequired, 2, false, want{"the node is drained", "", "web bare ran", "id"}},
		"a person cordoned":    {nil, steps.DrainRequired, 0, true, want{"the node is drained", "", "web bare ran", ""}},
		"a budget stays shut": {map[string]int{"web": -1}, steps.DrainRequired, 0, false,
			want{"", "default/web (it may not be evicted: the disruption budget needs it) have not left", "bare ran", ""}},
		"that is no matter": {map[string]int{"web": -1}, steps.DrainBestEffort, 0, false, want{"not all pods have left", "", "bare ran", "id"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{T: t, pods: podsOf(), keeps: test.keeps, conflicts: test.conflicts}
			s.node.Name, s.node.ResourceVersion, s.node.Spec.Unschedulable = "n1", "7", test.cordoned
			n := &node{out: io.Discard, wanted: steps.Wanted{ID: "id", Node: "n1", Drain: test.policy, DrainTimeoutSeconds: 1}}
			said, err := n.drainOver(t.Context(), s.open(), time.Millisecond)
			if !strings.HasPrefix(said, test.want.says) || (err == nil) != (test.want.fails == "") || err != nil &&
				!strings.Contains(err.Error(), test.want.fails) {
				t.Errorf("%q, %v", said, err)
			}
			if got := strings.Join(s.evicted, " "); got != test.want.evicted {
				t.Errorf("%s were evicted", got)
			}
			if got := s.node.Annotations[steps.CordonedAnnotation]; got != test.want.cordonedBy ||
				s.node.Spec.Unschedulable != (got != "" || test.cordoned) {
				t.Errorf("%+v", s.node)
			}
		})
	}
}

// TestUncordon: only the upgrade that made a node unschedulable makes it schedulable again.
func TestUncordon(t *testing.T) {
	for by, want := range map[string]bool{"id": true, "another": false} {
		s := &server{T: t}
		s.node.Name, s.node.Spec.Unschedulable, s.node.Annotations = "n1", true, map[string]string{steps.CordonedAnnotation: by}
		_, err := uncordon(t.Context(), s.open(), steps.Wanted{ID: "id", Node: "n1"})
		if s.node.Spec.Unschedulable == want || (err == nil) != want {
			t.Errorf("%s: %v, %+v", by, err, s.node)
		}
	}
	n := &node{wanted: steps.Wanted{Drain: steps.DrainNever}}
	if r := n.step(t.Context(), steps.Uncordon); r.State != steps.Skipped {
		t.Errorf("without a drain: %+v", r)
	}
}

// TestManyPodsLeft: a message names a few of them.
func TestManyPodsLeft(t *testing.T) {
	s := &server{T: t, keeps: map[string]int{}}
	for i := range 6 {
		s.pods = append(s.pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i)}})
		s.keeps[fmt.Sprint(i)] = -1
	}
	if err := evictAll(t.Context(), s.open(), "n1"); err == nil || !strings.HasSuffix(err.Error(), "and 3 more have not left") {
		t.Error(err)
	}
}

// TestDrainRights: with a node's own credentials, and nothing else, an upgrade drains that node in a real API server, and can neither evict
// a pod of another node nor change another Node.
func TestDrainRights(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: make unit builds what it names")
	}
	env := &envtest.Environment{}
	arguments := env.ControlPlane.GetAPIServer().Configure()
	arguments.Set("authorization-mode", "Node", "RBAC").Set("enable-admission-plugins", "NodeRestriction").Set("disable-admission-plugins",
		"ServiceAccount")
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	admin := kubernetes.NewForConfigOrDie(config)
	for _, name := range []string{"n1", "n2"} {
		if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + name},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "i"}},
				TerminationGracePeriodSeconds: ptr.To(int64(0))}}
		if _, err := admin.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	user, err := env.AddUser(envtest.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubelet.conf")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := openAPI(file, "")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{out: io.Discard, wanted: steps.Wanted{ID: "id", Node: "n1", Drain: steps.DrainRequired}}
	if said, err := n.drainOver(t.Context(), a, 10*time.Millisecond); err != nil {
		t.Fatalf("%s, %v", said, err)
	}
	is, err := admin.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil || !is.Spec.Unschedulable {
		t.Errorf("%+v, %v", is, err)
	}
	if _, err := admin.CoreV1().Pods("default").Get(t.Context(), "on-n1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is there: %v", err)
	}
	if _, err := uncordon(t.Context(), a, n.wanted); err != nil {
		t.Error(err)
	}
	for what, try := range map[string]func(context.Context) error{
		"evict a pod of another node": func(ctx context.Context) error {
			e := policyv1.Eviction{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-n2"}}
			return a.send(ctx, http.MethodPost, "/api/v1/namespaces/default/pods/on-n2/eviction", e, nil)
		},
		"change another Node": func(ctx context.Context) error {
			return cordon(ctx, a, steps.Wanted{ID: "id", Node: "n2"})
		},
	} {
		if err := try(t.Context()); !hasStatus(err, http.StatusForbidden) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := admin.CoreV1().Pods("default").Get(t.Context(), "on-n2", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
