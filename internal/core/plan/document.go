package plan

import (
	"fmt"
	"strings"
)

// Document writes the rules for people, in Markdown: docs/rules.md.
func Document() string {
	var b strings.Builder
	b.WriteString(`<!-- Generated from internal/core/plan by go generate ./internal/core/plan; edit the rules instead. -->

# The rules

This page lets you look up in which order Quorate decides, and what each rule may answer.

Before every step Quorate observes everything once and asks these rules, from the
top; the first that has something to say decides. Waiting is a decision: a rule
that waits stops all below it. ` + "`quorate explain`" + ` shows what each of them says of
a cluster at this moment, with names and numbers.

| | rule | what it says |
| --- | --- | --- |
`)
	for i, r := range rules {
		fmt.Fprintf(&b, "| %d | [%s](#%s) | %s |\n", i+1, r.name, strings.ReplaceAll(r.name, " ", "-"), r.says)
	}
	for _, r := range rules {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| reason | step | because |\n| --- | --- | --- |\n", r.name, r.says)
		for _, g := range r.gives {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", g.Word, g.Verb, g.Says)
		}
	}
	b.WriteString("\nThe reason " + ChoreReason + " stands for the chore's own: docs/operating.md lists the chores of each kind.\n")
	b.WriteString(patience())
	return b.String()
}

// patience writes how long the rules wait for what.
func patience() string {
	return fmt.Sprintf(`
## Patience

| what | how long |
| --- | --- |
| a member whose machine is gone, failed or leaving, or a learner that has not started since its machine's Node registered | %s |
| a learner that has not started while other machines wait for their turn (three eighths of kubeadm's limit where that is shorter). A voter that does not answer and whose machine is not known | %s |
| voters that do not answer, before the quorum counts as lost | %s |
| a learner that has not started and that blocks no other machine, or that has started and cannot be asked: kubeadm's limit, timeouts.etcdAPICallSeconds of the spec, by default | %s |
| a healthy learner that was not promoted; kubeadm's limit where that is longer | %s |
| a silent voter on a marked machine, neither proven healthy nor dead, before it is replaced as a dead one is | %s |
| a machine without a Node, before it is called late | %s |
| a machine without a member, from its creation or its Node's registration, while kubeadm may still add one and its voter would be missed | %s |
| a machine with a Node whose components are not all healthy, before it is called broken | %s |

A learner that has started and cannot be asked keeps kubeadm's whole limit, also while other machines wait for their turn. A healthy learner cannot be asked
either before the Node of its machine is known, and one that is removed never joins. Random worlds in which it was removed after the turn of 45s lost learners that were about to vote.
`, memberStartTimeout, learnerTurnTimeout, quorumProofTimeout, kubeadmEtcdTimeout, promotionTimeout, silentVoterTimeout, joinTimeout,
		memberAddTimeout, componentsTimeout)
}
