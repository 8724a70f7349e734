package forecast

import (
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/version"
)

// Minor versions here are those of etcd 3.

// tellsStorage is the first version whose members tell of which version their data are.
const tellsStorage = 6

// minor reads the minor version of etcd 3 from a text; 0: there is none.
func minor(text string) int {
	v, err := version.Parse(text)
	if err != nil {
		return 0
	}
	return v.Minor
}

func versionText(minor int) string { return fmt.Sprintf("3.%d.0", minor) }

// dataMinor is the version of a member's data.
func dataMinor(e plan.Member) int {
	if v := minor(e.Storage); v > 0 {
		return v
	}
	return minor(e.Version)
}

// etcdMinor is the version that the data of all members have: the lowest of theirs.
func (w *world) etcdMinor() int {
	lowest := 0
	for _, e := range w.o.Etcd.Members {
		if v := minor(e.Version); v > 0 && (lowest == 0 || v < lowest) {
			lowest = v
		}
	}
	return lowest
}

// versionChange is etcd's bringing its data to another version: that of a downgrade, or the lowest of its members'.
func (w *world) versionChange() (event, bool) {
	to := w.etcdMinor()
	if down := minor(w.o.Etcd.Downgrade); down > 0 {
		to = min(to, down)
	} else if w.holdsVersion() {
		return event{}, false
	}
	for _, e := range w.o.Etcd.Members {
		if v := minor(e.Storage); to > 0 && v > 0 && v != to {
			return event{of: "etcd", what: "changes its version", takes: w.t.Step, happens: func() { w.store(to) }}, true
		}
	}
	return event{}, false
}

// holdsVersion: a member that has not started keeps etcd from going to a newer version.
func (w *world) holdsVersion() bool {
	for _, e := range w.o.Etcd.Members {
		if e.Name == "" {
			return true
		}
	}
	return false
}

// store brings the data of all members that tell of it to a version.
func (w *world) store(to int) {
	for i := range w.o.Etcd.Members {
		if e := &w.o.Etcd.Members[i]; e.Storage != "" {
			e.Storage = versionText(to)
		}
	}
}
