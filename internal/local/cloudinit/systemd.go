package cloudinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// noSystemd is why units, and settings of units, are refused, and what to do instead.
const noSystemd = "a local machine has no systemd, so that it would have no effect; write flags of the kubelet to kubeletExtraArgs " +
	"or, as KUBELET_EXTRA_ARGS, to /etc/default/kubelet, and start other programs with runcmd"

// heededUnit is the one unit that a local machine runs from its file and the drop-ins beside it: that of etcd, as etcdadm writes it.
const heededUnit = "/etc/systemd/system/etcd.service"

// heeded reports whether a local machine does what a unit's file, or a drop-in, says.
func heeded(file string) bool {
	file = path.Clean(file)
	return file == heededUnit || path.Dir(file) == heededUnit+".d"
}

// systemdFolders are those that nothing but systemd reads.
var systemdFolders = []string{"/etc/systemd", "/run/systemd/system", "/lib/systemd", "/usr/lib/systemd", "/usr/local/lib/systemd"}

// forSystemd reports whether nothing but systemd would read a file.
func forSystemd(file string) bool {
	for _, dir := range systemdFolders {
		if strings.HasPrefix(path.Clean(file), dir+"/") {
			return !heeded(file)
		}
	}
	return false
}

// unheeded finds a unit, or settings of one, that a command wrote; what commands do cannot be known before they ran. Links
// are what enabling a unit leaves, and systemctl has told whether that has an effect. Other settings of systemd and units
// in /lib come with packages that commands install, and no user asked for them.
func unheeded(s System) *Failure {
	found := ""
	for _, dir := range []string{"/etc/systemd/system", "/run/systemd/system"} {
		err := filepath.WalkDir(filepath.Join(s.Root, dir), func(file string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			name := path.Join(dir, strings.TrimPrefix(file, filepath.Join(s.Root, dir)))
			if heeded(name) {
				return nil
			}
			found = name
			return fs.SkipAll
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return &Failure{Command: "looking for units", Output: err.Error()}
		}
		if found != "" {
			return &Failure{Command: "units", Output: fmt.Sprintf("a command wrote %s: %s", found, noSystemd), Unsupported: found}
		}
	}
	return nil
}
