package workerupgrade

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// TestNoUpgraderImage: without an image for the version no worker is touched, and the MachineDeploymentUpgrade names the settings. With one
// the update begins.
func TestNoUpgraderImage(t *testing.T) {
	w := newWorld(t, map[string]string{upgradev1.PolicyAnnotation: "Preferred"})
	w.c.Upgraders = &upgraders.Images{Reader: w.client, Namespace: "quorate-system"}
	w.turns(3)
	if all := w.upgrades(); len(all) != 0 {
		t.Fatalf("begun are %+v", all)
	}
	u := w.told()
	want := "cannot update w1, w2 in place: no upgrader image for " + newer + ": set key " + newer +
		" of ConfigMap quorate-upgrader-images in namespace default or quorate-system"
	if c := conditions.Get(&u, upgradev1.Progressing); c == nil || c.Reason != "NoUpgraderImage" || !strings.HasPrefix(c.Message, want) {
		t.Errorf("%+v", c)
	}
	images := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "quorate-system", Name: upgraders.ConfigMap},
		Data: map[string]string{newer: "example.com/upgrader@sha256:abc"}}
	if err := w.client.Create(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	w.turns(2)
	if all := w.upgrades(); len(all) != 1 {
		t.Errorf("begun are %+v", all)
	}
}
