package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// uploading is how the name of a file begins whose upload has not ended. Keys cannot begin so.
const uploading = ".uploading-"

// Folder keeps objects as files below a folder, such as the mount of a volume.
type Folder struct{ root *os.Root }

// OpenFolder opens a folder, which must exist: an unmounted volume must not look like an empty store.
func OpenFolder(path string) (*Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of backups: %w", err)
	}
	return &Folder{root}, nil
}

// Close releases the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Put implements Store.
func (f *Folder) Put(ctx context.Context, key string, body io.Reader) error {
	if err := checkKey(key); err != nil {
		return err
	}
	folder, name := filepath.Split(key)
	if err := f.root.MkdirAll(filepath.Clean(folder), 0o700); err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	temporary := folder + uploading + name
	err := f.write(ctx, temporary, body)
	if err == nil {
		err = f.root.Rename(temporary, key)
	}
	if err == nil {
		err = f.sync(filepath.Clean(folder))
	}
	if err != nil {
		_ = f.root.Remove(temporary)
		return fmt.Errorf("storing %s: %w", key, err)
	}
	return nil
}

func (f *Folder) write(ctx context.Context, path string, body io.Reader) error {
	file, err := f.root.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, until{ctx, body})
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// sync makes names in a folder last through a loss of power.
func (f *Folder) sync(folder string) error {
	d, err := f.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get implements Store.
func (f *Folder) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	file, err := f.root.Open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %s: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{until{ctx, file}, file}, nil
}

// List implements Store.
func (f *Folder) List(ctx context.Context, folder string, each func(key string) error) error {
	return f.walk(ctx, folder, func(path string, e fs.DirEntry) error {
		if strings.HasPrefix(e.Name(), ".") {
			return nil
		}
		return each(path)
	})
}

func (f *Folder) walk(ctx context.Context, folder string, each func(string, fs.DirEntry) error) error {
	if err := checkKey(folder); err != nil {
		return err
	}
	err := fs.WalkDir(f.root.FS(), folder, func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // deleted meanwhile, or nothing was stored yet
		case err != nil:
			return err
		case !e.Type().IsRegular():
			return nil
		}
		return each(path, e)
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", folder, err)
	}
	return nil
}

// Delete implements Store.
func (f *Folder) Delete(_ context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := f.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting %s: %w", key, err)
	}
	// The folder goes with its last file.
	_ = f.root.Remove(filepath.Dir(key))
	return nil
}

// ClearUploads implements Store.
func (f *Folder) ClearUploads(ctx context.Context, folder string, before time.Time) error {
	return f.walk(ctx, folder, func(path string, e fs.DirEntry) error {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), uploading) || !info.ModTime().Before(before) {
			return nil
		}
		return f.root.Remove(path)
	})
}

// until is a reader that ends with its context.
type until struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (u until) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.from.Read(p)
}
