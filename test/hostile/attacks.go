package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// quiet is for servers of which clients hang up.
var quiet = log.New(io.Discard, "", 0)

// Secret must never be seen outside of the cluster that answers it, and neither must the escape character.
const Secret = "TOPSECRET"

// screen is a text that takes a terminal over, and does not end soon.
var screen = "\x1b]0;" + Secret + "\x07\x1b[2J\x1b[31m" + strings.Repeat("look here ", 1000) + "\u202e"

// quoted is screen for JSON.
var quoted = strings.NewReplacer("\x1b", `\u001b`, "\x07", `\u0007`).Replace(screen)

// The paths that the manager lists and watches.
const (
	nodes = "/api/v1/nodes"
	pods  = "/api/v1/namespaces/kube-system/pods"
	// kubeadmConfig is the ConfigMap with kubeadm's configuration.
	kubeadmConfig = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
)

// on answers requests for one path, lists or watches.
func on(
	at string, watch bool, answer func(*Cluster, http.ResponseWriter, *http.Request),
) func(*Cluster, http.ResponseWriter, *http.Request) bool {
	return func(c *Cluster, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != at || (r.URL.Query().Get("watch") == "true") != watch {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		answer(c, w, r)
		return true
	}
}

// always answers all requests.
func always(answer func(http.ResponseWriter, *http.Request)) func(*Cluster, http.ResponseWriter, *http.Request) bool {
	return func(_ *Cluster, w http.ResponseWriter, r *http.Request) bool { answer(w, r); return true }
}

// text answers with a text.
func text(format string, args ...any) func(*Cluster, http.ResponseWriter, *http.Request) {
	return func(_ *Cluster, w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, format, args...) }
}

// endless answers with a text, and with another again and again.
func endless(first, again string) func(*Cluster, http.ResponseWriter, *http.Request) {
	block := strings.Repeat(again, 1+(64<<10)/len(again))
	return func(_ *Cluster, w http.ResponseWriter, r *http.Request) {
		_, err := io.WriteString(w, first)
		for err == nil && r.Context().Err() == nil {
			_, err = io.WriteString(w, block)
		}
	}
}

// bomb answers with a beginning and half a GiB of blanks, packed.
func bomb(beginning string) func(*Cluster, http.ResponseWriter, *http.Request) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	blanks := bytes.Repeat([]byte(" "), 1<<20)
	_, err2 := io.WriteString(z, beginning)
	for range 512 {
		if _, more := z.Write(blanks); more != nil {
			err2 = more
		}
	}
	if err != nil || err2 != nil || z.Close() != nil {
		panic("a buffer does not take what is written to it")
	}
	return func(_ *Cluster, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}
}

// list is a list of one kind with these items.
func list(kind, items string) string {
	return fmt.Sprintf(`{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, kind, items)
}

// labelled is a Node of a control plane with a label of that many bytes.
func labelled(name string, size int) string {
	return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"%s","labels":{"%s":"","x":"%s"}}}`, name, controlPlane,
		strings.Repeat("x", size))
}

// slowly answers with a byte now and then.
func slowly(_ *Cluster, w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
		}
	}
}

// pages answers with pages without end, of Nodes that are all kept.
func pages(_ *Cluster, w http.ResponseWriter, r *http.Request) {
	n := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &n)
	var items []string
	for i := range 50 {
		items = append(items, labelled(fmt.Sprintf("n-%d-%d", n, i), 10<<10))
	}
	_, _ = fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"%d"},"items":[%s]}`, n+1,
		strings.Join(items, ","))
}

// hijacked does something with the connection of a request of HTTP/1.1.
func hijacked(do func(net.Conn)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		hijacker, is := w.(http.Hijacker)
		if !is {
			panic(http.ErrAbortHandler) // HTTP/2: the stream is reset
		}
		conn, _, err := hijacker.Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		do(conn)
	}
}

// shout writes the same to a connection until it is closed.
func shout(first, again string) func(net.Conn) {
	block := strings.Repeat(again, 1+(64<<10)/len(again))
	return func(conn net.Conn) {
		_, err := io.WriteString(conn, first)
		for err == nil {
			_, err = io.WriteString(conn, block)
		}
	}
}

// mute reads from a connection until it is closed, and says nothing.
func mute(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// hangUp does nothing, after which the connection is closed.
func hangUp(net.Conn) {}

// forwards answers port-forwards alone.
func forwards(answer func(http.ResponseWriter, *http.Request)) func(*Cluster, http.ResponseWriter, *http.Request) bool {
	return func(_ *Cluster, w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/portforward") {
			return false
		}
		answer(w, r)
		return true
	}
}

// APIAttacks are those of an API server. inside is the URL of a service that a tenant must not reach.
func APIAttacks(inside string) []Attack {
	empties := strings.Repeat("{},", 500_000) + "{}"
	return []Attack{
		{Name: "a gzip bomb as Nodes", API: on(nodes, false, bomb(`{"kind":"NodeList",`)), Says: "bytes in one object: more than"},
		{Name: "a gzip bomb as pods", API: on(pods, false, bomb(`{"kind":"PodList","items":[`)), Says: "bytes in one object: more than"},
		{Name: "a gzip bomb as kubeadm's configuration", API: on(kubeadmConfig, false, bomb(`{"kind":"ConfigMap",`))},
		{Name: "Nodes without end",
			API:  on(nodes, false, endless(`{"kind":"NodeList","items":[{"metadata":{"name":"n"}}`, `,{"metadata":{"name":"n"}}`)),
			Says: "objects in one list: more than"},
		{Name: "pages without end", API: on(nodes, false, pages), Says: "bytes to keep of the cluster: more than"},
		{Name: "an annotation of 10 MB",
			API:  on(nodes, false, text(`%s`, list("Node", `{"metadata":{"name":"n","annotations":{"a":"`+strings.Repeat("x", 10<<20)+`"}}}`))),
			Says: "bytes in one object: more than"},
		{Name: "half a million of empty containers",
			API:  on(pods, false, text(`%s`, list("Pod", `{"metadata":{"name":"p"},"spec":{"containers":[`+strings.Repeat("{},", 500_000)+`{}]}}`))),
			Says: "parts of one object: more than"},
		{Name: "half a million of empty owners of a ConfigMap",
			API: on(kubeadmConfig, false, text(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"ownerReferences":[%s]}}`, empties))},
		{Name: "a redirect to plain HTTP", API: always(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside, http.StatusTemporaryRedirect)
		}), Says: "redirect (307)"},
		{Name: "a redirect of lists", API: on(nodes, false, func(_ *Cluster, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside, http.StatusFound)
		}), Says: "redirect (302)"},
		{Name: "no answer", API: always(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), Says: "no answer in time"},
		{Name: "an answer byte by byte", API: on(nodes, false, slowly), Says: "no answer in time"},
		{Name: "half an answer", API: on(nodes, false, func(_ *Cluster, w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"NodeList","items":[`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}), Says: "listing Nodes: "},
		{Name: "no JSON", API: on(nodes, false, text(`{"kind":"NodeList","items":%s`, screen)), Says: "what is not JSON"},
		{Name: "wrong types", API: on(nodes, false, text(`%s`, list("Node", `{"metadata":{"name":["`+Secret+`"]}}`))),
			Says: "a Node that cannot be read"},
		{Name: "another kind", API: on(nodes, false, text(`%s`, list(quoted, ""))), Says: "where a NodeList was asked for"},
		{Name: "a name of 1 MB", API: on(nodes, false, text(`%s`, list("Node", `{"metadata":{"name":"`+strings.Repeat("x", 1<<20)+`"}}`))),
			Says: "whose name is none (1048576 bytes)"},
		{Name: "a name that is a screen", API: on(nodes, false, text(`%s`, list("Node", `{"metadata":{"name":"`+quoted+`"}}`))),
			Says: "whose name is none"},
		{Name: "a refusal that is a screen",
			API:  on(nodes, false, func(_ *Cluster, w http.ResponseWriter, _ *http.Request) { http.Error(w, screen, http.StatusTeapot) }),
			Says: "the answer is 418"},
		{Name: "a Status that is a screen", API: on(nodes, false, func(_ *Cluster, w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusForbidden, "Forbidden", "no password: "+Secret+" \x1b[2J"+strings.Repeat(" way", 1000))
		}), Says: "no password: <secret> way way"},
		{Name: "a screen as readyz", API: on("/readyz", false, func(_ *Cluster, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "[-]"+screen+" failed\n[-]etcd failed: "+Secret, http.StatusInternalServerError)
		}), Says: "not ready: etcd"},
		{Name: "readyz without end", API: on("/readyz", false, func(c *Cluster, w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless("", "[-]"+Secret+"\n")(c, w, r)
		}), Says: "not ready: 500"},
		{Name: "a header of 1 MB", API: always(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }),
			Says: "https://"},
		{Name: "a certificate of 500 names", ManyNames: true, Says: "x509: "},
		{Name: "it hangs up", Conn: hangUp, Says: "https://"},
		{Name: "it is mute", Conn: mute, Says: "no answer in time"},
		{Name: "noise without end", Conn: shout("", "HTTP/1.1 100 Continue\r\n\r\n"), Says: "https://"},
	}
}

// WatchAttacks are those that begin when the cluster was seen.
func WatchAttacks() []Attack {
	fat := `{"type":"ADDED","object":` + labelled("fat-%d", 256<<10) + "}\n"
	return []Attack{
		{Name: "a watch event of 10 MB",
			API:  on(nodes, true, text(`{"type":"ADDED","object":{"kind":"Node","x":"%s"}}`, strings.Repeat("x", 10<<20))),
			Says: "bytes in one object: more than"},
		{Name: "half a million of empty taints in a watch",
			API: on(nodes, true, text(`{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"n"},"spec":{"taints":[%s{}]}}}`,
				strings.Repeat("{},", 500_000))), Says: "parts of one object: more than"},
		{Name: "watch events without end", API: on(nodes, true, endless("", `{"type":"MODIFIED","object":`+labelled("again", 60<<10)+"}\n")),
			Says: "bytes answered in a minute: more than"},
		{Name: "ever more Nodes in a watch", API: on(nodes, true, func(_ *Cluster, w http.ResponseWriter, r *http.Request) {
			for i := 0; r.Context().Err() == nil; i++ {
				_, _ = fmt.Fprintf(w, fat, i)
			}
		}), Says: "bytes to keep of the cluster: more than"},
		{Name: "watches that end at once", API: on(nodes, true, func(*Cluster, http.ResponseWriter, *http.Request) {}),
			Says: "ends each watch as soon as it has begun"},
		{Name: "a screen as a watch", API: on(nodes, true, text("%s", screen)), Says: "what is not JSON"},
		{Name: "a Status that is a screen in a watch",
			API:  on(nodes, true, text(`{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"%s","message":"%s"}}`, quoted, quoted)),
			Says: "look here"},
	}
}

// EtcdAttacks are those of an etcd, and of the way to it.
func EtcdAttacks() []Attack {
	const nonsense = "its answer makes no sense: "
	return []Attack{
		{Name: "1,000 members", Etcd: func(_ *pb.StatusResponse, l *pb.MemberListResponse) error {
			for i := range 1000 {
				l.Members = append(l.Members, &pb.Member{ID: uint64(i + 2), Name: fmt.Sprint("m", i)})
			}
			return nil
		}, Says: nonsense + "its list has 1001 members"},
		{Name: "a list of 64 MB", Etcd: func(_ *pb.StatusResponse, l *pb.MemberListResponse) error {
			l.Members[0].ClientURLs = []string{strings.Repeat("x", 64<<20)}
			return nil
		}, Says: nonsense + "it has more than 65536 bytes"},
		{Name: "a status of 64 MB", Etcd: func(s *pb.StatusResponse, _ *pb.MemberListResponse) error {
			s.Version = strings.Repeat("x", 64<<20)
			return nil
		}, Says: nonsense + "it has more than 65536 bytes"},
		{Name: "a member's name that is a screen", Etcd: func(_ *pb.StatusResponse, l *pb.MemberListResponse) error {
			l.Members[0].Name = screen
			return nil
		}, Says: nonsense + "member 1 has a name or an address"},
		{Name: "a version that is a screen", Etcd: func(s *pb.StatusResponse, _ *pb.MemberListResponse) error { s.Version = screen; return nil },
			Says: nonsense + "a version of"},
		{Name: "errors that are screens", Etcd: func(s *pb.StatusResponse, _ *pb.MemberListResponse) error {
			for range 5 {
				s.Errors = append(s.Errors, "\x1b[2J"+strings.Repeat("look here ", 500))
			}
			return nil
		}, Says: "look here"},
		{Name: "a refusal of etcd that is a screen", Etcd: func(*pb.StatusResponse, *pb.MemberListResponse) error {
			return status.Error(codes.Internal, "\x1b[2J"+strings.Repeat("look here ", 1000))
		}, Says: "look here"},
		{Name: "etcd has a certificate of 500 names", EtcdManyNames: true, Says: "x509: "},
		{Name: "etcd is mute", EtcdConn: mute, Says: "no answer within 2s"},
		{Name: "etcd hangs up", EtcdConn: hangUp, Says: "does not answer"},
		{Name: "etcd makes noise without end", EtcdConn: shout("", "HTTP/1.1 200 OK\r\n"), Says: "does not answer"},
		{Name: "a port-forward with a header without end",
			API: forwards(hijacked(shout("HTTP/1.1 101 Switching Protocols\r\n", "X: "+strings.Repeat("x", 1000)+"\r\n")))},
		{Name: "a port-forward that is a screen",
			API: forwards(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, screen, http.StatusForbidden) }), NoEtcd: true,
			Says: "the answer is 403"},
		{Name: "a port-forward that redirects", API: forwards(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}), NoEtcd: true, Says: "redirect"},
	}
}
