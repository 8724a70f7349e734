// Package rbac holds the rights of Quorate's controllers as they are generated from the markers beside their code. It knows
// files, and nothing of who gets these rights.
package rbac

import "embed"

// Files are the roles, one YAML document a file.
//
//go:embed role.yaml
var Files embed.FS
