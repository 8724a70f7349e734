package untrusted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quorate/quorate/internal/program/plaintext"
)

const (
	// mostRefusal is how many bytes are read of an answer that is an error.
	mostRefusal = 64 << 10
	// mostQuoted is how many bytes of a message are quoted.
	mostQuoted = 512
	// mostReason is how long a reason may be. The longest of Kubernetes' own has 24 letters.
	mostReason = 64
)

// Shown is what a server says, fit for a condition, a log or a screen: in one line, without secrets and control characters, and not long.
func Shown(text string) string {
	text = plaintext.Beginning(text, 4*mostQuoted) // what is dropped need not be looked at
	return plaintext.Beginning(strings.Join(strings.Fields(plaintext.Shown(text)), " "), mostQuoted)
}

// Refusal is the error of an answer whose code is one of an error. It quotes the reason and the message of a Status, as Shown has them, and
// nothing of any other answer. It is a *apierrors.StatusError.
func Refusal(response *http.Response) error {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	// Where it cannot be read the code tells enough.
	body, _ := io.ReadAll(io.LimitReader(response.Body, mostRefusal))
	status, is := parseStatus(body, kind)
	if !is {
		// client-go knows which reason each code has.
		plain := apierrors.NewGenericServerResponse(response.StatusCode, "", schema.GroupResource{}, "", "", 0, true)
		plain.ErrStatus.Details, plain.ErrStatus.Message = nil, fmt.Sprintf("the answer is %d %s", response.StatusCode,
			http.StatusText(response.StatusCode))
		return plain
	}
	status.Code = int32(response.StatusCode)
	return StatusError(status)
}

// StatusError is the error that a Status says, quoted as Refusal quotes it.
func StatusError(status metav1.Status) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: status.Code, Reason: reason(status.Reason), Message: Shown(status.Message),
	}}
}

// reason is the reason of a Status, if it is one word.
func reason(r metav1.StatusReason) metav1.StatusReason {
	letter := func(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	if len(r) > mostReason || strings.ContainsFunc(string(r), func(c rune) bool { return !letter(c) }) {
		return metav1.StatusReasonUnknown
	}
	return r
}

// ProtobufPrefix is what objects in protobuf begin with.
var ProtobufPrefix = []byte("k8s\x00")

// parseStatus reads a Status of the media type; false: it is none.
func parseStatus(body []byte, kind string) (metav1.Status, bool) {
	var status metav1.Status
	if kind == Protobuf {
		raw, is := bytes.CutPrefix(body, ProtobufPrefix)
		var unknown runtime.Unknown
		if !is || unknown.Unmarshal(raw) != nil || unknown.Kind != "Status" || status.Unmarshal(unknown.Raw) != nil {
			return metav1.Status{}, false
		}
		return status, true
	}
	if !FewParts(body) || json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		return metav1.Status{}, false
	}
	return status, true
}

// replace leaves of an answer that is an error what Refusal says of it.
func replace(response *http.Response) {
	err := Refusal(response)
	_ = response.Body.Close() // it has been read as far as it counts
	var status *apierrors.StatusError
	body := []byte("{}")
	if errors.As(err, &status) {
		made := status.ErrStatus
		made.Kind, made.APIVersion = "Status", "v1"
		if text, err := json.Marshal(made); err == nil {
			body = text
		}
	}
	response.Header.Del("Content-Encoding")
	response.Header.Set("Content-Type", "application/json")
	response.Body, response.ContentLength, response.Uncompressed = io.NopCloser(bytes.NewReader(body)), int64(len(body)), false
}
