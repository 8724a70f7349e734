package store

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// below is one folder of a store, as a store of its own.
type below struct {
	whole  Store
	folder string
}

// Below returns the part of a store that is below a folder. No key leads out of it.
func Below(whole Store, folder string) (Store, error) {
	if err := checkKey(folder); err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	return below{whole, folder}, nil
}

// at returns the key in the whole store.
func (b below) at(key string) (string, error) { return b.folder + "/" + key, checkKey(key) }

// Put implements Store.
func (b below) Put(ctx context.Context, key string, body io.Reader) error {
	at, err := b.at(key)
	if err != nil {
		return err
	}
	return b.whole.Put(ctx, at, body)
}

// Get implements Store.
func (b below) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	at, err := b.at(key)
	if err != nil {
		return nil, err
	}
	return b.whole.Get(ctx, at)
}

// List implements Store.
func (b below) List(ctx context.Context, folder string, each func(key string) error) error {
	at, err := b.at(folder)
	if err != nil {
		return err
	}
	return b.whole.List(ctx, at, func(key string) error {
		own, is := strings.CutPrefix(key, b.folder+"/")
		if !is {
			return nil
		}
		return each(own)
	})
}

// Delete implements Store.
func (b below) Delete(ctx context.Context, key string) error {
	at, err := b.at(key)
	if err != nil {
		return err
	}
	return b.whole.Delete(ctx, at)
}

// ClearUploads implements Store.
func (b below) ClearUploads(ctx context.Context, folder string, before time.Time) error {
	at, err := b.at(folder)
	if err != nil {
		return err
	}
	return b.whole.ClearUploads(ctx, at, before)
}

// ListVersions implements Versioned.
func (b below) ListVersions(ctx context.Context, folder, after string, each func(Version) error) error {
	whole, is := b.whole.(Versioned)
	if !is {
		return ErrNoVersions
	}
	at, err := b.at(folder)
	if err != nil {
		return err
	}
	return whole.ListVersions(ctx, at, after, func(v Version) error {
		if v.Key, is = strings.CutPrefix(v.Key, b.folder+"/"); !is {
			return nil
		}
		return each(v)
	})
}

// GetVersion implements Versioned.
func (b below) GetVersion(ctx context.Context, key, id string) (io.ReadCloser, error) {
	whole, is := b.whole.(Versioned)
	if !is {
		return nil, ErrNoVersions
	}
	at, err := b.at(key)
	if err != nil {
		return nil, err
	}
	return whole.GetVersion(ctx, at, id)
}
