package upgrader

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/steps"
)

const kubeletHelp = "Flags:\n      --container-runtime-endpoint string   a\n      --max-pods int32   b\n  -v, --v Level   c\n      " +
	"--register-with-taints x   d\n"

// told is what an upgrade is told of arguments: name=value sets one, and a name alone removes it.
func told(args ...string) (k steps.KubeletArguments) {
	for _, argument := range args {
		name, value, set := strings.Cut(argument, "=")
		if set {
			k.ExtraArgs = append(k.ExtraArgs, steps.Argument{Name: name, Value: value})
		} else {
			k.RemovedArgs = append(k.RemovedArgs, name)
		}
	}
	return k
}

// TestKubeletFile: wanted arguments come, those that go or were given by an earlier upgrade do so, and kubeadm's own stay, as does what
// others wrote. Repeated, nothing changes.
func TestKubeletFile(t *testing.T) {
	line := func(flags string) string { return "# a comment\nKUBELET_KUBEADM_ARGS=\"" + flags + "\"\nOTHER=1\n" }
	for name, test := range map[string]struct {
		has     string
		wanted  steps.KubeletArguments
		earlier []string
		want    string
	}{
		"nothing is said": {"--v=1 --max-pods=3", steps.KubeletArguments{}, []string{"v"}, "--v=1 --max-pods=3"},
		"one more": {"--container-runtime-endpoint=unix:///c.sock", told("max-pods=3"), nil,
			"--container-runtime-endpoint=unix:///c.sock --max-pods=3"},
		"another value": {"--container-runtime-endpoint=c --max-pods=3 --v=2", told("max-pods=4"), nil,
			"--container-runtime-endpoint=c --v=2 --max-pods=4"},
		"one goes":                   {"--container-runtime-endpoint=c --max-pods=3", told("max-pods"), nil, "--container-runtime-endpoint=c"},
		"one that is not there goes": {"--container-runtime-endpoint=c", told("max-pods"), nil, "--container-runtime-endpoint=c"},
		"of an earlier upgrade": {"--container-runtime-endpoint=c --v=2 --max-pods=3", told("max-pods=3"), []string{"v", "max-pods"},
			"--container-runtime-endpoint=c --max-pods=3"},
		"twice": {"--container-runtime-endpoint=c --max-pods=1", told("max-pods=3", "max-pods=2"), nil,
			"--container-runtime-endpoint=c --max-pods=2 --max-pods=3"},
		"one of two goes": {"--container-runtime-endpoint=c --max-pods=2 --max-pods=3", told("max-pods=3"), nil,
			"--container-runtime-endpoint=c --max-pods=3"},
		"there, in another order": {"--max-pods=3 --container-runtime-endpoint=c", told("max-pods=3"), nil,
			"--max-pods=3 --container-runtime-endpoint=c"},
		"its value is a word": {"--max-pods 3 --container-runtime-endpoint c -v 2", told("max-pods=4"), nil,
			"--container-runtime-endpoint c -v 2 --max-pods=4"},
		"written in another way": {"--max_pods=3 --container-runtime-endpoint=c", told("max-pods=4"), nil,
			"--container-runtime-endpoint=c --max-pods=4"},
		"beside one not known": {"--pod-infra-container-image pause:3 --container-runtime-endpoint=c", told("v=4"), nil,
			"--container-runtime-endpoint=c --v=4"},
		"a value with an equals sign": {"--container-runtime-endpoint=c", told("register-with-taints=a=b:NoSchedule"), nil,
			"--container-runtime-endpoint=c --register-with-taints=a=b:NoSchedule"},
		"no flags": {"", told("v="), nil, "--v="},
	} {
		n := &node{wanted: steps.Wanted{KubernetesVersion: "v1.36.3", Kubelet: test.wanted}, journal: steps.Journal{KubeletArgs: test.earlier},
			out: &strings.Builder{}}
		got, err := n.kubeletFile(line(test.has), kubeletHelp)
		if got != line(test.want) || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
		if again, err := n.kubeletFile(got, kubeletHelp); again != got || err != nil {
			t.Errorf("%s, again: %q, %v", name, again, err)
		}
	}
}

// TestKubeletFileQuoted: arguments that somebody quoted, as kubeadm escapes them and systemd reads them, reach the kubelet as before,
// whatever comes and goes beside them.
func TestKubeletFileQuoted(t *testing.T) {
	const help = kubeletHelp + "      --eviction-hard x   e\n      --node-ip x   f\n"
	const quoted, other = `--eviction-hard="imagefs.available<5%,memory.available<1Gi"`, `--node-ip='10.0.0.1'`
	for name, test := range map[string]struct {
		has    []string
		wanted steps.KubeletArguments
		want   []string
	}{
		"one more, behind quotes": {[]string{"--max-pods=3", quoted}, told("v=4"), []string{"--max-pods=3", quoted, "--v=4"}},
		"one more, before them":   {[]string{quoted, "--max-pods=110"}, told("v=4"), []string{quoted, "--max-pods=110", "--v=4"}},
		"quotes with a blank":     {[]string{`--eviction-hard="a, b"`, other}, told("v=4"), []string{`--eviction-hard="a, b"`, other, "--v=4"}},
		"the quoted one goes":     {[]string{quoted, other}, told("eviction-hard"), []string{other}},
		"it gets another value":   {[]string{other, quoted}, told("eviction-hard=a<1"), []string{other, "--eviction-hard=a<1"}},
		"another is not known":    {[]string{quoted, "--gone=1", "--max-pods=110"}, told("v"), []string{quoted, "--max-pods=110"}},
		"a quoted value is there": {[]string{`--max-pods="3"`, quoted}, told("max-pods=3"), []string{`--max-pods="3"`, quoted}},
		"all of it in quotes":     {[]string{`"--max-pods=3"`, "--v 2"}, told("max-pods"), []string{"--v 2"}},
		"nothing is changed":      {[]string{quoted}, told("v"), []string{quoted}},
	} {
		n := &node{wanted: steps.Wanted{KubernetesVersion: "v1.36.3", Kubelet: test.wanted}, out: &strings.Builder{}}
		got, err := n.kubeletFile(flagsFile(test.has...), help)
		if want := flagsFile(test.want...); got != want || err != nil {
			t.Errorf("%s: %v\ngot  %swant %s", name, err, got, want)
		}
	}
	n := &node{wanted: steps.Wanted{Kubelet: told("v=4")}, out: &strings.Builder{}}
	for has, want := range map[string]string{
		"KUBELET_KUBEADM_ARGS=--max-pods=3 --v=1\n":    "KUBELET_KUBEADM_ARGS=\"--max-pods=3 --v=4\"\n",
		"KUBELET_KUBEADM_ARGS='--max-pods=3'\nB=c\n":   "KUBELET_KUBEADM_ARGS=\"--max-pods=3 --v=4\"\nB=c\n",
		" KUBELET_KUBEADM_ARGS = \"--max-pods=3\"\n":   " KUBELET_KUBEADM_ARGS=\"--max-pods=3 --v=4\"\n",
		"#KUBELET_KUBEADM_ARGS=\"\"\n" + flagsFile(""): "#KUBELET_KUBEADM_ARGS=\"\"\n" + flagsFile("--v=4"),
	} {
		if got, err := n.kubeletFile(has, help); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", has, got, err, want)
		}
	}
}

// flagsFile is the file that kubeadm writes: with Go's %q (cmd/kubeadm/app/phases/kubelet/flags.go).
func flagsFile(flags ...string) string {
	return fmt.Sprintf("KUBELET_KUBEADM_ARGS=%q\n", strings.Join(flags, " "))
}

// TestKubeletFileRefused: what the new kubelet would not start with is refused before anything is interrupted.
func TestKubeletFileRefused(t *testing.T) {
	for name, test := range map[string]struct {
		file   string
		wanted steps.KubeletArguments
		want   string
	}{
		"not known":  {"KUBELET_KUBEADM_ARGS=\"\"\n", told("max-pods=3", "shiny=1", "v=2"), "the kubelet of v1.36.3 does not know --shiny"},
		"no line":    {"OTHER=1\n", told("max-pods=3"), "does not set KUBELET_KUBEADM_ARGS"},
		"two words":  {"KUBELET_KUBEADM_ARGS=\"\"\n", told("max-pods=3 4"), "--max-pods has spaces"},
		"quoted":     {"KUBELET_KUBEADM_ARGS=\"\"\n", told(`max-pods="3"`), "--max-pods has spaces"},
		"its secret": {"KUBELET_KUBEADM_ARGS=\"\"\n", told("v=hunter2 x"), "--v has spaces"},
	} {
		n := &node{wanted: steps.Wanted{KubernetesVersion: "v1.36.3", Kubelet: test.wanted}, out: &strings.Builder{}}
		got, err := n.kubeletFile(test.file, kubeletHelp)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") || got != "" {
			t.Errorf("%s: %q, %v; want %s", name, got, err, test.want)
		}
	}
	n := &node{wanted: steps.Wanted{Kubelet: told("max-pods")}, out: &strings.Builder{}}
	if got, err := n.kubeletFile("OTHER=1\n", kubeletHelp); got != "OTHER=1\n" || err != nil {
		t.Errorf("nothing is there to go: %q, %v", got, err)
	}
	n.wanted.Kubelet = told("shiny=1")
	if got, err := n.kubeletFile("KUBELET_KUBEADM_ARGS=\"\"\n", "no flags"); !strings.Contains(got, "--shiny=1") || err != nil {
		t.Errorf("a help that names no flags: %q, %v", got, err)
	}
}
