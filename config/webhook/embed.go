// Package webhook holds which writes the API server asks Quorate about, as it is generated from the markers beside the code
// that answers. It knows files, and nothing of where the answers are served.
package webhook

import "embed"

// Files are the configurations, one YAML file.
//
//go:embed manifests.yaml
var Files embed.FS
