package untrusted

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want Bounds
		err  string
	}{
		{nil, Bounds{Answer: 64 << 20, Object: 2 << 20, Objects: 50_000, Kept: 8 << 20, Minute: 512 << 20}, ""},
		{[]string{"--managed-cluster-answer-size=1Gi", "--managed-cluster-objects=100k"},
			Bounds{Answer: 1 << 30, Object: 2 << 20, Objects: 100_000, Kept: 8 << 20, Minute: 512 << 20}, ""},
		{[]string{"--managed-cluster-memory=0"}, Bounds{}, "must be a positive number"},
		{[]string{"--managed-cluster-memory=much"}, Bounds{}, "must be a positive number"},
		{[]string{"--managed-cluster-object-size=1Ki"}, Bounds{}, "--managed-cluster-object-size=1Ki: it must be at least 64Ki"},
	} {
		var b Bounds
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SetOutput(io.Discard)
		b.AddFlags(fs)
		err := fs.Parse(test.args)
		if err == nil {
			err = b.Check()
		}
		if test.err == "" && (err != nil || b != test.want) || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%v: %+v, %v", test.args, b, err)
		}
	}
}

// TestBoundsHavePlaces: each error names the flag of its own bound.
func TestBoundsHavePlaces(t *testing.T) {
	b := Bounds{}.WithDefaults()
	for flag, err := range map[string]error{
		"managed-cluster-answer-size": b.AnswerExceeded(), "managed-cluster-object-size": b.ObjectExceeded(),
		"managed-cluster-objects": b.ObjectsExceeded(),
		"managed-cluster-memory":  b.KeptExceeded(), "managed-cluster-bytes-per-minute": b.exceeds(minuteBound, "x"),
	} {
		if !strings.HasSuffix(err.Error(), "(--"+flag+")") || !IsMisbehaviour(fmt.Errorf("listing: %w", err)) {
			t.Errorf("%v, want %s", err, flag)
		}
	}
	if IsMisbehaviour(io.EOF) {
		t.Error("an end is no misbehaviour")
	}
}

func TestParts(t *testing.T) {
	for text, want := range map[string]int{
		`{}`: 1, `{"a":"{[,\"{,"}`: 1, `{"a":[1,2,{}],"b\\":","}`: 6, `"\\",`: 1, ``: 0,
	} {
		var p parts
		for i := range text {
			p.count([]byte{text[i]})
		}
		if p.seen != want {
			t.Errorf("%s has %d parts, want %d", text, p.seen, want)
		}
	}
}

// endless is a body without an end.
type endless struct{ closed bool }

func (e *endless) Read(p []byte) (int, error) { return len(p), nil }
func (e *endless) Close() error               { e.closed = true; return nil }

// answers is a server that answers the same to all.
type answers struct{ http.Response }

func (a answers) RoundTrip(*http.Request) (*http.Response, error) { r := a.Response; return &r, nil }

// TestMeter: a cluster that has answered too much in a minute is not asked again before the next.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Bounds{Minute: 1 << 20}
		m := NewMeter(b)
		ask := func() error {
			response, err := b.WrapStreams(answers{http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: &endless{}}},
				m).RoundTrip(&http.Request{})
			if err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, response.Body)
			if n > 1<<20 {
				t.Errorf("%d bytes were read", n)
			}
			return err
		}
		for range 2 {
			for _, want := range []bool{true, true} {
				if err := ask(); errors.As(err, new(*BoundError)) != want {
					t.Error(err)
				}
			}
			time.Sleep(time.Minute)
		}
		if err := m.add(0); err != nil {
			t.Error(err)
		}
	})
}

// TestRefusal: what of an answer that is an error is quoted.
func TestRefusal(t *testing.T) {
	for _, test := range []struct {
		kind, body string
		reason     metav1.StatusReason
		message    string
	}{
		{"text/plain", "TOPSECRET", metav1.StatusReasonForbidden, "the answer is 403 Forbidden"},
		{"application/json", `{"kind":"Secret","message":"TOPSECRET"}`, metav1.StatusReasonForbidden, "the answer is 403 Forbidden"},
		{"application/json", `{"kind":"Status","message":` + strings.Repeat("[", 1<<15), metav1.StatusReasonForbidden,
			"the answer is 403 Forbidden"},
		{"application/json", `{"kind":"Status","reason":"Expired","message":"too\r\nold \u001b[2J\u202e password: TOPSECRET"}`,
			metav1.StatusReasonExpired, "too old password: <secret>"},
		{"application/json", `{"kind":"Status","reason":"so\u001b","message":"x"}`, metav1.StatusReasonUnknown, "x"},
		{"application/json", `{"kind":"Status","message":"` + strings.Repeat("ab ", 10_000) + `"}`, "", strings.Repeat("ab ", 169) + "ab..."},
		{Protobuf, "TOPSECRET", metav1.StatusReasonForbidden, "the answer is 403 Forbidden"},
	} {
		err := Refusal(&http.Response{StatusCode: http.StatusForbidden, Status: "403 TOPSECRET", Header: http.Header{"Content-Type": {test.kind}},
			Body: io.NopCloser(strings.NewReader(test.body))})
		status := err.(apierrors.APIStatus).Status()
		if status.Reason != test.reason || status.Message != test.message || status.Code != http.StatusForbidden ||
			strings.Contains(fmt.Sprintf("%+v", err), "TOPSECRET") {
			t.Errorf("%.100s: %+v", test.body, status)
		}
	}
}

// TestNothingIsReadOfARedirect also where its body has no end.
func TestNothingIsReadOfARedirect(t *testing.T) {
	body := &endless{}
	_, err := Bounds{}.Wrap(answers{http.Response{StatusCode: http.StatusFound, Header: http.Header{}, Body: body}}).RoundTrip(&http.Request{})
	if !errors.As(err, new(*RedirectError)) || !body.closed {
		t.Error(err)
	}
}

// TestLogs: of what is not JSON only the log of a pod is read, and no more of it than of an object.
func TestLogs(t *testing.T) {
	for _, test := range []struct {
		method, path, kind string
		want               bool
	}{
		{http.MethodGet, "/api/v1/namespaces/kube-system/pods/a/log", "text/plain", true},
		{http.MethodGet, "/api/v1/namespaces/kube-system/pods/a/log", Protobuf, false},
		{http.MethodGet, "/api/v1/namespaces/kube-system/pods/a", "text/plain", false},
		{http.MethodPost, "/api/v1/namespaces/kube-system/pods/a/log", "text/plain", false},
	} {
		body := io.NopCloser(strings.NewReader(strings.Repeat("x", 100)))
		answer := http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {test.kind}}, Body: body}
		request := httptest.NewRequest(test.method, test.path, nil)
		response, err := Bounds{Object: 10}.Wrap(answers{answer}).RoundTrip(request)
		if (err == nil) != test.want {
			t.Errorf("%+v: %v", test, err)
		}
		if err != nil {
			continue
		}
		if _, err := io.ReadAll(response.Body); !IsMisbehaviour(err) {
			t.Errorf("%+v: a log without a bound: %v", test, err)
		}
	}
}
