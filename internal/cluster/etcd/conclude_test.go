package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// list writes members as "1:a 2:b 3:c?": ID, name, and ? for learners. A member without a name never started.
func list(t *testing.T, text string) []*pb.Member {
	t.Helper()
	var out []*pb.Member
	for _, word := range strings.Fields(text) {
		m := &pb.Member{IsLearner: strings.HasSuffix(word, "?")}
		id, name, _ := strings.Cut(strings.TrimSuffix(word, "?"), ":")
		if _, err := fmt.Sscanf(id, "%x", &m.ID); err != nil {
			t.Fatalf("member %q: %v", word, err)
		}
		m.Name, m.PeerURLs = name, []string{"https://" + id + ":2380"}
		out = append(out, m)
	}
	return out
}

func reach(context.Context) (net.Conn, error) { return nil, errors.New("not in this test") }

// said is the answer of a member, which follows leader (0: none) in term 5.
func said(name string, id, leader uint64, list []*pb.Member, errs ...string) answer {
	return answer{target: Target{Name: name, Dial: reach}, list: list, status: &pb.StatusResponse{
		Header: &pb.ResponseHeader{ClusterId: 0xc1, MemberId: id}, Leader: leader, RaftTerm: 5, Errors: errs,
	}}
}

func refused(name string) answer {
	return answer{target: Target{Name: name, Dial: reach}, err: errors.New("refused")}
}

func refusedFor(name, why string) answer {
	return answer{target: Target{Name: name, Dial: reach},
		err: status.Errorf(codes.Unavailable, `connection error: desc = "error reading server preface: %s"`, why)}
}

func unasked(name string) answer { return answer{target: Target{Name: name}} }

func elsewhere(a answer, cluster uint64) answer {
	a.status.Header.ClusterId = cluster
	return a
}

func inTerm(a answer, term uint64) answer {
	a.status.RaftTerm = term
	return a
}

// text is a survey in a few words: agreed or not, and each member with L for the leader, ? for a learner, its health and alarms.
func text(s Survey) string {
	words := []string{"unknown"}
	if s.Known {
		words[0] = "disagreed"
	}
	if s.Agreed {
		words[0] = "agreed"
	}
	for _, m := range s.Members {
		flags := map[bool]string{true: "L"}[m.Leader] + map[bool]string{true: "?"}[m.Learner]
		health := string(m.Health)
		if health == "" {
			health = "Unknown"
		}
		words = append(words, fmt.Sprintf("%x:%s%s=%s%s", m.ID, m.Name, flags, health, strings.Join(m.Alarms, "+")))
	}
	return strings.Join(words, " ")
}

func TestConclude(t *testing.T) {
	abc := list(t, "1:a 2:b 3:c")
	tests := []struct {
		name    string
		answers []answer
		want    string
		why     string // contained in Why; "-": Why is empty
	}{
		{"all agree", []answer{said("a", 1, 2, abc), said("b", 2, 2, abc), said("c", 3, 2, abc)},
			"agreed 1:a=Healthy 2:bL=Healthy 3:c=Healthy", "-"},
		{"nobody was asked", nil, "unknown", "no member returned its list of members"},
		{"nobody answered", []answer{refused("a"), unasked("b")}, "unknown", "a does not answer: refused; b: there is no way to ask it"},
		{"one is silent", []answer{said("a", 1, 2, abc), said("b", 2, 2, abc), refused("c")},
			"agreed 1:a=Healthy 2:bL=Healthy 3:c=Unhealthy", "c: does not answer: refused"},
		{"the way to one failed", []answer{said("a", 1, 2, abc), said("b", 2, 2, abc),
			{target: Target{Name: "c", Dial: reach}, err: unreachedError{errors.New("no kubelet")}}},
			"agreed 1:a=Healthy 2:bL=Healthy 3:c=Unknown", "c: there was no way to ask it: no kubelet"},
		{"no way to anybody", []answer{{target: Target{Name: "a", Dial: reach}, err: unreachedError{errors.New("no kubelet")}}}, "unknown",
			"; a: there was no way to ask it: no kubelet"},
		{"one refuses our certificate", []answer{said("a", 1, 2, abc), said("b", 2, 2, abc),
			refusedFor("c", "remote error: tls: expired certificate")},
			"agreed 1:a=Healthy 2:bL=Healthy 3:c=Unknown", "c: does not answer: it refuses our certificate: expired, or not yet valid by its clock"},
		{"one cannot be asked", []answer{said("a", 1, 2, abc), said("b", 2, 2, abc)},
			"agreed 1:a=Healthy 2:bL=Healthy 3:c=Unknown", "c: there is no way to ask it"},
		{"a minority is believed for display only", []answer{said("a", 1, 2, abc), refused("b"), refused("c")},
			"disagreed 1:a=Healthy 2:bL=Unhealthy 3:c=Unhealthy", "only 1 of 3 voters gave this list of members and follow a leader, 2 must"},
		{"without a leader nothing is agreed", []answer{said("a", 1, 0, abc, "etcdserver: no leader"), said("b", 2, 0, abc),
			said("c", 3, 0, abc)},
			"disagreed 1:a=Unhealthy 2:b=Unhealthy 3:c=Unhealthy", "only 0 of 3 voters"},
		{"names do not count", []answer{said("a", 1, 1, abc), said("b", 2, 1, list(t, "1:a 2:b 3:")), said("c", 3, 1, abc)},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=Healthy", "-"},
		{"order does not count", []answer{said("a", 1, 1, abc), said("b", 2, 1, list(t, "3:c 2:b 1:a")), said("c", 3, 1, abc)},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=Healthy", "-"},
		{"another list", []answer{said("a", 1, 1, abc), said("b", 2, 1, abc), said("c", 3, 1, list(t, "1:a 2:b 3:c 4:d"))},
			"disagreed 1:aL=Healthy 2:b=Healthy 3:c=Healthy", "c has another list of members than a"},
		{"learner or voter is a difference", []answer{said("a", 1, 1, abc), said("b", 2, 1, abc), said("c", 3, 1, list(t, "1:a 2:b? 3:c"))},
			"disagreed 1:aL=Healthy 2:b=Healthy 3:c=Healthy", "c has another list"},
		{"members are sorted", []answer{said("a", 1, 1, list(t, "3:c 1:a 2:b")), said("b", 2, 1, list(t, "3:c 1:a 2:b"))},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=Unknown", "c: there is no way to ask it"},
		{"who follows a leader is believed before many who do not", []answer{said("a", 1, 4, list(t, "1:a 2:b 3:c 4:d")), said("b", 2, 0, abc),
			said("c", 3, 0, abc)},
			"disagreed 1:a=Healthy 2:b=Unhealthy 3:c=Unhealthy 4:dL=Unknown",
			"only 1 of 4 voters gave this list of members and follow a leader, 3 must"},
		{"without a leader most are believed", []answer{said("a", 1, 0, abc), said("b", 2, 0, abc),
			inTerm(said("c", 3, 0, list(t, "1:a 2:b 3:c 4:d")), 6)},
			"disagreed 1:a=Unhealthy 2:b=Unhealthy 3:c=Unhealthy", "only 0 of 3"},
		{"one that is cut off has an old list", []answer{said("a", 1, 1, list(t, "1:a 2:b 3:c 4:?")), said("b", 2, 1, list(t, "1:a 2:b 3:c 4:?")),
			said("c", 3, 0, abc)},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=Unhealthy 4:?=Unknown", "c: follows no leader; member 4: has never started"},
		{"one that was just removed still answers", []answer{said("a", 1, 1, list(t, "1:a 2:b")), said("b", 2, 1, list(t, "1:a 2:b")),
			said("c", 3, 1, abc)},
			"agreed 1:aL=Healthy 2:b=Healthy", "-"},
		{"one that lists itself no more is no witness", []answer{said("c", 3, 1, list(t, "1:a 2:b"))}, "unknown", "no member returned its list"},
		{"learners do not count for the majority", []answer{said("a", 1, 1, list(t, "1:a 2:b? 3:c?")), said("b", 2, 1, nil),
			said("c", 3, 1, nil)},
			"agreed 1:aL=Healthy 2:b?=Healthy 3:c?=Healthy", "-"},
		{"a started member proves its name", []answer{said("a", 1, 1, list(t, "1:a 2:?")), said("b", 2, 1, nil)},
			"agreed 1:aL=Healthy 2:b?=Healthy", "-"},
		{"a voter that never started counts", []answer{said("a", 1, 1, list(t, "1:a 2:"))},
			"disagreed 1:aL=Healthy 2:=Unknown", "only 1 of 2 voters"},
		{"its place is taken", []answer{said("a", 1, 1, abc), said("b", 2, 1, abc), said("c", 4, 1, nil)},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=Unhealthy", "c: in its place answers member 4"},
		{"another cluster", []answer{said("a", 1, 1, abc), said("b", 2, 1, abc), elsewhere(said("c", 9, 9, list(t, "9:c")), 0xc2)},
			"disagreed 1:aL=Healthy 2:b=Healthy 3:c=Unhealthy", "c belongs to another etcd cluster, c2 and not c1"},
		{"another cluster with the same members", []answer{said("a", 1, 1, abc), refused("b"), elsewhere(inTerm(said("c", 3, 3, abc), 4), 0xc2)},
			"disagreed 1:aL=Healthy 2:b=Unhealthy 3:c=Unhealthy", "only 1 of 3 voters gave this list"},
		{"a learner of another cluster", []answer{said("a", 1, 1, list(t, "1:a")), elsewhere(said("c", 9, 9, nil), 0xc2)},
			"disagreed 1:aL=Healthy", "c belongs to another etcd cluster"},
		{"most voters are believed", []answer{said("a", 1, 1, list(t, "1:a 2:b 3:c 4:d")), said("b", 2, 1, abc), said("c", 3, 1, abc)},
			"disagreed 1:aL=Healthy 2:b=Healthy 3:c=Healthy", "a has another list of members than b"},
		{"of two equal ones the newer is believed", []answer{inTerm(said("a", 1, 1, list(t, "1:a 2:b")), 4),
			inTerm(said("b", 2, 2, list(t, "1:a 2:b 3:c")), 6)},
			"disagreed 1:a=Healthy 2:bL=Healthy 3:c=Unknown", "a has another list of members than b"},
		{"the leader of the newest term", []answer{inTerm(said("a", 1, 1, abc), 6), inTerm(said("b", 2, 3, abc), 5),
			inTerm(said("c", 3, 1, abc), 6)},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=Healthy", "-"},
		{"NOSPACE, told by all", []answer{said("a", 1, 1, abc, "memberID:3 alarm:NOSPACE "), said("b", 2, 1, abc, "memberID:3  alarm:NOSPACE"),
			said("c", 3, 1, abc)},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=HealthyNOSPACE", "c raised the alarm NOSPACE"},
		{"an alarm of a member that is gone", []answer{said("a", 1, 1, abc, "memberID:9 alarm:NOSPACE "), said("b", 2, 1, abc),
			said("c", 3, 1, abc)},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=Healthy", "the alarm NOSPACE of member 9, which is gone, is still active"},
		{"CORRUPT", []answer{said("a", 1, 1, abc, "memberID:3 alarm:CORRUPT ", "memberID:3 alarm:NOSPACE "), said("b", 2, 1, abc),
			said("c", 3, 1, abc)},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=UnhealthyCORRUPT+NOSPACE", "c: its data is corrupt"},
		{"an error that is no alarm", []answer{said("a", 1, 1, abc), said("b", 2, 1, abc), said("c", 3, 1, abc, "disk on fire")},
			"agreed 1:aL=Healthy 2:b=Healthy 3:c=Unhealthy", "c: disk on fire"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := conclude(test.answers)
			if gone := strings.Contains(test.why, "which is gone"); gone != (len(got.StrayAlarms) == 1) {
				t.Errorf("alarms of members that are gone: %q", got.StrayAlarms)
			}
			if text(got) != test.want {
				t.Errorf("got  %s\nwant %s", text(got), test.want)
			}
			if test.why == "-" && got.Why != "" || test.why != "-" && !strings.Contains(got.Why, test.why) {
				t.Errorf("why is %q, want %q", got.Why, test.why)
			}
			for range 5 {
				rand.Shuffle(len(test.answers), func(i, j int) { test.answers[i], test.answers[j] = test.answers[j], test.answers[i] })
				if other := conclude(test.answers); !reflect.DeepEqual(text(other), text(got)) {
					t.Errorf("another order of answers: %s", text(other))
				}
			}
		})
	}
}

// TestWhoAnswered: a member is where the target is that answered as it, whatever its name.
func TestWhoAnswered(t *testing.T) {
	abc := list(t, "1:red 2:b 3:c")
	got := conclude([]answer{said("a", 1, 2, abc), said("b", 2, 2, abc), refused("c")})
	for i, want := range []string{"a", "b", ""} {
		if at := got.Members[i].At; at != want {
			t.Errorf("member %s answered at %q, want %q", got.Members[i].Name, at, want)
		}
	}
}

func TestIDs(t *testing.T) {
	for _, id := range []uint64{1, 0xdeadbeef, 1<<64 - 1} {
		if got, err := ParseID(FormatID(id)); err != nil || got != id {
			t.Errorf("%x became %x, %v", id, got, err)
		}
	}
	for _, bad := range []string{"", "xyz", "11112222333344445"} {
		if _, err := ParseID(bad); err == nil || !strings.Contains(err.Error(), `"`+bad+`"`) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRemovalsAreOrderedFromTheLeaderFirst(t *testing.T) {
	l := list(t, "1:a 2:b 3:c 4:d?")
	learner := said("d", 4, 3, nil)
	learner.status.IsLearner = true
	answers := []answer{said("a", 1, 3, l), said("b", 2, 3, l), said("c", 3, 3, l), learner, refused("e"), said("f", 6, 0, l)}
	for removed, want := range map[uint64]string{1: "c b a", 3: "a b c", 4: "c a b"} {
		var got []string
		for _, a := range able(answers, removed) {
			got = append(got, a.target.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("removing %x: asked %v, want %s", removed, got, want)
		}
	}
}

// TestRefusalIsTold: who insists in vain says what etcd said, and not that time was up in the middle of the last try.
func TestRefusalIsTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), retryInterval+retryInterval/2)
	defer cancel()
	tries := 0
	err := again(ctx, func(ctx context.Context) error {
		if tries++; tries == 1 {
			return errors.New("refused")
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if tries != 2 || err == nil || err.Error() != "refused" {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

// TestPlain: what keeps a member from answering reads the same at every try.
func TestPlain(t *testing.T) {
	for _, port := range []string{"40000", "51234"} {
		err := status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: read tcp 10.0.0.9:`+port+
			`->10.0.0.1:2379: read: connection reset by peer"`)
		if got, want := plain(err), "read tcp 10.0.0.1:2379: read: connection reset by peer"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// tells adds to an answer how far its log goes and to which version a downgrade is enabled; none: to none.
func tells(a answer, applied uint64, to string) answer {
	a.status.RaftAppliedIndex, a.status.DowngradeInfo = applied, &pb.DowngradeInfo{Enabled: to != "", TargetVersion: to}
	return a
}

// TestDowngradeTold: the one who knows most is believed, of those that follow a leader of this cluster and tell.
func TestDowngradeTold(t *testing.T) {
	three := list(t, "1:a 2:b 3:c")
	a := func() answer { return said("a", 1, 1, three) }
	b := func() answer { return said("b", 2, 1, three) }
	for _, test := range []struct {
		name    string
		answers []answer
		want    string
	}{
		{"nobody tells", []answer{a(), b()}, ""},
		{"none is enabled", []answer{tells(a(), 7, ""), tells(b(), 7, "")}, ""},
		{"enabled", []answer{tells(a(), 7, "3.5.0"), tells(b(), 7, "3.5.0")}, "3.5.0"},
		{"one is behind", []answer{tells(a(), 7, "3.5.0"), tells(b(), 6, "")}, "3.5.0"},
		{"one has not heard of the end", []answer{tells(a(), 6, "3.5.0"), tells(b(), 7, "")}, ""},
		{"one is of 3.5, and goes further", []answer{tells(a(), 7, "3.5.0"), b(), refused("c")}, "3.5.0"},
		{"one follows nobody", []answer{tells(a(), 6, ""), tells(b(), 6, ""), tells(said("c", 3, 0, three), 7, "3.5.0")}, ""},
		{"one is of another cluster", []answer{tells(a(), 6, ""), tells(b(), 6, ""), elsewhere(tells(said("c", 3, 3, three), 7, "3.5.0"), 0xc2)},
			""},
	} {
		if got := conclude(test.answers).Downgrade; got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestSizes: each member tells its own, and one that does not answer none.
func TestSizes(t *testing.T) {
	l := list(t, "1:a 2:b")
	a := said("a", 1, 1, l)
	a.status.DbSize, a.status.DbSizeQuota = 300, 2000
	s := conclude([]answer{a, refused("b")})
	if m := s.Members[0]; m.Size != 300 || m.Quota != 2000 {
		t.Errorf("a has %d of %d bytes, want 300 of 2000", m.Size, m.Quota)
	}
	if m := s.Members[1]; m.Size != 0 || m.Quota != 0 {
		t.Errorf("b, which does not answer, has %d of %d bytes", m.Size, m.Quota)
	}
}

// TestAnswerWithoutHeader: who does not say which member answers is the one of the target's name, if there is just one.
func TestAnswerWithoutHeader(t *testing.T) {
	a, b, again := &pb.Member{ID: 1, Name: "a"}, &pb.Member{ID: 2, Name: "b"}, &pb.Member{ID: 3, Name: "b"}
	for _, tt := range []struct {
		name   string
		header *pb.ResponseHeader
		list   []*pb.Member
		want   uint64
	}{
		{"as etcd answers", &pb.ResponseHeader{MemberId: 7}, []*pb.Member{a, b}, 7},
		{"by its name", nil, []*pb.Member{a, b}, 2},
		{"not in the list", nil, []*pb.Member{a}, 0},
		{"two of that name", nil, []*pb.Member{a, b, again}, 0},
		{"no list", nil, nil, 0},
	} {
		answered := answer{target: Target{Name: "b"}, status: &pb.StatusResponse{Header: tt.header}, list: tt.list}
		answered.identify()
		if got := answered.id(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
