package rights

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const log = `{"kind":"Event","stage":"ResponseStarted","verb":"watch","user":{"username":"us"},"objectRef":{"apiGroup":"cluster.x-k8s.io","resource":"machines"}}
{"kind":"Event","stage":"ResponseComplete","verb":"watch","user":{"username":"us"},"objectRef":{"apiGroup":"cluster.x-k8s.io","resource":"machines"}}
{"kind":"Event","stage":"ResponseComplete","verb":"patch","user":{"username":"us"},"objectRef":{"apiGroup":"cluster.x-k8s.io","resource":"machines","subresource":"status"}}
{"kind":"Event","stage":"ResponseComplete","verb":"get","user":{"username":"us"},"objectRef":{"resource":"secrets","name":"demo-ca"}}
{"kind":"Event","stage":"ResponseComplete","verb":"get","user":{"username":"us"},"objectRef":{"resource":"secrets","name":"demo-etcd"}}
{"kind":"Event","stage":"ResponseComplete","verb":"delete","user":{"username":"us"},"objectRef":{"resource":"secrets","name":"demo-ca"},"responseStatus":{"code":403}}
{"kind":"Event","stage":"ResponseComplete","verb":"create","user":{"username":"us"},"objectRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","resource":"localmachines"}}
{"kind":"Event","stage":"ResponseComplete","verb":"list","user":{"username":"them"},"objectRef":{"resource":"configmaps"}}
{"kind":"Event","stage":"ResponseComplete","verb":"get","user":{"username":"us"},"requestURI":"/apis"}
{"kind":"Event","stage":"ResponseComplete","verb":"create","user":{"username":"us"},"objectRef":{"apiGroup":"authorization.k8s.io","resource":"selfsubjectaccessreviews"}}
{"kind":"Event","stage":"ResponseComplete","verb":"upd`

const role = `
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, list]}
- {apiGroups: [cluster.x-k8s.io], resources: [machines, machines/status], verbs: [watch, patch]}
- {apiGroups: [infrastructure.cluster.x-k8s.io], resources: ["*"], verbs: [create, delete]}
`

func TestRead(t *testing.T) {
	needed, err := Read(strings.NewReader(log), "us")
	if err != nil {
		t.Fatal(err)
	}
	want := "map[create localmachines.infrastructure.cluster.x-k8s.io:1 delete secrets:1 get secrets:2 patch " +
		"machines/status.cluster.x-k8s.io:1 watch machines.cluster.x-k8s.io:2]"
	if got := text(needed); got != want {
		t.Errorf("needed are %s, want %s", got, want)
	}
	if _, err := Read(strings.NewReader("{}\nno event\n"), "us"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("of a line that is no event it says %v", err)
	}
}

func TestCompare(t *testing.T) {
	needed, err := Read(strings.NewReader(log), "us")
	if err != nil {
		t.Fatal(err)
	}
	var granted rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(role), &granted); err != nil {
		t.Fatal(err)
	}
	unused, missing := Compare(&granted, needed)
	const (
		wantUnused = "[list secrets patch machines.cluster.x-k8s.io watch machines/status.cluster.x-k8s.io delete " +
			"*.infrastructure.cluster.x-k8s.io]"
		// Asked for and refused.
		wantMissing = "[delete secrets]"
	)
	if got := fmt.Sprint(unused); got != wantUnused {
		t.Errorf("unused are %s, want %s", got, wantUnused)
	}
	if got := fmt.Sprint(missing); got != wantMissing {
		t.Errorf("missing are %s, want %s", got, wantMissing)
	}
}

func TestCovers(t *testing.T) {
	need := Right{"patch", "g", "things/status"}
	for _, c := range []struct {
		grant Right
		want  bool
	}{
		{Right{"patch", "g", "things/status"}, true}, {Right{"*", "g", "things/status"}, true}, {Right{"patch", "*", "things/status"}, true},
		{Right{"patch", "g", "*"}, true}, {Right{"patch", "g", "*/status"}, true},
		{Right{"patch", "g", "things"}, false}, {Right{"get", "g", "*"}, false}, {Right{"patch", "h", "*"}, false},
		{Right{"patch", "g", "*/scale"}, false},
	} {
		if got := covers(c.grant, need); got != c.want {
			t.Errorf("%v covers %v: %t, want %t", c.grant, need, got, c.want)
		}
	}
}

// text writes a map in the order of what its keys say.
func text(needed map[Right]int) string {
	plain := map[string]int{}
	for r, n := range needed {
		plain[r.String()] = n
	}
	return fmt.Sprint(plain)
}

// What is excused of Quorate's role is granted by it: else the excuse is one for nothing.
func TestExcuses(t *testing.T) {
	granted := ours(t)
	all := grants(granted)
	for _, excused := range []map[Right]string{rare, repairing} {
		for r := range excused {
			if !slices.Contains(all, r) {
				t.Errorf("%s is excused and not granted", r)
			}
		}
	}
	if n := len(Expected(all, false)); n != len(all)-len(rare)-len(repairing) {
		t.Errorf("of %d grants %d are expected by the making of a control plane", len(all), n)
	}
	if n := len(Expected(all, true)); n != len(all)-len(rare) {
		t.Errorf("of %d grants %d are expected by its making and repair", len(all), n)
	}
}

// The role grants nothing that is known to be dangerous and needless.
func TestRole(t *testing.T) {
	granted := ours(t)
	for _, g := range grants(granted) {
		switch {
		case g.Group == "*" || g.Verb == "*", g.Resource == "*" && g.Group != infrastructure && g.Group != bootstrap:
			t.Errorf("%s is everything", g)
		case g.Resource == "secrets" && (g.Verb == "list" || g.Verb == "watch" || g.Verb == "delete"):
			t.Errorf("%s: secrets are read by name", g)
		}
	}
}

// ours is the role of Quorate's own controllers.
func ours(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	data, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	granted := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, granted); err != nil {
		t.Fatal(err)
	}
	return granted
}
