package stacked

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestExternalEtcdHealthy: a condition reports what the endpoints of an external etcd say, and nothing is begun while none is
// healthy. What was never reached holds up nothing.
func TestExternalEtcdHealthy(t *testing.T) {
	const a, b = "https://10.0.0.1:2379", "https://10.0.0.2:2379"
	const bothSilent = "* 10.0.0.1:2379: no answer in time\n* 10.0.0.2:2379: no answer in time"
	w := newWorld(t, testCluster(), testKCP(1))
	w.giveEtcdCertificates()
	w.r.EtcdEndpoints = w
	external := func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd = observe.ExternalEtcd([]string{a, b})
	}
	good, silent := etcd.EndpointHealth{Health: plan.Healthy}, etcd.EndpointHealth{Why: "no answer in time"}
	bad := etcd.EndpointHealth{Health: plan.Unhealthy, Why: "bad"}
	for _, test := range []struct {
		name    string
		a, b    etcd.EndpointHealth
		unasked error
		status  metav1.ConditionStatus
		message string
		down    bool
	}{
		{"no credentials", bad, bad, errors.New("no secret"), metav1.ConditionUnknown, "* it cannot be asked: no secret", false},
		{"never reached", silent, silent, nil, metav1.ConditionUnknown, bothSilent, false},
		{"one has no quorum, the other is silent", bad, silent, nil, metav1.ConditionFalse,
			"* 10.0.0.1:2379: bad\n* 10.0.0.2:2379: no answer in time", true},
		{"healthy", good, good, nil, metav1.ConditionTrue, "", false},
		{"one does not answer any more", silent, good, nil, metav1.ConditionFalse, "* 10.0.0.1:2379: no answer in time", false},
		{"both do not answer any more", silent, silent, nil, metav1.ConditionFalse, bothSilent, true},
		{"one answers again", good, silent, nil, metav1.ConditionFalse, "* 10.0.0.2:2379: no answer in time", false},
	} {
		w.endpoints, w.unasked = map[string]etcd.EndpointHealth{a: test.a, b: test.b}, test.unasked
		w.r.Memories.Of(kcpKey).ExternalEtcd.Read = metav1.Now().Add(-observe.SlowTime)
		w.change(external)
		w.settle()
		kcp := w.kcp()
		c := conditions.Get(kcp, controlplanev1.ExternalEtcdHealthyCondition)
		if c == nil || c.Status != test.status || c.Message != test.message {
			t.Errorf("%s: %+v, want %s %q", test.name, c, test.status, test.message)
		}
		p := kcp.Status.Plan
		if p.Reason == "GivenCertificatesMissing" {
			t.Fatalf("%s: the secrets are not read: %+v", test.name, p)
		}
		const said = "no endpoint of the external etcd is healthy: "
		if down := p.Reason == "EtcdNotReady"; down != test.down || down && p.Message != said+oneLine(test.message) {
			t.Errorf("%s: decided %+v, held up: want %t", test.name, p, test.down)
		}
	}
}

// oneLine is a condition's list as part of a sentence.
func oneLine(list string) string {
	return strings.ReplaceAll(strings.TrimPrefix(list, "* "), "\n* ", "; ")
}
