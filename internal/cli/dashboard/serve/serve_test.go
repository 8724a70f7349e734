package serve

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard/pages"
	"github.com/quorate/quorate/internal/cli/dashboard/recorded"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
)

// records are a Source of recordings.
type records struct {
	all []recorded.Recording
	err error
	// asked counts the requests that reached the source.
	asked int
	// wanted is the change that was planned last.
	wanted command.SpecChange
}

func newRecords(n int) *records {
	s := &records{}
	recorded.Lives(1, n, func(r recorded.Recording) { s.all = append(s.all, r) })
	return s
}

func (s *records) find(key client.ObjectKey) (recorded.Recording, error) {
	s.asked++
	for _, r := range s.all {
		if r.Key == key {
			return r, s.err
		}
	}
	return recorded.Recording{}, facts.ErrNoCluster
}

func (s *records) Fleet(context.Context) ([]pages.Row, error) {
	s.asked++
	var rows []pages.Row
	for _, r := range s.all {
		rows = append(rows, pages.Row{Cluster: r.Cluster, Looked: time.Now()})
	}
	return rows, s.err
}

func (s *records) Cluster(_ context.Context, key client.ObjectKey) (report.Cluster, []report.History, time.Time, error) {
	r, err := s.find(key)
	return r.Cluster, []report.History{r.History}, time.Now(), err
}

func (s *records) Explain(_ context.Context, key client.ObjectKey, _ bool) (report.Explanation, error) {
	r, err := s.find(key)
	return r.Explanation, err
}

func (s *records) Plans(_ context.Context, key client.ObjectKey) ([]report.Plan, error) {
	r, err := s.find(key)
	return r.Plans, err
}

func (s *records) Planned(_ context.Context, key client.ObjectKey, wanted command.SpecChange) ([]report.Plan, error) {
	s.wanted = wanted
	r, err := s.find(key)
	return r.Plans, err
}

func (s *records) History(_ context.Context, key client.ObjectKey, _ bool) (report.History, error) {
	r, err := s.find(key)
	return r.History, err
}

func (s *records) HasEtcd(_ context.Context, key client.ObjectKey) (bool, error) {
	r, err := s.find(key)
	return len(r.Cluster.EtcdClusters) > 0, err
}

const host = "127.0.0.1:9090"

// request is one of a browser that shows the pages of the server.
func request(method, path string, change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	if change != nil {
		change(r)
	}
	return r
}

func answer(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, of *http.Response) string {
	t.Helper()
	raw, err := io.ReadAll(of.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// give is the form of the sign-in, as a browser sends it.
func give(token string, change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/session", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Host = host
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://"+host)
	if change != nil {
		change(r)
	}
	return r
}

// signedIn is a server, and what makes a request one of the browser that is signed in.
func signedIn(t *testing.T, source *records) (*Handler, func(*http.Request)) {
	t.Helper()
	h, token := New(source, nil, host, "localhost:9090")
	in := answer(h, give(token, nil))
	cookies := in.Cookies()
	if in.StatusCode != http.StatusSeeOther || len(cookies) != 1 || in.Header.Get("Location") != h.guard.base {
		t.Fatalf("the sign-in answers %d, %v", in.StatusCode, in.Header)
	}
	return h, func(r *http.Request) { r.AddCookie(cookies[0]) }
}

// TestSession: the token lets in one browser, once, and its cookie goes nowhere else.
func TestSession(t *testing.T) {
	h, token := New(newRecords(1), nil, host)
	if wrong := answer(h, give(token+"x", nil)); wrong.StatusCode != http.StatusForbidden || len(wrong.Cookies()) != 0 {
		t.Errorf("another token: %d", wrong.StatusCode)
	}
	if empty := answer(h, give("", nil)); empty.StatusCode != http.StatusForbidden {
		t.Errorf("no token: %d", empty.StatusCode)
	}
	for _, origin := range []string{"", "null", "http://evil.example"} {
		got := answer(h, give(token, func(r *http.Request) {
			r.Header.Del("Origin")
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
		}))
		if got.StatusCode != http.StatusForbidden || len(got.Cookies()) != 0 {
			t.Errorf("the token from the origin %q: %d", origin, got.StatusCode)
		}
	}
	in := answer(h, give(token, nil))
	if len(in.Cookies()) != 1 {
		t.Fatalf("the token: %d", in.StatusCode)
	}
	c := in.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != h.guard.base || len(c.Path) < 20 || len(c.Value) < 40 ||
		c.Domain != "" {
		t.Errorf("the cookie is %+v", c)
	}
	if again := answer(h, give(token, nil)); again.StatusCode != http.StatusForbidden || len(again.Cookies()) != 0 {
		t.Errorf("the token once more: %d", again.StatusCode)
	}
	large := give(strings.Repeat("x", mostForm), nil)
	if got := answer(h, large); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a large form: %d", got.StatusCode)
	}
}

// TestAttacks: each is refused before anything is read.
func TestAttacks(t *testing.T) {
	source := newRecords(1)
	h, in := signedIn(t, source)
	base, cluster := h.guard.base, h.guard.base+"clusters/default/"+source.all[0].Key.Name
	from := func(site, mode, dest string) func(*http.Request) {
		return func(r *http.Request) {
			in(r)
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Sec-Fetch-Mode", mode)
			r.Header.Set("Sec-Fetch-Dest", dest)
		}
	}
	head := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			in(r)
			r.Header.Set(name, value)
		}
	}
	at := func(name string) func(*http.Request) {
		return func(r *http.Request) {
			in(r)
			r.Host = name
		}
	}
	for _, test := range []struct {
		name, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"no session", "GET", base, nil, http.StatusUnauthorized},
		{"no session, data", "GET", base + "status.json", nil, http.StatusUnauthorized},
		{"no session, a cluster", "GET", cluster, nil, http.StatusUnauthorized},
		{"another session", "GET", base, func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: cookieName, Value: strings.Repeat("A", 52)})
		}, http.StatusUnauthorized},
		{"an empty session", "GET", base, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName}) }, http.StatusUnauthorized},
		{"rebinding", "GET", base, at("evil.example:9090"), http.StatusMisdirectedRequest},
		{"rebinding, another port", "GET", base, at("127.0.0.1:80"), http.StatusMisdirectedRequest},
		{"rebinding, no host", "GET", base, at(""), http.StatusMisdirectedRequest},
		{"rebinding, the sign-in", "GET", "/", at("evil.example"), http.StatusMisdirectedRequest},
		{"rebinding, a longer name", "GET", base, at(host + ".evil.example"), http.StatusMisdirectedRequest},
		{"another origin", "GET", base, head("Origin", "http://evil.example"), http.StatusForbidden},
		{"an opaque origin", "GET", base, head("Origin", "null"), http.StatusForbidden},
		{"the origin of another port", "GET", base, head("Origin", "http://127.0.0.1:9091"), http.StatusForbidden},
		{"the origin over TLS", "GET", base, head("Origin", "https://"+host), http.StatusForbidden},
		{"a fetch of another site", "GET", base, from("cross-site", "cors", "empty"), http.StatusForbidden},
		{"a fetch of another port", "GET", base, from("same-site", "cors", "empty"), http.StatusForbidden},
		{"a script of another site", "GET", "/assets/app.js", from("cross-site", "no-cors", "script"), http.StatusForbidden},
		{"a frame of another site", "GET", "/", from("cross-site", "navigate", "iframe"), http.StatusForbidden},
		{"a link of another site to a page", "GET", base, from("cross-site", "navigate", "document"), http.StatusForbidden},
		{"POST", "POST", base, head("Origin", "http://"+host), http.StatusMethodNotAllowed},
		{"POST without an origin", "POST", "/session", in, http.StatusForbidden},
		{"PUT", "PUT", base, in, http.StatusMethodNotAllowed},
		{"DELETE", "DELETE", cluster, in, http.StatusMethodNotAllowed},
		{"OPTIONS", "OPTIONS", base, in, http.StatusMethodNotAllowed},
		{"TRACE", "TRACE", base, in, http.StatusMethodNotAllowed},
		{"GET of the session", "GET", "/session", in, http.StatusMethodNotAllowed},
		{"a path outside", "GET", "/assets/..%2fpages.go", in, http.StatusNotFound},
		{"a file that is none", "GET", "/assets/none", in, http.StatusNotFound},
		{"a name that is none", "GET", base + "clusters/default/..%2f..%2fsecrets", in, http.StatusNotFound},
		{"a name with a query", "GET", base + "clusters/default/a%3flimit=1", in, http.StatusNotFound},
		{"a guessed folder", "GET", "/base/", in, http.StatusNotFound},
	} {
		source.asked = 0
		got := answer(h, request(test.method, test.path, test.change))
		if got.StatusCode != test.want || source.asked != 0 {
			t.Errorf("%s: %d, want %d; the source was asked %d times", test.name, got.StatusCode, test.want, source.asked)
		}
		protected(t, test.name, got.Header)
		if body := text(t, got); strings.Contains(body, source.all[0].Cluster.Endpoint) {
			t.Errorf("%s: the answer shows a cluster", test.name)
		}
	}
	if got := answer(h, request("GET", base, from("none", "navigate", "document"))); got.StatusCode != http.StatusOK {
		t.Errorf("an address that was typed in: %d", got.StatusCode)
	}
	if got := answer(h, request("GET", base, at("localhost:9090"))); got.StatusCode != http.StatusOK {
		t.Errorf("by the name localhost: %d", got.StatusCode)
	}
	if got := answer(h, request("GET", "/", from("cross-site", "navigate", "document"))); got.StatusCode != http.StatusOK {
		t.Errorf("a link to the sign-in: %d", got.StatusCode)
	}
}

// protected: each answer has what keeps browsers from framing it, guessing its type, keeping it or running what stands in it.
func protected(t *testing.T, name string, h http.Header) {
	t.Helper()
	csp := h.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "script-src 'self';",
	} {
		if !strings.Contains(csp, want) {
			t.Errorf("%s: the policy %q lacks %s", name, csp, want)
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || strings.Contains(csp, "data:") {
		t.Errorf("%s: the policy is %q", name, csp)
	}
	for header, want := range map[string]string{
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if h.Get(header) != want {
			t.Errorf("%s: %s is %q, want %q", name, header, h.Get(header), want)
		}
	}
	for header := range h {
		if strings.HasPrefix(header, "Access-Control-") {
			t.Errorf("%s: %s lets other sites read", name, header)
		}
	}
}

// TestData: what the server says as data is what the commands print of the same recording.
func TestData(t *testing.T) {
	source := newRecords(25)
	h, in := signedIn(t, source)
	for _, r := range source.all {
		explained := r.Explanation
		explained.Observed = nil
		for view, v := range map[string]any{
			pages.ViewStatus: r.Cluster, pages.ViewRules: explained, pages.ViewPlan: r.Plans, pages.ViewHistory: r.History,
		} {
			var printed strings.Builder
			i := &command.Invocation{Streams: command.Streams{Out: &printed}}
			if err := i.Data("json", v); err != nil {
				t.Fatal(err)
			}
			got := answer(h, request("GET", h.guard.base+"clusters/default/"+r.Key.Name+"/"+view+".json", in))
			body := text(t, got)
			if got.StatusCode != http.StatusOK || body != printed.String() || !json.Valid([]byte(body)) {
				t.Errorf("%s of %s: %d\n%s\nwant\n%s", view, r.Key.Name, got.StatusCode, body, printed.String())
			}
			page := request("GET", h.guard.base+"clusters/default/"+r.Key.Name+"/"+view, in)
			if view == pages.ViewStatus {
				page = request("GET", h.guard.base+"clusters/default/"+r.Key.Name, in)
			}
			if got := answer(h, page); got.StatusCode != http.StatusOK || !strings.Contains(text(t, got), "<h1>") {
				t.Errorf("the page of %s: %d", view, got.StatusCode)
			}
		}
	}
	all := answer(h, request("GET", h.guard.base+"status.json", in))
	var clusters []report.Cluster
	if err := json.Unmarshal([]byte(text(t, all)), &clusters); err != nil || len(clusters) != 25 {
		t.Errorf("%d clusters, %v", len(clusters), err)
	}
}

// TestParts: an open page gets what changes only, compressed where it can be, and learns why there is nothing.
func TestParts(t *testing.T) {
	source := newRecords(3)
	h, in := signedIn(t, source)
	part := func(r *http.Request) {
		in(r)
		r.Header.Set("Quorate-Part", "1")
		r.Header.Set("Accept-Encoding", "gzip, br")
	}
	body := func(path string) (string, int) {
		got := answer(h, request("GET", path, part))
		z, err := gzip.NewReader(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), got.StatusCode
	}
	for _, path := range []string{h.guard.base, h.guard.base + "?q=life", h.guard.base + "clusters/default/" + source.all[0].Key.Name} {
		page, code := body(path)
		if code != http.StatusOK || !strings.HasPrefix(page, `<main id="main"`) || strings.Contains(page, "<script") {
			t.Errorf("%s: %d, %.200s", path, code, page)
		}
	}
	page, code := body(h.guard.base + "clusters/default/nobody")
	if code != http.StatusNotFound || !strings.Contains(page, "no such cluster") {
		t.Errorf("of no cluster: %d, %s", code, page)
	}
	source.err = errors.New("dial tcp <b>refused</b>")
	for _, path := range []string{
		h.guard.base, h.guard.base + "status.json", h.guard.base + "clusters/default/" + source.all[0].Key.Name + "/plan",
	} {
		page, code := body(path)
		if code != http.StatusBadGateway || !strings.Contains(page, "dial tcp &lt;b&gt;refused") {
			t.Errorf("%s without an answer: %d, %s", path, code, page)
		}
	}
}

// TestTooMany: requests that come while as many are answered as may be are refused, and not kept.
func TestTooMany(t *testing.T) {
	h, in := signedIn(t, newRecords(1))
	for range atOnce {
		h.turns <- struct{}{}
	}
	if got := answer(h, request("GET", h.guard.base, in)); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", got.StatusCode)
	}
	<-h.turns
	if got := answer(h, request("GET", h.guard.base, in)); got.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d", got.StatusCode)
	}
}

// TestPublic: without a session there are the sign-in, style and scripts, and nothing else.
func TestPublic(t *testing.T) {
	h, _ := New(newRecords(1), nil, host)
	for path, kind := range map[string]string{
		"/": "text/html", "/assets/app.css": "text/css", "/assets/app.js": "text/javascript", "/assets/signin.js": "text/javascript",
		"/assets/icon.svg": "image/svg+xml",
	} {
		got := answer(h, request("GET", path, nil))
		if got.StatusCode != http.StatusOK || !strings.HasPrefix(got.Header.Get("Content-Type"), kind) || got.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, %v", path, got.StatusCode, got.Header)
		}
		if body := text(t, got); strings.Contains(body, h.guard.base) {
			t.Errorf("%s says where the pages are", path)
		}
	}
}

// TestChange: a change is typed in, is planned, and stands in the address; what cannot be read is refused by name before anything is asked.
func TestChange(t *testing.T) {
	source := newRecords(1)
	h, in := signedIn(t, source)
	key := source.all[0].Key
	get := func(query string) (int, string) {
		source.asked, source.wanted = 0, command.SpecChange{}
		got := answer(h, request(http.MethodGet, h.guard.base+"clusters/"+key.String()+"/plan/change"+query, in))
		return got.StatusCode, text(t, got)
	}
	if code, page := get(""); code != http.StatusOK || source.asked != 0 || !strings.Contains(page, `<label for="version">`) ||
		strings.Contains(page, "The same as") && strings.Contains(page, "--") {
		t.Errorf("the form answers %d after %d questions:\n%s", code, source.asked, page)
	}
	code, page := get("?version=1.37.2&replicas=5&inPlace=Only")
	if want := (command.SpecChange{Version: "1.37.2", Replicas: 5, InPlace: "Only"}); code != http.StatusOK || source.wanted != want {
		t.Errorf("it answers %d, and %+v was planned", code, source.wanted)
	}
	for _, want := range []string{"quorate plan " + key.String() + " --kubernetes-version v1.37.2 --replicas 5 --in-place=Only</code>",
		`value="1.37.2"`, `value="5"`, "<option selected>Only</option>", "What becomes of each machine",
		"/plan/change.json?version=1.37.2&amp;replicas=5&amp;inPlace=Only"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for query, want := range map[string]string{
		"version=latest":       "invalid version &#34;latest&#34;: must be like v1.37.2",
		"version=v1.37.2%00":   "invalid version",
		"replicas=0":           "invalid replicas &#34;0&#34;: must be from 1 to 99",
		"replicas=x":           "invalid replicas",
		"replicas=99999999999": "invalid replicas",
		"inPlace=Sometimes":    "must be one of Never, Preferred, Only, External",
	} {
		if code, page := get("?" + query); code != http.StatusBadRequest || source.asked != 0 || !strings.Contains(page, want) {
			t.Errorf("%s: %d after %d questions:\n%s", query, code, source.asked, page)
		}
	}
	source.err = errors.New("spec.version: is refused")
	if code, page := get("?version=v1.99.0"); code != http.StatusBadRequest || !strings.Contains(page, "spec.version: is refused") {
		t.Errorf("refused by the API server: %d\n%s", code, page)
	}
	source.err = nil
	var plans []report.Plan
	got := answer(h, request(http.MethodGet, h.guard.base+"clusters/"+key.String()+"/plan/change.json?replicas=5", in))
	if err := json.Unmarshal([]byte(text(t, got)), &plans); err != nil || len(plans) != len(source.all[0].Plans) ||
		source.wanted.Replicas != 5 {
		t.Errorf("as JSON: %d plans of %+v, %v", len(plans), source.wanted, err)
	}
	if got := answer(h, request(http.MethodGet, h.guard.base+"clusters/default/none/plan/change?replicas=5", in)); got.StatusCode !=
		http.StatusNotFound {
		t.Errorf("of no cluster: %d", got.StatusCode)
	}
}
