// Package history is the record of a run of `make soak`: what each client asked a managed cluster and what came back, what was done to the
// cluster meanwhile, and what its members held in the end. A file of it has one JSON object a line. It knows nothing of how a run is made
// and does not judge.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Kind says what an entry records.
type Kind string

// The kinds of entries.
const (
	// Swap is a compare and swap: a write that is accepted only if the object has the revision Expected.
	Swap Kind = "swap"
	// Create makes an object that no client changes or deletes later.
	Create Kind = "create"
	// Get reads one object.
	Get Kind = "get"
	// List reads all objects; Items are those that were read.
	List Kind = "list"
	// Watch begins to follow all objects after Revision.
	Watch Kind = "watch"
	// Event is what a watch delivered. Type is its type.
	Event Kind = "event"
	// Expired is a watch's answer 410: the revision from which it was to begin is gone. The client lists again.
	Expired Kind = "expired"
	// Hold is the time for which a client held a lease: from Begin to End. 0 as End: until the run ended.
	Hold Kind = "hold"
	// Hash is what a member of etcd answered for HashKV in the end. Client is its machine.
	Hash Kind = "hash"
	// Operation is what a user wanted of the control plane. Client is its kind.
	Operation Kind = "operation"
	// Fault is what was done to the cluster or its manager. Client is its kind, Object what it hit, Value what proves that it bit.
	Fault Kind = "fault"
	// Settled is the end of a round: whether all became as wanted. Value says what the control plane waits for otherwise.
	Settled Kind = "settled"
	// Look is a look at the cluster: Object is the machine whose etcd leads, Items are the machines.
	Look Kind = "look"
	// Manager is what the process of the management plane uses: Client is its number, Items are amounts by name.
	Manager Kind = "manager"
	// Recovered is a recovery of etcd from a source. Writes that were acknowledged after Kept may be lost.
	Recovered Kind = "recovered"
)

// Outcome says how an operation of a client ended.
type Outcome string

// The outcomes.
const (
	// OK: it was acknowledged.
	OK Outcome = "ok"
	// Conflict: the object had another revision than was expected.
	Conflict Outcome = "conflict"
	// Refused: the API server said that it did nothing.
	Refused Outcome = "refused"
	// Unknown: no answer came, and it may be done or not.
	Unknown Outcome = "unknown"
)

// Item is an object as it was read, a machine as it was seen, or an amount, which stands in Revision.
type Item struct {
	Object   string `json:"object"`
	Value    string `json:"value,omitempty"`
	Revision int64  `json:"revision,omitempty"`
}

// Entry is a line of a history. Begin and End are nanoseconds since the run began, by a clock that does not step; an end of 0 is not known.
type Entry struct {
	Kind     Kind    `json:"kind"`
	Client   string  `json:"client,omitempty"`
	Object   string  `json:"object,omitempty"`
	Begin    int64   `json:"begin"`
	End      int64   `json:"end,omitempty"`
	Outcome  Outcome `json:"outcome,omitempty"`
	Expected int64   `json:"expected,omitempty"`
	Value    string  `json:"value,omitempty"`
	Revision int64   `json:"revision,omitempty"`
	Type     string  `json:"type,omitempty"`
	Items    []Item  `json:"items,omitempty"`
	// Round counts operations that met a fault; it stands in entries of kinds Operation, Fault and Settled.
	Round int `json:"round,omitempty"`
	// Compacted is the revision up to which a member had compacted its data; it stands in entries of kind Hash.
	Compacted int64 `json:"compacted,omitempty"`
	// Kept is the moment up to which the source of a recovery held all that was acknowledged.
	Kept  int64  `json:"kept,omitempty"`
	Error string `json:"error,omitempty"`
}

// Recorder writes entries, from any goroutine.
type Recorder struct {
	began time.Time

	mu   sync.Mutex
	out  *json.Encoder
	n    int
	fail error
}

// NewRecorder returns a recorder of a run that begins now.
func NewRecorder(out io.Writer) *Recorder {
	return &Recorder{began: time.Now(), out: json.NewEncoder(out)}
}

// Now returns the nanoseconds since the run began.
func (r *Recorder) Now() int64 { return int64(time.Since(r.began)) }

// Began returns when the run began.
func (r *Recorder) Began() time.Time { return r.began }

// Write adds an entry.
func (r *Recorder) Write(e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if err := r.out.Encode(e); err != nil && r.fail == nil {
		r.fail = fmt.Errorf("recording entry %d: %w", r.n, err)
	}
}

// Err returns the first error of a write.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail
}

// longestLine bounds a line of a history: a list of all objects is the longest.
const longestLine = 64 << 20

// Read returns the entries of a history. The last line may be cut off, as a run that was killed leaves it.
func Read(in io.Reader) ([]Entry, error) {
	var all []Entry
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	var broken error
	for n := 1; lines.Scan(); n++ {
		if broken != nil {
			return nil, broken
		}
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			broken = fmt.Errorf("reading line %d of the history: %w", n, err)
			continue
		}
		all = append(all, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	if len(all) == 0 {
		return nil, errors.Join(errors.New("the history is empty"), broken)
	}
	return all, nil
}
