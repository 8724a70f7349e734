package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// Bundle says where artifacts that were exported on another host come from.
type Bundle struct {
	From    string       // a file, an http:// or https:// URL, oci://REGISTRY/REPOSITORY:TAG, or - for Input
	Input   io.Reader    // may be nil
	KeyFile string       // with the public key of the required signature, in PEM; empty: none is required
	SHA256  string       // of the whole file, in hexadecimal digits; empty: not known. Only for a file or URL
	Most    int64        // bytes that a URL may have; 0 means 8 GiB
	Client  *http.Client // for URLs; nil means a default one
	Warn    func(string) // gets a warning about a bundle that is used without a signature; may be nil
}

// unverified warns of a bundle whose signature is not verified, and that has no checksum either: its programs run as root.
func (b Bundle) unverified(signed bool) {
	if b.Warn == nil || b.SHA256 != "" {
		return
	}
	said := "is not signed"
	if signed {
		said = "is signed, and its signature is not verified without a public key (--public-key, QUORATE_BUNDLE_KEY)"
	}
	b.Warn(fmt.Sprintf("bundle %s %s: the maker of the bundle chose its programs, which run as root", redacted(b.From), said))
}

// checksum matches a SHA-256 in hexadecimal digits.
var checksum = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)

// What bundles come from and go to, as it begins.
const (
	fileScheme     = ""
	httpScheme     = "http://"
	httpsScheme    = "https://"
	registryScheme = "oci://"
)

// schemeOf returns which of the accepted ones a text begins with.
func schemeOf(text string, accepted ...string) (string, error) {
	before, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return fileScheme, nil
	}
	if scheme := before + "://"; slices.Contains(accepted, scheme) {
		return scheme, nil
	}
	return "", fmt.Errorf("%s:// is not supported: a file%s is accepted", before, strings.Join(accepted, " or "))
}

// redacted is a text for people. Of a URL it leaves out whatever may be a credential: users, passwords, queries and fragments.
func redacted(text string) string {
	before, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return text
	}
	rest, _, fragment := strings.Cut(rest, "#")
	rest, _, query := strings.Cut(rest, "?")
	host, path, slash := strings.Cut(rest, "/")
	if at := strings.LastIndex(host, "@"); at >= 0 {
		host = "xxxxx" + host[at:]
	}
	text = before + "://" + host
	if slash {
		text += "/" + path
	}
	if query || fragment {
		text += "?xxxxx"
	}
	return text
}

// vouched reports whether it can be told of whatever arrives whether it is the bundle that the user means.
func (b Bundle) vouched() bool { return b.KeyFile != "" || b.SHA256 != "" }

// open begins to read a bundle. Cancel is called when a server that it comes from sends nothing more. Folder is where a bundle with a
// checksum is kept until all of it is there; report is told how much of it is.
func (b Bundle) open(ctx context.Context, cancel context.CancelCauseFunc, folder string, report func(string)) (io.ReadCloser, error) {
	scheme, err := schemeOf(b.From, fileScheme, httpScheme, httpsScheme, registryScheme)
	if err != nil {
		return nil, err
	}
	if err := b.checkSum(scheme); err != nil {
		return nil, err
	}
	switch {
	case b.From == "-" && b.Input != nil:
		return io.NopCloser(b.Input), nil
	case scheme == fileScheme:
		return b.openFile()
	case scheme == registryScheme:
		return b.watched(ctx, cancel)
	case scheme == httpScheme && !b.vouched():
		return nil, errPlain
	case b.SHA256 != "":
		return b.openWhole(ctx, cancel, folder, report)
	}
	return b.stream(ctx, cancel)
}

// checkSum checks the checksum of what comes from a scheme.
func (b Bundle) checkSum(scheme string) error {
	switch {
	case b.SHA256 == "":
		return nil
	case !checksum.MatchString(b.SHA256):
		return fmt.Errorf("invalid checksum %q: must be the 64 hexadecimal digits of a SHA-256", b.SHA256)
	case scheme == registryScheme || b.From == "-":
		return fmt.Errorf("a checksum cannot be combined with %s: it is for a file or a URL", redacted(b.From))
	}
	return nil
}

// stream begins to read a bundle from a URL.
func (b Bundle) stream(ctx context.Context, cancel context.CancelCauseFunc) (io.ReadCloser, error) {
	d, err := b.newDownload(ctx, cancel)
	if err != nil {
		return nil, err
	}
	if _, err := d.Read(nil); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(stalledOr(ctx, err), d.Close())
	}
	return d, nil
}

// stalledOr is why a download failed: that the server sent nothing more, or an error.
func stalledOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// watched begins to read a bundle from a registry, and gives up when that sends nothing more.
func (b Bundle) watched(ctx context.Context, cancel context.CancelCauseFunc) (io.ReadCloser, error) {
	watchdog := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer watchdog.Stop()
	body, err := b.pull(ctx)
	if err != nil {
		return nil, stalledOr(ctx, err)
	}
	return layer{ReadCloser: body, watchdog: watchdog}, nil
}

// layer is what a registry sends. Its watchdog runs while the reader waits, not while the importer does something else.
type layer struct {
	io.ReadCloser
	watchdog *time.Timer
}

// Read implements io.Reader.
func (l layer) Read(p []byte) (int, error) {
	l.watchdog.Reset(stallTimeout)
	defer l.watchdog.Stop()
	return l.ReadCloser.Read(p)
}

// bundleType is the media type of a bundle in a registry: it is the only layer of an image that cannot be run.
const bundleType = types.OCILayerZStd

func parseReference(text string) (name.Tag, error) {
	tag, err := name.NewTag(strings.TrimPrefix(text, registryScheme), name.StrictValidation)
	if err != nil {
		return tag, fmt.Errorf("oci://REGISTRY/REPOSITORY:TAG is accepted: %w", err)
	}
	return tag, nil
}

// remoteOptions take the credentials of `docker login`, if there are any.
func remoteOptions(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}

// push has a bundle written to a temporary file, uploads it, and returns its size.
func push(ctx context.Context, to string, write func(io.Writer) error) (cache.Bytes, error) {
	tag, err := parseReference(to)
	if err != nil {
		return 0, fmt.Errorf("exporting to %s: %w", to, err)
	}
	folder, err := os.MkdirTemp("", "quorate-bundle-")
	if err != nil {
		return 0, fmt.Errorf("making a folder for the bundle: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := folder + "/bundle.tar.zst"
	size, err := replaceFile(file, write)
	if err != nil {
		return 0, err
	}
	layer, err := tarball.LayerFromFile(file, tarball.WithMediaType(bundleType))
	if err != nil {
		return 0, fmt.Errorf("reading the bundle: %w", err)
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		layer)
	if err != nil {
		return 0, fmt.Errorf("describing the bundle: %w", err)
	}
	if err := remote.Write(tag, image, remoteOptions(ctx)...); err != nil {
		return 0, fmt.Errorf("exporting to %s: %w", to, err)
	}
	return size, nil
}

// pull begins to download from a registry.
func (b Bundle) pull(ctx context.Context) (io.ReadCloser, error) {
	tag, err := parseReference(b.From)
	if err != nil {
		return nil, err
	}
	image, err := remote.Image(tag, remoteOptions(ctx)...)
	if err != nil {
		return nil, err
	}
	layer, err := onlyLayer(image)
	if err != nil {
		return nil, err
	}
	return layer.Compressed()
}

func onlyLayer(image v1.Image) (v1.Layer, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != bundleType {
		return nil, fmt.Errorf("%w: one layer of type %s is accepted; is it one of `quorate artifacts export`?", cache.ErrBundle, bundleType)
	}
	return image.LayerByDigest(manifest.Layers[0].Digest)
}
