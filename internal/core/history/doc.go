// Package history is the record of what was done to a group of machines: its last steps, with their reasons, outcomes and times,
// and who changed what of its spec. The code that takes the turns adds to it and keeps it (internal/group), people read it afterwards, and
// nothing is ever decided by it. It knows no client and no clock.
package history
