package plan

import (
	"cmp"
	"strings"
)

// adopt takes over the machines without a controller: all of them, or none.
func adopt(s *state) opinion {
	if len(s.Uncontrolled) == 0 {
		return pass("all control plane machines of the cluster are %s's", s.Group.Name)
	}
	if against := s.contradicted(); len(against) > 0 {
		return pass("not all can be adopted: %s", strings.Join(against, "; "))
	}
	first := s.Uncontrolled[0].Name
	if more := s.adoptable()[1:]; len(more) > 0 {
		return do(Step{Verb: Adopt, Machine: first}, "Adopting",
			"%s has the labels of the control plane and no owner, and so have %s, which follow", first, strings.Join(more, ", "))
	}
	return do(Step{Verb: Adopt, Machine: first}, "Adopting", "%s has the labels of the control plane and no owner", first)
}

// unadoptable waits for a person while a machine cannot be adopted.
func unadoptable(s *state) opinion {
	against := s.contradicted()
	if len(against) == 0 {
		return pass("no machine is in the way that cannot be adopted")
	}
	text := strings.Join(against, "; ")
	if more := s.adoptable(); len(more) > 0 {
		text += "; until then " + strings.Join(more, ", ") + " could be, and wait"
	}
	return wait("CannotAdopt", "control plane machines that %s does not control, and that cannot be adopted: %s; nothing is begun beside them",
		s.Group.Name, text)
}

// contradicted says of each machine that cannot be adopted why.
func (s *state) contradicted() []string {
	var texts []string
	for _, m := range s.Uncontrolled {
		if m.Against != "" {
			texts = append(texts, m.Name+": "+m.Against)
		}
	}
	return texts
}

// adoptable names the machines that nothing contradicts the adoption of.
func (s *state) adoptable() []string {
	var names []string
	for _, m := range s.Uncontrolled {
		if m.Against == "" {
			names = append(names, m.Name)
		}
	}
	return names
}

// isNew: nothing was ever initialised, and there is nothing to lose. A group without
// machines is, however much of it was forgotten.
func (s *state) isNew() bool {
	return s.Group.New || !s.Group.Initialized && len(s.machines) == 0
}

// unseen says why it is not known whether the machines hold a cluster. Until it is,
// none of them may be treated as one that serves no client.
func (s *state) unseen() string {
	why := "none has finished setting itself up"
	if !s.Cluster.Reachable {
		why = "the API server does not answer: " + cmp.Or(s.Cluster.Unreachable, "it was not asked")
	}
	return "whether " + names(s.machines) + " hold a cluster is not recorded, and was not seen yet: " + why +
		"; no machine is taken away before; who knows that there is none deletes the machines, and their pre-terminate hooks"
}
