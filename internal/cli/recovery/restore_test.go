package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/cluster/backup/store"
	corebackup "github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/manager/kinds"
)

const (
	formerUID  = "former-uid"
	backupName = "20261127t170312z-x7k2p"
	snapshot   = "the data of etcd"
	sentence   = "restore demo, its old machines are off\n"
)

// elsewhere is a new management cluster, with a store that a former one filled.
type elsewhere struct {
	t        *testing.T
	c        client.Client
	a        *app
	out      *bytes.Buffer
	identity *age.X25519Identity
	state    string
	wants    wanted
	// stored changes the backup before it is stored; encrypted and verified are what it is.
	files               map[string][]byte
	encrypted, verified bool
	namespace, name     string
	taken               time.Time
}

func newElsewhere(t *testing.T, answer string, change func(*elsewhere)) *elsewhere {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	e := &elsewhere{
		t: t, identity: identity, out: &bytes.Buffer{}, state: t.TempDir(), encrypted: true, verified: true, namespace: "default",
		name:  backupName,
		files: formerFiles(t), taken: time.Date(2026, 11, 27, 17, 3, 12, 0, time.UTC),
	}
	key := filepath.Join(e.state, "key.txt")
	if err := os.WriteFile(key, []byte(identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.wants = wanted{uid: formerUID, namespace: "default", asked: asked{
		store: "host", storeKind: "BackupStore", identity: key, timeout: time.Minute,
	}}
	streams := command.Streams{In: strings.NewReader(answer), Out: e.out, Err: e.out}
	e.a = &app{&command.Invocation{Streams: streams, State: e.state, Environment: func(string) string { return "" }}}
	e.c = e.management()
	if change != nil {
		change(e)
	}
	e.save()
	return e
}

// management is a management cluster in which recoveries are prepared at once, and end once the Cluster is not paused any more.
func (e *elsewhere) management() client.Client {
	host := &backupv1alpha1.BackupStore{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "host"}}
	host.Spec.Folder = &backupv1alpha1.FolderStore{}
	return fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(host).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if r, is := o.(*backupv1alpha1.EtcdRecovery); is {
				e.prepare(r)
			}
			if cluster, is := o.(*clusterv1.Cluster); is {
				cluster.UID = "new-uid"
			}
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if err := c.Patch(ctx, o, p, options...); err != nil {
				return err
			}
			if cluster, is := o.(*clusterv1.Cluster); is && !ptr.Deref(cluster.Spec.Paused, false) {
				e.end(ctx, c)
			}
			return nil
		},
	}).Build()
}

// prepare does what the controller does about a new recovery.
func (e *elsewhere) prepare(r *backupv1alpha1.EtcdRecovery) {
	cluster := &clusterv1.Cluster{}
	if err := e.c.Get(e.t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, cluster); err != nil {
		e.t.Fatal(err)
	}
	if !ptr.Deref(cluster.Spec.Paused, false) {
		e.t.Error("the Cluster is not paused while its recovery is prepared")
	}
	m := e.manifest()
	seed, err := json.Marshal(observe.Seed{Backup: r.Spec.Backup, Taken: m.Taken, Revision: 7, Size: 16, SHA256: digestOf(snapshot).SHA256})
	if err != nil {
		e.t.Fatal(err)
	}
	r.UID = "recovery-uid"
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, backupv1alpha1.RecoverySeedAnnotation, string(seed))
	r.Status.Digest = observe.RecoveryDigest(r, string(cluster.UID))
}

// end ends the recovery, which must be approved.
func (e *elsewhere) end(ctx context.Context, c client.Client) {
	r := e.recovery()
	if r.Annotations[controlplanev1.ApprovedAnnotation] != r.Status.Digest || r.Status.Digest == "" {
		e.t.Error("the Cluster is not paused any more, and its recovery is not approved")
	}
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, backupv1alpha1.RecoveryEndedAnnotation, "2026-11-28T00:00:00Z")
	if err := c.Update(ctx, r); err != nil {
		e.t.Fatal(err)
	}
}

func (e *elsewhere) recovery() *backupv1alpha1.EtcdRecovery {
	e.t.Helper()
	list := &backupv1alpha1.EtcdRecoveryList{}
	if err := e.c.List(e.t.Context(), list); err != nil || len(list.Items) != 1 {
		e.t.Fatalf("%d recoveries, %v", len(list.Items), err)
	}
	return &list.Items[0]
}

func digestOf(text string) corebackup.Digest {
	d, _ := archive.Sum(strings.NewReader(text))
	return d
}

func (e *elsewhere) manifest() corebackup.Manifest {
	return corebackup.Manifest{
		Version: corebackup.FormatVersion, Name: e.name, Cluster: corebackup.Cluster{UID: formerUID, Namespace: e.namespace, Name: "demo"},
		Taken: e.taken, Kubernetes: "v1.37.2", Witnesses: []corebackup.Witness{{Revision: 7}},
		Etcd: corebackup.Etcd{Members: []corebackup.Member{{Name: "demo-cp-1"}, {Name: "demo-cp-2"}}}, Keys: 1,
		Fingerprints: map[string]string{"demo-ca": "ab"},
	}
}

// save stores the backup.
func (e *elsewhere) save() {
	e.t.Helper()
	folder := filepath.Join(embed.BackupFolder(e.state), "default", "host")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		e.t.Fatal(err)
	}
	in, err := store.OpenFolder(folder)
	if err != nil {
		e.t.Fatal(err)
	}
	e.saveIn(backup.Catalog{Store: in, UID: formerUID})
}

// saveIn stores it in a catalog.
func (e *elsewhere) saveIn(catalog backup.Catalog) {
	e.t.Helper()
	taken, err := catalog.Save(e.t.Context(), e.name, e.write)
	if err != nil {
		e.t.Fatal(err)
	}
	if !e.verified {
		return
	}
	entry, err := catalog.Get(e.t.Context(), e.name)
	if err != nil {
		e.t.Fatal(err)
	}
	m := taken.Manifest
	restored := &corebackup.Restored{Witness: m.Witnesses[0], Keys: 1, Latest: 7, Snapshot: m.Snapshot}
	if _, err := catalog.Verify(e.t.Context(), entry, backup.Proof{Restored: restored, Now: m.Taken}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *elsewhere) write(to io.Writer) (*backup.Taken, error) {
	var recipients []string
	if e.encrypted {
		recipients = []string{e.identity.Recipient().String()}
	}
	w, err := archive.NewWriter(to, recipients)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write([]byte(snapshot)); err != nil {
		return nil, err
	}
	for name, data := range e.files {
		if !e.encrypted {
			break
		}
		if err := w.Add(name, data); err != nil {
			return nil, err
		}
	}
	m, err := w.Finish(e.manifest())
	return &backup.Taken{Manifest: m}, err
}

// formerFiles are those of a cluster of local machines.
func formerFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	add := func(apiVersion, kind, name string, spec map[string]any) {
		o := map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": name, "namespace": "default", "uid": "old", "resourceVersion": "7"},
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		files["objects/"+kind+"/"+name+".json"] = data
	}
	ref := func(group, kind, name string) map[string]any {
		return map[string]any{"apiGroup": group, "kind": kind, "name": name}
	}
	const infrastructure = "infrastructure.cluster.x-k8s.io"
	add("cluster.x-k8s.io/v1beta2", "Cluster", "demo", map[string]any{
		"controlPlaneRef":   ref("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "demo-cp"),
		"infrastructureRef": ref(infrastructure, "LocalCluster", "demo"),
	})
	template := map[string]any{"spec": map[string]any{"infrastructureRef": ref(infrastructure, "LocalMachineTemplate", "demo-cp")}}
	add("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "demo-cp", map[string]any{
		"replicas": 3, "version": "v1.37.2", "machineTemplate": template,
	})
	add(infrastructure+"/v1alpha1", "LocalCluster", "demo", map[string]any{})
	add(infrastructure+"/v1alpha1", "LocalMachineTemplate", "demo-cp", map[string]any{})
	for _, name := range []string{"demo-ca", "demo-etcd", "demo-proxy", "demo-sa"} {
		files["secrets/"+name+"/tls.crt"], files["secrets/"+name+"/tls.key"] = []byte("c"), []byte("HUNTER2")
	}
	return files
}

func (e *elsewhere) restores() error { return e.a.restore(e.t.Context(), e.c, e.wants) }

// TestRestore: what the backup holds is made in the new management cluster, with nothing that could initialise an empty etcd before the
// recovery is approved; the backup is looked for under the former UID, and no key is shown.
func TestRestore(t *testing.T) {
	e := newElsewhere(t, sentence, nil)
	if err := e.restores(); err != nil {
		t.Fatalf("%v\n%s", err, e.out)
	}
	r := e.recovery()
	if r.Spec.FormerClusterUID != formerUID || r.Spec.Backup != backupName || len(r.Spec.GiveUp) > 0 || r.Spec.StoreRef.Name != "host" {
		t.Errorf("%+v", r.Spec)
	}
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := e.c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo-cp"}, kcp); err != nil {
		t.Fatal(err)
	}
	if kcp.Annotations[controlplanev1.InitializedAnnotation] == "" || kcp.OwnerReferences[0].UID != "new-uid" {
		t.Errorf("%+v", kcp.ObjectMeta)
	}
	ca := &corev1.Secret{}
	if err := e.c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo-ca"}, ca); err != nil ||
		string(ca.Data["tls.key"]) != "HUNTER2" {
		t.Errorf("%v, %+v", err, ca.ObjectMeta)
	}
	for _, says := range []string{
		"Cluster demo, LocalCluster demo, LocalMachineTemplate demo-cp, KubeadmControlPlane demo-cp, 4 secrets", "demo-cp-1, demo-cp-2",
		"every write after revision 7", "two clusters with one", "serves again",
	} {
		if !strings.Contains(e.out.String(), says) {
			t.Errorf("it does not say %q:\n%s", says, e.out)
		}
	}
	if strings.Contains(e.out.String(), "HUNTER2") {
		t.Error("a key is shown")
	}
	if err := e.restores(); err == nil || !strings.Contains(err.Error(), "was restored already") {
		t.Errorf("a second time: %v", err)
	}
}

// TestRestoreGoesOn: a restore that was interrupted between any two objects makes the rest.
func TestRestoreGoesOn(t *testing.T) {
	e := newElsewhere(t, sentence, nil)
	from, err := e.a.read(t.Context(), e.c, e.wants)
	if err != nil {
		t.Fatal(err)
	}
	if err := from.make(t.Context(), e.c); err != nil {
		t.Fatal(err)
	}
	if err := e.c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-sa"}}); err != nil {
		t.Fatal(err)
	}
	if err := e.restores(); err != nil {
		t.Fatal(err)
	}
	if err := e.c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo-sa"}, &corev1.Secret{}); err != nil {
		t.Error(err)
	}
}

// TestRestoreRefuses: what cannot be restored is refused by name, and nothing was made then.
func TestRestoreRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		change func(*elsewhere)
		says   string
	}{
		"a UID that the store does not have": {sentence, func(e *elsewhere) { e.wants.uid = "other" },
			"BackupStore host has no backup of a cluster with the UID other"},
		"a backup that the store does not have": {sentence, func(e *elsewhere) { e.wants.backup = "20261127t170312z-other" },
			"reading backup 20261127t170312z-other of cluster former-uid"},
		"another identity": {sentence, (*elsewhere).losesIdentity, "decrypts backup " + backupName},
		"no identity": {sentence, func(e *elsewhere) { e.wants.identity = "" },
			"is encrypted: --identity must name the file"},
		"not encrypted": {sentence, func(e *elsewhere) { e.encrypted = false }, "is not encrypted, and so holds neither the keys"},
		"not verified":  {sentence, func(e *elsewhere) { e.verified = false }, "none of the 1 backups of cluster former-uid is verified"},
		"taken in the future": {sentence, func(e *elsewhere) { e.taken = time.Now().Add(time.Hour).UTC().Truncate(time.Second) },
			"none of the 1 backups of cluster former-uid is verified"},
		"not verified, by name": {sentence, func(e *elsewhere) { e.verified, e.wants.backup = false, backupName },
			"is not verified"},
		"another namespace": {sentence, func(e *elsewhere) { e.namespace = "team" }, `is of a cluster in namespace "team"`},
		"an older archive": {sentence, func(e *elsewhere) { delete(e.files, "objects/LocalCluster/demo.json") },
			"it holds no LocalCluster demo, which Cluster demo names: it was taken by a version of Quorate that stored no such object"},
		"the name is taken": {sentence, func(e *elsewhere) {
			e.exists(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}})
		}, "Cluster demo exists in namespace default"},
		"the name of a secret is taken": {sentence, func(e *elsewhere) {
			e.exists(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-ca"}, Data: map[string][]byte{"tls.crt": nil}})
		}, "secret demo-ca exists in namespace default"},
		"another restore made it": {sentence, func(e *elsewhere) {
			mark := map[string]string{backupv1alpha1.RestoredFromAnnotation: "former-uid/another"}
			e.exists(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", Annotations: mark}})
		}, "this restore did not make it"},
		"no store":         {sentence, func(e *elsewhere) { e.wants.store = "other" }, "opening BackupStore other"},
		"another sentence": {"restore demo\n", nil, "nothing was approved"},
		"no answer":        {"", nil, "nothing was approved"},
	} {
		e := newElsewhere(t, test.answer, test.change)
		if err := e.restores(); err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "HUNTER2") {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
		kcps, secrets := &controlplanev1.KubeadmControlPlaneList{}, &corev1.SecretList{}
		for _, list := range []client.ObjectList{kcps, secrets} {
			if err := e.c.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
		}
		if len(kcps.Items) > 0 || len(secrets.Items) > 1 {
			t.Errorf("%s: %d control planes and %d secrets were made", name, len(kcps.Items), len(secrets.Items))
		}
	}
}

func (e *elsewhere) exists(o client.Object) {
	e.t.Helper()
	if err := e.c.Create(e.t.Context(), o); err != nil {
		e.t.Fatal(err)
	}
}

func (e *elsewhere) losesIdentity() {
	other, err := age.GenerateX25519Identity()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(e.wants.identity, []byte(other.String()+"\n"), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

// TestRestoreFlags: each flag that cannot be worked with is named.
func TestRestoreFlags(t *testing.T) {
	for says, change := range map[string]func(*wanted){
		"":                       func(*wanted) {},
		`invalid --store ""`:     func(w *wanted) { w.store = "" },
		`--store-kind "Bucket"`:  func(w *wanted) { w.storeKind = "Bucket" },
		`--cluster ""`:           func(w *wanted) { w.uid = "" },
		`--cluster "../other"`:   func(w *wanted) { w.uid = "../other" },
		`invalid --timeout "0s"`: func(w *wanted) { w.timeout = 0 },
	} {
		w := wanted{uid: formerUID, asked: asked{store: "host", storeKind: "BackupStore", timeout: time.Hour}}
		change(&w)
		if err := w.check(); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}
