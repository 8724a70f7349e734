//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/local/embed"
)

// planning: what `quorate plan` says before a control plane is scaled, rolled out, changed in place and made smaller is what is done then,
// and its exit code reports whether a machine would be replaced. Nothing is changed by planning.
//
//quorate:shows kubernetes replaced older>newer
//quorate:shows kubernetes in-place older>newer
func planning(t *testing.T, e *environment) {
	const name, inPlace = "papa", "quebec"
	e.up(t, name, "--replicas", "1", "--kubernetes-version", older)
	e.asPlanned(t, name, "KubeadmControlPlane", 0, []string{"--replicas", "3"}, func() { e.up(t, name, "--replicas", "3") })
	if out := e.quorate(t, "plan", name); !strings.Contains(out, "all is as wanted") || strings.Contains(out, "Create") {
		t.Errorf("without a change the plan is\n%s", out)
	}
	if all := e.plans(t, 0, "--all"); len(all) != 1 || len(all[0].Steps) > 0 {
		t.Errorf("with the manager that runs, the plan of all is %+v", all)
	}
	kubeconfig := embed.PlaneKubeconfigPath(e.state)
	if all := e.plans(t, 0, name+"-cp", "--kubeconfig", kubeconfig, "--replicas", "5"); len(all) != 1 || len(all[0].Steps) != 2 {
		t.Errorf("by the management cluster's kubeconfig the plan is %+v", all)
	}
	to := []string{"--kubernetes-version", newer}
	e.asPlanned(t, name, "KubeadmControlPlane", 2, to, func() { e.up(t, name, to...) })
	e.asPlanned(t, name, "KubeadmControlPlane", 0, []string{"--replicas", "7"}, func() { e.up(t, name, "--replicas", "7") })
	kcp := e.controlPlane(t, name)
	kcp.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
	changed := e.manifest(t, kcp)
	for range 3 { // it is measured here
		if all := e.plans(t, 2, name, "-f", changed); len(all) != 1 || !all[0].Done() {
			t.Errorf("the plan of a rollout of seven is %+v", all)
		}
	}
	e.asPlanned(t, name, "KubeadmControlPlane", 0, []string{"--replicas", "1"}, func() { e.up(t, name, "--replicas", "1") })
	e.takeDown(t, name)

	e.up(t, inPlace, "--replicas", "3", "--kubernetes-version", older)
	to = append(to, "--in-place")
	e.asPlanned(t, inPlace, "KubeadmControlPlane", 0, to, func() { e.up(t, inPlace, to...) })
	e.takeDown(t, inPlace)
}

// plans are those that `quorate plan` makes, which ends with a code.
func (e *environment) plans(t *testing.T, code int, args ...string) []report.Plan {
	t.Helper()
	c := exec.Command(e.binary, append([]string{"plan", "-o", "json"}, args...)...)
	c.Env = append(os.Environ(), "QUORATE_STATE="+e.state)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	start := time.Now()
	err := c.Run()
	var ended *exec.ExitError
	if got := c.ProcessState.ExitCode(); err != nil && !errors.As(err, &ended) || got != code {
		t.Fatalf("quorate plan %s ends with %d (%v), want %d\n%s", strings.Join(args, " "), got, err, code, errs.String())
	}
	var plans []report.Plan
	if err := json.Unmarshal(out.Bytes(), &plans); err != nil {
		t.Fatalf("quorate plan %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	t.Logf("FIGURE quorate plan %s: %s of processor time, %.1f s", strings.Join(args, " "),
		c.ProcessState.UserTime()+c.ProcessState.SystemTime(), time.Since(start).Seconds())
	return plans
}

// asPlanned plans a change of a cluster, makes it, and expects that the steps taken for a kind of group are those of the plan.
func (e *environment) asPlanned(t *testing.T, name, kind string, code int, args []string, change func()) {
	t.Helper()
	before := e.machines(t, name)
	var planned []string
	about := ""
	for _, p := range e.plans(t, code, append([]string{name}, args...)...) {
		if !strings.HasPrefix(p.Group, kind+" ") {
			continue
		}
		about = p.Duration.String()
		if !p.Done() {
			t.Errorf("the plan ends with %s", p.End)
		}
		for _, s := range p.Steps {
			planned = append(planned, plainStep(s.Step.String()))
		}
	}
	if now := e.machines(t, name); !slices.Equal(now, before) {
		t.Errorf("the plan changed machines %v to %v", before, now)
	}
	from, start := len(e.stepsTaken(t, name, kind)), time.Now()
	change()
	took := time.Since(start)
	var taken []string
	eventually(t, "all planned steps are taken", patience, func() string {
		taken = e.stepsTaken(t, name, kind)[from:]
		if len(taken) < len(planned) {
			return strings.Join(taken, "; ")
		}
		return ""
	})
	if !slices.Equal(taken, planned) {
		t.Errorf("planned were\n%s\ntaken\n%s", strings.Join(planned, "\n"), strings.Join(taken, "\n"))
	}
	t.Logf("FIGURE %s %s: %d steps planned and taken; estimated %s, took %.1f s", name, strings.Join(args, " "), len(planned), about,
		took.Seconds())
}

// manifest writes objects to a file, without what only an API server writes of them.
func (e *environment) manifest(t *testing.T, objects ...client.Object) string {
	t.Helper()
	var documents [][]byte
	for _, o := range objects {
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
		o.SetUID("")
		o.SetGeneration(0)
		o.SetCreationTimestamp(metav1.Time{})
		document, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document)
	}
	file := filepath.Join(t.TempDir(), "changed.yaml")
	if err := os.WriteFile(file, bytes.Join(documents, []byte("---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// did matches a step in the daemon's log.
var did = regexp.MustCompile(`msg=Did .*controllerKind=(\S+) .*cluster=(\S+) .*step=("[^"]*"|\S+)`)

// stepsTaken are the steps that were taken for a cluster's group of a kind, as the daemon's log has them.
func (e *environment) stepsTaken(t *testing.T, name, kind string) []string {
	t.Helper()
	var taken []string
	for _, file := range []string{"daemon.log.1", "daemon.log"} {
		text, err := os.ReadFile(filepath.Join(e.state, file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if m := did.FindStringSubmatch(line); m != nil && m[1] == kind && m[2] == name {
				taken = append(taken, plainStep(strings.Trim(m[3], `"`)))
			}
		}
	}
	return taken
}

// memberID matches the ID of a member, which etcd gives, before the name of its machine.
var memberID = regexp.MustCompile(` [0-9a-f]+ \((\S+)\)`)

// plainStep is a step without the IDs of members.
func plainStep(step string) string { return memberID.ReplaceAllString(step, " $1") }

// approving: a control plane that wants an approval waits with another version, also where another revision was approved, until somebody
// approves what `quorate plan` shows. It scales meanwhile. The approval ends with the rollout, and the history has all of it.
//
//quorate:shows kubernetes replaced older>newer
func approving(t *testing.T, e *environment) {
	const name = "romeo"
	e.up(t, name, "--replicas", "1", "--kubernetes-version", older)
	if out := e.quorate(t, "approve", name, "--yes"); !strings.Contains(out, "waits for no approval") {
		t.Errorf("without a change approve says\n%s", out)
	}
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Approval.Policy, kcp.Spec.Version = controlplanev1.ApprovalRequired, newer
		kcp.Annotations[controlplanev1.ApprovedAnnotation] = "0123456789ab"
	})
	waits := func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason != "ApprovalRequired" {
			return p.Step + ": " + p.Message
		}
		return ""
	}
	eventually(t, "it waits for an approval", patience, waits)
	plans := e.plans(t, 2, name)
	if len(plans) != 1 || plans[0].Approval == "" || !plans[0].Done() {
		t.Fatalf("the plan is %+v", plans)
	}
	if text := waits(); text != "" {
		t.Fatalf("before the approval: %s", text)
	}
	e.mayNotApprove(t, name, plans[0].Approval)
	from, before := len(e.stepsTaken(t, name, "KubeadmControlPlane")), e.machines(t, name)
	if out := e.quorate(t, "approve", name, "--yes"); !strings.Contains(out, "revision "+plans[0].Approval+" is approved") {
		t.Errorf("approve says\n%s", out)
	}
	eventually(t, "the approval is spent", 2*patience, func() string {
		if approved, there := e.controlPlane(t, name).Annotations[controlplanev1.ApprovedAnnotation]; there {
			return approved + " is approved, " + e.controlPlane(t, name).Status.Plan.Message
		}
		return ""
	})
	if now := e.machines(t, name); slices.Contains(now, before[0]) {
		t.Errorf("the machines are %v after the rollout, and were %v", now, before)
	}
	var planned []string
	for _, s := range plans[0].Steps {
		planned = append(planned, plainStep(s.Step.String()))
	}
	if taken := e.stepsTaken(t, name, "KubeadmControlPlane")[from:]; !slices.Equal(taken, planned) {
		t.Errorf("planned were\n%s\ntaken\n%s", strings.Join(planned, "\n"), strings.Join(taken, "\n"))
	}
	if out := e.quorate(t, "history", name); !strings.Contains(out, "version") || !strings.Contains(out, "Delete "+before[0]) ||
		!strings.Contains(out, "revision "+plans[0].Approval+" approved by ") {
		t.Errorf("the history is\n%s", out)
	}
	e.limited(t, name)
	e.takeDown(t, name)
}

// mayNotApprove: a user who may change a control plane, and not approve, is refused, in each version of its kind.
func (e *environment) mayNotApprove(t *testing.T, name, revision string) {
	t.Helper()
	const role = "operator"
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{controlplanev1.GroupVersion.Group}, Resources: []string{"kubeadmcontrolplanes"},
				Verbs: []string{"get", "update", "patch"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: role}},
		},
	} {
		if err := e.management(t).Create(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(e.quorate(t, "kubeconfig", "--management")))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Impersonate.UserName = role
	operator, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	approves := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+controlplanev1.ApprovedAnnotation+`":"`+revision+
		`"}}}`))
	for _, version := range []string{"v1beta1", "v1beta2"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind("KubeadmControlPlane").GroupKind().WithVersion(version))
		o.SetNamespace(metav1.NamespaceDefault)
		o.SetName(name + "-cp")
		if err := operator.Patch(context.Background(), o, approves); err == nil || !strings.Contains(err.Error(), "needs the right to approve") {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// limited: with a limit of one replacement a day the only machine of a control plane is replaced once, and a second time when the limit
// lets it.
func (e *environment) limited(t *testing.T, name string) {
	t.Helper()
	rolls := func(most int32) {
		e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.Approval = controlplanev1.ApprovalSpec{MaxReplacementsPerDay: ptr.To(most)}
			kcp.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
		})
	}
	replaced := func(before []string) func() string {
		return func() string {
			if now := e.machines(t, name); len(now) != 1 || slices.Equal(now, before) {
				return strings.Join(now, " ")
			}
			return e.quorumOf(t, name, 1)()
		}
	}
	// What was replaced before counts, if it was noted: so the first time there is room for two.
	before := e.machines(t, name)
	rolls(2)
	eventually(t, "the machine is replaced", 2*patience, replaced(before))
	e.hasNothingToDo(t, name)
	before = e.machines(t, name)
	rolls(1)
	eventually(t, "the limit is reached", patience, func() string {
		p := e.controlPlane(t, name).Status.Plan
		if p.Reason != plan.ReplacementLimit {
			return p.Step + ": " + p.Message
		}
		t.Log(p.Message)
		return ""
	})
	if plans := e.plans(t, 2, name); len(plans) != 1 || !plans[0].Done() || time.Duration(plans[0].Duration) < 23*time.Hour {
		t.Errorf("the plan does not wait for a day: %+v", plans)
	}
	if now := e.machines(t, name); !slices.Equal(now, before) {
		t.Errorf("machines %v are not those of before, %v", now, before)
	}
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Approval.MaxReplacementsPerDay = nil })
	eventually(t, "without the limit the machine is replaced", 2*patience, replaced(before))
}
