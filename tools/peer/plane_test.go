//go:build e2e

package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serveClusterInfo lets machines reach the management plane, whose API server listens on this host's loopback alone: at an address of the
// machines' network, QUORATE_PEER_ADDRESS, connections are handed on to it. Where they do, the ConfigMap kube-public/cluster-info says,
// which kubeadm makes in a management cluster and in which the spec about remediation looks.
func serveClusterInfo(ctx context.Context) error {
	at, err := url.Parse(plane.GetRESTConfig().Host)
	if err != nil {
		return fmt.Errorf("reading the management plane's address: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(variable("QUORATE_PEER_ADDRESS"), "0"))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go handOn(ctx, from, at.Host)
		}
	}()
	kubeconfig, err := clientcmd.Write(api.Config{Clusters: map[string]*api.Cluster{"": {Server: "https://" + listener.Addr().String()}}})
	if err != nil {
		return err
	}
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data: map[string]string{"kubeconfig": string(kubeconfig)}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespacePublic}}
	for _, o := range []client.Object{namespace, info} {
		if err := plane.GetClient().Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("telling machines where the management plane is: %w", err)
		}
	}
	return nil
}

// handOn copies a connection both ways until one side ends.
func handOn(ctx context.Context, from net.Conn, address string) {
	defer func() { _ = from.Close() }()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() { _, _ = io.Copy(to, from) }()
	_, _ = io.Copy(from, to)
}
