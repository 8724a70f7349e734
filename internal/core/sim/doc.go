// Package sim is a small world to run plans in. It has hosts that take time to boot and
// to join, an etcd with its gates, a leader and elections, and an API server.
// A shell observes and acts as the real one does, with what can go wrong.
//
// It knows the true state, of which plan.Observed shows a part, late and sometimes
// wrong. It holds every step against the invariants by that truth, by itself and
// not by asking the rules. It tells what happened as a story that a person can
// read and replay. A world is made of its Setup alone, and a Setup of a seed.
//
// It does not know how kubeadm, etcd or Cluster API do what they do, only what of
// it can be seen from outside and how long it takes.
package sim
