// Package untrusted bounds what servers may answer that belong to tenants: the API servers of managed clusters above all, whose
// administrators own what they say. It bounds how large answers are, refuses redirects, and quotes of an error no more than the reason and
// the message of a Status, without secrets and control characters. It does not know what is asked.
package untrusted

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds are the most that one managed cluster may answer. A zero value means the default, which admits a cluster of 5,000 Nodes several
// times over.
type Bounds struct {
	// Answer is how many bytes one page of a list may have, unpacked; 64 MiB. A page of Nodes is not kept as a whole.
	Answer int64
	// Object is how many bytes one object may have, unpacked, alone, in a list or in a watch, and any other answer; 2 MiB. etcd stores no more
	// than 1.5 MiB.
	Object int64
	// Objects is how many objects a list may have on all its pages; 50,000.
	Objects int64
	// Kept is about how many bytes are kept of one cluster; 8 MiB.
	Kept int64
	// Minute is how many bytes one cluster may answer in a minute, unpacked, in lists and watches; 512 MiB.
	Minute int64
}

// bound is one of the bounds, with the manager's flag for it.
type bound struct {
	value     func(*Bounds) *int64
	flag      string
	otherwise int64
	least     int64
	usage     string
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// all are the bounds, in the order of the fields.
var all = []bound{
	{func(b *Bounds) *int64 { return &b.Answer }, "managed-cluster-answer-size", 64 * mib, mib,
		"Largest page of a list that a managed cluster may answer, in bytes, unpacked. A cluster that answers more counts as unreachable."},
	{func(b *Bounds) *int64 { return &b.Object }, "managed-cluster-object-size", 2 * mib, 64 * kib,
		"Largest object, watch event or other answer of a managed cluster, in bytes, unpacked."},
	{func(b *Bounds) *int64 { return &b.Objects }, "managed-cluster-objects", 50_000, 100,
		"Most objects that a list of a managed cluster may have: its Nodes, for example."},
	{func(b *Bounds) *int64 { return &b.Kept }, "managed-cluster-memory", 8 * mib, mib,
		"Most memory for what is kept of one managed cluster, in bytes, estimated."},
	{func(b *Bounds) *int64 { return &b.Minute }, "managed-cluster-bytes-per-minute", 512 * mib, mib,
		"Most bytes of lists and watches that one managed cluster may answer in a minute, unpacked."},
}

// WithDefaults returns the bounds with the default of each that is not set.
func (b Bounds) WithDefaults() Bounds {
	for _, one := range all {
		if value := one.value(&b); *value <= 0 {
			*value = one.otherwise
		}
	}
	return b
}

// AddFlags adds a flag for each bound. Sizes may be written as 64Mi.
func (b *Bounds) AddFlags(fs *pflag.FlagSet) {
	*b = b.WithDefaults()
	for _, one := range all {
		fs.Var(&quantity{one.value(b)}, one.flag, one.usage)
	}
}

// Check says which flag has a value that is too small to work with.
func (b Bounds) Check() error {
	for _, one := range all {
		if value := *one.value(&b); value < one.least {
			return fmt.Errorf("--%s=%s: it must be at least %s", one.flag, text(value), text(one.least))
		}
	}
	return nil
}

// quantity is a flag's value that is a number of bytes or objects, such as 64Mi.
type quantity struct{ value *int64 }

// String implements pflag.Value.
func (q *quantity) String() string {
	if q.value == nil {
		return ""
	}
	return text(*q.value)
}

// Set implements pflag.Value.
func (q *quantity) Set(s string) error {
	parsed, err := resource.ParseQuantity(s)
	if err != nil || parsed.Value() <= 0 {
		return errors.New("must be a positive number, with a suffix such as Ki or Mi if you like")
	}
	*q.value = parsed.Value()
	return nil
}

// Type implements pflag.Value.
func (q *quantity) Type() string { return "quantity" }

// text writes a number as flags have it.
func text(n int64) string {
	switch {
	case n > 0 && n%mib == 0:
		return strconv.FormatInt(n/mib, 10) + "Mi"
	case n > 0 && n%kib == 0:
		return strconv.FormatInt(n/kib, 10) + "Ki"
	}
	return strconv.FormatInt(n, 10)
}

// A BoundError says which bound an answer exceeds. Nothing of the answer is in it.
type BoundError struct {
	what string
	most int64
	flag string
}

// Error implements error.
func (e *BoundError) Error() string {
	if e.flag == "" {
		return fmt.Sprintf("%s: more than %s", e.what, text(e.most))
	}
	return fmt.Sprintf("%s: more than %s (--%s)", e.what, text(e.most), e.flag)
}

// exceeds is the error of a bound.
func (b Bounds) exceeds(at int, what string) error {
	return &BoundError{what, *all[at].value(&b), all[at].flag}
}

// The places of the bounds in all.
const (
	answerBound = iota
	objectBound
	objectsBound
	keptBound
	minuteBound
)

// AnswerExceeded is the error of a page of a list with more than Answer bytes.
func (b Bounds) AnswerExceeded() error { return b.exceeds(answerBound, "bytes in one answer") }

// ObjectExceeded is the error of an object with more than Object bytes.
func (b Bounds) ObjectExceeded() error { return b.exceeds(objectBound, "bytes in one object") }

// ObjectsExceeded is the error of a list with more than Objects objects.
func (b Bounds) ObjectsExceeded() error { return b.exceeds(objectsBound, "objects in one list") }

// KeptExceeded is the error of a cluster of which more than Kept bytes are to be kept.
func (b Bounds) KeptExceeded() error { return b.exceeds(keptBound, "bytes to keep of the cluster") }

// MostParts is how many parts one object may have: fields, elements of lists, objects within. A few bytes of an answer become a thousand in
// memory where they say that there is an empty container.
const MostParts = 20_000

// PartsExceeded is the error of an object with more than MostParts parts.
func PartsExceeded() error { return &BoundError{what: "parts of one object", most: MostParts} }

// A NonsenseError says in what an answer is not what any server answers that is meant well.
type NonsenseError struct{ what string }

// Error implements error.
func (e *NonsenseError) Error() string { return e.what }

// Nonsense returns a NonsenseError. Whatever of the answer is among the arguments must be fit to be shown.
func Nonsense(format string, arguments ...any) error {
	return &NonsenseError{fmt.Sprintf(format, arguments...)}
}

// IsMisbehaviour reports whether an error is about what the server did, which another try would only bring again: a bound, a redirect,
// nonsense.
func IsMisbehaviour(err error) bool {
	return errors.As(err, new(*BoundError)) || errors.As(err, new(*RedirectError)) || errors.As(err, new(*NonsenseError))
}
