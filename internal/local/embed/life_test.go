package embed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/internal/program/process"
)

// limitMiB is how much memory the daemon and its children may take at rest, in MiB.
const limitMiB = 700

// life is one state folder with its daemon.
type life struct {
	o Options
}

// TestLife runs a real management plane. It needs no root.
func TestLife(t *testing.T) {
	version := artifacts.DefaultVersion
	missing, err := artifacts.Missing(t.Context(), artifacts.Options{}, version)
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		t.Skipf("artifacts of Kubernetes %s are not built (%v): run `quorate artifacts build`", version, missing)
	}
	l := &life{o: Options{State: filepath.Join(t.TempDir(), "state"), Network: netip.MustParsePrefix("10.213.0.0/16"), Kubernetes: version}}
	t.Cleanup(func() {
		if err := Stop(context.Background(), l.o.State); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of the daemon's log:\n%s", tail(LogPath(l.o.State), 40))
		}
	})
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"start", l.start}, {"start again", l.startAgain}, {"files", l.files}, {"rights", l.rights}, {"rights elsewhere", l.production},
		{"no extensions", l.noExtensions}, {"extension", l.extension}, {"update in place", l.update},
		{"conversion", l.conversion}, {"webhooks", l.webhooks}, {"template", l.template}, {"class", l.class},
		{"class of machines", l.machinesClass}, {"old version", l.oldVersion}, {"calm", l.calm}, {"hints", l.hints}, {"own rights", l.ownRights},
		{"garbage", l.garbage}, {"namespace", l.namespace},
		{"memory", l.memory}, {"death of a child", l.childDies}, {"death of the daemon", l.daemonDies}, {"taken port", l.takenPort},
		{"stop", l.stop},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
}

// up starts the daemon and returns how long that took.
func (l *life) up(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := Start(ctx, l.o, func(what string) { t.Logf("%5.2f s %s", time.Since(began).Seconds(), what) }); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

func (l *life) client(t *testing.T) client.Client {
	t.Helper()
	cfg, err := RESTConfig(l.o.State)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, c client.Client, objs ...client.Object) {
	t.Helper()
	for _, o := range objs {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}
}

// start: of several starts at once one daemon comes, and all of them return when it is ready.
func (l *life) start(t *testing.T) {
	results := make(chan error, 3)
	began := time.Now()
	for range cap(results) {
		go func() { results <- Start(t.Context(), l.o, nil) }()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("first start: %.1f s", time.Since(began).Seconds())
	if got := bytes.Count(readFile(t, LogPath(l.o.State)), []byte(`msg=ready`)); got != 1 {
		t.Errorf("%d daemons came up, want 1", got)
	}
}

func (l *life) startAgain(t *testing.T) {
	before, ok := Running(l.o.State)
	if !ok {
		t.Fatal("no daemon runs")
	}
	if took := l.up(t); took > 10*time.Second {
		t.Errorf("starting what runs took %s", took)
	}
	if after, _ := Running(l.o.State); after != before {
		t.Errorf("process %d became %d", before, after)
	}
}

// files: what holds keys is for its owner only, and no log has a key in it.
func (l *life) files(t *testing.T) {
	checkMode(t, filepath.Join(l.o.State, "management"), 0o700)
	for _, f := range []string{"management/kubeconfig", "environment.json", "daemon.log", "daemon.pid", "management/logs/etcd.log"} {
		checkMode(t, filepath.Join(l.o.State, f), 0o600)
	}
	logs, err := filepath.Glob(filepath.Join(l.o.State, "management/logs/*.log"))
	if err != nil || len(logs) < 3 {
		t.Fatalf("logs %v, %v; want one of each child", logs, err)
	}
	if users, err := artifacts.Users(l.o.Artifacts); err != nil || !slices.Contains(users, l.o.State) {
		t.Errorf("the cache knows the users %q, %v; want %s among them", users, err, l.o.State)
	}
	for _, f := range append(logs, LogPath(l.o.State)) {
		if bytes.Contains(readFile(t, f), []byte("PRIVATE KEY")) {
			t.Errorf("%s has a private key in it", f)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// rights: the controllers may do what they need, and are no administrators.
func (l *life) rights(t *testing.T) {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(l.o.State, "management", "controllers.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	controllers, err := client.New(cfg, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		verb, group, resource string
		admin, controllers    bool
	}{
		{"create", "cluster.x-k8s.io", "machines", true, true},
		{"patch", "controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes", true, true},
		{"create", "", "secrets", true, true},
		{"create", "rbac.authorization.k8s.io", "clusterroles", true, false},
		{"delete", "", "namespaces", true, false},
		{"update", "admissionregistration.k8s.io", "validatingwebhookconfigurations", true, false},
	} {
		for who, want := range map[client.Client]bool{l.client(t): c.admin, controllers: c.controllers} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: c.verb, Group: c.group, Resource: c.resource},
			}}
			create(t, who, review)
			if review.Status.Allowed != want {
				t.Errorf("%s %s.%s by %s: %t, want %t", c.verb, c.resource, c.group,
					map[bool]string{true: "the administrator", false: "the controllers"}[who != controllers], review.Status.Allowed, want)
			}
		}
	}
}

// production: with the role that is made for other management clusters, Quorate's own controllers come up there.
func (l *life) production(t *testing.T) {
	c := l.client(t)
	const user = "system:serviceaccount:quorate-system:quorate-manager"
	create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "production"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "quorate-quorate-manager"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	cfg, err := RESTConfig(l.o.State)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Impersonate.UserName = user
	if err := mayRead(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	pki := filepath.Join(l.o.State, "management", "pki")
	o := manager.Options{Webhooks: true}
	mgr, err := manager.New(cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: freePort(t), CertDir: pki, CertName: "webhooks.crt",
			KeyName: "webhooks.key"}),
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.Setup(t.Context(), mgr, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	for _, kind := range []client.Object{&controlplanev1.KubeadmControlPlane{}, &clusterv1.Machine{}, &clusterv1.Cluster{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil {
			t.Errorf("the cache of %T does not fill; a right to list or watch may be missing: %v", kind, err)
		}
	}
	eventually(t, "the webhooks are served", func() bool { return mgr.GetWebhookServer().StartedChecker()(nil) == nil })
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// freePort returns a port of loopback that nobody listened at a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// conversion: what is written in the old version of a kind is read in the new one, and the other way round.
func (l *life) conversion(t *testing.T) {
	c := l.client(t)
	create(t, c, &clusterv1beta1.Cluster{ObjectMeta: named("old"), Spec: clusterv1beta1.ClusterSpec{
		InfrastructureRef: &corev1.ObjectReference{APIVersion: infrav1.GroupVersion.String(), Kind: "LocalCluster", Name: "nowhere",
			Namespace: metav1.NamespaceDefault},
	}})
	var now clusterv1.Cluster
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "old"}, &now); err != nil {
		t.Fatal(err)
	}
	if ref := now.Spec.InfrastructureRef; ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != "LocalCluster" || ref.Name != "nowhere" {
		t.Errorf("reference in v1beta2: %+v", ref)
	}
	// Back again, which asks for the version that the CRD's labels name.
	var before clusterv1beta1.Cluster
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(&now), &before); err != nil {
		t.Fatal(err)
	}
	if ref := before.Spec.InfrastructureRef; ref == nil || ref.APIVersion != infrav1.GroupVersion.String() {
		t.Errorf("reference in v1beta1: %+v", ref)
	}
}

// webhooks: upstream's defaults and checks are in force.
func (l *life) webhooks(t *testing.T) {
	c := l.client(t)
	md := &clusterv1.MachineDeployment{ObjectMeta: named("md"), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "old",
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
			ClusterName: "old", Version: "1.36.3",
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io",
				Kind: "KubeadmConfigTemplate", Name: "t"}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachineTemplate",
				Name: "t"},
		}}}}
	create(t, c, md)
	if got := md.Spec.Template.Spec.Version; got != "v1.36.3" {
		t.Errorf("defaulted version %q, want v1.36.3", got)
	}
	if md.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentNameLabel] != "md" {
		t.Errorf("defaulted selector %+v", md.Spec.Selector)
	}
	// A patch, as a controller may have written the object since.
	before := md.DeepCopy()
	md.Spec.Selector.MatchLabels["other"] = "value"
	if err := c.Patch(t.Context(), md, client.MergeFrom(before)); !apierrors.IsInvalid(err) {
		t.Errorf("changing a selector: %v, want a refusal", err)
	}
	pool := &clusterv1.MachinePool{ObjectMeta: named("pool"), Spec: clusterv1.MachinePoolSpec{ClusterName: "old", Template: md.Spec.Template}}
	if err := c.Create(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "MachinePool") {
		t.Errorf("creating a MachinePool: %v, want a refusal that names it", err)
	}
}

// calm: what is as wanted is left alone. Upstream's controllers write again and again when they cannot see whose a field is.
func (l *life) calm(t *testing.T) {
	c := l.client(t)
	create(t, c, &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: named("t")},
		&infrav1.LocalMachineTemplate{ObjectMeta: named("t")})
	none := int32(0)
	var md clusterv1.MachineDeployment
	eventually(t, "the MachineDeployment is told to want nothing", func() bool {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "md"}, &md); err != nil {
			return false
		}
		md.Spec.Replicas = &none
		return c.Update(t.Context(), &md) == nil
	})
	last, since := "", time.Now()
	eventually(t, "the MachineSet is there, and nobody writes it for 3 s", func() bool {
		var all clusterv1.MachineSetList
		if err := c.List(t.Context(), &all, client.InNamespace(metav1.NamespaceDefault)); err != nil || len(all.Items) != 1 {
			return false
		}
		if now := all.Items[0].ResourceVersion; now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
}

// hints: a Cluster whose infrastructure or control plane comes later finds it at once, not when upstream's controller looks again after 30
// s.
func (l *life) hints(t *testing.T) {
	c := l.client(t)
	cluster := &clusterv1.Cluster{ObjectMeta: named("early"), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalCluster", Name: "late"},
		ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1alpha1.GroupVersion.Group, Kind: "ControlPlane",
			Name: "late"},
	}}
	create(t, c, cluster)
	eventually(t, "the controller looked at the Cluster", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster) == nil &&
			controllerutil.ContainsFinalizer(cluster, clusterv1.ClusterFinalizer) && len(cluster.Status.Conditions) > 1
	})
	controlPlane := &controlplanev1alpha1.ControlPlane{ObjectMeta: named("late")}
	controlPlane.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachineTemplate", Name: "late",
	}
	// The local provider leaves it alone, and the host as it is; so does who keeps control planes.
	for _, late := range []client.Object{controlPlane, &infrav1.LocalCluster{ObjectMeta: named("late")}} {
		what := fmt.Sprintf("%T", late)
		version, since := "", time.Now()
		eventually(t, "nobody writes the Cluster, whose controller would find anything then", func() bool {
			if c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster) != nil {
				return false
			}
			if now := cluster.ResourceVersion; now != version {
				version, since = now, time.Now()
			}
			return time.Since(since) > 2*time.Second
		})
		late.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
		create(t, c, late)
		began := time.Now()
		eventually(t, "the Cluster owns its "+what, func() bool {
			return c.Get(t.Context(), client.ObjectKeyFromObject(late), late) == nil && len(late.GetOwnerReferences()) == 1
		})
		took := time.Since(began)
		t.Logf("%s is owned after %s", what, took.Round(time.Millisecond))
		if took > 20*time.Second {
			t.Errorf("the Cluster found its %s after %s", what, took)
		}
	}
}

// garbage: what is owned goes with its owner.
func (l *life) garbage(t *testing.T) {
	c := l.client(t)
	owner := &corev1.ConfigMap{ObjectMeta: named("owner")}
	create(t, c, owner)
	owned := &corev1.ConfigMap{ObjectMeta: named("owned")}
	if err := controllerutil.SetOwnerReference(owner, owned, c.Scheme()); err != nil {
		t.Fatal(err)
	}
	create(t, c, owned)
	if err := c.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the owned ConfigMap is gone", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(owned), owned))
	})
}

// namespace: a namespace goes, with what is in it.
func (l *life) namespace(t *testing.T) {
	c := l.client(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short"}}
	inside := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "inside", Namespace: "short"}}
	create(t, c, ns, inside)
	if err := c.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(ns), ns))
	})
}

// processes returns the daemon and its children by name.
func (l *life) processes(t *testing.T) map[string]process.ID {
	t.Helper()
	daemon, ok := process.Read(filepath.Join(l.o.State, daemonPID))
	if !ok {
		t.Fatal("no daemon runs")
	}
	out := map[string]process.ID{"daemon": daemon}
	files, err := filepath.Glob(filepath.Join(l.o.State, "management/logs/*.pid"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if p, ok := process.Read(f); ok {
			out[strings.TrimSuffix(filepath.Base(f), ".pid")] = p
		}
	}
	return out
}

func (l *life) memory(t *testing.T) {
	all := l.processes(t)
	if len(all) != 4 {
		t.Errorf("processes %v, want the daemon and three children", all)
	}
	var sum int
	for name, p := range all {
		for line := range strings.Lines(string(readFile(t, fmt.Sprintf("/proc/%d/status", p.PID)))) {
			if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kib, err := strconv.Atoi(strings.Fields(value)[0])
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: %d MiB", name, kib/1024)
				sum += kib / 1024
			}
		}
	}
	t.Logf("together: %d MiB", sum)
	if sum > limitMiB {
		t.Errorf("together %d MiB, want at most %d", sum, limitMiB)
	}
}

func (l *life) childDies(t *testing.T) {
	before := l.processes(t)
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := before[name].Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" runs again", func() bool {
			now, ok := l.processes(t)[name]
			return ok && now != before[name]
		})
	}
	l.answers(t)
}

// answers: what was created before is there, webhooks included.
func (l *life) answers(t *testing.T) {
	c := l.client(t)
	eventually(t, "the management plane answers with what was created before", func() bool {
		var old clusterv1beta1.Cluster
		return c.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "old"}, &old) == nil
	})
}

// daemonDies: its children go with it, and the next start goes on with the data.
func (l *life) daemonDies(t *testing.T) {
	before := l.processes(t)
	if err := before["daemon"].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for name, p := range before {
		eventually(t, name+" is gone", func() bool { return !p.Alive() })
	}
	if pid, ok := Running(l.o.State); ok {
		t.Errorf("process %d is taken for the dead daemon", pid)
	}
	t.Logf("second start: %.1f s", l.up(t).Seconds())
	l.answers(t)
	c := l.client(t)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineDeployment"))
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "md"}, u); err != nil {
		t.Error(err)
	}
}

func (l *life) takenPort(t *testing.T) {
	if err := Stop(t.Context(), l.o.State); err != nil {
		t.Fatal(err)
	}
	e, err := Load(l.o.State)
	if err != nil {
		t.Fatal(err)
	}
	other, err := listen(e.Ports.APIServer)
	if err != nil {
		t.Fatal(err)
	}
	err = Start(t.Context(), l.o, nil)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), fmt.Sprintf("port %d ", e.Ports.APIServer)) {
		t.Errorf("with the API server's port taken: %v, want an error that names it", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	l.up(t)
	l.answers(t)
}

func (l *life) stop(t *testing.T) {
	before := l.processes(t)
	began := time.Now()
	if err := Stop(t.Context(), l.o.State); err != nil {
		t.Fatal(err)
	}
	t.Logf("stop: %.1f s", time.Since(began).Seconds())
	for name, p := range before {
		if p.Alive() {
			t.Errorf("%s, process %s, lives on", name, p)
		}
	}
	if _, err := os.Stat(filepath.Join(l.o.State, daemonPID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pid file: %v, want none", err)
	}
	if err := Stop(t.Context(), l.o.State); err != nil {
		t.Errorf("stopping what does not run: %v", err)
	}
}
