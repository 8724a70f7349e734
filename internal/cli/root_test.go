package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quorate/quorate/internal/cli/command"
)

// What touches machines is refused to everybody but root, before anything is made.
func TestNeedsRoot(t *testing.T) {
	for _, args := range []string{"up", "down", "down demo", "machine stop m", "machine kill-component m etcd", "shell m", "daemon"} {
		t.Run(args, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			var out, errors strings.Builder
			var code int
			asNobody(t, func() {
				code = Main(t.Context(), append(strings.Fields(args), "--state", state), command.Streams{Out: &out, Err: &errors},
					func(string) string { return "" })
			})
			if code != command.ExitHost || errors.String() != "quorate: machines need root: run this as root, for example with sudo\n" {
				t.Errorf("exit code %d, errors %q", code, errors.String())
			}
			if _, err := os.Stat(state); !os.IsNotExist(err) || out.Len() > 0 {
				t.Errorf("the state folder: %v; output %q", err, out.String())
			}
		})
	}
}

// asNobody does something with the rights of a user that is not root.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		if err := syscall.Seteuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Seteuid(0); err != nil {
				t.Fatal(err)
			}
		}()
	}
	do()
}
