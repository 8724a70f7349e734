package stacked

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

func TestNameFormat(t *testing.T) {
	long := strings.Repeat("abcdefghi-", 7)
	tests := []struct {
		name, kcp, template, want, wrong string
	}{
		{name: "without a template", kcp: "demo-cp", want: "demo-cp-%s"},
		{name: "all variables", kcp: "demo-cp", template: "{{ .cluster.name }}-{{ .random }}-{{ .kubeadmControlPlane.name }}", want: "demo-%s-demo-cp"},
		{name: "no number", kcp: "demo-cp", template: "{{ .cluster.name }}", wrong: "exactly once"},
		{name: "number twice", kcp: "demo-cp", template: "{{ .random }}-{{ .random }}", wrong: "exactly once"},
		{name: "a percent sign", kcp: "demo-cp", template: "100%-{{ .random }}", wrong: "exactly once"},
		{name: "unknown variable", kcp: "demo-cp", template: "{{ .machine.name }}-{{ .random }}", wrong: "may use .cluster.name"},
		{name: "not a template", kcp: "demo-cp", template: "{{ .random", wrong: "not a template"},
		{name: "not a name", kcp: "demo-cp", template: "Demo_{{ .random }}", wrong: `the name "Demo_1"`},
		{name: "too long", kcp: long, want: "abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefgh-55fc656e-%s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Name: test.kcp}}
			kcp.Spec.MachineNaming = upstream.MachineNamingSpec{Template: test.template}
			got, err := nameFormat(kcp, "demo")
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
