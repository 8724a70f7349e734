package etcdadm

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
)

// host is a folder that stands for a machine, with programs that do as a test's files tell them and note how they were called:
// active and voter say what etcd is, members is etcd's list, and *-fails how often a command fails.
type host struct {
	*testing.T
	dir string
}

// programs stand for those of a machine. etcdctl comes out of the archive.
var programs = map[string]string{
	"ip": `case $1 in
-4) [ -e DIR/no-route ] || echo "192.0.2.1 via 10.0.0.254 dev eth0 src 10.0.0.5 uid 0" ;;
-6) [ ! -e DIR/ipv6 ] || echo "2001:db8::1 from :: via fd00::1 dev eth0 proto static src fd00::5 metric 1024 pref medium" ;;
esac`,
	"etcd":  `echo etcd >>DIR/calls`,
	"sleep": `echo "sleep $1" >>DIR/slept; [ ! -e DIR/after ] || . DIR/after`,
	"curl": `echo "curl $*" | sed 's/curl.*https/curl https/' >>DIR/asked
case $* in
*linux-*)
	[ ! -e DIR/no-mirror ] || exit 22
	echo "curl ${*##* }" >>DIR/calls
	for a; do [ "$next" != --output ] || cp DIR/mirror.tar.gz "$a"; next=$a; done ;;
*/v1/seeds/*)
	n=$(cat DIR/seed-fails 2>/dev/null || echo 0)
	[ $n -eq 0 ] || { echo $((n - 1)) >DIR/seed-fails; exit 22; }
	for a; do [ "$next" != --output ] || cp DIR/snapshot "$a"; next=$a; done ;;
*/version) cat DIR/version ;; */v3/maintenance/status) cat DIR/downgrade ;; esac`,
	"uname": `cat DIR/processor 2>/dev/null || echo x86_64`,
	"systemctl": `echo "systemctl $*" >>DIR/calls
case $1 in is-active) [ -e DIR/active ] ;; stop) rm -f DIR/active ;; esac`,
	"etcdadm": `echo "etcdadm $1 $([ $1 != join ] || echo $2)" >>DIR/calls
fails() { n=$(cat DIR/$1-fails 2>/dev/null || echo 0); [ $n -gt 0 ] && echo $((n - 1)) >DIR/$1-fails; }
case $1 in
download) cp DIR/mirror.tar.gz DIR/cache/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz ;;
init) fails init && exit 1
	[ ! -e DIR/settings/start.sh ] || { rm -rf DIR/data; sh DIR/settings/start.sh || exit 1; }
	touch DIR/active DIR/voter ;;
join) fails join && exit 1; touch DIR/active; exit 1 ;;
esac`,
}

const etcdctlScript = `#!/bin/sh
for a; do case $a in --endpoints) next=1 ;; *) [ -z "$next" ] || { at=$a; next=; } ;; esac; done
case "$*" in
*"member list"*) [ $at != https://dead:2379 ] || { echo "deadline exceeded"; exit 1; }; cat DIR/members ;;
*"member add"*) echo "$*" | sed 's/.*member add/add member add/' >>DIR/calls; cat DIR/refusal 2>/dev/null && exit 1; echo "5, unstarted, , https://10.0.0.5:2380, , true" >>DIR/members ;;
*"endpoint status"*) cat DIR/status 2>/dev/null; [ -e DIR/active ] ;;
*"endpoint health"*) [ -e DIR/voter ] ;;
esac
`

// etcdutlScript restores what curl fetched.
const etcdutlScript = `#!/bin/sh
echo "etcdutl $*" | sed 's|DIR|.|g' >>DIR/calls
[ ! -e DIR/unreadable ] || exit 1
mkdir -p DIR/seed/data/member && cp DIR/seed/snapshot.db DIR/seed/data/member/db
`

// newerStatus is what etcdctl says of a member that is newer than the machine's etcd.
const newerStatus = "https://10.0.0.1:2379, 8e9e05c52164694d, 3.7.1, 3.7.0, 20 kB, 20 kB, 0%, 2.1 GB, true, false, 2, 4, 4, , , false\n"

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, dir: t.TempDir()}
	for name, text := range programs {
		h.write("bin/"+name, "#!/bin/sh\n"+text+"\n")
	}
	h.write("members", "1, started, e-1, https://10.0.0.1:2380, https://10.0.0.1:2379, false\n")
	h.write("slept", "")
	h.pack("cache/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz")
	return h
}

// write writes a file in which DIR stands for the machine's folder.
func (h *host) write(name, text string) {
	h.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", h.dir)), 0o755); err != nil {
		h.Fatal(err)
	}
}

// pack writes an archive as etcd's releases are.
func (h *host) pack(name string) {
	h.Helper()
	h.write(name, "")
	f, err := os.Create(filepath.Join(h.dir, name))
	if err != nil {
		h.Fatal(err)
	}
	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	text := strings.ReplaceAll(etcdctlScript, "DIR", h.dir)
	for _, p := range []struct{ name, text string }{{"etcdctl", text}, {"etcdutl", strings.ReplaceAll(etcdutlScript, "DIR", h.dir)}} {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "etcd-v3.6.16-linux-amd64/" + p.name, Mode: 0o755,
			Size: int64(len(p.text))}); err != nil {
			h.Fatal(err)
		}
		if _, err := archive.Write([]byte(p.text)); err != nil {
			h.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{archive, zip, f} {
		if err := c.Close(); err != nil {
			h.Fatal(err)
		}
	}
}

// run runs the script as a role, and returns its exit code, what it said, and the calls that matter.
func (h *host) run(role Role, endpoints ...string) (code int, said, calls string) {
	h.Helper()
	m := Member{Name: "e-5", Role: role, Endpoints: endpoints, Spec: &bootstrapv1alpha1.EtcdadmConfigSpec{}}
	if role == Restore {
		sum := sha256.Sum256([]byte(snapshotText))
		m.Seed = &Seed{
			Host: "u.seed.quorate", Address: "10.0.0.9:9446", Path: "v1/seeds/default/r", Token: "t", Cluster: "e-5-u",
			SHA256: hex.EncodeToString(sum[:]),
		}
		m.Spec.EtcdadmArgs = map[string]string{"install-dir": h.dir + "/bin"}
	}
	h.write("settings/settings.sh", m.settings())
	replacer := strings.NewReplacer("/etc/quorate/etcd", h.dir+"/settings", "/var/lib/etcd", h.dir+"/data", "/var/cache/etcdadm",
		h.dir+"/cache",
		"/run/quorate-etcd", h.dir+"/tools", "/etc/etcd", h.dir+"/etc", "WAIT=600", "WAIT=10", "PROMOTION=60", "PROMOTION=1",
		// Its clock is what it has slept: a slow host changes nothing.
		"cut -d. -f1 /proc/uptime", "awk '{ slept += $2 } END { printf \"%d\", slept }' "+h.dir+"/slept",
		"/var/lib/quorate-seed", h.dir+"/seed", "/etc/systemd/system", h.dir+"/units")
	text := replacer.Replace(script)
	if m.Seed != nil {
		h.write("settings/start.sh", replacer.Replace(startScript))
		h.write("settings/seed.token", "t")
		h.write("units/etcd.service.d/20-quorate-seed.conf", startsSeed)
	}
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.Env = []string{"PATH=" + h.dir + "/bin:/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		h.Fatal(err)
	}
	noted, _ := os.ReadFile(filepath.Join(h.dir, "calls"))
	var matter []string
	for line := range strings.Lines(string(noted)) {
		if !strings.HasPrefix(line, "systemctl is-active") {
			matter = append(matter, strings.TrimSpace(line))
		}
	}
	return cmd.ProcessState.ExitCode(), string(out), strings.Join(matter, "; ")
}

// TestBootstrapScript: what a machine does, and above all what it does not do.
func TestBootstrapScript(t *testing.T) {
	const (
		add  = "add member add e-5 --learner --peer-urls=https://10.0.0.5:2380"
		join = "systemctl stop etcd.service; etcdadm join https://10.0.0.1:2379"
		one  = "https://10.0.0.1:2379"
	)
	for _, test := range []struct {
		name      string
		prepare   func(*host)
		role      Role
		endpoints []string
		code      int
		said      string // part of it
		calls     string
	}{
		{"the first", func(*host) {}, Init, nil, 0, "", "etcdadm init"},
		{"the first again", func(h *host) { h.write("active", ""); h.write("data/member/x", "") }, Init, nil, 0, "", ""},
		{"the first over data", func(h *host) { h.write("data/member/x", "") }, Init, nil, 1, "refusing to begin anew over data", ""},
		{"the first fails", func(h *host) { h.write("init-fails", "1") }, Init, nil, 1, "etcdadm init failed", "etcdadm init"},
		{"a learner", func(*host) {}, Join, []string{one}, 0, "still a learner, which the controller promotes", add + "; " + join},
		{"a voter", func(h *host) { h.write("voter", "") }, Join, []string{one}, 0, "added as learner through " + one, add + "; " + join},
		{"again", func(h *host) { h.write("active", ""); h.write("voter", "") }, Join, []string{one}, 0, "", ""},
		{"added before", func(h *host) { h.write("members", "5, unstarted, , https://10.0.0.5:2380, , true\n") }, Join, []string{one}, 0, "",
			join},
		{"cut off after it ran", func(h *host) {
			h.write("members", "5, started, e-5, https://10.0.0.5:2380, https://10.0.0.5:2379, true\n")
			h.write("data/member/x", "")
		}, Join, []string{one}, 0, "", join},
		{"without its data", func(h *host) {
			h.write("members", "5, started, e-5, https://10.0.0.5:2380, https://10.0.0.5:2379, false\n")
		}, Join, []string{one}, 1, "member e-5 has run, and its data is not here", ""},
		{"another's address", func(h *host) {
			h.write("members", "5, started, e-2, https://10.0.0.5:2380, https://10.0.0.5:2379, false\n")
		}, Join, []string{one}, 1, "https://10.0.0.5:2380 belongs to another member, which must be removed first", ""},
		{"an address that only begins like it", func(h *host) {
			h.write("members", "5, started, e-2, https://10.0.0.5:23801, https://10.0.0.5:2379, false\n")
		}, Join, []string{one}, 0, "", add + "; " + join},
		{"a dead endpoint", func(*host) {}, Join, []string{"https://dead:2379", one}, 0, "", add + "; " + join},
		{"dead endpoints", func(*host) {}, Join, []string{"https://dead:2379"}, 1,
			"cannot become a learner: https://dead:2379: deadline exceeded", ""},
		{"no endpoint", func(*host) {}, Join, nil, 1, "no endpoint is known", ""},
		{"etcdadm fails once", func(h *host) { h.write("join-fails", "1") }, Join, []string{one}, 0, "etcdadm join: exit code 1",
			add + "; " + join + "; " + join},
		{"an archive that is not there", func(h *host) {
			h.pack("mirror.tar.gz")
			if err := os.Remove(filepath.Join(h.dir, "cache/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz")); err != nil {
				h.Fatal(err)
			}
		}, Init, nil, 0, "", "etcdadm download; etcdadm init"},
		{"an archive for arm64 that is not there", func(h *host) {
			h.pack("mirror.tar.gz")
			h.write("processor", "aarch64")
			if err := os.Remove(filepath.Join(h.dir, "cache/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz")); err != nil {
				h.Fatal(err)
			}
		}, Init, nil, 0, "", "curl https://github.com/coreos/etcd/releases/download/v3.6.16/etcd-v3.6.16-linux-arm64.tar.gz; etcdadm init"},
		{"an archive for arm64 that nobody has", func(h *host) {
			h.write("processor", "aarch64")
			h.write("no-mirror", "")
			if err := os.Remove(filepath.Join(h.dir, "cache/etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz")); err != nil {
				h.Fatal(err)
			}
		}, Init, nil, 1, "etcd 3.6.16 cannot be downloaded", ""},
		{"an older etcd, before the cluster is lowered", func(h *host) {
			h.write("status", newerStatus)
			h.write("version", `{"etcdserver":"3.7.1","etcdcluster":"3.7.0","storage":"3.7.0"}`)
		}, Join, []string{one}, 1, "cannot become a learner: etcd 3.6.16 joins when the cluster is lowered from 3.7.0", ""},
		{"an older etcd, and nobody tells", func(h *host) {
			h.write("status", newerStatus)
			h.write("version", "curl: (28) Operation timed out")
		}, Join, []string{one}, 1, "joins when the cluster is lowered from what is not known: curl: (28) Operation timed out", ""},
		{"an older etcd, in a cluster that is lowered in time", func(h *host) {
			h.write("status", newerStatus)
			h.write("version", `{"etcdserver":"3.7.1","etcdcluster":"3.7.0","storage":"3.7.0"}`)
			h.write("downgrade", `{"version":"3.7.1","downgradeInfo":{"enabled":true,"targetVersion":"3.6.0"}}`)
			// What happens while it waits, from one look to the next.
			h.write("after", `n=$(wc -l <DIR/slept)
[ $n -lt 1 ] || echo '{"etcdserver":"3.7.1","etcdcluster":"3.6.0","storage":"3.6.0"}' >DIR/version
[ $n -lt 3 ] || echo '{"version":"3.7.1","downgradeInfo":{}}' >DIR/downgrade
`)
		}, Join, []string{one}, 0, "added as learner through " + one, add + "; " + join},
		{"an older etcd, and the downgrade is not cancelled", func(h *host) {
			h.write("status", newerStatus)
			h.write("version", `{"etcdserver":"3.7.1","etcdcluster":"3.6.0","storage":"3.6.0"}`)
			h.write("downgrade", `{"version":"3.7.1","downgradeInfo":{"enabled":true,"targetVersion":"3.6.0"}}`)
		}, Join, []string{one}, 1, "a downgrade of etcd stays enabled", add},
		{"beside an older etcd", func(h *host) {
			h.write("status", "https://10.0.0.1:2379, 8e9e05c52164694d, 3.5.35, 20 kB, true, false, 2, 4, 4, \n")
		}, Join, []string{one}, 0, "added as learner", add + "; " + join},
		{"IPv6 alone", func(h *host) { h.write("no-route", ""); h.write("ipv6", "") }, Join, []string{one}, 1,
			"the only address is fd00::5: etcdadm needs one of IPv4 too", ""},
		{"two families", func(h *host) { h.write("ipv6", "") }, Join, []string{one}, 0, "added as learner through " + one, add + "; " + join},
		{"no route", func(h *host) { h.write("no-route", "") }, Join, []string{one}, 1, "there is no default route", ""},
		{"no etcdadm", func(h *host) {
			if err := os.Remove(filepath.Join(h.dir, "bin/etcdadm")); err != nil {
				h.Fatal(err)
			}
		}, Init, nil, 1, "there is no etcdadm in ", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			test.prepare(h)
			code, said, calls := h.run(test.role, test.endpoints...)
			if code != test.code || !strings.Contains(said, test.said) || calls != test.calls {
				t.Errorf("exit code %d, calls %q, want %d and %q\n%s", code, calls, test.code, test.calls, said)
			}
			if env, err := os.ReadFile(h.dir + "/etc/quorate.env"); code == 0 && string(env) != "ETCD_LISTEN_METRICS_URLS=http://10.0.0.5:2381\n" {
				t.Errorf("etcd is told %q, %v", env, err)
			}
		})
	}
	t.Run("no place", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		h.write("refusal", "too many learner members in cluster\n")
		if code, said, calls := h.run(Join, one); code != 1 || !strings.Contains(said, "cannot become a learner: too many learner members") ||
			strings.Contains(calls, "etcdadm") {
			t.Errorf("exit code %d, calls %q\n%s", code, calls, said)
		}
	})
}

// snapshotText is the snapshot that the manager hands out.
const snapshotText = "all keys\n"

// TestRestoreScript: the data of a seed are etcd's before it starts, and without them it does not start.
func TestRestoreScript(t *testing.T) {
	const restored = "etcdutl snapshot restore ./seed/snapshot.db --name e-5 --initial-cluster e-5=https://10.0.0.5:2380 " +
		"--initial-advertise-peer-urls https://10.0.0.5:2380 --initial-cluster-token e-5-u --data-dir ./seed/data --bump-revision 1000000000 " +
		"--mark-compacted"
	for _, test := range []struct {
		name    string
		prepare func(*host)
		code    int
		said    string // part of it
		calls   string
	}{
		{"a seed", func(*host) {}, 0, "", restored + "; etcdadm init; etcd; systemctl daemon-reload"},
		{"a seed that comes late", func(h *host) { h.write("seed-fails", "3") }, 0, "",
			restored + "; etcdadm init; etcd; systemctl daemon-reload"},
		{"a seed that never comes", func(h *host) { h.write("seed-fails", "99") }, 1, "no snapshot was handed out", ""},
		{"another snapshot", func(h *host) { h.write("snapshot", "others\n") }, 1, "the snapshot is not the one that was approved", ""},
		{"a snapshot that cannot be restored", func(h *host) { h.write("unreadable", "") }, 1, "cannot restore the snapshot", restored},
		{"over data", func(h *host) { h.write("data/member/x", "") }, 1, "refusing to restore a seed over data", ""},
		{"again", func(h *host) { h.write("active", ""); h.write("data/member/x", "") }, 0, "", "systemctl daemon-reload"},
		{"etcdadm fails", func(h *host) { h.write("init-fails", "1") }, 1, "etcd does not run", restored + "; etcdadm init"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.write("snapshot", snapshotText)
			test.prepare(h)
			code, said, calls := h.run(Restore)
			if code != test.code || !strings.Contains(said, test.said) || calls != test.calls {
				t.Errorf("exit code %d, calls %q, want %d and %q\n%s", code, calls, test.code, test.calls, said)
			}
			if strings.Contains(calls, "; etcd;") {
				if data, err := os.ReadFile(h.dir + "/data/member/db"); string(data) != snapshotText {
					t.Errorf("etcd has the data %q, %v", data, err)
				}
			}
			for _, left := range []string{"seed", "settings/seed.token", "units/etcd.service.d/20-quorate-seed.conf"} {
				if _, err := os.Stat(filepath.Join(h.dir, left)); code == 0 && err == nil {
					t.Errorf("%s is left", left)
				}
			}
		})
	}
	t.Run("no data", func(t *testing.T) {
		h := newHost(t)
		h.write("settings/settings.sh", "ETCD="+h.dir+"/bin/etcd\n")
		text := strings.NewReplacer("/etc/quorate/etcd", h.dir+"/settings", "/var/lib/etcd", h.dir+"/data", "/var/lib/quorate-seed",
			h.dir+"/seed").Replace(startScript)
		if out, err := exec.Command("/bin/sh", "-c", text).CombinedOutput(); err == nil {
			t.Errorf("etcd starts without data:\n%s", out)
		}
	})
}
