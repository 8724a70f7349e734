// Package inplace decides what a Runtime Extension answers to Cluster API about updates in place: which changes of a machine it takes over,
// and how far the update of a machine is.
//
// CanUpdate compares the current and the desired objects of a machine, or of the template of machines, and says by patches what can be
// changed without another machine. For what is not in the patches Cluster API replaces the machine. Next says the next step of the update
// of one machine: wait, make or delete a NodeUpgrade, done, failed. Both are pure: objects are handed in and never changed, and nothing
// here knows clients or time.
package inplace
