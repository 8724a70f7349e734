package workload

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// FuzzAnswers: whatever a list or a watch holds, nothing of it is taken that is no Node with a name.
func FuzzAnswers(f *testing.F) {
	f.Add(envelope(named("n")), true)
	f.Add(envelope(append(named("n"), repeated(3, 10)...), named("m")), true)
	f.Add(append([]byte{0, 0, 0, 20}, unknown("Node", named("n"))...), true)
	f.Add([]byte(`{"kind":"NodeList","metadata":{"continue":"c"},"items":[{"metadata":{"name":"n"}},null]}`), false)
	f.Add([]byte(`{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"n"}}}{"type":"ERROR","object":{"kind":"Status"}}`), false)
	f.Fuzz(func(t *testing.T, body []byte, isProtobuf bool) {
		bounds := untrusted.Bounds{Object: 1 << 10, Answer: 1 << 12}.WithDefaults()
		s := source[*corev1.Node]{"Node", nodeFields, func() *corev1.Node { return &corev1.Node{} }, bounds}
		answer := func() *http.Response {
			kind := untrusted.JSON
			if isProtobuf {
				kind = untrusted.Protobuf
			}
			return &http.Response{Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bufio.NewReader(bytes.NewReader(body)))}
		}
		seen := func(n *corev1.Node) {
			if n == nil {
				t.Error("there is a Node that is none")
			}
		}
		_, _ = s.list(answer(), func(n *corev1.Node) error { seen(n); return s.check(n) })
		_ = s.watch(answer(), func(w watched[*corev1.Node]) error { seen(w.object); return nil })
	})
}
