package steps

import (
	"slices"
	"testing"
)

func TestLeftToOthers(t *testing.T) {
	for name, test := range map[string]struct {
		skipped    []string
		proxy, dns bool
		want       []string
	}{
		"nothing": {nil, false, false, nil},
		"phases of init": {[]string{"preflight", "addon/kube-proxy", "mark-control-plane", "bootstrap-token"}, false, false,
			[]string{ProxyPhase, "bootstrap-token"}},
		"all add-ons":        {[]string{"addon"}, false, true, []string{"addon", DNSPhase}},
		"annotations":        {nil, true, true, []string{DNSPhase, ProxyPhase}},
		"said in both":       {[]string{"addon/kube-proxy"}, true, false, []string{ProxyPhase}},
		"none of an upgrade": {[]string{"certs", "kubeconfig/admin"}, false, false, nil},
	} {
		if got := LeftToOthers(test.skipped, test.proxy, test.dns); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if OfOneNode("bootstrap-token") || !OfOneNode(ProxyPhase) || !OfOneNode("addon") {
		t.Error("what is once for the cluster is not told from what is done with each node")
	}
}

// TestRequires: an upgrader must know what it is told to leave out, and knows what this release requires.
func TestRequires(t *testing.T) {
	if got := (Wanted{}).Requires(); got != nil {
		t.Errorf("%q", got)
	}
	w := Wanted{SkipPhases: []string{ProxyPhase}}
	if got := Unknown(append(w.Requires(), "shiny")); len(w.Requires()) == 0 || !slices.Equal(got, []string{"shiny"}) {
		t.Errorf("%q, %q", w.Requires(), got)
	}
}
