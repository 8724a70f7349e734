package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/quorate/quorate/internal/program/untrusted"
)

const (
	// part is the size of a part of an upload. A service takes 10,000 parts, which is 78 GiB. Two parts are in memory at a time.
	part = 8 << 20
	// mostKeys is how many objects a folder may have. A service that never ends its list must end somewhere.
	mostKeys = 100_000
	// headerTimeout is how long a service may take to begin its answer.
	headerTimeout = 30 * time.Second
)

// S3 describes a bucket of an S3-compatible service.
type S3 struct {
	// Endpoint is the URL of the service, such as https://s3.eu-central-1.amazonaws.com.
	Endpoint string
	// Bucket is the bucket's name, and Prefix the folder in it in which everything lies; empty: the bucket itself.
	Bucket, Prefix string
	// Region is the bucket's. Defaults to us-east-1, which services without regions accept.
	Region string
	// AccessKey, SecretKey and SessionToken are the credentials.
	AccessKey, SecretKey, SessionToken string
	// Found has the credentials found as AWS's tools find them in a pod, in place of those above. It must not be set for what a tenant
	// describes: the credentials are the manager's.
	Found bool
	// CA are certificates in PEM that the service's certificate is verified with; empty: the system's.
	CA []byte
	// Proxy is the URL of an HTTP proxy; empty: none. The environment's proxy is never used.
	Proxy string
	// Encryption is AES256 or aws:kms, by which the service encrypts objects, and KeyName the key for the latter; empty: the bucket's default.
	Encryption, KeyName string
	// PathStyle reports whether the bucket's name is part of the path and not of the host name.
	PathStyle bool
	// Dial opens connections, to the proxy if there is one. For an endpoint that a tenant chose it must refuse what untrusted.DialerExcept
	// refuses.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// bucket is a Store in a bucket.
type bucket struct {
	client     *minio.Client
	idle       func()
	name       string
	prefix     string
	encryption encrypt.ServerSide
}

// Open checks the description and returns the store. Nothing is connected yet.
func (s S3) Open() (Store, error) {
	endpoint, err := url.Parse(s.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" ||
		strings.Trim(endpoint.Path, "/") != "" || endpoint.RawQuery != "" || endpoint.User != nil {
		return nil, fmt.Errorf("endpoint %q: must be a URL of a scheme (https or http), a host and a port, such as https://s3.example.com:9000",
			s.Endpoint)
	}
	if s.Prefix != "" {
		if err := checkKey(s.Prefix); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
	}
	transport, err := s.transport()
	if err != nil {
		return nil, err
	}
	b := &bucket{name: s.Bucket, prefix: s.Prefix, idle: transport.CloseIdleConnections}
	if b.encryption, err = s.serverSide(); err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupAuto
	if s.PathStyle {
		lookup = minio.BucketLookupPath
	}
	from := credentials.NewStaticV4(s.AccessKey, s.SecretKey, s.SessionToken)
	if s.Found {
		from = newFound()
	}
	b.client, err = minio.New(endpoint.Host, &minio.Options{
		Creds: from, Secure: endpoint.Scheme == "https", Transport: &guarded{transport}, Region: cmp.Or(s.Region, "us-east-1"),
		BucketLookup: lookup, MaxRetries: 3,
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", s.Endpoint, err)
	}
	return b, nil
}

func (s S3) serverSide() (encrypt.ServerSide, error) {
	switch s.Encryption {
	case "":
		return nil, nil
	case "AES256":
		return encrypt.NewSSE(), nil
	case "aws:kms":
		return encrypt.NewSSEKMS(s.KeyName, nil)
	default:
		return nil, fmt.Errorf("encryption %q: must be AES256 or aws:kms", s.Encryption)
	}
}

func (s S3) transport() (*http.Transport, error) {
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(s.CA) > 0 {
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(s.CA) {
			return nil, errors.New("CA: must hold at least one certificate in PEM")
		}
	}
	t := &http.Transport{
		DialContext: s.Dial, TLSClientConfig: security, ForceAttemptHTTP2: false, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: headerTimeout, ResponseHeaderTimeout: headerTimeout, MaxResponseHeaderBytes: untrusted.MostHeader,
		DisableCompression: true,
	}
	if s.Proxy != "" {
		proxy, err := url.Parse(s.Proxy)
		if err != nil || proxy.Host == "" || proxy.Scheme != "http" && proxy.Scheme != "https" {
			return nil, fmt.Errorf("proxy %q: must be a URL, such as http://proxy.example.com:3128", s.Proxy)
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	return t, nil
}

func (b *bucket) key(key string) string {
	if b.prefix == "" {
		return key
	}
	return b.prefix + "/" + key
}

// options send the MD5 digest, which services have taken since there was S3, and which Object Lock demands, and none of the newer checksums
// in headers and trailers, which many services refuse.
func (b *bucket) options() minio.PutObjectOptions {
	return minio.PutObjectOptions{PartSize: part, NumThreads: 1, SendContentMd5: true, ServerSideEncryption: b.encryption,
		ContentType: "application/octet-stream"}
}

// Put implements Store. The service shows an object once its upload is complete.
func (b *bucket) Put(ctx context.Context, key string, body io.Reader) error {
	if err := checkKey(key); err != nil {
		return err
	}
	defer b.idle()
	from, first := whole{body}, make([]byte, part)
	n, err := io.ReadFull(from, first)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		_, err = b.client.PutObject(ctx, b.name, b.key(key), bytes.NewReader(first[:n]), int64(n), b.options())
	case err == nil:
		_, err = b.client.PutObject(ctx, b.name, b.key(key), io.MultiReader(bytes.NewReader(first), from), -1, b.options())
	}
	return failed("storing", key, err)
}

// whole is a body that has no end but io.EOF itself. minio-go and io.ReadFull take other errors for the end too, and half an object would
// be stored.
type whole struct{ from io.Reader }

// Read implements io.Reader.
func (w whole) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	isEnd := any(err) == any(io.EOF) // and not one that wraps it
	if !isEnd && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		err = errors.New("reading what is to be stored: " + err.Error())
	}
	return n, err
}

// Get implements Store.
func (b *bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	return b.get(ctx, key, minio.GetObjectOptions{})
}

func (b *bucket) get(ctx context.Context, key string, options minio.GetObjectOptions) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	core := minio.Core{Client: b.client}
	body, _, _, err := core.GetObject(ctx, b.name, b.key(key), options)
	if err != nil {
		return nil, failed("reading", key, err)
	}
	return body, nil
}

// List implements Store.
func (b *bucket) List(ctx context.Context, folder string, each func(key string) error) error {
	if err := checkKey(folder); err != nil {
		return err
	}
	defer b.idle()
	ctx, cancel := paged(ctx)
	defer cancel()
	n := 0
	for object := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.key(folder) + "/", Recursive: true}) {
		if object.Err != nil {
			return failed("listing", folder, cause(ctx, object.Err))
		}
		if n++; n > mostKeys {
			return fmt.Errorf("listing %s: it has more than %d objects", folder, mostKeys)
		}
		key, is := strings.CutPrefix(object.Key, b.key(folder)+"/")
		if !is || checkKey(key) != nil {
			continue // not ours
		}
		if err := each(folder + "/" + key); err != nil {
			return err
		}
	}
	return failed("listing", folder, context.Cause(ctx))
}

// Delete implements Store. In a bucket with versions the service keeps the object as an old version.
func (b *bucket) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	err := failed("deleting", key, b.client.RemoveObject(ctx, b.name, b.key(key), minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// ClearUploads implements Store.
func (b *bucket) ClearUploads(ctx context.Context, folder string, before time.Time) error {
	if err := checkKey(folder); err != nil {
		return err
	}
	defer b.idle()
	ctx, cancel := paged(ctx)
	defer cancel()
	core := minio.Core{Client: b.client}
	n := 0
	for upload := range b.client.ListIncompleteUploads(ctx, b.name, b.key(folder)+"/", true) {
		if upload.Err != nil {
			return failed("listing unfinished uploads of", folder, cause(ctx, upload.Err))
		}
		if n++; n > mostKeys {
			return fmt.Errorf("listing unfinished uploads of %s: there are more than %d", folder, mostKeys)
		}
		if !upload.Initiated.Before(before) || !strings.HasPrefix(upload.Key, b.key(folder)+"/") {
			continue
		}
		if err := core.AbortMultipartUpload(ctx, b.name, upload.Key, upload.UploadID); err != nil {
			return failed("clearing an unfinished upload of", upload.Key, err)
		}
	}
	return failed("listing unfinished uploads of", folder, context.Cause(ctx))
}

// failed is an error of the service, in few words: it may say anything.
func failed(doing, key string, err error) error {
	if err == nil {
		return nil
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) || answer.StatusCode == 0 {
		return fmt.Errorf("%s %s: %w", doing, key, err)
	}
	said := untrusted.Shown(fmt.Sprintf("%s (%d %s)", answer.Message, answer.StatusCode, answer.Code))
	switch {
	case answer.Code == minio.NoSuchKey, answer.Code == noSuchVersion:
		return fmt.Errorf("%s %s: %w", doing, key, ErrNotFound)
	case answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s %s: %w: %s", doing, key, ErrForbidden, said)
	}
	return fmt.Errorf("%s %s: the service answered: %s", doing, key, said)
}
