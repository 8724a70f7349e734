// Package peer runs Cluster API's own e2e specs, unchanged, on a management plane of Quorate and on local machines. The specs are
// those of module sigs.k8s.io/cluster-api/test; the flavors that they ask clusterctl for are made of the examples. `make e2e RUN=peer`
// starts the management plane and runs them; see docs/compatibility.md for which, and for what differs.
package peer
