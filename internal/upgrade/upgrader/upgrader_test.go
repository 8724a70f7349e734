package upgrader

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/cluster/staticpod"
	"github.com/quorate/quorate/internal/core/steps"
)

const stored = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  extraArgs:
  - {name: audit-log-path, value: /a}
etcd:
  local: {dataDir: /var/lib/etcd}
featureGates:
  ControlPlaneKubeletLocalMode: true
  NodeLocalCRISocket: true
kubernetesVersion: v1.35.4
`

// TestClusterConfiguration: only the version, the tag of etcd and gates that the new kubeadm does not know are changed.
func TestClusterConfiguration(t *testing.T) {
	gates := []string{"NodeLocalCRISocket", "RootlessControlPlane"}
	for tag, want := range map[string]string{"": "local: map[dataDir:/var/lib/etcd]", "3.6.16-0": "local: map[dataDir:/var/lib/etcd " +
		"imageTag:3.6.16-0]"} {
		c, err := clusterConfiguration(stored, steps.Wanted{KubernetesVersion: "v1.36.3", EtcdVersion: tag}, gates)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"kubernetesVersion: v1.36.3", "NodeLocalCRISocket: true", "name: audit-log-path"} {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s is missing in\n%s", line, text)
			}
		}
		if strings.Contains(string(text), "LocalMode") || strings.Contains(string(text), "imageTag") != (tag != "") {
			t.Errorf("want %s:\n%s", want, text)
		}
	}
	for _, text := range []string{"", "[", "- a"} {
		if _, err := clusterConfiguration(text, steps.Wanted{}, nil); err == nil {
			t.Errorf("%q is taken for a configuration", text)
		}
	}
}

func TestImageNames(t *testing.T) {
	got := imageNames("registry.k8s.io/kube-apiserver:v1.36.3\nregistry.k8s.io/pause:3.10.2\nW1122 10:00:00 a warning: of klog\n\n")
	if strings.Join(got, " ") != "registry.k8s.io/kube-apiserver:v1.36.3 registry.k8s.io/pause:3.10.2" {
		t.Errorf("%q", got)
	}
}

// TestRequired: a node cannot serve without the images of its own components.
func TestRequired(t *testing.T) {
	for name, want := range map[string]map[string]bool{
		"stacked": {"registry.k8s.io/etcd:3.6.8-0": true, "mine.example.com:5000/kube-apiserver:v1": true,
			"registry.k8s.io/coredns/coredns:v1": false},
		"external": {"registry.k8s.io/etcd:3.6.8-0": false, "registry.k8s.io/kube-scheduler:v1": true},
		"worker":   {"registry.k8s.io/etcd:3.6.8-0": false, "registry.k8s.io/kube-scheduler:v1": false, "registry.k8s.io/kube-proxy:v1": false},
	} {
		n := &node{wanted: steps.Wanted{Type: steps.ControlPlane, StackedEtcd: name == "stacked"}}
		if name == "worker" {
			n.wanted.Type = steps.Worker
		}
		for image, required := range want {
			if n.required(image) != required {
				t.Errorf("%s: %s is required: %t", name, image, !required)
			}
		}
	}
}

const etcdText = `apiVersion: v1
kind: Pod
metadata: {name: etcd}
spec:
  containers:
  - name: etcd
    image: registry.k8s.io/etcd:3.6.8-0
    command: [etcd, --name=m1, "--initial-advertise-peer-urls=https://10.0.0.1:2380"]
    args: [--data-dir=/var/lib/etcd, --twice=1, --twice=2, --word, w, --bare, --other]
    ports: [{name: probe-port, containerPort: 2381}]
    readinessProbe: {httpGet: {host: 127.0.0.1, path: /readyz, port: probe-port, scheme: HTTP}}
    livenessProbe: {httpGet: {path: /livez, port: 1}}
`

// TestManifest: flags and the probe are read as the kubelet reads them.
func TestManifest(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(dir+"/etcd.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := manifestOf(dir, "etcd"); p != nil || err != nil {
		t.Errorf("no manifest: %v, %v", p, err)
	}
	write(etcdText)
	p, err := manifestOf(dir, "etcd")
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"name": "m1", "initial-advertise-peer-urls": "https://10.0.0.1:2380",
		"data-dir": "/var/lib/etcd", "data": "", "twice": "2", "word": "w", "bare": ""} {
		if got := staticpod.Flag(p, flag); got != want {
			t.Errorf("--%s: %q, want %q", flag, got, want)
		}
	}
	if url, err := probe(p, "10.0.0.1"); url != "http://127.0.0.1:2381/readyz" || err != nil {
		t.Errorf("%s, %v", url, err)
	}
	write(strings.Replace(etcdText, "port: probe-port, scheme: HTTP", "port: 6443, scheme: HTTPS", 1))
	if p, err = manifestOf(dir, "etcd"); err != nil {
		t.Fatal(err)
	}
	if url, err := probe(p, "10.0.0.1"); url != "https://127.0.0.1:6443/readyz" || err != nil {
		t.Errorf("%s, %v", url, err)
	}
	p.Spec.Containers[0].ReadinessProbe, p.Spec.Containers[0].LivenessProbe = nil, nil
	if url, err := probe(p, "10.0.0.1"); err == nil {
		t.Errorf("no probe: %s", url)
	}
	for _, text := range []string{"{", "kind: Pod"} {
		write(text)
		if p, err := manifestOf(dir, "etcd"); err == nil {
			t.Errorf("%q is a manifest: %v", text, p)
		}
	}
}

// TestKnownFlags: flags that the new kubelet does not know go, all else stays as it was.
func TestKnownFlags(t *testing.T) {
	const help = "Flags:\n      --container-runtime-endpoint string   a\n  -h, --help   b\n      --node-labels mapStringString   c\n"
	const file = "# a comment\nKUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///c.sock --pod-infra-container-image=pause:3 " +
		"--node-labels=a=b\"\n"
	kept, dropped := knownFlags(file, flagsOfHelp(help))
	if want := "# a comment\nKUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///c.sock --node-labels=a=b\"\n"; kept != want ||
		strings.Join(dropped, " ") != "--pod-infra-container-image" {
		t.Errorf("%q, %v", kept, dropped)
	}
	for text, help := range map[string]string{file: "no flags", "OTHER=1\n": help} {
		if kept, dropped := knownFlags(text, flagsOfHelp(help)); kept != text || len(dropped) > 0 {
			t.Errorf("%q with %q: %q, %v", text, help, kept, dropped)
		}
	}
}

func TestTaskProcesses(t *testing.T) {
	got := taskProcesses("TASK    PID     STATUS\nabc     1234    RUNNING\ndef     99      STOPPED\nghi     0    RUNNING\n")
	if len(got) != 1 || got["abc"] != 1234 {
		t.Errorf("%v", got)
	}
}

// TestFinishArgs: the cluster's own objects are changed with the first node only, and no command touches manifests.
func TestFinishArgs(t *testing.T) {
	skip := []string{"addon/kube-proxy", "bootstrap-token"}
	for want, w := range map[string]steps.Wanted{
		"upgrade apply v1.36.3 --yes --skip-phases=preflight,control-plane,addon/kube-proxy,bootstrap-token": {Type: steps.ControlPlane,
			First: true, KubernetesVersion: "v1.36.3"},
		"upgrade node --skip-phases=preflight,control-plane,addon/kube-proxy --patches=/p": {Type: steps.ControlPlane, Patches: "/p"},
		"upgrade node phase kubelet-config":                                                {Type: steps.Worker, First: true},
	} {
		if got := strings.Join(finishArgs(w, skip), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for want, w := range map[string]steps.Wanted{
		"upgrade apply v1.36.3 --yes --skip-phases=preflight,control-plane": {Type: steps.ControlPlane, First: true,
			KubernetesVersion: "v1.36.3"},
		"upgrade node --skip-phases=preflight,control-plane --patches=/p": {Type: steps.ControlPlane, Patches: "/p"},
		"upgrade node phase kubelet-config":                               {Type: steps.Worker, First: true},
	} {
		if got := strings.Join(finishArgs(w, nil), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestStarts: the numbers of logs tell how often a container was started, whatever was removed; the newest one says why it ended.
func TestStarts(t *testing.T) {
	s := newScene(t)
	pod, other := s.node+"/kube-system_etcd-n1_uid/etcd/", s.node+"/kube-system_etcd-n1_uid2/etcd/"
	count := func() map[string]int {
		got, err := starts(s.node, "etcd", "n1")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	s.write(pod+"4.log", "2026-11-22T10:00:00.5Z stdout F before\n")
	s.write(s.node+"/kube-system_etcd-n12_uid/etcd/9.log", "2026-11-22T10:00:30Z stderr F another node's\n")
	before := count()
	if got := more(before, map[string]int{}); got != 5 {
		t.Errorf("%d starts in all", got)
	}
	if got := more(count(), before); got != 0 {
		t.Errorf("%d starts since the count", got)
	}
	s.write(pod+"5.log", "2026-11-22T10:00:10.5Z stderr F first\n2026-11-22T10:00:11Z stderr F unknown flag: --a\n")
	s.write(pod+"5.log.20261122-100000", "an older part")
	s.write(other+"1.log", "2026-11-22T10:00:20.5Z stderr F a\n2026-11-22T10:00:20.6Z stderr F b\n2026-11-22T10:00:20.7Z stderr F "+
		"c\n2026-11-22T10:00:21Z stderr F d\n")
	if got := more(count(), before); got != 3 {
		t.Errorf("%d starts since the count, want one, and two of a new pod", got)
	}
	for component, want := range map[string]string{"etcd": "b; c; d", "kube-scheduler": ""} {
		if got, err := lastLog(s.node, component, "n1"); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", component, got, err, want)
		}
	}
	s.write(other+"2.log", "")
	if got, err := lastLog(s.node, "etcd", "n1"); got != "b; c; d" || err != nil {
		t.Errorf("an empty log: %q, %v", got, err)
	}
}

// TestUntil: a wait ends with success, with a final error, or with the last cause that is none of the wait's own.
func TestUntil(t *testing.T) {
	tries := 0
	err := until(t.Context(), time.Minute, time.Millisecond, func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if tries != 3 || err != nil {
		t.Errorf("%d tries, %v", tries, err)
	}
	final := &finalError{&downError{"etcd", errors.New("refused")}, 3}
	if err := until(t.Context(), time.Minute, time.Millisecond, func(context.Context) error { return final }); !errors.Is(err, final) ||
		err.Error() != "etcd was started 3 times and ends again" {
		t.Errorf("%v", err)
	}
	err = until(t.Context(), 20*time.Millisecond, time.Millisecond, func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errors.New("refused")
	})
	if err == nil || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "waited for 20ms") {
		t.Errorf("%v", err)
	}
}

// TestNodeReady: a Node's word counts when it is of the new kubelet.
func TestNodeReady(t *testing.T) {
	since := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct{ version, ready, heartbeat, want string }{
		"ready":               {"v1.36.3", "True", "2026-11-22T10:00:01Z", ""},
		"of the same second":  {"v1.36.3", "True", "2026-11-22T09:59:59Z", ""},
		"of the old kubelet":  {"v1.35.4", "True", "2026-11-22T10:00:01Z", "is of version v1.35.4, want v1.36.3"},
		"of before the start": {"v1.36.3", "True", "2026-11-22T09:59:00Z", "has said nothing since"},
		"not ready":           {"v1.36.3", "False", "2026-11-22T10:00:01Z", "is not ready: no network"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/nodes/n1" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(`{"status":{"nodeInfo":{"kubeletVersion":"` + test.version +
				`"},"conditions":[{"type":"MemoryPressure","status":"False"},` +
				`{"type":"Ready","status":"` + test.ready + `","message":"no network","lastHeartbeatTime":"` + test.heartbeat + `"}]}}`))
		}))
		a := &api{server: server.URL, client: server.Client()}
		err := nodeReady(t.Context(), a, "n1", "v1.36.3", since)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err := nodeReady(t.Context(), a, "n2", "v1.36.3", since); err == nil || !strings.Contains(err.Error(), "status 404") {
			t.Errorf("no Node: %v", err)
		}
		server.Close()
	}
}

// TestContainerRuns: the runtime is restarted when the kubelet has told of the step's own container.
func TestContainerRuns(t *testing.T) {
	var status string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/kube-system/pods/up" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"status":` + status + `}`))
	}))
	defer server.Close()
	a := &api{server: server.URL, client: server.Client()}
	const runs, waits = `{"name":"exchange","state":{"running":{"startedAt":"2026-11-22T10:00:01Z"}}}`,
		`{"name":"exchange","state":{"waiting":{"reason":"PodInitializing"}}}`
	const other = `{"name":"prepare","state":{"running":{}}}`
	for _, test := range []struct {
		status string
		want   bool
	}{
		{`{"initContainerStatuses":[` + other + `,` + runs + `]}`, true},
		{`{"containerStatuses":[` + runs + `]}`, true},
		{`{"initContainerStatuses":[` + other + `,` + waits + `]}`, false},
		{`{}`, false},
	} {
		status = test.status
		if err := containerRuns(t.Context(), a, "up", "exchange"); (err == nil) != test.want {
			t.Errorf("%s: %v", test.status, err)
		}
	}
	if err := containerRuns(t.Context(), a, "down", "exchange"); err == nil || !strings.Contains(err.Error(), "status 404") {
		t.Errorf("no pod: %v", err)
	}
}

// TestCommandLine covers what the command line refuses; steps themselves need a node.
func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"":                  "not by hand",
		"Copy":              `unknown command "Copy"`,
		"copy":              "reading --spec",
		"copy --spec {}":    "id, attempt or node is missing",
		"copy --spec [":     "reading --spec",
		"copy --other":      "reading the command line",
		"copy swop --spec":  `unknown command "swop"`,
		"--spec {}":         "no command",
		`copy --spec {"a":`: "reading --spec",
		"copy --requires=skip-phases,shiny --spec {}": "does not know shiny: use the upgrader image",
		"copy --requires=skip-phases --spec {}":       "id, attempt or node is missing",
	} {
		var out strings.Builder
		if code := Main(t.Context(), strings.Fields(args), &out); code != exitUsage || !strings.Contains(out.String(), want) {
			t.Errorf("%q: exit code %d, %s", args, code, out.String())
		}
	}
}

// TestResultHidesSecrets: what a command prints may hold a token.
func TestResultHidesSecrets(t *testing.T) {
	r := result("", errors.New("joining with token abcdef.0123456789abcdef failed"))
	if r.State != steps.Failed || r.Advice == "" || strings.Contains(r.Message, "0123456789abcdef") {
		t.Errorf("%+v", r)
	}
	if r := result("nothing", errSkipped); r.State != steps.Skipped || r.Message != "nothing" {
		t.Errorf("%+v", r)
	}
}

// TestCarryOut: who reads what was written knows how each step ended, whenever the container is killed; none follows one that did not
// succeed.
func TestCarryOut(t *testing.T) {
	for _, last := range []steps.Result{
		{State: steps.Done, Seconds: 1.5, Message: "all are there"}, {State: steps.Skipped}, {State: steps.Failed, Advice: "a"},
		{State: steps.RolledBack}, {},
	} {
		var out strings.Builder
		var done []steps.Name
		written := ""
		write := func(lines string) error { written = lines; return nil }
		code := carryOut([]steps.Name{steps.Copy, steps.Images, steps.Render}, write, &out, func(name steps.Name) steps.Result {
			if got := steps.ParseResults(written); len(got) != len(done) {
				t.Errorf("%s begins when %+v is known of %v", name, got, done)
			}
			done = append(done, name)
			if name == steps.Images {
				return last
			}
			return steps.Result{State: steps.Done}
		})
		want, most := last.State.ExitCode(), 2
		if last.State == steps.Interrupted {
			want = exitKilled
		} else {
			last.Step = steps.Images
		}
		if last.State.Succeeded() {
			most = 3
		}
		got := steps.ParseResults(written)
		if code != want || len(done) != most || got[steps.Images] != last || got[steps.Copy].State != steps.Done ||
			len(steps.ParseResults(out.String())) != len(got) {
			t.Errorf("%+v: exit code %d, want %d; done %v, written %s", last, code, want, done, written)
		}
	}
}

// TestProgram: a program is found in the upgrader's own folder, and when that was removed in the image, so that the last step can be
// repeated.
func TestProgram(t *testing.T) {
	const name = "quorate-has-no-such-program"
	s := newScene(t)
	if path, err := s.at.program(name); err == nil {
		t.Errorf("found nowhere: %s", path)
	}
	s.at.image = s.dir + "/image"
	if path, err := s.at.program(name); err == nil {
		t.Errorf("not in the image either: %s", path)
	}
	want := s.at.image + "/bin/" + name
	s.write(want, "")
	if path, err := s.at.program(name); path != want || err != nil {
		t.Errorf("%s, %v, want %s", path, err, want)
	}
	want = s.at.programs() + "/" + name
	s.write(want, "")
	if path, err := s.at.program(name); path != want || err != nil {
		t.Errorf("%s, %v, want %s", path, err, want)
	}
}

// TestNote: what the kubelet was started with is noted once, whatever a step that was cut off changed since.
func TestNote(t *testing.T) {
	s := newScene(t)
	s.write(s.at.work()+"/x", "")
	for _, now := range []string{"before", "after", "later"} {
		if noted, err := s.at.noteKubelet([]byte(now)); string(noted) != "before" || err != nil {
			t.Errorf("%s: %q, %v", now, noted, err)
		}
	}
	if err := s.at.forgetKubelet(); err != nil {
		t.Fatal(err)
	}
	if noted, err := s.at.noteKubelet([]byte("later")); string(noted) != "later" || err != nil {
		t.Errorf("after its restart: %q, %v", noted, err)
	}
}

// TestServiceWaits: what an earlier upgrade left of the service begins nothing while another is being prepared, and ends for good.
func TestServiceWaits(t *testing.T) {
	s := newScene(t)
	want := steps.Journal{Wanted: steps.Wanted{ID: "u1", Attempt: 1, Node: "n1"}}
	if err := s.at.saveJournal(want); err != nil {
		t.Fatal(err)
	}
	s.write(s.at.stage()+s.node+"/manifest", "half of it")
	var out strings.Builder
	if err := (service{at: s.at, out: &out}).run(t.Context()); err != nil {
		t.Errorf("it would be begun again: %v", err)
	}
	if j, err := s.at.loadJournal(); !reflect.DeepEqual(j, want) || err != nil {
		t.Errorf("%+v, %v\n%s", j, err, out.String())
	}
}

// TestRunEndsWithItsParent: a program that a step runs does not outlive the step, which may have been begun again by then.
func TestRunEndsWithItsParent(t *testing.T) {
	const variable = "QUORATE_TEST_PROGRAM_NUMBER"
	if file := os.Getenv(variable); file != "" {
		_, err := run(t.Context(), nil, "/bin/sh", "-c", "echo $$ > "+file+".part; mv "+file+".part "+file+"; exec sleep 600")
		t.Fatalf("the program ended: %v", err)
	}
	file := filepath.Join(t.TempDir(), "number")
	parent := exec.Command("/proc/self/exe", "-test.run=^TestRunEndsWithItsParent$")
	parent.Env = append(os.Environ(), variable+"="+file)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var number []byte
	if err := eventually(t.Context(), time.Minute,
		func(context.Context) (err error) { number, err = os.ReadFile(file); return err }); err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	err := eventually(t.Context(), time.Minute, func(context.Context) error {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(number)) + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			return errors.New("it still runs")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestInstalled: a program is found by its file, not by a link to it.
func TestInstalled(t *testing.T) {
	if got := installed("no-such-program"); got != "" {
		t.Errorf("%s", got)
	}
	got := installed("sh")
	if info, err := os.Lstat(got); err != nil || !info.Mode().IsRegular() || !filepath.IsAbs(got) {
		t.Errorf("%s: %v", got, err)
	}
}

// TestWithoutAddons: kubeadm installs no add-on that the cluster does not have, and none that was left to others.
func TestWithoutAddons(t *testing.T) {
	var missing, want, broken string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case broken != "":
			http.Error(w, broken, http.StatusServiceUnavailable)
		case missing != "" && strings.Contains(r.URL.Path, missing):
			http.NotFound(w, r)
		default:
			_, _ = w.Write([]byte("{}"))
		}
	}))
	defer server.Close()
	a := &api{server: server.URL, client: server.Client()}
	for missing, want = range map[string]string{
		"": "bootstrap-token", "configmaps/kube-proxy": "addon/kube-proxy bootstrap-token",
		"daemonsets/kube-proxy": "addon/kube-proxy bootstrap-token",
		"deployments/coredns":   "addon/coredns bootstrap-token", "/kube-system/": "addon/coredns addon/kube-proxy bootstrap-token",
	} {
		got, err := a.withoutAddons(t.Context(), []string{"bootstrap-token"})
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("without %q: %q, %v, want %s", missing, got, err, want)
		}
	}
	broken = "away"
	if got, err := a.withoutAddons(t.Context(), nil); err == nil {
		t.Errorf("what is not known to be missing counts as missing: %q", got)
	}
}
