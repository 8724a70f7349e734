package envtest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quorate/quorate/internal/manager"
)

// TestManagerWritesCleanText: whatever controllers quote, the client of their manager writes it to no status with a secret or a control
// character.
func TestManagerWritesCleanText(t *testing.T) {
	needAssets(t)
	env := &envtest.Environment{}
	c := start(t, env)
	mgr, err := manager.New(env.Config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}}, manager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	const said = "join --token abcdef.0123456789abcdef \x1b[31mfailed"
	pod.Status.Message = said
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: said}}
	if err := mgr.GetClient().Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{pod.Status.Message, pod.Status.Conditions[0].Message} {
		if strings.Contains(text, "0123456789abcdef") || strings.Contains(text, "\x1b") || !strings.Contains(text, "<secret>") {
			t.Errorf("it wrote %q", text)
		}
	}
}
