package steps

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/quorate/quorate/internal/core/version"
)

// Brings is what an upgrader's image has beside the programs of Kubernetes, by versions such as v2.4.2. Empty: it does not have it.
type Brings struct {
	// Containerd is that of containerd, its shim and ctr.
	Containerd string `json:"containerd,omitempty"`
	// Runc is that of runc.
	Runc string `json:"runc,omitempty"`
	// CNI is that of the CNI plugins.
	CNI string `json:"cni,omitempty"`
}

// Where the upgrader's image has them.
const (
	// BringsFile says what the image brings: Brings, as JSON.
	BringsFile = "/versions.json"
	// PluginDir is the folder of the CNI plugins.
	PluginDir = "/cni"
)

// RuntimePrograms are those of containerd that a node gets, the daemon first. Runc is another one, of a version of its own.
var RuntimePrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr"}

// RuncProgram is runc.
const RuncProgram = "runc"

// ParseBrings reads what an image brings. Nothing brings nothing.
func ParseBrings(text string) (Brings, error) {
	var b Brings
	if strings.TrimSpace(text) == "" {
		return b, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&b); err != nil {
		return Brings{}, fmt.Errorf(`%q does not say what an upgrader's image brings, such as {"containerd": "v2.4.2", "runc": "v1.3.3", `+
			`"cni": "v1.9.1"}: %w`, text, err)
	}
	for _, v := range []string{b.Containerd, b.Runc, b.CNI} {
		if _, err := version.Parse(v); v != "" && err != nil {
			return Brings{}, fmt.Errorf("what an upgrader's image brings: %w", err)
		}
	}
	return b, nil
}

// numbers are those of a version, wherever it stands in what a program or a Node says of itself.
var numbers = regexp.MustCompile(`\bv?(\d+\.\d+\.\d+)`)

// SaidVersion is the version in what a program or a Node says of itself. It is v2.4.2 of "containerd://2.4.2" or "runc version
// 1.3.3-0ubuntu1". What distributions add to a version is not looked at. Empty: it says none.
func SaidVersion(text string) string {
	found := numbers.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return "v" + found[1]
}

// Newer reports whether what an image brings takes the place of what a node has. A node is never taken back; a version that is not known
// counts as older.
func Newer(brings, has string) bool {
	to, err := version.Parse(SaidVersion(brings))
	if err != nil {
		return false
	}
	from, err := version.Parse(SaidVersion(has))
	return err != nil || version.Compare(to, from) > 0
}

// runtimeScheme begins what a Node says of containerd, which is the only runtime that the steps can ask about images and containers.
const runtimeScheme = "containerd://"

// UnfitRuntime says why a node cannot be upgraded in place with the container runtime that its Node names; empty: it can be, or the
// runtime is not known.
func UnfitRuntime(said string) string {
	if said == "" || strings.HasPrefix(said, runtimeScheme) {
		return ""
	}
	return fmt.Sprintf("container runtime %s: must be containerd", said)
}

// changesRuntime reports whether an image may bring something of a node's runtime. Which runc it has the Node does not say.
func (b Brings) changesRuntime(runtime string) bool {
	if !strings.HasPrefix(runtime, runtimeScheme) {
		return false
	}
	return Newer(b.Containerd, runtime) || b.Runc != ""
}
