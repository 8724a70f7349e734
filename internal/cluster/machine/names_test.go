package machine

import (
	"fmt"
	"strings"
	"testing"
)

func TestNameFormat(t *testing.T) {
	long := strings.Repeat("abcdefghi-", 7)
	tests := []struct {
		name, kcp, template, want, wrong string
	}{
		{name: "without a template", kcp: "demo-cp", want: "demo-cp-%s"},
		{name: "all variables", kcp: "demo-cp", template: "{{ .cluster.name }}-{{ .random }}-{{ .kubeadmControlPlane.name }}",
			want: "demo-%s-demo-cp"},
		{name: "no number", kcp: "demo-cp", template: "{{ .cluster.name }}", wrong: "must contain {{ .random }}"},
		{name: "number twice", kcp: "demo-cp", template: "{{ .random }}-x-{{ .random }}", want: "3f9d5-x-%s"},
		{name: "number twice, too long", kcp: long, template: "{{ .random }}-{{ .kubeadmControlPlane.name }}x-{{ .random }}",
			want: "abbeb-abcdefghi-abcdefghi-abcdefghi-abcdefghi-ab-d502239b-%s"},
		{name: "a percent sign", kcp: "demo-cp", template: "100%-{{ .random }}", wrong: "no percent sign"},
		{name: "unknown variable", kcp: "demo-cp", template: "{{ .machine.name }}-{{ .random }}", wrong: "may use .cluster.name"},
		{name: "not a template", kcp: "demo-cp", template: "{{ .random", wrong: "not a template"},
		{name: "not a name", kcp: "demo-cp", template: "Demo_{{ .random }}", wrong: `the name "Demo_1"`},
		{name: "too long", kcp: long, want: "abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefgh-55fc656e-%s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := NameFormat(test.template, test.kcp, "demo")
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Fatalf("error is %v, want one with %q", err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("format is %q, want %q", got, test.want)
			}
			if name := fmt.Sprintf(got, "12345"); len(name) > longestName {
				t.Errorf("name %q has %d characters, more than %d", name, len(name), longestName)
			}
		})
	}
}

// TestNameFormatOf: each kind has its own variable for the control plane's name, and the refusal of others names it.
func TestNameFormatOf(t *testing.T) {
	for _, test := range []struct{ variable, template, want, wrong string }{
		{ControlPlaneVariable, "{{ .controlPlane.name }}-{{ .random }}", "demo-cp-%s", ""},
		{ControlPlaneVariable, "{{ .kubeadmControlPlane.name }}-{{ .random }}", "", ".cluster.name, .controlPlane.name and .random"},
		{KubeadmControlPlaneVariable, "{{ .controlPlane.name }}-{{ .random }}", "", ".cluster.name, .kubeadmControlPlane.name and .random"},
	} {
		got, err := NameFormatOf(test.variable, test.template, "demo-cp", "demo")
		if got != test.want || test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s, %s: %q, %v; want %q, %q", test.variable, test.template, got, err, test.want, test.wrong)
		}
	}
}
