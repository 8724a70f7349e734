// Package serve answers a browser: it lets in who has the one-time token, refuses what other sites and hosts send, and writes the pages of
// package pages from what a Source reads. It has no client. What a person confirms on a page it hands to an Actor.
package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard/pages"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// Source reads what the pages show.
type Source interface {
	// Fleet returns all clusters. It waits for none of them.
	Fleet(context.Context) ([]pages.Row, error)
	// Cluster returns one cluster, what was done to its groups, and when it was looked at.
	Cluster(context.Context, client.ObjectKey) (report.Cluster, []report.History, time.Time, error)
	// Explain, Plans and History return what the commands do. etcd: of the cluster's EtcdCluster.
	Explain(ctx context.Context, key client.ObjectKey, etcd bool) (report.Explanation, error)
	Plans(context.Context, client.ObjectKey) ([]report.Plan, error)
	// Planned returns what a change of the control plane's spec would do. Nothing is written.
	Planned(ctx context.Context, key client.ObjectKey, wanted command.SpecChange) ([]report.Plan, error)
	History(ctx context.Context, key client.ObjectKey, etcd bool) (report.History, error)
	// HasEtcd reports whether the cluster has an EtcdCluster.
	HasEtcd(context.Context, client.ObjectKey) (bool, error)
}

const (
	// assets is the folder of style and scripts, which need no session: they are in every copy of the program.
	assets = "/assets/"
	// fleetEvery and lookEvery are how often an open page asks again, and rulesEvery that of pages whose making asks more.
	fleetEvery = 1500 * time.Millisecond
	lookEvery  = time.Second
	rulesEvery = 3 * time.Second
	// answerTimeout is how long one answer may take. It is longer than a look at a cluster that does not answer.
	answerTimeout = 25 * time.Second
	// atOnce is how many requests are answered at the same time.
	atOnce = 64
)

// Handler answers a browser.
type Handler struct {
	source Source
	// actor does what pages offer; nil: they offer nothing.
	actor   Actor
	forms   *forms
	guard   *guard
	turns   chan struct{}
	private *http.ServeMux
	public  *http.ServeMux
}

// New returns what answers at the hosts (HOST:PORT) that are given, and the one-time token that lets one browser in. Without an actor the
// pages offer no action.
func New(source Source, actor Actor, hosts ...string) (h *Handler, token string) {
	g, token := newGuard(hosts)
	h = &Handler{
		source: source, actor: actor, forms: newForms(), guard: g, turns: make(chan struct{}, atOnce),
		private: http.NewServeMux(), public: http.NewServeMux(),
	}
	h.public.HandleFunc("GET /{$}", h.signIn)
	h.public.HandleFunc("POST /session", h.session)
	h.public.HandleFunc("GET "+assets+"{name}", h.asset)
	base := g.base
	h.private.HandleFunc("GET "+base+"{$}", h.fleet)
	h.private.HandleFunc("GET "+base+"status.json", h.fleetData)
	h.private.HandleFunc("GET "+base+"clusters/{namespace}/{name}", h.view(pages.ViewStatus))
	for _, view := range []string{pages.ViewRules, pages.ViewPlan, pages.ViewHistory} {
		h.private.HandleFunc("GET "+base+"clusters/{namespace}/{name}/"+view, h.view(view))
	}
	for _, view := range []string{pages.ViewStatus, pages.ViewRules, pages.ViewPlan, pages.ViewHistory} {
		h.private.HandleFunc("GET "+base+"clusters/{namespace}/{name}/"+view+".json", h.data(view))
	}
	h.private.HandleFunc("GET "+base+"clusters/{namespace}/{name}/plan/change", h.change)
	h.private.HandleFunc("GET "+base+"clusters/{namespace}/{name}/plan/change.json", h.changeData)
	if actor != nil {
		h.offer(base)
	}
	return h, token
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if code, why := h.guard.refuses(r); code != 0 {
		http.Error(w, why, code)
		return
	}
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	default:
		http.Error(w, "too many requests at the same time", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	if !strings.HasPrefix(r.URL.Path, h.guard.base) {
		h.public.ServeHTTP(w, r)
		return
	}
	if !h.guard.knows(r) {
		h.write(w, r, http.StatusUnauthorized, func(to io.Writer) error {
			return pages.SignIn(to, h.frame(r), "There is no session, or it has ended. Run `quorate dashboard` again.")
		})
		return
	}
	h.private.ServeHTTP(w, r)
}

// frame is what stands around a page.
func (h *Handler) frame(r *http.Request) pages.Frame {
	return pages.Frame{
		Base: h.guard.base, Assets: assets, Part: r.Header.Get("Quorate-Part") != "", Now: time.Now(), Acts: h.actor != nil,
	}
}

// signIn shows where the token is given.
func (h *Handler) signIn(w http.ResponseWriter, r *http.Request) {
	h.write(w, r, http.StatusOK, func(to io.Writer) error { return pages.SignIn(to, h.frame(r), "") })
}

// mostForm is the largest form that is read, in bytes.
const mostForm = 4 << 10

// session begins the session of the browser that has the token.
func (h *Handler) session(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read", http.StatusBadRequest)
		return
	}
	cookie := h.guard.begin(r.PostForm.Get("token"))
	if cookie == nil {
		h.write(w, r, http.StatusForbidden, func(to io.Writer) error {
			return pages.SignIn(to, h.frame(r), "This token is not valid, or was used already: it lets in one browser, once. "+
				"Run `quorate dashboard` again for another.")
		})
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, h.guard.base, http.StatusSeeOther)
}

// asset serves style and scripts.
func (h *Handler) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, err := fs.ReadFile(pages.Assets(), name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	kinds := map[string]string{".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
	w.Header().Set("Content-Type", kinds[path.Ext(name)]+"; charset=utf-8")
	send(w, r, http.StatusOK, content)
}

func (h *Handler) fleet(w http.ResponseWriter, r *http.Request) {
	f := h.frame(r)
	f.Every = fleetEvery
	rows, err := h.source.Fleet(r.Context())
	if err != nil {
		h.fail(w, r, f, err)
		return
	}
	f.Looked, f.Now = time.Now(), time.Now()
	h.write(w, r, http.StatusOK, func(to io.Writer) error { return pages.Fleet(to, f, r.URL.Query().Get("q"), rows) })
}

func (h *Handler) fleetData(w http.ResponseWriter, r *http.Request) {
	rows, err := h.source.Fleet(r.Context())
	if err != nil {
		h.fail(w, r, h.frame(r), err)
		return
	}
	clusters := make([]report.Cluster, 0, len(rows))
	for _, row := range rows {
		clusters = append(clusters, row.Cluster)
	}
	h.writeData(w, r, clusters)
}

// valid is what a namespace or a cluster can be called.
var valid = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// keyOf is the cluster that an address names; false: it names none.
func keyOf(r *http.Request) (client.ObjectKey, bool) {
	key := client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	return key, valid.MatchString(key.Namespace) && valid.MatchString(key.Name)
}

// asksEtcd reports whether the address is about the EtcdCluster.
func asksEtcd(q url.Values) bool { return q.Get("etcd") == "true" }

// view answers with a page of one cluster.
func (h *Handler) view(view string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, ok := keyOf(r)
		if !ok {
			http.NotFound(w, r)
			return
		}
		f := h.frame(r)
		f.Namespace, f.Name, f.View, f.Every, f.Etcd = key.Namespace, key.Name, view, lookEvery, asksEtcd(r.URL.Query())
		draw, err := h.page(r.Context(), &f, key)
		if err != nil {
			h.fail(w, r, f, err)
			return
		}
		f.Now = time.Now()
		h.write(w, r, http.StatusOK, draw)
	}
}

// page reads what a page shows. The frame may still change before it is drawn.
func (h *Handler) page(ctx context.Context, f *pages.Frame, key client.ObjectKey) (draw func(io.Writer) error, err error) {
	if f.View == pages.ViewStatus {
		c, past, looked, err := h.source.Cluster(ctx, key)
		f.Looked = looked
		return func(to io.Writer) error { return pages.Cluster(to, *f, c, past) }, err
	}
	f.Every = rulesEvery
	if f.HasEtcd, err = h.source.HasEtcd(ctx, key); err != nil {
		return nil, err
	}
	defer func() { f.Looked = time.Now() }()
	switch f.View {
	case pages.ViewRules:
		e, err := h.source.Explain(ctx, key, f.Etcd)
		return func(to io.Writer) error { return pages.Rules(to, *f, e) }, err
	case pages.ViewPlan:
		all, err := h.source.Plans(ctx, key)
		return func(to io.Writer) error { return pages.Plans(to, *f, all) }, err
	}
	past, err := h.source.History(ctx, key, f.Etcd)
	return func(to io.Writer) error { return pages.History(to, *f, past) }, err
}

// data answers with the data of a view, as the command prints it.
func (h *Handler) data(view string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, ok := keyOf(r)
		if !ok {
			http.NotFound(w, r)
			return
		}
		var v any
		var err error
		switch etcd := asksEtcd(r.URL.Query()); view {
		case pages.ViewStatus:
			v, _, _, err = h.source.Cluster(r.Context(), key)
		case pages.ViewRules:
			e, failure := h.source.Explain(r.Context(), key, etcd)
			e.Observed = nil // as the command does without --observed
			v, err = e, failure
		case pages.ViewPlan:
			v, err = h.source.Plans(r.Context(), key)
		case pages.ViewHistory:
			v, err = h.source.History(r.Context(), key, etcd)
		}
		if err != nil {
			f := h.frame(r)
			f.Namespace, f.Name, f.View = key.Namespace, key.Name, view
			h.fail(w, r, f, err)
			return
		}
		h.writeData(w, r, v)
	}
}

// fail says why there is no page. The open page asks again.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, f pages.Frame, err error) {
	code, title := http.StatusBadGateway, "no answer"
	if errors.Is(err, facts.ErrNoCluster) {
		code, title = http.StatusNotFound, "no such cluster"
	}
	f.Now = time.Now()
	h.write(w, r, code, func(to io.Writer) error { return pages.Failure(to, f, title, plaintext.Redact(err.Error())) })
}

// write sends a page.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, code int, draw func(io.Writer) error) {
	var page bytes.Buffer
	if err := draw(&page); err != nil {
		http.Error(w, "the page cannot be drawn", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	send(w, r, code, page.Bytes())
}

// writeData sends a value as the commands print it.
func (h *Handler) writeData(w http.ResponseWriter, r *http.Request, v any) {
	text, err := command.Encode("json", v)
	if err != nil {
		http.Error(w, "the data cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	send(w, r, http.StatusOK, text)
}

// send writes an answer, compressed where the browser takes that. No answer holds both a secret and what somebody else chose.
func send(w http.ResponseWriter, r *http.Request, code int, content []byte) {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(code)
		_, _ = w.Write(content)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Vary", "Accept-Encoding")
	w.WriteHeader(code)
	z := gzip.NewWriter(w)
	_, _ = z.Write(content)
	_ = z.Close()
}
