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

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/atomicfile"
	"github.com/quorate/quorate/internal/program/envfile"
)

// flagName is a flag in a program's help.
var flagName = regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-zA-Z0-9-]+)`)

// flagsVariable is the variable of kubeadm's file with the kubelet's flags. systemd reads the file, and splits the value into words.
const flagsVariable = "KUBELET_KUBEADM_ARGS"

// stageKubeletFlags stages kubeadm's file with the kubelet's flags as it is to be. It has the arguments that are wanted, and not those
// that go, or with which the new kubelet would not start.
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
		return "", fmt.Errorf("changing the kubelet's arguments: the kubelet of %s does not know %s", n.wanted.KubernetesVersion,
			strings.Join(unknown, ", "))
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

// kubeletFlag is a flag of the kubelet: the word, or the two words, that systemd makes of it, and how these stand in the file.
type kubeletFlag struct{ raw, text string }

// flagsIn are the flags of a value, each with its own value, which may be a word of its own.
func flagsIn(value string) []kubeletFlag {
	var flags []kubeletFlag
	for _, word := range envfile.Words(value) {
		last := len(flags) - 1
		if !strings.HasPrefix(word.Text, "-") && last >= 0 && !strings.Contains(flags[last].text, "=") {
			flags[last].raw += " " + word.Raw
			flags[last].text += " " + word.Text
			continue
		}
		flags = append(flags, kubeletFlag{raw: word.Raw, text: word.Text})
	}
	return flags
}

// name is the name of a flag that has dashes and perhaps a value.
func (f kubeletFlag) name() string {
	name, _, _ := strings.Cut(f.text, "=")
	name, _, _ = strings.Cut(name, " ")
	return plainName(name)
}

// value is the value of a flag; empty: it has none.
func (f kubeletFlag) value() string {
	if at := strings.IndexAny(f.text, "= "); at >= 0 {
		return f.text[at+1:]
	}
	return ""
}

// withFlags is kubeadm's file with other flags in its value. Each stands there as it did.
func withFlags(file string, flags []kubeletFlag) string {
	raw := make([]string, len(flags))
	for i, f := range flags {
		raw[i] = f.raw
	}
	after, _ := envfile.Set(file, flagsVariable, strings.Join(raw, " "))
	return after
}

// withArgs returns kubeadm's file with the wanted arguments, in the order in which kubeadm writes arguments, behind the flags that stay.
// Those that an earlier upgrade gave go as well. A file that has all this stays as it is, whatever its order.
func withArgs(file string, wanted steps.KubeletArguments, earlier []string) (string, error) {
	if wanted.IsZero() {
		return file, nil
	}
	value, found := envfile.Get(file, flagsVariable)
	if !found {
		if len(wanted.ExtraArgs) == 0 {
			return file, nil
		}
		return "", fmt.Errorf("changing the kubelet's arguments: %s does not set %s", kubeletFlags, flagsVariable)
	}
	gone := map[string]bool{}
	for _, name := range slices.Concat(wanted.RemovedArgs, earlier) {
		gone[plainName(name)] = true
	}
	var extra []kubeletFlag
	for _, argument := range wanted.ExtraArgs {
		gone[plainName(argument.Name)] = true
		text := "--" + argument.Name + "=" + argument.Value
		if strings.ContainsAny(text, "\"'\\ \t\r\n") {
			return "", fmt.Errorf("changing the kubelet's arguments: the value of --%s has spaces, quotes or backslashes, "+
				"which kubeadm writes into %s without quotes", argument.Name, kubeletFlags)
		}
		extra = append(extra, kubeletFlag{raw: text, text: text})
	}
	slices.SortFunc(extra, byText)
	before := flagsIn(value)
	after := slices.DeleteFunc(slices.Clone(before), func(f kubeletFlag) bool { return gone[f.name()] })
	after = append(after, extra...)
	if sameFlags(before, after) {
		return file, nil
	}
	return withFlags(file, after), nil
}

func byText(a, b kubeletFlag) int { return strings.Compare(a.text, b.text) }

// sameFlags reports whether the kubelet gets the same flags, in whatever order and however they are quoted.
func sameFlags(a, b []kubeletFlag) bool {
	first, second := slices.SortedFunc(slices.Values(a), byText), slices.SortedFunc(slices.Values(b), byText)
	return slices.EqualFunc(first, second, func(a, b kubeletFlag) bool { return a.text == b.text })
}

// knownFlags returns kubeadm's file without the flags that are not known, and these.
func knownFlags(file string, known map[string]bool) (kept string, dropped []string) {
	value, found := envfile.Get(file, flagsVariable)
	if !found || len(known) == 0 {
		return file, nil
	}
	var flags []kubeletFlag
	for _, f := range flagsIn(value) {
		if strings.HasPrefix(f.text, "--") && !known[f.name()] {
			dropped = append(dropped, "--"+f.name())
			continue
		}
		flags = append(flags, f)
	}
	if len(dropped) == 0 {
		return file, nil
	}
	return withFlags(file, flags), dropped
}
