package act

import (
	"context"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// recordInitialized writes down, where a move and a backup keep it, that a cluster was initialised.
func (t *Writer) recordInitialized(ctx context.Context) error {
	if _, recorded := t.Object.GetAnnotations()[controlplanev1.InitializedAnnotation]; recorded || !t.Facts.Group.Initialized || t.Facts.Group.Deleting {
		return nil
	}
	return t.Annotate(ctx, map[string]string{controlplanev1.InitializedAnnotation: "true", controlplanev1.InitializingAnnotation: ""})
}
