package etcd_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// A lowering is of etcd's version from one minor version to the one before.
type lowering struct {
	from, to string
	// newer and older are the paths of their etcd.
	newer, older func(testing.TB) string
	// early has logs compacted early, so that joiners are fed by snapshot, as in a cluster of some age. Both versions know these flags.
	early []string
}

var lowerings = []lowering{
	{"3.6", "3.5", etcdtest.Middle, etcdtest.Older, []string{"--snapshot-count=20", "--experimental-snapshot-catchup-entries=5"}},
	{"3.7", "3.6", etcdtest.Newer, etcdtest.Middle, []string{"--snapshot-count=20", "--snapshot-catchup-entries=5"}},
}

// each runs a test with each pair of versions.
func each(t *testing.T, test func(t *testing.T, o *old)) {
	t.Parallel()
	for _, l := range lowerings {
		t.Run(l.from+" to "+l.to, func(t *testing.T) {
			t.Parallel()
			test(t, newOld(t, l))
		})
	}
}

// old is a cluster of etcd that is lowered.
type old struct {
	lowering
	t    *testing.T
	ca   *etcdtest.Authority
	c    *etcd.Cluster
	g    etcdtest.Group
	ids  map[string]uint64
	path string
}

func newOld(t *testing.T, l lowering) *old {
	m := runs(t, l.newer(t), three, l.early...)
	o := &old{lowering: l, t: t, ca: m.ca, c: m.client, g: m.Group, ids: map[string]uint64{}, path: l.older(t)}
	t.Cleanup(func() {
		for _, p := range o.g {
			if t.Failed() {
				t.Logf("%s ended=%t:\n%.3000s", p.Name, p.Ended(), p.Log())
			}
		}
	})
	for i := range 60 {
		o.put(fmt.Sprintf("k%d", i))
	}
	o.await(o.from, "")
	return o
}

func (o *old) put(key string) {
	o.t.Helper()
	_, err := pb.NewKVClient(o.g[0].Connect()).Put(o.t.Context(), &pb.PutRequest{Key: []byte(key), Value: []byte("v" + key)})
	etcdtest.Must(o.t, err)
}

// await waits until the storage of all members that tell it is of a minor version, and a downgrade is enabled to another.
func (o *old) await(minor, downgrade string) {
	o.t.Helper()
	etcdtest.Eventually(o.t, "all have "+minor, func() (string, bool) {
		s := o.c.Survey(o.t.Context(), o.g.Targets())
		text, ok := "downgrade "+s.Downgrade, s.Downgrade == downgrade
		for _, m := range s.Members {
			text += fmt.Sprintf("; %s %s storage %s", m.Name, m.Version, m.Storage)
			ok = ok && (strings.HasPrefix(m.Storage, minor+".") || m.Storage == "" && (m.Name == "" || strings.HasPrefix(m.Version, "3.5.")))
		}
		return text, ok && len(s.Members) > 0
	})
}

// add adds a learner of the older version, which is not started.
func (o *old) add(name string) *etcdtest.Process {
	o.t.Helper()
	p := etcdtest.NewProcess(o.t, o.ca, name, o.early...)
	p.Path = o.path
	etcdtest.Eventually(o.t, name+" is added", func() (string, bool) {
		added, err := pb.NewClusterClient(o.g[0].Connect()).MemberAdd(o.t.Context(), &pb.MemberAddRequest{PeerURLs: []string{p.Peer},
			IsLearner: true})
		if err != nil {
			return err.Error(), false
		}
		o.ids[name] = added.Member.ID
		return "", true
	})
	return p
}

// join starts one that was added, and has it vote.
func (o *old) join(p *etcdtest.Process) {
	o.t.Helper()
	o.g = append(o.g, p)
	p.Start("existing", o.g.Initial())
	etcdtest.Eventually(o.t, p.Name+" has caught up", func() (string, bool) {
		s := o.c.Survey(o.t.Context(), o.g.Targets())
		for _, m := range s.Members {
			if m.ID == o.ids[p.Name] {
				return etcdtest.Show(s), m.InSync && m.Name != ""
			}
		}
		return etcdtest.Show(s), false
	})
	etcdtest.Must(o.t, o.c.Promote(o.t.Context(), o.g.Targets(), o.ids[p.Name]))
}

func (o *old) enable() {
	o.t.Helper()
	etcdtest.Must(o.t, o.c.EnableDowngrade(o.t.Context(), o.g.Targets(), o.to))
}

func (o *old) cancel() {
	o.t.Helper()
	etcdtest.Must(o.t, o.c.CancelDowngrade(o.t.Context(), o.g.Targets()))
}

// TestDowngrade goes from one minor version of etcd to the one before in the order that works: the downgrade is enabled, the learner is
// added and does not start before it is cancelled again. The rest follow as ever.
func TestDowngrade(t *testing.T) {
	each(t, lowers)
}

func lowers(t *testing.T, o *old) {
	o.enable()
	o.enable() // repeated, it is no error
	o.await(o.to, o.to+".0")
	p := o.add("cp-4")
	o.cancel()
	o.cancel()
	o.await(o.to, "")
	<-time.After(8 * time.Second) // twice the time at which etcd looks at its members' versions
	o.await(o.to, "")
	o.join(p)
	for i, gone := range append(etcdtest.Group(nil), o.g[:3]...) {
		s := o.c.Survey(t.Context(), o.g.Targets())
		for _, m := range s.Members {
			if m.Name == p.Name {
				etcdtest.Must(t, o.c.MoveLeader(t.Context(), o.g.Targets(), m.ID))
			}
		}
		etcdtest.Must(t, o.c.RemoveMember(t.Context(), o.g.Targets(), gone.ID()))
		o.g = o.g.But(gone)
		if i < 2 {
			o.join(o.add(fmt.Sprintf("cp-%d", 5+i)))
		}
	}
	o.put("last")
	for _, q := range o.g {
		answer, err := pb.NewKVClient(q.Connect()).Range(t.Context(), &pb.RangeRequest{Key: []byte("k59")})
		if err != nil || len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != "vk59" || !strings.HasPrefix(q.Status().Version, o.to+".") {
			t.Errorf("%s has %v, %v, version %s", q.Name, answer, err, q.Status().Version)
		}
	}
}

// TestDowngradeTakenBack: without a learner of the older version the cluster has its own again; while a member is away nothing is lowered.
func TestDowngradeTakenBack(t *testing.T) {
	each(t, lowersAndTakesBack)
}

func lowersAndTakesBack(t *testing.T, o *old) {
	if err := o.c.EnableDowngrade(t.Context(), o.g.Targets(), "3.4"); err == nil ||
		!strings.Contains(err.Error(), "invalid downgrade target") {
		t.Errorf("3.4: %v", err)
	}
	o.enable()
	o.await(o.to, o.to+".0")
	o.cancel()
	o.await(o.from, "")
	p := o.add("cp-4") // it never starts, and counts as away
	o.enable()
	<-time.After(8 * time.Second)
	o.await(o.from, o.to+".0")
	etcdtest.Must(t, o.c.RemoveMember(t.Context(), o.g.Targets(), o.ids[p.Name]))
	o.await(o.to, o.to+".0")
}

// TestDowngradeTakenBackLate: a member of the older version votes already, and one of the newer takes its place.
func TestDowngradeTakenBackLate(t *testing.T) {
	each(t, takesBackLate)
}

func takesBackLate(t *testing.T, o *old) {
	o.enable()
	o.await(o.to, o.to+".0")
	p := o.add("cp-4")
	o.cancel()
	o.join(p)
	q := o.add("cp-5")
	q.Path = o.newer(t)
	o.join(q)
	o.await(o.to, "")
	etcdtest.Must(t, o.c.RemoveMember(t.Context(), o.g.Targets(), o.ids[p.Name]))
	o.g = o.g.But(p)
	o.await(o.from, "")
}

// TestMembersTellMachines: what the script of a machine asks before it joins is answered at the members' client URLs.
func TestMembersTellMachines(t *testing.T) {
	each(t, membersTellMachines)
}

func membersTellMachines(t *testing.T, o *old) {
	own := o.ca.Client()
	own.ServerName = o.g[0].Name
	h := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: own, DisableKeepAlives: true}}
	says := func(text string, response *http.Response, err error) {
		t.Helper()
		etcdtest.Must(t, err)
		body, err := io.ReadAll(response.Body)
		etcdtest.Must(t, errors.Join(err, response.Body.Close()))
		if !strings.Contains(string(body), text) {
			t.Errorf("got %s, want %s", body, text)
		}
	}
	version := func(text string) {
		t.Helper()
		response, err := h.Get(o.g[0].URL() + "/version")
		says(text, response, err)
	}
	status := func(text string) {
		t.Helper()
		response, err := h.Post(o.g[0].URL()+"/v3/maintenance/status", "application/x-www-form-urlencoded", strings.NewReader("{}"))
		says(text, response, err)
	}
	version(`"etcdcluster":"` + o.from + `.0"`)
	status(`"downgradeInfo":{}`)
	o.enable()
	o.await(o.to, o.to+".0")
	version(`"etcdcluster":"` + o.to + `.0"`)
	status(`"enabled":true`)
}
