// Package buildinfo knows what the running program was built from: its version, the revision of its source, the date of that and the
// version of Go. make sets the first three by the linker; a program that was built otherwise says what Go recorded.
package buildinfo

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// What make sets with -ldflags -X; internal/release names these variables. They are empty in tests and with a plain go build.
var (
	version  string
	revision string
	date     string
)

// Unknown is the version of a program that was not told one.
const Unknown = "(devel)"

// Info says what a program was built from.
type Info struct {
	Version  string // v0.1.0; Unknown where none was set
	Revision string // of the source, as git has it, with -dirty where files differed from it; empty: not known
	Date     string // when that revision was committed, as in RFC 3339, in UTC; empty: not known
	Go       string // go1.26.0
}

// Get returns what this program was built from.
func Get() Info {
	recorded, ok := debug.ReadBuildInfo()
	if !ok {
		recorded = &debug.BuildInfo{}
	}
	return Info{Version: version, Revision: revision, Date: date, Go: runtime.Version()}.or(recorded)
}

// or returns i with what Go recorded where the linker set nothing.
func (i Info) or(recorded *debug.BuildInfo) Info {
	i.Version = cmp.Or(i.Version, recorded.Main.Version, Unknown)
	for _, s := range recorded.Settings {
		if s.Key == "vcs.revision" {
			i.Revision = cmp.Or(i.Revision, s.Value)
		}
	}
	return i
}

// Line is what a program prints for --version: its name and all that is known.
func (i Info) Line(program string) string {
	words := []string{program, i.Version}
	if i.Revision != "" {
		words = append(words, "revision "+i.Revision)
	}
	if i.Date != "" {
		words = append(words, "of "+i.Date)
	}
	return strings.Join(append(words, i.Go), ", ")
}
