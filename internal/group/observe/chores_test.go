package observe

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestNoteKubeconfig: a kubeconfig is written where it is missing and can be made, and before it expires; never somebody else's.
func TestNoteKubeconfig(t *testing.T) {
	end := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		state     certs.Kubeconfig
		endpoint  string
		authority bool
		want      string
	}{
		"missing":              {certs.Kubeconfig{}, "10.0.0.1:6443", true, "KubeconfigMissing"},
		"without an endpoint":  {certs.Kubeconfig{}, "", true, ""},
		"without an authority": {certs.Kubeconfig{}, "10.0.0.1:6443", false, ""},
		"ours":                 {certs.Kubeconfig{Exists: true, Expires: end}, "10.0.0.1:6443", true, "KubeconfigExpiring"},
		"with a token":         {certs.Kubeconfig{Exists: true}, "10.0.0.1:6443", true, ""},
		"somebody else's":      {certs.Kubeconfig{Exists: true, Foreign: true, Expires: end}, "10.0.0.1:6443", true, ""},
	} {
		turn := &Observer{View: &View{Facts: plan.Observed{Cluster: plan.Cluster{Endpoint: test.endpoint}}}}
		turn.NoteKubeconfig(test.state, test.authority)
		got := ""
		for _, c := range turn.Facts.Cluster.Chores {
			got += c.Reason
			if c.Expires != test.state.Expires || c.Due != plan.DueNow {
				t.Errorf("%s: the chore is %+v", name, c)
			}
		}
		if got != test.want || turn.Kubeconfig != test.state {
			t.Errorf("%s: due is %q, not %q", name, got, test.want)
		}
	}
}

// TestKubeconfigFollows: a kubeconfig that cannot be made without the authorities is announced with them, unless there is one.
func TestKubeconfigFollows(t *testing.T) {
	for name, test := range map[string]struct {
		state    certs.Kubeconfig
		endpoint string
		want     string
	}{
		"missing":             {certs.Kubeconfig{}, "10.0.0.1:6443", "Kubeconfig"},
		"without an endpoint": {certs.Kubeconfig{}, "", ""},
		"somebody else's":     {certs.Kubeconfig{Exists: true, Foreign: true}, "10.0.0.1:6443", ""},
	} {
		turn := &Observer{View: &View{Facts: plan.Observed{Cluster: plan.Cluster{Endpoint: test.endpoint}}}}
		wants{turn.View}.addCertificates([]string{"ca"})
		turn.NoteKubeconfig(test.state, false)
		if chores := turn.Facts.Cluster.Chores; len(chores) != 1 || chores[0].Then != test.want {
			t.Errorf("%s: due is %+v, and then %q is wanted", name, chores, test.want)
		}
	}
}

// TestKubeadmChores: what of kubeadm's files is written when, and what only a person can do.
func TestKubeadmChores(t *testing.T) {
	o := &Observer{View: &View{}}
	wants{o.View}.addFiles(kubeadm.Behind{Permissions: "a", Config: "b", Addons: "c", ConfigUnusable: "d", AddonsRefused: "e"})
	want := []plan.Chore{
		{Name: "Permissions", Reason: "PermissionsMissing", Message: "kubeadm's certificates rely on it: a", Due: plan.DueJoin, Inside: true},
		{Name: "KubeadmConfig", Reason: "KubeadmOutdated", Message: "machines read kubeadm's own configuration as they join: b",
			Due: plan.DueJoin, Inside: true, FromSpec: true},
		{Name: "KubeadmConfig", Reason: "KubeadmUnusable", Message: "d", Due: plan.DueJoin, Inside: true, FromSpec: true, Blocked: true},
		{Name: "Addons", Reason: "AddonsOutdated", Message: "c", Due: plan.DueRest, Inside: true, FromSpec: true},
		{Name: "Addons", Reason: "AddonsRefused", Message: "e", Due: plan.DueRest, Inside: true, FromSpec: true, Blocked: true},
	}
	if got := o.Facts.Cluster.Chores; !slices.Equal(got, want) {
		t.Errorf("due is %+v", got)
	}
	manual, err := os.ReadFile("../../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	wants{o.View}.addCertificates([]string{"ca"})
	for _, c := range o.Facts.Cluster.Chores {
		if !strings.Contains(string(manual), "\n| "+c.Name+":") || !strings.Contains(string(manual), c.Reason) {
			t.Errorf("docs/operating.md does not know the chore %s with the reason %s", c.Name, c.Reason)
		}
	}
	o.Facts.Cluster.Chores = nil
	if (wants{o.View}).addFiles(kubeadm.Behind{}); len(o.Facts.Cluster.Chores) > 0 {
		t.Errorf("all is as wanted, and due is %+v", o.Facts.Cluster.Chores)
	}
}
