package observe

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/group/inplace"
)

// Memory is what is kept of one group between turns. Turns of one group never overlap, so it needs no lock.
type Memory struct {
	// Own is what the kind keeps; nil: nothing yet.
	Own any
	// Surveys are what etcd said last, and what it is being asked.
	Surveys Surveys
	// Writes are own ones that the cache has not shown yet.
	Writes Writes
	// owned are own writes of who owns templates. No decision waits for them.
	Owned PartWrites
	// Parts are own writes to other objects of machines that the cache has not shown yet.
	Parts PartWrites
	// Dated are own writes of when certificates expire. No decision waits for them.
	Dated PartWrites
	// Began is when the group was first looked at by this process.
	Began time.Time
	// Template is what machines are made from.
	Template Template
	// Secrets are what is known of the cluster's.
	Secrets Secrets
	// ManagedEtcd is what the EtcdCluster that keeps its etcd reported last.
	ManagedEtcd ManagedEtcd
	// ExternalEtcd is what the endpoints of an etcd elsewhere said last.
	ExternalEtcd ExternalEtcdSeen
	// Files are kubeadm's in the managed cluster.
	Files FilesSeen
	// Addons are whether kubeadm's add-ons work.
	Addons AddonsSeen
	// Tokens are what is known of bootstrap tokens that were used.
	Tokens TokensDropped
	// Answers are what Runtime Extensions of others said of the machines.
	Answers inplace.Answers
	// Furthest is the highest revision that a member of etcd told.
	Furthest Furthest
	// Space is what is kept to end etcd's alarm NOSPACE.
	Space Space
	// Compared is what the last comparison of the voters' data found.
	Compared Compared
	// Since is since when each member is as it is.
	Since MemberTimes
	// Cluster is the one that the group belongs to.
	Cluster client.ObjectKey
	// Begun is the name of a machine whose number was taken, and of which something,
	// or nothing, could be made; empty: none. Without it each failure would cost a number.
	Begun string
	// Left is the machine whose member was removed last: it need not be asked any more.
	Left string
	// Rests: the last turn found nothing left to do, and what it read is believed for longer.
	Rests bool

	// upgrader is what was last found of the image that upgrades nodes in place.
	upgrader upgraderSeen
}

// Template is what infrastructure machines are made from, as it was last read.
type Template struct {
	// Missing says what is wrong with it; empty: nothing.
	Missing string
	// Kind is the one of the machines that it makes.
	Kind schema.GroupVersionKind
	// Object is the template itself; nil: it is not known.
	Object *unstructured.Unstructured
}
