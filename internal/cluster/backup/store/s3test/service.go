// Package s3test is an S3-compatible service in the process of a test. It speaks as much of S3 as Quorate's stores use, in the dialects of
// different services, and keeps versions if asked to. It does not know what is stored in it.
package s3test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bucket is the only bucket of a service.
const Bucket = "backups"

// Dialect is in what a service differs from others.
type Dialect struct {
	// NoTrailers and NoChecksums refuse what newer SDKs send, WantsMD5 what they do not.
	NoTrailers, NoChecksums, WantsMD5 bool
	// BareLists leaves everything but keys, and the IDs of versions, out of lists.
	BareLists bool
	// NoDelete refuses to delete, as credentials may.
	NoDelete bool
	// Versioned keeps old versions. NoVersions refuses to list or to read them, as services and credentials may.
	Versioned, NoVersions bool
	// Pages is how many keys a page of a list has; 0: all.
	Pages int
}

// Service is an S3-compatible service. Its fields may be changed while no request is under way.
type Service struct {
	Dialect
	// URL is its endpoint, and CA the certificate that it shows, in PEM.
	URL string
	CA  []byte
	// Truncate has each object end early.
	Truncate bool
	// Fail answers so many requests with 503.
	Fail int
	// Answer answers a request in place of the service if it returns true; nil: none.
	Answer func(w http.ResponseWriter, r *http.Request) bool

	mu      sync.Mutex
	objects map[string][]version
	uploads map[string]*upload
	next    int
	deletes []string
}

// version is one version of an object, or the marker of a deletion.
type version struct {
	id     string
	data   []byte
	marker bool
}

type upload struct {
	key       string
	parts     map[string][]byte
	initiated time.Time
}

// Serve starts a service, which ends with the test.
func Serve(tb testing.TB, d Dialect) *Service {
	tb.Helper()
	s := &Service{Dialect: d, objects: map[string][]version{}, uploads: map[string]*upload{}}
	server := httptest.NewTLSServer(s)
	tb.Cleanup(server.Close)
	s.URL, s.CA = server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return s
}

// Keys returns the keys of all objects that are there, sorted.
func (s *Service) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys()
}

func (s *Service) keys() []string {
	var keys []string
	for key, versions := range s.objects {
		if !versions[0].marker {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Deletes returns the keys that were asked to be deleted, in that order.
func (s *Service) Deletes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deletes)
}

// Put stores an object as somebody else may.
func (s *Service) Put(key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(key, version{data: data})
}

// Delete deletes an object as somebody else may.
func (s *Service) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
}

// Forget removes all versions of an object but the newest few, as a rule of the bucket's owner does.
func (s *Service) Forget(key string, keep int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key] = s.objects[key][:min(keep, len(s.objects[key]))]; len(s.objects[key]) == 0 {
		delete(s.objects, key)
	}
}

// Begin leaves an upload that began at a time and did not end.
func (s *Service) Begin(id, key string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads[id] = &upload{key, map[string][]byte{}, at}
}

// Uploads returns the uploads that have not ended, sorted.
func (s *Service) Uploads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.uploads)
}

func (s *Service) add(key string, v version) {
	if v.id = "null"; !s.Versioned {
		s.objects[key] = []version{v}
		return
	}
	s.next++
	v.id = fmt.Sprintf("v%06d", s.next)
	s.objects[key] = slices.Insert(s.objects[key], 0, v)
}

func (s *Service) drop(key string) {
	if !s.Versioned {
		delete(s.objects, key)
		return
	}
	s.add(key, version{marker: true})
}

type failure struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

// Refuse answers with an error of S3, whose message is hostile.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(failure{Code: code, Message: "no\x1b[31m token=hunter2"})
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Answer != nil && s.Answer(w, r) {
		return
	}
	if s.Fail > 0 {
		s.Fail--
		Refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return
	}
	if s.isUnknown(r.Header) {
		Refuse(w, http.StatusNotImplemented, "NotImplemented")
		return
	}
	key, _ := strings.CutPrefix(r.URL.Path, "/"+Bucket+"/")
	q := r.URL.Query()
	switch {
	case q.Has("list-type"):
		s.list(w, q.Get("prefix"), q.Get("continuation-token"))
	case s.NoVersions && (q.Has("versions") || q.Has("versionId")):
		Refuse(w, http.StatusForbidden, "AccessDenied")
	case r.Method == http.MethodGet && q.Has("versions"):
		s.listVersions(w, q.Get("prefix"), q.Get("key-marker"), q.Get("version-id-marker"))
	case r.Method == http.MethodGet && q.Has("uploads"):
		s.listUploads(w, q.Get("prefix"))
	default:
		s.serveObject(w, r, key)
	}
}

// isUnknown reports whether a header is one that the service does not know.
func (s *Service) isUnknown(header http.Header) bool {
	for name := range header {
		name = strings.ToLower(name)
		if s.NoTrailers && name == "x-amz-trailer" || s.NoChecksums && strings.Contains(name, "checksum") {
			return true
		}
	}
	return false
}

// serveObject answers what is asked of one object.
func (s *Service) serveObject(w http.ResponseWriter, r *http.Request, key string) {
	switch r.Method {
	case http.MethodPost:
		s.post(w, r, key)
	case http.MethodPut:
		s.put(w, r, key)
	case http.MethodGet:
		s.get(w, key, r.URL.Query().Get("versionId"))
	case http.MethodDelete:
		s.remove(w, key, r.URL.Query().Get("uploadId"))
	default:
		Refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

func (s *Service) put(w http.ResponseWriter, r *http.Request, key string) {
	data, err := io.ReadAll(r.Body)
	sum := md5.Sum(data)
	sent := r.Header.Get("Content-Md5")
	switch {
	case err != nil, sent != "" && sent != base64.StdEncoding.EncodeToString(sum[:]):
		Refuse(w, http.StatusBadRequest, "BadDigest")
		return
	case s.WantsMD5 && sent == "":
		Refuse(w, http.StatusBadRequest, "InvalidRequest")
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", sum)))
	if id := r.URL.Query().Get("uploadId"); id != "" {
		s.uploads[id].parts[fmt.Sprintf("%05s", r.URL.Query().Get("partNumber"))] = data
		return
	}
	s.add(key, version{data: data})
}

func (s *Service) post(w http.ResponseWriter, r *http.Request, key string) {
	if r.URL.Query().Has("uploads") {
		id := fmt.Sprintf("upload-%d", len(s.uploads))
		s.uploads[id] = &upload{key, map[string][]byte{}, time.Now()}
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			Bucket   string
			Key      string
			UploadID string `xml:"UploadId"`
		}{Bucket: Bucket, Key: key, UploadID: id})
		return
	}
	id := r.URL.Query().Get("uploadId")
	var data []byte
	for _, n := range sorted(s.uploads[id].parts) {
		data = append(data, s.uploads[id].parts[n]...)
	}
	s.add(key, version{data: data})
	delete(s.uploads, id)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket, Key, ETag string
	}{Bucket: Bucket, Key: key, ETag: "x"})
}

func (s *Service) get(w http.ResponseWriter, key, id string) {
	versions := s.objects[key]
	at := slices.IndexFunc(versions, func(v version) bool { return id == "" || v.id == id })
	switch {
	case at < 0 && id != "":
		Refuse(w, http.StatusNotFound, "NoSuchVersion")
		return
	case at < 0 || versions[at].marker:
		Refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	data := versions[at].data
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("ETag", `"x"`)
	if s.Truncate {
		data = data[:len(data)/2]
	}
	_, _ = w.Write(data)
}

func (s *Service) remove(w http.ResponseWriter, key, id string) {
	if s.NoDelete {
		Refuse(w, http.StatusForbidden, "AccessDenied")
		return
	}
	if id != "" {
		delete(s.uploads, id)
	} else {
		s.deletes = append(s.deletes, key)
		s.drop(key)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) list(w http.ResponseWriter, prefix, after string) {
	type content struct {
		Key          string
		Size         int    `xml:",omitempty"`
		ETag         string `xml:",omitempty"`
		LastModified string `xml:",omitempty"`
	}
	out := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []content
	}{}
	for _, key := range s.keys() {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if s.Pages > 0 && len(out.Contents) == s.Pages {
			out.IsTruncated, out.NextContinuationToken = true, out.Contents[len(out.Contents)-1].Key
			break
		}
		c := content{Key: key}
		if !s.BareLists {
			c.Size, c.ETag, c.LastModified = len(s.objects[key][0].data), etag(s.objects[key][0].data), time.Now().UTC().Format(time.RFC3339)
		}
		out.Contents = append(out.Contents, c)
	}
	_ = xml.NewEncoder(w).Encode(out)
}

// listed is a version, or the marker of a deletion, as a list has it.
type listed struct {
	XMLName      xml.Name
	Key          string
	VersionID    string `xml:"VersionId"`
	IsLatest     bool
	LastModified string `xml:",omitempty"`
	ETag         string `xml:",omitempty"`
	Size         int    `xml:",omitempty"`
}

// listVersions lists all versions of a key, the newest first, before those of the next key.
func (s *Service) listVersions(w http.ResponseWriter, prefix, key, id string) {
	out := struct {
		XMLName             xml.Name `xml:"ListVersionsResult"`
		Name                string
		IsTruncated         bool
		NextKeyMarker       string `xml:",omitempty"`
		NextVersionIDMarker string `xml:"NextVersionIdMarker,omitempty"`
		All                 []listed
	}{Name: Bucket}
	passed := key == ""
	for _, k := range sorted(s.objects) {
		if !strings.HasPrefix(k, prefix) || k < key {
			continue
		}
		for i, v := range s.objects[k] {
			if k == key && !passed {
				passed = v.id == id
				continue
			}
			if s.Pages > 0 && len(out.All) == s.Pages {
				last := out.All[len(out.All)-1]
				out.IsTruncated, out.NextKeyMarker, out.NextVersionIDMarker = true, last.Key, last.VersionID
				_ = xml.NewEncoder(w).Encode(out)
				return
			}
			out.All = append(out.All, s.listed(k, v, i == 0))
		}
		passed = passed || k == key
	}
	_ = xml.NewEncoder(w).Encode(out)
}

func (s *Service) listed(key string, v version, latest bool) listed {
	l := listed{XMLName: xml.Name{Local: "Version"}, Key: key, VersionID: v.id, IsLatest: latest}
	if v.marker {
		l.XMLName.Local = "DeleteMarker"
	}
	if !s.BareLists {
		l.LastModified = time.Now().UTC().Format(time.RFC3339)
	}
	if !s.BareLists && !v.marker {
		l.ETag, l.Size = etag(v.data), len(v.data)
	}
	return l
}

func etag(data []byte) string { return fmt.Sprintf("\"%x\"", md5.Sum(data)) }

func (s *Service) listUploads(w http.ResponseWriter, prefix string) {
	type one struct {
		Key       string
		UploadID  string `xml:"UploadId"`
		Initiated time.Time
	}
	out := struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket  string
		Upload  []one
	}{Bucket: Bucket}
	for _, id := range sorted(s.uploads) {
		if strings.HasPrefix(s.uploads[id].key, prefix) {
			out.Upload = append(out.Upload, one{s.uploads[id].key, id, s.uploads[id].initiated})
		}
	}
	_ = xml.NewEncoder(w).Encode(out)
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
