//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// worker: a worker joins through a MachineDeployment and runs a pod, which resolves kubernetes.default and
// reaches the Service through kube-proxy.
func worker(t *testing.T, e *environment) { e.workerReaches(t, "foxtrot") }

// workerReaches makes a cluster of one machine and a worker, of which a pod resolves a Service and reaches it.
func (e *environment) workerReaches(t *testing.T, name string, args ...string) {
	t.Helper()
	e.up(t, name, append(args, "--replicas", "1", "--workers", "1")...)
	c, cfg := e.workload(t, name)
	eventually(t, "two healthy nodes", patience, e.healthy(t, name, 2))
	pod := probe(imageOfProxy(t, c))
	ctx := context.Background()
	if _, err := c.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod on the worker resolved kubernetes.default and reached it", patience, func() string {
		p, err := c.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if p.Status.Phase == corev1.PodSucceeded {
			return ""
		}
		logs, err := c.CoreV1().Pods("default").GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		return fmt.Sprintf("pod is %s on %s: %s %v", p.Status.Phase, p.Spec.NodeName, logs, err)
	})
	if !strings.HasPrefix(cfg.Host, "https://") {
		t.Errorf("the endpoint is %s, want TLS", cfg.Host)
	}
	e.takeDown(t, name)
}

// imageOfProxy is an image that every node has: no registry can be reached here.
func imageOfProxy(t *testing.T, c kubernetes.Interface) string {
	t.Helper()
	ds, err := c.AppsV1().DaemonSets("kube-system").Get(context.Background(), "kube-proxy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ds.Spec.Template.Spec.Containers[0].Image
}

// probe is a pod whose one command is the machine's own shell, mounted from the node: it asks the cluster's
// DNS for kubernetes.default and opens a connection to the address it got.
func probe(image string) *corev1.Pod {
	script := `set -e; address=$(getent hosts kubernetes.default.svc.cluster.local | cut -d' ' -f1); echo "address $address"
exec 3<>/dev/tcp/$address/443; echo reached`
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: "default"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure,
			Containers: []corev1.Container{{
				Name: "probe", Image: image, ImagePullPolicy: corev1.PullNever,
				Command: []string{"/node/bin/bash", "-c", script},
				Env:     []corev1.EnvVar{{Name: "PATH", Value: "/node/bin"}},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "usr", MountPath: "/usr", ReadOnly: true}, {Name: "bin", MountPath: "/node/bin", ReadOnly: true},
					{Name: "lib", MountPath: "/lib", ReadOnly: true}, {Name: "lib64", MountPath: "/lib64", ReadOnly: true},
				},
			}},
			Volumes: []corev1.Volume{hostPath("usr", "/usr"), hostPath("bin", "/bin"), hostPath("lib", "/lib"), hostPath("lib64", "/lib64")},
		},
	}
}

func hostPath(name, path string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
}
