package provider

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// importScene is a scene with two Machines on local machines, a third elsewhere, and images as files.
func importScene(t *testing.T) (*scene, *importer) {
	t.Helper()
	machine := func(name, kind string) *clusterv1.Machine {
		return &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: clusterv1.MachineSpec{ClusterName: "one", InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name + "-infra",
			}},
		}
	}
	dir := t.TempDir()
	upgrader, etcd := filepath.Join(dir, "upgrader.tar"), filepath.Join(dir, "etcd.tar")
	for _, file := range []string{upgrader, etcd} {
		if err := os.WriteFile(file, []byte(filepath.Base(file)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newScene(t,
		machine("m1", "LocalMachine"), machine("m2", "LocalMachine"), machine("m3", "DockerMachine"),
		&upgradev1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "u1"}, Spec: upgradev1.NodeUpgradeSpec{
			Machine: upgradev1.MachineReference{Name: "m1"}, KubernetesVersion: "v1.36.3",
		}},
		&upgradev1.ControlPlaneUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"}, Spec: upgradev1.ControlPlaneUpgradeSpec{
			MachinesRequireUpgrade: []upgradev1.MachineReference{{Name: "m1"}, {Name: "m2"}, {Name: "m3"}, {Name: "gone"}},
			KubernetesVersion:      "v1.36.3",
		}},
	)
	s.host.all["m1-infra"], s.host.all["m2-infra"] = &sandbox.Status{}, &sandbox.Status{}
	o := Options{
		Artifacts: func(_ context.Context, version string) (*artifacts.Set, error) {
			return &artifacts.Set{Kubernetes: version, Images: []string{etcd}}, nil
		},
		Upgrader: func(context.Context, *artifacts.Set) (string, error) { return upgrader, nil },
	}
	i := newImporter(s.host, newBuilds(o.upgradeSet(t.Context()), func() {}))
	eventually(t, "the images are built", func() bool { set, err := i.builds.get("v1.36.3"); return set != nil && err == nil })
	return s, i
}

func (s *scene) reconcileImages(i *importer) (ctrl.Result, *upgradev1.NodeUpgrade) {
	s.t.Helper()
	key := client.ObjectKey{Namespace: "default", Name: "u1"}
	result, err := (&imagesReconciler{client: s.client, live: s.client, importer: i}).Reconcile(s.t.Context(),
		ctrl.Request{NamespacedName: key})
	if err != nil {
		s.t.Fatal(err)
	}
	u := &upgradev1.NodeUpgrade{}
	if err := s.client.Get(s.t.Context(), key, u); err != nil {
		s.t.Fatal(err)
	}
	return result, u
}

// TestImagesForANodeUpgrade: its machine gets the upgrader and the version's images, once, and its condition says so.
func TestImagesForANodeUpgrade(t *testing.T) {
	s, i := importScene(t)
	s.host.refusing = errors.New("no room")
	result, u := s.reconcileImages(i)
	c := conditions.Get(u, upgradev1.ImagesAvailable)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != imagesFailed || !strings.Contains(c.Message, "no room") ||
		result.RequeueAfter == 0 {
		t.Errorf("an import that fails: %+v, %+v", c, result)
	}
	s.host.refusing = nil
	if _, u = s.reconcileImages(i); !conditions.IsTrue(u, upgradev1.ImagesAvailable) {
		t.Errorf("%+v", u.Status.Conditions)
	}
	ran := s.host.ran["m1-infra"]
	slices.Sort(ran)
	slices.Reverse(ran) // several are brought at a time
	if len(ran) != 2 || !strings.HasSuffix(ran[0], "--label io.cri-containerd.pinned=pinned - < upgrader.tar") ||
		!strings.HasSuffix(ran[1], "< etcd.tar") {
		t.Errorf("%q", ran)
	}
	writes := s.writes
	if _, _ = s.reconcileImages(i); len(s.host.ran["m1-infra"]) != 2 || s.writes != writes {
		t.Errorf("once more: %q, %d writes", s.host.ran["m1-infra"], s.writes-writes)
	}
}

// TestImagesForAMachineOfTheSameName: a cluster that is made again gets images for its machines as the one before did.
func TestImagesForAMachineOfTheSameName(t *testing.T) {
	s, i := importScene(t)
	s.reconcileImages(i)
	again := &upgradev1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "u1"}}
	m := &clusterv1.Machine{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "m1"}, m); err != nil {
		t.Fatal(err)
	}
	again.Spec = upgradev1.NodeUpgradeSpec{Machine: upgradev1.MachineReference{Name: "m1"}, KubernetesVersion: "v1.36.3"}
	if err := errors.Join(s.client.Delete(t.Context(), m), s.client.Delete(t.Context(), again.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	m.ResourceVersion, m.UID = "", "another"
	if err := errors.Join(s.client.Create(t.Context(), m), s.client.Create(t.Context(), again)); err != nil {
		t.Fatal(err)
	}
	if _, u := s.reconcileImages(i); !conditions.IsTrue(u, upgradev1.ImagesAvailable) || len(s.host.ran["m1-infra"]) != 4 {
		t.Errorf("%q, %+v", s.host.ran, u.Status.Conditions)
	}
}

// TestTheUpgraderFirst: its image is brought before the others, and said to be there although they are not.
func TestTheUpgraderFirst(t *testing.T) {
	s, i := importScene(t)
	s.host.onExec = func(name string) {
		if len(s.host.ran[name]) > 0 {
			s.host.refusing = errors.New("no room")
		}
	}
	_, u := s.reconcileImages(i)
	if !conditions.IsTrue(u, upgradev1.UpgraderAvailable) || conditions.GetReason(u, upgradev1.ImagesAvailable) != imagesFailed {
		t.Errorf("%+v", u.Status.Conditions)
	}
	if ran := s.host.ran["m1-infra"]; len(ran) != 1 || !strings.HasSuffix(ran[0], "< upgrader.tar") {
		t.Errorf("%q", ran)
	}
	s.host.refusing, s.host.onExec = nil, nil
	if _, u = s.reconcileImages(i); !conditions.IsTrue(u, upgradev1.UpgraderAvailable) || !conditions.IsTrue(u, upgradev1.ImagesAvailable) {
		t.Errorf("%+v", u.Status.Conditions)
	}
}

// TestImagesWhileTheUpgradeGoesOn: who carries it out writes its status meanwhile. Nothing of that is lost, and no image is brought twice.
func TestImagesWhileTheUpgradeGoesOn(t *testing.T) {
	s, i := importScene(t)
	s.host.onExec = func(string) {
		u := &upgradev1.NodeUpgrade{}
		if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "u1"}, u); err != nil {
			t.Error(err)
		}
		u.Status.Attempts = ptr.To(ptr.Deref(u.Status.Attempts, 0) + 1)
		if err := s.client.Status().Update(t.Context(), u); err != nil {
			t.Error(err)
		}
	}
	_, u := s.reconcileImages(i)
	if !conditions.IsTrue(u, upgradev1.UpgraderAvailable) || !conditions.IsTrue(u, upgradev1.ImagesAvailable) || *u.Status.Attempts != 2 ||
		len(s.host.ran["m1-infra"]) != 2 {
		t.Errorf("%+v after %q", u.Status, s.host.ran)
	}
}

// TestImagesNotOurs: what is done, or on machines of others, gets nothing.
func TestImagesNotOurs(t *testing.T) {
	for name, change := range map[string]func(*upgradev1.NodeUpgrade){
		"another provider": func(u *upgradev1.NodeUpgrade) { u.Spec.Machine.Name = "m3" },
		"no Machine":       func(u *upgradev1.NodeUpgrade) { u.Spec.Machine.Name = "gone" },
		"completed":        func(u *upgradev1.NodeUpgrade) { u.Status.Completed = ptr.To(true) },
	} {
		s, i := importScene(t)
		u := &upgradev1.NodeUpgrade{}
		if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "u1"}, u); err != nil {
			t.Fatal(err)
		}
		change(u)
		status := u.Status
		if err := s.client.Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		u.Status = status
		if err := s.client.Status().Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		if _, u = s.reconcileImages(i); conditions.Get(u, upgradev1.ImagesAvailable) != nil || len(s.host.ran) > 0 {
			t.Errorf("%s: %+v, %v", name, u.Status.Conditions, s.host.ran)
		}
	}
}

// TestImagesNotBuilt: the condition says why.
func TestImagesNotBuilt(t *testing.T) {
	s, _ := importScene(t)
	release := make(chan struct{})
	i := newImporter(s.host, newBuilds(func(string) (*artifacts.Set, error) { <-release; return nil, errors.New("no compiler") }, func() {}))
	if result, u := s.reconcileImages(i); conditions.GetReason(u, upgradev1.ImagesAvailable) != imagesBuilding || result.RequeueAfter == 0 {
		t.Errorf("%+v, %+v", u.Status.Conditions, result)
	}
	close(release)
	eventually(t, "the build has failed", func() bool { _, err := i.builds.get("v1.36.3"); return err != nil })
	if result, u := s.reconcileImages(i); conditions.GetReason(u, upgradev1.ImagesAvailable) != imagesNotBuilt || result.RequeueAfter == 0 {
		t.Errorf("%+v, %+v", u.Status.Conditions, result)
	}
}

// TestImagesAhead: all local machines of an upgrade get images before their turn, and none when all is done.
func TestImagesAhead(t *testing.T) {
	s, i := importScene(t)
	key := client.ObjectKey{Namespace: "default", Name: "all"}
	r := &aheadReconciler{client: s.client, importer: i, read: readControlPlaneUpgrade}
	reconcile := func() ctrl.Result {
		t.Helper()
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := reconcile(); len(s.host.ran) != 0 || result.RequeueAfter == 0 {
		t.Errorf("the first has not its own yet: %v, %+v", s.host.ran, result)
	}
	s.reconcileImages(i)
	reconcile()
	if len(s.host.ran["m1-infra"]) != 2 || len(s.host.ran["m2-infra"]) != 2 || len(s.host.ran) != 2 {
		t.Errorf("%v", s.host.ran)
	}
	u := &upgradev1.ControlPlaneUpgrade{}
	if err := s.client.Get(t.Context(), key, u); err != nil {
		t.Fatal(err)
	}
	u.Status.Ready = ptr.To(true)
	if err := s.client.Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	clear(s.host.ran)
	i.has = map[recipient]map[string]bool{}
	if reconcile(); len(s.host.ran) != 0 {
		t.Errorf("all are upgraded: %v", s.host.ran)
	}
}

// TestProxyImageForOtherMachines: kube-proxy becomes the new version on all machines of the cluster at once, so that those whose turn comes
// later, or never, get its image, and no other.
func TestProxyImageForOtherMachines(t *testing.T) {
	s, i := importScene(t)
	set, err := i.builds.get("v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	proxy := filepath.Join(t.TempDir(), artifacts.ImageFile("kube-proxy"))
	if err := os.WriteFile(proxy, []byte("kube-proxy.tar"), 0o600); err != nil {
		t.Fatal(err)
	}
	set.Images = append(set.Images, proxy)
	worker := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "worker",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "one"}}}
	worker.Spec = clusterv1.MachineSpec{ClusterName: "one", InfrastructureRef: clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group, Kind: "LocalMachine", Name: "worker-infra",
	}}
	strange := worker.DeepCopy()
	strange.Name, strange.Labels[clusterv1.ClusterNameLabel], strange.Spec.InfrastructureRef.Name = "strange", "two", "strange-infra"
	s.host.all["worker-infra"], s.host.all["strange-infra"] = &sandbox.Status{}, &sandbox.Status{}
	all := &upgradev1.ControlPlaneUpgrade{}
	key := client.ObjectKey{Namespace: "default", Name: "all"}
	if err := errors.Join(s.client.Create(t.Context(), worker), s.client.Create(t.Context(), strange),
		s.client.Get(t.Context(), key, all)); err != nil {
		t.Fatal(err)
	}
	all.Labels = map[string]string{clusterv1.ClusterNameLabel: "one"}
	if err := s.client.Update(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	s.reconcileImages(i)
	if _, err := (&aheadReconciler{client: s.client, importer: i, read: readControlPlaneUpgrade}).Reconcile(t.Context(),
		ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if ran := s.host.ran["worker-infra"]; len(ran) != 1 || !strings.HasSuffix(ran[0], "< kube-proxy.tar") ||
		len(s.host.ran["m2-infra"]) != 3 || len(s.host.ran["strange-infra"]) > 0 {
		t.Errorf("%q", s.host.ran)
	}
}

// TestImagesOfWhoWaitsComeFirst: while a machine waits for its images, none are brought ahead to another; afterwards they are.
func TestImagesOfWhoWaitsComeFirst(t *testing.T) {
	s, i := importScene(t)
	set, err := i.builds.get("v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	var began []string
	s.host.onExec = func(name string) {
		began = append(began, name)
		waits := name == "m1-infra"
		// Who brings images ahead needs the turn for itself; another machine that waits does not.
		if i.turn.TryLock() {
			i.turn.Unlock()
			t.Errorf("%s: images could be brought ahead to another", name)
		}
		if others := i.turn.TryRLock(); others {
			i.turn.RUnlock()
			if !waits {
				t.Error("images are brought ahead beside those of a machine that waits")
			}
		} else if waits {
			t.Error("two machines that wait do not get images at once")
		}
	}
	if err := errors.Join(i.bring(t.Context(), recipient{name: "m1-infra"}, set, func() error { return nil }),
		i.bringAhead(t.Context(), recipient{name: "m1-infra"}, set), i.bringAhead(t.Context(), recipient{name: "m2-infra"}, set)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"m1-infra", "m1-infra", "m2-infra", "m2-infra"}; !slices.Equal(began, want) {
		t.Errorf("images are brought to %v, want %v", began, want)
	}
	if !i.turn.TryLock() {
		t.Error("the turn is still taken")
	}
}

// TestLocalMachinesSayThatImagesAreBrought: by an annotation, where that is so.
func TestLocalMachinesSayThatImagesAreBrought(t *testing.T) {
	for _, prepares := range []bool{true, false} {
		s := newScene(t, life("alpha", "one")...)
		s.cluster("alpha")
		s.machines.preparesImages = prepares
		lm := s.machine("one")
		if _, said := lm.Annotations[upgradev1.PrepareAnnotation]; said != prepares {
			t.Errorf("prepares %t: %v", prepares, lm.Annotations)
		}
	}
}
