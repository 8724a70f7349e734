package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
)

// TestReadIdentities: a file that holds no identities is refused, and nothing of it is quoted.
func TestReadIdentities(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.txt")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("AGE-SECRET-KEY-1HUNTER2")
	if _, _, err := ReadIdentities(path); err == nil || strings.Contains(err.Error(), "HUNTER2") || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if _, _, err := ReadIdentities(path + ".gone"); err == nil {
		t.Error("a file that is not there is read")
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	want := "# mine\n" + identity.String() + "\n"
	write(want)
	text, all, err := ReadIdentities(path)
	if err != nil || string(text) != want || len(all) != 1 {
		t.Errorf("%d identities, %v", len(all), err)
	}
}
