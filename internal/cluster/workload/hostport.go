package workload

import (
	"context"
	"fmt"
	"net"
	"strings"

	"k8s.io/client-go/rest"
)

// forwardToNode opens a connection to a port of a control plane's Node, through one of its static pods: all of them are
// in the Node's own network. Where etcd is external there is no etcd pod.
func (s *tunnels) forwardToNode(ctx context.Context, config *rest.Config, node string, port int) (net.Conn, error) {
	pod := EtcdPod(node)
	conn, err := s.forward(ctx, config, pod, port)
	// client-go keeps only the text of the API server's answer.
	if err != nil && strings.Contains(err.Error(), fmt.Sprintf("pods %q not found", pod)) {
		return s.forward(ctx, config, "kube-apiserver-"+node, port)
	}
	return conn, err
}

// EtcdPod is the name of the pod of etcd on a Node: the kubelet adds the Node's name to that of kubeadm's static pod.
func EtcdPod(node string) string { return "etcd-" + node }
