//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/upgrade/updatehooks"
)

// inplaceExtension: a Runtime Extension under another name than Quorate's updates three machines in place for Quorate's controller, with
// Cluster API's Machine controller calling it. While it does not answer, nothing is updated or replaced.
//
//quorate:shows kubernetes in-place older>newer
func inplaceExtension(t *testing.T, e *environment) {
	const name = "inext"
	t.Setenv("QUORATE_RUNTIME_EXTENSIONS", "true")
	e.up(t, name, "--replicas", "3", "--kubernetes-version", older)
	answers := e.otherExtension(t)
	made, infrastructure := e.identities(t, name), e.infrastructureOf(t, name)

	ctx, stop := context.WithCancel(context.Background())
	outage, times := e.probe(t, ctx, name), e.watchNodes(t, ctx, name)
	e.written(t, name, func() {
		e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.Version = newer
			kcp.Spec.InPlace = controlplanev1.InPlaceSpec{Policy: controlplanev1.InPlacePreferred, Updater: controlplanev1.UpdaterExtension}
		})
		eventually(t, "it waits for an answer", patience, func() string {
			if out := e.quorate(t, "explain", name); !strings.Contains(out, "it is not known what can be changed in place") ||
				!strings.Contains(out, http.StatusText(http.StatusServiceUnavailable)) {
				return out
			}
			return ""
		})
		e.sameMachines(t, name, made)
		answers.Store(true)
		start := time.Now()
		eventually(t, "three machines updated in place", patience, e.updatedTo(t, machine.Labels(name), newer))
		t.Logf("FIGURE Quorate's controller with an extension of somebody else, three machines %s -> %s in place: %.1f s", older, newer,
			time.Since(start).Seconds())
		eventually(t, "all voters", patience, e.quorumOf(t, name, 3))
		eventually(t, "all nodes healthy", patience, e.healthy(t, name, 3))
	})
	stop()
	for _, line := range <-times {
		t.Log(line)
	}
	t.Logf("FIGURE Quorate's controller with an extension of somebody else: API not answering: %s", <-outage)
	e.sameMachines(t, name, made)
	if now := e.infrastructureOf(t, name); !slices.Equal(now, infrastructure) {
		t.Errorf("infrastructure machines are %v, and were %v", now, infrastructure)
	}
	e.isVersion(t, name, newer)
	e.nothingLeft(t, name)
	e.hasNothingToDo(t, name)
	e.takeDown(t, name)
}

// otherExtension registers somebody else's Runtime Extension instead of Quorate's own, which is behind it. It answers calls when that is
// set, and nothing but its discovery before.
func (e *environment) otherExtension(t *testing.T) *atomic.Bool {
	t.Helper()
	ctx, c := context.Background(), e.management(t)
	own := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: updatehooks.Own}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(own), own); err != nil {
		t.Fatal(err)
	}
	at, answers := relay(t, own.Spec.ClientConfig)
	before := own.DeepCopy()
	own.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"updated-by": updatehooks.Own}}
	if err := c.Patch(ctx, own, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	other := &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "somebody"},
		Spec: runtimev1.ExtensionConfigSpec{ClientConfig: at,
			Settings: map[string]string{"policy": string(controlplanev1.InPlacePreferred)}},
	}
	if err := c.Create(ctx, other); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		before := own.DeepCopy()
		own.Spec.NamespaceSelector = before.Spec.NamespaceSelector
		own.Spec.NamespaceSelector.MatchLabels = nil
		if err := client.IgnoreNotFound(c.Delete(ctx, other)); err != nil {
			t.Error(err)
		}
		if err := c.Patch(ctx, own, client.MergeFrom(before)); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the extension is discovered", patience, func() string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil || len(other.Status.Handlers) == 0 {
			return fmt.Sprintf("%v, %+v", err, other.Status.Conditions)
		}
		return ""
	})
	return answers
}

// relay serves what another extension does, by a certificate of its own. Calls are refused until they are to be answered.
func relay(t *testing.T, to runtimev1.ClientConfig) (at runtimev1.ClientConfig, answers *atomic.Bool) {
	t.Helper()
	target, err := url.Parse(to.URL)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(to.CABundle)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	answers = &atomic.Bool{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answers.Load() && !strings.Contains(r.URL.Path, "discovery") {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return runtimev1.ClientConfig{
		URL: server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}, answers
}
