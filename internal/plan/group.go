package plan

import (
	"slices"
	"strings"
	"time"
)

// Before a kubeconfig expires it is renewed, at leisure or ahead of all else.
const (
	renewSoon = 180 * 24 * time.Hour
	renewNow  = 30 * 24 * time.Hour
)

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
		return wait("Orphaning", "%s is being deleted without its machines, and the garbage collector has not taken it off all of them", s.Group.Name)
	}
	if len(s.Workers) > 0 {
		if v := finishRemovals(s); v.decided && (s.isNew() || s.hasQuorum()) {
			return v
		}
		return wait("WorkersRemain", "%s of the cluster must go first: %s", count(len(s.Workers), "other machine"), strings.Join(s.Workers, ", "))
	}
	for _, m := range s.machines {
		if !m.Deleting {
			return do(Step{Verb: Delete, Machine: m.Name}, "GroupDeleting", "%s is being deleted with all its machines", s.Group.Name)
		}
	}
	for _, m := range s.machines {
		if m.Hook {
			return do(Step{Verb: ReleaseHook, Machine: m.Name}, "GroupDeleting", "%s is being deleted, its etcd members go with their machines", s.Group.Name)
		}
	}
	if len(s.machines) > 0 {
		return wait("GroupDeleting", "%s must go first: %s", count(len(s.machines), "machine"), names(s.machines))
	}
	return do(Step{Verb: Finish}, "GroupGone", "all machines of %s are gone", s.Group.Name)
}

// bootstrapSecrets makes what every machine and every client of the cluster needs.
func bootstrapSecrets(s *state) opinion {
	c := s.Cluster
	if len(s.Uncontrolled) > 0 {
		return pass("nothing is made while there are machines of others")
	}
	if r := s.Want.Refused; r.Reason != "" && s.isNew() {
		return pass("nothing is made for what is refused: %s", r.Message)
	}
	if len(c.MissingCertificates) > 0 && !s.Group.Initialized && len(s.machines) == 0 {
		return do(Step{Verb: Generate}, "CertificatesMissing", "no certificate authority for %s yet", strings.Join(c.MissingCertificates, ", "))
	}
	k := c.Kubeconfig
	switch {
	case s.expiresWithin(renewNow):
		return do(Step{Verb: WriteKubeconfig}, "KubeconfigExpiring", "the kubeconfig is %s", s.validity())
	case k.Exists:
		return pass("the kubeconfig is there, %s", s.validity())
	case c.Endpoint == "":
		return pass("no kubeconfig can be made before the endpoint is known")
	case slices.Contains(c.MissingCertificates, "ca"):
		return pass("no kubeconfig can be made without the authority ca")
	}
	return do(Step{Verb: WriteKubeconfig}, "KubeconfigMissing", "no kubeconfig for %s yet", c.Endpoint)
}

// permitted makes the permissions that kubeadm's certificates rely on.
func (s *state) permitted() opinion {
	if text := s.Cluster.Permissions; text != "" {
		return do(Step{Verb: WritePermissions}, "PermissionsMissing", "kubeadm's certificates rely on it: %s", text)
	}
	return pass("no permission is missing")
}

// maintain renews what is about to expire.
func maintain(s *state) opinion {
	if s.expiresWithin(renewSoon) {
		return do(Step{Verb: WriteKubeconfig}, "KubeconfigExpiring", "the kubeconfig is %s", s.validity())
	}
	if v := s.permitted(); v.decided {
		return v
	}
	if text := s.Cluster.Kubeadm; text != "" && len(s.outdated()) == 0 {
		return do(Step{Verb: WriteKubeadm}, "KubeadmOutdated", "machines read kubeadm's own configuration as they join: %s", text)
	}
	if text := s.Cluster.Addons; text != "" && len(s.outdated()) == 0 {
		return do(Step{Verb: UpdateAddons}, "AddonsOutdated", "%s", text)
	}
	return pass("the kubeconfig is %s", s.validity())
}

// expiresWithin reports whether the kubeconfig is ours, and ends that soon.
func (s *state) expiresWithin(d time.Duration) bool {
	return s.renewable() && !s.Now.Before(s.Cluster.Kubeconfig.Expires.Add(-d))
}

// renewable: the kubeconfig is ours, and it is known when it ends.
func (s *state) renewable() bool {
	k := s.Cluster.Kubeconfig
	return !k.Foreign && !k.Expires.IsZero()
}

// validity writes how long the kubeconfig is valid.
func (s *state) validity() string {
	k := s.Cluster.Kubeconfig
	switch {
	case !k.Exists:
		return "missing"
	case k.Foreign:
		return "made by somebody else"
	case k.Expires.IsZero():
		return "valid for a time that is not known"
	}
	return "valid for " + span(k.Expires.Sub(s.Now))
}
