package upgrader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/atomicfile"
	"github.com/quorate/quorate/internal/steps"
)

// flagName is a flag in a program's help.
var flagName = regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-zA-Z0-9-]+)`)

// flagsLine is the line of kubeadm's file with the kubelet's flags.
var flagsLine = regexp.MustCompile(`(?m)^KUBELET_KUBEADM_ARGS="([^"]*)"`)

// stageKubeletFlags stages kubeadm's file with the kubelet's flags as it is to be: with the arguments that are wanted, and without those that go or that the new
// kubelet does not know, with which it would not start.
func (n *node) stageKubeletFlags(ctx context.Context) error {
	target := filepath.Join(n.stage(), kubeletFlags)
	// This step may be repeated, and its pod have been told something else before.
	if err := removeFile(target); err != nil {
		return fmt.Errorf("staging the kubelet's flags: %w", err)
	}
	data, err := os.ReadFile(kubeletFlags)
	if errors.Is(err, fs.ErrNotExist) && len(n.wanted.Kubelet.ExtraArgs) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the kubelet's flags: %w", err)
	}
	kubelet, err := n.program("kubelet")
	if err != nil {
		return err
	}
	help, err := run(ctx, nil, kubelet, "--help")
	if err != nil {
		return err
	}
	file, err := n.kubeletFile(string(data), help)
	if err != nil || file == string(data) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("staging the kubelet's flags: %w", err)
	}
	return atomicfile.Write(target, []byte(file), 0o644)
}

// kubeletFile is kubeadm's file as it is to be, given the help of the new kubelet.
func (n *node) kubeletFile(file, help string) (string, error) {
	known := flagsOfHelp(help)
	if unknown := unknownArgs(n.wanted.Kubelet.ExtraArgs, known); len(unknown) > 0 {
		return "", fmt.Errorf("changing the kubelet's arguments: the kubelet of %s does not know %s", n.wanted.KubernetesVersion, strings.Join(unknown, ", "))
	}
	file, err := withArgs(file, n.wanted.Kubelet, n.journal.KubeletArgs)
	if err != nil {
		return "", err
	}
	file, dropped := knownFlags(file, known)
	if len(dropped) > 0 {
		n.say("the kubelet of %s does not know %s", n.wanted.KubernetesVersion, strings.Join(dropped, ", "))
	}
	return file, nil
}

// flagsOfHelp are the names of the flags that a help names.
func flagsOfHelp(help string) map[string]bool {
	known := map[string]bool{}
	for _, found := range flagName.FindAllStringSubmatch(help, -1) {
		known[found[1]] = true
	}
	return known
}

// unknownArgs are the wanted flags that are not among those that are known. None are known where the help could not be read.
func unknownArgs(wanted []steps.Argument, known map[string]bool) []string {
	var unknown []string
	for _, argument := range wanted {
		if len(known) > 0 && !known[plainName(argument.Name)] {
			unknown = append(unknown, "--"+argument.Name)
		}
	}
	return unknown
}

// plainName is the name of a flag as the help has it.
func plainName(name string) string {
	return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
}

// flagsIn are the flags of a line, each with its value, which may be a word of its own.
func flagsIn(line string) []string {
	var flags []string
	for _, word := range strings.Fields(line) {
		if !strings.HasPrefix(word, "-") && len(flags) > 0 && !strings.Contains(flags[len(flags)-1], "=") {
			flags[len(flags)-1] += " " + word
			continue
		}
		flags = append(flags, word)
	}
	return flags
}

// nameOf is the name of a flag that has dashes and perhaps a value.
func nameOf(flag string) string {
	name, _, _ := strings.Cut(flag, "=")
	name, _, _ = strings.Cut(name, " ")
	return plainName(name)
}

// withFlags is kubeadm's file with other flags in its line.
func withFlags(file string, line, flags []string) string {
	return strings.Replace(file, line[0], `KUBELET_KUBEADM_ARGS="`+strings.Join(flags, " ")+`"`, 1)
}

// withArgs returns kubeadm's file with the wanted arguments, in the order in which kubeadm writes arguments, behind the flags that stay. Those that an earlier upgrade gave go as
// well. A file that has all this stays as it is, whatever its order.
func withArgs(file string, wanted steps.KubeletArguments, earlier []string) (string, error) {
	if wanted.IsZero() {
		return file, nil
	}
	line := flagsLine.FindStringSubmatch(file)
	if line == nil {
		if len(wanted.ExtraArgs) == 0 {
			return file, nil
		}
		return "", fmt.Errorf("changing the kubelet's arguments: %s has no line with KUBELET_KUBEADM_ARGS", kubeletFlags)
	}
	gone := map[string]bool{}
	for _, name := range slices.Concat(wanted.RemovedArgs, earlier) {
		gone[plainName(name)] = true
	}
	var extra []string
	for _, argument := range wanted.ExtraArgs {
		gone[plainName(argument.Name)] = true
		flag := "--" + argument.Name + "=" + argument.Value
		if strings.ContainsAny(flag, "\"'\\ \t\r\n") {
			return "", fmt.Errorf("changing the kubelet's arguments: the value of --%s has spaces, quotes or backslashes, which %s cannot hold", argument.Name, kubeletFlags)
		}
		extra = append(extra, flag)
	}
	slices.Sort(extra)
	before := flagsIn(line[1])
	after := slices.DeleteFunc(slices.Clone(before), func(flag string) bool { return gone[nameOf(flag)] })
	after = append(after, extra...)
	if slices.Equal(slices.Sorted(slices.Values(before)), slices.Sorted(slices.Values(after))) {
		return file, nil
	}
	return withFlags(file, line, after), nil
}

// knownFlags returns kubeadm's file without the flags that are not known, and these.
func knownFlags(file string, known map[string]bool) (kept string, dropped []string) {
	line := flagsLine.FindStringSubmatch(file)
	if line == nil || len(known) == 0 {
		return file, nil
	}
	var flags []string
	for _, flag := range flagsIn(line[1]) {
		if strings.HasPrefix(flag, "--") && !known[nameOf(flag)] {
			dropped = append(dropped, "--"+nameOf(flag))
			continue
		}
		flags = append(flags, flag)
	}
	if len(dropped) == 0 {
		return file, nil
	}
	return withFlags(file, line, flags), dropped
}
