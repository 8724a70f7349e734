// Package archive writes and reads the archives in which backups are stored. An archive is a tar of the snapshot in pieces, of files and of
// a manifest, compressed with zstd and, if there are recipients, encrypted with age. Everything is streamed; memory does not grow with the
// snapshot. Without Quorate an archive can be read with age, zstd and tar: `age -d | zstd -d | tar x; cat snapshot/* > snapshot.db`. It
// does not know where archives are stored, and not whether a snapshot can be restored.
package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/quorate/quorate/internal/core/backup"
)

const (
	// piece is how many bytes of the snapshot one entry of the tar has. A tar needs the size of an entry before its bytes.
	piece = 1 << 20
	// MostFiles is how many bytes all files beside the snapshot may have.
	MostFiles = 8 << 20
	// window bounds the memory of compression and decompression.
	window = 4 << 20
	// mostMemory is how much memory decompression may use.
	mostMemory = 64 << 20

	snapshotFolder = "snapshot/"
	filesFolder    = "files/"
	manifestName   = "manifest.json"
)

// Recipients parses age recipients, such as age1.... The error names the one that is wrong.
func Recipients(texts []string) ([]age.Recipient, error) {
	var all []age.Recipient
	for _, text := range texts {
		if IsIdentity(text) {
			return nil, errors.New("recipient: it is a private key of age, which must stay with those who decrypt; give its public key (age1...)")
		}
		parsed, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil || len(parsed) != 1 {
			return nil, fmt.Errorf("recipient %q: must be one public key of age, as age-keygen prints it (age1...)", text)
		}
		all = append(all, parsed...)
	}
	return all, nil
}

// IsIdentity reports whether a text is a private key of age, which must be in no message.
func IsIdentity(text string) bool { return strings.Contains(strings.ToUpper(text), "AGE-SECRET-KEY") }

// Writer writes one archive. Write takes the snapshot's bytes.
type Writer struct {
	recipients []string
	target     *counter
	encryption io.Closer // nil: not encrypted
	compressor *zstd.Encoder
	tar        *tar.Writer
	rest       []byte
	pieces     int
	snapshot   counter
	files      map[string]backup.Digest
	size       int64
}

// NewWriter returns a Writer to a stream. Recipients are those who can decrypt the archive; without one it is not encrypted and holds no
// files.
func NewWriter(to io.Writer, recipients []string) (*Writer, error) {
	parsed, err := Recipients(recipients)
	if err != nil {
		return nil, err
	}
	w := &Writer{recipients: recipients, target: newCounter(to), snapshot: *newCounter(io.Discard), files: map[string]backup.Digest{}}
	var below io.Writer = w.target
	if len(parsed) > 0 {
		encryption, err := age.Encrypt(below, parsed...)
		if err != nil {
			return nil, fmt.Errorf("encrypting the archive: %w", err)
		}
		w.encryption, below = encryption, encryption
	}
	w.compressor, err = zstd.NewWriter(below, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, fmt.Errorf("compressing the archive: %w", err)
	}
	w.tar = tar.NewWriter(w.compressor)
	w.rest = make([]byte, 0, piece)
	return w, nil
}

// Write implements io.Writer for the snapshot.
func (w *Writer) Write(p []byte) (int, error) {
	for taken := p; len(taken) > 0; {
		n := min(piece-len(w.rest), len(taken))
		w.rest = append(w.rest, taken[:n]...)
		taken = taken[n:]
		if len(w.rest) == piece {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return w.snapshot.Write(p)
}

func (w *Writer) flush() error {
	if len(w.rest) == 0 {
		return nil
	}
	err := w.entry(pieceName(w.pieces), w.rest)
	w.pieces++
	w.rest = w.rest[:0]
	return err
}

func pieceName(n int) string { return fmt.Sprintf("%s%06d", snapshotFolder, n) }

func (w *Writer) entry(name string, data []byte) error {
	err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(data)), Format: tar.FormatUSTAR})
	if err == nil {
		_, err = w.tar.Write(data)
	}
	if err != nil {
		return fmt.Errorf("writing %s to the archive: %w", name, err)
	}
	return nil
}

// Add adds a file after the snapshot. It refuses files in an archive that is not encrypted: they are keys.
func (w *Writer) Add(name string, data []byte) error {
	switch {
	case w.encryption == nil:
		return fmt.Errorf("adding file %q: the archive is not encrypted; only encrypted archives hold files", name)
	case !backup.IsFile(name):
		return fmt.Errorf("adding file %q: must be a relative path of letters, digits, dots, dashes and underscores", name)
	case w.size+int64(len(data)) > MostFiles:
		return fmt.Errorf("adding file %q: all files together must have at most %d bytes", name, MostFiles)
	case w.files[name] != backup.Digest{}:
		return fmt.Errorf("adding file %q: it was added before", name)
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.size += int64(len(data))
	w.files[name] = digest(data)
	return w.entry(filesFolder+name, data)
}

// Finish writes the manifest and ends the archive. It returns the manifest with the digests of everything that was written. The stream
// below stays open.
func (w *Writer) Finish(m backup.Manifest) (*backup.Manifest, error) {
	if err := w.flush(); err != nil {
		return nil, err
	}
	m.Snapshot, m.Files, m.Archive = w.snapshot.digest(), nil, nil
	if len(w.files) > 0 {
		m.Files = w.files
	}
	inside, err := m.Encode()
	if err != nil {
		return nil, err
	}
	if err := w.entry(manifestName, inside); err != nil {
		return nil, err
	}
	if err := w.close(); err != nil {
		return nil, fmt.Errorf("ending the archive: %w", err)
	}
	m.Archive = &backup.Archive{Digest: w.target.digest(), Recipients: w.recipients}
	return &m, m.Check()
}

func (w *Writer) close() error {
	err := errors.Join(w.tar.Close(), w.compressor.Close())
	if w.encryption != nil {
		err = errors.Join(err, w.encryption.Close())
	}
	return err
}

// Contents are what an archive holds beside the snapshot.
type Contents struct {
	// Manifest is the copy inside, without the archive's own digest.
	Manifest *backup.Manifest
	// Files are the files by name.
	Files map[string][]byte
}

// Read reads a whole archive, and writes the snapshot to a stream as it goes. Identities decrypt it; they are ignored if it is not
// encrypted. Most is how many bytes the snapshot may have. The archive is read to its end, and every digest in it is compared: if Read
// returns an error, nothing that it wrote may be used.
func Read(from io.Reader, identities []age.Identity, most int64, snapshot io.Writer) (*Contents, error) {
	plain, err := decrypt(from, identities)
	if err != nil {
		return nil, err
	}
	decompressor, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(mostMemory), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, fmt.Errorf("decompressing the archive: %w", err)
	}
	defer decompressor.Close()
	r := reader{tar: tar.NewReader(decompressor), snapshot: newCounter(snapshot), most: most, out: Contents{Files: map[string][]byte{}}}
	if err := r.entries(); err != nil {
		return nil, fmt.Errorf("reading the archive: %w", err)
	}
	// What follows the last entry belongs to nothing. An error there is one of the end, such as of a checksum.
	switch n, err := decompressor.Read(make([]byte, 1)); {
	case n > 0:
		return nil, errors.New("reading the archive: bytes follow its end")
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("reading the end of the archive: %w", err)
	}
	return &r.out, r.check()
}

// ageMagic is how an age file begins.
const ageMagic = "age-encryption.org/"

func decrypt(from io.Reader, identities []age.Identity) (io.Reader, error) {
	begin := make([]byte, len(ageMagic))
	n, err := io.ReadFull(from, begin)
	whole := io.MultiReader(bytes.NewReader(begin[:n]), from)
	if err != nil {
		return nil, fmt.Errorf("reading the archive: it has %d bytes: %w", n, err)
	}
	if string(begin) != ageMagic {
		return whole, nil
	}
	if len(identities) == 0 {
		return nil, errors.New("decrypting the archive: it is encrypted, and no identity was given")
	}
	plain, err := age.Decrypt(whole, identities...)
	if err != nil {
		return nil, fmt.Errorf("decrypting the archive: %w", err)
	}
	return plain, nil
}

// reader is an archive that is being read.
type reader struct {
	tar      *tar.Reader
	snapshot *counter
	most     int64
	pieces   int
	short    bool // a piece was shorter than the others: it must have been the last
	size     int64
	out      Contents
}

func (r *reader) entries() error {
	for {
		header, err := r.tar.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch name := header.Name; {
		case header.Typeflag != tar.TypeReg || r.out.Manifest != nil:
			err = fmt.Errorf("entry %q does not belong there", name)
		case name == manifestName:
			err = r.manifest(header)
		case strings.HasPrefix(name, filesFolder):
			err = r.file(header)
		default:
			err = r.piece(header)
		}
		if err != nil {
			return err
		}
	}
}

func (r *reader) piece(header *tar.Header) error {
	if want := pieceName(r.pieces); header.Name != want || r.short || len(r.out.Files) > 0 || header.Size < 1 || header.Size > piece {
		return fmt.Errorf("entry %q with %d bytes where %s is expected", header.Name, header.Size, want)
	}
	if r.snapshot.size+header.Size > r.most {
		return fmt.Errorf("the snapshot has more than %d bytes", r.most)
	}
	r.pieces++
	r.short = header.Size < piece
	_, err := io.CopyN(r.snapshot, r.tar, header.Size)
	return err
}

func (r *reader) file(header *tar.Header) error {
	name := strings.TrimPrefix(header.Name, filesFolder)
	if r.size += header.Size; header.Size < 0 || r.size > MostFiles {
		return fmt.Errorf("its files have more than %d bytes", MostFiles)
	}
	if _, is := r.out.Files[name]; is || !backup.IsFile(name) {
		return fmt.Errorf("file %q is there twice or is no name", name)
	}
	data, err := io.ReadAll(r.tar)
	r.out.Files[name] = data
	return err
}

func (r *reader) manifest(header *tar.Header) error {
	if header.Size > backup.MostManifest {
		return fmt.Errorf("its manifest has %d bytes, at most %d are allowed", header.Size, backup.MostManifest)
	}
	data, err := io.ReadAll(r.tar)
	if err != nil {
		return err
	}
	r.out.Manifest, err = backup.DecodeManifest(data)
	return err
}

// check compares what was read with the manifest.
func (r *reader) check() error {
	m := r.out.Manifest
	switch {
	case m == nil:
		return errors.New("reading the archive: it ends without a manifest")
	case m.Archive != nil:
		return errors.New("reading the archive: the manifest inside must not name the archive")
	case m.Snapshot != r.snapshot.digest():
		return errors.New("reading the archive: the snapshot is not the one that the manifest describes")
	case len(m.Files) != len(r.out.Files):
		return fmt.Errorf("reading the archive: it has %d files, the manifest says %d", len(r.out.Files), len(m.Files))
	}
	for name, data := range r.out.Files {
		if m.Files[name] != digest(data) {
			return fmt.Errorf("reading the archive: file %q is not the one that the manifest describes", name)
		}
	}
	return nil
}

// Sum reads a stream to its end and returns its digest.
func Sum(from io.Reader) (backup.Digest, error) {
	c := newCounter(io.Discard)
	_, err := io.Copy(c, from)
	return c.digest(), err
}

// counter passes bytes on and remembers their number and digest.
type counter struct {
	to   io.Writer
	hash hash.Hash
	size int64
}

func newCounter(to io.Writer) *counter { return &counter{to: to, hash: sha256.New()} }

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.size += int64(n)
	c.hash.Write(p[:n])
	return n, err
}

func (c *counter) digest() backup.Digest {
	return backup.Digest{Size: c.size, SHA256: hex.EncodeToString(c.hash.Sum(nil))}
}

func digest(data []byte) backup.Digest {
	sum := sha256.Sum256(data)
	return backup.Digest{Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}
