package kubeadm

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quorate/quorate/internal/core/version"
)

// permission is a ClusterRoleBinding of kubeadm's.
type permission struct {
	name, role, kind, subject string
}

// permissions are those that a version of kubeadm brought along, and that its certificates rely on from then on. They are
// written by kubeadm init and kubeadm upgrade apply, and a machine that joins runs neither.
//
// What kubeadm binds in all versions, to bootstrap tokens and for cluster-info, is not here. Where it is missing, a user
// took it away to admit fewer, and what a user's own binding grants to a name is the user's decision too.
var permissions = []permission{
	// Since v1.29 admin.conf belongs to this group, and no more to system:masters.
	{"kubeadm:cluster-admins", "cluster-admin", rbacv1.GroupKind, "kubeadm:cluster-admins"},
	// Since v1.37, and since some patch releases of minors before, the API servers' client certificate for kubelets is in no group any
	// more. Without this kubectl logs, exec, and port-forward, our own way to etcd among them, are forbidden.
	{"kubeadm:apiserver-kubelet-client", "system:kubelet-api-admin", rbacv1.UserKind, "kube-apiserver-kubelet-client"},
}

// permissionsUntil is the first minor of v1 all of whose clusters were made by, or taken through, a version that binds
// the permissions. Who takes one away then means it.
const permissionsUntil = 38

// PermissionsBehind says which of the permissions are missing that newer versions of kubeadm expect; empty: none.
func PermissionsBehind(ctx context.Context, c kubernetes.Interface, want Wanted) (string, error) {
	missing, err := missingPermissions(ctx, c, want)
	var texts []string
	for _, p := range missing {
		texts = append(texts, fmt.Sprintf("ClusterRoleBinding %s is missing", p.name))
	}
	return strings.Join(texts, "; "), err
}

// WritePermissions makes those that are missing. What is there stays, whatever it binds.
func WritePermissions(ctx context.Context, c kubernetes.Interface, want Wanted) error {
	missing, err := missingPermissions(ctx, c, want)
	if err != nil {
		return err
	}
	for _, p := range missing {
		_, err := c.RbacV1().ClusterRoleBindings().Create(ctx, p.binding(), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making ClusterRoleBinding %s: %w", p.name, err)
		}
	}
	return nil
}

func missingPermissions(ctx context.Context, c kubernetes.Interface, want Wanted) ([]permission, error) {
	v, err := version.Parse(want.Version)
	if err != nil {
		return nil, err
	}
	if v.Major > 1 || v.Minor >= permissionsUntil {
		return nil, nil
	}
	var missing []permission
	for _, p := range permissions {
		_, err := c.RbacV1().ClusterRoleBindings().Get(ctx, p.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, p)
		case err != nil:
			return nil, fmt.Errorf("reading ClusterRoleBinding %s: %w", p.name, err)
		}
	}
	return missing, nil
}

func (p permission) binding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: p.kind, Name: p.subject}},
	}
}
