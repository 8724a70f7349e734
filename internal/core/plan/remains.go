package plan

import (
	"fmt"
	"strings"
	"time"
)

// Remains are what the group's etcd can be recovered from while it has no quorum, or no machine is left. They decide nothing: a wait for a
// person tells them.
type Remains struct {
	// Recoverable: the group's etcd can be recovered by a seed. Otherwise nothing is told.
	Recoverable bool `json:"recoverable,omitempty"`
	// Survivor is the member with the newest data of those that answer; the zero value: none does.
	Survivor Survivor `json:"survivor,omitzero"`
	// Survivors is how many members answer.
	Survivors int `json:"survivors,omitempty"`
	// Backup is the newest verified backup that is known; the zero value: none is.
	Backup StoredBackup `json:"backup,omitzero"`
	// SeenRevision is the highest revision that a member told while etcd had a quorum, and Seen when; zero: none is remembered.
	SeenRevision int       `json:"seenRevision,omitempty"`
	Seen         time.Time `json:"seen,omitzero"`
	// ForwardOnly: members are reached through the cluster's API server alone, which answers nothing without a quorum.
	ForwardOnly bool `json:"forwardOnly,omitempty"`
}

// Survivor is a member that answers, although etcd has no quorum.
type Survivor struct {
	// Machine is the one that it runs on, or else the member's name.
	Machine string `json:"machine,omitempty"`
	// Term is the raft term, Entry the last entry of the log that its data contains, and Revision the revision of its keys.
	Term     int `json:"term,omitempty"`
	Entry    int `json:"entry,omitempty"`
	Revision int `json:"revision,omitempty"`
}

// StoredBackup is a verified backup in the store.
type StoredBackup struct {
	Name string `json:"name,omitempty"`
	// Taken is when it was taken, and Revision the revision of etcd that it holds.
	Taken    time.Time `json:"taken,omitzero"`
	Revision int       `json:"revision,omitempty"`
}

// lost is the state of a group that may have lost its etcd.
type lost struct{ *state }

// ifLost says what the group can be recovered from if its machines are lost: no member of etcd answers that could tell.
func (s lost) ifLost() string {
	told := s.recovery()
	if told == "" || s.Etcd.Known {
		return ""
	}
	return "; if the machines, or the data of a majority of them, are lost" + strings.Replace(told, ";", ":", 1)
}

// recovery says what the group's etcd can be recovered from, and what would be lost. It begins with "; ", or is empty where nothing can be.
func (s lost) recovery() string {
	r := s.Remains
	if !r.Recoverable || !s.Etcd.Ours() {
		return ""
	}
	var text strings.Builder
	if r.ForwardOnly {
		text.WriteString("; no member can be read: etcd is reached through the API server alone (--etcd-forward-only), " +
			"and without a quorum that answers nothing")
	}
	var from []string
	if s := r.Survivor; s.Machine != "" {
		of := ""
		if r.Survivors > 1 {
			of = fmt.Sprintf("the newest of %d that answer; ", r.Survivors)
		}
		from = append(from, fmt.Sprintf("the etcd member on %s (%sterm %d, entry %d, revision %d%s)",
			s.Machine, of, s.Term, s.Entry, s.Revision, r.behind(s.Revision)))
	}
	if b := r.Backup; b.Name != "" {
		from = append(from, fmt.Sprintf("backup %s, verified, taken at %s (revision %d%s)",
			b.Name, timeText(b.Taken), b.Revision, r.behind(b.Revision)))
	}
	if len(from) == 0 {
		text.WriteString("; nothing is known to recover from: no member answers, and there is no verified backup")
	} else {
		fmt.Fprintf(&text, "; recovery is possible from %s, and loses every later write: quorate recover", strings.Join(from, ", or from "))
	}
	if r.ForwardOnly {
		text.WriteString("; or let the manager reach port 2379 of a machine whose etcd runs, without --etcd-forward-only")
	}
	return text.String()
}

// behind says how far a revision is behind the highest that was seen.
func (r Remains) behind(revision int) string {
	switch {
	case r.Seen.IsZero():
		return "; how far the others were is not known"
	case revision >= r.SeenRevision:
		return fmt.Sprintf("; no newer one was seen, last at %s", timeText(r.Seen))
	}
	return fmt.Sprintf(", %d behind the last that was seen, at %s", r.SeenRevision-revision, timeText(r.Seen))
}
