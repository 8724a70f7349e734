package workload

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// fields says which fields of a message in protobuf are kept, by their numbers, and of one that is a message itself which of its fields;
// nil: all. What is not kept is never decoded: that would take up to a thousand times as much memory as the answer has bytes, and most of a
// Node is of no interest here.
type fields map[protowire.Number]fields

// The fields that the shelves keep, and those that feeds need, with the numbers of Kubernetes' generated.proto.
var (
	// name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels, ownerReferences
	metaFields = fields{1: nil, 3: nil, 5: nil, 6: nil, 8: nil, 9: nil, 11: nil, 13: nil}
	// of spec providerID, unschedulable, taints; of status conditions, addresses, nodeInfo
	nodeFields = fields{1: metaFields, 2: {3: nil, 4: nil, 5: nil}, 3: {4: nil, 5: nil, 7: nil}}
	// name, state, lastState, ready, restartCount, image, imageID, containerID, started
	containerFields = fields{1: nil, 2: nil, 3: nil, 4: nil, 5: nil, 6: nil, 7: nil, 8: nil, 9: nil}
	// of spec containers (name, image, command, env), nodeName; of status phase, conditions, message, reason, containerStatuses,
	// initContainerStatuses
	podFields = fields{1: metaFields, 2: {2: {1: nil, 2: nil, 3: nil, 7: nil}, 10: nil},
		3: {1: nil, 2: nil, 3: nil, 4: nil, 8: containerFields, 10: containerFields}}
)

// errWire is a message that is not in protobuf.
var errWire = untrusted.Nonsense("the API server answered what is not in protobuf, and said that it was")

// keep appends the kept fields of a message to out, and counts them.
func (f fields) keep(out, message []byte, parts *int) ([]byte, error) {
	for len(message) > 0 {
		number, kind, head := protowire.ConsumeTag(message)
		if head < 0 {
			return nil, errWire
		}
		size := protowire.ConsumeFieldValue(number, kind, message[head:])
		if size < 0 {
			return nil, errWire
		}
		whole, value := message[:head+size], message[head:head+size]
		message = message[head+size:]
		inner, kept := f[number]
		if !kept {
			continue
		}
		if *parts++; *parts > untrusted.MostParts {
			return nil, untrusted.PartsExceeded()
		}
		if inner == nil || kind != protowire.BytesType {
			out = append(out, whole...)
			continue
		}
		content, _ := protowire.ConsumeBytes(value)
		part, err := inner.keep(nil, content, parts)
		if err != nil {
			return nil, err
		}
		out = protowire.AppendBytes(protowire.AppendTag(out, number, kind), part)
	}
	return out, nil
}

// wire reads objects in protobuf one by one, so that no more than one is in memory.
type wire[T object] struct {
	source[T]
	// raw and kept are for one object after the other.
	raw, kept []byte
}

// list reads a list, and hands over each object.
func (w *wire[T]) list(in *bufio.Reader, each func(T) error) (meta metav1.ListMeta, err error) {
	head := make([]byte, len(untrusted.ProtobufPrefix))
	if _, err := io.ReadFull(in, head); err != nil || !bytes.Equal(head, untrusted.ProtobufPrefix) {
		return meta, errors.Join(err, errWire)
	}
	// runtime.Unknown: typeMeta, raw.
	err = w.message(in, map[uint64]func(*bufio.Reader, int64) error{
		1: func(in *bufio.Reader, size int64) error {
			var of runtime.TypeMeta
			raw, err := w.take(in, size)
			if err != nil || of.Unmarshal(raw) != nil {
				return errors.Join(err, errWire)
			}
			return w.expect(of.Kind, w.kind+"List")
		},
		2: func(in *bufio.Reader, size int64) error {
			content := bufio.NewReader(io.LimitReader(in, size))
			return w.message(content, map[uint64]func(*bufio.Reader, int64) error{
				1: func(in *bufio.Reader, size int64) error {
					raw, err := w.take(in, size)
					if err != nil || meta.Unmarshal(raw) != nil {
						return errors.Join(err, errWire)
					}
					return nil
				},
				2: func(in *bufio.Reader, size int64) error {
					raw, err := w.take(in, size)
					if err != nil {
						return err
					}
					o, err := w.decode(raw)
					if err != nil {
						return err
					}
					return each(o)
				},
			})
		},
	})
	return meta, err
}

// message reads a message whose fields all have a length, and hands those that somebody wants over to be read.
func (w *wire[T]) message(in *bufio.Reader, wanted map[uint64]func(*bufio.Reader, int64) error) error {
	for {
		tag, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		size, err := binary.ReadUvarint(in)
		if err != nil {
			return err
		}
		if protowire.Type(tag&7) != protowire.BytesType {
			return errWire
		}
		if size > uint64(w.bounds.Answer) {
			return w.bounds.AnswerExceeded()
		}
		read := wanted[tag>>3]
		if read == nil {
			read = func(in *bufio.Reader, size int64) error { _, err := io.CopyN(io.Discard, in, size); return err }
		}
		if err := read(in, int64(size)); err != nil {
			return err
		}
	}
}

// take reads so many bytes, which are good until it is called again.
func (w *wire[T]) take(in io.Reader, size int64) ([]byte, error) {
	if size > w.bounds.Object {
		return nil, w.bounds.ObjectExceeded()
	}
	if int64(cap(w.raw)) < size {
		w.raw = make([]byte, size)
	}
	w.raw = w.raw[:size]
	_, err := io.ReadFull(in, w.raw)
	return w.raw, err
}

// decode reads one object.
func (w *wire[T]) decode(raw []byte) (T, error) {
	parts := 0
	kept, err := w.fields.keep(w.kept[:0], raw, &parts)
	if err != nil {
		return *new(T), err
	}
	w.kept = kept
	o := w.fresh()
	if o.Unmarshal(kept) != nil {
		return *new(T), errWire
	}
	return o, nil
}

// next reads one event of a watch: four bytes that say how long it is, and a metav1.WatchEvent.
func (w *wire[T]) next(in *bufio.Reader) (watched[T], error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return watched[T]{}, err
	}
	raw, err := w.take(in, int64(binary.BigEndian.Uint32(size[:])))
	if err != nil {
		return watched[T]{}, err
	}
	var e metav1.WatchEvent
	var of runtime.Unknown
	if e.Unmarshal(raw) != nil {
		return watched[T]{}, errWire
	}
	inner, is := bytes.CutPrefix(e.Object.Raw, untrusted.ProtobufPrefix)
	if !is || of.Unmarshal(inner) != nil {
		return watched[T]{}, errWire
	}
	if of.Kind == statusKind {
		var status metav1.Status
		if status.Unmarshal(of.Raw) != nil {
			return watched[T]{}, errWire
		}
		return watched[T]{}, untrusted.StatusError(status)
	}
	if err := w.expect(of.Kind, w.kind); err != nil {
		return watched[T]{}, err
	}
	o, err := w.decode(of.Raw)
	return watched[T]{e.Type, o}, err
}
