// Package artifacts holds the pins: for every component that runs on a machine or in a management plane, the go.mod and
// go.sum that name its sources, and their checksums. Each folder is a Go module whose tool lines are the programs to
// build; the files end in .txt because Go does not embed what lies in another module. hack/update-pins.sh writes them. Programs of
// our own are here too: pause, and those that stand in for cert-manager's, which the module proxy does not have.
//
// The package only carries files. What is made of them, and how, internal/local/artifacts knows.
package artifacts

import "embed"

// Pins has COMPONENT/go.mod.txt and COMPONENT/go.sum.txt for every component, kubernetes-VERSION for every version of
// Kubernetes, pause/main.go, and COMPONENT/PROGRAM/main.go.txt for programs of our own in the module of a component.
//
//go:embed */go.mod.txt */go.sum.txt */*/main.go.txt pause/main.go
var Pins embed.FS
