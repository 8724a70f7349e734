// Package updatehooks knows Cluster API's contract for updates in place by Runtime Extensions of others, as a control plane keeps it. It
// knows what a machine is to become, and what a request of the hook CanUpdateMachine holds. It knows what of it an answer covers, and which
// marks on a machine's objects say how far an update is.
//
// It does not know what is wanted of a machine, when its turn comes, or how marks are written. Only Asker does anything but compute.
package updatehooks
