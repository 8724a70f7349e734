package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/local/artifacts"
)

func newApp() *app {
	return &app{Invocation: command.Invocation{Environment: func(string) string { return "" }}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run is one command line in an empty state folder. It returns what was written to both streams, and the exit code.
func run(t *testing.T, in string, args ...string) (out, errors string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	state := filepath.Join(t.TempDir(), "state")
	environment := func(name string) string {
		if name == "QUORATE_STATE" {
			return state
		}
		return ""
	}
	code = Main(t.Context(), args, command.Streams{In: strings.NewReader(in), Out: &o, Err: &e}, environment)
	if _, err := os.Stat(state); err == nil {
		t.Errorf("%q made the state folder", args)
	}
	return o.String(), e.String(), code
}

// Bad input ends with its own exit code and one line that says what is valid, and changes nothing.
func TestBadInput(t *testing.T) {
	manifest, lonely := filepath.Join(t.TempDir(), "bad.yaml"), filepath.Join("up", "testdata", "lonely.yaml")
	write(t, manifest, "apiVersion: v1\nkind: ConfigMap\n")
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"upp", command.ExitUsage, `unknown command "upp" for "quorate" Did you mean this? up`},
		{"backup now demo --timeout 0s", command.ExitUsage, `invalid --timeout "0s": must be greater than 0`},
		{"backup verify demo", command.ExitUsage, "expected NAME and BACKUP, got 1 arguments"},
		{"backup get demo a b", command.ExitUsage, "expected NAME and BACKUP, got 3 arguments"},
		{"backup list a b", command.ExitUsage, ""},
		{"up --replicas 4", command.ExitUsage, `invalid --replicas "4": must be 1, 3, 5 or 7`},
		{"up --replicas nine", command.ExitUsage, `invalid --replicas "nine": must be a whole number`},
		{"up --bogus", command.ExitUsage, `unknown flag: --bogus; see "quorate up --help"`},
		{"up --name A", command.ExitUsage, `invalid --name "A": must have lower-case letters`},
		{"up --kubernetes-version v1.2.3", command.ExitUsage, "must be " + strings.Join(artifacts.Versions(), " or ")},
		{"up --failure-domains a,a", command.ExitUsage, `invalid --failure-domains "a": must have each name once`},
		{"up --kind TalosControlPlane", command.ExitUsage, `invalid --kind "TalosControlPlane": must be KubeadmControlPlane or ControlPlane`},
		{"up --kind ControlPlane --replicas 2", command.ExitUsage, `invalid --replicas "2": must be 1, 3, 5 or 7`},
		{"up -f x.yaml --kind ControlPlane", command.ExitUsage, "--kind cannot be combined with -f"},
		{"up --network 10.0.0.0/30", command.ExitUsage, `invalid --network "10.0.0.0/30": must be an IPv4 range from /8 to /22`},
		{"up --network fd00::/16", command.ExitUsage, `invalid --network "fd00::/16"`},
		{"up --kubernetes-version v9.9.9", command.ExitUsage, `invalid --kubernetes-version "v9.9.9": must be ` +
			strings.Join(artifacts.Versions(), " or ")},
		{"up --timeout 0s", command.ExitUsage, `invalid --timeout "0s": must be greater than 0`},
		{"up --timeout 1m --wait=false", command.ExitUsage, "--timeout cannot be combined with --wait=false"},
		{"up -o yaml", command.ExitUsage, "--output is for --dry-run"},
		{"up --dry-run -o table", command.ExitUsage, `invalid --output "table": must be yaml or json`},
		{"up --dry-run -o xml", command.ExitUsage, `invalid --output "xml": must be table, json, yaml`},
		{"up -f x.yaml --replicas 3", command.ExitUsage, "--replicas cannot be combined with -f"},
		{"up -f nowhere.yaml", command.ExitUsage, "-f: open nowhere.yaml: no such file"},
		{"up -f " + manifest, command.ExitUsage, "bad.yaml, document 1 has no metadata.name"},
		{"up -f " + lonely, command.ExitUsage, "spec.machineTemplate.spec.infrastructureRef is LocalMachineTemplate nowhere, which is neither " +
			"in the manifests nor applied before"},
		{"up --feature-gates MachineTaints=true", command.ExitUsage,
			`invalid --feature-gates "MachineTaints": must be KubeadmBootstrapFormatIgnition, MachineSet`},
		{"up --feature-gates MachinePool=true", command.ExitUsage, `invalid --feature-gates "MachinePool": it is always false here`},
		{"up --feature-gates MachineTaintPropagation=true --self-managed", command.ExitUsage,
			"--feature-gates is for the management plane on this host"},
		{"up demo", command.ExitUsage, `"quorate up" takes no argument, and "demo" was given`},
		{"status a b", command.ExitUsage, `"b" is one argument too many for "quorate status"`},
		{"status --watch -o json", command.ExitUsage, "--watch cannot be combined with --output json"},
		{"status", command.ExitHost, "there is no environment in"},
		{"explain", command.ExitHost, "`quorate up` makes one"},
		{"explain --observed -o table", command.ExitUsage, "--observed cannot be combined with --output table: must be json or yaml"},
		{"export a b", command.ExitUsage, `"b" is one argument too many for "quorate export"`},
		{"export", command.ExitHost, "there is no environment"},
		{"report a b", command.ExitUsage, `"b" is one argument too many for "quorate report"`},
		{"report", command.ExitHost, "there is no environment"},
		{"report --tail -1", command.ExitUsage, `invalid --tail "-1": must be 0 to 100000`},
		{"report --kubeconfig /nowhere/config", command.ExitFailed, "/nowhere/config: no such file"},
		{"approve a b", command.ExitUsage, `"b" is one argument too many for "quorate approve"`},
		{"approve", command.ExitHost, "there is no environment"},
		{"decide", command.ExitHost, "there is no environment"},
		{"decide demo reboot", command.ExitUsage, `invalid CHOICE "reboot": must be remove-voter, forget-machine`},
		{"plan", command.ExitHost, "there is no environment"},
		{"plan --kubeconfig /nowhere/config", command.ExitFailed, "/nowhere/config: no such file"},
		{"history --kubeconfig /nowhere/config", command.ExitFailed, "/nowhere/config: no such file"},
		{"explain --kubeconfig /nowhere/config", command.ExitFailed, "/nowhere/config: no such file"},
		{"approve --kubeconfig /nowhere/config", command.ExitFailed, "/nowhere/config: no such file"},
		{"status --kubeconfig /nowhere/config", command.ExitFailed, "/nowhere/config: no such file"},
		{"plan a b", command.ExitFailed, `"b" is one argument too many for "quorate plan"`},
		{"plan --bogus", command.ExitFailed, `unknown flag: --bogus; see "quorate plan --help"`},
		{"plan --replicas nine", command.ExitFailed, `invalid --replicas "nine": must be a whole number`},
		{"plan --replicas 0", command.ExitFailed, `invalid --replicas "0": must be 1 or more`},
		{"plan --all demo", command.ExitFailed, "--all cannot be combined with NAME, -f or flags that change a control plane"},
		{"plan --all --in-place=Only", command.ExitFailed, "--all cannot be combined with NAME, -f or flags that change a control plane"},
		{"plan -f x.yaml --kubernetes-version v1.37.2", command.ExitFailed, "-f cannot be combined with flags that change a control plane"},
		{"history", command.ExitHost, "`quorate up` makes one"},
		{"history a b", command.ExitUsage, `"b" is one argument too many for "quorate history"`},
		{"history --limit -1", command.ExitUsage, `invalid --limit "-1": must be 0 or more`},
		{"kubeconfig", command.ExitHost, "there is no environment"},
		{"kubeconfig demo --management", command.ExitUsage, "NAME (demo) cannot be combined with --management"},
		{"kubeconfig --management", command.ExitHost, "there is no environment"},
		{"kubectl get nodes", command.ExitUsage, "is given after --"},
		{"kubectl a b -- get nodes", command.ExitUsage, "is given after --"},
		{"kubectl -- get nodes", command.ExitHost, "there is no environment"},
		{"logs", command.ExitUsage, "expected the name of one machine, or --daemon"},
		{"logs m --daemon", command.ExitUsage, "--daemon takes no machine"},
		{"logs --daemon", command.ExitHost, "there is no environment"},
		{"machine frob", command.ExitUsage, `there is no "quorate machine frob"`},
		{"machine stop", command.ExitUsage, `"quorate machine stop" needs MACHINE`},
		{"machine kill-component m", command.ExitUsage, "expected MACHINE and COMPONENT, got 1 arguments"},
		{"machine kill-component m x", command.ExitUsage, `invalid COMPONENT "x": must be etcd, kube-apiserver`},
		{"machine list", command.ExitHost, "there is no environment"},
		{"shell", command.ExitUsage, `"quorate shell" needs MACHINE`},
		{"shell m ls", command.ExitUsage, "a command is given after --: quorate shell m -- ls"},
		{"logs m --tail -7", command.ExitUsage, `invalid --tail "-7": must be 0 or more`},
		{"down demo --timeout 0s", command.ExitUsage, `invalid --timeout "0s": must be greater than 0`},
		{"down --state=", command.ExitUsage, `invalid --state "": must be the path of a folder`},
		{"down demo --all", command.ExitUsage, "NAME (demo) cannot be combined with --all"},
		{"artifacts frob", command.ExitUsage, `there is no "quorate artifacts frob"`},
		{"artifacts build v1.0.0", command.ExitUsage, `invalid VERSION "v1.0.0": must be v`},
		{"artifacts export", command.ExitUsage, `invalid --to "": must be a file or oci://REGISTRY/REPOSITORY:TAG`},
		{"artifacts export v1.0.0 --to x", command.ExitUsage, `invalid VERSION "v1.0.0": must be v`},
		{"artifacts import", command.ExitUsage,
			`"quorate artifacts import" needs FROM: must be one file, URL, oci://REGISTRY/REPOSITORY:TAG or -`},
		{"artifacts import a b", command.ExitUsage, "needs FROM: must be one"},
		{"version x", command.ExitUsage, "takes no argument"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, errors, code := run(t, "", strings.Fields(tt.args)...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if !strings.HasPrefix(errors, "quorate: ") || !strings.Contains(errors, tt.want) {
				t.Errorf("errors are %q, want %q in them", errors, tt.want)
			}
			if strings.Count(errors, "\n") != 1 {
				t.Errorf("errors have not one line: %q", errors)
			}
			if out != "" {
				t.Errorf("output is %q, want none", out)
			}
		})
	}
}

// Errors that carry no code of their own get it by what they say of the host and of how far the command was.
func TestExitCodes(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		err   error
		ctx   context.Context
		begun bool
		want  int
	}{
		{errors.New("x"), t.Context(), true, command.ExitFailed},
		{errors.New("x"), t.Context(), false, command.ExitUsage},
		{command.Usagef("x"), t.Context(), true, command.ExitUsage},
		{fmt.Errorf("doing: %w", command.Usagef("x")), ended, true, command.ExitUsage},
		{fmt.Errorf("building etcd: %w", artifacts.ErrDiskFull), t.Context(), true, command.ExitHost},
		{fmt.Errorf("building etcd: %w", artifacts.ErrNoGo), t.Context(), true, command.ExitHost},
		{fmt.Errorf("port 2379: %w", syscall.EADDRINUSE), t.Context(), true, command.ExitHost},
		{errors.New("x"), ended, true, command.ExitInterrupted},
		{&command.ExitError{Code: command.ExitTimeout, Err: command.ErrTimeout}, t.Context(), true, command.ExitTimeout},
		{slow(func(ctx context.Context) error { return context.Cause(ctx) }), t.Context(), true, command.ExitTimeout},
		{slow(func(ctx context.Context) error { return fmt.Errorf("reading: %w", ctx.Err()) }), t.Context(), true, command.ExitTimeout},
		{slow(func(context.Context) error { return errors.New("refused") }), t.Context(), true, command.ExitFailed},
	} {
		if got := command.ExitCode(tt.ctx, tt.begun, tt.err); got != tt.want {
			t.Errorf("%v: exit code %d, want %d", tt.err, got, tt.want)
		}
	}
}

// slow is the error of a command that waits until its time is over.
func slow(end func(context.Context) error) error {
	return command.Within(context.Background(), time.Millisecond, errors.New("late"), func(ctx context.Context) error {
		<-ctx.Done()
		return end(ctx)
	})
}

func TestDryRun(t *testing.T) {
	out, errors, code := run(t, "", "up", "--dry-run", "--workers", "2", "--kubernetes-version", "1.35.4", "--failure-domains", "p,o")
	if code != command.ExitOK || errors != "" {
		t.Fatalf("exit code %d, errors %q", code, errors)
	}
	for _, want := range []string{"# The control plane.", "kind: KubeadmControlPlane", "version: v1.35.4", "  failureDomains:\n  - o\n  - p\n",
		"kind: MachineDeployment", "mode: nftables"} {
		if !strings.Contains(out, want) {
			t.Errorf("manifests lack %q", want)
		}
	}
	// What is printed can be applied again, through standard input.
	again, errors, code := run(t, out, "up", "-f", "-", "--dry-run", "-o", "yaml")
	if code != command.ExitOK || errors != "" {
		t.Fatalf("from standard input: exit code %d, errors %q", code, errors)
	}
	if strings.Count(again, "\n---\n") != strings.Count(out, "\n---\n") || strings.Count(out, "\n---\n") != 6 {
		t.Errorf("%d documents were printed, and %d again", strings.Count(out, "\n---\n")+1, strings.Count(again, "\n---\n")+1)
	}
}

// The flags say the same of each kind of control planes; what each leaves to a default is not the same, and is spelled out.
func TestDryRunOfAControlPlane(t *testing.T) {
	for args, want := range map[string][]string{
		"": {"kind: ControlPlane\n    name: demo-cp",
			"apiVersion: controlplane.cluster.x-k8s.io/v1alpha1\nkind: ControlPlane", "enableAutorepair: true", "maxParallel: 7", "replicas: 3",
			"version: v1.37.2", "controlPlane: {}", "management: Members"},
		"--auto-repair=false":                {"enableAutorepair: false"},
		"--max-parallel 2 --replicas 5":      {"maxParallel: 2", "replicas: 5"},
		"--kubernetes-version 1.35.4":        {"version: v1.35.4"},
		"--workers 1 --failure-domains x":    {"kind: MachineDeployment", "failureDomains:\n  - x\n"},
		"--name other --auto-repair -o json": {`"name": "other-cp"`, `"enableAutorepair": true`},
	} {
		out, errors, code := run(t, "", append([]string{"up", "--dry-run", "--kind", "ControlPlane"}, strings.Fields(args)...)...)
		if code != command.ExitOK || errors != "" {
			t.Errorf("%q: exit code %d, errors %q", args, code, errors)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%q: manifests lack %q", args, text)
			}
		}
		if strings.Contains(out, "KubeadmControlPlane") {
			t.Errorf("%q: a KubeadmControlPlane is among them", args)
		}
	}
}

func TestVersionAsData(t *testing.T) {
	for output, unmarshal := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(raw []byte, v any) error { return yaml.Unmarshal(raw, v) },
	} {
		out, _, code := run(t, "", "version", "-o", output)
		var v struct {
			Go         string   `json:"go"`
			Kubernetes []string `json:"kubernetes"`
		}
		if err := unmarshal([]byte(out), &v); err != nil || code != command.ExitOK || len(v.Kubernetes) == 0 || v.Go == "" {
			t.Errorf("%s: exit code %d, %v, %+v", output, code, err, v)
		}
	}
}

// TestVersion: the flag says what the command says first.
func TestVersion(t *testing.T) {
	flag, _, code := run(t, "", "--version")
	said, _, _ := run(t, "", "version")
	if code != command.ExitOK || !strings.HasPrefix(flag, "quorate, ") || !strings.HasPrefix(said, flag) {
		t.Errorf("exit code %d, %q, %q", code, flag, said)
	}
}

// What comes from a machine or a cluster does not act on the terminal, in errors and in data neither.
func TestErrorsAndDataAreSafeToShow(t *testing.T) {
	const evil = "a\x1b[2J\u009b31m\x7f"
	_, errors, _ := run(t, "", "up", "-f", evil)
	if strings.ContainsAny(errors, "\x1b\u009b\x7f") || !strings.Contains(errors, "^[[2J") {
		t.Errorf("errors are %q", errors)
	}
	for _, f := range []command.Format{"json", "yaml"} {
		var out bytes.Buffer
		if err := (&command.Invocation{Streams: command.Streams{Out: &out}}).Data(f, map[string]string{"name": evil}); err != nil {
			t.Fatal(err)
		}
		var back map[string]string
		if strings.ContainsAny(out.String(), "\x1b\u009b\x7f") || yaml.Unmarshal(out.Bytes(), &back) != nil || back["name"] != evil {
			t.Errorf("%s is %q, read again %q", f, out.String(), back)
		}
	}
}

// Every command that does something says how it is used, with an example that names it.
func TestEveryCommandHasHelp(t *testing.T) {
	a := newApp()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		if cmd.Short == "" || !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%q has the description %q and the example %q", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(a.root())
	if up, _, err := a.root().Find([]string{"up"}); err != nil || !strings.Contains(up.Long, "Root in a local machine is root on the host") {
		t.Error("nobody is told what a local machine does not protect from")
	}
	if !strings.Contains(a.root().Long, "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted. 3: the host lacks") {
		t.Error("exit codes are not documented")
	}
}

func TestCompletion(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"status --output ", "table\njson\nyaml\n"},
		{"up --kubernetes-version ", strings.Join(artifacts.Versions(), "\n") + "\n"},
		{"up --kind ", "KubeadmControlPlane\nControlPlane\n"},
		{"logs m --component k", "kubelet"},
		{"machine kill-component m ", "etcd\nkube-apiserver"},
		{"artifacts build " + artifacts.Versions()[0] + " ", strings.Join(artifacts.Versions()[1:], "\n") + "\n"},
		{"status ", ":4"}, // nothing can be known without an environment, and files are not offered
	} {
		args := append([]string{cobra.ShellCompRequestCmd}, strings.Split(tt.args, " ")...)
		out, _, code := run(t, "", args...)
		if code != command.ExitOK || !strings.Contains(out, tt.want) {
			t.Errorf("%q: exit code %d, %q, want %q in it", tt.args, code, out, tt.want)
		}
	}
}
