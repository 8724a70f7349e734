package up

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/local/hostcheck"
)

func TestLacking(t *testing.T) {
	if err := lacking(nil); err != nil {
		t.Errorf("error %v where nothing is lacking", err)
	}
	err := lacking([]hostcheck.Lack{
		{What: "runc", Why: "containers", Fix: "apt-get install runc nftables"},
		{What: "nft", Why: "services", Fix: "apt-get install runc nftables"},
		{What: "overlayfs", Why: "disks", Fix: "modprobe overlay"},
	})
	var coded *command.ExitError
	if !errors.As(err, &coded) || coded.Code != command.ExitHost {
		t.Fatalf("error %v has not the exit code of what a host lacks", err)
	}
	first, rest, _ := strings.Cut(err.Error(), "\n")
	if first != "this host lacks runc, nft, overlayfs: apt-get install runc nftables; modprobe overlay" {
		t.Errorf("first line is %q", first)
	}
	if !strings.Contains(rest, "nft: services") {
		t.Errorf("reasons are %q", rest)
	}
}
