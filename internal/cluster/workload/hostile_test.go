package workload

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// hostile serves Nodes in one's own way, and everything else as a good API server does.
func hostile(t *testing.T, nodes http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
		case "/api/v1/nodes":
			nodes(w, r)
		default:
			if r.URL.Query().Get("watch") == "true" {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return
			}
			emptyList(w, "Pod")
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func emptyList(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`, kind)
}

func configOf(s *httptest.Server) *rest.Config {
	return &rest.Config{Host: s.URL,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}}
}

// packed is a gzip stream of that many copies of a block.
func packed(t *testing.T, before string, block []byte, copies int) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, 9)
	must(t, err)
	_, err = io.WriteString(z, before)
	must(t, err)
	for range copies {
		_, err = z.Write(block)
		must(t, err)
	}
	must(t, z.Close())
	return out.Bytes()
}

// envelope is a NodeList in protobuf with these items, each as it is.
func envelope(items ...[]byte) []byte {
	list := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{18, 1, '1'})
	for _, item := range items {
		list = protowire.AppendBytes(protowire.AppendTag(list, 2, protowire.BytesType), item)
	}
	return unknown("NodeList", list)
}

// unknown is an object in protobuf.
func unknown(kind string, raw []byte) []byte {
	of := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "v1")
	of = protowire.AppendString(protowire.AppendTag(of, 2, protowire.BytesType), kind)
	out := append([]byte{}, untrusted.ProtobufPrefix...)
	out = protowire.AppendBytes(protowire.AppendTag(out, 1, protowire.BytesType), of)
	return protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), raw)
}

// named is a Node's metadata with a name.
func named(name string) []byte {
	meta := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), meta)
}

// repeated is a message with that many empty fields of a number.
func repeated(number protowire.Number, times int) []byte {
	return bytes.Repeat(append(protowire.AppendTag(nil, number, protowire.BytesType), 0), times)
}

func answerJSON(w http.ResponseWriter, format string, arguments ...any) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, format, arguments...)
}

func answerProtobuf(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", untrusted.Protobuf)
	_, _ = w.Write(body)
}

// mostHeap notes the most memory that is in use until the test ends.
func mostHeap(t *testing.T) *atomic.Uint64 {
	t.Helper()
	runtime.GC()
	var most atomic.Uint64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most.Store(max(most.Load(), m.HeapInuse))
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
	return &most
}

// TestHostileAnswers: whatever an API server answers, it costs little memory, and the view says in its own words what is wrong.
func TestHostileAnswers(t *testing.T) {
	spaces := packed(t, `{"kind":"NodeList",`, bytes.Repeat([]byte(" "), 1<<20), 256)
	node := `{"metadata":{"name":"n%d","labels":{"node-role.kubernetes.io/control-plane":"","x":"%s"}}}`
	containers := unknown("NodeList", protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType),
		append(named("n"), protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), repeated(4, 1<<19))...)))
	var page atomic.Int64
	for _, test := range []struct {
		name  string
		nodes http.HandlerFunc
		why   string
	}{
		{"a gzip bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(spaces)
		}, "bytes in one object: more than 2Mi (--managed-cluster-object-size)"},
		{"a list that never ends", func(w http.ResponseWriter, r *http.Request) {
			answerJSON(w, `{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"n"}}`)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(`,{"metadata":{"name":"n"}}`, 1000)); err != nil {
					return
				}
			}
		}, "objects in one list: more than 50000"},
		{"pages without end", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, `{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"c"},"items":[`+node+`]}`, page.Add(1),
				strings.Repeat("x", 100_000))
		}, "bytes to keep of the cluster: more than 8Mi (--managed-cluster-memory)"},
		{"empty pages without end", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, `{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"c"},"items":[]}`)
		}, "listing Nodes: the list goes on after 1000 pages"},
		{"an annotation of 10 MB", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, `{"kind":"NodeList","metadata":{},"items":[{"metadata":{"name":"n","annotations":{"a":"%s"}}}]}`,
				strings.Repeat("x", 10<<20))
		}, "bytes in one object: more than 2Mi"},
		{"the same in protobuf", func(w http.ResponseWriter, _ *http.Request) {
			answerProtobuf(w, envelope(append(named("n"), make([]byte, 10<<20)...)))
		}, "bytes in one object: more than 2Mi"},
		{"millions of empty conditions", func(w http.ResponseWriter, _ *http.Request) { answerProtobuf(w, containers) },
			"parts of one object: more than 20000"},
		{"the same in JSON", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, `{"kind":"NodeList","metadata":{},"items":[{"metadata":{"name":"n"},"status":{"conditions":[%s{}]}}]}`,
				strings.Repeat("{},", 1<<19))
		}, "parts of one object: more than 20000"},
		{"millions of empty Nodes", func(w http.ResponseWriter, _ *http.Request) {
			answerProtobuf(w, unknown("NodeList", repeated(2, 1<<22)))
		}, "answered a Node whose name is none (0 bytes)"},
		{"a length that is a lie", func(w http.ResponseWriter, _ *http.Request) {
			answerProtobuf(w, append(append([]byte{}, untrusted.ProtobufPrefix...), 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f))
		}, "bytes in one answer: more than 64Mi"},
		{"another kind", func(w http.ResponseWriter, _ *http.Request) { answerProtobuf(w, unknown("Secret\x1b[2J", nil)) },
			"answered what has no kind where a NodeList was asked for"},
		{"another kind in JSON", func(w http.ResponseWriter, _ *http.Request) { emptyList(w, "Secret") },
			`answered a SecretList where a NodeList was asked for`},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, `{"kind":"NodeList","items":TOPSECRET`) }, "what is not JSON"},
		{"wrong types", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, `{"kind":"NodeList","items":[{"metadata":{"name":["TOPSECRET"]}}]}`)
		}, "a Node that cannot be read"},
		{"a name that is a screen", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, `{"kind":"NodeList","items":[{"metadata":{"name":"\u001b[2JTOPSECRET"}}]}`)
		}, "a Node whose name is none"},
		{"a name of 1 MB", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, `{"kind":"NodeList","items":[{"metadata":{"name":"%s"}}]}`, strings.Repeat("x", 1<<20))
		}, "a Node whose name is none (1048576 bytes)"},
		{"a refusal that is a book", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("TOPSECRET", 1<<16), http.StatusTeapot)
		}, "the answer is 418 I'm a teapot"},
		{"a Status that is a book", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","message":"\u001b[31mno%s","details":{"name":"TOPSECRET"}}`,
				strings.Repeat(" way", 1<<12))
		}, "no way way"},
		{"a header without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			emptyList(w, "Node")
		}, "https://127.0.0.1:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := hostile(t, test.nodes)
			runtime.GC()
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			most := mostHeap(t)
			bounds := untrusted.Bounds{}.WithDefaults()
			server, err := newAPI(configOf(s), time.Hour, bounds, untrusted.NewMeter(bounds))
			must(t, err)
			defer server.close()
			err = server.nodes(newBook(bounds, func() {})).list(t.Context())
			if err == nil {
				t.Fatal("it was accepted")
			}
			why := Explain(err)
			if !strings.Contains(why, test.why) || len(why) > 600 || strings.ContainsAny(why, "\x1b\n") || strings.Contains(why, "TOPSECRET") {
				t.Errorf("%q, want %q", why, test.why)
			}
			if grown := int64(most.Load()) - int64(before.HeapInuse); grown > 160<<20 {
				t.Errorf("%d MiB of heap", grown>>20)
			}
		})
	}
}

// TestRedirectsAreNotFollowed: nobody but the server of the kubeconfig is asked, and nothing of an answer comes back.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var asked atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "INTERNAL-SECRET-BODY")
	}))
	defer inside.Close()
	for code := 300; code < 309; code++ {
		if code == http.StatusNotModified {
			continue
		}
		redirect := func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL+"/latest/meta-data", code)
		}
		s := hostile(t, redirect)
		want := fmt.Sprintf("the server answers with a redirect (%d), and redirects are not followed", code)
		if v, err := Once(t.Context(), configOf(s)); err != nil || v.Reachable || !strings.HasSuffix(v.Why, want) {
			t.Errorf("%q, %v, want %q", v.Why, err, want)
		}
		// Whoever shares the connection, or has the kubeconfig's own config.
		s = httptest.NewTLSServer(http.HandlerFunc(redirect))
		defer s.Close()
		server, err := newAPI(configOf(s), time.Hour, untrusted.Bounds{}.WithDefaults(), untrusted.NewMeter(untrusted.Bounds{}))
		must(t, err)
		defer server.close()
		if err := server.ready(t.Context()); err == nil || !strings.Contains(Explain(err), want) {
			t.Errorf("readyz: %v", err)
		}
		set, err := kubernetes.NewForConfig(server.config)
		must(t, err)
		if _, err := set.CoreV1().Pods("a").Get(t.Context(), "b", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a pod: %v", err)
		}
		config := configOf(s)
		config.WrapTransport = untrusted.Bounds{}.Wrap
		if _, err := new(tunnels).forward(t.Context(), config, "p", 1); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("a port-forward: %v", err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("somebody inside was asked %d times", n)
	}
}

// TestOthersAreBounded: who asks over the connection gets no answer that is too large, and of an error what is fit to be shown.
func TestOthersAreBounded(t *testing.T) {
	bomb := packed(t, `{"kind":"ConfigMap",`, bytes.Repeat([]byte(" "), 1<<20), 64)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; name {
		case "bomb":
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(bomb)
		case "parts":
			answerJSON(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"ownerReferences":[{}%s]}}`, strings.Repeat(",{}", 1<<19))
		case "protobuf":
			answerProtobuf(w, unknown("ConfigMap", nil))
		case "yaml":
			w.Header().Set("Content-Type", "application/yaml")
			fmt.Fprint(w, "kind: ConfigMap\napiVersion: v1\n")
		case "text":
			http.Error(w, "TOPSECRET", http.StatusInternalServerError)
		case "status":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Warning", `299 - "TOPSECRET"`)
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","reason":"Conflict","message":"token: `+
				`TOPSECRET\u001b[2J","details":{"name":"TOPSECRET","causes":[{"message":"TOPSECRET"}]}}`)
		case "protobuf-status":
			raw, _ := (&metav1.Status{Reason: metav1.StatusReasonNotFound, Message: "not\x07 here"}).Marshal()
			w.Header().Set("Content-Type", untrusted.Protobuf)
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write(unknown("Status", raw))
		default:
			answerJSON(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"good"},"data":{"a":"%s"}}`,
				strings.Repeat(`{\"a\":[1,2]},`, 20_000))
		}
	}))
	defer s.Close()
	server, err := newAPI(configOf(s), time.Hour, untrusted.Bounds{}.WithDefaults(), untrusted.NewMeter(untrusted.Bounds{}))
	must(t, err)
	defer server.close()
	set, err := kubernetes.NewForConfig(server.config)
	must(t, err)
	for name, want := range map[string]string{
		"good":            "",
		"bomb":            "bytes in one object: more than 2Mi (--managed-cluster-object-size)",
		"parts":           "parts of one object: more than 20000",
		"protobuf":        "something else than JSON",
		"yaml":            "something else than JSON",
		"text":            "the answer is 500 Internal Server Error",
		"status":          "token: <secret>",
		"protobuf-status": "not here",
	} {
		_, err := set.CoreV1().ConfigMaps("a").Get(t.Context(), name, metav1.GetOptions{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) || err != nil &&
			strings.Contains(fmt.Sprintf("%+v", err), "TOPSECRET") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestPortForwardHeader: opening a tunnel takes no more than a header of a reasonable size.
func TestPortForwardHeader(t *testing.T) {
	var sent atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		endless(conn, "HTTP/1.1 101 Switching Protocols\r\n", "X: "+strings.Repeat("x", 8<<10)+"\r\n", &sent)
	}))
	defer s.Close()
	config := configOf(s)
	config.WrapTransport = untrusted.Bounds{}.Wrap
	_, err := new(tunnels).forward(t.Context(), config, "p", 1)
	if err == nil || !strings.Contains(err.Error(), "more than 524288 bytes") {
		t.Error(err)
	}
	if n := sent.Load(); n > 64<<20 {
		t.Errorf("%d MiB of a header were taken", n>>20)
	}
}

// endless writes the same again and again, up to a GiB.
func endless(conn net.Conn, first, then string, sent *atomic.Int64) {
	_, err := io.WriteString(conn, first)
	for err == nil && sent.Load() < 1<<30 {
		_, err = io.WriteString(conn, then)
		sent.Add(int64(len(then)))
	}
}

// TestHostileWatch: events that are too large end the connection with a reason, and the next try comes later each time.
func TestHostileWatch(t *testing.T) {
	frame := func(raw []byte) []byte {
		e := &metav1.WatchEvent{Type: "ADDED"}
		e.Object.Raw = raw
		out, err := e.Marshal()
		must(t, err)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(out))), out...)
	}
	for _, test := range []struct {
		name, kind string
		event      []byte
		why        string
	}{
		{"a huge frame", untrusted.Protobuf + ";stream=watch", []byte{0x7f, 0xff, 0xff, 0xff}, "bytes in one object: more than 2Mi"},
		{"a huge event", "application/json", []byte(`{"type":"ADDED","object":{"kind":"Node","x":"` + strings.Repeat("x", 4<<20) + `"}}`),
			"bytes in one object: more than 2Mi"},
		{"many parts", "application/json", []byte(`{"type":"ADDED","object":{"kind":"Node","x":[` + strings.Repeat("{},", 1<<19) + `{}]}}`),
			"parts of one object"},
		{"another kind", untrusted.Protobuf + ";stream=watch", frame(unknown("Pod", nil)), `answered a Pod where a Node was asked for`},
		{"no name", untrusted.Protobuf + ";stream=watch", frame(unknown("Node", nil)), "a Node whose name is none"},
		{"nonsense", untrusted.Protobuf + ";stream=watch", frame([]byte("TOPSECRET")), "what is not in protobuf"},
		{"nonsense in JSON", "application/json", []byte(`TOPSECRET`), "what is not JSON"},
		{"more than is kept", "application/json", fatNodes(t), "bytes to keep of the cluster: more than 8Mi"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := hostile(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("watch") != "true" {
					emptyList(w, "Node")
					return
				}
				w.Header().Set("Content-Type", test.kind)
				_, _ = w.Write(test.event)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			helper := &server{Server: s}
			c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(helper.kubeconfig(t, s.URL, "first"))).Build(), quick)
			v, _ := await(t, c, 10*time.Second, "lost", func(v View) bool { return !v.Reachable && strings.Contains(v.Why, test.why) })
			if !strings.Contains(v.Why, "a watch of Nodes broke: ") || strings.Contains(v.Why, "TOPSECRET") {
				t.Errorf("%q", v.Why)
			}
		})
	}
}

// fatNodes are watch events in JSON of more Nodes than are kept.
func fatNodes(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	for i := range 20 {
		n := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
		n.Labels = map[string]string{"x": strings.Repeat("x", 1<<20)}
		must(t, json.NewEncoder(&out).Encode(map[string]any{"type": "ADDED", "object": n}))
	}
	return out.Bytes()
}

// TestPauseGrows: a server that misbehaves is tried less and less often, and one that is away as often as ever.
func TestPauseGrows(t *testing.T) {
	c := &connection{options: Options{}.withDefaults()}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if got := c.pause(fmt.Errorf("listing: %w", untrusted.Nonsense("x"))); got != want*time.Second {
			t.Errorf("%s, want %d s", got, want)
		}
	}
	for range 2 {
		if got := c.pause(io.EOF); got != c.options.Try {
			t.Errorf("%s after another error, want %s", got, c.options.Try)
		}
	}
	if got := c.pause(&untrusted.RedirectError{}); got != time.Second {
		t.Errorf("%s", got)
	}
}

// TestLargeClusterIsAdmitted: 5,000 Nodes as clouds make them, in pages and in one that ignores the limit, in protobuf and JSON.
func TestLargeClusterIsAdmitted(t *testing.T) {
	all := make([]corev1.Node, largeCluster)
	for i := range all {
		all[i] = *largeNode(i)
	}
	encoder := scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), corev1.SchemeGroupVersion)
	for _, size := range []int{pageSize, 2 * pageSize} {
		for _, kind := range []string{untrusted.Protobuf, untrusted.JSON} {
			s := hostile(t, func(w http.ResponseWriter, r *http.Request) {
				from := 0
				_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &from)
				list := &corev1.NodeList{Items: all[from:min(from+size, len(all))]}
				if list.ResourceVersion = "1"; from+size < len(all) {
					list.Continue = fmt.Sprint(from + size)
				}
				w.Header().Set("Content-Type", kind)
				if kind == untrusted.JSON {
					list.Kind, list.APIVersion = "NodeList", "v1"
					_ = json.NewEncoder(w).Encode(list)
					return
				}
				_ = encoder.Encode(list, w)
			})
			bounds := untrusted.Bounds{}.WithDefaults()
			server, err := newAPI(configOf(s), time.Hour, bounds, untrusted.NewMeter(bounds))
			must(t, err)
			defer server.close()
			b := newBook(bounds, func() {})
			b.nodes.own(Mine{})
			must(t, server.nodes(b).list(t.Context()))
			if len(b.nodes.items) != 3 || len(b.nodes.others) != largeCluster-3 {
				t.Errorf("%d and %d Nodes", len(b.nodes.items), len(b.nodes.others))
			}
			if b.nodes.bytes > bounds.Kept/4 {
				t.Errorf("%d bytes are kept, by the estimate", b.nodes.bytes)
			}
			got, want := b.nodes.items[all[0].Name], trimmedNode(&all[0])
			got.CreationTimestamp = want.CreationTimestamp // which is told to the second
			if !same(got, want) {
				t.Errorf("%d bytes\n%.300s\nare not\n%.300s", size, got, want)
			}
		}
	}
}
