package steps

import (
	"strings"
	"testing"
)

func names(list []Step) string {
	var all []string
	for _, s := range list {
		all = append(all, string(s.Name))
	}
	return strings.Join(all, " ")
}

// TestList: which steps a node has.
func TestList(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Wanted)
		want   string
	}{
		"single node": {func(w *Wanted) { w.SingleNode, w.Drain = true, DrainRequired },
			"Copy Images Render Backup Swap Finish Verify"},
		"one of three":  {func(*Wanted) {}, "Copy Images Render Backup Handover Swap Finish Verify"},
		"never drained": {func(w *Wanted) { w.Drain = DrainNever }, "Copy Images Render Backup Handover Swap Finish Verify"},
		"one of three, drained": {func(w *Wanted) { w.Drain = DrainBestEffort },
			"Copy Images Render Backup Drain Handover Swap Finish Uncordon Verify"},
		"external etcd": {func(w *Wanted) { w.StackedEtcd = false }, "Copy Images Render Backup Swap Finish Verify"},
		"worker":        {func(w *Wanted) { w.Type, w.StackedEtcd = Worker, false }, "Copy Images Backup Swap Finish Verify"},
		"worker, drained": {func(w *Wanted) { w.Type, w.Drain = Worker, DrainRequired },
			"Copy Images Backup Drain Swap Finish Uncordon Verify"},
		"worker, the only one left": {func(w *Wanted) { w.Type, w.Drain, w.SingleNode = Worker, DrainRequired, true },
			"Copy Images Backup Swap Finish Verify"},
	} {
		wanted := Wanted{Node: "n1", Type: ControlPlane, KubernetesVersion: "v1.36.3", StackedEtcd: true}
		test.change(&wanted)
		list, err := List(Node{KubeletVersion: "v1.35.4"}, wanted)
		if got := names(list); got != test.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, test.want)
		}
	}
}

// TestInterrupts: what the swap interrupts depends on what runs on the node.
func TestInterrupts(t *testing.T) {
	for name, test := range map[string]struct {
		wanted Wanted
		want   Parts
	}{
		"stacked":  {Wanted{Type: ControlPlane, StackedEtcd: true}, APIServer | Etcd | Controllers | Kubelet},
		"external": {Wanted{Type: ControlPlane}, APIServer | Controllers | Kubelet},
		"worker":   {Wanted{Type: Worker, StackedEtcd: true}, Kubelet},
	} {
		test.wanted.KubernetesVersion = "v1.36.3"
		list, err := List(Node{}, test.wanted)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.Name == Swap && s.Interrupts != test.want {
				t.Errorf("%s: the swap interrupts %b, want %b", name, s.Interrupts, test.want)
			}
			if s.Name != Swap && s.Interrupts&(APIServer|Etcd|Controllers) != 0 {
				t.Errorf("%s: %s interrupts the control plane: only the swap may", name, s.Name)
			}
		}
	}
	if !(APIServer | Etcd).Has(Etcd) || Etcd.Has(APIServer|Etcd) {
		t.Error("Has does not tell sets apart")
	}
}

// TestListRefuses: what kubeadm does not support is not begun.
func TestListRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		has    string
		wanted Wanted
		want   string // empty: it is not refused
	}{
		"the same version":        {"v1.36.3", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.3"}, ""},
		"unknown version":         {"", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.3"}, ""},
		"a patch":                 {"v1.36.1", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.3"}, ""},
		"a minor":                 {"v1.35.4", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.3"}, ""},
		"two minors":              {"v1.34.4", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.3"}, "more than 1 minor"},
		"two minors, worker":      {"v1.34.4", Wanted{Type: Worker, KubernetesVersion: "v1.36.3"}, ""},
		"four minors, worker":     {"v1.32.4", Wanted{Type: Worker, KubernetesVersion: "v1.36.3"}, "more than 3 minor"},
		"another major":           {"v1.36.3", Wanted{Type: Worker, KubernetesVersion: "v2.36.3"}, "away"},
		"back":                    {"v1.36.3", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.2"}, "does not go back"},
		"no version":              {"v1.36.3", Wanted{Type: ControlPlane}, `version "" is not one`},
		"kubelet of other makers": {"v1.35.4+k3s1", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.3"}, ""},
		"kubelet without sense":   {"latest", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.3"}, "its kubelet"},
		"a node of no known type": {"v1.35.4", Wanted{Type: "Etcd", KubernetesVersion: "v1.36.3"}, "neither ControlPlane nor Worker"},
		"a node without any type": {"v1.35.4", Wanted{KubernetesVersion: "v1.36.3"}, "neither ControlPlane nor Worker"},
		"the version is no text":  {"v1.35.4", Wanted{Type: Worker, KubernetesVersion: "1.36"}, "is not one like"},
		"another name of EKS-D's": {"v1.36.3-eks-b9c9ed7", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.3-eks-1-36-5"}, ""},
		"a distribution's build":  {"v1.36.3", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.3-eks-1-36-5"}, ""},
		"back, of a distribution": {"v1.36.3-eks-b9c9ed7", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.2-eks-1-36-4"},
			"does not go back"},
		"back to a candidate":      {"v1.36.0", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.0-rc.1"}, "does not go back"},
		"from a release candidate": {"v1.36.0-rc.1", Wanted{Type: ControlPlane, KubernetesVersion: "v1.36.0"}, ""},
	} {
		_, err := List(Node{KubeletVersion: test.has}, test.wanted)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestOtherRuntime: a node is upgraded only if containerd runs its containers, or if nothing is known of what does.
func TestOtherRuntime(t *testing.T) {
	for runtime, want := range map[string]string{
		"": "", "containerd://2.4.2": "", "containerd://Unknown": "",
		"cri-o://1.35.0":  "container runtime cri-o://1.35.0: must be containerd",
		"docker://28.0.1": "container runtime docker://28.0.1: must be containerd",
	} {
		for _, kind := range []NodeType{ControlPlane, Worker} {
			_, err := List(Node{KubeletVersion: "v1.35.4", Runtime: runtime}, Wanted{Node: "n", Type: kind, KubernetesVersion: "v1.36.3"})
			if got := UnfitRuntime(runtime); got != want {
				t.Errorf("%q: %q, want %q", runtime, got, want)
			}
			if (err == nil) != (want == "") || err != nil && err.Error() != "upgrading node n: "+want {
				t.Errorf("%s with %q: %v, want %q", kind, runtime, err, want)
			}
		}
	}
}

// TestSteps: steps can be compared, and each has its own name, words and check.
func TestSteps(t *testing.T) {
	seen, list := map[Step]bool{}, All()
	for _, s := range list {
		if s.Name == "" || s.Does == "" || s.Checks == "" || s.Undo == "" || seen[s] {
			t.Errorf("%+v is not whole, or is there twice", s)
		}
		seen[s] = true
		if got, ok := ByCommand(s.Name.Command()); !ok || got != s {
			t.Errorf("%s is not found by its command %s: %v", s.Name, s.Name.Command(), got)
		}
		if s.Stage == "" || s.Stage.Does() == "" {
			t.Errorf("%s belongs to stage %q, of which nothing is said", s.Name, s.Stage)
		}
	}
	list[0].Name = "Other"
	if All()[0].Name != Copy {
		t.Error("who changes a list that was returned changes the steps")
	}
	if _, ok := ByCommand("Swap"); ok {
		t.Error("a command is in lower case")
	}
}

// TestStages: what needs the pod's credentials or interrupts something is not in the stage that prepares; a container's name is there once.
func TestStages(t *testing.T) {
	for name, test := range map[string]struct {
		wanted Wanted
		want   string
	}{
		"one of three, drained": {Wanted{Type: ControlPlane, StackedEtcd: true, Drain: DrainRequired},
			"prepare: Copy Images Render Backup; drain: Drain; exchange: Handover Swap; conclude: Finish Uncordon Verify; "},
		"single node": {Wanted{Type: ControlPlane, StackedEtcd: true, SingleNode: true},
			"prepare: Copy Images Render Backup; exchange: Swap; conclude: Finish Verify; "},
		"worker": {Wanted{Type: Worker, Drain: DrainBestEffort},
			"prepare: Copy Images Backup; drain: Drain; exchange: Swap; conclude: Finish Uncordon Verify; "},
	} {
		test.wanted.KubernetesVersion = "v1.36.3"
		list, err := List(Node{}, test.wanted)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, stage := range Stages(list) {
			got += string(stage[0].Stage) + ": " + names(stage) + "; "
			for _, s := range stage {
				if s.Stage == Preparation && (s.Interrupts != 0 || s.Undo != NothingToUndo) {
					t.Errorf("%s: %s does more than to prepare: %+v", name, s.Name, s)
				}
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if Stages(nil) != nil {
		t.Error("no steps have no stages")
	}
}

// TestResults: what is written is read as the same; a step of which nothing is read was interrupted, or never begun.
func TestResults(t *testing.T) {
	copied, want := Result{Step: Copy, State: Skipped}, Result{Step: Swap, State: RolledBack, Seconds: 7.5, Message: "etcd does not serve\n{}",
		Advice: "see its log"}
	before, err := copied.Line()
	if err != nil {
		t.Fatal(err)
	}
	line, err := want.Line()
	if err != nil || strings.Contains(line, "\n") {
		t.Fatal(line, err)
	}
	for _, text := range []string{before + "\n" + line, before + "\n" + line + "\n", "some log\n" + before + "\nmore\n" + line + "\nend"} {
		if got := ParseResults(text); len(got) != 2 || got[Copy] != copied || got[Swap] != want {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	for _, text := range []string{"", "killed", line[:len(line)-1], `{"step":"Swap","state":"Other"}`, "{", `{"seconds":1}`, "[]"} {
		if got := ParseResults(text); len(got) > 0 {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	whole := 0
	for _, state := range []State{Done, Skipped, Done, Done, Done, Failed} { // the longest stage
		long, err := Result{Step: Backup, State: state, Message: strings.Repeat("é", 2000) + "end"}.Line()
		if got := ParseResults(long)[Backup]; err != nil || !strings.HasSuffix(got.Message, "éend") {
			t.Errorf("%d bytes: %s, %v", len(long), got.Message, err)
		}
		whole += len(long) + 1
	}
	if whole > 4096 {
		t.Errorf("%d bytes are more than a termination message has", whole)
	}
}

func TestStates(t *testing.T) {
	for state, want := range map[State]struct {
		code      int
		succeeded bool
	}{Done: {0, true}, Skipped: {0, true}, Failed: {1, false}, RolledBack: {2, false}, Interrupted: {1, false}} {
		if state.ExitCode() != want.code || state.Succeeded() != want.succeeded {
			t.Errorf("%q: exit code %d, succeeded %t", state, state.ExitCode(), state.Succeeded())
		}
	}
}
