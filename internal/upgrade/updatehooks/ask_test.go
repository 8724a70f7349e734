package updatehooks

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestIsRefused: only what the API server says of the object itself is an answer.
func TestIsRefused(t *testing.T) {
	boxes := schema.GroupResource{Group: "infra.example", Resource: "boxes"}
	for _, r := range []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Group: boxes.Group, Kind: "Box"}, "x", nil), true},
		{"a webhook", apierrors.NewForbidden(boxes, "x", errors.New(`admission webhook "v.boxes" denied the request: spec is immutable`)), true},
		{"a right is missing", apierrors.NewForbidden(boxes, "x", errors.New(`User "quorate" cannot patch resource "boxes"`)), false},
		{"no connection", errors.New("connection refused"), false},
		{"too late", apierrors.NewTimeoutError("slow", 1), false},
	} {
		if got := isRefused(r.err); got != r.want {
			t.Errorf("%s: %v, want %v", r.name, got, r.want)
		}
	}
}

func TestOnly(t *testing.T) {
	for _, r := range []struct {
		can, does []string
		ok        bool
	}{
		{[]string{"can.metal"}, []string{"update.metal"}, true},
		{nil, []string{"update.metal"}, false},
		{[]string{"can.metal"}, nil, false},
		{[]string{"can.metal", "can.other"}, []string{"update.metal"}, false},
		{[]string{"can.metal"}, []string{"update.metal", "update.other"}, false},
		{[]string{"can.quorate"}, []string{"update.quorate"}, false},
		{[]string{"can.metal"}, []string{"update.quorate"}, false},
	} {
		if err := only(r.can, r.does, "default"); (err == nil) != r.ok {
			t.Errorf("%v, %v: %v", r.can, r.does, err)
		}
	}
}
