package upgrader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func port(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// render stages the new version's manifests, and renewed certificates. Nothing of it is used before the swap.
func (n *node) render(ctx context.Context) (string, error) {
	if err := n.noSecondManifests(); err != nil {
		return "", err
	}
	if err := eventually(ctx, patienceWithAPI, n.permitAPIServer); err != nil {
		return "", err
	}
	kubeadm, err := n.program("kubeadm")
	if err != nil {
		return "", err
	}
	if err := n.renderManifests(ctx, kubeadm); err != nil {
		return "", err
	}
	renewed, err := n.renewCertificates(ctx, kubeadm)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("manifests of %s, and %d files with renewed certificates", n.wanted.KubernetesVersion, renewed), nil
}

// permitAPIServer lets API servers use the kubelets' API by name: newer versions of kubeadm renew their certificate without the
// organization that allowed everything. It must be there before the first such certificate is used, and does no harm before.
func (n *node) permitAPIServer(ctx context.Context) error {
	a, err := openAPI(adminConfig, "")
	if err != nil {
		return err
	}
	binding := rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:apiserver-kubelet-client"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "kube-apiserver-kubelet-client"}},
	}
	err = a.send(ctx, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding, nil)
	if refused, ok := errors.AsType[*statusError](err); ok && refused.code == http.StatusConflict {
		return nil
	}
	return err
}

// renderManifests has kubeadm write the manifests to a folder, as it would to the kubelet's.
func (n *node) renderManifests(ctx context.Context, kubeadm string) error {
	dir := filepath.Join(n.work(), "render")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return fmt.Errorf("rendering manifests: %w", err)
	}
	phases := [][]string{{"control-plane", "all"}}
	if _, err := os.Stat(n.onNode(etcdManifest)); err == nil {
		phases = append(phases, []string{etcdName, "local"})
	}
	env := []string{"KUBEADM_INIT_DRYRUN_DIR=" + dir}
	for _, phase := range phases {
		argv := append([]string{kubeadm, "init", "phase"}, phase...)
		if _, err := run(ctx, env, append(argv, "--config", n.config(), "--dry-run")...); err != nil {
			return fmt.Errorf("rendering manifests: %w", err)
		}
	}
	for _, component := range components {
		if err := n.stageManifest(dir, component); err != nil {
			return err
		}
	}
	return nil
}

// stageManifest stages the manifest that kubeadm wrote of a component. A component that the node has must have one.
func (n *node) stageManifest(dir, component string) error {
	old, err := n.manifest(component)
	if err != nil {
		return err
	}
	rendered, err := manifestOf(dir, component)
	switch {
	case err != nil:
		return err
	case rendered == nil && old == nil:
		return nil
	case rendered == nil:
		return fmt.Errorf("rendering manifests: kubeadm wrote none of %s", component)
	}
	return copyFile(filepath.Join(dir, component+".yaml"), filepath.Join(n.stage(), manifestDir, component+".yaml"))
}

// renewCertificates stages the files whose certificates kubeadm renews. It works on copies below a root of their own: those in use stay as
// they are.
func (n *node) renewCertificates(ctx context.Context, kubeadm string) (int, error) {
	root := filepath.Join(n.work(), "renew")
	if err := os.RemoveAll(root); err != nil {
		return 0, fmt.Errorf("renewing certificates: %w", err)
	}
	files, err := n.copyCredentials(root)
	if err != nil {
		return 0, err
	}
	if err := copyFile(n.config(), filepath.Join(root, "kubeadm.yaml")); err != nil {
		return 0, err
	}
	if _, err := run(ctx, nil, kubeadm, "certs", "renew", "all", "--rootfs", root, "--config", "/kubeadm.yaml"); err != nil {
		return 0, fmt.Errorf("renewing certificates: %w", err)
	}
	renewed, err := n.stageRenewed(root, files)
	if err != nil {
		return 0, err
	}
	if err := os.RemoveAll(root); err != nil {
		return 0, fmt.Errorf("renewing certificates: %w", err)
	}
	return renewed, nil
}

// copyCredentials copies the files that hold certificates below a root, and returns their names on the node.
func (n *node) copyCredentials(root string) ([]string, error) {
	f, err := n.look()
	if err != nil {
		return nil, err
	}
	files, err := credentialFiles(f.certificates)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := copyFile(file, filepath.Join(root, file)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// stageRenewed stages those of the files that kubeadm has changed below a root, and returns how many these are.
func (n *node) stageRenewed(root string, files []string) (int, error) {
	renewed := 0
	for _, file := range files {
		equal, err := same(file, filepath.Join(root, file))
		if err != nil {
			return 0, err
		}
		if equal {
			continue
		}
		renewed++
		// What replaces a link would leave the file behind it old.
		target, err := filepath.EvalSymlinks(file)
		if err != nil {
			return 0, fmt.Errorf("staging %s: %w", file, err)
		}
		if err := copyFile(filepath.Join(root, file), filepath.Join(n.stage(), target)); err != nil {
			return 0, err
		}
	}
	return renewed, nil
}

// credentialFiles are the keys, certificates and kubeconfigs that kubeadm keeps. The kubelet's own is not among them: the kubelet renews
// it.
func credentialFiles(certificates string) ([]string, error) {
	files, err := filesBelow(certificates)
	if err != nil {
		return nil, fmt.Errorf("listing certificates: %w", err)
	}
	for _, name := range []string{"admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf"} {
		path := filepath.Join(kubernetesDir, name)
		if _, err := os.Stat(path); err == nil {
			files = append(files, path)
		}
	}
	return files, nil
}

// filesBelow are the files in a folder and below it. A link to a file, or to a folder in it, counts as what it leads to; what leads nowhere
// is left out.
func filesBelow(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case info.Mode().IsRegular():
			files = append(files, path)
		case info.IsDir():
			below, err := filesBelow(path)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		}
	}
	return files, nil
}
