package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// verify checks the pair as etcd would, whose clock shows now.
func verify(config *tls.Config, ca *x509.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err := config.Certificates[0].Leaf.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

func TestEtcdClientToleratesSkew(t *testing.T) {
	old := given("demo-etcd", rsaAuthority(t, time.Now().Add(-48*time.Hour), time.Now().Add(1000*time.Hour)))
	young, c2 := withAuthorities(t)
	for name, c := range map[string]client.Client{"an old authority": newClient(t, old), "a young authority": c2} {
		t.Run(name, func(t *testing.T) {
			ca := certificate(t, secretOf(t, c, "demo-etcd").Data["tls.crt"])
			var clients EtcdClients
			config, err := clients.Config(t.Context(), c, young)
			must(t, err)
			if config.ServerName != "" || config.InsecureSkipVerify || config.MinVersion < tls.VersionTLS12 {
				t.Errorf("server name %q, insecure %t", config.ServerName, config.InsecureSkipVerify)
			}
			leaf := config.Certificates[0].Leaf
			if d := time.Since(leaf.NotBefore); d < time.Hour {
				t.Errorf("valid since %s only: a clock that is an hour late refuses it", d)
			}
			behind := time.Now().Add(-59 * time.Minute)
			if ca.NotBefore.After(behind) {
				behind = ca.NotBefore
			}
			for _, at := range []time.Time{behind, time.Now(), time.Now().Add(11 * time.Hour)} {
				if err := verify(config, ca, at); err != nil {
					t.Errorf("at %s: %v", at, err)
				}
			}
			if leaf.IsCA || time.Until(leaf.NotAfter) > 25*time.Hour {
				t.Errorf("authority %t, ends %s", leaf.IsCA, leaf.NotAfter)
			}
			if _, err := certificate(t, secretOf(t, c, "demo-etcd").Data["tls.crt"]).Verify(x509.VerifyOptions{Roots: config.RootCAs}); err != nil {
				t.Errorf("members of this etcd would not be believed: %v", err)
			}
		})
	}
}

func TestEtcdClientIsKeptUntilItAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		_, inner := withAuthorities(t)
		c := interceptor.NewClient(inner.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				reads++
				return w.Get(ctx, key, o, opts...)
			},
		})
		var clients EtcdClients
		ask := func() *tls.Config {
			t.Helper()
			config, err := clients.Config(t.Context(), c, demo())
			must(t, err)
			return config
		}
		first := ask()
		for range 100 {
			if ask() != first {
				t.Fatal("made anew without need")
			}
		}
		if reads != 1 {
			t.Errorf("%d reads of the secret for 101 answers", reads)
		}
		time.Sleep(secretsBelieved + time.Second)
		if ask() != first || reads != 2 {
			t.Errorf("after a while the secret is read again (%d) and nothing changes", reads)
		}
		time.Sleep(etcdClientLife - etcdClientRenewal)
		second := ask()
		if second == first || !second.Certificates[0].Leaf.NotAfter.After(first.Certificates[0].Leaf.NotAfter) {
			t.Error("not renewed in time")
		}
		if time.Until(first.Certificates[0].Leaf.NotAfter) <= 0 {
			t.Error("the old one had ended before it was renewed")
		}

		s := secretOf(t, inner, "demo-etcd")
		for k, v := range rsaAuthority(t, time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour)) {
			s.Data[k] = []byte(v)
		}
		must(t, inner.Update(t.Context(), s))
		if ask() != second {
			t.Error("the cluster's own credentials changed before the secret was read")
		}
		again, err := clients.Config(t.Context(), c, anotherUID("c2"))
		must(t, err)
		if again == second {
			t.Error("a new cluster with an old name got the old credentials")
		}
		clients.Forget(client.ObjectKeyFromObject(demo()))
		before := reads
		ask()
		if reads != before+1 {
			t.Error("forgotten, and still known")
		}
	})
}

func TestEtcdClientFollowsItsAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, c := withAuthorities(t)
		var clients EtcdClients
		first, err := clients.Config(t.Context(), c, cluster)
		must(t, err)
		s := secretOf(t, c, "demo-etcd")
		for k, v := range rsaAuthority(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)) {
			s.Data[k] = []byte(v)
		}
		must(t, c.Update(t.Context(), s))
		time.Sleep(secretsBelieved)
		second, err := clients.Config(t.Context(), c, cluster)
		must(t, err)
		if second == first {
			t.Fatal("the old credentials are still used")
		}
		ca := certificate(t, s.Data["tls.crt"])
		must(t, verify(second, ca, time.Now()))
		if second.Certificates[0].Leaf.NotAfter.After(ca.NotAfter) {
			t.Error("it outlives its authority")
		}
		// An authority near its end: asking does not sign each time.
		if third, err := clients.Config(t.Context(), c, cluster); err != nil || third != second {
			t.Errorf("made anew without need: %v", err)
		}
	})
}

func TestEtcdClientOfExternalEtcd(t *testing.T) {
	pair := rsaAuthority(t, time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour))
	ca := given("demo-etcd", map[string]string{"tls.crt": pair["tls.crt"]})
	var clients EtcdClients
	config, err := clients.Config(t.Context(), newClient(t, ca.DeepCopy(), given("demo-apiserver-etcd-client", pair)), demo())
	must(t, err)
	if !config.Certificates[0].Leaf.Equal(certificate(t, []byte(pair["tls.crt"]))) {
		t.Error("not the certificate that the user gave")
	}
	for want, secrets := range map[string][]client.Object{
		"secret ns/demo-apiserver-etcd-client does not exist": {ca.DeepCopy()},
		"reading secret ns/demo-apiserver-etcd-client": {ca.DeepCopy(),
			given("demo-apiserver-etcd-client", map[string]string{"tls.crt": "x"})},
		"secret ns/demo-etcd does not exist":     {},
		"reading tls.crt of secret ns/demo-etcd": {given("demo-etcd", map[string]string{"tls.crt": "x", "tls.key": "y"})},
		"reading tls.key of secret ns/demo-etcd: holds no PEM block": {given("demo-etcd", map[string]string{"tls.crt": pair["tls.crt"],
			"tls.key": "y"})},
	} {
		var clients EtcdClients
		_, err := clients.Config(t.Context(), newClient(t, secrets...), demo())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if err != nil && strings.Contains(errors.Unwrap(err).Error(), "PRIVATE KEY") {
			t.Error("a key in an error")
		}
	}
}
