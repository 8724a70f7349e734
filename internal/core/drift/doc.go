// Package drift says how a machine differs from what its group wants, and what of
// it can be changed while the machine lives.
//
// It knows which fields of a group a machine was made from, which of them matter
// once it is made, and what providers, webhooks and older versions wrote into the
// record of it. It does not know what is done about a difference, in which order
// machines are replaced, or how any of this is read and written. Time is a
// parameter, objects are handed in and never changed.
//
// Wanted is what a group wants, whatever its kind. Its Compare returns what only a
// new machine can change: version, infrastructure and bootstrap. Its InPlace returns
// what existing objects should carry instead: labels, annotations, timeouts of the
// deletion, taints and readiness gates. What is not known is no difference: a
// machine is never replaced because its record is missing.
//
// Kubeadm is the Wanted of a KubeadmControlPlane, and Of all that differs from one:
// it adds the deadlines and kubeadmConfigSpec. Everything in kubeadmConfigSpec is
// compared field by field as JSON, so a field that Cluster API adds is compared from
// the day it exists. Where that would be wrong, the table rules has a line that says
// why.
package drift
