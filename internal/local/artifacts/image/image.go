// Package image writes container images to files without a container engine or a registry. An image is one layer of given files, in
// the format that `docker save` writes and containerd imports, or as an OCI image layout of several architectures. The same files give the
// same bytes, whenever and by whomever it is done.
//
// The package also knows what a dynamically linked program needs beside itself. It does not know any image in particular.
package image

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A File is one file of an image.
type File struct {
	Path   string // in the image, absolute
	Source string // the file on this host that has the content, or
	Text   string // the content itself
	Mode   int64  // permission bits
}

// An Image is what Write writes.
type Image struct {
	Name       string   // with its tag: registry.k8s.io/pause:3.10
	Also       []string // other names of the same
	Entrypoint []string
	Files      []File

	Architecture string // amd64; empty: this host's
	User         string // number of user and group, as 65532:65532; empty: root
	Labels       map[string]string
	Created      time.Time // zero: not said
	Compression  int       // of gzip, 1 to 9; 0: the fastest
}

// search is where programs are looked for inside an image.
const search = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Write writes an image to the file archive. The work folder takes a temporary file as large as the layer.
func Write(archive, work string, i Image) error {
	references, err := tags(i)
	if err != nil {
		return err
	}
	layer, err := newLayer(work, i, types.DockerLayer)
	if err != nil {
		return fmt.Errorf("writing the layer of %s: %w", i.Name, err)
	}
	defer func() { _ = os.Remove(layer.file) }() // its folder is temporary
	content, err := compose(layer, i)
	if err != nil {
		return fmt.Errorf("composing %s: %w", i.Name, err)
	}
	named := map[name.Tag]v1.Image{}
	for _, reference := range references {
		named[reference] = content
	}
	if err := tarball.MultiWriteToFile(archive, named); err != nil {
		return fmt.Errorf("writing %s: %w", i.Name, err)
	}
	return nil
}

// tags are the names of an image, checked.
func tags(i Image) ([]name.Tag, error) {
	var references []name.Tag
	for _, n := range append([]string{i.Name}, i.Also...) {
		reference, err := name.NewTag(n, name.StrictValidation)
		if err != nil {
			return nil, fmt.Errorf("image name %q: %w", n, err)
		}
		references = append(references, reference)
	}
	return references, nil
}

// compose makes an image of one layer.
func compose(layer v1.Layer, i Image) (v1.Image, error) {
	content, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := content.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", cmp.Or(i.Architecture, runtime.GOARCH), v1.Time{Time: i.Created}
	config.Config.Entrypoint, config.Config.Env = i.Entrypoint, []string{search}
	config.Config.User, config.Config.Labels = i.User, i.Labels
	return mutate.ConfigFile(content, config)
}

// layer is a v1.Layer in a file.
type layer struct {
	file           string
	digest, diffID v1.Hash
	size, unpacked int64
	media          types.MediaType
}

// Digest is of the compressed layer.
func (l *layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID is the digest of the layer uncompressed.
func (l *layer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Size is that of the compressed layer, in bytes.
func (l *layer) Size() (int64, error) { return l.size, nil }

// MediaType says that the layer is compressed.
func (l *layer) MediaType() (types.MediaType, error) { return l.media, nil }

// Compressed returns the layer as it is kept.
func (l *layer) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }

// Uncompressed is never asked for when an image is written to a file.
func (l *layer) Uncompressed() (io.ReadCloser, error) { return nil, errors.New("kept compressed only") }

// newLayer writes files to a compressed layer.
func newLayer(work string, i Image, media types.MediaType) (*layer, error) {
	file, err := os.CreateTemp(work, "layer-")
	if err != nil {
		return nil, err
	}
	l, err := compress(file, i.Files, cmp.Or(i.Compression, gzip.BestSpeed))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	l.file, l.media = file.Name(), media
	return l, nil
}

// compress writes a layer. The fastest compression halves what is kept, and costs a second.
func compress(w io.Writer, files []File, level int) (*layer, error) {
	compressed, uncompressed, size, unpacked := sha256.New(), sha256.New(), counter(0), counter(0)
	zip, err := gzip.NewWriterLevel(io.MultiWriter(w, compressed, &size), level)
	if err != nil {
		return nil, err
	}
	if err := writeTar(io.MultiWriter(zip, uncompressed, &unpacked), files); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return &layer{digest: hashOf(compressed), diffID: hashOf(uncompressed), size: int64(size), unpacked: int64(unpacked)}, nil
}

func hashOf(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// writeTar writes files and the folders above them, sorted, with the same owner and time for all.
func writeTar(w io.Writer, files []File) error {
	headers, sources, err := tarEntries(files)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		headers[name].ModTime = time.Unix(0, 0)
		if err := archive.WriteHeader(headers[name]); err != nil {
			return err
		}
		if err := copyContent(archive, sources[name]); err != nil {
			return err
		}
	}
	return archive.Close()
}

// tarEntries are the headers of files and of the folders above them, and the files, by their names in the archive.
func tarEntries(files []File) (map[string]*tar.Header, map[string]File, error) {
	headers := map[string]*tar.Header{"tmp/": {Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}}
	sources := map[string]File{}
	for _, file := range files {
		if !path.IsAbs(file.Path) || path.Clean(file.Path) != file.Path {
			return nil, nil, fmt.Errorf("file %q: must be a clean absolute path", file.Path)
		}
		size := int64(len(file.Text))
		if file.Source != "" {
			info, err := os.Stat(file.Source)
			if err != nil {
				return nil, nil, err
			}
			size = info.Size()
		}
		inside := strings.TrimPrefix(file.Path, "/")
		if _, twice := sources[inside]; twice {
			return nil, nil, fmt.Errorf("file %q: is given twice", file.Path)
		}
		headers[inside] = &tar.Header{Typeflag: tar.TypeReg, Name: inside, Mode: file.Mode, Size: size}
		sources[inside] = file
		for above := path.Dir(inside); above != "."; above = path.Dir(above) {
			headers[above+"/"] = &tar.Header{Typeflag: tar.TypeDir, Name: above + "/", Mode: 0o755}
		}
	}
	return headers, sources, nil
}

func copyContent(w io.Writer, file File) error {
	if file.Source == "" {
		_, err := io.WriteString(w, file.Text)
		return err
	}
	source, err := os.Open(file.Source)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	_, err = io.Copy(w, source)
	return err
}
