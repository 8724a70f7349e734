package upgrader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// Where things are on a node.
const (
	home           = "/var/lib/quorate-upgrade"
	kubernetesDir  = "/etc/kubernetes"
	manifestDir    = kubernetesDir + "/manifests"
	etcdManifest   = manifestDir + "/etcd.yaml"
	adminConfig    = kubernetesDir + "/admin.conf"
	kubeletConf    = kubernetesDir + "/kubelet.conf"
	kubeletDir     = "/var/lib/kubelet"
	kubeletConfig  = kubeletDir + "/config.yaml"
	kubeletFlags   = kubeletDir + "/kubeadm-flags.env"
	kubeletPatched = kubeletDir + "/instance-config.yaml"
)

// layout is the upgrader's own folder on the node.
type layout struct {
	dir string
	// image is the folder with the image's files, as the node sees it; empty: there is none, which is so for the service.
	image string
	// root is the folder below which the node's own files are looked for; empty: /.
	root string
	// manager asks the node's service manager; nil: systemctl.
	manager func(ctx context.Context, args ...string) error
	// units is the folder of its units; empty: unitDir.
	units string
}

// manage asks the node's service manager.
func (l layout) manage(ctx context.Context, args ...string) error {
	if l.manager != nil {
		return l.manager(ctx, args...)
	}
	return systemctl(ctx, args...)
}

// The parts of the folder. Stage and saved mirror the node: stage/etc/kubernetes/manifests/etcd.yaml takes the place of the file of that
// path.
func (l layout) journalFile() string { return filepath.Join(l.dir, "state.json") }
func (l layout) work() string        { return filepath.Join(l.dir, "work") }
func (l layout) programs() string    { return filepath.Join(l.work(), "bin") }
func (l layout) upgrader() string    { return filepath.Join(l.work(), "upgrader") }
func (l layout) stage() string       { return filepath.Join(l.work(), "stage") }
func (l layout) saved() string       { return filepath.Join(l.work(), "backup") }
func (l layout) snapshot() string    { return filepath.Join(l.work(), "etcd.db") }
func (l layout) absent() string      { return filepath.Join(l.work(), "absent") }
func (l layout) unitFile() string    { return filepath.Join(cmp.Or(l.units, unitDir), unitName) }
func (l layout) runtimeNote() string { return filepath.Join(l.work(), "runtime") }
func (l layout) config() string      { return filepath.Join(l.work(), "kubeadm.yaml") }
func (l layout) kubeletNote() string { return filepath.Join(l.work(), "kubelet-started-with") }

// clear removes everything but the journal, also what was to become one and was cut off.
func (l layout) clear() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing what an earlier upgrade left: %w", err)
	}
	for _, e := range entries {
		if path := filepath.Join(l.dir, e.Name()); path != l.journalFile() {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("removing what an earlier upgrade left: %w", err)
			}
		}
	}
	return nil
}

// loadJournal returns what the node remembers; the zero value: nothing.
func (l layout) loadJournal() (steps.Journal, error) {
	var j steps.Journal
	data, err := os.ReadFile(l.journalFile())
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	if err != nil {
		return j, fmt.Errorf("reading the journal of the upgrade: %w", err)
	}
	return j, nil
}

func (l layout) saveJournal(j steps.Journal) error {
	data, err := json.Marshal(j)
	if err == nil {
		err = os.MkdirAll(l.dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(l.journalFile(), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the journal of the upgrade: %w", err)
	}
	return nil
}

// searchPath are the folders in which programs are looked for: those of the node's first process, then the usual ones.
func searchPath() []string {
	usual := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	environment, err := os.ReadFile("/proc/1/environ")
	if err == nil {
		for _, variable := range strings.Split(string(environment), "\x00") {
			if value, found := strings.CutPrefix(variable, "PATH="); found {
				usual = value + ":" + usual
			}
		}
	}
	return filepath.SplitList(usual)
}

// lookup is the path under which the node has a program; empty: it has none.
func lookup(name string) string {
	for _, dir := range searchPath() {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// installed is the file of a program that the node has; empty: it has none. A link would be replaced by the file, and what else leads
// to that would stay old.
func installed(name string) string {
	path := lookup(name)
	if path == "" {
		return ""
	}
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return file
}

// program is a program of the new version: the copied one, or the installed one where both are the same. The last step removes what was
// copied: when it is repeated, the image still has what the node has not.
func (l layout) program(name string) (string, error) {
	path := filepath.Join(l.programs(), name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if path = installed(name); path != "" {
		return path, nil
	}
	if path = filepath.Join(l.image, "bin", name); l.image != "" {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("looking for %s: neither the upgrader's folder nor the node has it", name)
}
