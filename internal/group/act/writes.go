package act

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IgnoreStale returns nil for the failure of a write whose object has changed, or is gone, since it was read: the next turn sees it as it
// is.
func IgnoreStale(err error) error {
	if IsStale(err) {
		return nil
	}
	return err
}

// LookAgain is IgnoreStale for a write whose failure the next turn makes good. After a conflict that turn comes soon.
func (t *Writer) LookAgain(err error) error {
	t.Overtaken = t.Overtaken || apierrors.IsConflict(err)
	return IgnoreStale(err)
}

// IsStale reports whether a write failed because its object has changed, or is gone, since it was read.
func IsStale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
