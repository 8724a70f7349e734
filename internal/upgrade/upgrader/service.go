package upgrader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/internal/cluster/staticpod"
	"github.com/quorate/quorate/internal/core/steps"
)

// service swaps, on the node itself: it may be killed at any moment and is begun again.
type service struct {
	at  layout
	out io.Writer
	// proof waits until the node serves at a version, or at whatever one; nil: service.serves.
	proof func(ctx context.Context, j steps.Journal, version string) error
}

func (s service) say(format string, args ...any) {
	fmt.Fprintf(s.out, "%s %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// run goes on where the journal is, until the swap is over. An error: it must be begun again.
func (s service) run(ctx context.Context) error {
	j, err := s.at.loadJournal()
	if err != nil {
		return err
	}
	if !j.Begun() {
		// An earlier upgrade left the service, and another one is being prepared: half of that must not be used.
		s.say("nothing is to be done")
		return s.at.retire(ctx)
	}
	j = j.Resumed()
	for !j.Phase.Over() {
		if err := s.at.saveJournal(j); err != nil {
			return err
		}
		s.say("%s %s", j.Phase, j.Reason)
		if j, err = s.perform(ctx, j); err != nil {
			s.say("%v", err)
			return err
		}
	}
	s.say("%s %s", j.Phase, j.Reason)
	if j.Phase == steps.Abandoned {
		if err := s.at.discard(); err != nil {
			return err
		}
	}
	if err := s.at.saveJournal(j); err != nil {
		return err
	}
	return s.at.retire(ctx)
}

// perform does one phase, and returns what follows. An error: the phase is to be done again.
func (s service) perform(ctx context.Context, j steps.Journal) (steps.Journal, error) {
	err := s.do(ctx, j)
	switch {
	case ctx.Err() != nil:
		// The node goes down, or somebody stops the service: that says nothing of the upgrade.
		return j, fmt.Errorf("swapping in phase %s: %w", j.Phase, ctx.Err())
	case err == nil:
		return j.Done(), nil
	case j.Phase == steps.Restarting:
		return j.NotServing(!s.blamesEtcd(ctx, j, err), err.Error()), nil
	case j.Phase.Forward():
		return j.Failed(err.Error()), nil
	default:
		return j, err
	}
}

// do does what a phase is about.
func (s service) do(ctx context.Context, j steps.Journal) error {
	switch j.Phase {
	case steps.Preparing:
		return s.at.prepare()
	case steps.Stopping:
		return s.stop(ctx, j)
	case steps.Replacing:
		return s.at.replace()
	case steps.Starting:
		return s.start(ctx)
	case steps.Proving:
		return s.prove(ctx, j, j.Wanted.KubernetesVersion)
	case steps.Reverting:
		return s.revert(ctx, j)
	case steps.RestoringData:
		return s.restoreData(ctx, j)
	case steps.Restarting:
		if err := s.at.manage(ctx, "start", "kubelet"); err != nil {
			return err
		}
		return s.prove(ctx, j, "")
	default:
		return fmt.Errorf("swapping: phase %q is not known", j.Phase)
	}
}

// prove waits until the node serves.
func (s service) prove(ctx context.Context, j steps.Journal, version string) error {
	if s.proof != nil {
		return s.proof(ctx, j, version)
	}
	return s.serves(ctx, j, version)
}

// putBack puts the backup back, but for what is to stay.
func (s service) putBack(j steps.Journal) error { return s.at.restore(stays(j)...) }

// stays are the files that stay as the new version has them when all else is put back.
func stays(j steps.Journal) []string {
	if j.KeepsEtcd() {
		return []string{etcdManifest}
	}
	return nil
}

// blamesEtcd reports whether etcd is why the old version does not serve. Once the new version has served, and there may be writes to lose,
// an etcd that does not answer is not enough: it must be what was waited for last, with a kubelet that runs.
func (s service) blamesEtcd(ctx context.Context, j steps.Journal, err error) bool {
	if j.FailedStep == "" {
		return s.etcdServes(ctx) != nil
	}
	down, ok := errors.AsType[*downError](err)
	return ok && down.component == etcdName
}

// stop stops the kubelet, and ends the containers that it would keep.
func (s service) stop(ctx context.Context, j steps.Journal) error {
	if err := s.at.manage(ctx, "stop", "kubelet"); err != nil {
		return err
	}
	if j.Wanted.Type != steps.ControlPlane {
		return nil
	}
	return s.endComponents(ctx, j.Wanted.Node)
}

// serves waits until everything on the node serves, and its Node is ready. A version, if one is given, is that of the API server and the
// kubelet.
func (s service) serves(ctx context.Context, j steps.Journal, version string) error {
	timeout := time.Duration(cmp.Or(j.Wanted.VerifyTimeoutSeconds, steps.DefaultVerifyTimeout)) * time.Second
	before, err := startsOfAll(j.Wanted.Node)
	if err != nil {
		return err
	}
	seen, process := "", &kubelet{ask: kubeletPID}
	err = eventually(ctx, timeout, func(ctx context.Context) error {
		err := s.servesNow(ctx, j, version, process)
		if err != nil && err.Error() != seen {
			seen = err.Error()
			s.say("%v", err)
		}
		down, ok := errors.AsType[*downError](err)
		// On the way back nothing else is left to try, but for etcd's data.
		if ok && (j.Phase.Forward() || down.component == etcdName) {
			if final := s.endless(down, j.Wanted.Node, before[down.component]); final != nil {
				return final
			}
		}
		return err
	})
	return withLastLog(err, j.Wanted.Node)
}

// startsOfAll counts how often each component was started.
func startsOfAll(nodeName string) (map[string]map[string]int, error) {
	counts := map[string]map[string]int{}
	for _, component := range components {
		count, err := starts(podLogs, component, nodeName)
		if err != nil {
			return nil, err
		}
		counts[component] = count
	}
	return counts, nil
}

// withLastLog adds to an error about a component that does not serve how its log ends, where there is one.
func withLastLog(err error, nodeName string) error {
	down, ok := errors.AsType[*downError](err)
	if !ok {
		return err
	}
	last, failure := lastLog(podLogs, down.component, nodeName)
	if failure != nil || last == "" {
		return err
	}
	return fmt.Errorf("%w; its log ends with: %s", err, last)
}

// endless ends the wait for a component that was started too often since a count. Nil: it may still come.
func (s service) endless(down *downError, nodeName string, before map[string]int) error {
	now, err := starts(podLogs, down.component, nodeName)
	if err != nil {
		return err
	}
	if n := more(now, before); n >= mostStarts {
		return &finalError{down, n}
	}
	return nil
}

func (s service) servesNow(ctx context.Context, j steps.Journal, version string, process *kubelet) error {
	// What is older than the kubelet is of the time before.
	since, err := process.start(ctx)
	if err != nil {
		return err
	}
	n := &node{layout: s.at, wanted: j.Wanted, out: s.out}
	if j.Wanted.Type == steps.ControlPlane {
		if err := s.at.componentsServe(ctx); err != nil {
			return err
		}
	}
	a, err := n.ownAPI()
	if err != nil {
		return err
	}
	if j.Wanted.Type == steps.ControlPlane && version != "" {
		if err := apiVersion(ctx, a, version); err != nil {
			return err
		}
	}
	return nodeReady(ctx, a, j.Wanted.Node, version, since)
}

// componentsServe returns an error unless each component of the node answers its probe.
func (l layout) componentsServe(ctx context.Context) error {
	f, err := l.look()
	if err != nil {
		return err
	}
	for _, component := range []string{etcdName, apiServer, "kube-controller-manager", "kube-scheduler"} {
		p, err := l.manifest(component)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		url, err := probe(p, f.address)
		if err != nil {
			return err
		}
		if err := answers(ctx, url); err != nil {
			return &downError{component, err}
		}
	}
	return nil
}

// finalError says that a component does not serve, and will not.
type finalError struct {
	*downError
	starts int
}

func (e *finalError) Error() string {
	return fmt.Sprintf("%s was started %d times and ends again", e.component, e.starts)
}

// Unwrap returns what it is about.
func (e *finalError) Unwrap() error { return e.downError }

// downError says that a component does not serve.
type downError struct {
	component string
	cause     error
}

func (e *downError) Error() string { return fmt.Sprintf("%s does not serve: %v", e.component, e.cause) }

// etcdServes returns an error unless the node's member answers.
func (s service) etcdServes(ctx context.Context) error {
	_, err := s.at.etcdctl(ctx, "endpoint", "health")
	return err
}

// restoreData makes etcd's data again from the snapshot: the only member keeps its name and address. What it replaces is kept beside.
func (s service) restoreData(ctx context.Context, j steps.Journal) error {
	if err := s.stop(ctx, j); err != nil {
		return err
	}
	if err := s.putBack(j); err != nil {
		return err
	}
	m, err := s.at.readMember()
	if err != nil {
		return fmt.Errorf("restoring etcd's data: %w", err)
	}
	etcdutl, err := s.at.program("etcdutl")
	if err != nil {
		return err
	}
	fresh := filepath.Join(filepath.Dir(m.dataDir), ".etcd-restored")
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("restoring etcd's data: %w", err)
	}
	// Revisions go on above all that anybody may have seen: watches and caches must not take new data for old.
	if _, err := run(ctx, nil, etcdutl, "snapshot", "restore", s.at.snapshot(), "--data-dir", fresh, "--name", m.name,
		"--initial-cluster", m.name+"="+m.peerURL, "--initial-advertise-peer-urls", m.peerURL, "--bump-revision", "1000000000",
		"--mark-compacted"); err != nil {
		return fmt.Errorf("restoring etcd's data: %w", err)
	}
	if err := moveAside(m.dataDir, aside(m.dataDir, j.Wanted)); err != nil {
		return err
	}
	if err := os.Rename(fresh, m.dataDir); err != nil {
		return fmt.Errorf("restoring etcd's data: %w", err)
	}
	return syncFolders([]string{m.dataDir})
}

// localMember is what the manifest of etcd says of the node's member.
type localMember struct{ dataDir, name, peerURL string }

// readMember reads the manifest of etcd. A member without a folder, a name or an address of its own is an error.
func (l layout) readMember() (localMember, error) {
	p, err := l.manifest(etcdName)
	if err != nil {
		return localMember{}, err
	}
	if p == nil {
		return localMember{}, errors.New("there is no manifest of etcd")
	}
	m := localMember{
		dataDir: staticpod.Flag(p, "data-dir"), name: staticpod.Flag(p, "name"), peerURL: staticpod.Flag(p, "initial-advertise-peer-urls"),
	}
	if u, err := url.Parse(m.peerURL); m.dataDir == "" || m.name == "" || err != nil || net.ParseIP(u.Hostname()) == nil {
		return localMember{}, fmt.Errorf("its manifest has data-dir %q, name %q, peer address %q", m.dataDir, m.name, m.peerURL)
	}
	return m, nil
}

// aside is where the data are kept that an upgrade's restore replaced: another upgrade, or another try of this one, has a place of its own.
func aside(dir string, w steps.Wanted) string {
	return fmt.Sprintf("%s.before-restore-%s-%d", dir, w.ID, w.Attempt)
}

// moveAside keeps a folder under another name. What was moved by an earlier try is the original, and stays.
func moveAside(dir, kept string) error {
	_, err := os.Stat(kept)
	switch {
	case err == nil:
		err = os.RemoveAll(dir)
	case os.IsNotExist(err):
		err = os.Rename(dir, kept)
	}
	if err != nil {
		return fmt.Errorf("moving %s aside: %w", dir, err)
	}
	return nil
}
