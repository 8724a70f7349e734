// Package config holds the manifests by which Quorate is installed in a management cluster, as kustomize reads them. It knows files, and
// nothing of how they are installed.
package config

import "embed"

// Files are the manifests and kustomizations, by their paths in this folder.
//
//go:embed certmanager clusterctl crd default manager namespace rbac webhook metadata.yaml
var Files embed.FS
