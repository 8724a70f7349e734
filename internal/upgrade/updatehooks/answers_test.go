package updatehooks

import (
	"context"
	"errors"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestAnswers: an answer is believed for a time, and for its own question; one that is late brings about another look.
func TestAnswers(t *testing.T) {
	var a Answers
	asked := 0
	var fail error
	m := &clusterv1.Machine{}
	m.UID = "uid"
	q := Question{Current: Parts{Machine: m, Infrastructure: box(t, "Box", `{"cpu":2}`)},
		Desired: Parts{Machine: m, Infrastructure: box(t, "Box", `{"cpu":4}`)}}
	q.Ask = func(context.Context, Parts, Parts) (Answer, error) { asked++; return Answer{Handler: "h"}, fail }
	now := time.Now()
	look := func(after time.Duration, wantErr error, wantAsked int) {
		t.Helper()
		answer, err := a.Of(t.Context(), q, now.Add(after))
		if !errors.Is(err, wantErr) || err == nil && answer.Handler != "h" || asked != wantAsked {
			t.Fatalf("after %s: %+v, %v, asked %d times, want %v and %d", after, answer, err, asked, wantErr, wantAsked)
		}
	}
	look(0, nil, 1)
	look(answerAge-time.Second, nil, 1)
	fail = errors.New("no route")
	look(2*answerAge, fail, 2)
	look(0, fail, 2)
	fail = nil
	look(2*answerAge+failureAge, nil, 3)
	q.Desired.Infrastructure = box(t, "Box", `{"cpu":8}`)
	look(0, nil, 4)
	a.Only([]*clusterv1.Machine{m})
	look(0, nil, 4)
	a.Only(nil)
	look(0, nil, 5)

	release, ended := make(chan struct{}), make(chan struct{})
	q.Ask = func(context.Context, Parts, Parts) (Answer, error) { <-release; return Answer{Handler: "h"}, nil }
	q.Ended = func(context.Context) { close(ended) }
	q.Desired.Infrastructure = box(t, "Box", `{"cpu":16}`)
	look(0, errAsked, 5)
	look(0, errAsked, 5)
	close(release)
	<-ended
	look(0, nil, 5)
}
