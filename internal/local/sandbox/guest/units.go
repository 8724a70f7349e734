package guest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/program/envfile"
)

// kubeletConfig appears when kubeadm has decided what the kubelet is to be.
const kubeletConfig = "/var/lib/kubelet/config.yaml"

// unitDir is where units are written on a machine: by etcdadm, or by the upgrader.
const unitDir = "/etc/systemd/system"

// units are those of a machine: some are built in, and each other exists from the moment somebody writes its file.
type units struct {
	children *children
	logTo    func(name string) (io.Writer, error)
	// dir is the folder of units' files, and run that of the sockets on which programs say that they are ready.
	dir, run string

	mu    sync.Mutex
	known map[string]*unit
}

// newUnits returns the units of a machine that are built in: containerd and the kubelet where they belong to it.
func newUnits(c *children, containers bool, logTo func(name string) (io.Writer, error)) (*units, error) {
	t := &units{children: c, logTo: logTo, dir: unitDir, run: runDir, known: map[string]*unit{}}
	var all []*unit
	if containers {
		all = append(all, &unit{
			name: "containerd", description: "containerd container runtime", delay: 500 * time.Millisecond,
			service: func() (service, error) {
				return service{argv: []string{"containerd", "--config", "/etc/containerd/config.toml"}}, nil
			},
		}, &unit{
			name: "kubelet", description: "kubelet: The Kubernetes Node Agent", needs: kubeletConfig, delay: time.Second,
			service: kubeletService,
		})
	}
	for _, u := range all {
		if err := t.add(u); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// wants is the folder with a link for each unit that starts with the machine, as on a machine with systemd.
func (t *units) wants() string { return filepath.Join(t.dir, "multi-user.target.wants") }

// notifySocket is where a unit's program says that it is ready.
func (t *units) notifySocket(unit string) string { return filepath.Join(t.run, "notify."+unit) }

// add completes a unit that is not known yet.
func (t *units) add(u *unit) error {
	log, err := t.logTo(u.name + ".log")
	if err != nil {
		return err
	}
	u.children, u.enabled, u.log = t.children, filepath.Join(t.wants(), u.name+".service"), log
	t.known[u.name] = u.init()
	return nil
}

// unitName is how a unit may be called that is written on a machine. Templates and paths are none.
var unitName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// find returns the unit with this name, also one whose file has appeared since the machine was started; nil: there is none.
func (t *units) find(name string) (*unit, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u, ok := t.known[name]; ok {
		if !u.exists() {
			return nil, nil
		}
		return u, nil
	}
	if !unitName.MatchString(name) {
		return nil, nil
	}
	u := t.written(name)
	if !u.exists() {
		return nil, nil
	}
	if err := t.add(u); err != nil {
		return nil, err
	}
	if err := listenNotify(u, t.notifySocket(name)); err != nil {
		delete(t.known, name)
		return nil, err
	}
	go u.supervise()
	return u, nil
}

// written is a unit that somebody writes on the machine.
func (t *units) written(name string) *unit {
	file := filepath.Join(t.dir, name+".service")
	return &unit{
		name: name, description: name, file: file, delay: time.Second,
		service: func() (service, error) { return loadService(file, t.notifySocket(name)) },
	}
}

// enabled are the names of the units that somebody enabled.
func (t *units) enabled() ([]string, error) {
	links, err := filepath.Glob(filepath.Join(t.wants(), "*.service"))
	if err != nil {
		return nil, fmt.Errorf("looking for enabled units: %w", err)
	}
	var names []string
	for _, link := range links {
		names = append(names, strings.TrimSuffix(filepath.Base(link), ".service"))
	}
	return names, nil
}

// kubeletService puts together what kubeadm's systemd unit would: its own flags, those of the machine's
// administrator, and the settings without which no kubelet runs on this kind of machine.
func kubeletService() (service, error) {
	argv := []string{
		"kubelet", "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
		"--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=" + kubeletConfig, "--config-dir=" + KubeletDropIns,
	}
	for _, source := range []struct{ file, variable string }{
		{"/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS"},
		{"/etc/default/kubelet", "KUBELET_EXTRA_ARGS"},
	} {
		value, err := environmentFile(source.file, source.variable)
		if err != nil {
			return service{}, err
		}
		argv = append(argv, envfile.Texts(value)...)
	}
	return service{argv: argv}, nil
}

// environmentFile reads one variable of a file as systemd does. A missing file or variable is empty.
func environmentFile(path, variable string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading flags: %w", err)
	}
	value, _ := envfile.Get(string(data), variable)
	return value, nil
}
