// Package status says what is reported of a group: the conditions of its object and of its Machines, the fields of its status, and how it
// stands. All of it is computed of a View and of what was decided; nothing is read, and nothing written.
package status
