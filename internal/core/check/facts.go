package check

import (
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// What a single fact means. The rules have such words of their own.

// isUp: the cluster has the machine's Node or, where machines have none, its member.
func isUp(m plan.Machine) bool { return m.Host != "" }

// isHeld: the machine was created ahead, and its bootstrap has not been started.
func isHeld(m plan.Machine) bool { return m.Held && m.Host == "" }

// canJoin: nothing proves that the machine adds no member to etcd.
func canJoin(m plan.Machine) bool { return m.CannotJoin == "" && !isHeld(m) }

// isReleased: the machine is being deleted, and no hook of Quorate's holds it. Its host may disappear at any moment.
func isReleased(m plan.Machine) bool { return m.Deleting && !m.Hook }

// isOutdated: the machine differs from what is wanted.
func isOutdated(m plan.Machine) bool { return m.Outdated != "" }

// needsReplacement: no update in place can remove all differences.
func needsReplacement(m plan.Machine) bool { return m.NeedsReplacement != "" }

// isUnanswered: there is no answer yet whether an update in place can remove all differences.
func isUnanswered(m plan.Machine) bool { return m.Unanswered != "" }

// isMarked: a health check or a person wants the machine replaced.
func isMarked(m plan.Machine) bool { return m.Marked != "" }

// isUpdating: the machine is updated in place, and its host does not disappear before that has ended.
func isUpdating(m plan.Machine) bool {
	return m.Update.State == plan.UpdateUnderway && (!m.Deleting || m.Hook)
}

// isRefused: what the user asks for cannot be carried out, or must wait.
func isRefused(w plan.Want) bool { return w.Refused.Reason != "" }

// updatesInPlace: the user wants Quorate to change machines in place where it can.
func updatesInPlace(p plan.Policy) bool {
	return p.InPlace == plan.InPlacePreferred || p.InPlace == plan.InPlaceOnly
}

// ours: Quorate keeps the members of etcd that run on the group's machines.
func ours(e plan.Etcd) bool { return e.Owner == plan.EtcdOurs }

// operated: an operator keeps them.
func operated(e plan.Etcd) bool { return e.Owner == plan.EtcdOperator }

// action names the step in one word.
func action(s plan.Step) string { return string(s.Verb) + s.Chore }

func machineNamed(o plan.Observed, name string) (plan.Machine, error) {
	for _, m := range o.Machines {
		if m.Name == name {
			return m, nil
		}
	}
	return plan.Machine{}, fmt.Errorf("there is no machine %s", name)
}

func memberNamed(o plan.Observed, id string) (plan.Member, error) {
	for _, m := range o.Etcd.Members {
		if m.ID == id {
			return m, nil
		}
	}
	return plan.Member{}, fmt.Errorf("there is no member %s", id)
}

// isWhole: all components, the voter among them, are proven healthy.
func isWhole(o plan.Observed, m plan.Machine) bool {
	for _, c := range m.Components {
		if c.Health != plan.Healthy {
			return false
		}
	}
	if len(m.Components) == 0 {
		return false
	}
	return votesWell(o, m)
}

// votesWell: the voter on a machine is proven healthy, or there should be none.
func votesWell(o plan.Observed, m plan.Machine) bool {
	if !ours(o.Etcd) {
		return true
	}
	for _, e := range o.Etcd.Members {
		if e.Machine == m.Name && !e.Learner && e.Health == plan.Healthy && !isCorrupt(e) {
			return true
		}
	}
	return false
}
