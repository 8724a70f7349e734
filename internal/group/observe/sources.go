package observe

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/group/inplace"
)

// Sources are where what is known of a group comes from. Nothing can be written through them.
type Sources struct {
	// Cache reads what is watched, and APIReader from the API server itself: secrets, and whether an own write still stands.
	Cache, APIReader client.Reader
	// Scheme knows the kinds that are read.
	Scheme *runtime.Scheme
	// Workload keeps the connections to the managed clusters.
	Workload Workloads
	// Quorums reaches etcd, EtcdEndpoints etcds that run elsewhere; nil: these are not asked.
	Quorums       Quorums
	EtcdEndpoints EtcdEndpoints
	// Kubeadm reaches what kubeadm left in the clusters. Nil: the clusters are asked themselves.
	Kubeadm KubeadmFiles
	// Upgraders finds the images that upgrade nodes in place. Nil: nothing is looked up.
	Upgraders *inplace.Upgraders
	// DryRun asks the API server what would become of an object, and changes nothing; nil: it is not asked.
	DryRun client.Writer
	// ForwardOnly: ports on machines are reached through the managed clusters' API servers alone.
	ForwardOnly bool
	// Once: it looks once, and waits for what it asks.
	Once bool
	// Wakes brings about turns of groups; nil: no receiver.
	Wakes chan event.GenericEvent

	// Watched are the objects beside Machines whose changes bring about turns; nil: none is watched.
	Watched *Watched
}

// Observer looks at one group.
type Observer struct {
	*View
	Sources
	Kind Kind
	// Own is what the kind has of its own beside that; it is there once the kind has said what it wants.
	Own Own
	// resurvey is when etcd must be asked again, for something has changed since it was asked; 0: nothing has.
	Resurvey time.Duration
	// reads are the objects that were read because a field names them.
	reads map[watchedObject]bool
}
