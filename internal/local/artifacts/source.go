package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
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
	Client  *http.Client // for URLs; nil means a default one
	Warn    func(string) // is told of a bundle that is taken although nobody vouches for it; may be nil
}

// unverified warns of a bundle whose signature is not verified: its programs run as root.
func (b Bundle) unverified(signed bool) {
	if b.Warn == nil {
		return
	}
	said := "is not signed"
	if signed {
		said = "is signed, and its signature is not verified without a public key (--public-key, QUORATE_BUNDLE_KEY)"
	}
	b.Warn(fmt.Sprintf("bundle %s %s: its programs, which run as root, are those of whoever made it", redacted(b.From), said))
}

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

// redacted is a text for people without the password that a URL may have.
func redacted(text string) string {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return u.Redacted()
	}
	return text
}

// errPlain is about bundles that anybody on the way could replace.
var errPlain = errors.New("http:// is accepted only with a public key, of the required signature: https:// would be without")

// open begins to read a bundle. Cancel is called when a server that it comes from sends nothing more.
func (b Bundle) open(ctx context.Context, cancel context.CancelCauseFunc) (io.ReadCloser, error) {
	if b.From == "-" && b.Input != nil {
		return io.NopCloser(b.Input), nil
	}
	scheme, err := schemeOf(b.From, fileScheme, httpScheme, httpsScheme, registryScheme)
	if err != nil {
		return nil, err
	}
	if scheme == fileScheme {
		return os.Open(b.From)
	}
	begin := b.fetch
	if scheme == registryScheme {
		begin = b.pull
	} else if scheme == httpScheme && b.KeyFile == "" {
		return nil, errPlain
	}
	watchdog := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer watchdog.Stop()
	body, err := begin(ctx)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		return nil, err
	}
	return download{ReadCloser: body, watchdog: watchdog}, nil
}

// fetch begins to download from a URL.
func (b Bundle) fetch(ctx context.Context) (io.ReadCloser, error) {
	client := http.Client{}
	if b.Client != nil {
		client = *b.Client
	}
	client.CheckRedirect = func(to *http.Request, via []*http.Request) error {
		if to.URL.Scheme != "https" && b.KeyFile == "" {
			return fmt.Errorf("it redirects to %s: %w", to.URL.Redacted(), errPlain)
		}
		if len(via) >= 10 {
			return errors.New("it redirects more than 10 times")
		}
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.From, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the server answers %s", response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// stallTimeout is how long a server may send nothing.
const stallTimeout = time.Minute

var errStalled = fmt.Errorf("the server has sent nothing for %s", stallTimeout)

// download is what a server sends. Its watchdog runs while it is waited for, not while the importer does something else.
type download struct {
	io.ReadCloser
	watchdog *time.Timer
}

func (d download) Read(p []byte) (int, error) {
	d.watchdog.Reset(stallTimeout)
	defer d.watchdog.Stop()
	return d.ReadCloser.Read(p)
}

// bundleType is the media type of a bundle in a registry: it is the only layer of an image that nobody can run.
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
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
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
