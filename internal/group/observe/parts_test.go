package observe

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/grouptest"
)

// observing is what looks at an object with machines, of whom three are wanted.
func observing(object Object, machines ...*clusterv1.Machine) *Observer {
	v := NewView(grouptest.Cluster(), machines, plan.Observed{Now: time.Now(), Want: plan.Want{Replicas: 3}})
	v.Object, v.Memory = object, &Memory{}
	return &Observer{View: v}
}

func TestOthersMade(t *testing.T) {
	for _, test := range []struct {
		format string
		last   int
		names  []string
		want   bool
	}{
		{"cp-%s", 0, nil, false},
		{"cp-%s", 2, []string{"cp-1", "cp-2"}, false},
		{"cp-%s", 1, []string{"cp-1", "cp-2"}, true},
		{"cp-%s", 1, []string{"cp-1", "cp-x7k2p"}, true},
		{"cp-%s-m", 1, []string{"cp-1"}, true},
		{"cp-%s-m", 1, []string{"cp-1-m"}, false},
		{"cp-%s", 1, []string{"1"}, true},
	} {
		if got := othersMade(test.format, test.last, grouptest.Machines(test.names...)); got != test.want {
			t.Errorf("%s up to %d: %v, of %v", test.format, test.last, got, test.names)
		}
	}
}

func TestBegun(t *testing.T) {
	group := grouptest.Object()
	ours := metav1.OwnerReference{Kind: "KubeadmControlPlane", UID: group.UID}
	machineOwner := metav1.OwnerReference{Kind: "Machine", UID: "m"}
	now := metav1.Now()
	object := func(name string, deleted *metav1.Time, owners ...metav1.OwnerReference) client.Object {
		o := &unstructured.Unstructured{}
		o.SetName(name)
		o.SetOwnerReferences(owners)
		o.SetDeletionTimestamp(deleted)
		return o
	}
	tests := []struct {
		name    string
		objects []client.Object
		want    string
	}{
		{"nothing", nil, ""},
		{"begun", []client.Object{object("demo-cp-2", nil, ours)}, "demo-cp-2"},
		{"the first of several", []client.Object{object("demo-cp-3", nil, ours), object("demo-cp-2", nil, ours)}, "demo-cp-2"},
		{"has its Machine", []client.Object{object("demo-cp-1", nil, ours)}, ""},
		{"of a Machine that is gone", []client.Object{object("demo-cp-2", nil, ours, machineOwner)}, ""},
		{"being deleted", []client.Object{object("demo-cp-2", &now, ours)}, ""},
		{"somebody else's", []client.Object{object("demo-cp-2", nil, metav1.OwnerReference{Kind: "KubeadmControlPlane", UID: "other"})}, ""},
		{"nobody's", []client.Object{object("demo-cp-2", nil)}, ""},
	}
	for _, test := range tests {
		if got := firstOrphan(test.objects, group, grouptest.Machines("demo-cp-1")); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestSpared: as many may break as the quorum allows.
func TestSpared(t *testing.T) {
	for replicas, most := range map[int32]int32{1: 0, 3: 1, 5: 2, 7: 3} {
		if got := (Spec{Replicas: &replicas, HoldsQuorum: true}).Spared(); got != most {
			t.Errorf("of %d machines %d may break, want %d", replicas, got, most)
		}
	}
}

func TestEntries(t *testing.T) {
	tests := []struct {
		texts []string
		most  int
		want  string
	}{
		{nil, 10, ""},
		{[]string{"aaa", "bbb"}, 8, "aaa; bbb"},
		{[]string{"aaa", "bbb", "ccc", "ddddddddddddddddd"}, 25, "aaa; bbb; ... and 2 more"},
		{[]string{"aaaaaaaaaaaaaaaaaaaa", "b"}, 20, "... and 2 more"},
	}
	for _, test := range tests {
		if got := Entries(test.texts, "; ", test.most); got != test.want || len(got) > test.most {
			t.Errorf("of %q in %d bytes: %q, want %q", test.texts, test.most, got, test.want)
		}
	}
}

func TestLastMachine(t *testing.T) {
	for text, want := range map[string]int{"": 0, "7": 7, "-1": 0, "seven": 0} {
		annotations := map[string]string{"controlplane.cluster.x-k8s.io/quorate-last-machine": text}
		if got := LastMachine(annotations); got != want {
			t.Errorf("%q is read as %d, want %d", text, got, want)
		}
	}
}

// TestLackingSecrets: what the certificates lack is said in sentences.
func TestLackingSecrets(t *testing.T) {
	for _, test := range []struct {
		secrets Secrets
		want    []string
	}{
		{Secrets{}, nil},
		{Secrets{Missing: []string{"ca", "sa"}}, []string{"No secrets with the authorities for ca, sa"}},
		{Secrets{given: []string{"etcd"}, broken: "secret default/demo-sa lacks tls.key"},
			[]string{"secret default/demo-sa lacks tls.key", "Secrets that only the user can give are missing, for etcd"}},
	} {
		if got := test.secrets.lacking(); !slices.Equal(got, test.want) {
			t.Errorf("says %q, want %q", got, test.want)
		}
	}
}

// TestSecretsFresh: what a person must give is looked for at once, what is ours to make a few times a minute, and what is well rarely.
func TestSecretsFresh(t *testing.T) {
	made := certs.Kubeconfig{Exists: true}
	for _, test := range []struct {
		what             string
		of               Secrets
		new, initialized bool
		want             time.Duration
	}{
		{"all is there", Secrets{Kubeconfig: made}, false, true, SlowTime},
		{"all is there, and nothing is left to do", Secrets{Kubeconfig: made}, false, true, SlowAtRest},
		{"nothing is left to do, and the user has not given all", Secrets{Kubeconfig: made, given: []string{"etcd"}}, false, true, SlowMissing},
		{"the user has not given all", Secrets{Kubeconfig: made, given: []string{"etcd"}}, true, false, SlowMissing},
		{"what was given is broken", Secrets{Kubeconfig: made, broken: "no key"}, true, false, SlowMissing},
		{"authorities are to be made", Secrets{Missing: []string{"ca"}}, false, false, SlowOurs},
		{"authorities are to be made, and the first machine is", Secrets{Missing: []string{"ca"}}, true, true, SlowOurs},
		{"authorities of a cluster that runs are lost", Secrets{Kubeconfig: made, Missing: []string{"ca"}}, false, true, SlowMissing},
		{"the kubeconfig is to be made", Secrets{}, false, false, SlowOurs},
		{"the kubeconfig is the user's to make, who keeps the key", Secrets{keyless: []string{"ca"}}, false, true, SlowMissing},
	} {
		turn := observing(grouptest.Object())
		turn.Facts.Group.New, turn.Facts.Group.Initialized = test.new, test.initialized
		turn.Memory.Rests = strings.Contains(test.what, "nothing is left to do")
		test.of.of, test.of.Read = "same", turn.Facts.Now
		turn.Facts.Now = test.of.Read.Add(test.want - time.Nanosecond)
		if !test.of.fresh(turn, "same") {
			t.Errorf("%s: looked for again before %s", test.what, test.want)
		}
		if test.of.fresh(turn, "other") {
			t.Errorf("%s: believed of another object", test.what)
		}
		turn.Facts.Now = test.of.Read.Add(test.want)
		if test.of.fresh(turn, "same") {
			t.Errorf("%s: believed for more than %s", test.what, test.want)
		}
	}
}
