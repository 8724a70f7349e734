// Package observe looks at one group of machines: everything once, from Sources through which nothing can be written, into a View. It
// knows how Machines, their objects, the managed cluster and etcd's members are read and matched, and how long what costs a request
// is believed. It knows which own writes a cache must show before the next decision, since when members are as they are, and how a survey
// of them is requested outside of turns. It does not know what follows from what it sees, and how anything is written.
//
// A turn of a controller, and the commands plan and explain, look by the same code; only their Sources differ. Observe is the turn's way
// in, Once and OnceBeside are those of who looks once. What a kind of groups has of its own to look at, it supplies as a Kind.
package observe
