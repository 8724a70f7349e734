package report

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/cli/advice"
	"github.com/quorate/quorate/internal/core/plan"
)

// Level is how urgently a cluster needs a person, the most urgent first.
type Level int

// The levels.
const (
	QuorumLost Level = iota
	Broken
	Unknown
	ForPerson
	AtRisk
	Working
	AsWanted
)

// words are the levels' names for people.
var words = map[Level]string{
	QuorumLost: "Quorum lost", Broken: "Broken", Unknown: "Unknown", ForPerson: "Waits for a person", AtRisk: "At risk",
	Working: "Working", AsWanted: "As wanted",
}

// String is the level's name for people.
func (l Level) String() string { return words[l] }

// Levels are all, the most urgent first.
func Levels() []Level {
	return []Level{QuorumLost, Broken, Unknown, ForPerson, AtRisk, Working, AsWanted}
}

// Standing is how urgently a cluster needs a person, and why.
type Standing struct {
	Level Level
	Why   string
}

// Standing judges the cluster by what is said of it. The most urgent of several reasons counts. What is not known is never as wanted.
func (c Cluster) Standing() Standing {
	for _, of := range []func(Cluster) Standing{lost, broken, unseen, Cluster.ForPerson, weak} {
		if s := of(c); s.Why != "" {
			return s
		}
	}
	if why := c.Missing(); why != "" {
		return Standing{Working, why}
	}
	return Standing{AsWanted, "all is as wanted"}
}

// group is what a control plane and an etcd cluster have in common.
type group struct {
	name     string
	next     Next
	current  bool
	recovery Recovery
}

// groups are the control plane, if there is one, and the etcd clusters.
func (c Cluster) groups() []group {
	var all []group
	if cp := c.ControlPlane; cp.Name != "" {
		all = append(all, group{cp.Name, cp.Next, cp.Current, cp.Recovery})
	}
	for _, e := range c.EtcdClusters {
		all = append(all, group{e.Name, e.Next, e.Current, e.Recovery})
	}
	return all
}

// quorums are those of the control plane's machines and of the etcd clusters that Quorate keeps.
func (c Cluster) quorums() []Etcd {
	var all []Etcd
	if c.Etcd.Managed {
		all = append(all, c.Etcd)
	}
	for _, e := range c.EtcdClusters {
		all = append(all, e.Etcd)
	}
	return all
}

func lost(c Cluster) Standing {
	for _, e := range c.quorums() {
		if e.Known && e.Voters > 0 && e.CanStand < 0 {
			return Standing{QuorumLost, e.Sentence()}
		}
	}
	for _, g := range c.groups() {
		if g.next.Reason == "QuorumLost" {
			return Standing{QuorumLost, cmp.Or(g.next.Message, g.next.Reason)}
		}
	}
	return Standing{}
}

func broken(c Cluster) Standing {
	switch expiry := c.ControlPlane.CertificateExpiry; {
	case c.Deleting:
		return Standing{Working, "the cluster is being deleted"}
	case c.Problem != "":
		return Standing{Broken, c.Problem}
	case c.Phase == "Failed":
		return Standing{Broken, "the phase of the Cluster is Failed"}
	case expiry.Past:
		return Standing{Broken, "the certificate of " + expiry.Component + " on " + expiry.Machine + " has expired"}
	}
	for _, m := range c.Machines() {
		if m.Failed {
			return Standing{Broken, m.Name + " failed: " + m.Waiting}
		}
	}
	for _, e := range c.quorums() {
		if e.Obstacle != "" {
			return Standing{Broken, cmp.Or(e.Why, e.Obstacle)}
		}
	}
	return Standing{}
}

func unseen(c Cluster) Standing {
	if c.ControlPlane.Name == "" {
		return Standing{Unknown, "there is no control plane yet, or none of a kind that Quorate keeps"}
	}
	for _, g := range c.groups() {
		switch {
		case !g.current:
			return Standing{Unknown, "the controller has not seen the newest spec of " + g.name + " yet"}
		case g.next.Step == "":
			return Standing{Unknown, "the controller has reported no step of " + g.name}
		}
	}
	for _, e := range c.quorums() {
		if !e.Known || e.Voters == 0 {
			return Standing{Unknown, "etcd is " + e.Sentence()}
		}
	}
	return Standing{}
}

// ForPerson says what waits for a person; the zero value: nothing is reported that does.
func (c Cluster) ForPerson() Standing {
	for _, g := range c.groups() {
		if a, found := advice.OfWait(g.next.Reason); g.next.Step == string(plan.Wait) && found && a.Ends.OnlyByPerson() {
			return Standing{ForPerson, cmp.Or(g.next.Message, g.next.Reason)}
		}
	}
	if c.Paused {
		return Standing{ForPerson, "the cluster is paused"}
	}
	return Standing{}
}

func weak(c Cluster) Standing {
	for _, e := range c.quorums() {
		// A single voter can never spare one: that is as it is wanted.
		if e.Healthy < e.Voters || e.Voters > 1 && e.CanStand == 0 {
			return Standing{AtRisk, e.Sentence()}
		}
	}
	if expiry := c.ControlPlane.CertificateExpiry; expiry.Soon {
		return Standing{AtRisk, "the certificate of " + expiry.Component + " on " + expiry.Machine + " expires soon"}
	}
	if at := slices.IndexFunc(c.groups(), func(g group) bool { return g.recovery.Wanted && !g.recovery.Current }); at >= 0 {
		return Standing{AtRisk, "no backup of " + c.groups()[at].name + " is verified and current"}
	}
	return Standing{}
}

// Writable reports whether the API can be written now: AsWanted means yes, QuorumLost no, and Unknown that it is not known.
func (c Cluster) Writable() Standing {
	q := c.Quorum()
	switch {
	case (q.Managed || q.Operated) && q.Known && q.Voters > 0 && q.CanStand < 0:
		return Standing{QuorumLost, "etcd has no majority"}
	case c.Problem != "":
		return Standing{Broken, c.Problem}
	case c.ControlPlane.Name == "" || c.Endpoint == "":
		return Standing{Unknown, "there is no API server yet"}
	case !q.Managed:
		return Standing{Unknown, "the API server answers, and its etcd is " + q.Sentence()}
	case !q.Known || q.Voters == 0:
		return Standing{Unknown, "etcd is " + q.Sentence()}
	case q.Obstacle != "": // an alarm may refuse writes, and members that disagree may be two clusters
		return Standing{Unknown, "etcd: " + q.Obstacle}
	}
	return Standing{AsWanted, "the API server answers, and etcd has a majority"}
}
