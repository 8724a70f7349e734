package store

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

// dialect is in what a service differs from others.
type dialect struct {
	// noTrailers and noChecksums refuse what newer SDKs send, wantsMD5 what they do not.
	noTrailers, noChecksums, wantsMD5 bool
	// bareLists leaves everything but keys out of lists.
	bareLists bool
	// noDelete refuses to delete, as credentials may.
	noDelete bool
	// versioned keeps old versions; deleted counts what was deleted, at most once each.
	versioned bool
	// pages is how many keys a page of a list has.
	pages int
}

// service is an S3-compatible service in this process.
type service struct {
	dialect
	mu      sync.Mutex
	objects map[string][]byte
	uploads map[string]*upload
	deletes map[string]int
	// truncate has each object end early, and fail answers so many requests with 503.
	truncate bool
	fail     int
}

type upload struct {
	key       string
	parts     map[string][]byte
	initiated time.Time
}

// serve starts a service and returns a store in it.
func serve(t *testing.T, d dialect) (*service, Store) {
	t.Helper()
	s := &service{dialect: d, objects: map[string][]byte{}, uploads: map[string]*upload{}, deletes: map[string]int{}}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	store, err := S3{
		Endpoint: server.URL, Bucket: "backups", Prefix: "team/x", AccessKey: "id", SecretKey: "key", PathStyle: true,
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	return s, store
}

type failure struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(failure{Code: code, Message: "no\x1b[31m token=hunter2"})
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return
	}
	for name := range r.Header {
		name = strings.ToLower(name)
		if s.noTrailers && name == "x-amz-trailer" || s.noChecksums && strings.Contains(name, "checksum") {
			refuse(w, http.StatusNotImplemented, "NotImplemented")
			return
		}
	}
	key, _ := strings.CutPrefix(r.URL.Path, "/backups/")
	q := r.URL.Query()
	switch {
	case q.Has("list-type"):
		s.list(w, q.Get("prefix"), q.Get("continuation-token"))
	case r.Method == http.MethodGet && q.Has("uploads"):
		s.listUploads(w, q.Get("prefix"))
	case r.Method == http.MethodPost:
		s.post(w, r, key)
	case r.Method == http.MethodPut:
		s.put(w, r, key)
	case r.Method == http.MethodGet:
		s.get(w, key)
	case r.Method == http.MethodDelete:
		s.remove(w, key, q.Get("uploadId"))
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

func (s *service) put(w http.ResponseWriter, r *http.Request, key string) {
	data, err := io.ReadAll(r.Body)
	sum := md5.Sum(data)
	sent := r.Header.Get("Content-Md5")
	switch {
	case err != nil, sent != "" && sent != base64.StdEncoding.EncodeToString(sum[:]):
		refuse(w, http.StatusBadRequest, "BadDigest")
		return
	case s.wantsMD5 && sent == "":
		refuse(w, http.StatusBadRequest, "InvalidRequest")
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", sum)))
	if id := r.URL.Query().Get("uploadId"); id != "" {
		s.uploads[id].parts[fmt.Sprintf("%05s", r.URL.Query().Get("partNumber"))] = data
		return
	}
	s.objects[key] = data
}

func (s *service) post(w http.ResponseWriter, r *http.Request, key string) {
	if r.URL.Query().Has("uploads") {
		id := fmt.Sprintf("upload-%d", len(s.uploads))
		s.uploads[id] = &upload{key, map[string][]byte{}, time.Now()}
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			Bucket   string
			Key      string
			UploadID string `xml:"UploadId"`
		}{Bucket: "backups", Key: key, UploadID: id})
		return
	}
	id := r.URL.Query().Get("uploadId")
	var data []byte
	for _, n := range sorted(s.uploads[id].parts) {
		data = append(data, s.uploads[id].parts[n]...)
	}
	s.objects[key] = data
	delete(s.uploads, id)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket, Key, ETag string
	}{Bucket: "backups", Key: key, ETag: "x"})
}

func (s *service) get(w http.ResponseWriter, key string) {
	data, is := s.objects[key]
	if !is {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("ETag", `"x"`)
	if s.truncate {
		data = data[:len(data)/2]
	}
	_, _ = w.Write(data)
}

func (s *service) remove(w http.ResponseWriter, key, id string) {
	if s.noDelete {
		refuse(w, http.StatusForbidden, "AccessDenied")
		return
	}
	if id != "" {
		delete(s.uploads, id)
	} else {
		s.deletes[key]++
		delete(s.objects, key)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *service) list(w http.ResponseWriter, prefix, after string) {
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
	for _, key := range sorted(s.objects) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if s.pages > 0 && len(out.Contents) == s.pages {
			out.IsTruncated, out.NextContinuationToken = true, out.Contents[len(out.Contents)-1].Key
			break
		}
		c := content{Key: key}
		if !s.bareLists {
			c.Size, c.ETag, c.LastModified = len(s.objects[key]), `"x"`, time.Now().UTC().Format(time.RFC3339)
		}
		out.Contents = append(out.Contents, c)
	}
	_ = xml.NewEncoder(w).Encode(out)
}

func (s *service) listUploads(w http.ResponseWriter, prefix string) {
	type one struct {
		Key       string
		UploadID  string `xml:"UploadId"`
		Initiated time.Time
	}
	out := struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket  string
		Upload  []one
	}{Bucket: "backups"}
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
