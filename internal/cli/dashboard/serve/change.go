package serve

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
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
	typed := typedIn(r)
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
	_, all, err := h.planned(r, key, typedIn(r))
	if err != nil {
		f := h.frame(r)
		f.Namespace, f.Name, f.View = key.Namespace, key.Name, pages.ViewPlan
		h.fail(w, r, f, err)
		return
	}
	h.writeData(w, r, all)
}

// typedIn is the change that an address holds.
func typedIn(r *http.Request) pages.Typed {
	q := r.URL.Query()
	return pages.Typed{Version: q.Get("version"), Replicas: q.Get("replicas"), InPlace: q.Get("inPlace"), Policies: policies()}
}

// planned reads what was typed in, and asks what it would do. Where it changes nothing there are no plans.
func (h *Handler) planned(r *http.Request, key client.ObjectKey, typed pages.Typed) (command.SpecChange, []report.Plan, error) {
	wanted, err := changeOf(typed)
	if err != nil || wanted.Patch() == nil {
		return wanted, []report.Plan{}, err
	}
	all, err := h.source.Planned(r.Context(), key, wanted)
	return wanted, all, err
}

// versionText is what a version of Kubernetes looks like.
var versionText = regexp.MustCompile(`^v?[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}([-+.][0-9A-Za-z.+-]{1,40})?$`)

// mostReplicas is how many machines can be typed in.
const mostReplicas = 99

// changeOf reads what a person typed in; empty texts change nothing. An error names the field, what was typed, and what is valid.
func changeOf(typed pages.Typed) (command.SpecChange, error) {
	c := command.SpecChange{Version: strings.TrimSpace(typed.Version), InPlace: typed.InPlace}
	if c.Version != "" && !versionText.MatchString(c.Version) {
		return command.SpecChange{}, command.Usagef("invalid version %.60q: must be like v1.37.2", typed.Version)
	}
	if replicas := strings.TrimSpace(typed.Replicas); replicas != "" {
		n, err := strconv.ParseInt(replicas, 10, 32)
		if err != nil || n < 1 || n > mostReplicas {
			return command.SpecChange{}, command.Usagef("invalid replicas %.60q: must be from 1 to %d", replicas, mostReplicas)
		}
		c.Replicas = int32(n)
	}
	if c.InPlace != "" && !slices.Contains(policies(), c.InPlace) {
		return command.SpecChange{}, command.Usagef("invalid in-place policy %.60q: must be one of %s", typed.InPlace,
			strings.Join(policies(), ", "))
	}
	return c, nil
}

// policies are the values of spec.inPlace.policy.
func policies() []string {
	return []string{string(controlplanev1.InPlaceNever), string(controlplanev1.InPlacePreferred), string(controlplanev1.InPlaceOnly),
		string(controlplanev1.InPlaceExternal)}
}
