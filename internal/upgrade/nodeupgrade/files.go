package nodeupgrade

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,verbs=get

// mostContent is how many bytes all files of a node may hold: they are handed over in one secret, which may have 1 MiB.
const mostContent = 900 << 10

// files reads the files that the node is to have: those of the Machine's control plane, if they still are those that the NodeUpgrade was
// made for.
func (c *Controller) files(ctx context.Context, s *scope, w *look) (upgradepod.Obstacle, error) {
	w.env.Files, w.contents = nil, nil
	if len(s.upgrade.Spec.Files) == 0 {
		return upgradepod.Obstacle{}, nil
	}
	wanted, err := c.wantedFiles(ctx, s)
	if err != nil {
		return upgradepod.Obstacle{}, err
	}
	size := 0
	for _, named := range s.upgrade.Spec.Files {
		i := slices.IndexFunc(wanted, func(f bootstrapv1.File) bool { return f.Path == named.Path && drift.FileHash(f) == named.Hash })
		if i < 0 {
			return failed("the control plane of Machine %s does not have the file %s any more for which the upgrade was made", s.machine.Name,
				named.Path), nil
		}
		content, o, err := c.content(ctx, s, wanted[i])
		if err != nil || o.Reason != "" {
			return o, err
		}
		if size += len(content); size > mostContent {
			return failed("the files hold more than %d KiB, which a secret cannot", mostContent>>10), nil
		}
		w.env.Files = append(w.env.Files, steps.File{Path: named.Path, Owner: wanted[i].Owner, Permissions: wanted[i].Permissions})
		w.contents = append(w.contents, content)
	}
	return upgradepod.Obstacle{}, nil
}

// failed is an obstacle that does not pass by itself.
func failed(format string, args ...any) upgradepod.Obstacle {
	return upgradepod.Obstacle{Reason: upgradev1.Failed, Message: fmt.Sprintf(format, args...), Final: true}
}

// wantedFiles are the files of the control plane that a Machine belongs to; none: it belongs to none that has files.
func (c *Controller) wantedFiles(ctx context.Context, s *scope) ([]bootstrapv1.File, error) {
	owner, err := c.controlPlane(ctx, s.machine)
	if kcp, ok := owner.(*controlplanev1.KubeadmControlPlane); ok && err == nil {
		return kcp.Spec.KubeadmConfigSpec.Files, nil
	}
	return nil, err
}

// content is what a file is to hold, decoded, or why that is not known.
func (c *Controller) content(ctx context.Context, s *scope, f bootstrapv1.File) ([]byte, upgradepod.Obstacle, error) {
	raw, where := []byte(f.Content), "file "+f.Path
	if from := f.ContentFrom.Secret; f.ContentFrom.IsDefined() {
		where += fmt.Sprintf(", key %s of secret %s", from.Key, from.Name)
		held := &corev1.Secret{}
		err := c.APIReader.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: from.Name}, held)
		if client.IgnoreNotFound(err) != nil {
			return nil, upgradepod.Obstacle{}, fmt.Errorf("reading secret %s: %w", from.Name, err)
		}
		var has bool
		if raw, has = held.Data[from.Key]; apierrors.IsNotFound(err) || !has {
			return nil, upgradepod.Obstacle{Reason: upgradev1.WaitingForFiles, Message: where + ": there is no such secret, or it has no such key"},
				nil
		}
	}
	if drift.FilledIn(string(raw)) {
		return nil, failed("%s: the content is filled in at a machine's first boot, and cannot be on a live node: it takes another machine",
			where), nil
	}
	content, err := certs.Decode(raw, f.Encoding)
	if err != nil {
		return nil, failed("%s: what it holds is not encoded as %q: %v", where, f.Encoding, err), nil
	}
	return content, upgradepod.Obstacle{}, nil
}
