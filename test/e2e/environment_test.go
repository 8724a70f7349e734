//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/local/hostcheck"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/rights"
)

// environment is one state folder with its daemon, apart from any other on this host.
type environment struct {
	state   string
	network string
	binary  string
	// recordings is how many clusters at rest were recorded.
	recordings int
	// asked is what Quorate's controllers asked its management planes for that are gone.
	asked map[rights.Right]int
	// granted are rules beside those of config/rbac that a life gave Quorate's controllers, as for a kind of a foreign provider.
	granted []rbacv1.PolicyRule
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	binary, err := filepath.Abs("../../bin/quorate")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	// A file system in memory will do where the disk is short.
	state, err := os.MkdirTemp(cmp.Or(os.Getenv("QUORATE_E2E_FOLDER"), "/var/lib"), "quorate-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && os.Getenv("QUORATE_E2E_KEEP") != "" {
			return
		}
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	return &environment{asked: map[rights.Right]int{}, state: state, network: cmp.Or(os.Getenv("QUORATE_E2E_NETWORK"), freeNetwork(t)),
		binary: binary}
}

// endWhenInterrupted takes the environment down when the run is interrupted, which ends it: Go runs no clean-up then, and the machines
// would stay.
func (e *environment) endWhenInterrupted() {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-interrupted
		fmt.Fprintf(os.Stderr, "%s: %s is taken down\n", s, e.state)
		if out, err := e.try("down", "--yes"); err != nil {
			fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
			os.Exit(1)
		}
		if err := os.RemoveAll(e.state); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(130)
	}()
}

// freeNetwork is the first of some ranges that nothing on this host uses. Environments that run at the same time must not
// share one, and what an interrupted run left must not fail the next.
func freeNetwork(t *testing.T) string {
	t.Helper()
	var users []string
	for third := 29; third > 19; third-- {
		network := fmt.Sprintf("172.%d.0.0/16", third)
		user, err := hostcheck.InUse(netip.MustParsePrefix(network), "")
		if err != nil {
			t.Fatal(err)
		}
		if user == "" {
			return network
		}
		users = append(users, user)
	}
	t.Fatalf("no network is free: %s", strings.Join(users, "; "))
	return ""
}

// quorate runs the command line and returns its standard output; a failure ends the test.
func (e *environment) quorate(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (e *environment) try(args ...string) (string, error) {
	if args[0] == "down" {
		if err := e.noteRights(); err != nil {
			return "", err
		}
	}
	// Backups have lives of their own. Elsewhere they would be work beside what is measured, and stand in manifests that are changed.
	if args[0] == "up" && !slices.ContainsFunc(args, func(a string) bool { return a == "-f" || a == "--backup" }) {
		args = append(slices.Clone(args), "--backup", "none")
	}
	c := exec.Command(e.binary, args...)
	c.Env = append(os.Environ(), "QUORATE_STATE="+e.state, "QUORATE_AUDIT=1")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("quorate %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

// address is one of the environment's network, by its last two numbers: "0.1" is the host's.
func (e *environment) address(last string) string {
	return strings.TrimSuffix(e.network, "0.0/16") + last
}

// up makes or changes a cluster, and says how long it took.
func (e *environment) up(t *testing.T, name string, args ...string) time.Duration {
	t.Helper()
	start := time.Now()
	e.quorate(t, append([]string{"up", "--network", e.network, "--name", name, "--timeout", "10m"}, args...)...)
	took := time.Since(start)
	t.Logf("up %s %s: %.1f s", name, strings.Join(args, " "), took.Seconds())
	return took
}

// management returns a client of the management plane.
func (e *environment) management(t *testing.T) client.WithWatch {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(e.quorate(t, "kubeconfig", "--management")))
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// workload returns a client of a cluster through its endpoint.
func (e *environment) workload(t *testing.T, name string) (*kubernetes.Clientset, *rest.Config) {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(e.quorate(t, "kubeconfig", name)))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Timeout = 10 * time.Second
	cfg.QPS = -1 // client-go would let through five requests a second
	return kubernetes.NewForConfigOrDie(cfg), cfg
}

// controlPlane reads the cluster's control plane object.
func (e *environment) controlPlane(t *testing.T, name string) *controlplanev1.KubeadmControlPlane {
	t.Helper()
	var all controlplanev1.KubeadmControlPlaneList
	if err := e.management(t).List(context.Background(), &all, client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) != 1 {
		t.Fatalf("%d control planes of cluster %s, want 1", len(all.Items), name)
	}
	return &all.Items[0]
}

// machines returns the names of the cluster's control plane machines.
func (e *environment) machines(t *testing.T, name string) []string {
	t.Helper()
	return namesOf(e.machineObjects(t, name))
}

// machineObjects returns the cluster's control plane machines.
func (e *environment) machineObjects(t *testing.T, name string) []clusterv1.Machine {
	t.Helper()
	return e.machinesWith(t, machine.Labels(name))
}

// machinesWith returns the Machines with labels.
func (e *environment) machinesWith(t *testing.T, labels client.MatchingLabels) []clusterv1.Machine {
	t.Helper()
	var all clusterv1.MachineList
	if err := e.management(t).List(context.Background(), &all, client.InNamespace("default"), labels); err != nil {
		t.Fatal(err)
	}
	return all.Items
}

// clusterLabels are on all Machines of a cluster.
func clusterLabels(name string) client.MatchingLabels {
	return client.MatchingLabels{clusterv1.ClusterNameLabel: name}
}

// namesOf returns the names of Machines, sorted.
func namesOf(machines []clusterv1.Machine) []string {
	var names []string
	for i := range machines {
		names = append(names, machines[i].Name)
	}
	slices.Sort(names)
	return names
}

// member is one row of etcd's own member list.
type member struct {
	Name      string `json:"name"`
	ID        uint64 `json:"ID"`
	IsLearner bool   `json:"isLearner"`
}

const etcdctl = "etcdctl --endpoints https://localhost:2379 --cacert /etc/kubernetes/pki/etcd/ca.crt" +
	" --cert /etc/kubernetes/pki/etcd/server.crt --key /etc/kubernetes/pki/etcd/server.key -w json "

// members asks the etcd on a machine itself, with the machine's own certificate.
func (e *environment) members(machine string) ([]member, error) {
	return membersIn(e.try("shell", machine, "--", "sh", "-c", etcdctl+"member list"))
}

// membersIn reads what etcdctl printed, unless it failed.
func membersIn(out string, err error) ([]member, error) {
	if err != nil {
		return nil, err
	}
	var list struct {
		Members []member `json:"members"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("reading the member list %q: %w", out, err)
	}
	return list.Members, nil
}

// voters are the names of the members that vote, as one machine's etcd tells.
func (e *environment) voters(machine string) ([]string, error) {
	members, err := e.members(machine)
	var names []string
	for _, m := range members {
		if !m.IsLearner {
			names = append(names, m.Name)
		}
	}
	return names, err
}

// eventually asks until the answer is empty, and reports how long it took. The limit is generous: it is
// there to end a test that hangs, not to measure.
func eventually(t *testing.T, what string, limit time.Duration, missing func() string) time.Duration {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		why := missing()
		if why == "" {
			t.Logf("%s: %.1f s", what, time.Since(start).Seconds())
			return time.Since(start)
		}
		if time.Since(start) > limit {
			t.Fatalf("%s: not after %s: %s", what, limit, why)
		}
		<-tick.C
	}
}

// quorumOf says what is missing until the etcd of each machine lists exactly these machines as voters.
func (e *environment) quorumOf(t *testing.T, name string, want int) func() string {
	return func() string {
		machines := e.machines(t, name)
		if len(machines) != want {
			return fmt.Sprintf("%d machines, want %d", len(machines), want)
		}
		for _, m := range machines {
			voters, err := e.voters(m)
			if err != nil {
				return err.Error()
			}
			if !slices.Equal(slices.Sorted(slices.Values(voters)), slices.Sorted(slices.Values(machines))) {
				return fmt.Sprintf("etcd on %s has the voters %v, the machines are %v", m, voters, machines)
			}
		}
		return ""
	}
}

// clear takes down what a life that failed has left: its machines would take the host's processors from the next life, which fails for
// that. With QUORATE_E2E_KEEP they stay until the end.
func (e *environment) clear(t *testing.T) {
	if os.Getenv("QUORATE_E2E_KEEP") != "" {
		return
	}
	if out, err := e.try("down", "--yes"); err != nil {
		t.Logf("taking down what the life left: %v\n%s", err, out)
	}
}

// tellWhy prints what a person would look at after a failure.
func (e *environment) tellWhy(t *testing.T) {
	for _, args := range [][]string{{"status"}, {"explain"}, {"machine", "list"}, {"logs", "--daemon", "--tail", "60"}} {
		out, err := e.try(args...)
		t.Logf("quorate %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			t.Log(err)
		}
	}
}
