package recoveries

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/pki"
	"github.com/quorate/quorate/internal/group/observe"
)

const (
	// certificateLife is how long the certificate of a recovery is valid: longer than any recovery.
	certificateLife = 30 * 24 * time.Hour
	// tokenBytes are the random bytes of a token.
	tokenBytes = 32
	// mostHeaders, readTime and idleTime bound what somebody who has no token can take.
	mostHeaders = 8 << 10
	readTime    = 10 * time.Second
	idleTime    = time.Minute
	// listenAgain is after how long is tried again to listen.
	listenAgain = time.Second
)

// newSecret returns the secret by which the snapshot of a recovery is handed out: a certificate of its own, which the machine knows, and
// a token.
func newSecret(r *backupv1alpha1.EtcdRecovery, address string) (*corev1.Secret, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of EtcdRecovery %s: %w", r.Name, err)
	}
	host, now := observe.SeedHost(r), time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "quorate-seed"}, DNSNames: []string{host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife), BasicConstraintsValid: true, IsCA: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of EtcdRecovery %s: %w", r.Name, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("making the key of EtcdRecovery %s: %w", r.Name, err)
	}
	token := make([]byte, tokenBytes)
	if _, err := rand.Read(token); err != nil {
		return nil, fmt.Errorf("making the token of EtcdRecovery %s: %w", r.Name, err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: observe.SeedSecretName(r),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, backupv1alpha1.GroupVersion.WithKind("EtcdRecovery"))},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
			observe.SeedTokenKey:    []byte(base64.RawURLEncoding.EncodeToString(token)),
			observe.SeedAddressKey:  []byte(address),
		},
	}, nil
}

// Server hands snapshots out to the machines that restore them.
type Server struct {
	*Controller
	// Bind is the address to listen on.
	Bind string
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica answers.
func (s *Server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	listener := s.listen(ctx)
	if listener == nil {
		return nil
	}
	server := &http.Server{
		Handler: http.HandlerFunc(s.serve), MaxHeaderBytes: mostHeaders, ReadTimeout: readTime, IdleTimeout: idleTime,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate}
	if err := server.Serve(tls.NewListener(listener, config)); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("handing snapshots out: %w", err)
	}
	return nil
}

// listen listens at the address once there is one: a bridge for machines is made with the first of them. Nothing else of the manager ends
// or waits because of it. It returns nothing once the context ends.
func (s *Server) listen(ctx context.Context) net.Listener {
	said := ""
	for {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Bind)
		switch {
		case err == nil:
			return listener
		case ctx.Err() != nil:
			return nil
		case err.Error() != said:
			said = err.Error()
			ctrl.LoggerFrom(ctx).Info("Machines cannot fetch the snapshots that they restore until this ends", "message", said)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenAgain):
		}
	}
}

// certificate returns that of the recovery whose name a machine asks for.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	list := &backupv1alpha1.EtcdRecoveryList{}
	if err := s.Client.List(hello.Context(), list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		r := &list.Items[i]
		if observe.SeedHost(r) != strings.ToLower(hello.ServerName) || !observe.IsOpen(r) {
			continue
		}
		of, err := s.secret(hello.Context(), r.Namespace, observe.SeedSecretName(r))
		if err != nil {
			return nil, err
		}
		pair, err := pki.KeyPair(of.Data[corev1.TLSCertKey], of.Data[corev1.TLSPrivateKeyKey])
		return &pair, err
	}
	return nil, fmt.Errorf("no recovery that goes on has the name %q", hello.ServerName)
}

// serve answers one machine.
func (s *Server) serve(w http.ResponseWriter, request *http.Request) {
	ctx := request.Context()
	namespace, name, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/v1/seeds/"), "/")
	r := &backupv1alpha1.EtcdRecovery{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, r)
	if request.Method != http.MethodGet || err != nil || !observe.IsOpen(r) || !s.knows(ctx, r, request) {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	log := ctrl.LoggerFrom(ctx).WithValues("etcdrecovery", client.ObjectKeyFromObject(r))
	if err := s.send(ctx, w, r); err != nil {
		log.Info("Handing a snapshot out failed", "message", err.Error())
		panic(http.ErrAbortHandler) // the machine must not take what came for the whole
	}
	log.Info("Handed a snapshot out", "to", request.RemoteAddr)
}

// knows reports whether a request shows the token of a machine that restores the seed of a recovery, and that was not given up. One that
// was, and is late, would begin a second cluster behind the same endpoint.
func (s *Server) knows(ctx context.Context, r *backupv1alpha1.EtcdRecovery, request *http.Request) bool {
	of, err := s.secret(ctx, r.Namespace, observe.SeedSecretName(r))
	shown, is := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	shown = strings.TrimSpace(shown)
	name := shown[:max(strings.LastIndex(shown, "."), 0)]
	if err != nil || !is || name == "" || len(of.Data[observe.SeedTokenKey]) == 0 || !metav1.IsControlledBy(of, r) {
		return false
	}
	token := observe.SeedSource{Token: string(of.Data[observe.SeedTokenKey])}.TokenOf(name)
	if subtle.ConstantTimeCompare([]byte(shown), []byte(token)) != 1 {
		return false
	}
	return s.isOnly(ctx, r, name)
}

// isOnly reports whether a Machine was made to restore the seed of a recovery and stays, and no other was that stays. Another may be there
// of which somebody took the labels away: the control plane does not see it any more and makes a second one, and the first may have begun a
// cluster. None gets a snapshot then until one of the two is deleted.
func (s *Server) isOnly(ctx context.Context, r *backupv1alpha1.EtcdRecovery, name string) bool {
	all := &clusterv1.MachineList{}
	if err := s.APIReader.List(ctx, all, client.InNamespace(r.Namespace)); err != nil {
		return false
	}
	var seeded []string
	for _, m := range all.Items {
		if m.DeletionTimestamp.IsZero() && m.Annotations[observe.SeededByAnnotation] == string(r.UID) {
			seeded = append(seeded, m.Name)
		}
	}
	return len(seeded) == 1 && seeded[0] == name
}

// send writes the snapshot of a recovery that is approved as it is. Whatever somebody wrote since into the recovery or the store, nothing
// but the snapshot that the seed describes is handed out in full.
func (s *Server) send(ctx context.Context, w http.ResponseWriter, object *backupv1alpha1.EtcdRecovery) error {
	r, seed := &recovery{EtcdRecovery: object}, observe.SeedOf(object)
	if seed == nil {
		return errors.New("there is no seed")
	}
	if err := s.find(ctx, r); err != nil {
		return err
	}
	if !r.isAllowed() {
		return errors.New("the recovery was changed after it was approved")
	}
	if !r.kind.Type().Nodeless { // machines of etcd alone do not serve there
		if err := observe.Silent(ctx, s.APIReader, r.cluster); err != nil {
			return err
		}
	}
	identities, err := s.identities(ctx, object)
	if err != nil {
		return err
	}
	return s.with(ctx, object, r.identity(), func(catalog clusterbackup.Catalog) error {
		stored, err := catalog.Find(ctx, seed.Backup)
		if err == nil {
			err = stored.Err
		}
		if err != nil {
			return fmt.Errorf("reading backup %s: %w", seed.Backup, err)
		}
		if is := stored.Manifest.Snapshot; is.Size != seed.Size || is.SHA256 != seed.SHA256 {
			return fmt.Errorf("annotation %s has the SHA-256 digest %s, and the store has %s for backup %s",
				backupv1alpha1.RecoverySeedAnnotation, seed.SHA256, is.SHA256, seed.Backup)
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(seed.Size, 10))
		out := &withholder{to: w, sum: sha256.New()}
		if err := catalog.Snapshot(ctx, stored, identities, seed.Size, out); err != nil {
			return err
		}
		return out.finish(seed.SHA256)
	})
}

// withholder hands on what is written to it but for the last piece, which follows once the digest of the whole is right.
type withholder struct {
	to   io.Writer
	sum  hash.Hash
	last []byte
}

// Write implements io.Writer.
func (w *withholder) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if _, err := w.to.Write(w.last); err != nil {
		return 0, fmt.Errorf("sending the snapshot: %w", err)
	}
	w.last = append(w.last[:0], p...)
	return w.sum.Write(p)
}

// finish hands the last piece on.
func (w *withholder) finish(digest string) error {
	if is := hex.EncodeToString(w.sum.Sum(nil)); is != digest {
		return fmt.Errorf("the snapshot in the store has the SHA-256 digest %s, and %s is wanted", is, digest)
	}
	if _, err := w.to.Write(w.last); err != nil {
		return fmt.Errorf("sending the snapshot: %w", err)
	}
	return nil
}
