package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/core/programs"
)

// gated are the programs with the feature gates of Kubernetes.
var gated = []string{programs.APIServer, programs.ControllerManager, programs.Scheduler, programs.Kubelet}

// gate is a line of a program's help on feature gates.
var gate = regexp.MustCompile(`\b([A-Z][A-Za-z0-9]+)=true\|false`)

// gateNames collects the names of feature gates that programs of a version may take. They come from its sources and from the help of the
// programs, which has no locked gates. Locked ones of client-go come from other tables.
func gateNames(kubernetes string, of map[string]string) ([]string, error) {
	names, err := sourceGates(kubernetes)
	if err != nil {
		return nil, err
	}
	for _, name := range gated {
		help, err := helpOf(of[name])
		if err != nil {
			return nil, err
		}
		for _, found := range gate.FindAllStringSubmatch(help, -1) {
			names = append(names, found[1])
		}
	}
	for _, minor := range programs.Known() {
		for list, gates := range programs.Of(fmt.Sprintf("v1.%d.0", minor)) {
			if strings.HasPrefix(list, programs.Gates) {
				names = slices.AppendSeq(names, maps.Keys(gates))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// sourceGates reads the names of feature gates from the sources of a version.
func sourceGates(kubernetes string) ([]string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+kubernetes).Output()
	var module struct{ Dir string }
	if err = errors.Join(err, json.Unmarshal(out, &module)); err != nil {
		return nil, fmt.Errorf("fetching the sources: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "test/compatibility_lifecycle/reference/versioned_feature_list.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the feature gates: %w", err)
	}
	var features []struct {
		Name string `json:"name"`
	}
	if err := yaml.Unmarshal(text, &features); err != nil {
		return nil, fmt.Errorf("reading the feature gates: %w", err)
	}
	names := []string{"AllAlpha", "AllBeta"}
	for _, f := range features {
		names = append(names, f.Name)
	}
	return names, nil
}

var (
	unrecognized = regexp.MustCompile(`unrecognized feature gate: (\w+)|cannot set feature gate (\w+) to \w+, feature is PreAlpha`)
	locked       = regexp.MustCompile(`cannot set feature gate (\w+) to \w+, feature is locked to (true|false)`)
)

// noGate is a gate of no program: one that takes it does not judge gates before it ends.
const noGate = "QuorateHasNoSuchGate"

// gatesOf asks a program which feature gates of some names it takes, and to which values it has locked them.
func gatesOf(path string, names []string) (map[string]string, error) {
	gates := map[string]string{noGate: ""}
	for _, name := range names {
		gates[name] = ""
	}
	out := ""
	for found := [][]string{nil}; len(found) > 0; {
		var err error
		if out, err = setGates(path, gates, "true"); err != nil {
			return nil, err
		}
		found = unrecognized.FindAllStringSubmatch(out, -1)
		for _, match := range found {
			name := match[1] + match[2]
			if _, has := gates[name]; !has {
				return nil, fmt.Errorf("%s names a feature gate that was not set: %s", path, name)
			}
			delete(gates, name)
		}
	}
	if _, has := gates[noGate]; has {
		return nil, fmt.Errorf("%s takes any feature gate: %s", path, out)
	}
	off, err := setGates(path, gates, "false")
	if err != nil {
		return nil, err
	}
	for _, match := range locked.FindAllStringSubmatch(out+off, -1) {
		gates[match[1]] = match[2]
	}
	return gates, nil
}

// setGates starts a program with feature gates and returns what it prints. It ends by itself, because it has no etcd, no kubeconfig or no
// configuration.
func setGates(path string, gates map[string]string, value string) (string, error) {
	folder, err := os.MkdirTemp("", "programs-")
	if err != nil {
		return "", fmt.Errorf("creating a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	var settings []string
	for name := range gates {
		settings = append(settings, name+"="+value)
	}
	args := []string{"--feature-gates=" + strings.Join(settings, ",")}
	switch filepath.Base(path) {
	case programs.APIServer:
		args = append(args, "--cert-dir="+folder)
	case programs.Kubelet:
		args = append(args, "--config="+filepath.Join(folder, "none"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, path, args...)
	c.Dir, c.Env = folder, []string{}
	out, err := c.CombinedOutput()
	if failed := (&exec.ExitError{}); !errors.As(err, &failed) || ctx.Err() != nil {
		return "", fmt.Errorf("%s did not refuse to start: %w", path, errors.Join(err, ctx.Err()))
	}
	return string(out), nil
}

// share writes the feature gates of programs to a table: those that all have, with the same value, to one list, and the others to lists of
// their own.
func share(t programs.Table, gates map[string]map[string]string) {
	t[programs.Gates] = map[string]string{}
	for program, of := range gates {
		for name, only := range of {
			list := programs.Gates
			for _, other := range gates {
				if value, has := other[name]; !has || value != only {
					list = programs.OnlyGates(program)
				}
			}
			if t[list] == nil {
				t[list] = map[string]string{}
			}
			t[list][name] = only
		}
	}
}
