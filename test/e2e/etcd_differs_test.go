//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// etcdDiffers: the data of one member are changed on its disk. It is named once the members are compared, no machine joins meanwhile, and
// when a person has its machine replaced all members have the same data again, those that were acknowledged.
func etcdDiffers(t *testing.T, e *environment) {
	const name, right, wrong = "differs", "as-it-was-written", "AS-IT-WAS-WRITTEN"
	e.up(t, name, "--replicas", "3")
	e.restsAsWanted(t, name)
	c, _ := e.workload(t, name)
	marker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "marker"}, Data: map[string]string{"x": right}}
	if _, err := c.CoreV1().ConfigMaps("default").Create(context.Background(), marker, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leader := e.leader(t, e.machines(t, name))
	followers := slices.DeleteFunc(e.machines(t, name), func(m string) bool { return m == leader })
	ill, other := followers[0], followers[1]
	e.changesData(t, ill, right, wrong)
	eventually(t, "quorate etcd compare names "+ill, patience, func() string {
		out, err := e.try("etcd", "compare", name)
		said := fmt.Sprintf("%s %v", out, err)
		if !strings.Contains(said, "the data differ at revision ") || !strings.Contains(said, ill) {
			return said
		}
		t.Log(said)
		return ""
	})
	e.restsAsWanted(t, name)

	e.quorate(t, "replace", other, "--yes", "--timeout", "10m") // members are compared when others have come
	took := eventually(t, "the condition names "+ill, patience, func() string {
		c := conditions.Get(e.controlPlane(t, name), controlplanev1.EtcdDataConsistentCondition)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, ill) {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	t.Logf("FIGURE a member whose data differ is named %.1f s after a change of the members", took.Seconds())

	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To[int32](5) })
	eventually(t, "no machine joins", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason != "EtcdDataDiffers" || !strings.Contains(p.Message, "quorate replace "+ill) {
			return p.Message
		}
		return ""
	})
	if n := len(e.machines(t, name)); n != 3 {
		t.Errorf("there are %d machines, although data differ", n)
	}
	start := time.Now()
	t.Log(e.quorate(t, "replace", ill, "--yes", "--timeout", "15m"))
	e.restsAsWanted(t, name)
	t.Logf("FIGURE its machine is replaced, and five of five serve, after %.1f s", time.Since(start).Seconds())
	eventually(t, "all voters have the same data", patience, func() string {
		c := conditions.Get(e.controlPlane(t, name), controlplanev1.EtcdDataConsistentCondition)
		if c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	if out := e.quorate(t, "etcd", "compare", name); !strings.Contains(out, "all voters have the same data at revision ") {
		t.Errorf("compared: %s", out)
	}
	got, err := c.CoreV1().ConfigMaps("default").Get(context.Background(), "marker", metav1.GetOptions{})
	if err != nil || got.Data["x"] != right {
		t.Errorf("the marker is %v: %v", got, err)
	}
	e.takeDown(t, name)
}

// changesData changes a value in the data of the etcd member on a machine, which stops for that. It starts again without the check by which
// kubeadm's etcd would notice: data change while etcd runs as well.
func (e *environment) changesData(t *testing.T, machine, from, to string) {
	t.Helper()
	e.quorate(t, "shell", machine, "--", "mv", "/etc/kubernetes/manifests/etcd.yaml", "/root/")
	path := filepath.Join(e.state, "machines", machine, "disk/var/lib/etcd/member/snap/db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: 5 * time.Minute}) // etcd has a lock on it until it has stopped
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string][]byte{}
	if err := db.Update(func(tx *bolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		if err := keys.ForEach(func(k, v []byte) error {
			if bytes.Contains(v, []byte(from)) {
				changed[string(k)] = bytes.ReplaceAll(v, []byte(from), []byte(to))
			}
			return nil
		}); err != nil {
			return err
		}
		for k, v := range changed {
			if err := keys.Put([]byte(k), v); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil || len(changed) == 0 {
		t.Fatalf("%d values were changed: %v", len(changed), err)
	}
	e.quorate(t, "shell", machine, "--", "sed", "-i", "s/InitialCorruptCheck=true/InitialCorruptCheck=false/", "/root/etcd.yaml")
	e.quorate(t, "shell", machine, "--", "mv", "/root/etcd.yaml", "/etc/kubernetes/manifests/")
}
