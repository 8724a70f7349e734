package workload

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Frames of SPDY/3.1 (https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1), as far as a client of port-forwards meets
// them. Libraries keep a compressor for headers with each connection, 0.8 MB of memory (docs/architecture.md) that is used twice, when the
// two streams are opened. Frames that are stored as they are need none, and headers of answers contain nothing that is needed.
const (
	frameHeader   = 8
	controlBit    = 0x80
	spdyVersion   = 3
	typeSynStream = 1
	typeSynReply  = 2
	typeRstStream = 3
	typePing      = 6
	flagEnd       = 1
	// maxFrame is how much is sent in one frame; SPDY itself allows 16 MiB.
	maxFrame = 1 << 16
	// maxControl is more than any control frame of a peer that opens only two streams.
	maxControl = 1 << 16
)

// frame is the beginning of one: of a control frame its type, of one with data the stream that these belong to.
type frame struct {
	control bool
	of      uint32
	flags   byte
	length  int
}

// spdyConn is a SPDY connection. Reading is for one goroutine at a time; writing is for any.
type spdyConn struct {
	conn io.ReadWriteCloser
	in   *bufio.Reader

	writing sync.Mutex
	// begun: the compressed stream of headers has been opened.
	begun  bool
	pings  *time.Timer
	pinged uint32
}

// newSPDY speaks over a connection, and sends a ping now and then: load balancers cut what is silent.
func newSPDY(conn io.ReadWriteCloser, pings time.Duration) *spdyConn {
	s := &spdyConn{conn: conn, in: bufio.NewReader(conn), pinged: 1}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.pings = time.AfterFunc(pings, func() {
		if s.ping() == nil {
			s.pings.Reset(pings)
		}
	})
	return s
}

func (s *spdyConn) close() error {
	s.pings.Stop()
	return s.conn.Close()
}

func (s *spdyConn) ping() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	id := s.pinged
	s.pinged += 2 // those of clients are odd
	return s.control(typePing, binary.BigEndian.AppendUint32(nil, id))
}

// open asks for a stream. Those of clients have odd ids that grow.
func (s *spdyConn) open(id uint32, headers map[string]string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	// The id, no stream that it belongs to, the highest priority, no slot.
	body := binary.BigEndian.AppendUint32(nil, id)
	body = append(body, 0, 0, 0, 0, 0, 0)
	if !s.begun {
		body = append(body, 0x78, 0x01) // zlib's header: a window of 32 KiB, no dictionary (RFC 1950)
		s.begun = true
	}
	block := headerBlock(headers)
	// Stored as it is, and an empty block that says: up to here (RFC 1951, 3.2.4).
	body = append(body, 0)
	body = binary.LittleEndian.AppendUint16(body, uint16(len(block)))
	body = binary.LittleEndian.AppendUint16(body, ^uint16(len(block)))
	body = append(body, block...)
	body = append(body, 0, 0, 0, 0xff, 0xff)
	return s.control(typeSynStream, body)
}

// headerBlock lists headers as SPDY/3 has them: how many, and each with its length and that of its value.
func headerBlock(headers map[string]string) []byte {
	block := binary.BigEndian.AppendUint32(nil, uint32(len(headers)))
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, text := range []string{strings.ToLower(name), headers[name]} {
			block = binary.BigEndian.AppendUint32(block, uint32(len(text)))
			block = append(block, text...)
		}
	}
	return block
}

// control sends a control frame. The caller holds the lock for writing.
func (s *spdyConn) control(kind uint16, body []byte) error {
	head := make([]byte, 0, frameHeader+len(body))
	head = append(head, controlBit, spdyVersion)
	head = binary.BigEndian.AppendUint16(head, kind)
	head = append(head, 0, byte(len(body)>>16), byte(len(body)>>8), byte(len(body)))
	_, err := s.conn.Write(append(head, body...))
	return err
}

// end closes our end of a stream.
func (s *spdyConn) end(id uint32) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.data(id, flagEnd, nil)
}

// send sends data on a stream.
func (s *spdyConn) send(id uint32, data []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	sent := 0
	for part := range slices.Chunk(data, maxFrame) {
		if err := s.data(id, 0, part); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return sent, nil
}

// data sends a frame with data. The caller holds the lock for writing.
func (s *spdyConn) data(id uint32, flags byte, part []byte) error {
	out := make([]byte, 0, frameHeader+len(part))
	out = binary.BigEndian.AppendUint32(out, id)
	out = append(out, flags, byte(len(part)>>16), byte(len(part)>>8), byte(len(part)))
	_, err := s.conn.Write(append(out, part...))
	return err
}

// next reads the beginning of a frame.
func (s *spdyConn) next() (frame, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return frame{}, err
	}
	got := frame{flags: head[4], length: int(head[5])<<16 | int(head[6])<<8 | int(head[7])}
	if head[0]&controlBit == 0 {
		got.of = binary.BigEndian.Uint32(head[:4])
		return got, nil
	}
	if version := binary.BigEndian.Uint16(head[:2]) &^ (controlBit << 8); version != spdyVersion {
		return frame{}, fmt.Errorf("a frame of SPDY/%d, want SPDY/%d", version, spdyVersion)
	}
	got.control, got.of = true, uint32(binary.BigEndian.Uint16(head[2:4]))
	return got, nil
}

// read takes a part of what a frame holds.
func (s *spdyConn) read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// take appends what a frame holds, and drops what would make it longer than the limit.
func (s *spdyConn) take(got frame, to *[]byte, limit int) error {
	keep := min(got.length, limit-len(*to))
	part := make([]byte, keep)
	if _, err := io.ReadFull(s.in, part); err != nil {
		return err
	}
	*to = append(*to, part...)
	_, err := s.in.Discard(got.length - keep)
	return err
}

// told is what a control frame says of a stream; of none when its id is zero.
type told struct {
	id uint32
	// answered: the stream is open; otherwise it is no more.
	answered bool
}

// handle takes in a control frame.
func (s *spdyConn) handle(got frame) (told, error) {
	if got.length > maxControl {
		return told{}, fmt.Errorf("a control frame of %d bytes, want at most %d", got.length, maxControl)
	}
	body := make([]byte, got.length)
	if _, err := io.ReadFull(s.in, body); err != nil {
		return told{}, err
	}
	switch got.of {
	case typePing:
		if len(body) == 4 && body[3]&1 == 0 { // the answers to ours are odd
			s.writing.Lock()
			defer s.writing.Unlock()
			return told{}, s.control(typePing, body)
		}
	case typeSynReply, typeRstStream:
		if len(body) < 4 {
			return told{}, fmt.Errorf("a control frame of type %d with %d bytes, want at least 4", got.of, len(body))
		}
		return told{id: binary.BigEndian.Uint32(body), answered: got.of == typeSynReply}, nil
	}
	return told{}, nil // settings, windows and notices of a near end ask for nothing
}
