package upgradepod

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
)

// Namespace is where pods of upgrades run, in the managed cluster.
const Namespace = metav1.NamespaceSystem

// AttemptLabel on a pod is its number among the pods of its NodeUpgrade, from 1 on.
const AttemptLabel = "upgrade.cluster.x-k8s.io/attempt"

// nodeUpgradeAnnotation on what is made in the managed cluster names the NodeUpgrade, as namespace/name.
const nodeUpgradeAnnotation = "upgrade.cluster.x-k8s.io/nodeupgrade"

// most bytes of a pod's name that is its host name as well.
const longestName = 63

// Name is the name of all that is made in the managed cluster for a NodeUpgrade. What is too long for a pod ends in a hash.
func Name(u *upgradev1.NodeUpgrade) string {
	name := "quorate-upgrade-" + u.Name
	if len(name) <= longestName {
		return name
	}
	sum := fmt.Sprintf("-%x", sha256.Sum256([]byte(name)))[:9]
	return name[:longestName-len(sum)] + sum
}

// meta is the metadata of all that is made for a NodeUpgrade.
func meta(u *upgradev1.NodeUpgrade) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        Name(u),
		Namespace:   Namespace,
		Labels:      map[string]string{"app.kubernetes.io/managed-by": "quorate", "app.kubernetes.io/name": "quorate-upgrader"},
		Annotations: map[string]string{nodeUpgradeAnnotation: u.Namespace + "/" + u.Name},
	}
}

// Environment is what is known of a node and its cluster when a pod is made.
type Environment struct {
	// Node is the name of the Node, KubeletVersion the one it runs.
	Node, KubeletVersion string
	// SingleNode: the cluster has no other. StackedEtcd: a member of etcd runs on the node.
	SingleNode, StackedEtcd bool
	// Runtime is the node's container runtime with its version, as its Node says.
	Runtime string
	// Image is the upgrader's, Brings what it has beside the programs of Kubernetes.
	Image  string
	Brings steps.Brings
	// AwaitImages: the infrastructure provider brings the version's images to the node, and has not ended.
	AwaitImages bool
	// Patches is the folder on the node with kubeadm's patches; empty: there are none.
	Patches string
	// SkipPhases are kubeadm's phases that are left to others.
	SkipPhases []string
	// Files are the user's that the node is to have.
	Files []steps.File
	// NotDrained says why the node is not drained although its NodeUpgrade wants that; empty: it is, or need not be.
	NotDrained string
}

// Drain is how the node of a NodeUpgrade is drained, if it can be.
func Drain(u *upgradev1.NodeUpgrade) (steps.DrainPolicy, time.Duration) {
	policy := steps.DrainPolicy(u.Spec.Drain.Policy)
	if policy == "" && u.Spec.NodeType == upgradev1.Worker {
		policy = steps.DrainBestEffort
	}
	return policy, time.Duration(ptr.Deref(u.Spec.Drain.TimeoutSeconds, steps.DefaultDrainTimeout)) * time.Second
}

// Wanted is what the steps of an attempt are told.
func Wanted(u *upgradev1.NodeUpgrade, e Environment, attempt int32) steps.Wanted {
	w := steps.Wanted{
		ID:                   ID(u),
		Attempt:              attempt,
		Node:                 e.Node,
		Pod:                  Name(u),
		Type:                 steps.NodeType(u.Spec.NodeType),
		KubernetesVersion:    u.Spec.KubernetesVersion,
		EtcdVersion:          u.Spec.EtcdVersion,
		First:                ptr.Deref(u.Spec.FirstNodeToBeUpgraded, false) && u.Spec.NodeType == upgradev1.ControlPlane,
		SingleNode:           e.SingleNode,
		StackedEtcd:          e.StackedEtcd,
		DrainTimeoutSeconds:  ptr.Deref(u.Spec.Drain.TimeoutSeconds, 0),
		VerifyTimeoutSeconds: ptr.Deref(u.Spec.VerifyTimeoutSeconds, 0),
	}
	w.Files, w.Patches, w.Brings, w.AwaitImages, w.SkipPhases = e.Files, e.Patches, e.Brings, e.AwaitImages, e.SkipPhases
	w.Kubelet.RemovedArgs = u.Spec.Kubelet.RemovedArgs
	for _, argument := range u.Spec.Kubelet.ExtraArgs {
		w.Kubelet.ExtraArgs = append(w.Kubelet.ExtraArgs, steps.Argument{Name: argument.Name, Value: ptr.Deref(argument.Value, "")})
	}
	if w.Drain, _ = Drain(u); e.NotDrained != "" {
		w.Drain = steps.DrainNever
	}
	return w
}

// deadline is how long a pod may take before the kubelet ends it, beside what the steps may wait for, in seconds: a step that hangs
// is begun again. Images of several hundred MB may have to be pulled.
const deadline = 1800

// Pod returns the pod of an attempt: an init container for each stage of the steps, and the last stage as its container. Nothing of it is
// restarted by the kubelet: each cut is seen, and followed by another pod.
func Pod(u *upgradev1.NodeUpgrade, wanted steps.Wanted, list []steps.Step, image string) (*corev1.Pod, error) {
	spec, err := json.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("writing what the steps of NodeUpgrade %s are told: %w", u.Name, err)
	}
	var containers []corev1.Container
	for _, stage := range steps.Stages(list) {
		var args []string
		for _, s := range stage {
			args = append(args, s.Name.Command())
		}
		if required := wanted.Requires(); len(required) > 0 {
			args = append(args, "--requires="+strings.Join(required, ","))
		}
		containers = append(containers, corev1.Container{
			Name:                     string(stage[0].Stage),
			Image:                    image,
			ImagePullPolicy:          corev1.PullIfNotPresent,
			Args:                     append(args, "--spec="+string(spec)),
			SecurityContext:          &corev1.SecurityContext{Privileged: ptr.To(true)},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		})
	}
	if len(containers) == 0 {
		return nil, fmt.Errorf("NodeUpgrade %s has no steps", u.Name)
	}
	last := len(containers) - 1
	waits := max(int64(wanted.DrainTimeoutSeconds), steps.DefaultDrainTimeout) + 2*max(int64(wanted.VerifyTimeoutSeconds),
		steps.DefaultVerifyTimeout)
	pod := &corev1.Pod{ObjectMeta: meta(u), Spec: corev1.PodSpec{
		NodeName:                      wanted.Node,
		InitContainers:                containers[:last],
		Containers:                    containers[last:],
		RestartPolicy:                 corev1.RestartPolicyNever,
		HostPID:                       true,
		HostNetwork:                   true,
		DNSPolicy:                     corev1.DNSDefault,
		PriorityClassName:             "system-node-critical",
		Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		TerminationGracePeriodSeconds: ptr.To(int64(5)),
		ActiveDeadlineSeconds:         ptr.To(deadline + waits),
		EnableServiceLinks:            ptr.To(false),
		// The steps have the node's own credentials, which the API server binds to the node.
		AutomountServiceAccountToken: ptr.To(false),
	}}
	if len(wanted.Files) > 0 {
		mountFiles(u, pod)
	}
	pod.Labels[AttemptLabel] = strconv.Itoa(int(wanted.Attempt))
	return pod, nil
}

// filesVolume is the volume with what files are to hold.
const filesVolume = "files"

// mountFiles has the stage in which files are staged read what they are to hold. No other sees it.
func mountFiles(u *upgradev1.NodeUpgrade, pod *corev1.Pod) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: filesVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: Name(u), DefaultMode: ptr.To(int32(0o400))},
	}})
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if slices.Contains(containers[i].Args, steps.Backup.Command()) {
				containers[i].VolumeMounts = []corev1.VolumeMount{{Name: filesVolume, MountPath: steps.FilesDir, ReadOnly: true}}
			}
		}
	}
}

// Files is the secret with what the files of an upgrade are to hold, in the order of steps.Wanted.Files; nil: there are none.
func Files(u *upgradev1.NodeUpgrade, contents [][]byte) *corev1.Secret {
	if len(contents) == 0 {
		return nil
	}
	held := &corev1.Secret{ObjectMeta: meta(u), Immutable: ptr.To(true), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
	for i, content := range contents {
		held.Data[steps.FileKey(i)] = content
	}
	return held
}
