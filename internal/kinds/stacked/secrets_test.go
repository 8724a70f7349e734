package stacked

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// authorities are the purposes of those that a cluster with etcd on its machines has.
var authorities = []string{"ca", "etcd", "proxy", "sa"}

// ownSecrets, authorities and a kubeconfig, are what Quorate makes for a cluster.
var ownSecrets = []string{"demo-ca", "demo-etcd", "demo-kubeconfig", "demo-proxy", "demo-sa"}

// disown gives every secret other owners.
func (w *world) disown(owners ...metav1.OwnerReference) {
	w.t.Helper()
	for _, name := range ownSecrets {
		s := w.secret(name)
		s.OwnerReferences = owners
		if err := w.client.Update(context.Background(), s); err != nil {
			w.t.Fatal(err)
		}
	}
}

// readSecrets lets what was read of the secrets be too old.
func (w *world) readSecrets() { w.r.Memories.Of(kcpKey).Secrets = observe.Secrets{} }

// TestSecretsAreOwnedAgain: after a restore or a move, and when the control plane's object was
// lost without what it owns, the secrets of the cluster belong to the control plane.
func TestSecretsAreOwnedAgain(t *testing.T) {
	stale := controllerRef(testKCP(3))
	stale.UID, stale.APIVersion = "before the move", "controlplane.cluster.x-k8s.io/v1beta1"
	for name, owners := range map[string][]metav1.OwnerReference{"lost": nil, "of before the move": {stale}} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 3)
			w.disown(owners...)
			w.secretsAreOwned()
		})
	}
	t.Run("with the machines", func(t *testing.T) {
		w := grown(t, 3)
		w.disown()
		for _, m := range w.machines() {
			m.OwnerReferences = nil
			if err := w.client.Update(context.Background(), &m); err != nil {
				t.Fatal(err)
			}
		}
		w.use(w.client)
		w.forgetEtcd()
		w.settle()
		w.secretsAreOwned()
	})
}

// secretsAreOwned waits for rest and checks that all secrets are the control plane's, and stay unwritten then.
func (w *world) secretsAreOwned() {
	w.t.Helper()
	w.readSecrets()
	w.settle()
	versions := map[string]string{}
	for _, name := range ownSecrets {
		s := w.secret(name)
		if refs := s.OwnerReferences; len(refs) != 1 || refs[0].UID != "kcp-uid" || owners(s) != "KubeadmControlPlane/demo-cp*" ||
			refs[0].APIVersion != controllerRef(w.kcp()).APIVersion {
			w.t.Errorf("%s is owned by %+v", name, refs)
		}
		versions[name] = s.ResourceVersion
	}
	for range 3 {
		w.readSecrets()
		w.settle()
	}
	after := map[string]string{}
	for _, name := range ownSecrets {
		after[name] = w.secret(name).ResourceVersion
	}
	if !maps.Equal(versions, after) {
		w.t.Errorf("the secrets are written at rest: %v, then %v", versions, after)
	}
}

// TestUsersSecretsStayTheirs: neither another type of secret nor another controller's is taken.
func TestUsersSecretsStayTheirs(t *testing.T) {
	w := grown(t, 3)
	s := w.secret("demo-proxy")
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "external-secrets.io/v1", Kind: "ExternalSecret", Name: "proxy", UID: "x",
		Controller: new(true)}}
	if err := w.client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	users := w.secret("demo-kubeconfig")
	if err := w.client.Delete(context.Background(), users.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	users.Type, users.OwnerReferences, users.ResourceVersion = corev1.SecretTypeOpaque, nil, ""
	if err := w.client.Create(context.Background(), users); err != nil {
		t.Fatal(err)
	}
	w.readSecrets()
	w.settle()
	if got := owners(w.secret("demo-proxy")); got != "ExternalSecret/proxy*" {
		t.Errorf("demo-proxy is owned by %s", got)
	}
	if got := owners(w.secret("demo-kubeconfig")); got != "" || !w.scene().Kubeconfig.Foreign {
		t.Errorf("the user's kubeconfig is owned by %q", got)
	}
}

// TestOwnerlessKubeconfigIsRenewed: a year after its owner was lost, the cluster is still reached.
func TestOwnerlessKubeconfigIsRenewed(t *testing.T) {
	w := grown(t, 3)
	w.disown()
	before := w.secret("demo-kubeconfig").Data["value"]
	w.readSecrets()
	s := w.scene()
	if k := s.Kubeconfig; k.Foreign || k.Expires.IsZero() {
		t.Fatalf("the kubeconfig without owner is %+v", k)
	}
	s.Facts.Now = s.Kubeconfig.Expires.Add(-time.Hour)
	d := plan.Next(s.Facts)
	if d.Step.Action() != "WriteKubeconfig" || d.Reason != "KubeconfigExpiring" {
		t.Fatalf("an hour before its end: %s", d)
	}
	if err := s.Do(context.Background(), d.Step); err != nil {
		t.Fatal(err)
	}
	after := w.secret("demo-kubeconfig")
	if string(after.Data["value"]) == string(before) || owners(after) != "KubeadmControlPlane/demo-cp*" {
		t.Errorf("renewed %t, owned by %s", string(after.Data["value"]) != string(before), owners(after))
	}
	if needs, err := kubeconfig.NeedsClientCertRotation(after, 300*24*time.Hour); err != nil || needs {
		t.Errorf("it ends soon: %t, %v", needs, err)
	}
}

// TestOwningSecretsFails: a conflict is harmless, and done at the next turn; other failures are reported.
func TestOwningSecretsFails(t *testing.T) {
	w := grown(t, 3)
	w.disown()
	failure := error(apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "demo-ca", errors.New("somebody else wrote")))
	w.intercept(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
		options ...client.PatchOption) error {
		if o.GetName() == "demo-etcd" && failure != nil {
			return failure
		}
		return c.Patch(ctx, o, p, options...)
	}})
	w.turn()
	if got := owners(w.secret("demo-etcd")); got != "" {
		t.Fatalf("owned by %s in spite of the conflict", got)
	}
	failure = errors.New("etcd is full")
	w.change(func(*controlplanev1.KubeadmControlPlane) {})
	if _, err := w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey}); err == nil ||
		!strings.Contains(err.Error(), "demo-etcd") {
		t.Errorf("the error is %v", err)
	}
	if kcp := w.kcp(); kcp.Status.ObservedGeneration != kcp.Generation {
		t.Error("the status is not written while a secret cannot be")
	}
	failure = nil
	w.turn()
	if got := owners(w.secret("demo-etcd")); got != "KubeadmControlPlane/demo-cp*" {
		t.Errorf("owned by %q once it can be written", got)
	}
}

// TestSecretsOutliveTheControlPlane: of a control plane that is deleted without what it owns, which a
// cache may show late, no secret becomes a dependent again: it would be deleted with it.
func TestSecretsOutliveTheControlPlane(t *testing.T) {
	w := grown(t, 3)
	w.disown()
	direct := interceptor.NewClient(w.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
		o client.Object, options ...client.GetOption) error {
		err := c.Get(ctx, key, o, options...)
		if o.GetUID() == "kcp-uid" && err == nil {
			o.SetDeletionTimestamp(new(metav1.Now()))
		}
		return err
	}})
	w.use(w.client)
	w.r.APIReader = direct
	w.turn()
	for _, name := range ownSecrets {
		if got := owners(w.secret(name)); got != "" {
			t.Errorf("%s is owned by %s", name, got)
		}
	}
}

// TestCertificatesAvailable tells which secrets are missing, broken, or not given.
func TestCertificatesAvailable(t *testing.T) {
	external := testKCP(3)
	external.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{Endpoints: []string{"https://10.0.0.1:2379"},
		CAFile: "/a", CertFile: "/b", KeyFile: "/c"}
	of := func(name string, data map[string][]byte) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}, Type: clusterv1.ClusterSecretType, Data: data}
	}
	pair := func(config *bootstrapv1.ClusterConfiguration) map[string][]byte {
		w := newWorld(t)
		if _, err := certs.Generate(context.Background(), w.client, testCluster(), config, authorities, controllerRef(testKCP(1))); err != nil {
			t.Fatal(err)
		}
		return w.secret("demo-ca").Data
	}(&testKCP(1).Spec.KubeadmConfigSpec.ClusterConfiguration)
	keyless := map[string][]byte{"tls.crt": pair["tls.crt"]}

	tests := []struct {
		name     string
		external bool
		secrets  []client.Object
		want     string
		plan     string // the reason to wait; empty: none of secrets
	}{
		{"generated", false, nil, "True Available", ""},
		{"broken", false, []client.Object{of("demo-ca", nil)}, "False NotAvailable: secret default/demo-ca: tls.crt is missing",
			"CertificatesInvalid"},
		{"no certificate", false, []client.Object{of("demo-etcd", map[string][]byte{"tls.crt": []byte("x")})},
			"False NotAvailable: secret default/demo-etcd: tls.crt holds no certificate", "CertificatesInvalid"},
		// for a second machine
		{"the authority's key is kept elsewhere", false, []client.Object{of("demo-proxy", keyless)}, "True Available", "CertificatesMissing"},
		{"external etcd, nothing given", true, nil,
			"False NotAvailable: Secrets that only the user can give are missing, for apiserver-etcd-client, etcd", "GivenCertificatesMissing"},
		{"external etcd, one not given", true, []client.Object{of("demo-etcd", keyless)},
			"False NotAvailable: Secrets that only the user can give are missing, for apiserver-etcd-client", "GivenCertificatesMissing"},
		{"external etcd, one broken", true, []client.Object{of("demo-etcd", keyless), of("demo-apiserver-etcd-client", keyless)},
			"False NotAvailable: secret default/demo-apiserver-etcd-client: tls.key is missing", "CertificatesInvalid"},
		{"external etcd, all given", true, []client.Object{of("demo-etcd", keyless), of("demo-apiserver-etcd-client", pair)}, "True Available",
			""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			kcp := testKCP(3)
			if test.external {
				kcp = external.DeepCopy()
			}
			w := newWorld(t, append(test.secrets, testCluster(), kcp)...)
			p := w.settle()
			got := told(w.kcp().Status.Conditions, upstream.KubeadmControlPlaneCertificatesAvailableCondition)
			if !strings.HasPrefix(got, test.want) || strings.Contains(got, "True") && got != test.want {
				t.Errorf("the condition is %q, want %q", got, test.want)
			}
			if held := strings.Contains(p.Reason, "Certificates"); held != (test.plan != "") || held && p.Reason != test.plan {
				t.Errorf("the plan is %+v, want the reason %q", p, test.plan)
			}
		})
	}
}

// TestKeyKeptElsewhere: what runs goes on without the authority's key, and nobody joins, because the
// bootstrap provider refuses it.
func TestKeyKeptElsewhere(t *testing.T) {
	w := grown(t, 1)
	s := w.secret("demo-ca")
	delete(s.Data, "tls.key")
	if err := w.client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	w.readSecrets()
	w.settle()
	if got := told(w.kcp().Status.Conditions, upstream.KubeadmControlPlaneCertificatesAvailableCondition); got != "True Available" {
		t.Errorf("CertificatesAvailable is %q", got)
	}
	if !conditions.IsTrue(w.kcp(), upstream.KubeadmControlPlaneAvailableCondition) {
		t.Error("the control plane is not available")
	}
	// Nor does anybody when the status was lost.
	kcp := w.kcp()
	kcp.Status = controlplanev1.KubeadmControlPlaneStatus{}
	if err := w.client.Status().Update(context.Background(), kcp); err != nil {
		t.Fatal(err)
	}
	w.use(w.client)
	w.scale(3)
	if p := w.settle(); len(w.machineNames()) != 1 || p.Reason != "CertificatesMissing" ||
		!strings.Contains(p.Message, "demo-ca lacks tls.key") {
		t.Errorf("plan %+v, machines %v", p, w.machineNames())
	}
}

// TestSecretsAfterRest: at rest secrets are believed for an hour, and nothing that is done after it rests on what was read before.
func TestSecretsAfterRest(t *testing.T) {
	w := grown(t, 3)
	w.settle()
	s := w.secret("demo-ca")
	delete(s.Data, "tls.key")
	if err := w.client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	m := w.r.Memories.Of(kcpKey)
	read := time.Now().Add(-2 * observe.SlowTime)
	m.Secrets.Read = read
	if p := w.settle(); p.Step != string(plan.Nothing) || !m.Secrets.Read.Equal(read) {
		t.Fatalf("at rest secrets are read after %s: plan %+v", time.Since(read), p)
	}
	w.scale(5)
	if p := w.settle(); len(w.machineNames()) != 3 || p.Reason != "CertificatesMissing" ||
		!strings.Contains(p.Message, "demo-ca lacks tls.key") {
		t.Errorf("plan %+v, machines %v", p, w.machineNames())
	}
}

// TestSecretsAfterPause: after a pause secrets are owned again at once, however shortly before it they were read.
func TestSecretsAfterPause(t *testing.T) {
	w := grown(t, 3)
	w.settle()
	pause := func(is bool) {
		t.Helper()
		cluster := &clusterv1.Cluster{}
		if err := w.client.Get(t.Context(), clusterKey, cluster); err != nil {
			t.Fatal(err)
		}
		cluster.Spec.Paused = &is
		if err := w.client.Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		w.turn()
	}
	pause(true)
	w.disown()
	pause(false)
	for _, name := range ownSecrets {
		if got := owners(w.secret(name)); got != "KubeadmControlPlane/demo-cp*" {
			t.Errorf("%s is owned by %q", name, got)
		}
	}
}

// TestTemplateAtRest: the Cluster owns the machine template again with the next turn, and beside another Cluster that came to own it
// meanwhile. It is written once, also while the cache does not show that yet.
func TestTemplateAtRest(t *testing.T) {
	w := grown(t, 3)
	var shown *infrav1.LocalMachineTemplate // by the cache; nil: as it is
	writes, key := 0, client.ObjectKey{Namespace: "default", Name: "demo-machines"}
	w.intercept(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, at client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, at, o, options...)
			if err == nil && at == key && shown != nil {
				o.SetOwnerReferences(shown.OwnerReferences)
				o.SetResourceVersion(shown.ResourceVersion)
			}
			return err
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if o.GetName() == key.Name {
				writes++
			}
			return c.Patch(ctx, o, p, options...)
		},
	})
	w.settle()
	template := &infrav1.LocalMachineTemplate{}
	if err := w.client.Get(t.Context(), key, template); err != nil {
		t.Fatal(err)
	}
	template.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "other",
		UID: "other"}}
	if err := w.client.Update(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	shown = template.DeepCopy()
	w.turn()
	w.turn()
	if err := w.client.Get(t.Context(), key, template); err != nil {
		t.Fatal(err)
	}
	if got := owners(template); got != "Cluster/demo Cluster/other" || writes != 1 {
		t.Errorf("the template is owned by %q after %d writes", got, writes)
	}
}

// TestInvalidLater: what was given becomes invalid, so that what runs stays, nobody joins, and the condition and the plan say which secret
// it is; once somebody has put it right the control plane grows by itself.
func TestInvalidLater(t *testing.T) {
	w := grown(t, 1)
	s := w.secret("demo-proxy")
	right := s.Data["tls.key"]
	s.Data["tls.key"] = w.secret("demo-ca").Data["tls.key"]
	if err := w.client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	w.readSecrets()
	w.scale(3)
	const wrong = "secret default/demo-proxy: tls.key is not the key of secret default/demo-proxy: tls.crt"
	if p := w.settle(); len(w.machineNames()) != 1 || p.Rule != "grow" || p.Reason != "CertificatesInvalid" ||
		!strings.HasPrefix(p.Message, wrong) {
		t.Errorf("plan %+v, machines %v", p, w.machineNames())
	}
	if got := told(w.kcp().Status.Conditions, upstream.KubeadmControlPlaneCertificatesAvailableCondition); !strings.HasPrefix(got,
		"False NotAvailable: "+wrong) {
		t.Errorf("CertificatesAvailable is %q", got)
	}
	if got := string(w.secret("demo-proxy").Data["tls.key"]); got == string(right) {
		t.Error("what is wrong was overwritten")
	}
	s = w.secret("demo-proxy")
	s.Data["tls.key"] = right
	if err := w.client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	w.r.Memories.Of(kcpKey).Secrets.Read = time.Now().Add(-observe.SlowMissing)
	w.settle()
	if n := len(w.machineNames()); n != 3 {
		t.Errorf("%d machines once it is right, want 3", n)
	}
}

// TestCertificatesOfFiles: the secrets are made of the authorities that the user copies to the machines, and nothing is made while those
// are of no use.
func TestCertificatesOfFiles(t *testing.T) {
	made := newWorld(t)
	config := &testKCP(1).Spec.KubeadmConfigSpec.ClusterConfiguration
	if _, err := certs.Generate(context.Background(), made.client, testCluster(), config, authorities, controllerRef(testKCP(1))); err != nil {
		t.Fatal(err)
	}
	ca := made.secret("demo-ca").Data
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}, Data: map[string][]byte{"cert": ca["tls.crt"]}}
	kcp := testKCP(1)
	for file, key := range map[string]string{"/etc/kubernetes/pki/ca.crt": "cert", "/etc/kubernetes/pki/ca.key": "key"} {
		kcp.Spec.KubeadmConfigSpec.Files = append(kcp.Spec.KubeadmConfigSpec.Files,
			bootstrapv1.File{Path: file, ContentFrom: bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "mine", Key: key}}})
	}
	w := newWorld(t, mine, testCluster(), kcp)
	p := w.settle()
	if p.Reason != "CertificatesInvalid" ||
		!strings.HasPrefix(p.Message,
			"file /etc/kubernetes/pki/ca.key (secret default/mine: key) refers to a key that the secret does not have") ||
		len(w.machineNames()) != 0 {
		t.Fatalf("plan %+v, machines %v", p, w.machineNames())
	}
	mine = w.secret("mine")
	mine.Data["key"] = ca["tls.key"]
	if err := w.client.Update(context.Background(), mine); err != nil {
		t.Fatal(err)
	}
	w.r.Memories.Of(kcpKey).Secrets.Read = time.Now().Add(-observe.SlowMissing)
	w.settle()
	if got := w.secret("demo-ca"); string(got.Data["tls.crt"]) != string(ca["tls.crt"]) ||
		string(got.Data["tls.key"]) != string(ca["tls.key"]) || owners(got) != "KubeadmControlPlane/demo-cp*" {
		t.Errorf("the secret is another authority than the files, or owned by %s", owners(got))
	}
	if len(w.machineNames()) != 1 {
		t.Errorf("machines %v", w.machineNames())
	}
}

// TestOwnSecretsAreNotReadAgain: a new cluster's secrets are looked for once, and those that were made are known; where somebody else makes
// one meanwhile, all are looked at again.
func TestOwnSecretsAreNotReadAgain(t *testing.T) {
	// The kubeconfig is signed with the authority's key, which is kept nowhere else.
	once := map[string]int{"demo-ca": 2, "demo-etcd": 1, "demo-proxy": 1, "demo-sa": 1, "demo-kubeconfig": 1}
	twice := map[string]int{"demo-ca": 3, "demo-etcd": 2, "demo-proxy": 2, "demo-sa": 3, "demo-kubeconfig": 2} // once to own it
	for other, want := range map[string]map[string]int{"": once, "demo-sa": twice} {
		w, asked, mu := newWorld(t, testCluster(), testKCP(1)), map[string]int{}, sync.Mutex{}
		w.intercept(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, isSecret := o.(*corev1.Secret); isSecret {
					mu.Lock()
					asked[key.Name]++
					mu.Unlock()
				}
				return c.Get(ctx, key, o, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if o.GetName() == other {
					theirs := o.DeepCopyObject().(client.Object)
					theirs.SetOwnerReferences(nil)
					if err := c.Create(ctx, theirs); err != nil {
						t.Error(err)
					}
				}
				return c.Create(ctx, o, opts...)
			},
		})
		w.settle()
		if !maps.Equal(asked, want) {
			t.Errorf("%q is somebody else's: asked for %v, want %v", other, asked, want)
		}
		// None of this says anything of secrets; what does has them looked at.
		cluster := testCluster()
		if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			t.Fatal(err)
		}
		cluster.Spec.ControlPlaneEndpoint.Host, cluster.Generation = "10.0.0.9", cluster.Generation+1
		if err := w.client.Update(context.Background(), cluster); err != nil {
			t.Fatal(err)
		}
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To[int32](3) })
		w.settle()
		if !maps.Equal(asked, want) {
			t.Errorf("%q: after changes of other things: asked for %v, want %v", other, asked, want)
		}
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.CertificateValidityPeriodDays = 42
		})
		w.turn()
		if asked["demo-sa"] != want["demo-sa"]+1 {
			t.Errorf("%q: after another configuration: asked for %v", other, asked)
		}
		for _, name := range ownSecrets {
			w.secret(name)
		}
	}
}
