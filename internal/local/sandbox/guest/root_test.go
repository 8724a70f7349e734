package guest

import (
	"os"
	"path/filepath"
	"testing"
)

// Mounts are made while the host's files are still in sight: a link on the machine's disk must not lead there.
func TestMountPointsStayOnTheDisk(t *testing.T) {
	for _, folder := range []bool{true, false} {
		for _, link := range []string{"opt", "opt/quorate", "opt/quorate/sbin"} {
			disk, outside := t.TempDir(), t.TempDir()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(disk, link)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(disk, link)); err != nil {
				t.Fatal(err)
			}
			d, err := openDisk(disk)
			if err != nil {
				t.Fatal(err)
			}
			if point, err := d.mountPoint("/opt/quorate/sbin", folder); err == nil {
				t.Errorf("%s leads to the host, and %s is where something is mounted", link, point.Name())
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
				t.Errorf("the host's folder holds %v, %v", left, err)
			}
			_ = d.Close()
		}
	}
	disk := t.TempDir()
	d, err := openDisk(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for path, folder := range map[string]bool{"/opt/quorate/bin": true, "/opt/quorate/sbin/quorate-node": false, "run": true} {
		for range 2 { // also at the next start
			point, err := d.mountPoint(path, folder)
			if err != nil {
				t.Fatal(err)
			}
			there, err := os.Stat(filepath.Join(disk, path))
			if err != nil || there.IsDir() != folder {
				t.Errorf("%s: %v, %v", path, there, err)
			}
			if opened, err := os.Stat(through(point)); err != nil || !os.SameFile(opened, there) {
				t.Errorf("%s is mounted on another file: %v", path, err)
			}
			_ = point.Close()
		}
	}
}
