package envtest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
)

// TestAlarmStopsDrains: while etcd raises NOSPACE, the API server refuses every write of a drain. The rules rely on it: they delete no
// machine then that would be drained. What it accepts is the deletion of an object that goes at once.
func TestAlarmStopsDrains(t *testing.T) {
	needAssets(t)
	api := startFullServer(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	evict := func() error {
		return api.SubResource("eviction").Create(t.Context(), runningPod("evicted"), &policyv1.Eviction{})
	}
	for _, c := range []struct {
		name    string
		do      func() error
		refused bool
	}{
		{"cordon", func() error {
			return api.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))
		}, true},
		{"evict", evict, true},
		{"delete a pod", func() error { return api.Delete(t.Context(), runningPod("deleted")) }, true},
		{"delete a pod at once", func() error { return api.Delete(t.Context(), runningPod("killed"), client.GracePeriodSeconds(0)) }, true},
		{"delete a Node", func() error { return api.Delete(t.Context(), node) }, false},
	} {
		err := c.do()
		if refused := err != nil && strings.Contains(err.Error(), "database space exceeded"); refused != c.refused {
			t.Errorf("%s: refused for want of space: %t, want %t: %v", c.name, refused, c.refused, err)
		}
	}
}

// runningPod is a pod on the Node.
func runningPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{NodeName: "node", AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
}

// startFullServer starts an API server with a Node and pods, and fills its etcd until that raises NOSPACE.
func startFullServer(t *testing.T) client.Client {
	t.Helper()
	server := &ctrlenvtest.Environment{}
	server.ControlPlane.Etcd = &ctrlenvtest.Etcd{}
	server.ControlPlane.Etcd.Configure().Set("quota-backend-bytes", "16777216")
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, runningPod("evicted"), runningPod("deleted"),
		runningPod("killed")}
	for _, o := range objects {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if pod, is := o.(*corev1.Pod); is {
			pod.Status.Phase = corev1.PodRunning
			if err := api.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range 100 {
		noise := make([]byte, 400_000)
		_, _ = rand.Read(noise) // it never fails
		full := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("full-%d", n)},
			Data: map[string]string{"noise": hex.EncodeToString(noise)}}
		switch err := api.Create(t.Context(), full); {
		case err == nil:
		case strings.Contains(err.Error(), "database space exceeded"):
			return api
		default:
			t.Fatal(err)
		}
	}
	t.Fatal("80 MB went into a quota of 16 MB")
	return nil
}
