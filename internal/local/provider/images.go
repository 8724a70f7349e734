package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// Reasons of the condition ImagesAvailable of a NodeUpgrade.
const (
	imagesImported  = "Imported"
	imagesImporting = "Importing"
	imagesBuilding  = "Building"
	imagesNotBuilt  = "NotBuilt"
	imagesFailed    = "ImportFailed"
)

// awaitBuild is how often it is looked whether images were built.
const awaitBuild = 2 * time.Second

// awaitFirst is how often it is looked whether the first machine of an upgrade has its images.
const awaitFirst = time.Second

// mostImports is how many images a machine that waits gets at a time. An import uses one processor for half of its time.
const mostImports = 2

// importer brings images to machines: local machines have no registry. It serves NodeUpgrades, and ahead of them the machines of
// the upgrades of several nodes, so that no node waits for its images.
type importer struct {
	machines machines
	// builds makes sets whose images are those of a version, and the upgrader's.
	builds *builds

	// turn is held, to read, by who brings images to a machine that waits for them, and else for each file: who waits goes first.
	turn sync.RWMutex

	mu sync.Mutex
	// has are the files that each machine was given.
	has map[recipient]map[string]bool
	// busy is held while a machine is given a file.
	busy map[given]*sync.Mutex
}

// recipient is a machine. A cluster that is created again has machines of the same names, and nothing of the earlier ones.
type recipient struct {
	// name is that of the local machine.
	name string
	// uid is that of its Machine.
	uid types.UID
}

// given is a file that a machine is given.
type given struct {
	machine recipient
	file    string
}

func newImporter(m machines, b *builds) *importer {
	return &importer{machines: m, builds: b, has: map[recipient]map[string]bool{}, busy: map[given]*sync.Mutex{}}
}

// lock keeps others from giving a machine the same file.
func (i *importer) lock(what given) (unlock func()) {
	i.mu.Lock()
	busy := i.busy[what]
	if busy == nil {
		busy = &sync.Mutex{}
		i.busy[what] = busy
	}
	i.mu.Unlock()
	busy.Lock()
	return busy.Unlock
}

// missing are the images of a set that a machine does not have, as far as is known.
func (i *importer) missing(machine recipient, set *artifacts.Set) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var files []string
	for _, file := range set.Images {
		if !i.has[machine][file] {
			files = append(files, file)
		}
	}
	return files
}

// bring has the images of a set on a machine that waits for them. Of the first, the upgrader's, it tells as soon as that is there.
func (i *importer) bring(ctx context.Context, machine recipient, set *artifacts.Set, first func() error) error {
	i.turn.RLock()
	defer i.turn.RUnlock()
	if err := i.bringFile(ctx, machine, set.Images[0]); err != nil {
		return err
	}
	if err := first(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(mostImports)
	for _, file := range set.Images[1:] {
		group.Go(func() error { return i.bringFile(ctx, machine, file) })
	}
	return group.Wait()
}

// bringAhead has the images of a set on a machine whose turn has not come, each when no machine waits for its own.
func (i *importer) bringAhead(ctx context.Context, machine recipient, set *artifacts.Set) error {
	for _, file := range set.Images {
		i.turn.Lock()
		err := i.bringFile(ctx, machine, file)
		i.turn.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// bringFile has the images of a file on a machine.
func (i *importer) bringFile(ctx context.Context, machine recipient, file string) error {
	defer i.lock(given{machine, file})()
	i.mu.Lock()
	has := i.has[machine][file]
	i.mu.Unlock()
	if has {
		return nil
	}
	if err := load(ctx, i.machines, machine.name, file); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.has[machine] == nil {
		i.has[machine] = map[string]bool{}
	}
	i.has[machine][file] = true
	return nil
}

// Import has the images of a file, in the format of `docker save`, on a machine. The kubelet does not delete them.
func Import(ctx context.Context, host *sandbox.Host, machine, file string) error {
	return load(ctx, host, machine, file)
}

// load imports one file. The label keeps the kubelet from deleting the image when the disk fills up.
func load(ctx context.Context, host machines, machine, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("importing %s into machine %s: %w", filepath.Base(file), machine, err)
	}
	defer func() { _ = f.Close() }()
	var said bytes.Buffer
	code, err := host.Exec(ctx, machine, []string{
		"ctr", "--namespace", "k8s.io", "images", "import", "--local", "--label", "io.cri-containerd.pinned=pinned", "-",
	}, sandbox.Stdio{In: f, Out: &said, Err: &said})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, end(said.String()))
	}
	if err != nil {
		return fmt.Errorf("importing %s into machine %s: %w", filepath.Base(file), machine, err)
	}
	return nil
}

// imagesReconciler brings to the node of a NodeUpgrade what that needs, and says so in its conditions UpgraderAvailable and
// ImagesAvailable.
//
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=nodeupgrades,verbs=get;list;watch
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=nodeupgrades/status,verbs=patch
type imagesReconciler struct {
	client client.Client
	// live reads without a cache.
	live     client.Reader
	importer *importer
}

// Reconcile brings the images of one NodeUpgrade to its machine.
func (r *imagesReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, req.NamespacedName)
	return result, client.IgnoreNotFound(err)
}

func (r *imagesReconciler) reconcile(ctx context.Context, key client.ObjectKey) (ctrl.Result, error) {
	u := &upgradev1.NodeUpgrade{}
	if err := r.client.Get(ctx, key, u); err != nil {
		return ctrl.Result{}, err
	}
	if !needsImages(u) {
		return ctrl.Result{}, nil
	}
	machine, err := localMachineOf(ctx, r.client, u.Namespace, u.Spec.Machine.Name)
	if err != nil || machine.name == "" {
		return ctrl.Result{}, err
	}
	set, err := r.importer.builds.get(u.Spec.KubernetesVersion)
	switch {
	case err != nil:
		return ctrl.Result{RequeueAfter: retryBuild},
			r.say(ctx, u, imagesNotBuilt, fmt.Sprintf("images of %s cannot be had: %v", u.Spec.KubernetesVersion, err))
	case set == nil:
		return ctrl.Result{RequeueAfter: awaitBuild}, r.say(ctx, u, imagesBuilding, "images of "+u.Spec.KubernetesVersion+
			" are being built, which takes minutes the first time")
	}
	return r.bring(ctx, u, machine, set)
}

// needsImages reports whether the upgrade of a node goes on, and does not know of its images yet.
func needsImages(u *upgradev1.NodeUpgrade) bool {
	return u.DeletionTimestamp.IsZero() && !ptr.Deref(u.Status.Completed, false) && !conditions.IsTrue(u, upgradev1.ImagesAvailable)
}

// bring brings images that were built to the machine of a NodeUpgrade, and tells of it.
func (r *imagesReconciler) bring(
	ctx context.Context, u *upgradev1.NodeUpgrade, machine recipient, set *artifacts.Set,
) (ctrl.Result, error) {
	if files := r.importer.missing(machine, set); len(files) > 0 {
		if err := r.say(ctx, u, imagesImporting, fmt.Sprintf("%d images are being brought to machine %s", len(files), machine.name)); err != nil {
			return ctrl.Result{}, err
		}
	}
	var unsaid error
	err := r.importer.bring(ctx, machine, set, func() error {
		unsaid = r.set(ctx, u, metav1.Condition{
			Type: upgradev1.UpgraderAvailable, Status: metav1.ConditionTrue, Reason: imagesImported, Message: "machine " + machine.name +
				" has the upgrader's image",
		})
		return unsaid
	})
	switch {
	case unsaid != nil:
		return ctrl.Result{}, unsaid
	case err != nil:
		return ctrl.Result{RequeueAfter: askAgain}, r.say(ctx, u, imagesFailed, plaintext.Shown(err.Error()))
	}
	return ctrl.Result{}, r.say(ctx, u, imagesImported, "machine "+machine.name+" has the images of "+u.Spec.KubernetesVersion)
}

// say sets the condition ImagesAvailable.
func (r *imagesReconciler) say(ctx context.Context, u *upgradev1.NodeUpgrade, reason, message string) error {
	status := metav1.ConditionFalse
	if reason == imagesImported {
		status = metav1.ConditionTrue
	}
	return r.set(ctx, u, metav1.Condition{Type: upgradev1.ImagesAvailable, Status: status, Reason: reason, Message: message})
}

// set writes a condition. The others belong to who carries the upgrade out, and who may have written one meanwhile: then it is written to
// what is there now.
func (r *imagesReconciler) set(ctx context.Context, u *upgradev1.NodeUpgrade, wanted metav1.Condition) error {
	key := client.ObjectKeyFromObject(u)
	again := false
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if again {
			if err := r.live.Get(ctx, key, u); err != nil {
				return err
			}
		}
		again = true
		if c := conditions.Get(u, wanted.Type); c != nil && c.Status == wanted.Status && c.Reason == wanted.Reason &&
			c.Message == wanted.Message {
			return nil
		}
		before := u.DeepCopy()
		conditions.Set(u, wanted)
		return r.client.Status().Patch(ctx, u, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return fmt.Errorf("writing the condition %s of NodeUpgrade %s: %w", wanted.Type, key, err)
	}
	return nil
}

// localMachineOf returns a Machine's local machine; without a name: it has none.
func localMachineOf(ctx context.Context, c client.Client, namespace, name string) (recipient, error) {
	m := &clusterv1.Machine{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, m); err != nil {
		return recipient{}, client.IgnoreNotFound(err)
	}
	ref := m.Spec.InfrastructureRef
	if ref.Kind != "LocalMachine" || ref.APIGroup != infrav1.GroupVersion.Group {
		return recipient{}, nil
	}
	return recipient{name: ref.Name, uid: m.UID}, nil
}

// aheadReconciler brings images ahead of the NodeUpgrades that will follow, to all machines of an upgrade of several nodes, in their order.
//
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=controlplaneupgrades;machinedeploymentupgrades,verbs=list;watch
type aheadReconciler struct {
	client   client.Client
	importer *importer
	// read returns what an object wants; nil: it is gone, or wants nothing any more.
	read func(ctx context.Context, c client.Client, key client.ObjectKey) (*ahead, error)
}

// ahead is which machines will need the images of a version.
type ahead struct {
	version  string
	machines []upgradev1.MachineReference
	// proxies is the cluster whose other machines need one of them: kube-proxy becomes another version on all of them when the control plane
	// has. Empty: none.
	proxies string
}

// Reconcile brings images to the machines of one upgrade.
func (r *aheadReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	wanted, err := r.read(ctx, r.client, req.NamespacedName)
	if err != nil || wanted == nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	set, err := r.importer.builds.get(wanted.version)
	if err != nil {
		return ctrl.Result{RequeueAfter: retryBuild}, nil // the NodeUpgrades say why
	}
	if set == nil {
		return ctrl.Result{RequeueAfter: awaitBuild}, nil
	}
	// Before that it would only be in the way of the first node, which need not be the first of the list.
	if served, err := r.firstServed(ctx, req.Namespace, wanted); err != nil || !served {
		return ctrl.Result{RequeueAfter: awaitFirst}, err
	}
	others, err := r.others(ctx, req.Namespace, wanted)
	if err == nil {
		err = errors.Join(r.bring(ctx, req.Namespace, wanted.machines, set), r.bring(ctx, req.Namespace, others, onlyProxy(set)))
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("bringing images of %s ahead: %w", wanted.version, err)
	}
	return ctrl.Result{}, nil
}

// onlyProxy is a set of which only the image of kube-proxy is brought.
func onlyProxy(set *artifacts.Set) *artifacts.Set {
	only := *set
	only.Images = slices.DeleteFunc(slices.Clone(set.Images),
		func(file string) bool { return filepath.Base(file) != artifacts.ImageFile("kube-proxy") })
	return &only
}

// others are the machines that need only the image of kube-proxy.
func (r *aheadReconciler) others(ctx context.Context, namespace string, wanted *ahead) ([]upgradev1.MachineReference, error) {
	if wanted.proxies == "" {
		return nil, nil
	}
	all := &clusterv1.MachineList{}
	if err := r.client.List(ctx, all, client.InNamespace(namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: wanted.proxies}); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	var others []upgradev1.MachineReference
	for _, m := range all.Items {
		if ref := (upgradev1.MachineReference{Name: m.Name}); !slices.Contains(wanted.machines, ref) {
			others = append(others, ref)
		}
	}
	return others, nil
}

// firstServed reports whether one of the machines has all images, because its turn has come.
func (r *aheadReconciler) firstServed(ctx context.Context, namespace string, wanted *ahead) (bool, error) {
	upgrades := &upgradev1.NodeUpgradeList{}
	if err := r.client.List(ctx, upgrades, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing NodeUpgrades: %w", err)
	}
	return slices.ContainsFunc(upgrades.Items, func(u upgradev1.NodeUpgrade) bool {
		return u.Spec.KubernetesVersion == wanted.version && slices.Contains(wanted.machines, u.Spec.Machine) &&
			conditions.IsTrue(&u, upgradev1.ImagesAvailable)
	}), nil
}

// bring brings images to machines, one after the other. What fails on one holds up no other.
func (r *aheadReconciler) bring(ctx context.Context, namespace string, machines []upgradev1.MachineReference, set *artifacts.Set) error {
	var failures []string
	for _, ref := range machines {
		machine, err := localMachineOf(ctx, r.client, namespace, ref.Name)
		if err == nil && machine.name != "" {
			err = r.importer.bringAhead(ctx, machine, set)
		}
		if err != nil {
			failures = append(failures, err.Error())
		}
	}
	if len(failures) > 0 {
		return errors.New(strings.Join(failures, "; "))
	}
	return nil
}

// unfinished is what an upgrade of several nodes wants while not all of them are done; else nil.
func unfinished(o client.Object, status *upgradev1.GroupUpgradeStatus, version string, machines []upgradev1.MachineReference) *ahead {
	if !o.GetDeletionTimestamp().IsZero() || ptr.Deref(status.Ready, false) {
		return nil
	}
	return &ahead{version: version, machines: machines}
}

func readControlPlaneUpgrade(ctx context.Context, c client.Client, key client.ObjectKey) (*ahead, error) {
	u := &upgradev1.ControlPlaneUpgrade{}
	if err := c.Get(ctx, key, u); err != nil {
		return nil, err
	}
	wanted := unfinished(u, &u.Status, u.Spec.KubernetesVersion, u.Spec.MachinesRequireUpgrade)
	if wanted != nil {
		wanted.proxies = u.Labels[clusterv1.ClusterNameLabel]
	}
	return wanted, nil
}

func readMachineDeploymentUpgrade(ctx context.Context, c client.Client, key client.ObjectKey) (*ahead, error) {
	u := &upgradev1.MachineDeploymentUpgrade{}
	if err := c.Get(ctx, key, u); err != nil {
		return nil, err
	}
	return unfinished(u, &u.Status, u.Spec.KubernetesVersion, u.Spec.MachinesRequireUpgrade), nil
}
