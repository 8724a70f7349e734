package releases_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/admission"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/etcdcluster"
	"github.com/quorate/quorate/internal/kinds/machines"
	"github.com/quorate/quorate/internal/kinds/stacked"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/releases"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	// Recorded clusters may use what is off by default.
	if err := feature.MutableGates.SetFromMap(map[string]bool{string(feature.MachineTaintPropagation): true}); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestNoUpdateReplacesMachines: the clusters that earlier releases have made, and found at rest, are at rest for today's Quorate, whose
// turns write to none of their machines.
func TestNoUpdateReplacesMachines(t *testing.T) {
	files, err := filepath.Glob("*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	groups, held := map[string]int{}, 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(file, ".yaml"), func(t *testing.T) {
			r, err := releases.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, written := range []bool{false, true} {
				// In a bubble the clock is the recording's: what was at rest then would expire some day.
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Until(r.Recorded.Add(later)))
					p := load(t, r, written)
					for _, kind := range []group.Kind{etcdcluster.New(), stacked.New(), machines.New()} {
						for _, object := range p.groups(kind) {
							held += p.rests(kind, object)
							groups[kind.Type().Kind]++
						}
					}
				})
			}
		})
	}
	if groups["KubeadmControlPlane"] == 0 || groups["ControlPlane"] == 0 || groups["EtcdCluster"] == 0 {
		t.Errorf("groups are %v: this test does not look at all kinds", groups)
	}
	t.Logf("%d clusters, each twice: groups %v, %d machines", len(files), groups, held)
}

// A past is a recorded cluster in a fake API server.
type past struct {
	t       *testing.T
	client  client.WithWatch
	cluster *clusterv1.Cluster
	scheme  *runtime.Scheme
}

// load stores a recording as today's API server would show it; written: after somebody has written each object once more, through today's
// webhooks. A field that is not known any more ends the test.
func load(t *testing.T, r *releases.Recording, written bool) *past {
	t.Helper()
	p := &past{t: t, scheme: manager.Scheme()}
	var objects, withStatus []client.Object
	var secrets []string
	for _, o := range r.Objects {
		for _, text := range releases.Default(o) {
			t.Errorf("%s %s: today's definition does not know the field %s", o.GetKind(), o.GetName(), text)
		}
		made, err := p.scheme.New(o.GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, made, true); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		switch typed := made.(type) {
		case *corev1.Secret:
			if strings.HasPrefix(string(typed.Type), "cluster.x-k8s.io") {
				secrets = append(secrets, typed.Name)
			}
			continue // made again, without what nobody may know
		case *clusterv1.Cluster:
			p.cluster = typed
		case *controlplanev1.KubeadmControlPlane:
			if written {
				writeAgain(t, typed)
			}
		}
		object := made.(client.Object)
		if !slices.ContainsFunc(withStatus, func(w client.Object) bool { return reflect.TypeOf(w) == reflect.TypeOf(object) }) {
			withStatus = append(withStatus, object)
		}
		objects = append(objects, object)
	}
	if p.cluster == nil {
		t.Fatal("the recording has no Cluster")
	}
	objects = append(objects, releases.Definitions(r)...)
	p.client = fake.NewClientBuilder().WithScheme(p.scheme).WithObjects(objects...).WithStatusSubresource(withStatus...).Build()
	p.makeSecrets(secrets)
	return p
}

// writeAgain does to a control plane what the webhooks do whenever it is written, were it only for an annotation of ours.
func writeAgain(t *testing.T, kcp *controlplanev1.KubeadmControlPlane) {
	t.Helper()
	webhook, before := &admission.KubeadmControlPlane{}, kcp.DeepCopy()
	if err := webhook.Default(t.Context(), kcp); err != nil {
		t.Errorf("KubeadmControlPlane %s cannot be written any more: %v", kcp.Name, err)
	}
	if _, err := webhook.ValidateUpdate(t.Context(), before, kcp); err != nil {
		t.Errorf("KubeadmControlPlane %s cannot be written any more: %v", kcp.Name, err)
	}
}

// makeSecrets makes the cluster's secrets as today's Quorate does. Those that were recorded must be among them: others would be made beside
// them.
func (p *past) makeSecrets(recorded []string) {
	p.t.Helper()
	ctx := p.t.Context()
	for _, e := range p.groups(etcdcluster.New()) {
		p.makeEtcdSecrets(controllerRef(etcdcluster.New(), e))
	}
	config := &bootstrapv1.ClusterConfiguration{EncryptionAlgorithm: bootstrapv1.EncryptionAlgorithmECDSAP256}
	for _, kind := range []group.Kind{stacked.New(), machines.New()} {
		for _, cp := range p.groups(kind) {
			owner := controllerRef(kind, cp)
			if !kind.Spec(cp).HoldsQuorum && len(p.groups(etcdcluster.New())) == 0 {
				p.makeEtcdSecrets(owner) // which the user has given
			}
			_, errAuthorities := certs.Generate(ctx, p.client, p.cluster, config, []string{"ca", "etcd", "proxy", "sa"}, owner)
			_, errKubeconfig := certs.WriteKubeconfig(ctx, p.client, p.cluster, owner, false)
			if err := errors.Join(errAuthorities, errKubeconfig); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	for _, name := range recorded {
		if err := p.client.Get(ctx, client.ObjectKey{Namespace: p.cluster.Namespace, Name: name}, &corev1.Secret{}); err != nil &&
			!p.isBootstrap(name) {
			p.t.Errorf("secret %s is not one that is made today: %v", name, err)
		}
	}
}

// controllerRef makes a group the controller of an object.
func controllerRef(kind group.Kind, object observe.Object) metav1.OwnerReference {
	return *metav1.NewControllerRef(object, kind.Type().GroupVersionKind)
}

// makeEtcdSecrets makes the secrets of an etcd that is not on the control plane's machines.
func (p *past) makeEtcdSecrets(owner metav1.OwnerReference) {
	p.t.Helper()
	ctx := p.t.Context()
	if err := certs.GenerateManagedEtcd(ctx, p.client, p.cluster, owner); err != nil {
		p.t.Fatal(err)
	}
	authority, err := certs.ManagedEtcdAuthority(ctx, p.client, p.cluster)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := authority.PublishManagedEtcd(ctx, p.client, p.client, p.cluster, owner); err != nil {
		p.t.Fatal(err)
	}
}

// isBootstrap: a secret is a Machine's bootstrap data.
func (p *past) isBootstrap(name string) bool {
	list := &clusterv1.MachineList{}
	if err := p.client.List(p.t.Context(), list); err != nil {
		p.t.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(m clusterv1.Machine) bool {
		return m.Name == name || m.Spec.Bootstrap.DataSecretName != nil && *m.Spec.Bootstrap.DataSecretName == name
	})
}

// groups are the recorded groups of a kind.
func (p *past) groups(kind group.Kind) []observe.Object {
	p.t.Helper()
	list, err := p.scheme.New(kind.Type().GroupVersion().WithKind(kind.Type().Kind + "List"))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.client.List(p.t.Context(), list.(client.ObjectList)); err != nil {
		p.t.Fatal(err)
	}
	var found []observe.Object
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	for i := range items.Len() {
		found = append(found, items.Index(i).Addr().Interface().(observe.Object))
	}
	return found
}

// rests expects that a group is at rest in each respect, and returns of how many machines.
func (p *past) rests(kind group.Kind, object observe.Object) int {
	p.t.Helper()
	title := kind.Type().Kind + " " + object.GetName()
	ours, err := observe.ListMachines(p.t.Context(), p.client, object, p.cluster.Name, kind.Spec(object).Selector)
	if err != nil {
		p.t.Fatal(err)
	}
	if want := kind.Spec(object).Replicas; want != nil && int(*want) != len(ours.Ours) {
		p.t.Fatalf("%s has %d machines, wants %d: it was not at rest, or they are not known any more", title, len(ours.Ours), *want)
	}
	h := healthyOf(p.t, ours.Ours, kind.Spec(object).Components)
	if e, isEtcd := object.(*v1alpha1.EtcdCluster); isEtcd {
		h.run(e.Status.Version)
	}
	guarded := interceptor.NewClient(p.client, p.guard())
	c := &group.Controller{Client: guarded, APIReader: guarded, Workload: h, Recorder: events.NewFakeRecorder(1000), Quorums: h, Kubeadm: h,
		Kind: kind}
	turn := p.observe(c, object)
	for _, m := range turn.Facts.Machines {
		if m.Outdated != "" {
			p.t.Errorf("%s: machine %s is outdated: %s", title, m.Name, m.Outdated)
		}
	}
	if following := turn.Following(); len(following) > 0 {
		p.t.Errorf("%s: labels, annotations, timeouts, taints or gates of machines %v would change", title, following)
	}
	if d := plan.Next(turn.Facts); d.Step.Verb != plan.Nothing {
		p.t.Errorf("%s: the step is %s: %s: %s", title, d.Step, d.Reason, d.Message)
	}
	for _, m := range forecast.Of(turn.Facts, forecast.DefaultTimes()).Machines {
		if m.Fate != forecast.Keep {
			p.t.Errorf("%s: machine %s: %s: %s", title, m.Name, m.Fate, m.Why)
		}
	}
	p.turns(c, object)
	return len(ours.Ours)
}

// observe reads everything that a decision depends on.
func (p *past) observe(c *group.Controller, object observe.Object) *group.Turn {
	p.t.Helper()
	for {
		turn, wait, err := c.Observe(p.t.Context(), object, p.cluster)
		running := c.Memories.Of(client.ObjectKeyFromObject(object)).Surveys.Running()
		switch {
		case errors.Is(err, observe.ErrSurveyRuns) && running != nil:
			<-running
		case err != nil:
			p.t.Fatal(err)
		case wait > 0:
			time.Sleep(wait)
		default:
			return turn
		}
	}
}

// turns takes some turns, as the manager would.
func (p *past) turns(c *group.Controller, object observe.Object) {
	p.t.Helper()
	key := client.ObjectKeyFromObject(object)
	for range 5 {
		if _, err := c.Reconcile(p.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			p.t.Errorf("a turn of %s failed: %v", key, err)
		}
		if running := c.Memories.Of(key).Surveys.Running(); running != nil {
			<-running
		}
	}
}

// guard fails the test where anything but a status or the history is written: at rest nothing is.
func (p *past) guard() interceptor.Funcs {
	refuse := func(verb string, o client.Object) {
		if _, history := o.(*corev1.ConfigMap); history {
			return // what was done is told, and decides nothing
		}
		kind, err := kindOf(p.scheme, o)
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Errorf("a turn has to %s %s %s", verb, kind, o.GetName())
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.CreateOption) error {
			refuse("create", o)
			return w.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			refuse("delete", o)
			return w.Delete(ctx, o, options...)
		},
		Update: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			refuse("update", o)
			return w.Update(ctx, o, options...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			refuse("patch", o)
			return w.Patch(ctx, o, patch, options...)
		},
	}
}

// kindOf names the kind of an object.
func kindOf(scheme *runtime.Scheme, o client.Object) (string, error) {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind, nil
	}
	gvks, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return "", err
	}
	return gvks[0].Kind, nil
}
