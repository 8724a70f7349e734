package archive

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/manager"
)

// planted are texts with secrets, and the part of each that must be nowhere.
var planted = map[string]string{
	"joined with token abcdef.0123456789abcdef":                                      "0123456789abcdef",
	"password: hunter2-of-the-database":                                              "hunter2",
	"Authorization: Bearer c2VjcmV0LWJlYXJlci10b2tlbg":                               "c2VjcmV0LWJlYXJl",
	"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIPlanted\n-----END EC PRIVATE KEY-----": "MHcCAQEEIPlanted",
	"https://admin:p4ssw0rd@registry.example.org/v2/":                                "p4ssw0rd",
	"eyJhbGciOiJSUzI1NiJ9.cGxhbnRlZA.c2ln":                                           "cGxhbnRlZA",
	"--certificate-key 5f2ddfa1c0ffee5f2ddfa1c0ffee":                                 "5f2ddfa1c0ffee",
}

// all is a text with each of the secrets.
func all() string {
	var b strings.Builder
	for text := range planted {
		b.WriteString(text + "\n")
	}
	return b.String()
}

// free expects that none of the secrets is in a text.
func free(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range planted {
		if strings.Contains(text, secret) {
			t.Errorf("%s has %q", where, secret)
		}
	}
}

// fill sets each text of a value, as deep as its type goes.
func fill(v reflect.Value, text string, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 && v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), text, depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(f, text, depth)
			}
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0), text, depth-1)
			fill(v.Index(1), text, depth-1)
		}
	case reflect.Map:
		if depth > 0 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, text, depth-1)
			fill(value, text, depth-1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(text)
	}
}

// TestEachText: no text of what is shown keeps a secret, in whichever field it stands.
func TestEachText(t *testing.T) {
	for _, value := range []any{new(report.Cluster), new(report.Explanation), new([]report.Plan), new([]report.History)} {
		fill(reflect.ValueOf(value).Elem(), all(), 8)
		if before := fmt.Sprintf("%+v", reflect.ValueOf(value).Elem()); !strings.Contains(before, "hunter2") {
			t.Fatalf("%T: nothing was planted", value)
		}
		redact(value)
		var seen []string
		texts(reflect.ValueOf(value), func(text string) { seen = append(seen, text) })
		if len(seen) < 10 {
			t.Errorf("%T: only %d texts were looked at", value, len(seen))
		}
		free(t, fmt.Sprintf("%T", value), strings.Join(seen, "\n"))
	}
}

// TestNamedSecrets: a value is taken out of a map by its name too, wherever the map is.
func TestNamedSecrets(t *testing.T) {
	value := struct{ Labels map[string]string }{map[string]string{"password": "hunter2", "zone": "a"}}
	redact(&value)
	if value.Labels["password"] != "<secret>" || value.Labels["zone"] != "a" || len(value.Labels) != 2 {
		t.Errorf("the map is %v", value.Labels)
	}
}

// texts calls do with each text of a value.
func texts(v reflect.Value, do func(string)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			texts(v.Elem(), do)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			texts(v.Field(i), do)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			texts(v.Index(i), do)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			texts(k, do)
			texts(v.MapIndex(k), do)
		}
	case reflect.String:
		do(v.String())
	}
}

// scene is a Cluster with a control plane and a machine, with secrets in all texts that others write.
func scene() client.Client {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "u"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
		Kind: "KubeadmControlPlane", Name: "demo"}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	kcp.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster"))})
	kcp.Spec.Replicas, kcp.Spec.Version = ptr.To[int32](3), "v1.37.2"
	kcp.Annotations = map[string]string{"example.org/note": all()}
	kcp.Status.Plan = controlplanev1.PlanStatus{Step: "Wait", Rule: "roll out", Reason: "ApprovalRequired", Message: all()}
	kcp.Status.Conditions = []metav1.Condition{{Type: "Available", Status: metav1.ConditionFalse, Reason: "x", Message: all()}}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp-1",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachineControlPlaneLabel: ""}}}
	m.SetOwnerReferences([]metav1.OwnerReference{
		*metav1.NewControllerRef(kcp, controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"))})
	m.Status.Conditions = []metav1.Condition{{Type: "InfrastructureReady", Status: metav1.ConditionFalse, Reason: "x", Message: all()}}
	return fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(cluster, kcp, m).WithStatusSubresource(kcp, m).Build()
}

// written is an archive of the scene, by the names of its files.
func written(t *testing.T, from source) map[string]string {
	t.Helper()
	got, err := gather(t.Context(), from, client.ObjectKey{Namespace: "default", Name: "demo"}, time.Date(2026, 11, 28, 3, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.zip")
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(write(to, got, time.Now()), to.Close()); err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := files[f.Name]; twice || strings.Contains(f.Name, "..") {
			t.Errorf("the file %q is there twice, or leads elsewhere", f.Name)
		}
		files[f.Name] = string(text)
	}
	return files
}

// TestGather: an archive has pages, their data and logs without a secret. Its pages lead to files of the archive alone, and run nothing.
func TestGather(t *testing.T) {
	from := source{client: scene(), settle: func([]report.Plan) {}, lines: 10}
	files := written(t, from)
	for _, name := range []string{"index.html", "status.json", "rules.html", "rules.json", "plan.html", "plan.json", "history.html", "app.css",
		"icon.svg", "versions.txt", "CONTENTS.txt"} {
		if files[name] == "" {
			t.Errorf("%s is missing: %s", name, files["CONTENTS.txt"])
		}
	}
	for name, text := range files {
		free(t, name, text)
		if name != "CONTENTS.txt" && !strings.Contains(files["CONTENTS.txt"], "\n"+name+" ") {
			t.Errorf("CONTENTS.txt does not list %s", name)
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
			t.Errorf("%s is no JSON:\n%s", name, text)
		}
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		if strings.Contains(text, "<script") || strings.Contains(text, `src="`) {
			t.Errorf("%s runs or loads something", name)
		}
		for _, link := range regexp.MustCompile(`href="([^"#]+)"`).FindAllStringSubmatch(text, -1) {
			if files[link[1]] == "" {
				t.Errorf("%s leads to %s, which is not there", name, link[1])
			}
		}
	}
	if !strings.Contains(files["rules.json"], `"observed"`) || !strings.Contains(files["index.html"], "ApprovalRequired") {
		t.Errorf("the facts or the status are missing:\n%s\n%s", files["rules.json"], files["index.html"])
	}
	if !strings.Contains(files["CONTENTS.txt"], "logs of machines: reading the kubeconfig of cluster demo: ") {
		t.Errorf("what could not be read is not told:\n%s", files["CONTENTS.txt"])
	}
	other := client.ObjectKey{Namespace: "default", Name: "other"}
	if _, err := gather(t.Context(), from, other, time.Now()); !errors.Is(err, facts.ErrNoCluster) {
		t.Errorf("of a cluster that is not there: %v", err)
	}
}

// TestDaemonLog: on a host with the machines the log of the management plane is there, without a secret, and a failure to read it is told.
func TestDaemonLog(t *testing.T) {
	host, err := sandbox.Open(t.TempDir(), netip.MustParsePrefix("10.0.0.0/16"), "/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	from := source{client: scene(), host: host, settle: func([]report.Plan) {}, lines: 10}
	asked := 0
	from.daemon = func(_ context.Context, lines int) (string, error) {
		asked = lines
		return "line\n" + all(), nil
	}
	files := written(t, from)
	log := files["logs/management-plane.log"]
	if free(t, "the log", log); !strings.HasPrefix(log, "line\n") || asked != 10 {
		t.Errorf("the log of %d lines is %q", asked, log)
	}
	if !strings.Contains(files["CONTENTS.txt"], "logs of demo-cp-1: ") {
		t.Errorf("a machine that is not there is not told:\n%s", files["CONTENTS.txt"])
	}
	from.daemon = func(context.Context, int) (string, error) { return "", errors.New("password: hunter2") }
	files = written(t, from)
	if free(t, "the list", files["CONTENTS.txt"]); !strings.Contains(files["CONTENTS.txt"], "log of the management plane: password") {
		t.Errorf("the failure is not told:\n%s", files["CONTENTS.txt"])
	}
}

// TestLogName: whatever a machine or a container is called, its log lies in the folder of logs.
func TestLogName(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"demo-cp-1", "etcd"}:        "logs/demo-cp-1-etcd.log",
		{"demo", "../../etc/passwd"}: "logs/demo-..-..-etc-passwd.log",
		{"a/b", "c\x1b[2J"}:          "logs/a-b-c-2J.log",
	} {
		if got := logName(in[0], in[1]); got != want {
			t.Errorf("logName(%q): %q, want %q", in, got, want)
		}
	}
}

// TestBroken: machines that are well have no logs in an archive.
func TestBroken(t *testing.T) {
	var c report.Cluster
	c.ControlPlane.Machines = []report.Machine{{Name: "a"}, {Name: "b", Waiting: "w"}}
	c.EtcdClusters = []report.EtcdCluster{{Machines: []report.Machine{{Name: "c", Failed: true}}}}
	c.Workers = []report.Workers{{Machines: []report.Machine{{Name: "d"}}}}
	got := broken(c)
	if len(got) != 2 || !slices.ContainsFunc(got, func(m report.Machine) bool { return m.Name == "c" }) || len(c.ControlPlane.Machines) != 2 {
		t.Errorf("broken are %+v", got)
	}
}
