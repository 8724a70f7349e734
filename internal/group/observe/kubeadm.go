package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
)

// KubeadmFiles are what kubeadm left in the managed clusters: its configuration, permissions, add-ons.
type KubeadmFiles interface {
	// Initialised says what is not written yet of all that others need to join, with bootstrap tokens or without; empty:
	// all is. It is asked only while the cluster's API server answers.
	Initialised(ctx context.Context, cluster *clusterv1.Cluster, tokens bool) (missing string, err error)
	// Behind says in what they are not as wanted.
	Behind(ctx context.Context, cluster *clusterv1.Cluster, want kubeadm.Wanted) (kubeadm.Behind, error)
	// Write brings those of a chore up to date.
	Write(ctx context.Context, cluster *clusterv1.Cluster, want kubeadm.Wanted, chore string) error
	// NewToken makes a bootstrap token for one machine.
	NewToken(ctx context.Context, cluster *clusterv1.Cluster) (string, error)
	// DropTokens removes the bootstrap tokens with these IDs, as far as they were made for one machine each.
	DropTokens(ctx context.Context, cluster *clusterv1.Cluster, ids map[string]bool) error
	// DropPods deletes the objects of static pods that no kubelet answers for any more.
	DropPods(ctx context.Context, cluster *clusterv1.Cluster, pods []*corev1.Pod) error
	// DropNodes deletes the Nodes of Machines that are gone. Cluster API's annotations tell whose a Node is.
	DropNodes(ctx context.Context, cluster *clusterv1.Cluster, gone GoneMachines) error
}

// clusterFiles asks the clusters themselves, as the connection to each does; before there is one, as its secret says.
type clusterFiles struct {
	secrets  client.Reader
	workload Workloads
}

// Files returns who is asked about kubeadm's files.
func (s Sources) Files() KubeadmFiles {
	if s.Kubeadm != nil {
		return s.Kubeadm
	}
	return clusterFiles{secrets: s.APIReader, workload: s.Workload}
}

// Initialised implements KubeadmFiles.
func (f clusterFiles) Initialised(ctx context.Context, cluster *clusterv1.Cluster, tokens bool) (string, error) {
	set, err := f.client(ctx, cluster)
	if err != nil {
		return "", err
	}
	return kubeadm.Initialised(ctx, set, tokens)
}

// Behind implements KubeadmFiles.
func (f clusterFiles) Behind(ctx context.Context, cluster *clusterv1.Cluster, want kubeadm.Wanted) (kubeadm.Behind, error) {
	set, err := f.client(ctx, cluster)
	if err != nil {
		return kubeadm.Behind{}, err
	}
	return kubeadm.Look(ctx, set, want)
}

// Write implements KubeadmFiles.
func (f clusterFiles) Write(ctx context.Context, cluster *clusterv1.Cluster, want kubeadm.Wanted, chore string) error {
	set, err := f.client(ctx, cluster)
	if err != nil {
		return err
	}
	switch chore {
	case ChorePermissions:
		return kubeadm.WritePermissions(ctx, set, want)
	case ChoreKubeadmConfig:
		return kubeadm.WriteConfig(ctx, set, want)
	case ChoreAddons:
		return kubeadm.UpdateAddons(ctx, set, want)
	}
	return fmt.Errorf("the chore %s is not known", chore)
}

// NewToken implements KubeadmFiles.
func (f clusterFiles) NewToken(ctx context.Context, cluster *clusterv1.Cluster) (string, error) {
	set, err := f.client(ctx, cluster)
	if err != nil {
		return "", err
	}
	return kubeadm.NewToken(ctx, set)
}

// DropTokens implements KubeadmFiles.
func (f clusterFiles) DropTokens(ctx context.Context, cluster *clusterv1.Cluster, ids map[string]bool) error {
	set, err := f.client(ctx, cluster)
	if err != nil {
		return err
	}
	return kubeadm.DropTokens(ctx, set, ids)
}

// DropPods implements KubeadmFiles.
func (f clusterFiles) DropPods(ctx context.Context, cluster *clusterv1.Cluster, pods []*corev1.Pod) error {
	set, err := f.client(ctx, cluster)
	if err != nil {
		return err
	}
	return kubeadm.DropPods(ctx, set, pods)
}

// GoneMachines says which Nodes are those of Machines that are gone.
type GoneMachines struct {
	// Given are Machines of the control plane.
	Given []string
	// Before is when a new management cluster, to which no old Machine is known, began to recover the cluster. All Nodes that are older and
	// were silent since go, the workers' too, except those of the Machines in Known; zero: only those of Given go.
	Before time.Time
	Known  []string
}

// isNodeOf reports whether Cluster API has marked a Node as one of a cluster.
func isNodeOf(n *corev1.Node, cluster *clusterv1.Cluster) bool {
	has := n.Annotations
	return has[clusterv1.ClusterNameAnnotation] == cluster.Name && has[clusterv1.ClusterNamespaceAnnotation] == cluster.Namespace
}

// has reports whether a Node is that of a Machine that is gone.
func (g GoneMachines) has(n *corev1.Node) bool {
	of := n.Annotations[clusterv1.MachineAnnotation]
	_, isControlPlane := n.Labels[machine.NodeLabel]
	if isControlPlane && slices.Contains(g.Given, of) {
		return true
	}
	reports := func(c corev1.NodeCondition) bool { return !c.LastHeartbeatTime.Time.Before(g.Before) }
	return n.CreationTimestamp.Time.Before(g.Before) && !slices.Contains(g.Known, of) && !slices.ContainsFunc(n.Status.Conditions, reports)
}

// DropNodes implements KubeadmFiles.
func (f clusterFiles) DropNodes(ctx context.Context, cluster *clusterv1.Cluster, gone GoneMachines) error {
	set, err := f.client(ctx, cluster)
	if err != nil {
		return err
	}
	which := metav1.ListOptions{}
	if gone.Before.IsZero() {
		which.LabelSelector = machine.NodeLabel
	}
	nodes, err := set.CoreV1().Nodes().List(ctx, which)
	if err != nil {
		return fmt.Errorf("listing the Nodes of cluster %s: %w", cluster.Name, err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if !isNodeOf(n, cluster) || !gone.has(n) {
			continue
		}
		only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(n.UID))}
		if err := set.CoreV1().Nodes().Delete(ctx, n.Name, only); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting Node %s: %w", n.Name, err)
		}
	}
	return nil
}

func (f clusterFiles) client(ctx context.Context, cluster *clusterv1.Cluster) (kubernetes.Interface, error) {
	config := f.workload.Config(client.ObjectKeyFromObject(cluster))
	if config == nil {
		var err error
		if config, err = workload.ConfigOf(ctx, f.secrets, client.ObjectKeyFromObject(cluster)); err != nil {
			return nil, err
		}
	}
	config = rest.CopyConfig(config)
	config.Timeout = 2 * time.Second
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for cluster %s: %w", cluster.Name, err)
	}
	return set, nil
}

// FilesSeen is what was said of kubeadm's files in a cluster, when these are wanted so, and when.
type FilesSeen struct {
	// Read is when.
	Read   time.Time
	behind kubeadm.Behind
	of     string
}

// FilesAge is how long kubeadm's files in the cluster are believed while machines join or the files are behind.
// What we write ourselves is read again at once.
const FilesAge = 10 * time.Second

// age is how long what was said may be believed.
func (f FilesSeen) age(t *Observer, moving bool) time.Duration {
	b := f.behind
	switch {
	case moving, b.Config != "", b.Addons != "", b.Permissions != "":
		return FilesAge
	case !b.Current(), t.Memory.Addons.Fail(), t.Facts.Etcd.Ours() && !t.Memory.Surveys.Last.Known:
		return SurveyAgeAtRest // a person mends it, or permissions are missing to reach etcd: neither must wait for long
	}
	return SlowTime
}

// isOld reports whether kubeadm's files are to be looked at again: they were seen too long ago, or others were wanted.
func (f FilesSeen) isOld(t *Observer, wanted string, moving bool) bool {
	return f.of != wanted || t.Facts.Now.Sub(f.Read) >= f.age(t, moving)
}

// ObserveKubeadm finds out whether kubeadm's files in the cluster are behind what is wanted, and adds what is to be written. They
// are asked for when a machine is outdated or missing, when the spec has changed, and now and then.
func (t *Observer) ObserveKubeadm(ctx context.Context, want kubeadm.Wanted) error {
	o, m := &t.Facts, &t.Memory.Files
	if !o.Group.Initialized || !t.Inspects() || len(o.Uncontrolled) > 0 {
		return nil
	}
	// What is wanted does not come from the object's spec alone: endpoints of managed etcd, annotations, templates of others. So it is itself
	// what an answer is kept for, and a change of the spec has it asked again.
	wanted, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("comparing what is wanted of kubeadm's files: %w", err)
	}
	from := fmt.Sprint(t.Object.GetUID(), t.Object.GetGeneration(), string(wanted))
	moving := t.machinesChange()
	if m.isOld(t, from, moving) {
		var behind kubeadm.Behind
		Aside(ctx, func() { behind, err = t.Files().Behind(ctx, t.Cluster, want) })
		if err != nil && moving {
			// Machines that join with an old configuration would be as old themselves.
			return fmt.Errorf("looking at kubeadm's files in cluster %s: %w", t.Cluster.Name, err)
		}
		if err == nil {
			*m = FilesSeen{behind: behind, of: from, Read: o.Now}
			t.Memory.Addons = AddonsSeen{Read: o.Now, Health: map[string]kubeadm.AddonHealth{"kube-proxy": behind.Proxy, "coredns": behind.DNS}}
		}
	}
	wants{t.View}.addFiles(m.behind)
	return nil
}

// machinesChange reports whether machines are to be made or to go: there are not as many as wanted, or some are outdated.
func (t *View) machinesChange() bool {
	o := t.Facts
	return len(o.Machines) != o.Want.Replicas || slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return m.Outdated != "" })
}

// Inspects reports whether this turn looks at what is inside the cluster: it answers, and the group is neither paused nor being deleted.
func (t *View) Inspects() bool {
	o := t.Facts
	return !o.Group.Deleting && !o.Group.Paused && o.Cluster.Reachable
}

// addFiles adds what of kubeadm's files is to be written, by us or by a person.
func (t wants) addFiles(b kubeadm.Behind) {
	for _, c := range []plan.Chore{
		{Name: ChorePermissions, Due: plan.DueJoin, Reason: "PermissionsMissing", Message: b.Permissions},
		{Name: ChoreKubeadmConfig, Due: plan.DueJoin, Reason: "KubeadmOutdated", Message: b.Config, FromSpec: true},
		{Name: ChoreKubeadmConfig, Due: plan.DueJoin, Reason: "KubeadmUnusable", Message: b.ConfigUnusable, FromSpec: true, Blocked: true},
		{Name: ChoreAddons, Due: plan.DueRest, Reason: "AddonsOutdated", Message: b.Addons, FromSpec: true},
		{Name: ChoreAddons, Due: plan.DueRest, Reason: "AddonsRefused", Message: b.AddonsRefused, FromSpec: true, Blocked: true},
	} {
		if c.Message == "" {
			continue
		}
		c.Inside, c.Message = true, because[c.Reason]+c.Message
		t.AddChore(c)
	}
}

// because says why some chores are done, before what is not as wanted.
var because = map[string]string{
	"PermissionsMissing": "kubeadm's certificates rely on it: ",
	"KubeadmOutdated":    "machines read kubeadm's own configuration as they join: ",
}

// ObserveInit finds out whether kubeadm has initialised the cluster on the first machine, with bootstrap tokens or without. It
// never turns back.
func (t *Observer) ObserveInit(ctx context.Context, tokens bool) {
	o := &t.Facts
	if o.Group.Initialized || !t.Inspects() {
		return
	}
	// A machine that is deleted while it initialises takes the cluster with it; those that
	// others made may have others beside them.
	if o.Group.New && !slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return !m.Deleting && !m.Held }) {
		return
	}
	var missing string
	var err error
	Aside(ctx, func() { missing, err = t.Files().Initialised(ctx, t.Cluster, tokens) })
	if err != nil {
		// An API server that has just come up may fail yet; the next turn asks again.
		missing = workload.Explain(err)
	}
	o.Cluster.Initializing = missing
	if missing == "" {
		o.Group.Initialized, o.Group.New = true, false
	}
}
