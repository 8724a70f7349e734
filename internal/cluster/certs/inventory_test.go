package certs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/pki/inventory"
)

// TestInventory: all secrets of a cluster with an EtcdCluster are listed, each with what renews it. What is not there, or cannot be read,
// is told. Where the authority's key is kept elsewhere, the manager renews no kubeconfig.
func TestInventory(t *testing.T) {
	cluster, w, list := demo(), newClient(t), &corev1.SecretList{}
	_, err := Generate(t.Context(), w, cluster, small, []string{"ca", "proxy", "sa"}, owner)
	must(t, err)
	must(t, GenerateManagedEtcd(t.Context(), w, cluster, etcdOwner))
	a, err := ManagedEtcdAuthority(t.Context(), w, cluster)
	must(t, err)
	must(t, a.PublishManagedEtcd(t.Context(), w, w, cluster, etcdOwner))
	must(t, writeKubeconfig(t.Context(), w, cluster, owner))
	must(t, w.List(t.Context(), list, client.InNamespace(cluster.Namespace)))
	for name, c := range map[string]struct {
		change func(map[string]*corev1.Secret)
		renews string
		unseen string
	}{
		"all":      {func(map[string]*corev1.Secret) {}, "Manager", ""},
		"no proxy": {func(s map[string]*corev1.Secret) { s["demo-proxy"].Name = "else" }, "Manager", "demo-proxy: does not exist"},
		"keyless":  {func(s map[string]*corev1.Secret) { delete(s["demo-ca"].Data, "tls.key") }, "Nobody", ""},
		"no certificate": {func(s map[string]*corev1.Secret) { delete(s["demo-etcd"].Data, "tls.crt") }, "Manager",
			"demo-etcd: tls.crt: is missing"},
		"no kubeconfig": {func(s map[string]*corev1.Secret) { s["demo-kubeconfig"].Data["value"] = []byte("[") }, "",
			"demo-kubeconfig: value: cannot be parsed as a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			secrets := map[string]*corev1.Secret{}
			var objects []client.Object
			for _, found := range list.DeepCopy().Items {
				found.ResourceVersion = ""
				secrets[found.Name] = &found
				objects = append(objects, &found)
			}
			c.change(secrets)
			materials, unseen := Inventory(t.Context(), newClient(t, objects...), cluster, Expected(true, true))
			got := inventory.List(materials, unseen, time.Now())
			var told []string
			for _, u := range got.Unseen {
				told = append(told, u.Location+": "+u.Why)
			}
			if strings.Join(told, "; ") != c.unseen {
				t.Errorf("not looked at: %q, want %q", told, c.unseen)
			}
			renewals := map[string]string{}
			for _, e := range got.Entries {
				if !e.Key {
					renewals[e.Name] = string(e.RenewedBy)
				}
			}
			if renewals["kubeconfig"] != c.renews || renewals["apiserver-etcd-client"] != "Manager" {
				t.Errorf("renewed by %v", renewals)
			}
			if name == "all" && fmt.Sprint(len(got.Entries)) != "14" {
				t.Errorf("%d entries", len(got.Entries))
			}
		})
	}
}

// TestMade: what was made is told as it is read afterwards.
func TestMade(t *testing.T) {
	cluster, w := demo(), newClient(t)
	made, err := Generate(t.Context(), w, cluster, small, []string{"ca", "etcd", "proxy", "sa"}, owner)
	must(t, err)
	read, err := Read(t.Context(), w, cluster, small, owner)
	must(t, err)
	if fmt.Sprint(made.Certificates) != fmt.Sprint(read.Certificates) || len(made.Certificates) != 3 {
		t.Errorf("made %v, read %v", made.Certificates, read.Certificates)
	}
}

// TestExpected: an etcd elsewhere has a client certificate, and an EtcdCluster its own authority.
func TestExpected(t *testing.T) {
	for _, external := range []bool{false, true} {
		for _, managed := range []bool{false, true} {
			got := Expected(external, managed)
			if slices.Contains(got, secret.APIServerEtcdClient) != (external || managed) || slices.Contains(got, ManagedEtcd) != managed {
				t.Errorf("external %t, managed %t: %s", external, managed, got)
			}
		}
	}
}
