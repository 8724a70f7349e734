package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/cli/dashboard/actions"
	"github.com/quorate/quorate/internal/cli/dashboard/pages"
)

// formLife is how long a form can be sent after it was shown.
const formLife = 15 * time.Minute

// forms makes the fields that a form must have to be obeyed, and keeps what came of those that were sent. A form counts once, for one
// session, one action on one cluster, and what its page showed.
type forms struct {
	key []byte

	mu   sync.Mutex
	runs map[string]*run
}

// run is a form that was sent.
type run struct {
	sent time.Time
	// of is what the form was about, and done is closed when there is an outcome.
	of      string
	done    chan struct{}
	outcome actions.Outcome
}

func newForms() *forms {
	return &forms{key: []byte(rand.Text() + rand.Text()), runs: map[string]*run{}}
}

// issue returns the fields of a form of a session about something, whose page shows lines.
func (f *forms) issue(session, about string, lines []string, now time.Time) (pages.Form, error) {
	raw, err := json.Marshal(lines)
	if err != nil {
		return pages.Form{}, fmt.Errorf("encoding what is shown: %w", err)
	}
	form := pages.Form{Shown: base64.RawURLEncoding.EncodeToString(raw), Issued: strconv.FormatInt(now.Unix(), 10), ID: rand.Text()}
	form.Proof = f.proof(session, about, form)
	return form, nil
}

// proof is the code by which the server knows a form as one of its own.
func (f *forms) proof(session, about string, form pages.Form) string {
	mac := hmac.New(sha256.New, f.key)
	for _, part := range []string{session, about, form.Issued, form.ID, form.Shown} {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(part), part) // which never fails
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

var (
	errForm = errors.New("the form is not one that this page showed to you")
	errOld  = fmt.Errorf("the form was shown more than %s ago", formLife)
)

// check returns what the page of a form showed, and the form's ID.
func (f *forms) check(session, about string, sent url.Values, now time.Time) (lines []string, id string, err error) {
	form := pages.Form{Shown: sent.Get("shown"), Issued: sent.Get("issued"), ID: sent.Get("form"), Proof: sent.Get("proof")}
	if !hmac.Equal([]byte(form.Proof), []byte(f.proof(session, about, form))) {
		return nil, "", errForm
	}
	issued, err := strconv.ParseInt(form.Issued, 10, 64)
	if err != nil {
		return nil, "", errForm
	}
	if now.Sub(time.Unix(issued, 0)) > formLife {
		return nil, "", errOld
	}
	raw, err := base64.RawURLEncoding.DecodeString(form.Shown)
	if err != nil || json.Unmarshal(raw, &lines) != nil {
		return nil, "", errForm
	}
	return lines, form.ID, nil
}

// begin returns the run of a form, and whether this is the first time that it was sent. Forms that were sent so long ago that they are not
// taken again are forgotten.
func (f *forms) begin(id, about string, now time.Time) (r *run, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for old, r := range f.runs {
		if now.Sub(r.sent) > 2*formLife {
			delete(f.runs, old)
		}
	}
	if r = f.runs[id]; r != nil {
		return r, false
	}
	r = &run{sent: now, of: about, done: make(chan struct{})}
	f.runs[id] = r
	return r, true
}

// find returns the run of a form about something; nil: there is none.
func (f *forms) find(id, about string) *run {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runs[id]; r != nil && r.of == about {
		return r
	}
	return nil
}
