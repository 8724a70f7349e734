//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// decides: a machine is not known any more, because its Machine lost its labels and its owner, and its member answers and votes. A decision
// that was taken for other facts removes nobody and is taken away; `quorate decide` shows the choice, and by it the member leaves and
// another machine comes.
func decides(t *testing.T, e *environment) {
	const name = "decide"
	e.up(t, name, "--replicas", "3")
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	known := e.machines(t, name)
	lost := known[2]
	c := e.management(t)
	m := &clusterv1.Machine{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: lost}, m); err != nil {
		t.Fatal(err)
	}
	labelless := m.DeepCopy()
	delete(labelless.Labels, clusterv1.MachineControlPlaneLabel)
	delete(labelless.Labels, clusterv1.MachineControlPlaneNameLabel)
	labelless.OwnerReferences = nil // while it has its owner, Quorate gives it its labels back
	if err := c.Patch(t.Context(), labelless, client.MergeFrom(m)); err != nil {
		t.Fatal(err)
	}
	e.saysOfMember(t, name, lost)

	e.decidesFor(t, name, lost, "0123456789abcdef")
	eventually(t, "a decision for other facts is taken away", patience, func() string {
		annotations := e.controlPlane(t, name).Annotations
		if annotations[controlplanev1.DecisionPrefix+"0123456789abcdef"] != "" {
			return fmt.Sprint(annotations)
		}
		return ""
	})
	if voters, err := e.voters(known[0]); err != nil || !slices.Contains(voters, lost) {
		t.Fatalf("a decision for other facts: voters are %v, %v", voters, err)
	}
	if out := e.quorate(t, "decide", name); !strings.Contains(out, "quorate decide "+name+" remove-voter "+lost) {
		t.Errorf("the choice is not shown:\n%s", out)
	}

	start := time.Now()
	e.quorate(t, "decide", name, "remove-voter", lost, "--yes")
	eventually(t, "the member has left", patience, func() string {
		if voters, err := e.voters(known[0]); err != nil || slices.Contains(voters, lost) {
			return fmt.Sprintf("voters are %v, %v", voters, err)
		}
		return ""
	})
	t.Logf("FIGURE a voter of no known machine, from the decision until it has left: %.1f s", time.Since(start).Seconds())
	eventually(t, "three voters on known machines", patience, e.quorumOf(t, name, 3))
	t.Logf("FIGURE the same, until there are three voters on known machines: %.1f s", time.Since(start).Seconds())
	if now := e.machines(t, name); slices.Contains(now, lost) {
		t.Errorf("machines are %v", now)
	}
	for _, want := range []string{"remove-voter", "decided by", "RemoveMember", "DropChoice"} {
		if out := e.quorate(t, "history", name); !strings.Contains(out, want) {
			t.Errorf("the history has no %q:\n%s", want, out)
		}
	}
	released := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+machine.Hook+`":null}}}`))
	if err := c.Patch(t.Context(), labelless, released); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), labelless); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the machine without labels is gone", patience, func() string {
		err := c.Get(context.Background(), client.ObjectKeyFromObject(labelless), &clusterv1.Machine{})
		if client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Sprint(err)
		}
		return ""
	})
	e.hasNothingToDo(t, name)
	e.takeDown(t, name)
}

// decidesFor writes a decision about a member by hand, with a digest of other facts.
func (e *environment) decidesFor(t *testing.T, name, of, digest string) {
	t.Helper()
	members, err := e.members(e.machines(t, name)[0])
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.Name == of })
	if i < 0 {
		t.Fatalf("etcd has the members %v, and none is %s", members, of)
	}
	kcp := e.controlPlane(t, name)
	value := fmt.Sprintf("remove-voter %x %s", members[i].ID, of)
	patch := `{"metadata":{"annotations":{"` + controlplanev1.DecisionPrefix + digest + `":"` + value + `"}}}`
	if err := e.management(t).Patch(t.Context(), kcp, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}
