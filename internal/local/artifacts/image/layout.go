package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// refName is the annotation by which tools find an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// A Layout is what WriteLayout wrote.
type Layout struct {
	Digest v1.Hash // of the index
	Sizes  []Size  // in the order of the images
}

// A Size is that of one architecture's image, in bytes.
type Size struct {
	Architecture         string
	Compressed, Unpacked int64
}

// WriteLayout writes an OCI image layout to a folder that is not there yet: one index, under the name that all the images have, with an
// image for each architecture. The work folder takes temporary files as large as the layers.
func WriteLayout(folder, work string, images []Image) (*Layout, error) {
	if len(images) == 0 {
		return nil, errors.New("writing an image layout: no image")
	}
	name := images[0].Name
	if _, err := tags(images[0]); err != nil {
		return nil, err
	}
	written := &Layout{}
	var index v1.ImageIndex = empty.Index
	for _, i := range images {
		layer, err := newLayer(work, i, types.OCILayer)
		if err != nil {
			return nil, fmt.Errorf("writing the layer of %s: %w", name, err)
		}
		defer func() { _ = os.Remove(layer.file) }() // its folder is temporary
		written.Sizes = append(written.Sizes, Size{i.Architecture, layer.size, layer.unpacked})
		content, err := compose(layer, i)
		if err != nil {
			return nil, fmt.Errorf("composing %s: %w", name, err)
		}
		content = mutate.ConfigMediaType(mutate.MediaType(content, types.OCIManifestSchema1), types.OCIConfigJSON)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: content, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: i.Architecture}},
		})
	}
	var err error
	if written.Digest, err = index.Digest(); err != nil {
		return nil, fmt.Errorf("composing %s: %w", name, err)
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: name})); err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	return written, readable(folder)
}

// readable gives all files of a layout one mode: the library gives some to their owner only, and lets others be executed.
func readable(folder string) error {
	return filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chmod(file, 0o644)
	})
}
