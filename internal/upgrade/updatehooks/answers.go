package updatehooks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// answerAge is how long an answer is believed before the same is asked again, and failureAge how long it is not asked after none came.
	answerAge  = time.Minute
	failureAge = 10 * time.Second
	// AnswerTimeout is how long asking may take: the longest that a handler may ask for, and what is read before.
	AnswerTimeout = 35 * time.Second
	// answerWait is how long a turn waits for an answer that is requested in the background.
	answerWait = 100 * time.Millisecond
)

// errAsked is why nothing is known yet.
var errAsked = errors.New("the Runtime Extension is being asked")

// Answers are what extensions said of a group's machines. They may be used by many at once. The zero value is ready for use.
type Answers struct {
	mu sync.Mutex
	of map[types.UID]*kept
}

// kept is the last answer about one machine.
type kept struct {
	// question identifies what was asked; what came of it is told at; running: the same is being asked.
	question string
	at       time.Time
	answer   Answer
	err      error
	running  bool
}

// Question is one question about a machine.
type Question struct {
	Current, Desired Parts
	// Ask asks it: Asker.Ask.
	Ask func(ctx context.Context, current, desired Parts) (Answer, error)
	// Ended is called when an answer has come for which no turn has waited; nil: no receiver.
	Ended func(context.Context)
}

// key identifies what is asked.
func (q Question) key() string {
	data, err := json.Marshal(Request(q.Current, q.Desired))
	if err != nil {
		panic(fmt.Sprintf("a request as JSON: %v", err))
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// Of returns the last answer to a question, and asks it in the background where there is none, or it is old. An error says why nothing is
// known.
func (a *Answers) Of(ctx context.Context, q Question, now time.Time) (Answer, error) {
	uid, key := q.Current.Machine.UID, q.key()
	if !a.begin(uid, key, now) {
		return a.last(uid, key)
	}
	current, desired := q.Current.DeepCopy(), q.Desired.DeepCopy()
	done := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		// The turn ends before the answer comes.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AnswerTimeout)
		defer cancel()
		answer, err := q.Ask(ctx, current, desired)
		a.Keep(q, answer, err, time.Now())
		close(done)
		select {
		case <-gone:
			if q.Ended != nil {
				q.Ended(ctx)
			}
		default:
		}
	}()
	timer := time.NewTimer(answerWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	close(gone)
	return a.last(uid, key)
}

// begin reports whether a question is to be asked now.
func (a *Answers) begin(uid types.UID, key string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.of[uid]
	if k == nil || k.question != key {
		if a.of == nil {
			a.of = map[types.UID]*kept{}
		}
		a.of[uid] = &kept{question: key, err: errAsked, running: true}
		return true
	}
	age := answerAge
	if k.err != nil {
		age = failureAge
	}
	if k.running || now.Before(k.at.Add(age)) {
		return false
	}
	k.running = true
	return true
}

// last returns what came of a question last.
func (a *Answers) last(uid types.UID, key string) (Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.of[uid]; k != nil && k.question == key {
		return k.answer, k.err
	}
	return Answer{}, errAsked
}

// Keep notes what came of a question, unless another one was asked since.
func (a *Answers) Keep(q Question, answer Answer, err error, now time.Time) {
	key := q.key()
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.of[q.Current.Machine.UID]; k != nil && k.question == key {
		k.answer, k.err, k.at, k.running = answer, err, now, false
	}
}

// Only forgets all Machines but these.
func (a *Answers) Only(machines []*clusterv1.Machine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid := range a.of {
		if !slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool { return m.UID == uid }) {
			delete(a.of, uid)
		}
	}
}
