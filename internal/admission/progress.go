package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
)

// progressChanged are the names of the annotations that a request changes and that say how far a recovery is, or a hibernation: machines go
// by them.
func progressChanged(req admission.Request, before, after guarded) []string {
	var names []string
	switch req.Resource.Resource {
	case "etcdrecoveries":
		names = kubeadm.RecoveryProgress()
	case "kubeadmcontrolplanes":
		names = []string{controlplanev1.HibernationAnnotation}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return before.Metadata.Annotations[name] == after.Metadata.Annotations[name]
	})
}

// errNotManager: the user has no right to report the progress of a recovery.
var errNotManager = errors.New("needs the right to report")

// mayReport asks the API server whether the user of a request may patch the status of its object, as Quorate's manager may.
func mayReport(ctx context.Context, c client.Client, req admission.Request, changed []string) error {
	if allowed, err := isAllowed(ctx, c, req, "patch", "status"); err != nil || allowed {
		return err
	}
	return fmt.Errorf("metadata.annotations[%s]: %q %w: the verb %q on %q %q in namespace %q, as Quorate's manager has; Quorate writes it",
		strings.Join(changed, ", "), req.UserInfo.Username, errNotManager, "patch",
		req.Resource.Resource+"."+req.Resource.Group+"/status", req.Name, req.Namespace)
}
