package workload

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// object is what feeds read.
type object interface {
	metav1.Object
	Unmarshal([]byte) error
}

// source reads the answers to lists and watches of one kind, object by object, within bounds. client-go would read a page as a whole and
// decode all of it.
type source[T object] struct {
	kind   string
	fields fields
	fresh  func() T
	bounds untrusted.Bounds
}

// watched is a change that a watch tells of: its type, and the object.
type watched[T object] struct {
	of     string
	object T
}

// statusKind is the kind of what a watch ends with when something is wrong.
const statusKind = "Status"

// longestToken is how long the version of a list may be, or the token with which it goes on: both are sent back.
const longestToken = 4 << 10

// list reads a page of a list, and hands over each object.
func (s source[T]) list(response *http.Response, each func(T) error) (metav1.ListMeta, error) {
	in := bufio.NewReader(untrusted.Reader(response.Body, s.bounds.Answer, s.bounds.AnswerExceeded))
	var meta metav1.ListMeta
	var err error
	if isProtobuf(response) {
		w := &wire[T]{source: s}
		meta, err = w.list(in, each)
	} else {
		meta, err = s.jsonList(in, each)
	}
	if err == nil && (len(meta.Continue) > longestToken || len(meta.ResourceVersion) > longestToken) {
		err = untrusted.Nonsense("the API server answered a list with a version or a token to go on of more than %d bytes", longestToken)
	}
	return meta, err
}

// watch reads events until the stream ends, and hands over each.
func (s source[T]) watch(response *http.Response, each func(watched[T]) error) error {
	next := s.events(response)
	for {
		e, err := next()
		if err != nil {
			return err
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

// events returns what reads one event after the other.
func (s source[T]) events(response *http.Response) func() (watched[T], error) {
	if isProtobuf(response) {
		w, in := &wire[T]{source: s}, bufio.NewReader(response.Body)
		return func() (watched[T], error) { return w.next(in) }
	}
	in := &allowance{in: response.Body, bounds: s.bounds}
	decoder := json.NewDecoder(in)
	return func() (watched[T], error) {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		in.left = s.bounds.Object
		if err := decoder.Decode(&e); err != nil {
			return watched[T]{}, notJSON(err)
		}
		o, err := s.fromJSON(e.Object, true)
		return watched[T]{e.Type, o}, err
	}
}

func isProtobuf(response *http.Response) bool {
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err == nil && kind == untrusted.Protobuf
}

// allowance is a reader that stops when one value needs more than is left.
type allowance struct {
	in     io.Reader
	left   int64
	bounds untrusted.Bounds
}

// Read implements io.Reader.
func (a *allowance) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, a.bounds.ObjectExceeded()
	}
	n, err := a.in.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}

// notJSON replaces errors of the decoder, which may quote what they are about.
func notJSON(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) {
		return untrusted.Nonsense("the API server answered what is not JSON, or of another form than was asked for")
	}
	return err
}

// jsonList reads a list in JSON.
func (s source[T]) jsonList(body io.Reader, each func(T) error) (meta metav1.ListMeta, err error) {
	in := &allowance{in: body, bounds: s.bounds, left: s.bounds.Object}
	decoder := json.NewDecoder(in)
	var kind string
	err = walk(decoder, '{', '}', func() error {
		in.left = s.bounds.Object
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		switch name {
		case "kind":
			return decoder.Decode(&kind)
		case "metadata":
			return decoder.Decode(&meta)
		case "items":
			return walk(decoder, '[', ']', func() error {
				in.left = s.bounds.Object
				var raw json.RawMessage
				if err := decoder.Decode(&raw); err != nil {
					return err
				}
				o, err := s.fromJSON(raw, false)
				if err != nil {
					return err
				}
				return each(o)
			})
		default:
			return decoder.Decode(&json.RawMessage{})
		}
	})
	if err != nil {
		return meta, notJSON(err)
	}
	return meta, s.expect(kind, s.kind+"List")
}

// walk reads what begins and ends with these, and has each element read. null is as good as nothing within.
func walk(decoder *json.Decoder, begin, end json.Delim, element func() error) error {
	first, err := decoder.Token()
	if err != nil || first == nil {
		return err
	}
	if first != begin {
		return untrusted.Nonsense("the API server answered JSON of another form than was asked for")
	}
	for decoder.More() {
		if err := element(); err != nil {
			return err
		}
	}
	last, err := decoder.Token()
	if err == nil && last != end {
		return untrusted.Nonsense("the API server answered JSON of another form than was asked for")
	}
	return err
}

// fromJSON reads one object. In a watch it says its kind, and may be a Status, which is an error.
func (s source[T]) fromJSON(raw []byte, inWatch bool) (T, error) {
	if !untrusted.FewParts(raw) {
		return *new(T), untrusted.PartsExceeded()
	}
	if inWatch {
		var of metav1.TypeMeta
		if err := json.Unmarshal(raw, &of); err != nil {
			return *new(T), notJSON(err)
		}
		if of.Kind == statusKind {
			var status metav1.Status
			if err := json.Unmarshal(raw, &status); err != nil {
				return *new(T), notJSON(err)
			}
			return *new(T), untrusted.StatusError(status)
		}
		if err := s.expect(of.Kind, s.kind); err != nil {
			return *new(T), err
		}
	}
	o := s.fresh()
	if err := json.Unmarshal(raw, o); err != nil {
		return *new(T), untrusted.Nonsense("the API server answered a %s that cannot be read", s.kind)
	}
	return o, nil
}

// longestKind is how many letters a kind may have to be quoted.
const longestKind = 63

// expect says that an object is of another kind.
func (s source[T]) expect(got, want string) error {
	if got == want {
		return nil
	}
	if len(got) > longestKind || strings.ContainsFunc(got, func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') }) {
		return untrusted.Nonsense("the API server answered what has no kind where a %s was asked for", want)
	}
	return untrusted.Nonsense("the API server answered a %s where a %s was asked for", got, want)
}

// longestName is how long the names of Nodes and pods may be.
const longestName = 253

// check says that an object's name is none that an API server accepts: whatever has one may be quoted.
func (s source[T]) check(o T) error {
	name := o.GetName()
	strange := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' }
	if name == "" || len(name) > longestName || strings.ContainsFunc(name, strange) {
		return untrusted.Nonsense("the API server answered a %s whose name is none (%d bytes)", s.kind, len(name))
	}
	return nil
}
