package stacked

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

var (
	numbered = regexp.MustCompile(`demo-cp-[0-9]+`)
	dated    = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+Z`)
)

// ending tells how a world is in the end, so that two can be compared: without versions and
// times, and with machines by their order, because a number may have been lost.
func (w *world) ending() []string {
	w.t.Helper()
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, o := range w.everything() {
		say("%T %s: %s", o, o.GetName(), carried(o))
		switch o := o.(type) {
		case *controlplanev1.KubeadmControlPlane:
			status := o.Status
			say("plan: %+v", status.Plan)
			say("conditions: %s", conditionsIn(status.Conditions))
			status.Conditions, status.Plan, status.LastRemediation.Time = nil, controlplanev1.PlanStatus{}, metav1.Time{}
			text, err := json.Marshal(status)
			say("status: %s %v", text, err)
		case *clusterv1.Machine:
			say("%s: version %s, domain %s, data %v, conditions %s", o.Name, o.Spec.Version, o.Spec.FailureDomain, o.Spec.Bootstrap.ConfigRef,
				conditionsIn(o.Status.Conditions))
		}
	}
	for _, m := range w.members {
		say("member of %s: leader %v, learner %v, %v", m.Name, m.Leader, m.Learner, m.Health)
	}
	template := &infrav1.LocalMachineTemplate{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "demo-machines"}, template); err != nil {
		w.t.Fatal(err)
	}
	say("template: %s", carried(template))
	say("kubeadm's files are behind: %q, %q, %q", w.permissions, w.config, w.addons)

	names := map[string]string{}
	for i, m := range w.machines() {
		names[m.Name] = fmt.Sprint("machine ", i+1)
	}
	for i, line := range lines {
		line = dated.ReplaceAllString(line, "then")
		lines[i] = numbered.ReplaceAllStringFunc(line, func(name string) string {
			if names[name] == "" {
				return "a machine that is gone"
			}
			return names[name]
		})
	}
	slices.Sort(lines)
	return lines
}

// lastNumber is the last number that a machine was given: one is lost only with a process,
// or with the answer to having taken it.
func (w *world) lastNumber() string {
	if kcp := w.kcp(); kcp != nil {
		return kcp.Annotations[controlplanev1.LastMachineAnnotation]
	}
	return ""
}

// carried tells what an object's metadata hold.
func carried(o client.Object) string {
	annotations := map[string]string{}
	maps.Copy(annotations, o.GetAnnotations())
	delete(annotations, controlplanev1.LastMachineAnnotation)
	return fmt.Sprintf("owners %s, labels %v, annotations %v, finalizers %v, deleted %v", owners(o), o.GetLabels(), annotations,
		o.GetFinalizers(), o.GetDeletionTimestamp() != nil)
}

// conditionsIn writes conditions down, without the one that comes with time and not with a write.
func conditionsIn(list []metav1.Condition) string {
	var texts []string
	for _, c := range list {
		if c.Type == controlplanev1.EtcdDataConsistentCondition {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s=%s %s %q", c.Type, c.Status, c.Reason, c.Message))
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

// difference tells in which lines two ends differ.
func difference(want, got []string) string {
	var texts []string
	for _, line := range want {
		if !slices.Contains(got, line) {
			texts = append(texts, "  - "+line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			texts = append(texts, "  + "+line)
		}
	}
	if len(texts) == 0 && len(want) != len(got) {
		texts = append(texts, fmt.Sprintf("  %d lines, want %d", len(got), len(want)))
	}
	return strings.Join(texts, "\n")
}
