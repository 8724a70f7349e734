package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/dashboard/actions"
	"github.com/quorate/quorate/internal/cli/dashboard/pages"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// Actor does what the pages offer, with the rights of the user.
type Actor interface {
	// Offers returns how all actions stand for a cluster, and what is left to the command line.
	Offers(context.Context, client.ObjectKey) ([]actions.Offer, []actions.Left, error)
	// Look returns how one action stands, with its plan.
	Look(context.Context, client.ObjectKey, actions.Name) (actions.Offer, error)
	// Replacement returns what the replacement of a machine would do, and the command that does it.
	Replacement(ctx context.Context, key client.ObjectKey, machine string) (p report.Plan, do string, err error)
	// Do does an action, if the lines that its page showed still hold.
	Do(ctx context.Context, key client.ObjectKey, name actions.Name, shown []string) actions.Outcome
}

// mostAction is the largest form of an action that is read, in bytes: what its page showed comes back with it.
const mostAction = 64 << 10

// offer has the pages of actions answered.
func (h *Handler) offer(base string) {
	h.private.HandleFunc("GET "+base+"clusters/{namespace}/{name}/actions", h.actions)
	h.private.HandleFunc("GET "+base+"clusters/{namespace}/{name}/actions/{action}", h.action)
	h.private.HandleFunc("GET "+base+"clusters/{namespace}/{name}/actions/replace/{machine}", h.replacement)
	h.private.HandleFunc("POST "+base+"clusters/{namespace}/{name}/actions/{action}", h.act)
}

// about is the action on a cluster that an address names; false: it names none.
func (h *Handler) about(r *http.Request) (pages.Frame, client.ObjectKey, actions.Action, bool) {
	key, ok := keyOf(r)
	f := h.frame(r)
	f.Namespace, f.Name, f.View = key.Namespace, key.Name, pages.ViewActions
	of, found := actions.Of(r.PathValue("action"))
	return f, key, of, ok && (found || r.PathValue("action") == "")
}

// actions shows all actions on a cluster.
func (h *Handler) actions(w http.ResponseWriter, r *http.Request) {
	f, key, _, ok := h.about(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	all, left, err := h.actor.Offers(r.Context(), key)
	if err != nil {
		h.fail(w, r, f, err)
		return
	}
	f.Looked, f.Now = time.Now(), time.Now()
	h.write(w, r, http.StatusOK, func(to io.Writer) error { return pages.Actions(to, f, all, left) })
}

// action shows what one action does, and the form by which a person confirms it; or, after that, what came of it.
func (h *Handler) action(w http.ResponseWriter, r *http.Request) {
	f, key, of, ok := h.about(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if sent := h.forms.find(r.URL.Query().Get("sent"), aboutText(key, of)); sent != nil {
		h.outcome(w, r, f, of, sent)
		return
	}
	o, err := h.actor.Look(r.Context(), key, of.Name)
	if err != nil {
		h.fail(w, r, f, err)
		return
	}
	form, err := h.forms.issue(sessionOf(r), aboutText(key, of), o.Shown, time.Now())
	if err != nil {
		h.fail(w, r, f, err)
		return
	}
	// The page has a secret, the proof of its form, beside names that others chose. Compressed, its length would say something of the secret.
	r.Header.Del("Accept-Encoding")
	f.Looked, f.Now = time.Now(), time.Now()
	h.write(w, r, http.StatusOK, func(to io.Writer) error { return pages.Action(to, f, o, form) })
}

// replacement shows what the replacement of a machine would do.
func (h *Handler) replacement(w http.ResponseWriter, r *http.Request) {
	f, key, _, ok := h.about(r)
	machine := r.PathValue("machine")
	if !ok || !valid.MatchString(machine) {
		http.NotFound(w, r)
		return
	}
	p, do, err := h.actor.Replacement(r.Context(), key, machine)
	why := ""
	if err != nil {
		why = plaintext.Redact(err.Error())
	}
	f.Looked, f.Now = time.Now(), time.Now()
	h.write(w, r, http.StatusOK, func(to io.Writer) error { return pages.Replacement(to, f, machine, do, p, why) })
}

// aboutText names an action on a cluster.
func aboutText(key client.ObjectKey, of actions.Action) string {
	return string(of.Name) + " " + key.String()
}

// sessionOf is the value of the cookie by which the guard knew the browser.
func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// act does an action that a person has confirmed. A form that is sent again does nothing again: it gets what came of it the first time.
func (h *Handler) act(w http.ResponseWriter, r *http.Request) {
	f, key, of, ok := h.about(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostAction)
	if err := r.ParseForm(); err != nil {
		code := http.StatusBadRequest
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the form cannot be read", code)
		return
	}
	refuse := func(code int, why string) {
		f.Now = time.Now()
		h.write(w, r, code, func(to io.Writer) error { return pages.Refused(to, f, of, why) })
	}
	lines, id, err := h.forms.check(sessionOf(r), aboutText(key, of), r.PostForm, time.Now())
	if err != nil {
		refuse(http.StatusForbidden, err.Error())
		return
	}
	if r.PostForm.Get("confirm") != "yes" {
		refuse(http.StatusBadRequest, "it was not confirmed")
		return
	}
	sent, first := h.forms.begin(id, aboutText(key, of), time.Now())
	if first {
		h.do(r.Context(), sent, key, of, lines)
	}
	http.Redirect(w, r, f.Of(pages.ViewActions)+"/"+string(of.Name)+"?"+url.Values{"sent": {id}}.Encode(), http.StatusSeeOther)
}

// do does an action to its end, even if the browser does not wait for it.
func (h *Handler) do(ctx context.Context, sent *run, key client.ObjectKey, of actions.Action, lines []string) {
	defer close(sent.done)
	sent.outcome.Failed = "it was ended before it was done" // until there is another outcome
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	sent.outcome = h.actor.Do(ctx, key, of.Name, lines)
}

// outcome shows what came of a form that was sent, and waits for it.
func (h *Handler) outcome(w http.ResponseWriter, r *http.Request, f pages.Frame, of actions.Action, sent *run) {
	select {
	case <-sent.done:
	case <-r.Context().Done():
		h.fail(w, r, f, context.Cause(r.Context()))
		return
	}
	f.Now = time.Now()
	h.write(w, r, http.StatusOK, func(to io.Writer) error { return pages.Outcome(to, f, of, sent.sent, sent.outcome) })
}
