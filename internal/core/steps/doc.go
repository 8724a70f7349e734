// Package steps says what an upgrade in place does on one node, as data: which steps there are, in which order, what each needs, checks and
// interrupts, how it is undone, and what it reports. It also decides how the one step that interrupts the node, the swap, goes on after it
// was cut off at any moment.
//
// It carries nothing out, and knows no files, processes or clients: that is the upgrader's.
package steps
