package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/core/plan"
)

// script hands out bytes, and zeros when they are used up.
type script []byte

func (s *script) next(below byte) byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b % below
}

// answer is what a member may say: nothing, a failure, or any status and list, however contradictory.
func (s *script) answer(name string) answer {
	a := answer{target: Target{Name: name, Dial: reach}}
	switch s.next(5) {
	case 0:
		a.target.Dial = nil
		return a
	case 1:
		a.err = errors.New("remote error: tls: " + string([]byte{s.next(255)}))
		return a
	}
	a.status = &pb.StatusResponse{Leader: uint64(s.next(5)), RaftTerm: uint64(s.next(3)), RaftAppliedIndex: uint64(s.next(255)),
		IsLearner: s.next(4) == 0}
	if s.next(8) != 0 {
		a.status.Header = &pb.ResponseHeader{MemberId: uint64(s.next(5)), ClusterId: uint64(s.next(2))}
	}
	for range s.next(3) {
		a.status.Errors = append(a.status.Errors, fmt.Sprintf("memberID:%d alarm:%s", s.next(6),
			[]string{"NOSPACE", "CORRUPT", "\x00"}[s.next(3)]), string([]byte{s.next(255), s.next(255)}))
	}
	for range s.next(6) {
		a.list = append(a.list, &pb.Member{
			ID: uint64(s.next(5)), Name: fmt.Sprint("n", s.next(6)), IsLearner: s.next(5) == 0,
			PeerURLs: []string{string([]byte{s.next(255), s.next(255)})},
		})
	}
	return a
}

// FuzzConclude: whatever members answer, a survey is not more certain than they allow.
func FuzzConclude(f *testing.F) {
	f.Add([]byte{3, 2, 1, 2, 3, 0, 1, 1, 2, 3, 0, 1})
	f.Add([]byte{5, 3, 1, 1, 1, 1, 9, 9, 9, 9, 0, 0, 0, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := script(data)
		var answers []answer
		voices := 0
		for i := range s.next(8) {
			a := s.answer(fmt.Sprint("n", i))
			answers = append(answers, a)
			if a.status != nil {
				voices++
			}
		}
		got := conclude(answers)
		switch {
		case got.Agreed && !got.Known:
			t.Error("agreed and not known")
		case got.Known && voices == 0:
			t.Error("known, and nobody said anything")
		case !got.Known && (len(got.Members) > 0 || got.Why == ""):
			t.Errorf("not known: %+v", got)
		}
		for _, m := range got.Members {
			if m.Health == plan.Healthy && m.Why != "" || m.Health != plan.Healthy && m.Why == "" {
				t.Errorf("%+v", m)
			}
			if strings.Join(m.Alarms, "") != "" && !strings.Contains(got.Why, "alarm") {
				t.Errorf("an alarm that is not told: %+v, %q", m, got.Why)
			}
			raised(answers, m.ID)
			able(answers, m.ID)
		}
		leading(answers)
	})
}
