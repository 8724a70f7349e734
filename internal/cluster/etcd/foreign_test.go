package etcd

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestForeignErrors: what a member of a managed cluster answers is told without secrets and control characters, and not at any length.
func TestForeignErrors(t *testing.T) {
	const hostile = "cannot join: --token abcdef.0123456789abcdef \x1b]0;pwned\x07\x1b[31mred\u202e"
	for _, text := range []string{hostile, "etcdserver: " + hostile, hostile + strings.Repeat("x", 1<<20)} {
		got := plain(status.Error(codes.Unknown, text))
		if strings.Contains(got, "0123456789abcdef") || strings.ContainsAny(got, "\x1b\x07\u202e") || !strings.Contains(got, "<secret>") ||
			len(got) > 1024 {
			t.Errorf("%d bytes: %.200q", len(got), got)
		}
	}
}
