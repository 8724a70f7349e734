// Command programs writes the table of a version of Kubernetes for internal/core/programs. It has the flags that programs name in their
// help, those that they take without naming them, which other tables have, and the feature gates that each program takes. The artifacts of
// the version must be built: `quorate artifacts build VERSION`.
//
//	go run ./hack/programs VERSION...
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/quorate/quorate/internal/core/programs"
	"github.com/quorate/quorate/internal/local/artifacts"
)

const folder = "internal/core/programs/tables"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

func run(versions []string) error {
	if len(versions) == 0 {
		return errors.New("no VERSION was given: want one such as v1.36.3")
	}
	for _, v := range versions {
		t, err := tableOf(v)
		if err != nil {
			return fmt.Errorf("%s: %w", v, err)
		}
		etcd, err := artifacts.StackedEtcd(v)
		if err != nil {
			return err
		}
		t[programs.Versions] = map[string]string{programs.Etcd: etcd}
		text := fmt.Sprintf("# Written by `go run ./hack/programs %s` from Kubernetes %s and etcd %s.\n%s", v, v, etcd, t)
		if err := write(folder, v, text); err != nil {
			return err
		}
	}
	return nil
}

// write writes the table of a version in place of that of another patch: a minor version has one table.
func write(folder, kubernetes, text string) error {
	others, err := filepath.Glob(filepath.Join(folder, kubernetes[:strings.LastIndex(kubernetes, ".")]+".*.txt"))
	if err != nil {
		return fmt.Errorf("listing tables: %w", err)
	}
	for _, other := range others {
		if err := os.Remove(other); err != nil {
			return fmt.Errorf("deleting the older table: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, kubernetes+".txt"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// tableOf asks the programs of a version.
func tableOf(kubernetes string) (programs.Table, error) {
	t := programs.Table{}
	of, err := builtPrograms(kubernetes)
	if err != nil {
		return nil, err
	}
	for name, path := range of {
		if t[name], err = flagsOf(name, path); err != nil {
			return nil, err
		}
	}
	names, err := gateNames(kubernetes, of)
	if err != nil {
		return nil, err
	}
	gates := map[string]map[string]string{}
	for _, name := range gated {
		if gates[name], err = gatesOf(of[name], names); err != nil {
			return nil, err
		}
	}
	share(t, gates)
	help, err := helpOf(filepath.Join(filepath.Dir(of[programs.APIServer]), "kubeadm"), "init")
	if err != nil {
		return nil, err
	}
	t[programs.KubeadmGates] = map[string]string{}
	for _, found := range gate.FindAllStringSubmatch(help, -1) {
		t[programs.KubeadmGates][found[1]] = ""
	}
	return t, nil
}

// builtPrograms finds the programs of a version in the cache of artifacts.
func builtPrograms(kubernetes string) (map[string]string, error) {
	cache, err := artifacts.Options{}.CacheFolder()
	if err != nil {
		return nil, err
	}
	etcd, err := artifacts.StackedEtcd(kubernetes)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for name, pattern := range map[string]string{
		programs.APIServer: "kubernetes-" + kubernetes + "-*", programs.ControllerManager: "kubernetes-" + kubernetes + "-*",
		programs.Scheduler: "kubernetes-" + kubernetes + "-*", programs.Kubelet: "kubernetes-" + kubernetes + "-*", programs.Etcd: "etcd*-v" +
			etcd + "-*",
	} {
		paths, err := filepath.Glob(filepath.Join(cache, pattern, name))
		if err != nil || len(paths) == 0 {
			return nil, fmt.Errorf("there is no %s in %s: `quorate artifacts build %s` makes it", filepath.Join(pattern, name), cache, kubernetes)
		}
		found[name] = paths[len(paths)-1]
	}
	return found, nil
}

// flagLine begins with the flag that the line is about.
var flagLine = regexp.MustCompile(`(?m)^ +(?:-[a-zA-Z], )?--([A-Za-z0-9][A-Za-z0-9_.-]*)`)

// flagsOf are the flags that a program names, and those of other tables that it takes all the same.
func flagsOf(name, path string) (map[string]string, error) {
	help, err := helpOf(path)
	if err != nil {
		return nil, err
	}
	flags := map[string]string{}
	for _, found := range flagLine.FindAllStringSubmatch(help, -1) {
		flags[found[1]] = ""
	}
	if len(flags) < 20 {
		return nil, fmt.Errorf("%s names only %d flags in its help", name, len(flags))
	}
	for _, minor := range programs.Known() {
		for flag := range programs.Of(fmt.Sprintf("v1.%d.0", minor))[name] {
			if _, has := flags[flag]; !has && takes(path, flag) {
				flags[flag] = ""
			}
		}
	}
	return flags, nil
}

// takes reports whether a program takes a flag: flags are read before the help is written, and one that is not known is an error.
func takes(path, flag string) bool {
	out, _ := exec.Command(path, "--"+flag+"=", "--help").CombinedOutput() // what it says tells, not its exit code
	return !regexp.MustCompile(`unknown flag: --|flag provided but not defined`).Match(out)
}

func helpOf(path string, args ...string) (string, error) {
	out, err := exec.Command(path, append(args, "--help")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("asking %s for its help: %w\n%s", path, err, out)
	}
	return string(out), nil
}
