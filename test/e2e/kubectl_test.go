//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/local/embed"
)

// kubectlAfterUpgrade: once v1.36.3 has become v1.37.2, kubectl logs, exec and port-forward work on every node. The certificates with which
// API servers ask kubelets are of the newer kubeadm, and what they may do was bound by none of the machines, which all joined.
//
//quorate:shows kubernetes replaced older>newer
func kubectlAfterUpgrade(t *testing.T, e *environment) {
	const name = "yankee"
	e.up(t, name, "--replicas", "3", "--kubernetes-version", older)
	before := e.machines(t, name)
	e.kubectlWorks(t, name)
	e.up(t, name, "--kubernetes-version", newer)
	e.replaced(t, name, before)
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	e.kubectlWorks(t, name)
	e.takeDown(t, name)
}

// kubectlWorks asks every node's kubelet through the API servers, as a user does, by every way there is.
func (e *environment) kubectlWorks(t *testing.T, name string) {
	t.Helper()
	c, _ := e.workload(t, name)
	pods, err := c.CoreV1().Pods("kube-system").List(context.Background(), listAll)
	if err != nil {
		t.Fatal(err)
	}
	machines := e.machines(t, name)
	nodes, asked := map[string]bool{}, 0
	for _, p := range pods.Items {
		if !slices.Contains(machines, p.Spec.NodeName) {
			continue // of a machine that is gone; its pods are soon
		}
		nodes[p.Spec.NodeName] = true
		kubectl := func(args ...string) string {
			t.Helper()
			out, err := e.try(append([]string{"kubectl", name, "--", "-n", "kube-system"}, args...)...)
			if err == nil {
				return out
			}
			// What an update of the add-ons replaced meanwhile says nothing.
			if is, gone := c.CoreV1().Pods("kube-system").Get(context.Background(), p.Name, metav1.GetOptions{}); !apierrors.IsNotFound(gone) &&
				(gone != nil || is.DeletionTimestamp.IsZero()) {
				t.Error(err)
			}
			return out
		}
		asked++
		if out := kubectl("logs", p.Name, "--tail", "5"); out == "" && strings.HasPrefix(p.Name, "kube-apiserver-") {
			t.Errorf("%s has no log", p.Name)
		}
		switch {
		case strings.HasPrefix(p.Name, "etcd-"):
			if out := kubectl("exec", p.Name, "--", "etcd", "--version"); !strings.Contains(out, "etcd Version") {
				t.Errorf("exec in %s says %q", p.Name, out)
			}
		case strings.HasPrefix(p.Name, "kube-apiserver-"):
			e.forwards(t, name, p.Name, "6443")
		}
	}
	t.Logf("asked for the logs of %d pods on %d nodes", asked, len(nodes))
	if len(nodes) != len(machines) {
		t.Errorf("the pods are on the nodes %v, the machines are %v", nodes, machines)
	}
}

// forwards expects that kubectl port-forward reaches whoever speaks TLS at a pod's port.
func (e *environment) forwards(t *testing.T, name, pod, port string) {
	t.Helper()
	env, err := embed.Load(e.state)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(e.quorate(t, "kubeconfig", name)), 0o600); err != nil {
		t.Fatal(err)
	}
	local := freePort(t)
	var said bytes.Buffer
	kubectl := exec.Command(filepath.Join(env.Artifacts.Management, "kubectl"), "--kubeconfig", kubeconfig, "-n", "kube-system",
		"port-forward", "pod/"+pod, local+":"+port)
	kubectl.Stdout, kubectl.Stderr = &said, &said
	if err := kubectl.Start(); err != nil {
		t.Fatal(err)
	}
	var why error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if why = handshake("127.0.0.1:" + local); why == nil {
			break
		}
	}
	_ = kubectl.Process.Kill()
	_ = kubectl.Wait()
	if why != nil {
		t.Errorf("port %s of %s is not reached through kubectl port-forward: %v: %s", port, pod, why, said.String())
	}
}

// handshake expects somebody who speaks TLS.
func handshake(address string) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 3 * time.Second}, "tcp", address,
		&tls.Config{InsecureSkipVerify: true}) // who it is has no part in it
	if err != nil {
		return err
	}
	if len(conn.ConnectionState().PeerCertificates) == 0 {
		err = errors.New("no certificate")
	}
	return errors.Join(err, conn.Close())
}

// forwardOnly: etcd's members are reached by port-forwards alone. A rollout, a deletion and scaling go on as ever, and permissions that
// were lost, without which no member is reached, are made again; no connection is made to a machine's etcd.
func forwardOnly(t *testing.T, e *environment) {
	const name = "zulu"
	t.Setenv("QUORATE_ETCD_FORWARD_ONLY", "true")
	e.restartDaemon(t)
	t.Cleanup(func() { e.restartDaemon(t) }) // without the variable, which is unset after this test
	e.up(t, name, "--replicas", "3")
	ctx, stop := context.WithCancel(context.Background())
	direct := e.watchEtcdConnections(ctx)
	before := e.machines(t, name)
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
	})
	e.replaced(t, name, before)
	e.permissionsReturn(t, name)

	leader := e.leader(t, e.machines(t, name))
	deleteMachine(t, e, leader)
	eventually(t, "another machine in place of the leader's", patience, func() string {
		if slices.Contains(e.machines(t, name), leader) {
			return e.controlPlane(t, name).Status.Plan.Message
		}
		return e.quorumOf(t, name, 3)()
	})
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	e.kubectlWorks(t, name)
	e.up(t, name, "--replicas", "1")
	eventually(t, "one voter", patience, e.quorumOf(t, name, 1))
	stop()
	if seen := <-direct; len(seen) > 0 {
		t.Errorf("connections to machines' etcd: %v", seen)
	}
	e.takeDown(t, name)
}

// permissionsReturn takes away what lets the API servers forward ports, in a cluster that is at rest, and has the daemon begin again:
// nothing is seen of etcd then until that is mended.
func (e *environment) permissionsReturn(t *testing.T, name string) {
	t.Helper()
	const lost = "kubeadm:apiserver-kubelet-client"
	c, _ := e.workload(t, name)
	if err := c.RbacV1().ClusterRoleBindings().Delete(context.Background(), lost, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.restartDaemon(t)
	took := e.up(t, name, "--replicas", "3")
	t.Logf("FIGURE port-forwards forbidden to healthy again, the daemon's start included: %.1f s", took.Seconds())
	// Kubelets remember for minutes what was permitted: where they do, all is healthy before anybody looks for the binding.
	eventually(t, "the permission is there again", patience, func() string {
		if _, err := c.RbacV1().ClusterRoleBindings().Get(context.Background(), lost, metav1.GetOptions{}); err != nil {
			return fmt.Sprintf("%v: %+v", err, e.controlPlane(t, name).Status.Plan)
		}
		return ""
	})
}

// restartDaemon ends the daemon, if there is one, so that the next command starts it in today's environment.
func (e *environment) restartDaemon(t *testing.T) {
	t.Helper()
	if _, running := embed.Running(e.state); running {
		killDaemon(t, e)
	}
}

// watchEtcdConnections yields, once ctx has ended, to which addresses of machines the daemon had connections at etcd's port. The
// command line looks for itself while it waits, by both ways.
func (e *environment) watchEtcdConnections(ctx context.Context) <-chan []string {
	result := make(chan []string, 1)
	go func() {
		seen, sees := map[string]bool{}, false
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			for _, remote := range e.daemonConnections() {
				sees = sees || strings.HasPrefix(remote, e.address("")) && strings.HasSuffix(remote, ":6443")
				if strings.HasPrefix(remote, e.address("")) && strings.HasSuffix(remote, ":2379") {
					seen[remote] = true
				}
			}
		}
		var all []string
		for remote := range seen {
			all = append(all, remote)
		}
		if !sees {
			all = append(all, "none even to an API server: this sees nothing")
		}
		result <- all
	}()
	return result
}

// daemonConnections are the remote addresses of the daemon's TCP connections over IPv4.
func (e *environment) daemonConnections() []string {
	pid, running := embed.Running(e.state)
	if !running {
		return nil
	}
	folder := fmt.Sprintf("/proc/%d/", pid)
	open, _ := os.ReadDir(folder + "fd") // a daemon that has just ended has no connections
	sockets := map[string]bool{}
	for _, f := range open {
		if target, err := os.Readlink(folder + "fd/" + f.Name()); err == nil {
			sockets[target] = true
		}
	}
	text, _ := os.ReadFile(folder + "net/tcp")
	var all []string
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		var ip, port uint32
		if len(f) < 10 || !sockets["socket:["+f[9]+"]"] {
			continue
		}
		if _, err := fmt.Sscanf(f[2], "%08X:%04X", &ip, &port); err == nil {
			all = append(all, fmt.Sprintf("%d.%d.%d.%d:%d", byte(ip), byte(ip>>8), byte(ip>>16), byte(ip>>24), port))
		}
	}
	return all
}
