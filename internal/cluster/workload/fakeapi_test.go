package workload

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	m.Run()
}

// server speaks as much of an API server's protocol as the package listens to.
type server struct {
	*httptest.Server
	// more serves what is not built in.
	more http.HandlerFunc

	mu       sync.Mutex
	token    string
	ready    string // what readyz answers; empty: ok
	version  int
	oldest   int // watches from before are refused
	objects  map[string]client.Object
	log      []change
	news     chan struct{} // closed at each change
	cut      chan struct{} // closed to end all watches
	requests []request
}

type request struct {
	path string
	// from is the near end of the connection.
	from string
	at   time.Time
}

type change struct {
	version int
	kind    string
	object  client.Object
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{token: "first", version: 10, objects: map[string]client.Object{}, news: make(chan struct{}), cut: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.endWatches(); s.Close() })
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, request{r.URL.Path, r.RemoteAddr, time.Now()})
	allowed := r.Header.Get("Authorization") == "Bearer "+s.token
	ready := s.ready
	s.mu.Unlock()
	switch {
	case !allowed:
		http.Error(w, "no", http.StatusUnauthorized)
	case r.URL.Path == "/readyz" && ready == noReadyz:
		http.NotFound(w, r)
	case r.URL.Path == "/readyz" && ready != "":
		http.Error(w, ready, http.StatusInternalServerError)
	case r.URL.Path == "/readyz":
		fmt.Fprint(w, "ok")
	case r.URL.Path == "/api/v1/nodes":
		s.resource(w, r, "Node", "nodes")
	case r.URL.Path == "/api/v1/namespaces/kube-system/pods" && r.URL.Query().Get("labelSelector") == "tier=control-plane":
		s.resource(w, r, "Pod", "pods")
	case s.more != nil:
		s.more(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *server) resource(w http.ResponseWriter, r *http.Request, kind, resource string) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "true" {
		s.mu.Lock()
		defer s.mu.Unlock()
		list := map[string]any{"kind": kind + "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}}
		var items []client.Object
		for key, o := range s.objects {
			if strings.HasPrefix(key, resource+"/") {
				items = append(items, o)
			}
		}
		slices.SortFunc(items, func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
		if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil {
			from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			if from+limit < len(items) {
				list["metadata"].(map[string]any)["continue"] = strconv.Itoa(from + limit)
			}
			items = items[from:min(from+limit, len(items))]
		}
		list["items"] = items
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		http.Error(w, "a watch without a version", http.StatusBadRequest)
		return
	}
	w.(http.Flusher).Flush()
	s.stream(w, r, resource, from)
}

// stream tells all changes after a version until the client or the server ends it.
func (s *server) stream(w http.ResponseWriter, r *http.Request, resource string, from int) {
	say := func(kind string, object any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
		w.(http.Flusher).Flush()
	}
	for {
		s.mu.Lock()
		news, cut, pending, oldest := s.news, s.cut, slices.Clone(s.log), s.oldest
		s.mu.Unlock()
		if from < oldest {
			say("ERROR", metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 410,
				Reason: metav1.StatusReasonExpired, Message: "too old"})
			return
		}
		for _, c := range pending {
			if c.version > from && strings.HasPrefix(keyOf(c.object), resource+"/") {
				say(c.kind, c.object)
				from = c.version
			}
		}
		select {
		case <-news:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func keyOf(o client.Object) string {
	if _, node := o.(*corev1.Node); node {
		return "nodes/" + o.GetName()
	}
	return "pods/" + o.GetName()
}

// put adds or changes an object, as a server does: with a new version, and managed fields.
func (s *server) put(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o = o.DeepCopyObject().(client.Object)
	o.SetResourceVersion(strconv.Itoa(s.version))
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update", APIVersion: "v1",
		Time: &metav1.Time{Time: time.Now()}}})
	kind := "MODIFIED"
	if s.objects[keyOf(o)] == nil {
		kind = "ADDED"
	}
	s.objects[keyOf(o)] = o
	s.tell(kind, o)
}

func (s *server) delete(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o = o.DeepCopyObject().(client.Object)
	o.SetResourceVersion(strconv.Itoa(s.version))
	delete(s.objects, keyOf(o))
	s.tell("DELETED", o)
}

// putUnseen changes an object and forgets the change, as compaction does: only a list shows it.
func (s *server) putUnseen(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version += 10
	o = o.DeepCopyObject().(client.Object)
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[keyOf(o)] = o
	s.oldest = s.version
	s.log = nil
	close(s.cut)
	s.cut = make(chan struct{})
}

func (s *server) tell(kind string, o client.Object) {
	s.log = append(s.log, change{version: s.version, kind: kind, object: o})
	close(s.news)
	s.news = make(chan struct{})
}

func (s *server) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// noReadyz is for setReady: the server does not know the question.
const noReadyz = "404"

func (s *server) setReady(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = answer
}

// counted returns how often each path was asked for so far.
func (s *server) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for _, r := range s.requests {
		counts[r.path]++
	}
	return counts
}

// asked returns when a path was asked for so far.
func (s *server) asked(path string) (at []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.path == path {
			at = append(at, r.at)
		}
	}
	return at
}

// kubeconfig is one for the server, reached at the address.
func (s *server) kubeconfig(t *testing.T, address, token string) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: address,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	must(t, err)
	return data
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func restConfig(t *testing.T, kubeconfig []byte) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	must(t, err)
	return config
}
