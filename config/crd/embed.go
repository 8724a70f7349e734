// Package crd holds the definitions of Quorate's own kinds as they are generated from api/. It knows files, and
// nothing of how they are installed.
package crd

import "embed"

// Files are the definitions, one YAML document a file.
//
//go:embed *.yaml
var Files embed.FS
