package workload

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodLog reads the log of a pod's container, at most so many bytes: the cluster's administrator controls what its API server answers.
func PodLog(
	ctx context.Context, cluster kubernetes.Interface, pod client.ObjectKey, most int64, options corev1.PodLogOptions,
) ([]byte, error) {
	options.LimitBytes = &most
	stream, err := cluster.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &options).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(io.LimitReader(stream, most))
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	return text, nil
}
