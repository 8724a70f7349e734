package nodeupgrade

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	managementfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// scene is a management cluster with a Cluster of three control plane machines and a worker, and its managed cluster.
type scene struct {
	*testing.T
	controller *Controller
	management client.Client
	managed    *fake.Clientset
	// away: the managed cluster does not answer.
	away error
}

func newScene(t *testing.T) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme,
		upgradev1.AddToScheme, controlplanev1.AddToScheme, controlplanev1alpha1.AddToScheme, bootstrapv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects := []client.Object{&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default"}}}
	s := &scene{T: t, managed: fake.NewClientset()}
	s.managed.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if pod, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod); ok {
			pod.CreationTimestamp = metav1.Now() // as an API server does
		}
		return false, nil, nil
	})
	for _, name := range []string{"cp-1", "cp-2", "cp-3", "worker"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "uid-of-machine"},
			Spec: clusterv1.MachineSpec{ClusterName: "demo"}}
		if name != "worker" {
			m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
			s.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "etcd-" + name, Namespace: "kube-system"}})
		}
		m.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
		objects = append(objects, m)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.NodeInfo.KubeletVersion = "v1.35.4"
		if _, err := s.managed.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.management = managementfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&upgradev1.NodeUpgrade{},
		&clusterv1.Machine{}).Build()
	s.controller = &Controller{
		Client: s.management, APIReader: s.management, Recorder: events.NewFakeRecorder(100), Upgraders: upgraders.Images{Reader: s.management,
			Namespace: "quorate-system", Default: "quorate.io/upgrader:%s"},
		Clusters: func(context.Context, client.ObjectKey) (kubernetes.Interface, func(), error) {
			return s.managed, func() {}, s.away
		},
	}
	return s
}

func (s *scene) put(pod *corev1.Pod) {
	s.Helper()
	if _, err := s.managed.CoreV1().Pods(pod.Namespace).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// upgrade makes the NodeUpgrade of a machine.
func (s *scene) upgrade(machine string) *upgradev1.NodeUpgrade {
	s.Helper()
	u := &upgradev1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: machine + "-abc", Namespace: "default", Generation: 1},
		Spec: upgradev1.NodeUpgradeSpec{Machine: upgradev1.MachineReference{Name: machine}, KubernetesVersion: "v1.36.3",
			NodeType: upgradev1.ControlPlane},
	}
	if machine == "worker" {
		u.Spec.NodeType = upgradev1.Worker
	}
	if err := s.management.Create(s.Context(), u); err != nil {
		s.Fatal(err)
	}
	return u
}

// look has the controller look once, and returns the NodeUpgrade as it is then.
func (s *scene) look(u *upgradev1.NodeUpgrade) *upgradev1.NodeUpgrade {
	s.Helper()
	if _, err := s.controller.Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(u)}); err != nil {
		s.Fatalf("%s: %v", u.Name, err)
	}
	return s.read(u)
}

func (s *scene) read(u *upgradev1.NodeUpgrade) *upgradev1.NodeUpgrade {
	s.Helper()
	is := &upgradev1.NodeUpgrade{}
	if err := s.management.Get(s.Context(), client.ObjectKeyFromObject(u), is); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		s.Fatal(err)
	}
	return is
}

// begun looks until the upgrade has a pod, and returns that.
func (s *scene) begun(u *upgradev1.NodeUpgrade) *corev1.Pod {
	s.Helper()
	for range 3 {
		s.look(u)
	}
	pod := s.pod(u)
	if pod == nil {
		s.Fatalf("no pod was made: %+v", s.read(u).Status)
	}
	return pod
}

func (s *scene) pod(u *upgradev1.NodeUpgrade) *corev1.Pod {
	s.Helper()
	pod, err := s.managed.CoreV1().Pods("kube-system").Get(s.Context(), upgradepod.Name(u), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// specOf is what the steps of a pod are told.
func specOf(pod *corev1.Pod) string {
	args := pod.Spec.Containers[0].Args
	return args[len(args)-1]
}

// end has the pod's steps end so; empty: they are cut off.
func (s *scene) end(u *upgradev1.NodeUpgrade, state steps.State) {
	s.Helper()
	pod := s.pod(u)
	ended := corev1.ContainerStateTerminated{ExitCode: 137}
	if state != steps.Interrupted {
		ended = corev1.ContainerStateTerminated{ExitCode: int32(state.ExitCode())}
		for _, step := range steps.All() {
			line, err := steps.Result{Step: step.Name, State: state, Message: "output"}.Line()
			if err != nil {
				s.Fatal(err)
			}
			ended.Message += line + "\n"
		}
	}
	pod.Status.Phase = corev1.PodFailed
	if state.Succeeded() {
		pod.Status.Phase = corev1.PodSucceeded
	}
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = nil, nil
	for _, c := range append(append([]corev1.Container(nil), pod.Spec.InitContainers...), pod.Spec.Containers...) {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses,
			corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Terminated: &ended}})
	}
	if _, err := s.managed.CoreV1().Pods("kube-system").UpdateStatus(s.Context(), pod, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) machine(name string) *clusterv1.Machine {
	s.Helper()
	m := &clusterv1.Machine{}
	if err := s.management.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: name}, m); err != nil {
		s.Fatal(err)
	}
	return m
}

// expect checks the reason of the condition Progressing.
func (s *scene) expect(u *upgradev1.NodeUpgrade, reason, message string) {
	s.Helper()
	if c := conditions.Get(u, upgradev1.Progressing); c == nil || c.Reason != reason || !strings.Contains(c.Message, message) {
		s.Errorf("%s: %+v, want %s with %q", u.Name, u.Status.Conditions, reason, message)
	}
}

// TestUpgrade: a NodeUpgrade from its beginning to its end.
func TestUpgrade(t *testing.T) {
	s := newScene(t)
	u := s.upgrade("cp-1")
	is := s.look(u)
	if !controllerutil.ContainsFinalizer(is, upgradev1.Finalizer) || is.Labels[clusterv1.ClusterNameLabel] != "demo" ||
		len(is.OwnerReferences) != 1 || is.OwnerReferences[0].Kind != "Machine" {
		t.Fatalf("%+v", is.ObjectMeta)
	}
	pod := s.begun(u)
	if pod.Spec.NodeName != "cp-1" || pod.Spec.Containers[0].Image != "quorate.io/upgrader:v1.36.3" ||
		!strings.Contains(specOf(pod), `"stackedEtcd":true`) || strings.Contains(specOf(pod), "singleNode") {
		t.Errorf("%+v", pod.Spec)
	}
	held := s.machine("cp-1").Annotations
	if _, skips := held[clusterv1.MachineSkipRemediationAnnotation]; !skips || held[upgradev1.MachineHeldAnnotation] != u.Name {
		t.Errorf("the MachineHealthCheck may replace the machine: %v", held)
	}
	s.away = errors.New("connection refused")
	s.expect(s.look(u), upgradev1.Running, "connection refused")
	s.away = nil
	s.end(u, steps.Done)
	is = s.look(u)
	s.expect(is, upgradev1.Done, "")
	if !ptr.Deref(is.Status.Completed, false) || ptr.Deref(is.Status.Attempts, 0) != 1 || is.Status.ObservedGeneration != 1 {
		t.Errorf("%+v", is.Status)
	}
	if s.pod(u) != nil || len(s.machine("cp-1").Annotations) != 0 || len(is.Finalizers) != 0 {
		t.Errorf("something is left: %v %v", s.machine("cp-1").Annotations, is.Finalizers)
	}
	s.look(u)
	if s.pod(u) != nil {
		t.Error("what is done was begun again")
	}
}

// TestRightsOfBefore: a worker's pod gets no rights, and those that an earlier release gave to it are gone before the next pod is made, and
// at the end.
func TestRightsOfBefore(t *testing.T) {
	s := newScene(t)
	u := s.upgrade("worker")
	meta := metav1.ObjectMeta{Name: upgradepod.Name(u)}
	give := func() {
		_, err1 := s.managed.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta}, metav1.CreateOptions{})
		_, err2 := s.managed.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta},
			metav1.CreateOptions{})
		_, err3 := s.managed.CoreV1().ServiceAccounts("kube-system").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta},
			metav1.CreateOptions{})
		s.must(errors.Join(err1, err2, err3))
	}
	none := func(when string) {
		roles, err1 := s.managed.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
		bindings, err2 := s.managed.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
		accounts, err3 := s.managed.CoreV1().ServiceAccounts("kube-system").List(t.Context(), metav1.ListOptions{})
		s.must(errors.Join(err1, err2, err3))
		if n := len(roles.Items) + len(bindings.Items) + len(accounts.Items); n != 0 {
			t.Errorf("%s: %d of %v, %v and %v", when, n, roles.Items, bindings.Items, accounts.Items)
		}
	}
	give()
	s.begun(u)
	none("with the pod")
	give()
	s.end(u, steps.Done)
	s.look(u)
	none("when it is done")
}

// TestInterrupted: a pod that was cut off is followed by another, a few times; then a person has to look, and a deleted pod is the word to
// go on.
func TestInterrupted(t *testing.T) {
	s := newScene(t)
	u := s.upgrade("cp-1")
	for attempt := int32(1); attempt <= upgradepod.MostAttempts; attempt++ {
		s.begun(u)
		if got := ptr.Deref(s.read(u).Status.Attempts, 0); got != attempt {
			t.Fatalf("%d attempts, want %d", got, attempt)
		}
		s.end(u, steps.Interrupted)
	}
	is := s.look(u)
	s.expect(is, upgradev1.Failed, "cut off 5 times")
	if s.pod(u) == nil {
		t.Fatal("the pod is what a person looks at")
	}
	if len(s.machine("cp-1").Annotations) != 0 {
		t.Error("nothing is under way, and the machine is kept from the MachineHealthCheck")
	}
	if err := s.managed.CoreV1().Pods("kube-system").Delete(t.Context(), upgradepod.Name(u), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if pod := s.begun(u); pod.Labels[upgradepod.AttemptLabel] != "6" {
		t.Errorf("%v", pod.Labels)
	}
}

// TestRetry: the annotation has a failed upgrade tried again, once.
func TestRetry(t *testing.T) {
	s := newScene(t)
	u := s.upgrade("cp-1")
	s.begun(u)
	s.end(u, steps.RolledBack)
	is := s.look(u)
	s.expect(is, upgradev1.RolledBack, "output")
	if is.Status.FailedStep != "Copy" {
		t.Errorf("%+v", is.Status)
	}
	after := is.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, upgradev1.RetryAnnotation, "")
	if err := s.management.Patch(t.Context(), after, client.MergeFrom(is)); err != nil {
		t.Fatal(err)
	}
	s.begun(u)
	if _, asked := s.read(u).Annotations[upgradev1.RetryAnnotation]; asked || s.read(u).Status.FailedStep != "" {
		t.Errorf("%v %+v", s.read(u).Annotations, s.read(u).Status)
	}
}

// TestOneAtATime: of the control plane nodes one is upgraded at a time; a worker waits for none of them.
func TestOneAtATime(t *testing.T) {
	s := newScene(t)
	first, second, worker := s.upgrade("cp-1"), s.upgrade("cp-2"), s.upgrade("worker")
	s.look(second)
	s.begun(first)
	s.begun(worker)
	s.look(second)
	s.expect(s.look(second), upgradev1.WaitingForNode, "Machine cp-1 comes first")
	if s.pod(second) != nil {
		t.Fatal("two control plane nodes are upgraded at once")
	}
	s.end(first, steps.Done)
	s.look(first)
	s.begun(second)
}

// stale reads what was there before others began.
type stale struct {
	client.Client
	list upgradev1.NodeUpgradeList
}

func (s stale) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if into, ok := list.(*upgradev1.NodeUpgradeList); ok {
		*into = s.list
		return nil
	}
	return s.Client.List(ctx, list, options...)
}

// TestStaleCache: whoever begins asks the API server whether another has begun, whatever the cache shows.
func TestStaleCache(t *testing.T) {
	s := newScene(t)
	first, second := s.upgrade("cp-1"), s.upgrade("cp-2")
	s.begun(first)
	s.controller.Client = stale{Client: s.management}
	for range 3 {
		s.look(second)
	}
	if s.pod(second) != nil {
		t.Error("two control plane nodes are upgraded at once")
	}
}

// TestPaused: a pause lets nothing begin, and what runs end.
func TestPaused(t *testing.T) {
	s := newScene(t)
	cluster := &clusterv1.Cluster{}
	if err := s.management.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, cluster); err != nil {
		t.Fatal(err)
	}
	pause := func(on bool) {
		t.Helper()
		cluster.Spec.Paused = ptr.To(on)
		if err := s.management.Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	u := s.upgrade("cp-1")
	s.look(u)
	s.expect(s.look(u), upgradev1.Paused, "")
	pause(false)
	s.begun(u)
	pause(true)
	s.end(u, steps.Interrupted)
	s.look(u)
	s.expect(s.look(u), upgradev1.Paused, "no other is made")
	if s.pod(u) != nil {
		t.Error("a pod was made during a pause")
	}
	if err := s.management.Delete(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	s.look(u)
	if s.read(u) == nil {
		t.Error("what is paused may be moving: it must not be taken down")
	}
	pause(false)
	s.look(u)
	if s.read(u) != nil || len(s.machine("cp-1").Annotations) != 0 {
		t.Error("a deleted NodeUpgrade leaves something behind")
	}
}

// TestDeleted: whoever deletes a NodeUpgrade removes its pod with it, also while the cluster is away for a moment.
func TestDeleted(t *testing.T) {
	s := newScene(t)
	u := s.upgrade("cp-1")
	s.begun(u)
	if err := s.management.Delete(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	s.away = errors.New("away")
	s.look(u)
	if s.read(u) == nil {
		t.Error("the pod is still there")
	}
	s.away = nil
	s.look(u)
	if s.pod(u) != nil || s.read(u) != nil {
		t.Error("something is left")
	}
	u = s.upgrade("cp-2")
	s.begun(u)
	if err := errors.Join(s.management.Delete(t.Context(), u), s.management.Delete(t.Context(), s.machine("cp-2"))); err != nil {
		t.Fatal(err)
	}
	s.away = errors.New("away")
	s.look(u)
	if s.read(u) != nil {
		t.Error("a machine that is gone is waited for")
	}
}

// TestSkipRemediationOfOthers: who kept the MachineHealthCheck away before wants it so afterwards.
func TestSkipRemediationOfOthers(t *testing.T) {
	s := newScene(t)
	m := s.machine("cp-1")
	m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: "mine"}
	if err := s.management.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	u := s.upgrade("cp-1")
	s.begun(u)
	s.end(u, steps.Done)
	s.look(u)
	if got := s.machine("cp-1").Annotations; len(got) != 1 || got[clusterv1.MachineSkipRemediationAnnotation] != "mine" {
		t.Errorf("%v", got)
	}
}

// TestImage: where the upgrader's image comes from, the nearest first.
func TestImage(t *testing.T) {
	config := func(namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: upgraders.ConfigMap, Namespace: namespace},
			Data: map[string]string{"v1.36.3": namespace + "/image"}}
	}
	for name, test := range map[string]struct {
		spec    string
		configs []string
		flag    string
		want    string
	}{
		"spec":                  {"mine", []string{"default", "quorate-system"}, "flag:%s", "mine"},
		"its namespace":         {"", []string{"default", "quorate-system"}, "flag:%s", "default/image"},
		"the manager's":         {"", []string{"quorate-system"}, "flag:%s", "quorate-system/image"},
		"the flag":              {"", nil, "flag:%s", "flag:v1.36.3"},
		"a flag without a %s":   {"", nil, "flag", "flag"},
		"nothing says anything": {"", nil, "", ""},
	} {
		s := newScene(t)
		s.controller.Upgraders = upgraders.Images{Reader: s.management, Namespace: "quorate-system", Default: test.flag}
		for _, namespace := range test.configs {
			if err := s.management.Create(t.Context(), config(namespace)); err != nil {
				t.Fatal(err)
			}
		}
		w := &look{}
		u := s.upgrade("cp-1")
		u.Spec.UpgraderImage = test.spec
		o, err := s.controller.image(t.Context(), &scope{upgrade: u}, w)
		if err != nil || w.env.Image != test.want || (o.Reason == "") != (test.want != "") {
			t.Errorf("%s: %s, %+v, %v", name, w.env.Image, o, err)
		}
		const missing = "no upgrader image for v1.36.3: set key v1.36.3 of ConfigMap quorate-upgrader-images in namespace default or " +
			"quorate-system"
		if test.want == "" && (o.Reason != upgradev1.WaitingForUpgrader || !strings.HasPrefix(o.Message, missing)) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// TestBrings: what the version's image has beside the programs of Kubernetes is said beside its name; of another image nothing is known.
func TestBrings(t *testing.T) {
	const said = `{"containerd": "v2.4.3", "cni": "v1.9.1"}`
	for name, test := range map[string]struct {
		spec, said string
		want       steps.Brings
		message    string
	}{
		"nothing":       {"", "", steps.Brings{}, ""},
		"said":          {"", said, steps.Brings{Containerd: "v2.4.3", CNI: "v1.9.1"}, ""},
		"another image": {"mine", said, steps.Brings{}, ""},
		"no sense":      {"", "v2.4.3", steps.Brings{}, "ConfigMap quorate-upgrader-images, key v1.36.3.brings: \"v2.4.3\" does not say"},
	} {
		s := newScene(t)
		if err := s.management.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: upgraders.ConfigMap, Namespace: "default"}, Data: map[string]string{"v1.36.3.brings": test.said,
				"v1.35.4.brings": "other"},
		}); err != nil {
			t.Fatal(err)
		}
		w := &look{}
		u := s.upgrade("cp-1")
		u.Spec.UpgraderImage = test.spec
		o, err := s.controller.brings(t.Context(), &scope{upgrade: u}, w)
		if err != nil || w.env.Brings != test.want || !strings.HasPrefix(o.Message, test.message) || (o.Reason == "") != (test.message == "") {
			t.Errorf("%s: %+v, %+v, %v", name, w.env.Brings, o, err)
		}
	}
}

// TestImages: where the infrastructure provider brings the images, the upgrade begins with the upgrader's, and waits on the node for the
// others.
func TestImages(t *testing.T) {
	for name, test := range map[string]struct {
		brings bool
		true   []string
		waits  bool
		awaits bool
	}{
		"a registry":     {},
		"nothing yet":    {brings: true, waits: true},
		"the upgrader's": {brings: true, true: []string{upgradev1.UpgraderAvailable}, awaits: true},
		"all":            {brings: true, true: []string{upgradev1.UpgraderAvailable, upgradev1.ImagesAvailable}},
		"all at once":    {brings: true, true: []string{upgradev1.ImagesAvailable}},
	} {
		s := newScene(t)
		infrastructure := &unstructured.Unstructured{}
		infrastructure.SetGroupVersionKind(schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2",
			Kind: "SomeMachine"})
		infrastructure.SetName("cp-1")
		infrastructure.SetNamespace("default")
		if test.brings {
			infrastructure.SetAnnotations(map[string]string{upgradev1.PrepareAnnotation: "true"})
		}
		s.must(s.management.Create(t.Context(), infrastructure))
		s.must(s.management.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
			Name: "somemachines.infrastructure.cluster.x-k8s.io", Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"},
		}}))
		m := s.machine("cp-1")
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "SomeMachine",
			Name: "cp-1"}
		u := s.upgrade("cp-1")
		for _, c := range test.true {
			conditions.Set(u, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: "Imported"})
		}
		w := &look{}
		o, err := s.controller.images(t.Context(), &scope{upgrade: u, machine: m}, w)
		if err != nil || (o.Reason == upgradev1.WaitingForImages) != test.waits || (o.Reason != "") != test.waits {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		if wanted := upgradepod.Wanted(u, w.env, 1); wanted.AwaitImages != test.awaits {
			t.Errorf("%s: the node waits for images: %t", name, wanted.AwaitImages)
		}
	}
}

// TestObstacles: what keeps an upgrade from beginning is said.
func TestObstacles(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*scene, *upgradev1.NodeUpgrade)
		reason  string
		message string
	}{
		"no Machine": {func(s *scene, u *upgradev1.NodeUpgrade) {
			s.must(s.management.Delete(s.Context(), s.machine(u.Spec.Machine.Name)))
		}, upgradev1.Failed, "there is no Machine cp-1"},
		"no Node": {func(s *scene, u *upgradev1.NodeUpgrade) {
			m := s.machine("cp-1")
			m.Status.NodeRef = clusterv1.MachineNodeReference{}
			s.must(s.management.Status().Update(s.Context(), m))
		}, upgradev1.WaitingForMachine, "has no Node"},
		"a Node that is gone": {func(s *scene, u *upgradev1.NodeUpgrade) {
			s.must(s.managed.CoreV1().Nodes().Delete(s.Context(), "cp-1", metav1.DeleteOptions{}))
		}, upgradev1.WaitingForMachine, "reading Node cp-1"},
		"no worker": {func(s *scene, u *upgradev1.NodeUpgrade) {
			m := s.machine("cp-1")
			m.Labels = nil
			s.must(s.management.Update(s.Context(), m))
		}, upgradev1.Failed, "spec.nodeType is ControlPlane, and Machine cp-1 is not"},
		"two minor versions": {func(s *scene, u *upgradev1.NodeUpgrade) {
			node, err := s.managed.CoreV1().Nodes().Get(s.Context(), "cp-1", metav1.GetOptions{})
			s.must(err)
			node.Status.NodeInfo.KubeletVersion = "v1.34.1"
			_, err = s.managed.CoreV1().Nodes().Update(s.Context(), node, metav1.UpdateOptions{})
			s.must(err)
		}, upgradev1.Failed, "more than 1 minor"},
		"another container runtime": {func(s *scene, u *upgradev1.NodeUpgrade) {
			node, err := s.managed.CoreV1().Nodes().Get(s.Context(), "cp-1", metav1.GetOptions{})
			s.must(err)
			node.Status.NodeInfo.ContainerRuntimeVersion = "cri-o://1.35.0"
			_, err = s.managed.CoreV1().Nodes().Update(s.Context(), node, metav1.UpdateOptions{})
			s.must(err)
		}, upgradev1.Failed, "container runtime cri-o://1.35.0: must be containerd"},
		"a cluster that is away": {func(s *scene, u *upgradev1.NodeUpgrade) { s.away = errors.New("gone fishing") }, upgradev1.WaitingForMachine,
			"gone fishing"},
		"pods cannot be read": {func(s *scene, u *upgradev1.NodeUpgrade) {
			s.managed.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("forbidden")
			})
		}, upgradev1.WaitingForMachine, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			u := s.upgrade("cp-1")
			test.change(s, u)
			s.look(u)
			s.expect(s.look(u), test.reason, test.message)
			if _, err := s.managed.CoreV1().Pods("kube-system").Get(t.Context(), upgradepod.Name(u), metav1.GetOptions{}); err == nil {
				t.Error("a pod was made")
			}
		})
	}
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// TestPodCannotBeMade: an API server that refuses the pod is asked again, and no attempt is counted for it.
func TestPodCannotBeMade(t *testing.T) {
	s := newScene(t)
	u := s.upgrade("cp-1")
	refuse := true
	s.managed.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refuse {
			return true, nil, errors.New("not now")
		}
		return false, nil, nil
	})
	for range 10 {
		s.look(u)
	}
	if got := ptr.Deref(s.read(u).Status.Attempts, 0); got != 0 || s.pod(u) != nil {
		t.Errorf("%d attempts", got)
	}
	refuse = false
	s.begun(u)
	if got := ptr.Deref(s.read(u).Status.Attempts, 0); got != 1 {
		t.Errorf("%d attempts", got)
	}
}
