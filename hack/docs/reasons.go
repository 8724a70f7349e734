package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cli/advice"
	"github.com/quorate/quorate/internal/core/plan"
)

// reason is a word that Quorate gives, and what the code says of it; empty: nothing that is for people.
type reason struct {
	word, means string
}

// section is a part of the page: the reasons of one place.
type section struct {
	// id names it in advice.yaml.
	id, title, intro string
	reasons          []reason
	// ends: the page says of each reason what ends the wait.
	ends bool
}

// collect finds all reasons in the sources.
func collect(root string) ([]section, error) {
	var all []section
	for _, of := range []func(string) (section, error){waits, workers, upgrades, joins, localMachines, etcdadmConfigs, conditions} {
		s, err := of(root)
		if err != nil {
			return nil, err
		}
		s.reasons = distinct(s.reasons)
		all = append(all, s)
	}
	return all, nil
}

// distinct sorts reasons, and makes one of those that have one word.
func distinct(all []reason) []reason {
	slices.SortStableFunc(all, func(a, b reason) int { return strings.Compare(a.word, b.word) })
	var kept []reason
	for _, r := range all {
		last := len(kept) - 1
		switch {
		case last < 0 || kept[last].word != r.word:
			kept = append(kept, r)
		case !slices.Contains(strings.Split(kept[last].means, "; "), r.means) && r.means != "":
			kept[last].means = strings.TrimPrefix(kept[last].means+"; "+r.means, "; ")
		}
	}
	return kept
}

// waits are what the rules wait for, and what else a group tells without them: chores, and why it is not looked at.
func waits(root string) (section, error) {
	s := section{id: advice.Waits, ends: true, title: "Control planes and etcd clusters", intro: "Of `status.plan.reason` on a " +
		"KubeadmControlPlane, ControlPlane or EtcdCluster, of `quorate explain`, of " +
		"events and of the label `reason` of metrics, while `status.plan.step` is `Wait`. What it waits for, with names and numbers, is the " +
		"message beside it. The wait for the end of its own step has no event beside that of the step. " +
		"The last column has what a person uses to end it, a choice of [`quorate decide`](decide.md), another command, or a field, and then " +
		"what ends it by itself."}
	steps := map[string]bool{plan.ChoreReason: true} // words of steps that are taken, which need no advice, and the one that stands for others
	for _, r := range plan.Rules() {
		for _, g := range r.Gives {
			if g.Verb == plan.Wait && g.Word != plan.ChoreReason {
				s.reasons = append(s.reasons, reason{g.Word, g.Says})
			}
			steps[g.Word] = steps[g.Word] || g.Verb != plan.Wait
		}
	}
	for _, dir := range []string{"group", "group/observe", "group/act", "group/status", "kinds/stacked", "kinds/machines",
		"kinds/etcdcluster"} {
		path := filepath.Join(root, "internal", dir)
		words, err := written(path, map[string]int{"reportUnmanaged": 2})
		if err != nil {
			return s, err
		}
		files, err := parse(path)
		if err != nil {
			return s, err
		}
		for _, c := range constants(files, nil) {
			if c.name == "CheckFailed" {
				words = append(words, c.value)
			}
		}
		for _, word := range words {
			if !steps[word] {
				s.reasons = append(s.reasons, reason{word: word})
			}
		}
	}
	return s, nil
}

// workers are the reasons of MachineDeployments that are changed in place.
func workers(root string) (section, error) {
	s := section{id: "workers", title: "Workers that are changed in place", intro: "Of the condition `Progressing` of a " +
		"MachineDeploymentUpgrade, and of events of its MachineDeployment."}
	dir := filepath.Join(root, "internal/core/workerplan")
	words, err := written(dir, map[string]int{"wait": 0, "do": 1})
	for _, word := range words {
		s.reasons = append(s.reasons, reason{word: word})
	}
	return s, err
}

// upgrades are the reasons of NodeUpgrades and ControlPlaneUpgrades.
func upgrades(root string) (section, error) {
	s := section{id: "upgrades", title: "Upgrades in place", intro: "Of the condition `Progressing` of a NodeUpgrade or a " +
		"ControlPlaneUpgrade, and of the conditions of a NodeUpgrade's steps. " +
		"`kubectl -n NAMESPACE describe nodeupgrade NAME` shows all."}
	return s, s.fromConstants(filepath.Join(root, "api", "upgrade", "v1alpha1"),
		func(c constant) bool { return strings.HasPrefix(c.of, "Reasons of") })
}

// joins are the causes for which a machine cannot join.
func joins(root string) (section, error) {
	s := section{id: "joins", title: "Machines that cannot join", intro: "Of the condition `BootstrapSucceeded` of a LocalMachine. " +
		"[operating.md](operating.md#a-machine-that-cannot-join) has more."}
	return s, s.fromConstants(filepath.Join(root, "internal/cluster/joinfailure"),
		func(c constant) bool { return strings.HasPrefix(c.of, "The causes") })
}

// localMachines are the reasons of LocalMachines, LocalClusters, and of images that are brought to local machines.
func localMachines(root string) (section, error) {
	s := section{id: "local", title: "Local machines and clusters", intro: "Of the conditions of LocalMachines and LocalClusters (`quorate " +
		"up`), and of `ImagesAvailable` of a NodeUpgrade."}
	if err := s.fromConstants(filepath.Join(root, "api", "infrastructure", "v1alpha1"), isReason); err != nil {
		return s, err
	}
	return s, s.fromConstants(filepath.Join(root, "internal/local/provider"),
		func(c constant) bool { return strings.HasPrefix(c.name, "images") && strings.Contains(c.of, "easons") })
}

// etcdadmConfigs are the reasons of EtcdadmConfigs.
func etcdadmConfigs(root string) (section, error) {
	s := section{id: "etcdadm", title: "EtcdadmConfigs", intro: "Of the conditions `DataSecretAvailable` and `CertificatesAvailable` of an " +
		"EtcdadmConfig."}
	return s, s.fromConstants(filepath.Join(root, "api", "bootstrap", "v1alpha1"), isReason)
}

func isReason(c constant) bool { return strings.HasSuffix(c.name, "Reason") }

// fromConstants adds the constants of a folder that are reasons.
func (s *section) fromConstants(dir string, is func(constant) bool) error {
	files, err := parse(dir)
	if err != nil {
		return err
	}
	for _, c := range constants(files, nil) {
		if is(c) {
			s.reasons = append(s.reasons, reason{c.value, c.meaning()})
		}
	}
	if len(s.reasons) == 0 {
		return fmt.Errorf("%s has no reasons", dir)
	}
	return nil
}

// conditions are the reasons that Cluster API has a word for, and that Quorate writes.
func conditions(root string) (section, error) {
	s := section{id: advice.Conditions, title: "Conditions", intro: "Of other conditions of a KubeadmControlPlane, ControlPlane, " +
		"EtcdCluster, or that these write on their Machines. The words are Cluster API's. " +
		"The condition's type says of what, its message which machine or member."}
	known, err := upstreamConstants(root, "Reason")
	if err != nil {
		return s, err
	}
	for _, dir := range []string{"group", "group/observe", "group/act", "group/status", "kinds/stacked", "kinds/machines", "kinds/etcdcluster",
		"local/provider", "kinds/etcdadm/provider"} {
		words, err := used(filepath.Join(root, "internal", dir), known)
		if err != nil {
			return s, err
		}
		for _, word := range words {
			s.reasons = append(s.reasons, reason{word: word})
		}
	}
	return s, nil
}
