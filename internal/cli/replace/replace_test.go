package replace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/manager/kinds"
)

// made is when the machines of a scene were made.
var made = metav1.NewTime(time.Date(2026, 11, 23, 4, 5, 6, 0, time.UTC))

// scene is a cluster with a control plane of three machines, an etcd cluster of one and a worker.
type scene struct {
	cluster *clusterv1.Cluster
	kcp     *controlplanev1.KubeadmControlPlane
	etcd    *etcdclusterv1alpha1.EtcdCluster
	others  []client.Object
	in      string
	out     bytes.Buffer
}

func newScene() *scene {
	s := &scene{cluster: &clusterv1.Cluster{}, kcp: &controlplanev1.KubeadmControlPlane{}, etcd: &etcdclusterv1alpha1.EtcdCluster{}}
	label := map[string]string{clusterv1.ClusterNameLabel: "demo"}
	s.cluster.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "u"}
	s.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "demo-cp"}
	s.cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	s.cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	owner := *metav1.NewControllerRef(s.cluster, clusterv1.GroupVersion.WithKind("Cluster"))
	s.kcp.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "demo-cp", UID: "k", Labels: label,
		OwnerReferences: []metav1.OwnerReference{owner}}
	s.kcp.Spec.Version, s.kcp.Spec.Replicas = "v1.36.3", ptr.To[int32](3)
	s.etcd.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd", UID: "e", Labels: label,
		OwnerReferences: []metav1.OwnerReference{owner}}
	return s
}

// member is a Machine that an object controls.
func member(name string, of client.Object, kind string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid", CreationTimestamp: made,
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	m.Spec.ClusterName = "demo"
	api := controlplanev1.GroupVersion.String()
	if kind == "EtcdCluster" {
		api = etcdclusterv1alpha1.GroupVersion.String()
	}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: api, Kind: kind, Name: of.GetName(), UID: of.GetUID(), Controller: ptr.To(true)}}
	switch kind {
	case "MachineSet":
		m.Labels[clusterv1.MachineDeploymentNameLabel] = "workers"
	case "KubeadmControlPlane":
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	return m
}

// open returns the command, and what it is about.
func (s *scene) open() (*app, client.Client) {
	objects := append([]client.Object{s.cluster, s.kcp, s.etcd,
		member("demo-cp-1", s.kcp, "KubeadmControlPlane"), member("demo-cp-2", s.kcp, "KubeadmControlPlane"),
		member("demo-cp-3", s.kcp, "KubeadmControlPlane"), member("demo-etcd-1", s.etcd, "EtcdCluster"),
		member("demo-md-1", s.cluster, "MachineSet")}, s.others...)
	streams := command.Streams{In: strings.NewReader(s.in), Out: &s.out, Err: &s.out}
	a := &app{&command.Invocation{Streams: streams, Environment: func(string) string { return "" }, Kubeconfig: "theirs"}}
	return a, fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{Patch: patch}).Build()
}

// patch returns what a trial would make of an object, as an API server does and the fake client does not.
func patch(ctx context.Context, c client.WithWatch, o client.Object, by client.Patch, options ...client.PatchOption) error {
	tried, is := o.(*unstructured.Unstructured)
	if !is {
		return c.Patch(ctx, o, by, options...)
	}
	raw, err := by.Data(o)
	if err != nil {
		return err
	}
	var change struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := errors.Join(json.Unmarshal(raw, &change), c.Get(ctx, client.ObjectKeyFromObject(o), tried)); err != nil {
		return err
	}
	tried.SetAnnotations(change.Metadata.Annotations)
	return nil
}

// asked is what the annotation of the control plane says.
func asked(t *testing.T, c client.Client, of client.Object) string {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(of), of); err != nil {
		t.Fatal(err)
	}
	return of.GetAnnotations()[controlplanev1.ReplaceAnnotation]
}

// TestReplace: the plan is shown, a person is asked, and the annotation names the Machine with its time. Requests of others stay, and those
// of machines that are gone are dropped.
func TestReplace(t *testing.T) {
	for name, test := range map[string]struct {
		of, in, before, want string
		failed               error
	}{
		"agreed": {"demo-cp-2", "yes\n", "", "demo-cp-2=2026-11-23T04:05:06Z", nil},
		"with its namespace, beside others": {"default/demo-cp-2", "yes\n", "demo-cp-7=2026-11-24T00:00:00Z,demo-cp-1=2026-11-24T00:00:00Z",
			"demo-cp-1=2026-11-24T00:00:00Z,demo-cp-2=2026-11-23T04:05:06Z", nil},
		"not agreed": {"demo-cp-2", "no\n", "", "", errNotReplaced},
	} {
		s := newScene()
		s.in = test.in
		s.kcp.Annotations = map[string]string{controlplanev1.ReplaceAnnotation: test.before}
		a, c := s.open()
		err := a.replace(t.Context(), c, test.of, flags{noWait: true, timeout: time.Minute})
		if got := asked(t, c, s.kcp); !errors.Is(err, test.failed) || got != test.want {
			t.Errorf("%s: %v, asked is %q, want %q", name, err, got, test.want)
		}
		if out := s.out.String(); !strings.Contains(out, "KubeadmControlPlane demo-cp: ") || strings.Contains(out, "EtcdCluster") ||
			!strings.Contains(out, "Replace demo-cp-2? Type yes to go on:") || !strings.Contains(out, "demo-cp-2 is not replaced while that is so") {
			t.Errorf("%s: shown is\n%s", name, out)
		}
	}
	s := newScene()
	a, c := s.open()
	if err := a.replace(t.Context(), c, "demo-etcd-1", flags{yes: true, noWait: true}); err != nil ||
		asked(t, c, s.etcd) != "demo-etcd-1=2026-11-23T04:05:06Z" || !strings.Contains(s.out.String(), "EtcdCluster demo-etcd: ") {
		t.Errorf("%v\n%s", err, &s.out)
	}
}

// TestReplaces: a plan that stops before the machine is replaced is told apart from one that replaces it.
func TestReplaces(t *testing.T) {
	p := report.Plan{}
	p.Machines = []forecast.Machine{{Name: "a", Fate: forecast.Replace}, {Name: "b", Fate: forecast.Keep}}
	for name, want := range map[string]bool{"a": true, "b": false, "c": false} {
		if got := replaces(p, name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestRefused: what would never be replaced is not asked for, and the error says what can be done.
func TestRefused(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		of     string
		change func(*scene)
		says   string
	}{
		"unknown": {"demo-cp-9", nil, `no such Machine: "demo-cp-9"; there are demo-cp-1, demo-cp-2, demo-cp-3 and 1 more`},
		"a worker": {"demo-md-1", nil, "is a worker of MachineDeployment workers, which creates another when it is deleted: " +
			"kubectl delete machine -n default demo-md-1"},
		"paused": {"demo-cp-2", func(s *scene) { s.cluster.Spec.Paused = ptr.To(true) },
			"is paused: nothing is replaced until spec.paused of Cluster demo"},
		"paused by itself": {"demo-cp-2", func(s *scene) { s.kcp.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, "is paused"},
		"hibernates": {"demo-cp-2", func(s *scene) { s.kcp.Spec.PowerState = controlplanev1.PowerHibernated },
			"hibernates: it gets new machines when it wakes (quorate wake demo)"},
		"only in place": {"demo-cp-2", func(s *scene) { s.kcp.Spec.InPlace.Policy = controlplanev1.InPlaceOnly },
			"is Only: Quorate replaces no machine"},
		"by others":     {"demo-cp-2", func(s *scene) { s.kcp.Spec.InPlace.Policy = controlplanev1.InPlaceExternal }, "is External"},
		"being deleted": {"demo-cp-2", func(s *scene) { s.kcp.DeletionTimestamp, s.kcp.Finalizers = &now, []string{"x/y"} }, "is being deleted"},
		"an old request": {"demo-cp-2", func(s *scene) {
			s.kcp.Annotations = map[string]string{controlplanev1.ReplaceAnnotation: "demo-cp-1"}
		}, `quorate-replace is "demo-cp-1"; names of machines with times are accepted`},
		"goes already": {"demo-cp-4", func(s *scene) {
			m := member("demo-cp-4", s.kcp, "KubeadmControlPlane")
			m.DeletionTimestamp, m.Finalizers = &now, []string{"x/y"}
			s.others = append(s.others, m)
		}, "Machine demo-cp-4 is being deleted already"},
		"of somebody else": {"other", func(s *scene) {
			s.others = append(s.others, member("other", &clusterv1.Cluster{}, "OtherControlPlane"))
		}, "Machine other belongs to no KubeadmControlPlane, ControlPlane or EtcdCluster of cluster demo"},
		"two of the name": {"demo-cp-2", func(s *scene) {
			m := member("demo-cp-2", s.kcp, "KubeadmControlPlane")
			m.Namespace = "prod"
			s.others = append(s.others, m)
		}, `2 Machines have the name "demo-cp-2": must be NAMESPACE/NAME (default/demo-cp-2, prod/demo-cp-2)`},
	} {
		s := newScene()
		if test.change != nil {
			test.change(s)
		}
		a, c := s.open()
		before := asked(t, c, s.kcp)
		err := a.replace(t.Context(), c, test.of, flags{yes: true, noWait: true})
		var coded *command.ExitError
		if !errors.As(err, &coded) || coded.Code != command.ExitUsage || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
		if after := asked(t, c, s.kcp); after != before {
			t.Errorf("%s: asked is %q", name, after)
		}
	}
}

// TestFollow: the command ends when the machine is gone and the group is as wanted, and says what it waits for.
func TestFollow(t *testing.T) {
	for name, test := range map[string]struct {
		there        bool
		step, reason string
		asked        string
		says         string
		failed       string
	}{
		"gone":                  {false, "Nothing", "AsWanted", "", "demo-cp-2 was replaced after", ""},
		"gone, and not at rest": {false, "Wait", "Joining", "", "why", "late"},
		"there":                 {true, "Nothing", "AsWanted", "demo-cp-2=2026-11-23T04:05:06Z", "why", "late"},
		"approval": {true, "Wait", "ApprovalRequired", "demo-cp-2=2026-11-23T04:05:06Z",
			"approve it with: quorate approve demo", "late"},
		"taken back": {true, "Nothing", "AsWanted", "demo-cp-1=2026-11-23T04:05:06Z", "why", "does not name demo-cp-2 any more"},
	} {
		s := newScene()
		s.kcp.Annotations = map[string]string{controlplanev1.ReplaceAnnotation: test.asked}
		s.kcp.Status.Plan = controlplanev1.PlanStatus{Step: test.step, Reason: test.reason, Message: "why"}
		a, c := s.open()
		found, err := find(t.Context(), c, "demo-cp-2")
		if err != nil {
			t.Fatal(err)
		}
		if !test.there {
			if err := c.Delete(t.Context(), found.machine.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("late"))
		err = a.follow(ctx, c, found)
		cancel()
		if (err != nil) != (test.failed != "") || err != nil && !strings.Contains(err.Error(), test.failed) ||
			!strings.Contains(s.out.String(), test.says) {
			t.Errorf("%s: %v\n%s", name, err, &s.out)
		}
	}
}

// TestUsage: one machine is named, and the time is positive.
func TestUsage(t *testing.T) {
	for args, says := range map[string]string{
		"":               "MACHINE is missing",
		"a b":            "one argument too many",
		"a --timeout 0s": `invalid --timeout "0s": must be greater than 0`,
	} {
		s := newScene()
		a, _ := s.open()
		cmd := Command(a.Invocation)
		cmd.SetArgs(strings.Fields(args))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", args, err, says)
		}
	}
}
