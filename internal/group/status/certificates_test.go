package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestCertificatesCounted: certificates are counted by how long they last, and of each name the first to expire is told. While the cluster
// does not answer, nothing is changed; without machines nothing is told.
func TestCertificatesCounted(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	in := func(days int) time.Time { return now.AddDate(0, 0, days) }
	seen := func(change func(*observe.View)) Report {
		var machines []*clusterv1.Machine
		for _, name := range []string{"a", "b", "c"} {
			machines = append(machines, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		v := observe.NewView(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, machines, plan.Observed{Now: now})
		for i, days := range []int{29, 31, 0} {
			v.Machines[i].Facts.Host = v.Machines[i].Name
			if days > 0 {
				v.Machines[i].CertificateEnd = in(days)
			}
		}
		v.Facts.Cluster.Reachable = true
		v.Memory = &observe.Memory{Secrets: observe.Secrets{Read: now, Certificates: []certs.Dated{
			{Name: "ca", Secret: "demo-ca", End: in(900), RenewedBy: "Nobody"}, {Name: "ca", Secret: "demo-ca", End: in(-1), RenewedBy: "Nobody"},
		}}}
		change(v)
		return Report{View: v}
	}
	for name, c := range map[string]struct {
		change func(*observe.View)
		want   string
	}{
		"usual": {func(*observe.View) {}, "4 1 1 [apiserver a 29 Replacement, ca demo-ca -1 Nobody] the API servers of c"},
		"update": {func(v *observe.View) { v.Spec.Policy.InPlace = plan.InPlacePreferred },
			"4 1 1 [apiserver a 29 UpdateInPlace, ca demo-ca -1 Nobody] the API servers of c"},
		"no look": {func(v *observe.View) { v.Memory.Secrets = observe.Secrets{} },
			"2 0 1 [apiserver a 29 Replacement] the secrets of the cluster; the API servers of c"},
		"going": {func(v *observe.View) { v.Machines[0].Facts.Deleting = true },
			"3 1 0 [apiserver b 31 Replacement, ca demo-ca -1 Nobody] the API servers of c"},
		"recorded": {func(v *observe.View) {
			v.Machines[2].Bootstrap = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				clusterv1.MachineCertificatesExpiryDateAnnotation: in(7).Format(time.RFC3339)}}}
		}, "5 1 2 [apiserver c 7 Replacement, ca demo-ca -1 Nobody] "},
		"kubeconfig": {func(v *observe.View) { v.Kubeconfig = certs.Kubeconfig{Exists: true, Expires: in(3)} },
			"5 1 2 [apiserver a 29 Replacement, ca demo-ca -1 Nobody, kubeconfig demo-kubeconfig 3 Manager] the API servers of c"},
		"foreign": {func(v *observe.View) { v.Kubeconfig = certs.Kubeconfig{Exists: true, Foreign: true, Expires: in(3)} },
			"5 1 2 [apiserver a 29 Replacement, ca demo-ca -1 Nobody, kubeconfig demo-kubeconfig 3 Nobody] the API servers of c"},
		"silent":      {func(v *observe.View) { v.Facts.Cluster.Reachable = false }, "before"},
		"no machines": {func(v *observe.View) { v.Machines = nil }, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			got := controlplanev1.CertificatesStatus{NotSeen: "before"}
			seen(c.change).describeCertificates(&got)
			var first []string
			for _, one := range got.First {
				days := int(one.Date.Sub(now) / (24 * time.Hour))
				first = append(first, fmt.Sprintf("%s %s%s %d %s", one.Name, one.Machine, one.Secret, days, one.RenewedBy))
			}
			text := "nothing"
			if got.Seen != nil {
				text = fmt.Sprintf("%d %d %d [%s] %s", *got.Seen, *got.Expired, *got.ExpiringSoon, strings.Join(first, ", "), got.NotSeen)
			} else if got.NotSeen != "" {
				text = got.NotSeen
			}
			if text != c.want {
				t.Errorf("told %q, want %q", text, c.want)
			}
		})
	}
}
