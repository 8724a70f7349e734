package release

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// goEnvironment is where Go keeps what licences are read from.
type goEnvironment struct{ GOMODCACHE, GOROOT string }

// askGo asks the Go that builds a module.
func askGo(ctx context.Context, root string) (goEnvironment, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "-json", "GOMODCACHE", "GOROOT")
	cmd.Dir = root
	var e goEnvironment
	out, err := cmd.Output()
	if err != nil {
		return e, fmt.Errorf("asking Go for its folders: %w", err)
	}
	if err := json.Unmarshal(out, &e); err != nil {
		return e, fmt.Errorf("asking Go for its folders: %w", err)
	}
	return e, nil
}

// decided is the part of the environment that decides what Go builds: the user's own must not.
var decided = []string{"GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=",
	"GODEBUG=", "GOFIPS140=off"}

// Build builds a static program of the module in root for Linux on an architecture. Neither a path of this host nor the state of a
// repository gets into it. Stamp is what the linker sets: variable to value.
func Build(ctx context.Context, root, command, file, arch string, stamp map[string]string) error {
	flags := "-s -w -buildid="
	for _, variable := range slices.Sorted(maps.Keys(stamp)) {
		flags += " -X " + variable + "=" + stamp[variable]
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("building %s: %w", command, err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", flags, "-o", file,
		command)
	cmd.Dir = root
	cmd.Env = append(append(os.Environ(), decided...), "GOARCH="+arch, "PWD="+root)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s for %s: %w: %s", command, arch, err, strings.TrimSpace(said.String()))
	}
	return nil
}
