package upgrader

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/steps"
)

// fakeEtcdctl answers as etcdctl does on the node of member 1, from what is in its folder.
const fakeEtcdctl = `#!/bin/sh
here=$(dirname "$0")
case "$*" in
"member list --write-out=json") cat "$here/members" ;;
"endpoint status --write-out=json") echo '[{"Status": {"header": {"member_id": 1}, "leader": 2}}]' ;;
"endpoint health") ! grep -q "$ETCDCTL_ENDPOINTS" "$here/silent" ;;
*) exit 64 ;;
esac
`

// etcdNode is a node whose etcd has the members of a list, by their numbers, those in lower case being learners: "1 2 c".
func etcdNode(t *testing.T, members, silent string) *node {
	t.Helper()
	s := newScene(t)
	s.kubeadmNode("ipv4")
	var all []string
	for _, m := range strings.Fields(members) {
		learner := "false"
		if m == "c" {
			m, learner = "3", "true"
		}
		all = append(all, `{"ID": `+m+`, "name": "cp-`+m+`", "clientURLs": ["https://10.0.0.`+m+`:2379"], "isLearner": `+learner+`}`)
	}
	s.write(s.at.programs()+"/members", `{"members": [`+strings.Join(all, ", ")+`]}`)
	s.write(s.at.programs()+"/silent", "none\n"+silent)
	s.write(s.at.programs()+"/etcdctl", fakeEtcdctl)
	if err := os.Chmod(s.at.programs()+"/etcdctl", 0o700); err != nil {
		t.Fatal(err)
	}
	w := steps.Wanted{ID: "u1", Attempt: 1, Node: "cp-1", Type: steps.ControlPlane, StackedEtcd: true, SingleNode: len(all) == 1,
		KubernetesVersion: "v1.36.3"}
	return &node{layout: s.at, wanted: w, out: io.Discard}
}

// TestOthersServe: the node's member stops only where the other voters are a majority of all, and answer.
func TestOthersServe(t *testing.T) {
	two, three := "https://10.0.0.2:2379\n", "https://10.0.0.3:2379\n"
	for _, c := range []struct{ members, silent, want string }{
		{"1", "", ""},
		{"1 c", "", ""},
		{"1 2 3", "", ""},
		{"1 2 3", three, "1 of the 2 other voters answer, and the quorum is 2: cp-3"},
		{"1 2 3", two + three, "0 of the 2"},
		{"1 2", "", "1 of the 1 other voters answer, and the quorum is 2"},
		{"1 2 c", "", "1 of the 1"},
		{"1 2 3 4", "", ""},
		{"1 2 3 4", two, "2 of the 3 other voters answer, and the quorum is 3: cp-2"},
		{"1 2 3 4 5", two, ""},
		{"1 2 3 4 5", two + three, "2 of the 4"},
	} {
		err := etcdNode(t, c.members, c.silent).othersServe(t.Context())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s without %q: %v, want %q", c.members, c.silent, err, c.want)
		}
	}
}

// TestAwaitOthers: a swap does not begin while the others could not do without the node's member. One that has begun goes on, and so does
// that of the only node, which may be what mends it.
func TestAwaitOthers(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop() // it looks once
	for _, c := range []struct {
		members string
		phase   steps.Phase
		waits   bool
	}{
		{"1 2 3", "", true},
		{"1 2 3", steps.Stopping, false},
		{"1", "", false},
	} {
		n := etcdNode(t, c.members, "https://10.0.0.2:2379\n")
		n.journal.Phase = c.phase
		if err := n.awaitOthers(ctx); (err != nil) != c.waits {
			t.Errorf("%s in phase %q: %v", c.members, c.phase, err)
		}
	}
}
