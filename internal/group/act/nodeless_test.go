package act

import (
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/group/observe"
)

// nodelessType is the type of such a kind.
var nodelessType = observe.Type{GroupVersionKind: etcdclusterv1alpha1.GroupVersion.WithKind("EtcdCluster"), Resource: "etcdclusters",
	Nodeless: true, Standalone: true}
