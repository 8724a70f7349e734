package recoveries

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/etcdcluster"
	"github.com/quorate/quorate/internal/kinds/stacked"
	"github.com/quorate/quorate/internal/manager/backups"
	"github.com/quorate/quorate/internal/manager/kinds"
)

const (
	namespace  = "team"
	backupName = "20261127t170312z-x7k2p"
	snapshot   = "all that etcd holds"
	address    = "seeds.example.com:9446"
)

var taken = time.Date(2026, 11, 27, 17, 3, 12, 0, time.UTC)

// scene is a cluster with an encrypted backup in a folder, and a recovery of it.
type scene struct {
	t        *testing.T
	c        client.WithWatch
	by       *Controller
	identity *age.X25519Identity
	// fingerprints are those of the cluster's authorities.
	fingerprints map[string]string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo", UID: "cluster"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "demo-cp",
	}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo-cp", UID: "kcp"}}
	kcp.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: "cluster"}}
	kcp.Spec.Version = "v1.37.2"
	store := &backupv1alpha1.BackupStore{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "host"},
		Spec:       backupv1alpha1.BackupStoreSpec{Folder: &backupv1alpha1.FolderStore{}},
	}
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"},
		Data:       map[string][]byte{backupv1alpha1.IdentityKey: []byte("# a comment\n" + identity.String() + "\n")},
	}
	s := &scene{t: t, identity: identity}
	s.c = fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(cluster, kcp, store, key, kubeconfig(t, "https://127.0.0.1:1", nil)).
		WithStatusSubresource(&backupv1alpha1.EtcdRecovery{}).Build()
	s.by = &Controller{
		Options: backups.Options{Stores: clusterbackup.Opener{Reader: s.c, Folder: folder}}, Client: s.c, APIReader: s.c,
		Kinds: []observe.Kind{stacked.New(), etcdcluster.New()}, Address: address,
	}
	owner := metav1.OwnerReference{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlane", Name: "demo-cp", UID: "kcp"}
	purposes := []string{"ca", "etcd", "proxy", "sa"}
	if _, err := certs.Generate(t.Context(), s.c, cluster, &bootstrapv1.ClusterConfiguration{}, purposes, owner); err != nil {
		t.Fatal(err)
	}
	found := &observe.EtcdMembers{Object: kcp, Cluster: cluster}
	_, s.fingerprints, err = backups.Files(t.Context(), s.c, s.c, stacked.New().Type().GroupVersionKind, found)
	if err != nil {
		t.Fatal(err)
	}
	s.store()
	return s
}

// kubeconfig is the secret by which the cluster at an address is reached.
func kubeconfig(t *testing.T, address string, certificate *x509.Certificate) *corev1.Secret {
	t.Helper()
	at := &clientcmdapi.Cluster{Server: address}
	if certificate != nil {
		at.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["demo"], config.AuthInfos["admin"] = at, &clientcmdapi.AuthInfo{Token: "t"}
	config.Contexts["demo"], config.CurrentContext = &clientcmdapi.Context{Cluster: "demo", AuthInfo: "admin"}, "demo"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo-kubeconfig"}, Data: map[string][]byte{secret.KubeconfigDataName: data},
	}
}

// write writes an archive with a snapshot, as Quorate does.
func (s *scene) write(to io.Writer, content string) (*backup.Manifest, error) {
	w, err := archive.NewWriter(to, []string{s.identity.Recipient().String()})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write([]byte(content)); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(content))
	return w.Finish(backup.Manifest{
		Version: backup.FormatVersion, Name: backupName, Cluster: backup.Cluster{UID: "cluster", Namespace: namespace, Name: "demo"},
		Taken:      taken,
		Kubernetes: "v1.37.2", Witnesses: []backup.Witness{{Revision: 7}},
		Snapshot:     backup.Digest{Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])},
		Fingerprints: s.fingerprints,
	})
}

// store puts the backup into the folder, with its proof.
func (s *scene) store() {
	s.t.Helper()
	r := &backupv1alpha1.EtcdRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	r.Spec.StoreRef.Name = "host"
	err := s.by.with(s.t.Context(), r, "cluster", func(catalog clusterbackup.Catalog) error {
		saved, err := catalog.Save(s.t.Context(), backupName, func(to io.Writer) (*clusterbackup.Taken, error) {
			manifest, err := s.write(to, snapshot)
			return &clusterbackup.Taken{Manifest: manifest}, err
		})
		if err != nil {
			return err
		}
		e, err := catalog.Get(s.t.Context(), backupName)
		if err != nil {
			return err
		}
		as := &backup.Restored{Witness: e.Manifest.Witnesses[0], Latest: 7, Snapshot: saved.Manifest.Snapshot}
		_, err = catalog.Verify(s.t.Context(), e, clusterbackup.Proof{Restored: as, Now: taken})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// recovery creates one that has begun, with its secret.
func (s *scene) recovery(change func(*backupv1alpha1.EtcdRecovery)) *backupv1alpha1.EtcdRecovery {
	s.t.Helper()
	sum := sha256.Sum256([]byte(snapshot))
	seed, err := json.Marshal(observe.Seed{Backup: backupName, Taken: taken, Size: int64(len(snapshot)), SHA256: hex.EncodeToString(sum[:])})
	if err != nil {
		s.t.Fatal(err)
	}
	r := &backupv1alpha1.EtcdRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r", UID: "0f3c",
		Annotations: map[string]string{
			backupv1alpha1.RecoverySeedAnnotation: string(seed), backupv1alpha1.RecoveryBegunAnnotation: "2026-11-27T18:00:00Z",
		}}}
	r.Spec = backupv1alpha1.EtcdRecoverySpec{
		ClusterName: "demo", Backup: backupName, StoreRef: controlplanev1.BackupStoreReference{Name: "host"},
		IdentitySecretRef: backupv1alpha1.SecretReference{Name: "key"},
	}
	r.Annotations[controlplanev1.ApprovedAnnotation] = observe.RecoveryDigest(r, "cluster")
	r.Annotations[controlplanev1.ApprovedByAnnotation] = "2026-11-27T17:59:00Z jane"
	if change != nil {
		change(r)
	}
	if err := s.c.Create(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
	if err := s.by.ensureSecret(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
	s.machine("demo-cp-4", r.UID)
	return r
}

// machine creates the Machine that was made by the seed of a recovery. One that is deleted stays until its finalizer goes.
func (s *scene) machine(name string, by types.UID) *clusterv1.Machine {
	s.t.Helper()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Finalizers: []string{clusterv1.MachineFinalizer},
		Annotations: map[string]string{observe.SeededByAnnotation: string(by)},
	}}
	if err := s.c.Create(s.t.Context(), m); err != nil {
		s.t.Fatal(err)
	}
	return m
}

// TestHandOut: the machine that restores a seed gets the snapshot over TLS that it verifies, by its token, while the recovery goes on.
func TestHandOut(t *testing.T) {
	s := newScene(t)
	r := s.recovery(nil)
	from, err := observe.SeedSourceOf(t.Context(), s.c, r)
	if err != nil {
		t.Fatal(err)
	}
	if from.Address != address {
		t.Errorf("the machine is sent to %s", from.Address)
	}
	token := from.TokenOf("demo-cp-4")
	body, status := s.fetch(r, from, token)
	if body != snapshot || status != http.StatusOK {
		t.Errorf("%d: %q", status, body)
	}
	s.machine("demo-cp-5", "another")
	deleted := s.machine("demo-cp-6", r.UID)
	if err := s.c.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	for name, shown := range map[string]string{
		"no token": "", "another token": "x" + token, "a part of it": token[:20], "the key": from.Token, "a name": "demo-cp-4.",
		"a name and the proof of another":      strings.Replace(token, "demo-cp-4", "demo-cp-6", 1),
		"a machine that another recovery made": from.TokenOf("demo-cp-5"), "a machine that was given up": from.TokenOf("demo-cp-6"),
		"a machine that is gone": from.TokenOf("demo-cp-3"),
	} {
		if body, status := s.fetch(r, from, shown); status != http.StatusNotFound || strings.Contains(body, snapshot) {
			t.Errorf("%s: %d %q", name, status, body)
		}
	}
	s.machine("demo-cp-7", r.UID)
	for _, name := range []string{"demo-cp-4", "demo-cp-7"} {
		if body, status := s.fetch(r, from, from.TokenOf(name)); status != http.StatusNotFound {
			t.Errorf("%s beside another that restores the seed: %d %q", name, status, body)
		}
	}
}

// TestNotHandedOut: before a recovery begins and after its end there is no snapshot, whatever token is shown.
func TestNotHandedOut(t *testing.T) {
	for name, change := range map[string]func(*backupv1alpha1.EtcdRecovery){
		"not begun": func(r *backupv1alpha1.EtcdRecovery) { delete(r.Annotations, backupv1alpha1.RecoveryBegunAnnotation) },
		"ended": func(r *backupv1alpha1.EtcdRecovery) {
			r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] = "2026-11-27T18:10:00Z"
		},
	} {
		s := newScene(t)
		r := s.recovery(change)
		from, err := observe.SeedSourceOf(t.Context(), s.c, r)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, "/"+observe.SeedPath(r), nil)
		request.Header.Set("Authorization", "Bearer "+from.TokenOf("demo-cp-4"))
		(&Server{Controller: s.by}).serve(w, request)
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestNotBesideACluster: no snapshot is handed out while something answers at the cluster's endpoint, also what refuses, fails or is not
// believed, and none without a kubeconfig to ask with.
func TestNotBesideACluster(t *testing.T) {
	api := func(code int) *httptest.Server {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		}))
		t.Cleanup(server.Close)
		return server
	}
	serves, refuses, fails := api(http.StatusOK), api(http.StatusUnauthorized), api(http.StatusInternalServerError)
	for name, by := range map[string]*corev1.Secret{
		"it serves":          kubeconfig(t, serves.URL, serves.Certificate()),
		"it refuses":         kubeconfig(t, refuses.URL, refuses.Certificate()),
		"it fails":           kubeconfig(t, fails.URL, fails.Certificate()),
		"it is not believed": kubeconfig(t, serves.URL, nil),
		"no kubeconfig":      {ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo-kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			r := s.recovery(nil)
			if err := s.c.Update(t.Context(), by); err != nil {
				t.Fatal(err)
			}
			if n := s.brokenOff(r); n > 0 {
				t.Errorf("%d bytes were handed out", n)
			}
		})
	}
}

// TestBrokenOff: a snapshot that cannot be read to its end is not taken for the whole.
func TestBrokenOff(t *testing.T) {
	s := newScene(t)
	s.brokenOff(s.recovery(func(r *backupv1alpha1.EtcdRecovery) { r.Spec.IdentitySecretRef.Name = "" }))
}

// TestOnlyTheApproved: a snapshot is not handed out in full that is not the one of the seed that a person approved, whether somebody
// changed the recovery or the store after it began.
func TestOnlyTheApproved(t *testing.T) {
	other := strings.Replace(snapshot, "all", "ALL", 1)
	sum := sha256.Sum256([]byte(other))
	seed := func(r *backupv1alpha1.EtcdRecovery, sha256 string) {
		text, err := json.Marshal(observe.Seed{Backup: backupName, Taken: taken, Size: int64(len(snapshot)), SHA256: sha256})
		if err != nil {
			t.Fatal(err)
		}
		r.Annotations[backupv1alpha1.RecoverySeedAnnotation] = string(text)
	}
	for name, test := range map[string]struct {
		change func(*backupv1alpha1.EtcdRecovery)
		stored string
	}{
		"nobody approved it": {func(r *backupv1alpha1.EtcdRecovery) { delete(r.Annotations, controlplanev1.ApprovedAnnotation) }, snapshot},
		"another seed":       {func(r *backupv1alpha1.EtcdRecovery) { seed(r, hex.EncodeToString(sum[:])) }, snapshot},
		"a seed that is approved, and that the store does not have": {func(r *backupv1alpha1.EtcdRecovery) {
			seed(r, hex.EncodeToString(sum[:]))
			r.Annotations[controlplanev1.ApprovedAnnotation] = observe.RecoveryDigest(r, "cluster")
		}, snapshot},
		"another archive in the store": {nil, other},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			r := s.recovery(test.change)
			s.replaceArchive(s.archive(test.stored))
			if n := s.brokenOff(r); n >= len(snapshot) {
				t.Errorf("all %d bytes were handed out", n)
			}
		})
	}
}

// brokenOff has the machine that restores a seed fetch it, and returns after how many bytes the server breaks off. That it does not is an
// error.
func (s *scene) brokenOff(r *backupv1alpha1.EtcdRecovery) (sent int) {
	s.t.Helper()
	from, err := observe.SeedSourceOf(s.t.Context(), s.c, r)
	if err != nil {
		s.t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodGet, "/"+observe.SeedPath(r), nil)
	request.Header.Set("Authorization", "Bearer "+from.TokenOf("demo-cp-4"))
	answer := httptest.NewRecorder()
	defer func() {
		if p, is := recover().(error); !is || !errors.Is(p, http.ErrAbortHandler) {
			s.t.Errorf("the answer ended with %v", p)
		}
		sent = answer.Body.Len()
	}()
	(&Server{Controller: s.by}).serve(answer, request)
	return 0
}

// fetch does what curl does on the machine.
func (s *scene) fetch(r *backupv1alpha1.EtcdRecovery, from observe.SeedSource, token string) (string, int) {
	s.t.Helper()
	server := &Server{Controller: s.by}
	l := httptest.NewUnstartedServer(http.HandlerFunc(server.serve))
	l.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: server.certificate}
	l.StartTLS()
	defer l.Close()
	// httptest has a certificate of its own, which is used for names that GetCertificate does not know.
	l.TLS.Certificates = nil
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(from.Certificate))
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: from.Host,
		MinVersion: tls.VersionTLS12}}}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, l.URL+"/"+observe.SeedPath(r), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := c.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body), answer.StatusCode
}
