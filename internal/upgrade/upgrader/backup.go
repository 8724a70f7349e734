package upgrader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// backup keeps every file that will be replaced, and a snapshot of etcd.
func (n *node) backup(ctx context.Context) (string, error) {
	if err := n.stageKubeletFlags(ctx); err != nil {
		return "", err
	}
	if _, err := n.stageFiles(); err != nil {
		return "", err
	}
	files, err := n.saveFiles()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(n.onNode(etcdManifest)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("%d files", files), nil
	}
	size, err := n.saveEtcd(ctx)
	if err != nil {
		return "", err
	}
	members, err := n.members(ctx)
	if err != nil {
		return "", err
	}
	n.journal.OnlyMember = len(members) == 1
	if err := n.saveJournal(n.journal); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d files, and a snapshot of etcd of %d KiB", files, size>>10), nil
}

// saveFiles copies all that is replaced, and what kubeadm changes of the kubelet's.
func (n *node) saveFiles() (int, error) {
	if err := os.RemoveAll(n.saved()); err != nil {
		return 0, fmt.Errorf("removing an older backup: %w", err)
	}
	targets, err := mirrored(n.stage())
	if err != nil {
		return 0, err
	}
	count, absent := 0, []string(nil)
	for _, target := range append(targets, kubeletConfig, kubeletFlags, kubeletPatched) {
		if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
			absent = append(absent, target)
			continue
		}
		if err := copyOwned(target, filepath.Join(n.saved(), target)); err != nil {
			return 0, err
		}
		count++
	}
	return count, n.noteAbsent(absent)
}

// saveEtcd takes a snapshot, and opens it once: restoring it checks its hash, and that data can be made of it.
func (n *node) saveEtcd(ctx context.Context) (int64, error) {
	etcdutl, err := n.program("etcdutl")
	if err != nil {
		return 0, err
	}
	opened := filepath.Join(n.work(), "opened")
	if err := errors.Join(os.RemoveAll(n.snapshot()), os.RemoveAll(opened)); err != nil {
		return 0, fmt.Errorf("removing an older snapshot: %w", err)
	}
	// etcdctl waits for a member that does not answer as long as it may, when it takes a snapshot.
	if _, err := n.etcdctl(ctx, "endpoint", "health"); err != nil {
		return 0, fmt.Errorf("taking a snapshot of etcd: %w", err)
	}
	if _, err := n.etcdctl(ctx, "snapshot", "save", n.snapshot()); err != nil {
		return 0, fmt.Errorf("taking a snapshot of etcd: %w", err)
	}
	if _, err := run(ctx, nil, etcdutl, "snapshot", "restore", n.snapshot(), "--data-dir", opened); err != nil {
		return 0, fmt.Errorf("opening the snapshot of etcd: %w", err)
	}
	info, err := os.Stat(n.snapshot())
	if err = errors.Join(err, os.RemoveAll(opened)); err != nil {
		return 0, fmt.Errorf("opening the snapshot of etcd: %w", err)
	}
	return info.Size(), nil
}

// etcdctl asks the node's own member.
func (l layout) etcdctl(ctx context.Context, args ...string) (string, error) {
	f, err := l.look()
	if err != nil {
		return "", err
	}
	if f.etcd.URL == "" {
		return "", fmt.Errorf("asking etcd: no manifest in %s says by --listen-client-urls where it listens", manifestDir)
	}
	return l.etcdctlTo(ctx, []string{f.etcd.URL}, args...)
}

// etcdctlTo asks the members that have these URLs.
func (l layout) etcdctlTo(ctx context.Context, urls []string, args ...string) (string, error) {
	program, err := l.program("etcdctl")
	if err != nil {
		return "", err
	}
	f, err := l.look()
	if err != nil {
		return "", err
	}
	env := []string{
		"ETCDCTL_ENDPOINTS=" + strings.Join(urls, ","), "ETCDCTL_CACERT=" + f.etcd.CA, "ETCDCTL_CERT=" + f.etcd.Cert, "ETCDCTL_KEY=" + f.etcd.Key,
	}
	return run(ctx, env, append([]string{program}, args...)...)
}

// member is one of etcd.
type member struct {
	ID         uint64   `json:"ID"`
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
	IsLearner  bool     `json:"isLearner"`
}

// members are all that etcd knows.
func (l layout) members(ctx context.Context) ([]member, error) {
	output, err := l.etcdctl(ctx, "member", "list", "--write-out=json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Members []member `json:"members"`
	}
	if err := json.Unmarshal([]byte(output), &list); err != nil {
		return nil, fmt.Errorf("reading the members of etcd: %w", err)
	}
	return list.Members, nil
}

// leadership is the node's own member, and the leader that it knows.
func (l layout) leadership(ctx context.Context) (own, leader uint64, err error) {
	output, err := l.etcdctl(ctx, "endpoint", "status", "--write-out=json")
	if err != nil {
		return 0, 0, err
	}
	var endpoints []struct {
		Status struct {
			Header struct {
				MemberID uint64 `json:"member_id"`
			} `json:"header"`
			Leader uint64 `json:"leader"`
		} `json:"Status"`
	}
	if err := json.Unmarshal([]byte(output), &endpoints); err != nil || len(endpoints) != 1 {
		return 0, 0, fmt.Errorf("reading the status of etcd: %d answers, %w", len(endpoints), err)
	}
	return endpoints[0].Status.Header.MemberID, endpoints[0].Status.Leader, nil
}

// handover moves the leadership away from the node's member, if it leads.
func (n *node) handover(ctx context.Context) (string, error) {
	own, leader, err := n.leadership(ctx)
	if err != nil {
		return "", err
	}
	if own != leader {
		return "another member leads", errSkipped
	}
	return n.moveLeadership(ctx, own)
}

// moveLeadership moves the leadership from the node's member to the first other voter that takes it.
func (n *node) moveLeadership(ctx context.Context, own uint64) (string, error) {
	members, err := n.members(ctx)
	if err != nil {
		return "", err
	}
	var failures []error
	for _, m := range members {
		if m.ID == own || m.IsLearner {
			continue
		}
		if _, err := n.etcdctl(ctx, "move-leader", fmt.Sprintf("%x", m.ID)); err != nil {
			failures = append(failures, err)
			continue
		}
		return m.Name + " leads", n.led(ctx, own)
	}
	if len(failures) > 0 {
		return "", fmt.Errorf("moving the leadership of etcd: %w", errors.Join(failures...))
	}
	return "no other member has a vote", errSkipped
}

// led waits until the member does not lead.
func (n *node) led(ctx context.Context, own uint64) error {
	return eventually(ctx, patienceWithAPI, func(ctx context.Context) error {
		_, leader, err := n.leadership(ctx)
		if err == nil && (leader == own || leader == 0) {
			err = errors.New("moving the leadership of etcd: no other member leads yet")
		}
		return err
	})
}
