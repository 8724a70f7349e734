package upgradepod

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// nodeRoot is where the pod that looks at a node's certificates has the node's files.
const nodeRoot = "/node"

// certificatesDeadline is how long such a pod may take, in seconds.
const certificatesDeadline = 60

// Certificates returns the pod that prints the public parts of a node's certificates and keys. It reads the node's files and writes
// nothing: they are mounted read-only, and of root's capabilities it has those that reading takes.
func Certificates(node, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "quorate-certificates-", Namespace: Namespace,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "quorate", "app.kubernetes.io/name": "quorate-certificates"},
		},
		Spec: corev1.PodSpec{
			NodeName: node,
			Containers: []corev1.Container{{
				Name: "certificates", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"certificates", nodeRoot},
				VolumeMounts: []corev1.VolumeMount{{Name: "node", MountPath: nodeRoot, ReadOnly: true}},
				SecurityContext: &corev1.SecurityContext{
					RunAsUser: ptr.To(int64(0)), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"SYS_CHROOT", "DAC_READ_SEARCH"}},
				},
			}},
			Volumes: []corev1.Volume{{Name: "node", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/", Type: ptr.To(corev1.HostPathDirectory)},
			}}},
			RestartPolicy:                 corev1.RestartPolicyNever,
			HostNetwork:                   true, // it needs no network, and waits for none
			DNSPolicy:                     corev1.DNSDefault,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
			ActiveDeadlineSeconds:         ptr.To(int64(certificatesDeadline)),
			EnableServiceLinks:            ptr.To(false),
			AutomountServiceAccountToken:  ptr.To(false),
		},
	}
}
