package nodeupgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/untrusted"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// observe reads all that a decision depends on. What keeps the upgrade from beginning is looked for only where there is no pod.
func (c *Controller) observe(ctx context.Context, s *scope) (upgradepod.Facts, *look) {
	f := upgradepod.Facts{Now: time.Now(), Upgrade: s.upgrade, Paused: s.paused()}
	_, f.Retry = s.upgrade.Annotations[upgradev1.RetryAnnotation]
	completed := upgradepod.StateOf(s.upgrade) == upgradepod.Complete
	f.Obstacle = s.missing()
	lie := c.lie(ctx, s)
	// A pod shows that the upgrade had begun before someone changed the label or the owners: it is finished.
	if lie.Reason != "" && !f.Obstacle.Final && upgradepod.StateOf(s.upgrade) != upgradepod.Active {
		f.Obstacle = lie
	}
	if f.Obstacle.Final && !completed {
		return f, &look{}
	}
	unreachable, w := c.open(ctx, s)
	f.Unreachable = unreachable
	if f.Unreachable != "" || completed {
		return f, w
	}
	var err error
	if f.Pod, err = w.pod(ctx, s.upgrade); err != nil {
		f.Unreachable = brief(err)
		return f, w
	}
	if f.Pod == nil && lie.Reason != "" {
		f.Obstacle = lie
	}
	if f.Pod == nil && f.Obstacle.Reason == "" {
		f.Obstacle = c.obstacle(ctx, s, w)
		f.NotDrained = w.env.NotDrained
	}
	return f, w
}

// lie is the obstacle of a NodeUpgrade that contradicts its Machine.
func (c *Controller) lie(ctx context.Context, s *scope) upgradepod.Obstacle {
	lie, err := c.lies(ctx, s)
	switch {
	case err != nil:
		return upgradepod.Obstacle{Reason: upgradev1.WaitingForMachine, Message: brief(err)}
	case lie != "":
		return failed("%s; delete the NodeUpgrade and create another one", lie)
	}
	return upgradepod.Obstacle{}
}

// obstacle says what keeps the upgrade from beginning: the first that is found.
func (c *Controller) obstacle(ctx context.Context, s *scope, w *look) upgradepod.Obstacle {
	finders := []func(context.Context, *scope, *look) (upgradepod.Obstacle, error){
		c.others, c.image, c.brings, c.images, c.files, c.kubeadm, c.environment,
	}
	for _, find := range finders {
		o, err := find(ctx, s, w)
		if err != nil {
			return upgradepod.Obstacle{Reason: upgradev1.WaitingForMachine, Message: brief(err)}
		}
		if o.Reason != "" {
			return o
		}
	}
	return upgradepod.Obstacle{}
}

// brief is an error without what is another one each time, such as the number of a port of our own end.
func brief(err error) string {
	text := err.Error()
	if at := strings.LastIndex(text, "dial tcp "); at >= 0 {
		text = text[at:]
	}
	return untrusted.Shown(text)
}

// missing says what of the Machine is not there.
func (s *scope) missing() upgradepod.Obstacle {
	u, name := s.upgrade, s.upgrade.Spec.Machine.Name
	final := func(format string, args ...any) upgradepod.Obstacle {
		return upgradepod.Obstacle{Reason: upgradev1.Failed, Message: fmt.Sprintf(format, args...), Final: true}
	}
	switch {
	case s.machine == nil:
		return final("there is no Machine %s in namespace %s", name, u.Namespace)
	case !s.machine.DeletionTimestamp.IsZero():
		return final("Machine %s is being deleted", name)
	case machine.IsControlPlane(s.machine) != (u.Spec.NodeType == upgradev1.ControlPlane):
		return final("spec.nodeType is %s, and Machine %s is not", u.Spec.NodeType, name)
	case s.cluster == nil:
		return final("there is no Cluster %s, which Machine %s belongs to", s.machine.Spec.ClusterName, name)
	case !s.cluster.DeletionTimestamp.IsZero():
		return final("Cluster %s is being deleted", s.cluster.Name)
	case !s.machine.Status.NodeRef.IsDefined():
		return upgradepod.Obstacle{Reason: upgradev1.WaitingForMachine, Message: fmt.Sprintf("Machine %s has no Node", name)}
	}
	return upgradepod.Obstacle{}
}

// others says which other node of the control plane is upgraded before this one.
func (c *Controller) others(ctx context.Context, s *scope, _ *look) (upgradepod.Obstacle, error) {
	return c.before(ctx, c.Client, s)
}

// alone makes sure of the same when the upgrade begins, whatever a cache shows. It is a conflict if it is not so.
func (c *Controller) alone(ctx context.Context, s *scope) error {
	o, err := c.before(ctx, c.APIReader, s)
	if err != nil {
		return err
	}
	if o.Reason != "" {
		return conflict(s, o.Message)
	}
	return nil
}

// conflict is an error that has the next turn decide again.
func conflict(s *scope, why string) error {
	return apierrors.NewConflict(upgradev1.GroupVersion.WithResource("nodeupgrades").GroupResource(), s.upgrade.Name, errors.New(why))
}

// before lists the NodeUpgrades of the cluster, and says which control plane node comes before this one: one that has begun, else the
// oldest.
func (c *Controller) before(ctx context.Context, reader client.Reader, s *scope) (upgradepod.Obstacle, error) {
	u := s.upgrade
	if u.Spec.NodeType != upgradev1.ControlPlane {
		return upgradepod.Obstacle{}, nil
	}
	list := &upgradev1.NodeUpgradeList{}
	if err := reader.List(ctx, list, client.InNamespace(u.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}); err != nil {
		return upgradepod.Obstacle{}, fmt.Errorf("listing the NodeUpgrades of cluster %s: %w", s.cluster.Name, err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == u.Name || !upgradepod.Precedes(other, u) {
			continue
		}
		if counts, err := c.isOf(ctx, s, other); err != nil {
			return upgradepod.Obstacle{}, err
		} else if counts {
			return upgradepod.Obstacle{Reason: upgradev1.WaitingForNode,
				Message: fmt.Sprintf("the node of Machine %s comes first: NodeUpgrade %s", other.Spec.Machine.Name, other.Name)}, nil
		}
	}
	return upgradepod.Obstacle{}, nil
}

// image finds the upgrader's image: the NodeUpgrade names it, or a ConfigMap for the version, or the manager's flag.
func (c *Controller) image(ctx context.Context, s *scope, w *look) (upgradepod.Obstacle, error) {
	version := s.upgrade.Spec.KubernetesVersion
	if w.env.Image = s.upgrade.Spec.UpgraderImage; w.env.Image != "" {
		return upgradepod.Obstacle{}, nil
	}
	var err error
	if w.env.Image, err = c.Upgraders.Of(ctx, s.upgrade.Namespace, version); err != nil {
		return upgradepod.Obstacle{}, err
	}
	if w.env.Image == "" {
		return upgradepod.Obstacle{Reason: upgradev1.WaitingForUpgrader, Message: c.Upgraders.Missing(s.upgrade.Namespace, version)}, nil
	}
	return upgradepod.Obstacle{}, nil
}

// brings finds out what the version's image has beside the programs of Kubernetes. Of an image that the NodeUpgrade itself names nothing is
// known.
func (c *Controller) brings(ctx context.Context, s *scope, w *look) (upgradepod.Obstacle, error) {
	if s.upgrade.Spec.UpgraderImage != "" {
		return upgradepod.Obstacle{}, nil
	}
	said, source, err := c.Upgraders.Brings(ctx, s.upgrade.Namespace, s.upgrade.Spec.KubernetesVersion)
	if err != nil {
		return upgradepod.Obstacle{}, err
	}
	if w.env.Brings, err = steps.ParseBrings(said); err != nil {
		return upgradepod.Obstacle{Reason: upgradev1.WaitingForUpgrader, Message: source + ": " + err.Error()}, nil
	}
	return upgradepod.Obstacle{}, nil
}

// images waits for the infrastructure provider, where that brings the images to the node. With the upgrader's image there the node waits
// for the others.
func (c *Controller) images(ctx context.Context, s *scope, w *look) (upgradepod.Obstacle, error) {
	ref := s.machine.Spec.InfrastructureRef
	if ref.Name == "" || conditions.IsTrue(s.upgrade, upgradev1.ImagesAvailable) {
		return upgradepod.Obstacle{}, nil
	}
	infrastructure, err := machine.InfrastructureRef.Find(ctx, c.Client, ref, s.machine.Namespace)
	if refused := machine.Refused(err); refused != nil {
		return upgradepod.Obstacle{Reason: upgradev1.WaitingForImages, Message: "spec.infrastructureRef of Machine " + s.machine.Name + ": " +
			refused.Error()}, nil
	}
	if err != nil {
		return upgradepod.Obstacle{}, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	if _, prepares := infrastructure.GetAnnotations()[upgradev1.PrepareAnnotation]; !prepares {
		return upgradepod.Obstacle{}, nil
	}
	if w.env.AwaitImages = conditions.IsTrue(s.upgrade, upgradev1.UpgraderAvailable); w.env.AwaitImages {
		return upgradepod.Obstacle{}, nil
	}
	message := fmt.Sprintf("%s %s gets the images of %s", ref.Kind, ref.Name, s.upgrade.Spec.KubernetesVersion)
	if available := conditions.Get(s.upgrade, upgradev1.ImagesAvailable); available != nil && available.Message != "" {
		message += ": " + available.Message
	}
	return upgradepod.Obstacle{Reason: upgradev1.WaitingForImages, Message: message}, nil
}

// environment finds out what the steps depend on, and whether the node can be brought to what is wanted at all.
func (c *Controller) environment(ctx context.Context, s *scope, w *look) (upgradepod.Obstacle, error) {
	if err := w.environment(ctx, s.machine.Status.NodeRef.Name); err != nil {
		return upgradepod.Obstacle{}, err
	}
	if o, err := w.room(ctx, s.upgrade); err != nil || o.Reason != "" {
		return o, err
	}
	attempt := ptr.Deref(s.upgrade.Status.Attempts, 0) + 1
	w.wanted = upgradepod.Wanted(s.upgrade, w.env, attempt)
	var err error
	if w.list, err = steps.List(steps.Node{KubeletVersion: w.env.KubeletVersion, Runtime: w.env.Runtime}, w.wanted); err != nil {
		return upgradepod.Obstacle{Reason: upgradev1.Failed, Message: err.Error(), Final: true}, nil
	}
	return upgradepod.Obstacle{}, nil
}
