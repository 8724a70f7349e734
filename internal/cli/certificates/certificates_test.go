package certificates

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cli/certificates/look"
	"github.com/quorate/quorate/internal/cluster/pki/inventory"
)

// TestTable: certificates and, on demand, keys have lines, and what could not be looked at follows.
func TestTable(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	one := look.Report{Namespace: "default", Cluster: "demo", Inventory: inventory.Inventory{
		Entries: []inventory.Entry{
			{Name: "apiserver", Where: inventory.Handshake, Machine: "demo-1", Location: "port 6443", Issuer: "CN=kubernetes",
				Subject: "CN=kube-apiserver,O=x", NotAfter: now.Add(36 * time.Hour), KeyKind: "RSA 2048", RenewedBy: inventory.ByUpdate,
				Names: []string{"a", "b", "c", "d"}, Fingerprint: "0123456789abcdef0123", Warnings: []inventory.Warning{{Reason: inventory.EndsSoon}}},
			{Name: "ca", Where: inventory.Secret, Location: "demo-ca: tls.key", Key: true, Private: true, KeyKind: "RSA 2048", PublicKey: "ff",
				RenewedBy: inventory.ByNobody},
		},
		Unseen: []inventory.Unseen{
			{Where: inventory.File, Machine: "demo-1", Why: "not now"}, {Where: inventory.File, Machine: "demo-2", Why: "not now"},
			{Where: inventory.Secret, Location: "demo-proxy", Why: "does not exist"},
		},
	}}
	draw := func(wide bool, all ...look.Report) string {
		var lines []string
		for _, l := range tables(all, wide, now) {
			lines = append(lines, strings.Join(strings.Fields(l.String()), " "))
		}
		return strings.Join(lines, "\n")
	}
	want := `NAME MACHINE WHERE ENDS LEFT RENEWED BY ISSUER WARNINGS
apiserver demo-1 port 6443 2026-11-30 1d upgrade in place kubernetes EndsSoon

Certificates: 1. Keys, which --wide lists: 1.

Not looked at:
demo-1, demo-2: files: not now
secret demo-proxy: does not exist`
	if got := draw(false, one); got != want {
		t.Errorf("drawn:\n%s", got)
	}
	got := draw(true, one, one)
	for _, want := range []string{
		"apiserver demo-1 port 6443 2026-11-30 1d upgrade in place kubernetes kube-apiserver a,b,c and 1 more RSA 2048 0123456789abcdef EndsSoon",
		"ca (private key) - secret demo-ca: tls.key - RSA 2048 ff", "default/demo\n",
	} {
		if strings.Count(got, want) != 2 {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if got := draw(false); !strings.Contains(got, "there is no cluster") {
		t.Error(got)
	}
}
