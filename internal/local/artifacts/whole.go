package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// downloadsFolder is where bundles with a checksum are in the cache until all of them is there, under the names of their checksums: an
// interrupted download goes on there.
const downloadsFolder = "downloads"

// openFile opens a bundle that is a file, and compares it with its checksum.
func (b Bundle) openFile() (io.ReadCloser, error) {
	file, err := os.Open(b.From)
	if err != nil || b.SHA256 == "" {
		return file, err
	}
	if err := b.check(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// check compares a file with the checksum of the bundle, and goes back to its beginning.
func (b Bundle) check(file *os.File) error {
	hash := sha256.New()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(hash, file); err != nil {
		return fmt.Errorf("reading the bundle: %w", err)
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); !strings.EqualFold(sum, b.SHA256) {
		return fmt.Errorf("%w %s instead of %s", errOtherSum, sum, strings.ToLower(b.SHA256))
	}
	_, err := file.Seek(0, io.SeekStart)
	return err
}

// errOtherSum: what was downloaded is not the bundle that the user means.
var errOtherSum = errors.New("it has the SHA-256")

// whole is a downloaded bundle. It is removed when it was read.
type whole struct {
	*os.File
	unlock func() error
}

// Close implements io.Closer.
func (w whole) Close() error {
	return errors.Join(os.Remove(w.Name()), w.File.Close(), w.unlock())
}

// partial is a bundle of which a file has a part.
type partial struct {
	Bundle
	file   *os.File
	cancel context.CancelCauseFunc
	// report is told how much of the bundle is there.
	report func(string)
}

// openWhole downloads a bundle with a checksum, on from where an earlier run was interrupted, and opens it when it is the one that is
// meant.
func (b Bundle) openWhole(ctx context.Context, cancel context.CancelCauseFunc, folder string, report func(string)) (io.ReadCloser, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the bundle: %w", err)
	}
	name := filepath.Join(folder, strings.ToLower(b.SHA256)+".part")
	lock := flock.New(name + ".lock")
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return nil, fmt.Errorf("waiting for another download of the same bundle: %w", err)
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	w := whole{File: file, unlock: lock.Unlock}
	err = partial{Bundle: b, file: file, cancel: cancel, report: report}.complete(ctx)
	switch {
	case err == nil:
		return w, nil
	case errors.Is(err, errOtherSum), errors.Is(err, errTooMuch), errors.Is(err, ErrDiskFull):
		return nil, errors.Join(err, w.Close())
	}
	return nil, errors.Join(err, file.Close(), lock.Unlock()) // the next run goes on from there
}

// complete downloads what the file lacks of the bundle. If an earlier run left something that is not its beginning, all of it is downloaded
// again.
func (p partial) complete(ctx context.Context) error {
	had, err := p.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if had > 0 && p.check(p.file) == nil {
		return nil
	}
	err = p.append(ctx, had)
	if had > 0 && (errors.Is(err, errOtherSum) || errors.As(err, &final{})) {
		err = p.append(ctx, 0)
	}
	return err
}

// append downloads what comes after the first bytes of the file, and compares the whole with its checksum.
func (p partial) append(ctx context.Context, had int64) error {
	if err := p.file.Truncate(had); err != nil {
		return err
	}
	if _, err := p.file.Seek(had, io.SeekStart); err != nil {
		return err
	}
	d, err := p.newDownload(ctx, p.cancel)
	if err != nil {
		return err
	}
	d.offset = had
	if err := errors.Join(p.copy(d), d.Close()); err != nil {
		return stalledOr(ctx, err)
	}
	return p.check(p.file)
}

// copy writes what is downloaded to the file, if there is room for it, and reports each second how far it is.
func (p partial) copy(d *download) error {
	if _, err := d.Read(nil); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if free, err := cache.Available(p.file.Name()); err != nil {
		return err
	} else if needed := d.total - d.offset; needed > 0 && uint64(needed) > free {
		return fmt.Errorf("%w to download the bundle: it needs %s and there are %s", ErrDiskFull, cache.Bytes(needed), cache.Bytes(free))
	}
	begun, first := time.Now(), d.offset
	for next := begun; ; {
		n, err := io.CopyN(p.file, d, reportEvery)
		if now := time.Now(); now.After(next) || err != nil {
			p.report(progress(d.offset, d.total, d.offset-first, now.Sub(begun)))
			next = now.Add(time.Second)
		}
		switch {
		case errors.Is(err, io.EOF) && n < reportEvery:
			return nil
		case errors.Is(err, syscall.ENOSPC):
			return fmt.Errorf("%w to download the bundle: %w", ErrDiskFull, err)
		case err != nil:
			return err
		}
	}
}

// reportEvery is after how many bytes it is looked whether there is something to report.
const reportEvery = 1 << 20

// progress says how much of a download is there, and how long the rest takes at the speed so far.
func progress(offset, total, loaded int64, took time.Duration) string {
	if total <= 0 {
		return cache.Bytes(offset).String()
	}
	text := fmt.Sprintf("%s of %s", cache.Bytes(offset), cache.Bytes(total))
	if rest := total - offset; rest > 0 && loaded > 0 && took > 0 {
		left := time.Duration(float64(took) * float64(rest) / float64(loaded))
		text += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	return text
}

// dropDownloads removes what interrupted downloads of bundles have left in a cache, but those that go on at the moment. A dry run only
// tells what would go.
func dropDownloads(root string, dryRun bool) ([]Pruned, error) {
	names, err := filepath.Glob(filepath.Join(root, downloadsFolder, "*.part"))
	if err != nil {
		return nil, fmt.Errorf("listing interrupted downloads: %w", err)
	}
	var removed []Pruned
	for _, name := range names {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return removed, fmt.Errorf("measuring an interrupted download: %w", err)
		}
		lock := flock.New(name + ".lock")
		if had, err := lock.TryLock(); err != nil || !had {
			continue
		}
		if !dryRun {
			err = os.Remove(name)
		}
		if err := errors.Join(err, lock.Unlock()); err != nil {
			return removed, fmt.Errorf("removing an interrupted download: %w", err)
		}
		removed = append(removed, Pruned{Folder: filepath.Join(downloadsFolder, filepath.Base(name)), Bytes: cache.Bytes(info.Size())})
	}
	return removed, nil
}
