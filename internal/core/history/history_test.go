package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/core/plan"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func step(verb plan.Verb, machine string) plan.Decision {
	return plan.Decision{Step: plan.Step{Verb: verb, Machine: machine}, Rule: "grow", Reason: "ScalingUp", Message: "1 of 3 machines"}
}

// complete is a machine that lacks nothing.
func complete(name string) plan.Machine {
	return plan.Machine{Name: name, Host: name, Ready: true, Hook: true,
		Components: []plan.Component{{Name: "kube-apiserver", Health: plan.Healthy}}}
}

// seen are facts of a group without etcd.
func seen(seconds int, machines ...plan.Machine) plan.Observed {
	return plan.Observed{
		Now: at(seconds), Group: plan.Group{Name: "cp", Initialized: true}, Want: plan.Want{Replicas: 3},
		Cluster: plan.Cluster{Reachable: true}, Machines: machines,
	}
}

// lines tell a record in short.
func lines(r Record) string {
	var b strings.Builder
	for _, e := range r.Entries {
		fmt.Fprintf(&b, "%s", e.Time.Sub(start))
		switch {
		case e.Note != "":
			fmt.Fprintf(&b, " note %s", e.Note)
		case e.Change != nil:
			fmt.Fprintf(&b, " change by %q %q created=%t %s", e.Change.By, e.Change.Operation, e.Change.Created, strings.Join(e.Change.Fields, ","))
		default:
			fmt.Fprintf(&b, " %s %s %s write %s took %s", e.Step, e.Outcome, e.Error, e.Duration.Duration, e.Took.Duration)
		}
		if e.Count > 0 {
			fmt.Fprintf(&b, " x%d until %s", e.Count, e.Last.Sub(start))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func want(t *testing.T, r Record, expected ...string) {
	t.Helper()
	if got, want := lines(r), strings.Join(expected, "\n")+"\n"; got != want {
		t.Errorf("it is\n%swant\n%s", got, want)
	}
}

func TestAdd(t *testing.T) {
	var r Record
	chore := plan.Decision{Step: plan.Step{Verb: plan.Write, Chore: "Kubeconfig"}, Rule: "bootstrap secrets", Reason: "KubeconfigMissing",
		Message: "it is missing"}
	r.Add(chore, at(0), 40*time.Millisecond+300*time.Microsecond, nil)
	r.Add(step(plan.Create, "cp-1"), at(1), 20*time.Millisecond, nil)
	want(t, r, "0s WriteKubeconfig done  write 40ms took 40ms", "1s Create cp-1 done  write 20ms took 0s")
	e := r.Entries[1]
	if e.Verb != plan.Create || e.Machine != "cp-1" || e.Rule != "grow" || e.Reason != "ScalingUp" || e.Message != "1 of 3 machines" {
		t.Errorf("recorded is %+v", e)
	}
}

// A step that fails again and again is one entry; any other entry begins a new one.
func TestRepeatedFailures(t *testing.T) {
	var r Record
	r.Add(step(plan.Delete, "cp-1"), at(0), time.Millisecond, errors.New("refused"))
	r.Add(step(plan.Delete, "cp-1"), at(2), time.Second, errors.New("not answered"))
	r.Add(step(plan.Delete, "cp-1"), at(4), 2*time.Millisecond, errors.New("refused again"))
	r.Add(step(plan.Delete, "cp-2"), at(5), time.Millisecond, errors.New("refused"))
	r.Add(step(plan.Delete, "cp-1"), at(6), time.Millisecond, errors.New("refused"))
	r.Add(step(plan.Delete, "cp-1"), at(8), time.Millisecond, nil)
	r.Add(step(plan.Delete, "cp-1"), at(9), time.Millisecond, nil)
	want(t, r,
		"0s Delete cp-1 failed refused again write 2ms took 0s x3 until 4s", "5s Delete cp-2 failed refused write 1ms took 0s",
		"6s Delete cp-1 failed refused write 1ms took 0s", "8s Delete cp-1 done  write 1ms took 0s", "9s Delete cp-1 done  write 1ms took 0s")
}

func TestComplete(t *testing.T) {
	young := plan.Machine{Name: "cp-2", Created: at(1), Hook: true}
	leaving := complete("cp-3")
	leaving.Deleting = true
	for _, test := range []struct {
		name string
		step plan.Decision
		fail error
		seen plan.Observed
		want time.Duration
	}{
		{"created and complete", step(plan.Create, "cp-1"), nil, seen(40, complete("cp-1")), 30 * time.Second},
		{"started and complete", step(plan.StartBootstrap, "cp-1"), nil, seen(40, complete("cp-1")), 30 * time.Second},
		{"created, not complete", step(plan.Create, "cp-2"), nil, seen(40, complete("cp-1"), young), 0},
		{"created, and gone", step(plan.Create, "cp-4"), nil, seen(40, complete("cp-1")), 0},
		{"created, facts of before", step(plan.Create, "cp-1"), nil, seen(10, complete("cp-1")), 0},
		{"the creation failed", step(plan.Create, "cp-1"), errors.New("no"), seen(40, complete("cp-1")), 0},
		{"deleted and gone", step(plan.Delete, "cp-3"), nil, seen(25, complete("cp-1")), 15 * time.Second},
		{"deleted, not gone", step(plan.Delete, "cp-3"), nil, seen(25, complete("cp-1"), leaving), 0},
		{"released and gone", step(plan.ReleaseHook, "cp-3"), nil, seen(12, complete("cp-1")), 2 * time.Second},
		{"updated", step(plan.UpdateInPlace, "cp-1"), nil, seen(40, complete("cp-1")), 0},
		{"another step takes its write", step(plan.MoveLeader, "cp-3"), nil, seen(40), time.Millisecond},
	} {
		var r Record
		r.Add(test.step, at(10), time.Millisecond, test.fail)
		r.Complete(test.seen, plan.Assess(test.seen))
		if got := r.Entries[0].Took.Duration; got != test.want {
			t.Errorf("%s: it took %s, want %s", test.name, got, test.want)
		}
		late := seen(1000, complete("cp-1"), young, leaving)
		r.Complete(late, plan.Assess(late))
		if got := r.Entries[0].Took.Duration; test.want > 0 && got != test.want {
			t.Errorf("%s: later it took %s", test.name, got)
		}
	}
}

// An update in place took until it is recorded, each machine's until its own.
func TestUpdateTook(t *testing.T) {
	var r Record
	r.Add(step(plan.UpdateInPlace, "cp-1"), at(0), time.Millisecond, nil)
	r.Add(step(plan.DropUpdate, "cp-1"), at(5), time.Millisecond, nil)
	r.Add(step(plan.UpdateInPlace, "cp-1"), at(10), time.Millisecond, nil)
	r.Add(step(plan.UpdateInPlace, "cp-2"), at(11), time.Millisecond, nil)
	r.Add(step(plan.RecordUpdate, "cp-1"), at(29), time.Second, errors.New("conflict"))
	r.Add(step(plan.RecordUpdate, "cp-1"), at(30), time.Second, nil)
	want(t, r,
		"0s UpdateInPlace cp-1 done  write 1ms took 0s", "5s DropUpdate cp-1 done  write 1ms took 1ms",
		"10s UpdateInPlace cp-1 done  write 1ms took 21s",
		"11s UpdateInPlace cp-2 done  write 1ms took 0s", "29s RecordUpdate cp-1 failed conflict write 1s took 0s",
		"30s RecordUpdate cp-1 done  write 1s took 1s")
}

func TestDurations(t *testing.T) {
	took := func(verb plan.Verb, seconds ...int) (all []Entry) {
		for _, s := range seconds {
			all = append(all, Entry{Verb: verb, Outcome: Done, Took: metav1.Duration{Duration: time.Duration(s) * time.Second}})
		}
		return all
	}
	ahead := took(plan.Create, 500)
	ahead[0].Ahead = true
	entries := slices.Concat(took(plan.Create, 40, 10, 30), ahead, took(plan.Delete, 20, 10), took(plan.UpdateInPlace, 0),
		[]Entry{{Change: &Change{}}})
	want := map[plan.Verb]time.Duration{plan.Create: 30 * time.Second, plan.Delete: 15 * time.Second}
	if got := Durations(entries); !maps.Equal(got, want) {
		t.Errorf("medians are %v, want %v", got, want)
	}
}

// A record keeps the newest entries, and few enough of them to be short.
func TestBounds(t *testing.T) {
	var r Record
	long := strings.Repeat("ä", 10000)
	for i := range 3 * MaxEntries {
		d := step(plan.Create, fmt.Sprintf("cp-%d", i))
		d.Message = long
		r.Add(d, at(i), time.Millisecond, errors.New(long))
	}
	if n, last := len(r.Entries), r.Entries[len(r.Entries)-1]; n != MaxEntries || last.Machine != "cp-149" {
		t.Errorf("%d entries, the last is of %s", n, last.Machine)
	}
	for _, text := range []string{r.Entries[0].Message, r.Entries[0].Error} {
		if len(text) > longestText || !strings.HasSuffix(text, "ä...") {
			t.Errorf("a text has %d bytes and ends in %q", len(text), text[len(text)-5:])
		}
	}
	for i := range r.Entries {
		r.Entries[i].Message = strings.Repeat("<", 2000) // six bytes each in JSON
	}
	encoded := r.Encode()
	if len(encoded) > MaxBytes || len(encoded) < MaxBytes/2 {
		t.Errorf("encoded are %d bytes", len(encoded))
	}
	again := Decode(encoded, start)
	if last := again.Entries[len(again.Entries)-1]; last.Machine != "cp-149" || len(r.Entries) != MaxEntries {
		t.Errorf("the last entry is of %s; %d entries are left in the record itself", last.Machine, len(r.Entries))
	}
}

func TestEncodeDecode(t *testing.T) {
	r := Record{Generation: 7}
	r.Add(step(plan.Create, "cp-1"), at(1), 1500*time.Millisecond, nil)
	r.Add(step(plan.Delete, "cp-1"), at(2), time.Millisecond, errors.New("no"))
	r.Add(step(plan.Delete, "cp-1"), at(3), time.Millisecond, errors.New("no"))
	r.AddChange(Change{By: "kubectl-edit", Operation: "Update", Fields: []string{"replicas"}}, at(4))
	whole := seen(31, complete("cp-1"))
	r.Complete(whole, plan.Assess(whole))
	again := Decode(r.Encode(), start)
	if lines(again) != lines(r) || again.Generation != 7 {
		t.Errorf("it is\n%sand was\n%s", lines(again), lines(r))
	}
	if !strings.Contains(r.Encode(), `"duration":"1.5s","took":"30s"`) {
		t.Errorf("durations are not told as such: %s", r.Encode())
	}
	if got := (Record{}).Encode(); got != `{"entries":[]}` {
		t.Errorf("an empty record is %s", got)
	}
}

// What cannot be read is told without being quoted, and all else goes on.
func TestDecodeGarbage(t *testing.T) {
	const secret = "hunter2"
	for _, text := range []string{"", secret, `{"entries":"` + secret + `"}`, `{"entries":[{"time":"` + secret + `"}]}`,
		`{"entries":[{"took":"` + secret + `"}]}`, `[1]`, `{"entries":[`} {
		r := Decode(text, at(9))
		if len(r.Entries) != 1 || !strings.Contains(r.Entries[0].Note, "could not be read") || strings.Contains(lines(r), secret) {
			t.Errorf("of %q it keeps\n%s", text, lines(r))
		}
		r.Add(step(plan.Create, "cp-1"), at(10), time.Millisecond, nil)
		if again := Decode(r.Encode(), at(11)); len(again.Entries) != 2 {
			t.Errorf("of %q it keeps\n%s", text, lines(again))
		}
	}
	if r := Decode(`{"entries":[{},null,{"step":"Create cp-1"}]}`, at(9)); len(r.Entries) != 1 {
		t.Errorf("of empty entries it keeps\n%s", lines(r))
	}
}

func TestMerge(t *testing.T) {
	var before, r Record
	before.Generation = 3
	before.Add(step(plan.Create, "cp-1"), at(1), time.Millisecond, nil)
	r.Add(step(plan.Create, "cp-2"), at(5), time.Millisecond, nil)
	r.Merge(before)
	want(t, r, "1s Create cp-1 done  write 1ms took 0s", "5s Create cp-2 done  write 1ms took 0s")
	if r.Generation != 3 {
		t.Errorf("the generation is %d", r.Generation)
	}
}

func TestName(t *testing.T) {
	long := strings.Repeat("a", 245) + ".b"
	names := map[string]bool{}
	for _, kind := range []string{"KubeadmControlPlane", "ControlPlane", "EtcdCluster"} {
		for _, name := range []string{"demo", "demo-cp", "demo-k", "demo-etcd", long, long + "c", long + "d", strings.Repeat("a", 253)} {
			got := Name(kind, name)
			if names[got] || len(got) > 253 || !strings.HasSuffix(got, "-quorate-history") {
				t.Errorf("%s %s: %s", kind, name, got)
			}
			names[got] = true
		}
	}
	if got := Name("KubeadmControlPlane", "demo-cp"); got != "demo-cp-kcp-quorate-history" {
		t.Errorf("the name is %s", got)
	}
}

// managed is what an API server keeps of who wrote an object: an apply of all, an edit of two fields, a status.
const managed = `[
{"manager":"kubectl","operation":"Apply","apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","time":"2026-03-01T12:00:00Z","fieldsType":"FieldsV1",
 "fieldsV1":{"f:metadata":{"f:labels":{"f:cluster.x-k8s.io/cluster-name":{}}},"f:spec":{"f:kubeadmConfigSpec":{"f:files":{}},"f:machineTemplate":{"f:spec":{"f:infrastructureRef":{}}}}}},
{"manager":"kubectl-edit","operation":"Update","apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","time":"2026-03-01T12:05:00Z","fieldsType":"FieldsV1",
 "fieldsV1":{"f:spec":{".":{},"f:version":{},"f:replicas":{}}}},
{"manager":"autoscaler","operation":"Update","apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","time":"2026-03-01T12:09:00Z","fieldsType":"FieldsV1",
 "fieldsV1":{"f:spec":{"f:replicas":{}}},"subresource":"scale"},
{"manager":"labeller","operation":"Update","apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","time":"2026-03-01T12:08:00Z","fieldsType":"FieldsV1",
 "fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}}}},
{"manager":"quorate","operation":"Update","apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","time":"2026-03-01T12:09:00Z","fieldsType":"FieldsV1",
 "fieldsV1":{"f:status":{"f:replicas":{}}},"subresource":"status"}]`

func TestChangeOf(t *testing.T) {
	var all []metav1.ManagedFieldsEntry
	if err := json.Unmarshal([]byte(managed), &all); err != nil {
		t.Fatal(err)
	}
	garbage := []metav1.ManagedFieldsEntry{{Manager: "a", FieldsV1: metav1.NewFieldsV1("{")}, {Manager: "b"},
		{Manager: "c", FieldsV1: metav1.NewFieldsV1(`{"f:spec":7}`)}}
	for _, test := range []struct {
		name    string
		managed []metav1.ManagedFieldsEntry
		changed []string
		want    string
		seconds int
	}{
		{"the newest", all[:2], nil, "kubectl-edit Update replicas version", 300},
		{"the newest of those who set what changed", all[:2], []string{"machineTemplate"}, "kubectl Apply machineTemplate", 0},
		{"only what changed", all[:2], []string{"version"}, "kubectl-edit Update version", 300},
		{"a field was taken away", all[:2], []string{"rollout"}, "kubectl-edit Update rollout", 300},
		{"scaled", all, []string{"replicas"}, "autoscaler Update replicas", 540},
		{"what else changed does not count", all[3:], []string{"version"}, "  version", -1},
		{"garbage", garbage, nil, "  ", -1},
	} {
		c, when := ChangeOf(test.managed, test.changed)
		if got := strings.TrimSuffix(fmt.Sprintf("%s %s %s", c.By, c.Operation, strings.Join(c.Fields, " ")), "\n"); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if test.seconds < 0 != when.IsZero() || test.seconds >= 0 && !when.Equal(at(test.seconds)) {
			t.Errorf("%s: at %s", test.name, when)
		}
	}
	if c, _ := ChangeOf(nil, strings.Fields(strings.Repeat("f ", 100))); len(c.Fields) != mostFields {
		t.Errorf("%d fields are named", len(c.Fields))
	}
}

// Changes stand before the steps that they brought about, also where they are noted later, and do not crowd them out.
func TestAddChange(t *testing.T) {
	var r Record
	scaled := Change{By: "autoscaler", Operation: "Update", Fields: []string{"replicas"}}
	r.AddChange(Change{By: "kubectl", Operation: "Apply", Created: true, Fields: []string{"replicas"}}, at(0))
	r.Add(step(plan.Create, "cp-1"), at(1), time.Millisecond, nil)
	r.Add(step(plan.Create, "cp-2"), at(20), time.Millisecond, nil)
	r.AddChange(scaled, at(10))
	r.AddChange(scaled, at(12))
	r.AddChange(scaled, at(30))
	r.AddChange(Change{By: "kubectl-edit", Operation: "Update", Fields: []string{"replicas"}}, at(31))
	want(t, r, `0s change by "kubectl" "Apply" created=true replicas`, "1s Create cp-1 done  write 1ms took 0s",
		`10s change by "autoscaler" "Update" created=false replicas x2 until 12s`, "20s Create cp-2 done  write 1ms took 0s",
		`30s change by "autoscaler" "Update" created=false replicas`, `31s change by "kubectl-edit" "Update" created=false replicas`)
}

func TestChanged(t *testing.T) {
	equal := func(a, b any) bool { return a == b }
	before, after := map[string]any{"replicas": 1, "version": "v1", "paused": true}, map[string]any{"replicas": 3, "version": "v1",
		"rollout": 1}
	if got := strings.Join(Changed(before, after, equal), " "); got != "paused replicas rollout" {
		t.Errorf("changed are %s", got)
	}
	if got := Changed(before, before, equal); len(got) > 0 {
		t.Errorf("changed are %s", got)
	}
}

// TestApproval: who approved is recorded once, at its place, and read again; what does not tell who it was is not.
func TestApproval(t *testing.T) {
	a, at, known := ApprovalOf("0123456789ab", "2026-11-23T04:05:06Z system:serviceaccount:flux:some one\x1b")
	if want := (Approval{Revision: "0123456789ab", By: "system:serviceaccount:flux:some one"}); !known || a != want {
		t.Fatalf("%+v, %t", a, known)
	}
	for _, text := range [][2]string{{"0123456789ab", ""}, {"", "2026-11-23T04:05:06Z jane"}, {"0123456789ab", "jane"},
		{"0123456789ab", "2026-11-23T04:05:06Z"}} {
		if _, _, known := ApprovalOf(text[0], text[1]); known {
			t.Errorf("%q is known", text)
		}
	}
	var r Record
	r.AddChange(Change{By: "kubectl"}, at.Add(-time.Minute))
	r.AddChange(Change{By: "kubectl", Fields: []string{"version"}}, at.Add(time.Minute))
	r.AddApproval(a, at)
	r.AddApproval(a, at)
	r = Decode(r.Encode(), at)
	if len(r.Entries) != 3 || r.Entries[1].Approval == nil || *r.Entries[1].Approval != a || !r.Entries[1].Time.Equal(at) {
		t.Errorf("%+v", r.Entries)
	}
	if r.AddApproval(a, at.Add(time.Hour)); len(r.Entries) != 4 {
		t.Errorf("the second approval of the same: %+v", r.Entries)
	}
	var again Record // of a process that starts again and sees the approval before it reads what was recorded
	again.AddApproval(a, at)
	if again.Merge(r); len(again.Entries) != 4 {
		t.Errorf("seen again: %+v", again.Entries)
	}
	asked, _, known := RequestOf("replace", "demo-cp-1=2026-11-23T04:05:06Z", "2026-11-23T04:05:06Z jane")
	if want := (Approval{Request: "replace demo-cp-1=2026-11-23T04:05:06Z", By: "jane"}); !known || asked != want {
		t.Errorf("asked for is %+v, %t", asked, known)
	}
	if nobody, _, known := RequestOf("replace", "demo-cp-1=2026-11-23T04:05:06Z", ""); known || nobody != (Approval{}) {
		t.Errorf("a request without a user is %+v, %t", nobody, known)
	}
	const decided = "remove-voter 77 demo-cp-9"
	if d, _, known := DecisionOf(decided, "2026-11-23T04:05:06Z jane"); !known || d.Decision != decided || d.Revision != "" {
		t.Errorf("a decision is %+v", d)
	}
}
