package guest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/cluster/joinfailure"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// lastOfLog is how much of the end of the kubelet's log is searched for errors, in bytes: that of several starts.
const lastOfLog = 64 << 10

// kubeletErrors are the last errors that the kubelet logged.
func kubeletErrors() string {
	text, err := endOf(filepath.Join(LogDir, "kubelet.log"), lastOfLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "its log cannot be read: " + err.Error()
	}
	return joinfailure.Errors(plaintext.Shown(text))
}

// endOf returns the last lines of a file, at most so many bytes.
func endOf(path string, most int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-most)
	data, err := io.ReadAll(io.NewSectionReader(f, from, most))
	text := string(data)
	if from > 0 {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text, err
}

// writtenTo is where kubeadm, the kubelet, containerd and etcd write. Each folder may be a file system of its own.
var writtenTo = []string{"/", "/etc/kubernetes", "/run", "/tmp", "/var", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet",
	"/var/log"}

// leastFree is what a file system has at least that is not full, in bytes.
const leastFree = 64 << 10

// fullDisks are the folders to which nothing can be written, separated by commas; of one file system the first.
func fullDisks(folders []string) string {
	var full []string
	var seen []unix.Fsid
	for _, path := range folders {
		var s unix.Statfs_t
		if unix.Statfs(path, &s) != nil || slices.Contains(seen, s.Fsid) {
			continue
		}
		seen = append(seen, s.Fsid)
		if s.Bavail*uint64(s.Bsize) < leastFree || s.Files > 0 && s.Ffree == 0 {
			full = append(full, path)
		}
	}
	return strings.Join(full, ", ")
}

// A kubelet that ends so often in so short a time does not come up by itself.
const (
	kubeletEnds  = 3
	kubeletTries = time.Minute
)

// ends are when the kubelet ended, the last time last.
type ends []time.Time

// with returns those that are not long over, and another.
func (e ends) with(now time.Time) ends {
	return append(slices.DeleteFunc(e, func(t time.Time) bool { return now.Sub(t) > kubeletTries }), now)
}

// watchKubelet keeps Kubelet true to whether the kubelet stays up once the bootstrap has succeeded: kubeadm is content with a kubelet that
// answers once. ended gets something when it ended.
func (m *machine) watchKubelet(ended <-chan struct{}) {
	var recent ends
	for {
		var quiet <-chan time.Time
		if len(recent) > 0 {
			quiet = time.After(time.Until(recent[len(recent)-1].Add(kubeletTries)))
		}
		trouble := ""
		select {
		case <-ended:
			if recent = recent.with(time.Now()); len(recent) < kubeletEnds {
				continue
			}
			trouble = kubeletErrors()
		case <-quiet:
			recent = nil
		}
		if err := m.update(func(s *Status) { s.noteKubelet(trouble) }); err != nil {
			m.say("%v", err)
		}
	}
}

// noteKubelet notes why the kubelet does not stay up; empty: it does. The first errors stay: a reader who has seen them must not be shown
// them again with each end.
func (s *Status) noteKubelet(trouble string) {
	if s.Bootstrap.Phase == Succeeded && (trouble == "" || s.Kubelet == "") {
		s.Kubelet = trouble
	}
}
