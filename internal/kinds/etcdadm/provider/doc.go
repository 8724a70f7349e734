// Package provider is the bootstrap provider of etcd's machines: it writes the bootstrap data of each EtcdadmConfig, after Cluster API's
// contract for bootstrap configurations.
//
// It knows whose configuration one is, what the data waits for, and which one machine may begin an etcd cluster. What is in the data the
// package above it knows. It never talks to etcd.
package provider

import "time"

// askAgain is how often something that nothing tells us about is looked for: a secret of a user's.
const askAgain = 30 * time.Second
