package stacked

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
)

// sleepBackup is the backup from which the control plane of these tests wakes.
const sleepBackup = "20261127t170312z-x7k2p"

// workerName is the name of the worker's Machine.
const workerName = "worker-1"

// hibernatable gives the control plane backups, and the cluster a MachineDeployment with a worker.
func (w *world) hibernatable() {
	w.t.Helper()
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Backup = &controlplanev1.BackupSpec{StoreRef: controlplanev1.BackupStoreReference{Name: "bucket"}, Schedule: "@daily"}
		kcp.Annotations[controlplanev1.BackupIdentityAnnotation] = "u1"
	})
	of := map[string]string{clusterv1.ClusterNameLabel: clusterKey.Name}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-md-0", Labels: of}}
	md.Spec.ClusterName, md.Spec.Replicas = clusterKey.Name, ptr.To[int32](3)
	worker := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: workerName, Labels: of}}
	worker.Spec.ClusterName = clusterKey.Name
	for _, o := range []client.Object{md, worker} {
		if err := w.client.Create(context.Background(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// power sets what the user wants.
func (w *world) power(state controlplanev1.PowerState) {
	w.t.Helper()
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.PowerState = state })
}

// deployment reads the MachineDeployment: its replicas, and those that are kept.
func (w *world) deployment() (int32, string) {
	w.t.Helper()
	md := &clusterv1.MachineDeployment{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "demo-md-0"}, md); err != nil {
		w.t.Fatal(err)
	}
	return ptr.Deref(md.Spec.Replicas, -1), md.Annotations[controlplanev1.HibernatedReplicasAnnotation]
}

// workersGo ends the workers.
func (w *world) workersGo() {
	w.t.Helper()
	if err := w.client.Delete(context.Background(), w.machine(workerName)); err != nil {
		w.t.Fatal(err)
	}
}

// backedUp has a backup noted that was taken now.
func (w *world) backedUp() {
	w.t.Helper()
	w.verified(observe.VerifiedBackup{Store: "BackupStore/bucket", UID: "u1", Name: sleepBackup, Taken: time.Now().Truncate(time.Second)})
}

// fallsSilent lets nothing answer at the endpoint any more, nor any member.
func (w *world) fallsSilent() {
	defer w.locked()()
	w.members = nil
	w.view.Reachable, w.view.Why = false, "connection refused"
	w.view.FailingSince, w.view.SilentSince = time.Now(), time.Now()
}

// controlPlaneMachines are the names of the Machines without the worker.
func (w *world) isHibernated() bool {
	c := conditions.Get(w.kcp(), controlplanev1.HibernatedCondition)
	return c != nil && c.Status == metav1.ConditionTrue
}

// TestHibernation: workers go, a backup is taken, all machines go, and the control plane is made again from that backup.
func TestHibernation(t *testing.T) {
	rest := start(t, 3)
	synctest.Test(t, func(t *testing.T) { hibernatesAndWakes(t, rest.world(t)) })
}

func hibernatesAndWakes(t *testing.T, w *world) {
	w.hibernatable()
	w.settle()
	time.Sleep(time.Minute)
	w.backedUp() // before it is asked for: it does not count
	w.power(controlplanev1.PowerHibernated)
	if p := w.settle(); p.Reason != "Hibernating" || !strings.Contains(p.Message, workerName) {
		t.Fatalf("with a worker: %+v", p)
	}
	if now, kept := w.deployment(); now != 0 || kept != "3" {
		t.Errorf("the MachineDeployment has %d replicas, %q are kept", now, kept)
	}
	time.Sleep(time.Minute)
	w.workersGo()
	if p := w.step(); p.Reason != "Hibernating" || !strings.Contains(p.Message, "waiting for a verified backup") {
		t.Fatalf("without a backup: %+v", p)
	}
	if w.required() == "" || len(w.machines()) != 3 {
		t.Fatalf("required %q, machines %v", w.required(), w.machineNames())
	}
	time.Sleep(2 * time.Second)
	w.backedUp()
	old := w.machineNames()
	if p := w.step(); p.Reason != "Hibernating" || !strings.Contains(p.Message, "infrastructure") {
		t.Fatalf("with a backup: %+v", p)
	}
	for _, name := range old {
		if m := w.machine(name); m.DeletionTimestamp.IsZero() || strings.Contains(strings.Join(keys(m.Annotations), " "), "pre-terminate") {
			t.Errorf("%s: deleted %v, %v", name, m.DeletionTimestamp, m.Annotations)
		}
	}
	w.fallsSilent()
	w.bury()
	p := w.settle()
	if p.Reason != "Hibernated" || !strings.Contains(p.Message, sleepBackup) || len(w.machines()) != 0 || !w.isHibernated() {
		t.Fatalf("without machines: %+v, %v, hibernated %t", p, w.machineNames(), w.isHibernated())
	}
	time.Sleep(24 * time.Hour)
	w.use(w.client) // another process
	if p := w.settle(); p.Reason != "Hibernated" {
		t.Fatalf("a day later: %+v", p)
	}
	wakes(t, w, old)
}

// wakes has the hibernated control plane run again.
func wakes(t *testing.T, w *world, old []string) {
	w.power(controlplanev1.PowerRunning)
	if p := w.settle(); p.Reason != "Waking" {
		t.Fatalf("to run again: %+v", p)
	}
	r := w.seeksSeed()
	if r.Spec.Backup != sleepBackup || r.Spec.StoreRef.Name != "bucket" || !slices.Equal(r.Spec.GiveUp, old) || r.Spec.ClusterName != "demo" {
		t.Errorf("the recovery is %+v", r.Spec)
	}
	if p := w.settle(); p.Reason != "RecoverySeeding" || len(w.machines()) != 1 {
		t.Fatalf("with a seed: %+v, %v", p, w.machineNames())
	}
	seeded := w.machineNames()[0]
	w.isSeeded(r, seeded)
	w.appear(seeded)
	time.Sleep(time.Minute)
	if p := w.settle(); p.Reason != "Joining" || len(w.machines()) != 3 {
		t.Fatalf("when it serves: %+v, %v", p, w.machineNames())
	}
	if !slices.Equal(w.droppedNodes, old) {
		t.Errorf("the Nodes of %v were deleted, want those of %v", w.droppedNodes, old)
	}
	if now, kept := w.deployment(); now != 0 || kept != "3" {
		t.Errorf("before the control plane is whole the MachineDeployment has %d replicas, %q are kept", now, kept)
	}
	w.live()
	if now, kept := w.deployment(); now != 3 || kept != "" {
		t.Errorf("after it the MachineDeployment has %d replicas, %q are kept", now, kept)
	}
	if text := w.kcp().Annotations[controlplanev1.HibernationAnnotation]; text != "" || w.isHibernated() {
		t.Errorf("after it the annotation is %q, hibernated %t", text, w.isHibernated())
	}
}

// seeksSeed does what the controller of recoveries does with the recovery that was made, and returns that.
func (w *world) seeksSeed() *backupv1alpha1.EtcdRecovery {
	w.t.Helper()
	r := &backupv1alpha1.EtcdRecovery{}
	key := client.ObjectKey{Namespace: "default", Name: "demo-cp-wake-" + sleepBackup}
	if err := w.client.Get(context.Background(), key, r); err != nil {
		w.t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, backupv1alpha1.RecoverySeedAnnotation,
		`{"backup":"`+sleepBackup+`","revision":7,"size":9,"sha256":"abcd"}`)
	if err := w.client.Update(context.Background(), r); err != nil {
		w.t.Fatal(err)
	}
	seed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: observe.SeedSecretName(r)}, Data: map[string][]byte{
		corev1.TLSCertKey: []byte("certificate"), observe.SeedTokenKey: []byte(seedToken), observe.SeedAddressKey: []byte("172.29.0.1:9445"),
	}}
	if err := w.client.Create(context.Background(), seed); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// TestHibernationCancelled: a control plane that is to run again before a machine was let go stays as it is, and its workers come back.
func TestHibernationCancelled(t *testing.T) {
	rest := start(t, 3)
	synctest.Test(t, func(t *testing.T) {
		w := rest.world(t)
		w.hibernatable()
		w.power(controlplanev1.PowerHibernated)
		w.settle()
		w.power("")
		w.live()
		if now, kept := w.deployment(); now != 3 || kept != "" || len(w.machines()) != 4 {
			t.Errorf("the MachineDeployment has %d replicas, %q are kept; machines %v", now, kept, w.machineNames())
		}
		if text := w.kcp().Annotations[controlplanev1.HibernationAnnotation]; text != "" {
			t.Errorf("the annotation is %q", text)
		}
	})
}

// TestHibernationOfTopology: of a MachineDeployment whose number the Cluster's topology names, that number is scaled, because Cluster API
// would undo another; of one without a number, its own. Numbers that somebody set meanwhile stay.
func TestHibernationOfTopology(t *testing.T) {
	rest := start(t, 3)
	synctest.Test(t, func(t *testing.T) {
		w := rest.world(t)
		w.hibernatable()
		w.hasTopology()
		w.power(controlplanev1.PowerHibernated)
		w.settle()
		wants := func(when string, want ...string) {
			t.Helper()
			if got := w.numbers(); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		wants("hibernating", "a=0 b=nil c=0", "a=2", "demo-a 2 []", "demo-b 0 [4]", "demo-c 0 []", "demo-md-0 0 [3]")
		w.changesCluster(func(c *clusterv1.Cluster) { c.Spec.Topology.Workers.MachineDeployments[2].Replicas = ptr.To[int32](7) })
		w.settle()
		wants("one is scaled up meanwhile", "a=0 b=nil c=0", "a=2,c=7", "demo-a 2 []", "demo-b 0 [4]", "demo-c 0 []", "demo-md-0 0 [3]")
		w.changesCluster(func(c *clusterv1.Cluster) { c.Spec.Topology.Workers.MachineDeployments[2].Replicas = ptr.To[int32](5) })
		w.power(controlplanev1.PowerRunning)
		w.settle()
		wants("running", "a=2 b=nil c=5", "", "demo-a 2 []", "demo-b 4 []", "demo-c 0 []", "demo-md-0 3 []")
	})
}

// hasTopology gives the cluster a topology with three MachineDeployments: a and c with numbers, b without.
func (w *world) hasTopology() {
	w.t.Helper()
	w.changesCluster(func(c *clusterv1.Cluster) {
		c.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{
			{Name: "a", Replicas: ptr.To[int32](2)}, {Name: "b"}, {Name: "c", Replicas: ptr.To[int32](0)},
		}
	})
	for name, replicas := range map[string]int32{"a": 2, "b": 4, "c": 0} {
		md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-" + name, Labels: map[string]string{
			clusterv1.ClusterNameLabel: clusterKey.Name, clusterv1.ClusterTopologyMachineDeploymentNameLabel: name,
		}}}
		md.Spec.ClusterName, md.Spec.Replicas = clusterKey.Name, &replicas
		if err := w.client.Create(context.Background(), md); err != nil {
			w.t.Fatal(err)
		}
	}
}

// changesCluster changes the Cluster.
func (w *world) changesCluster(change func(*clusterv1.Cluster)) {
	w.t.Helper()
	c := &clusterv1.Cluster{}
	if err := w.client.Get(context.Background(), clusterKey, c); err != nil {
		w.t.Fatal(err)
	}
	change(c)
	if err := w.client.Update(context.Background(), c); err != nil {
		w.t.Fatal(err)
	}
}

// numbers are those of the topology, what the Cluster keeps, and those of each MachineDeployment with what it keeps.
func (w *world) numbers() []string {
	w.t.Helper()
	c, list := &clusterv1.Cluster{}, &clusterv1.MachineDeploymentList{}
	if err := w.client.Get(context.Background(), clusterKey, c); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.List(context.Background(), list); err != nil {
		w.t.Fatal(err)
	}
	var named []string
	for _, d := range c.Spec.Topology.Workers.MachineDeployments {
		number := "nil"
		if d.Replicas != nil {
			number = strconv.Itoa(int(*d.Replicas))
		}
		named = append(named, d.Name+"="+number)
	}
	all := []string{strings.Join(named, " "), c.Annotations[controlplanev1.HibernatedReplicasAnnotation]}
	for _, d := range list.Items {
		var kept []string
		if text := d.Annotations[controlplanev1.HibernatedReplicasAnnotation]; text != "" {
			kept = append(kept, text)
		}
		all = append(all, fmt.Sprintf("%s %d %v", d.Name, ptr.Deref(d.Spec.Replicas, -1), kept))
	}
	return all
}

// TestHibernationRefused: a cluster that could not wake, or whose workers cannot be scaled, is not hibernated, and the message says why.
func TestHibernationRefused(t *testing.T) {
	rest := start(t, 3)
	for why, change := range map[string]func(*world){
		"spec.backup is missing": func(w *world) {
			w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Backup = nil })
		},
		"delete demo-pool": func(w *world) {
			pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-pool",
				Labels: map[string]string{clusterv1.ClusterNameLabel: clusterKey.Name}}}
			if err := w.client.Create(context.Background(), pool); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := rest.world(t)
				w.hibernatable()
				change(w)
				w.power(controlplanev1.PowerHibernated)
				if p := w.settle(); p.Reason != "HibernationRefused" || !strings.Contains(p.Message, why) {
					t.Errorf("%+v", p)
				}
				if now, kept := w.deployment(); now != 3 || kept != "" {
					t.Errorf("the MachineDeployment has %d replicas, %q are kept", now, kept)
				}
			})
		})
	}
}
