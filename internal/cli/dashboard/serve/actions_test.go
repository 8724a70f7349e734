package serve

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/dashboard/actions"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
)

// doer offers all actions, and counts what is done.
type doer struct {
	mu    sync.Mutex
	did   []string
	lines []string
	// block, if there is one, holds what is done.
	block chan struct{}
	panic bool
}

func (d *doer) offer(key client.ObjectKey, of actions.Action) actions.Offer {
	return actions.Offer{Action: of, Command: of.Command(key, ""), Shown: []string{"of " + key.String(), "<b>line</b> \u202e two"},
		Writes: []actions.Write{{Object: "KubeadmControlPlane demo-cp", Patch: `{"a":"b"}`, Says: "it is done"}}}
}

func (d *doer) Offers(_ context.Context, key client.ObjectKey) (all []actions.Offer, left []actions.Left, err error) {
	for _, of := range actions.All() {
		all = append(all, d.offer(key, of))
	}
	return all, []actions.Left{{Title: "Replace", Commands: []actions.Command{{Text: "quorate replace", Machine: "demo-cp-1"}}}}, nil
}

func (d *doer) Replacement(_ context.Context, _ client.ObjectKey, machine string) (report.Plan, string, error) {
	if machine != "demo-cp-1" {
		return report.Plan{}, "", errors.New("token: abcdef.0123456789abcdef is refused")
	}
	return report.Plan{Group: "KubeadmControlPlane demo-cp"}, "quorate replace default/demo-cp-1", nil
}

func (d *doer) Look(_ context.Context, key client.ObjectKey, name actions.Name) (actions.Offer, error) {
	if key.Name == "nobody" {
		return actions.Offer{}, facts.ErrNoCluster
	}
	of, _ := actions.Of(string(name))
	return d.offer(key, of), nil
}

func (d *doer) Do(ctx context.Context, key client.ObjectKey, name actions.Name, shown []string) actions.Outcome {
	if d.block != nil {
		<-d.block
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.did, d.lines = append(d.did, string(name)+" "+key.String()), shown
	if d.panic {
		panic("while it was done")
	}
	if err := ctx.Err(); err != nil {
		return actions.Outcome{Failed: err.Error()}
	}
	return actions.Outcome{Done: []string{"it is done"}, Command: "quorate " + string(name)}
}

// acting is a server with actions, and what makes a request one of the browser that is signed in.
func acting(t *testing.T, d *doer) (*Handler, func(*http.Request)) {
	t.Helper()
	h, token := New(newRecords(1), d, host, "localhost:9090")
	in := answer(h, give(token, nil))
	if len(in.Cookies()) != 1 {
		t.Fatalf("the sign-in: %d", in.StatusCode)
	}
	return h, func(r *http.Request) { r.AddCookie(in.Cookies()[0]) }
}

// elements calls do with each element of a page.
func elements(t *testing.T, page string, do func(n *html.Node, attributes map[string]string)) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			all := map[string]string{}
			for _, a := range n.Attr {
				all[a.Key] = a.Val
			}
			do(n, all)
		}
	}
}

// form reads the form of a page, as a browser would send it once it is confirmed.
func form(t *testing.T, h *Handler, in func(*http.Request), path string) url.Values {
	t.Helper()
	got := answer(h, request("GET", path, in))
	page := text(t, got)
	if got.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %s", path, got.StatusCode, page)
	}
	fields := url.Values{}
	elements(t, page, func(n *html.Node, a map[string]string) {
		switch n.Data {
		case "form":
			if a["action"] != path || a["method"] != "post" {
				t.Errorf("the form goes to %s by %s", a["action"], a["method"])
			}
		case "input":
			fields.Set(a["name"], a["value"])
		}
	})
	return fields
}

// confirm is a form as a browser sends it.
func confirm(path string, fields url.Values, change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(fields.Encode()))
	r.Host = host
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://"+host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if change != nil {
		change(r)
	}
	return r
}

// TestAct: an action is done when its form is sent, with what its page showed, and once: a second copy of the form gets the outcome.
func TestAct(t *testing.T) {
	for _, of := range actions.All() {
		d := &doer{}
		h, in := acting(t, d)
		path := h.guard.base + "clusters/default/demo/actions/" + string(of.Name)
		fields := form(t, h, in, path)
		if len(d.did) != 0 {
			t.Fatalf("%s is done when it is shown", of.Name)
		}
		var outcomes []string
		for range 3 {
			got := answer(h, confirm(path, fields, in))
			if got.StatusCode != http.StatusSeeOther {
				t.Fatalf("%s: %d, %s", of.Name, got.StatusCode, text(t, got))
			}
			outcomes = append(outcomes, got.Header.Get("Location"))
		}
		if strings.Join(d.did, ",") != string(of.Name)+" default/demo" || len(d.lines) != 2 || d.lines[1] != "<b>line</b> \u202e two" {
			t.Errorf("%s: it did %v with %q", of.Name, d.did, d.lines)
		}
		if outcomes[0] != outcomes[2] {
			t.Errorf("%s leads to %v", of.Name, outcomes)
		}
		for range 2 {
			got := answer(h, request("GET", outcomes[0], in))
			if page := text(t, got); !strings.Contains(page, "it is done") || !strings.Contains(page, "quorate "+string(of.Name)) {
				t.Errorf("%s: %d, %s", of.Name, got.StatusCode, page)
			}
		}
		if len(d.did) != 1 {
			t.Errorf("%s was done %d times", of.Name, len(d.did))
		}
	}
}

// TestTwice: of two forms that are sent in the same moment one does something, and a browser that does not wait ends nothing.
func TestTwice(t *testing.T) {
	d := &doer{block: make(chan struct{})}
	h, in := acting(t, d)
	path := h.guard.base + "clusters/default/demo/actions/pause"
	fields := form(t, h, in, path)
	gone, cancel := context.WithCancel(t.Context())
	codes := make(chan int, 2)
	go func() {
		codes <- answer(h, confirm(path, fields, in).WithContext(gone)).StatusCode
	}()
	for h.forms.find(fields.Get("form"), "pause default/demo") == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	go func() { codes <- answer(h, confirm(path, fields, in)).StatusCode }()
	if code := <-codes; code != http.StatusSeeOther {
		t.Errorf("the second form: %d", code)
	}
	close(d.block)
	if code := <-codes; code != http.StatusSeeOther {
		t.Errorf("the first form: %d", code)
	}
	page := text(t, answer(h, request("GET", path+"?sent="+fields.Get("form"), in)))
	if len(d.did) != 1 || !strings.Contains(page, "it is done") {
		t.Errorf("it did %v, and says %s", d.did, page)
	}
}

// TestActAttacks: each is refused, and nothing is done.
func TestActAttacks(t *testing.T) {
	d := &doer{}
	h, in := acting(t, d)
	base := h.guard.base + "clusters/default/demo/actions/"
	path := base + "approve"
	h2, in2 := acting(t, d)
	theirs := form(t, h2, in2, h2.guard.base+"clusters/default/demo/actions/approve")
	with := func(change func(url.Values)) url.Values {
		fields := form(t, h, in, path)
		change(fields)
		return fields
	}
	keep := func(url.Values) {}
	head := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			in(r)
			r.Header.Set(name, value)
		}
	}
	for _, test := range []struct {
		name   string
		path   string
		fields url.Values
		change func(*http.Request)
		want   int
	}{
		{"no session", path, with(keep), nil, http.StatusUnauthorized},
		{"another session's cookie", path, with(keep), func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: cookieName, Value: strings.Repeat("A", 52)})
		}, http.StatusUnauthorized},
		{"a form of another session", path, theirs, in, http.StatusForbidden},
		{"no origin", path, with(keep), func(r *http.Request) { in(r); r.Header.Del("Origin") }, http.StatusForbidden},
		{"another origin", path, with(keep), head("Origin", "http://evil.example"), http.StatusForbidden},
		{"an opaque origin", path, with(keep), head("Origin", "null"), http.StatusForbidden},
		{"the origin of another port", path, with(keep), head("Origin", "http://127.0.0.1:9091"), http.StatusForbidden},
		{"cross-site", path, with(keep), head("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		{"another port", path, with(keep), head("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		{"rebinding", path, with(keep), func(r *http.Request) {
			in(r)
			r.Host = "evil.example:9090"
			r.Header.Set("Origin", "http://evil.example:9090")
		}, http.StatusMisdirectedRequest},
		{"no proof", path, with(func(v url.Values) { v.Del("proof") }), in, http.StatusForbidden},
		{"another proof", path, with(func(v url.Values) { v.Set("proof", v.Get("proof")+"A") }), in, http.StatusForbidden},
		{"no fields", path, url.Values{"confirm": {"yes"}}, in, http.StatusForbidden},
		{"another form's ID", path, with(func(v url.Values) { v.Set("form", theirs.Get("form")) }), in, http.StatusForbidden},
		{"another time", path, with(func(v url.Values) { v.Set("issued", "9999999999") }), in, http.StatusForbidden},
		{"something else was shown", path, with(func(v url.Values) { v.Set("shown", theirs.Get("shown")+"AA") }), in, http.StatusForbidden},
		{"the form of another action", base + "rollback", with(keep), in, http.StatusForbidden},
		{"the form of another cluster", h.guard.base + "clusters/default/other/actions/approve", with(keep), in, http.StatusForbidden},
		{"the form of another namespace", h.guard.base + "clusters/prod/demo/actions/approve", with(keep), in, http.StatusForbidden},
		{"not confirmed", path, with(func(v url.Values) { v.Del("confirm") }), in, http.StatusBadRequest},
		{"in the address", path + "?" + with(keep).Encode(), nil, in, http.StatusForbidden},
		{"as another type", path, with(keep), head("Content-Type", "text/plain"), http.StatusForbidden},
		{"too large", path, with(func(v url.Values) { v.Set("more", strings.Repeat("x", mostAction)) }), in,
			http.StatusRequestEntityTooLarge},
		{"no such action", base + "delete", with(keep), in, http.StatusNotFound},
		{"a name that is none", h.guard.base + "clusters/default/..%2fx/actions/approve", with(keep), in, http.StatusNotFound},
		{"the list", h.guard.base + "clusters/default/demo/actions", with(keep), in, http.StatusMethodNotAllowed},
	} {
		got := answer(h, confirm(test.path, test.fields, test.change))
		if got.StatusCode != test.want || len(d.did) != 0 {
			t.Errorf("%s: %d, want %d; it did %v", test.name, got.StatusCode, test.want, d.did)
		}
		protected(t, test.name, got.Header)
		d.did = nil
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		r := confirm(path, with(keep), in)
		r.Method = method
		if got := answer(h, r); len(d.did) != 0 || method != "GET" && method != "HEAD" && got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d; it did %v", method, got.StatusCode, d.did)
		}
		r = request(method, path+"?"+with(keep).Encode(), in)
		if answer(h, r); len(d.did) != 0 {
			t.Errorf("%s of an address with a form did %v", method, d.did)
		}
	}
	if got := answer(h, confirm(path, with(keep), in)); got.StatusCode != http.StatusSeeOther || len(d.did) != 1 {
		t.Errorf("a form that is as it should be: %d", got.StatusCode)
	}
}

// TestForms: a form counts for some minutes, and what came of it is kept as long as it could be sent again.
func TestForms(t *testing.T) {
	f, now := newForms(), time.Unix(1_700_000_000, 0)
	made, err := f.issue("session", "pause default/demo", []string{"a", "b"}, now)
	if err != nil {
		t.Fatal(err)
	}
	sent := url.Values{"form": {made.ID}, "issued": {made.Issued}, "shown": {made.Shown}, "proof": {made.Proof}}
	if lines, id, err := f.check("session", "pause default/demo", sent, now.Add(formLife)); err != nil || id != made.ID || len(lines) != 2 {
		t.Errorf("in time: %v, %v", lines, err)
	}
	if _, _, err := f.check("session", "pause default/demo", sent, now.Add(formLife+time.Second)); err == nil {
		t.Error("a form that is too old counts")
	}
	if _, _, err := f.check("another", "pause default/demo", sent, now); err == nil {
		t.Error("a form of another session counts")
	}
	if _, _, err := newForms().check("session", "pause default/demo", sent, now); err == nil {
		t.Error("a form of another server counts")
	}
	if _, first := f.begin(made.ID, "pause default/demo", now); !first {
		t.Error("it was not the first")
	}
	if _, first := f.begin(made.ID, "pause default/demo", now.Add(2*formLife)); first {
		t.Error("the form counts twice")
	}
	if f.find(made.ID, "pause default/other") != nil {
		t.Error("what came of the form is shown for another cluster")
	}
	if f.begin("another", "", now.Add(3*formLife)); len(f.runs) != 1 {
		t.Errorf("%d runs are kept", len(f.runs))
	}
}

// TestPanic: the outcome of an action that ended badly is no success, and no request waits for it.
func TestPanic(t *testing.T) {
	d := &doer{panic: true}
	h, in := acting(t, d)
	path := h.guard.base + "clusters/default/demo/actions/pause"
	fields := form(t, h, in, path)
	func() {
		defer func() { _ = recover() }()
		answer(h, confirm(path, fields, in))
	}()
	if page := text(t, answer(h, request("GET", path+"?sent="+fields.Get("form"), in))); !strings.Contains(page, "ended before it was done") {
		t.Error(page)
	}
}

// TestReadOnly: without an actor nothing is offered, and no address does something.
func TestReadOnly(t *testing.T) {
	h, in := signedIn(t, newRecords(1))
	cluster := h.guard.base + "clusters/default/" + h.source.(*records).all[0].Key.Name
	if page := text(t, answer(h, request("GET", cluster, in))); strings.Contains(page, "/actions") {
		t.Error("the page of a cluster has actions")
	}
	for _, path := range []string{"/actions", "/actions/approve"} {
		if got := answer(h, request("GET", cluster+path, in)); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	if got := answer(h, confirm(cluster+"/actions/approve", url.Values{"confirm": {"yes"}}, in)); got.StatusCode != http.StatusNotFound {
		t.Errorf("a form: %d", got.StatusCode)
	}
}

// TestActionPages: the pages of actions need no script and no mouse: what does something is a link or a button with a text, in a form, and
// each field has a label. A page with a secret is not compressed, and none asks again by itself.
func TestActionPages(t *testing.T) {
	d := &doer{}
	h, in := acting(t, d)
	cluster := h.guard.base + "clusters/default/" + h.source.(*records).all[0].Key.Name
	if page := text(t, answer(h, request("GET", cluster, in))); !strings.Contains(page, `href="`+cluster+`/actions"`) {
		t.Error("the page of a cluster does not lead to its actions")
	}
	zip := func(r *http.Request) {
		in(r)
		r.Header.Set("Accept-Encoding", "gzip")
	}
	if got := answer(h, request("GET", cluster+"/actions/pause", zip)); got.Header.Get("Content-Encoding") != "" {
		t.Error("a page with the proof of a form is compressed")
	}
	list := text(t, answer(h, request("GET", cluster+"/actions", in)))
	for _, of := range actions.All() {
		path := cluster + "/actions/" + string(of.Name)
		if !strings.Contains(list, `href="`+path+`"`) {
			t.Errorf("the list does not lead to %s", of.Name)
		}
		page := text(t, answer(h, request("GET", path, in)))
		if !strings.Contains(page, "quorate ") || !strings.Contains(page, `data-every="0"`) || strings.Contains(page, "http-equiv") {
			t.Errorf("%s: %s", of.Name, page)
		}
		labels, buttons := map[string]bool{}, 0
		elements(t, page, func(n *html.Node, a map[string]string) {
			switch {
			case n.Data == "label":
				labels[a["for"]] = true
			case n.Data == "button":
				if buttons++; n.FirstChild == nil || n.FirstChild.Data != of.Button || n.Parent.Parent.Data != "form" || a["tabindex"] != "" {
					t.Errorf("%s: a button has no text, or is in no form", of.Name)
				}
			case n.Data == "input" && a["type"] != "hidden" && !labels[a["id"]]:
				t.Errorf("%s: the field %s has no label", of.Name, a["name"])
			case a["tabindex"] != "" && a["tabindex"] != "0" && a["id"] != "main":
				t.Errorf("%s: <%s> is not in the order of the page", of.Name, n.Data)
			case a["onclick"] != "" || a["style"] != "":
				t.Errorf("%s: <%s> has a script or a style", of.Name, n.Data)
			}
		})
		if buttons != 1 || !labels["confirm"] {
			t.Errorf("%s: there are %d buttons and the labels %v", of.Name, buttons, labels)
		}
	}
	if !strings.Contains(list, `href="`+cluster+`/actions/replace/demo-cp-1"`) {
		t.Error("the list does not lead to the plan of a replacement")
	}
	page := text(t, answer(h, request("GET", cluster+"/actions/replace/demo-cp-1", in)))
	if !strings.Contains(page, "quorate replace default/demo-cp-1") || !strings.Contains(page, "KubeadmControlPlane demo-cp") ||
		strings.Contains(page, "<form") {
		t.Errorf("the plan of a replacement: %s", page)
	}
	page = text(t, answer(h, request("GET", cluster+"/actions/replace/other", in)))
	if !strings.Contains(page, "There is no plan") || strings.Contains(page, "0123456789abcdef") {
		t.Errorf("a replacement without a plan: %s", page)
	}
	if got := answer(h, request("POST", cluster+"/actions/replace/demo-cp-1", func(r *http.Request) {
		in(r)
		r.Header.Set("Origin", "http://"+host)
	})); got.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a replacement that is sent: %d", got.StatusCode)
	}
	if got := answer(h, request("GET", h.guard.base+"clusters/default/nobody/actions/pause", in)); got.StatusCode != http.StatusNotFound {
		t.Errorf("of no cluster: %d", got.StatusCode)
	}
}
