package joinfailure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ended is when the attempts of testdata ended, roughly.
var ended = time.Date(2026, 11, 22, 12, 46, 0, 0, time.UTC)

// realLog is a file of testdata: what kubeadm v1.35.4 or v1.36.3, its kubelet and containerd printed on a machine that could not join.
// Lines that begin with # and a word are about it: command (join if missing), when it ended, part of the message, the reason, where the
// kubelet's log begins. Without a reason that is known the cause must stay unknown.
type realLog struct {
	says   string
	reason Reason
	log    string
	facts  Facts
}

func readLog(t *testing.T, file string) realLog {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), "\n# reason: ")
	reason, log, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("no reason")
	}
	r := realLog{reason: Reason(reason), log: log,
		facts: Facts{Command: join, Ended: ended, Token: Token{ID: "nnjdjq", Expires: ended.Add(-time.Minute)}}}
	if reason == "Unknown" {
		r.reason = Unknown
	}
	for _, line := range strings.Split(head, "\n") {
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "# "), ": ")
		switch name {
		case "command":
			r.facts.Command = strings.Replace(join, "join", value, 1)
		case "ended":
			r.facts.Token = Token{}
			if r.facts.Ended, err = time.Parse(time.RFC3339, value); err != nil {
				t.Fatal(err)
			}
		case "says":
			r.says = value
		}
	}
	kubeadms, kubelets, both := strings.Cut(log, "# kubelet\n")
	if both && kubeadms == "" {
		r.facts.Command = ""
	}
	r.facts.Log, r.facts.Kubelet = kubeadms, Errors(kubelets)
	return r
}

// TestRealLogs: of each real log the right cause is told, or none.
func TestRealLogs(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	told, unknown, wrong := map[Reason]int{}, 0, 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			r := readLog(t, file)
			got := Of(r.facts)
			if got.Reason != r.reason || (got.Message == "") != (r.reason == Unknown) || !strings.Contains(got.Message, r.says) {
				wrong++
				t.Fatalf("%+v, want %q and %q in the message", got, r.reason, r.says)
			}
			for _, part := range strings.Split(strings.TrimSuffix(got.Line, "..."), "<secret>") {
				if part == "" && r.facts.Command != "" || !strings.Contains(r.log, strings.TrimSpace(part)) {
					t.Errorf("the line %q is none of the log's", got.Line)
				}
			}
			if told[got.Reason]++; got.Reason == Unknown {
				unknown++
			}
		})
	}
	t.Logf("FIGURE real logs: %d; causes told %d, rightly none %d, wrong %d; %v", len(files), len(files)-unknown-wrong, unknown, wrong, told)
	for _, r := range all {
		if told[r] == 0 {
			t.Errorf("no real log of %s", r)
		}
	}
}

// TestImagePull: what a registry answers says nothing about the cluster's authority, token or clock (Juniper/nita#39,
// kubernetes/registry.k8s.io#262, containerd/containerd#4862).
func TestImagePull(t *testing.T) {
	const image, at = "my.registry:8444/kube-apiserver:v1.36.3", "https://my.registry:8444/v2/kube-apiserver/manifests/v1.36.3"
	for why, says := range map[string]string{
		`failed to do request: Head "` + at +
			`": tls: failed to verify certificate: x509: certificate signed by unknown authority`: "does not trust",
		`unexpected status from HEAD request to ` + at +
			`: 401 Unauthorized`: "refuses the machine's credentials",
		`failed to authorize: failed to fetch anonymous token: unexpected status from GET request to ` +
			`https://my.registry:8444/token?scope=repository: 401 Unauthorized`: "refuses the machine's credentials",
		`failed to do request: Head "` + at + `": tls: failed to verify certificate: x509: certificate has expired or is not yet valid: ` +
			`current time 2026-11-22T12:45:50Z is after 2026-11-01T00:00:00Z`: "not valid",
	} {
		log := "[preflight] Some fatal errors occurred:\n\t[ERROR ImagePull]: failed to pull image " + image + ": failed to pull image " + image +
			": rpc error: code = Unknown desc = " +
			`failed to pull and unpack image "` + image + `": failed to resolve reference "` + image + `": ` + why +
			"\nerror: error execution phase preflight: preflight checks failed" + hint
		for _, command := range []string{join, strings.Replace(join, "join", "init", 1)} {
			got := Of(Facts{Command: command, Log: log, Ended: ended})
			if got.Reason != ImageUnavailable || !strings.Contains(got.Message, image+": registry my.registry:8444 ") ||
				!strings.Contains(got.Message, says) {
				t.Errorf("%s: %+v", why, got)
			}
		}
	}
}

// TestOtherSubjects: the words of a cause in a line about something else tell nothing.
func TestOtherSubjects(t *testing.T) {
	const waiting = "error: error execution phase kubelet-wait-bootstrap: failed while waiting for TLS bootstrap: context deadline exceeded" +
		hint
	const x509 = "tls: failed to verify certificate: x509: certificate "
	for _, line := range []string{
		`cannot create certificate signing request: Internal error occurred: failed calling webhook "a.b.c": failed to call webhook: Post ` +
			`"https://w.ns.svc:443/apis/b/v1?timeout=10s": ` + x509 + `has expired or is not yet valid`,
		`Internal error occurred: failed calling webhook "a.b.c": failed to call webhook: Post "https://w.ns.svc:443/api/x": dial tcp ` +
			`10.96.0.9:443: connect: connection refused`,
		`Internal error occurred: failed calling webhook "a.b.c": write /data/x: no space left on device`,
		`Get "https://172.29.0.10:6443/api/v1/nodes": proxyconnect tcp: dial tcp 10.0.0.9:3128: i/o timeout`,
		`Get "https://10.0.0.5:2379/version": ` + x509 + `signed by unknown authority`,
		`Head "https://my.registry/v2/pause/manifests/3.10": ` + x509 + `has expired or is not yet valid`,
		`"Failed to start cAdvisor" err="inotify_add_watch /sys/fs/cgroup/kubepods: no space left on device"`,
		`"Failed to create sandbox" err="mkdir /sys/fs/cgroup/memory/kubepods/x: no space left on device"`,
		`couldn't get credentials from plugin: Unauthorized`,
		`"Failed to pull image" err="failed to pull and unpack image \"r.example/cni:1\": failed to authorize: failed to fetch oauth token: ` +
			`401 Unauthorized" image="r.example/cni:1"`,
		`"Failed to pull image" err="failed to pull and unpack image \"r.example/cni:1\": Head \"https://r.example/v2/cni/manifests/1\": dial ` +
			`tcp: i/o timeout" image="r.example/cni:1"`,
	} {
		for _, f := range []Facts{{Command: join, Log: waiting, Kubelet: "E1127 " + line}, {Kubelet: "E1127 " + line},
			{Command: join, Log: strings.Replace(waiting, "kubelet-wait", "x", 1), Kubelet: "E1127 " + line}} {
			if got := Of(f); got.Reason != Unknown {
				t.Errorf("%s: %+v", line, got)
			}
		}
	}
}

const (
	join      = "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && echo success > /run/cluster-api/bootstrap-success.complete"
	discovery = "error: error execution phase preflight: couldn't validate the identity of the API Server: "
	info      = `Get "https://172.29.0.10:6443/api/v1/namespaces/kube-public/configmaps/cluster-info?timeout=10s": `
	unsigned  = discovery + `could not find a JWS signature in the cluster-info ConfigMap for token ID "abcdef"`
	trace     = "\nk8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow.(*Runner).Run.func1\n" +
		"\t/root/go/pkg/mod/k8s.io/kubernetes@v1.35.4/cmd/kubeadm/app/cmd/phases/workflow/runner.go:262\n"
	hint    = "\nTo see the stack trace of this error execute with --v=5 or higher\n"
	control = "error: error execution phase wait-control-plane: failed while waiting for the control plane to start: kube-apiserver " +
		"check failed" + hint
	unhealthy = "[kubelet-check] The kubelet is not healthy after 1m0.5s\n\nUnfortunately, an error has occurred, likely caused by:\n" +
		"\t- The kubelet is not running\n\t- The kubelet is unhealthy due to a misconfiguration of the node in some way (required cgroups " +
		"disabled)\n\n" +
		`error: error execution phase kubelet-wait-bootstrap: failed while waiting for the kubelet to start: The HTTP call equal to 'curl -sSL ` +
		`http://127.0.0.1:10248/healthz' returned error: Get "http://127.0.0.1:10248/healthz": context deadline exceeded` + hint
)

func TestOf(t *testing.T) {
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	known := Token{ID: "abcdef", Expires: at("2026-11-22T12:40:00Z")}
	expired := "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-11-22T12:45:50Z is " +
		"after 2026-11-01T00:00:00Z"
	for _, test := range []struct {
		name     string
		facts    Facts
		reason   Reason
		says, at string // part of the message, and of the line
	}{
		{"nothing is known", Facts{}, Unknown, "", ""},
		{"another command failed", Facts{Command: "curl x", Log: "curl: (6) Could not resolve host: example.com\n"}, Unknown, "", ""},
		{"another command has kubeadm's words",
			Facts{Command: "kubectl get x", Log: "error: You must be logged in to the server (Unauthorized)\n"}, Unknown, "", ""},
		{"another command, beside a kubelet", Facts{Command: "true x", Log: "error: x", Kubelet: "E1 Unauthorized"}, Unknown, "", ""},
		{"another command finds the disk full", Facts{Command: "write_files", Log: "writing /x: no space left on device"}, DiskFull, "a disk",
			"writing /x"},
		{"an error of no known cause", Facts{Log: "error: error execution phase preflight: preflight checks failed" + hint}, Unknown, "",
			"preflight checks failed"},
		{"no image can be had", Facts{Log: `	[ERROR ImagePull]: failed to pull image registry.k8s.io/etcd: Head ` +
			`"https://registry.k8s.io/v2/etcd/manifests/3.6": dial tcp: lookup registry.k8s.io: i/o timeout` +
			"\nerror: error execution phase preflight: preflight checks failed" + hint}, ImageUnavailable,
			"registry registry.k8s.io has a name that the machine cannot resolve", "lookup registry.k8s.io"},
		{"an image beside a version", Facts{Log: "	[ERROR ImagePull]: failed to pull image r.example/etcd:1: 401 Unauthorized\n	[ERROR " +
			"KubeletVersion]: Kubelet version \"1.20.0\" is lower than kubeadm can support\n" +
			"error: error execution phase preflight: preflight checks failed" + hint}, VersionSkew, "", "KubeletVersion"},
		{"a runtime that does not answer", Facts{Log: `	[ERROR ImagePull]: failed to pull image r.example/etcd:1: rpc error: code = ` +
			`Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: ` +
			`connection refused"` +
			"\nerror: error execution phase preflight: preflight checks failed" + hint}, Unknown, "", "dial unix"},
		{"a static pod's image", Facts{Log: control, Kubelet: `E1 err="failed to pull and unpack image \"r.example/etcd:1\": failed to resolve ` +
			`image: r.example/etcd:1: not found" image="r.example/etcd:1"`},
			ImageUnavailable, "registry r.example does not have it", "etcd:1"},
		{"another pod's image", Facts{Log: control, Kubelet: `E1 err="failed to pull and unpack image \"r.example/cni:1\": failed to resolve ` +
			`image: r.example/cni:1: not found" image="r.example/cni:1"`}, Unknown, "", "control plane"},
		{"another secret", Facts{Log: discovery + "failed to verify JWS signature of received cluster info object, can't trust this API Server" +
			hint, Token: known, Ended: ended},
			TokenUnknown, "another secret", "JWS signature"},
		{"a token that nobody saw", Facts{Log: unsigned, Ended: ended}, TokenUnknown, `no bootstrap token "abcdef"`, "abcdef"},
		{"another token was seen", Facts{Log: unsigned, Ended: ended, Token: Token{ID: "zzzzzz", Expires: known.Expires}}, TokenUnknown,
			`"abcdef"`, "abcdef"},
		{"a token that was deleted", Facts{Log: unsigned, Ended: ended, Token: Token{ID: "abcdef", Expires: ended.Add(time.Hour)}}, TokenUnknown,
			"was deleted", "abcdef"},
		{"a token without an end that is gone", Facts{Log: unsigned, Ended: ended, Token: Token{ID: "abcdef"}}, TokenUnknown, "was deleted",
			"abcdef"},
		{"a token that expired", Facts{Log: unsigned, Ended: ended, Token: known}, TokenExpired, "until 2026-11-22T12:40:00Z", "abcdef"},
		{"it ended as the token did", Facts{Log: unsigned, Ended: known.Expires, Token: known}, TokenExpired, "", ""},
		{"it expired after discovery", Facts{Log: unhealthy, Kubelet: `E1122 12:45:00.1 1 run.go:72] "command failed" err="failed to run ` +
			`Kubelet: cannot create certificate signing request: Unauthorized"`, Token: known, Ended: ended},
			TokenExpired, `"abcdef"`, "Unauthorized"},
		{"refused", Facts{Log: discovery + "failed to request the cluster-info ConfigMap: " + info +
			"dial tcp 172.29.0.10:6443: connect: connection refused" + hint}, EndpointUnreachable, "does not answer", "connection refused"},
		{"no answer to a name", Facts{Log: discovery + info + "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"},
			EndpointUnreachable, "", "deadline"},
		{"with a stack trace", Facts{Log: "I1122 12:47:58.484495 68 token.go:236] [discovery] Retrying\n" + discovery + info +
			"dial tcp: no route to host" + strings.Repeat(trace, 20)},
			EndpointUnreachable, "", "no route to host"},
		{"an old configuration", Facts{Log: `error: your configuration file uses an old API spec: "kubeadm.k8s.io/v1beta2" (kind: ` +
			`"JoinConfiguration"). Please use kubeadm v1.22 instead` + hint}, VersionSkew, "version", "v1beta2"},
		{"a new configuration", Facts{Log: `error: no kind "JoinConfiguration" is registered for version "kubeadm.k8s.io/v1beta9" in scheme ` +
			`"pkg/runtime/scheme.go:111"` + hint}, VersionSkew, "", "v1beta9"},
		{"a check that failed", Facts{Log: "[preflight] Some fatal errors occurred:\n\t[ERROR KubeletVersion]: Kubelet version \"1.20.0\" is " +
			"lower than kubeadm can support. Please upgrade kubelet\n" +
			"error: error execution phase preflight: preflight checks failed" + hint}, VersionSkew, "", "KubeletVersion"},
		{"another authority", Facts{Log: discovery + info + "tls: failed to verify certificate: x509: certificate signed by unknown authority" +
			hint}, CAHashMismatch, "trust", "unknown authority"},
		{"the certificate expired", Facts{Log: discovery + info + expired + hint, Ended: ended}, CertificateExpired,
			"expired at 2026-11-01T00:00:00Z", "is after"},
		{"the clock is ahead", Facts{Log: discovery + info + expired + hint, Ended: at("2026-10-31T12:45:50Z")}, ClockSkew, "528h0m0s ahead",
			"is after"},
		{"the clock is behind", Facts{Log: discovery + info + strings.Replace(expired, "after 2026-11-01", "before 2026-11-23", 1) + hint,
			Ended: at("2026-11-24T12:45:50Z")}, ClockSkew, "48h0m0s behind", "is before"},
		{"a clock is behind", Facts{Log: discovery + info + strings.Replace(expired, "after 2026-11-01", "before 2026-11-23", 1) + hint,
			Ended: ended}, ClockSkew, "only 11h14m0s after", "is before"},
		{"no times are told", Facts{Log: discovery + info + "x509: certificate has expired or is not yet valid", Ended: ended}, ClockSkew, "NTP",
			"x509"},
		{"times that are none",
			Facts{Log: discovery + info + "x509: certificate has expired or is not yet valid: current time now is before then", Ended: ended},
			ClockSkew, "NTP", "x509"},
		{"the kubelet tells", Facts{Log: unhealthy, Kubelet: `E1122 12:45:00.1 1 kubelet.go:1] "x" err="write /var/lib/kubelet/x: no space ` +
			`left on device"`}, DiskFull, "a disk", "no space left"},
		{"only the disk tells", Facts{Log: unhealthy, Full: "/var/lib/kubelet"}, DiskFull, "/var/lib/kubelet", ""},
		{"the kubelet is not healthy", Facts{Log: unhealthy}, Unknown, "", "failed while waiting for the kubelet"},
		{"pods that cannot start", Facts{Kubelet: `E1 err="runc create failed: expected cgroupsPath to be of format \"slice:prefix:name\" for ` +
			`systemd cgroups, got \"/kubepods/besteffort\" instead"`}, Unknown, "", ""},
		{"pods that cannot start, runc's words", Facts{Kubelet: `runc create failed: expected cgroupsPath to be of format "slice:prefix:name" ` +
			`for systemd cgroups, got "/k8s.io" instead`}, CgroupDriverMismatch, "SystemdCgroup", "slice"},
		{"an error of the moment",
			Facts{Log: "W1 retrying: " + info +
				"dial tcp: i/o timeout\nerror: error execution phase etcd-join: etcdserver: too many learner members" + hint},
			Unknown, "", "too many learner members"},
		{"the kubelet's error of the moment", Facts{Log: "error: error execution phase etcd-join: etcdserver: too many learner members" + hint,
			Kubelet: "E1 err=" + info + "dial tcp: i/o timeout"},
			Unknown, "", "too many learner members"},
		{"what keeps the kubelet from starting etcd", Facts{Log: "error: error execution phase etcd-join: etcdserver: not promoted" + hint,
			Kubelet: "E1 systemd not running on this host, cannot use systemd cgroups manager"},
			CgroupDriverMismatch, "", "systemd"},
		{"the kubelet cannot reach the cluster", Facts{Log: "error: error execution phase kubelet-wait-bootstrap: failed while waiting for TLS " +
			"bootstrap: timed out" + hint, Kubelet: "E1 err=" + info + "dial tcp: i/o timeout"},
			EndpointUnreachable, "", "i/o timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.facts.Log != "" && test.facts.Command == "" {
				test.facts.Command = join
			}
			got := Of(test.facts)
			if got.Reason != test.reason || !strings.Contains(got.Message, test.says) || !strings.Contains(got.Line, test.at) ||
				(got.Message == "") != (test.reason == Unknown) {
				t.Errorf("%+v, want %s, %q in the message, %q in the line", got, test.reason, test.says, test.at)
			}
		})
	}
}

// TestNoSecrets: whoever may read a condition learns no token or key from the line.
func TestNoSecrets(t *testing.T) {
	secrets := []string{"0123456789abcdef", "deadbeefdeadbeef", "s3cr3t", "MHcCAQEE", "eyJhbGciOiJSUzI1NiJ9"}
	for _, with := range []string{
		"--token abcdef.0123456789abcdef", "token abcdef.0123456789abcdef", "--certificate-key deadbeefdeadbeef", "Authorization: Bearer s3cr3t",
		"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrIn0.c2lnbmF0dXJl", "-----BEGIN EC PRIVATE KEY----- MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04f",
		strings.Repeat("x", longestLine-14) + " abcdef.0123456789abcdef",
	} {
		for _, f := range []Facts{
			{Command: join, Log: "error: no space left on device " + with}, {Command: join, Log: "error: nobody knows " + with},
			{Kubelet: "E1 cannot create certificate signing request: Unauthorized " + with},
			{Command: join, Log: discovery + info + "dial tcp: i/o timeout " + with},
			{Command: "x", Log: "No space left on device " + with},
		} {
			got := Of(f)
			if got.Line == "" {
				t.Errorf("%+v: no line", f)
			}
			for _, s := range secrets {
				if strings.Contains(got.Line+got.Message, s) {
					t.Errorf("%q tells %q", got.Line+got.Message, s)
				}
			}
			if len(got.Line) > longestLine+len(" ...") {
				t.Errorf("a line of %d bytes", len(got.Line))
			}
		}
	}
}

func TestErrors(t *testing.T) {
	log := "I1122 12:47:08.1 1 a.go:1] fine\nE1122 12:47:08.2 1 a.go:2] one\nW1122 12:47:08.3 1 a.go:3] hm\nF1122 12:47:08.4 1 a.go:4] " +
		"two\nquorate-node: kubelet ended: exit code 1\n"
	if got, want := Errors(log),
		"E1122 12:47:08.2 1 a.go:2] one\nF1122 12:47:08.4 1 a.go:4] two\nquorate-node: kubelet ended: exit code 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var many strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&many, "E1122 a%d\n", i)
	}
	if got := Errors(many.String() + "E1122 last"); len(got) > mostErrors || len(got) < mostErrors-10 ||
		!strings.HasSuffix(got, "\nE1122 last") || !strings.HasPrefix(got, "E1122 a9") {
		t.Errorf("%d bytes, %q", len(got), got[:40])
	}
	many.Reset()
	for i := range 10000 {
		fmt.Fprintf(&many, "E1127 09:13:25.%06d    3606 kubelet.go:3516] \"Unable to register mirror pod\"\n", i)
	}
	if got, want := Errors("E1127 09:13:24.1 3606 b.go:1] first\n"+many.String()),
		"E1127 09:13:24.1 3606 b.go:1] first\nE1127 09:13:25.009999    3606 kubelet.go:3516] \"Unable to register mirror pod\""; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Errors(""); got != "" {
		t.Errorf("%q", got)
	}
}

func TestIsReason(t *testing.T) {
	for reason, want := range map[string]bool{"TokenExpired": true, "CgroupDriverMismatch": true, "": false, "BootstrapFailed": false,
		"BootstrapRunning": false} {
		if IsReason(reason) != want {
			t.Errorf("%q: want %t", reason, want)
		}
	}
}
