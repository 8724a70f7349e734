package plan

import "strings"

func hold(s *state) opinion {
	if s.Group.Paused {
		return wait("Paused", "the cluster or %s is paused", s.Group.Name)
	}
	return pass("neither the cluster nor %s is paused", s.Group.Name)
}

// deleteGroup deletes the group. Members are left alone once the workers are gone:
// the data goes with the last machine in any order.
func deleteGroup(s *state) opinion {
	if !s.Group.Deleting {
		return pass("%s is not being deleted", s.Group.Name)
	}
	if s.Group.Orphaning {
		return wait("Orphaning", "%s is being deleted without its machines, and the garbage collector has not taken it off all of them",
			s.Group.Name)
	}
	if len(s.Workers) > 0 {
		if v := finishRemovals(s); v.decided && (s.isNew() || s.hasQuorum()) {
			return v
		}
		return wait("WorkersRemain", "%s of the cluster must go first: %s", count(len(s.Workers), "other machine"), strings.Join(s.Workers, ", "))
	}
	if v := (gate{s}).waitForLast(); v.decided {
		return v
	}
	for _, m := range s.machines {
		if !m.Deleting {
			return do(Step{Verb: Delete, Machine: m.Name}, "GroupDeleting", "%s is being deleted with all its machines", s.Group.Name)
		}
	}
	for _, m := range s.machines {
		if m.Hook {
			return do(Step{Verb: ReleaseHook, Machine: m.Name}, "GroupDeleting", "%s is being deleted, its etcd members go with their machines",
				s.Group.Name)
		}
	}
	if len(s.machines) > 0 {
		return wait("GroupDeleting", "%s must go first: %s", count(len(s.machines), "machine"), names(s.machines))
	}
	return do(Step{Verb: Finish}, "GroupGone", "all machines of %s are gone", s.Group.Name)
}
