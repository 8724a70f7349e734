package provider

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/sandbox"
)

const (
	joinCommand = "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && echo success > /run/cluster-api/bootstrap-success.complete"
	unsigned    = `error: error execution phase preflight: couldn't validate the identity of the API Server: could not find a JWS signature ` +
		`in the cluster-info ConfigMap for token ID "abcdef"`
	noSystemd = `E1122 12:48:46.598352    1141 kubelet.go:1745] "Failed to start ContainerManager" err="systemd not running on this host, ` +
		`cannot use systemd cgroups manager"`
)

// TestMachinesThatCannotJoin: the condition says why, with the line that tells, and how others know that it is final.
func TestMachinesThatCannotJoin(t *testing.T) {
	failed := func(output string) sandbox.Bootstrap {
		return sandbox.Bootstrap{Phase: sandbox.BootstrapFailed, Command: joinCommand, Output: output, Ended: time.Now()}
	}
	full := failed("error: error execution phase kubelet-start")
	full.Full = "/var/lib/kubelet"
	succeeded := sandbox.Bootstrap{Phase: sandbox.BootstrapSucceeded, Ended: time.Now()}
	for _, test := range []struct {
		name      string
		bootstrap sandbox.Bootstrap
		kubelet   string
		node      string
		want      string
	}{
		{"a token", failed(unsigned + "\nTo see the stack trace of this error execute with --v=5 or higher"), "", "",
			`False TokenUnknown the cluster has no bootstrap token "abcdef"`},
		{"with its line", failed(unsigned + "\nTo see the stack trace"), "", "", `False TokenUnknown . The log says: ` + unsigned},
		{"what the kubelet says", failed("error: error execution phase kubelet-wait-bootstrap: failed"), noSystemd, "",
			"False CgroupDriverMismatch . The log says: " + noSystemd},
		{"a full disk", full, "", "", "False DiskFull nothing can be written to /var/lib/kubelet on the machine, which is full"},
		{"an unknown cause, verbosely", failed("error: error execution phase x: y\n" + strings.Repeat("k8s.io/kubernetes/cmd\n", 300)), "", "",
			"False BootstrapFailed ...` failed: error: error execution phase x: y"},
		{"the kubelet does not stay up", succeeded, noSystemd, "",
			"False CgroupDriverMismatch kubeadm has ended, and the kubelet ends again and again: the cgroup driver"},
		{"the kubelet does not stay up, and nobody knows why", succeeded, "E1 who knows", "", "True BootstrapSucceeded"},
		{"the kubelet of a machine that has joined", succeeded, noSystemd, "one", "True BootstrapSucceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, life("alpha", "one")...)
			s.bootstrapData("one", map[string]string{"value": "x"})
			s.machine("one")
			edit(s, "one", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = test.node })
			s.host.set("one", func(m *sandbox.Status) { m.Ready, m.Bootstrap, m.Kubelet = true, test.bootstrap, test.kubelet })
			lm := s.machine("one")
			want := strings.ReplaceAll(test.want, "...`", "bootstrap-success.complete`")
			wantCondition(t, lm, infrav1.BootstrapSucceededCondition, want)
			status, reason := "True", "Ready"
			if strings.HasPrefix(want, "False") {
				status, reason = "False", infrav1.BootstrapFailedReason+" "+strings.SplitN(want, " ", 3)[2]
			}
			wantCondition(t, lm, clusterv1.ReadyCondition, status+" "+reason)
		})
	}
}

// TestOutputIsTold: the end of what a command printed, from the beginning of a line on, and no secret that was cut in two.
func TestOutputIsTold(t *testing.T) {
	long := strings.Repeat("x ", longestOutput/2)
	for output, want := range map[string]string{
		"short":                "short",
		"first\n" + long[:100]: "first\n" + long[:100],
		long + "\nlast":        "last",
		long + "y":             long[1:] + "y",
		"abcdef.0123456789abcdef " + long[:longestOutput-10] + "\nlast": "last",
	} {
		if got := end(output); got != want {
			t.Errorf("%d bytes: %q, want %q", len(output), got, want)
		}
	}
}

// TestATokenThatExpired: it is told from one that was never made by what the cluster knew when the machine got it.
func TestATokenThatExpired(t *testing.T) {
	const expires = "2026-01-02T03:04:05Z"
	secret := func(id string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Data: data}
	}
	dated := map[string][]byte{"expiration": []byte(expires)}
	for _, test := range []struct {
		name   string
		data   string
		inside []client.Object
		silent bool
		id     string
		want   string
	}{
		{"known", "token: abcdef.0123456789abcdef", []client.Object{secret("abcdef", dated)}, false, "abcdef", "False TokenExpired until " +
			expires},
		{"known, and without an end", "token: abcdef.0123456789abcdef", []client.Object{secret("abcdef", nil)}, false, "abcdef",
			"False TokenUnknown was deleted"},
		{"never made", "token: abcdef.0123456789abcdef", nil, false, "", "False TokenUnknown never made"},
		{"another is known", "token: abcdef.0123456789abcdef", []client.Object{secret("zzzzzz", dated)}, false, "",
			"False TokenUnknown never made"},
		{"no token in the data", "runcmd: []", []client.Object{secret("abcdef", dated)}, false, "", "False TokenUnknown never made"},
		{"a cluster that does not answer", "token: abcdef.0123456789abcdef", []client.Object{secret("abcdef", dated)}, true, "",
			"False TokenUnknown never made"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, life("alpha", "one")...)
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			inside := fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.inside...).Build()
			s.machines.workload = func(context.Context, client.ObjectKey) (client.Client, error) {
				if test.silent {
					return nil, errors.New("it does not answer")
				}
				return inside, nil
			}
			s.machine("one")
			s.host.set("one", func(m *sandbox.Status) { m.Ready = true })
			s.bootstrapData("one", map[string]string{"value": test.data})
			if got := s.machine("one").Status.BootstrapToken.ID; got != test.id {
				t.Errorf("the token is %q, want %q", got, test.id)
			}
			if s.host.data["one"] != test.data {
				t.Fatalf("the machine was told %q", s.host.data)
			}
			s.host.set("one", func(m *sandbox.Status) {
				m.Bootstrap = sandbox.Bootstrap{Phase: sandbox.BootstrapFailed, Command: joinCommand, Output: unsigned, Ended: time.Now()}
			})
			wantCondition(t, s.machine("one"), infrav1.BootstrapSucceededCondition, test.want)
		})
	}
}
