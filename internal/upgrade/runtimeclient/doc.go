// Package runtimeclient calls Runtime Extensions: it is the client that Cluster API's controllers ask for, whose own constructor is
// internal to its module.
//
// It knows which extensions are registered and for which namespaces, how they are called over TLS, and what of an answer is an error. It
// does not know what any hook means, when extensions are registered, or how their conditions are written: that is upstream's controller of
// ExtensionConfigs.
package runtimeclient
