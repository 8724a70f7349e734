package machine

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRefs: each field against its own group, the groups of all others, Kubernetes' own, and a provider's.
func TestRefs(t *testing.T) {
	fields := map[string]Ref{
		infrastructureGroup: InfrastructureRef, bootstrapGroup: BootstrapRef, controlPlaneGroup: ControlPlaneRef, etcdGroup: EtcdRef,
	}
	for own, field := range fields {
		for group, accepted := range map[string]bool{
			"": false, "apps": false, "rbac.authorization.k8s.io": false, "gateway.networking.k8s.io": false, "node.kubernetes.io": false,
			"cluster.x-k8s.io": false, "runtime.cluster.x-k8s.io": false, "ipam.cluster.x-k8s.io": false, "backup.quorate.io": false,
			"quorate.io":                      false,
			"infrastructure.cluster.x-k8s.io": own == infrastructureGroup, "bootstrap.cluster.x-k8s.io": own == bootstrapGroup,
			"controlplane.cluster.x-k8s.io": own == controlPlaneGroup, "etcdcluster.cluster.x-k8s.io": own == etcdGroup,
			"infrastructure.example.com": true, "notk8s.io": true, "x-k8s.io": true, "metal.x-k8s.io": true, "evilcluster.x-k8s.io": true,
		} {
			err := field.Check(schema.GroupKind{Group: group, Kind: "Thing"})
			if (err == nil) != accepted {
				t.Errorf("field of %s, group %q: %v", own, group, err)
			}
			if err != nil && !strings.Contains(err.Error(), own) {
				t.Errorf("field of %s, group %q: the error does not name the valid group: %v", own, group, err)
			}
		}
	}
}

// TestTemplateRefs: a field for templates takes no other kind, and wrapping keeps the refusal.
func TestTemplateRefs(t *testing.T) {
	for kind, accepted := range map[string]bool{"LocalMachineTemplate": true, "LocalMachine": false, "Template": false, "Templates": false,
		"": false} {
		gk := schema.GroupKind{Group: infrastructureGroup, Kind: kind}
		err := InfrastructureTemplateRef.Check(gk)
		if (err == nil) != accepted {
			t.Errorf("kind %q: %v", kind, err)
		}
		refused := Refused(fmt.Errorf("reading it: %w", err))
		if (refused == nil) != accepted || refused != nil && refused.GroupKind != gk {
			t.Errorf("kind %q: %v is the refusal %v", kind, err, refused)
		}
	}
}
