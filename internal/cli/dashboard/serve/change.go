package serve

import (
	"errors"
	"io"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard/pages"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// change shows what a change of the control plane's spec would do, which a person types in. The address holds the change.
func (h *Handler) change(w http.ResponseWriter, r *http.Request) {
	key, ok := keyOf(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	f := h.frame(r)
	f.Namespace, f.Name, f.View = key.Namespace, key.Name, pages.ViewPlan
	q := r.URL.Query()
	typed := pages.Typed{Version: q.Get("version"), Replicas: q.Get("replicas"), InPlace: q.Get("inPlace")}
	wanted, all, err := h.planned(r, key, typed)
	if errors.Is(err, facts.ErrNoCluster) {
		h.fail(w, r, f, err)
		return
	}
	f.Change, f.Query, f.Same = wanted.Patch() != nil, r.URL.RawQuery, wanted.Plan(key)
	code := http.StatusOK
	if err != nil {
		typed.Why, code = plaintext.Redact(err.Error()), http.StatusBadRequest
	}
	f.Looked, f.Now = time.Now(), time.Now()
	h.write(w, r, code, func(to io.Writer) error { return pages.Change(to, f, typed, all) })
}

// changeData answers with the plans of such a change, as the command prints them.
func (h *Handler) changeData(w http.ResponseWriter, r *http.Request) {
	key, ok := keyOf(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	q := r.URL.Query()
	_, all, err := h.planned(r, key, pages.Typed{Version: q.Get("version"), Replicas: q.Get("replicas"), InPlace: q.Get("inPlace")})
	if err != nil {
		f := h.frame(r)
		f.Namespace, f.Name, f.View = key.Namespace, key.Name, pages.ViewPlan
		h.fail(w, r, f, err)
		return
	}
	h.writeData(w, r, all)
}

// planned reads what was typed in, and asks what it would do. Where it changes nothing there are no plans.
func (h *Handler) planned(r *http.Request, key client.ObjectKey, typed pages.Typed) (command.SpecChange, []report.Plan, error) {
	wanted, err := command.ParseSpecChange(typed.Version, typed.Replicas, typed.InPlace)
	if err != nil || wanted.Patch() == nil {
		return wanted, []report.Plan{}, err
	}
	all, err := h.source.Planned(r.Context(), key, wanted)
	return wanted, all, err
}
