package hostcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netns"
)

// TestFirewall: what a firewall drops in one family says nothing of the other, and it is told only where nothing can let packets through.
func TestFirewall(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a network of its own needs root")
	}
	nft, found := Find("nft")
	if _, err := os.Stat(Firewall6.BridgeFilter); err != nil || !found {
		t.Skip("this host has no nft, or its kernel no firewall for bridges")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test, and its network with it
	made, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Close() }()
	for _, f := range []Firewall{Firewall4, Firewall6} {
		if f.Drops() || f.missingOpen() != nil {
			t.Errorf("%s drops before there are rules", f.Program)
		}
	}
	rules := exec.Command(nft, "-f", "-")
	rules.Stdin = strings.NewReader("table ip6 filter { chain FORWARD { type filter hook forward priority filter; policy drop; }; }\n")
	if out, err := rules.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if Firewall4.Drops() || !Firewall6.Drops() {
		t.Errorf("IPv4 is dropped: %t, IPv6: %t; want IPv6 alone", Firewall4.Drops(), Firewall6.Drops())
	}
	lacks := Firewall6.missingOpen()
	if _, opens := Find(Firewall6.Program); opens != (len(lacks) == 0) {
		t.Fatalf("%s is there: %t; lacking %v", Firewall6.Program, opens, lacks)
	}
	for _, l := range lacks {
		if l.What != "an open bridge for IPv6" || !strings.Contains(l.Fix, "net.bridge.bridge-nf-call-ip6tables=0, or install ip6tables") {
			t.Errorf("%+v", l)
		}
	}
	unseen := Firewall6
	unseen.BridgeFilter = filepath.Join(t.TempDir(), "0")
	if err := os.WriteFile(unseen.BridgeFilter, []byte("0\n"), 0o600); err != nil || unseen.Drops() {
		t.Errorf("packets on bridges do not pass the firewall, and it counts as dropping them: %v", err)
	}
}
