package selfmanaged

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/local/provider"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// ensure has the providers' programs, images and manifests, built if they are not there.
func (r *run) ensure(ctx context.Context, say func(string)) (string, error) {
	o := r.artifacts()
	o.Progress = func(p artifacts.Progress) { say(p.Product + " " + p.Detail) }
	var err error
	if r.providers, err = artifacts.EnsureProviders(ctx, o); err != nil {
		return "", fmt.Errorf("preparing clusterctl and the providers: %w", err)
	}
	if r.Manager == "" {
		return "clusterctl", nil
	}
	file, name, err := artifacts.EnsureManager(ctx, o, r.Manager)
	if err != nil {
		return "", fmt.Errorf("preparing the image of Quorate's manager: %w", err)
	}
	r.images, r.image = append(append([]string{}, r.providers.Images...), file), name
	return fmt.Sprintf("%d images", len(r.images)), nil
}

// artifacts are the options with which an environment's artifacts are found or built.
func (r *run) artifacts() artifacts.Options {
	o := r.Daemon.Artifacts
	o.Cache, o.Prebuilt = r.environment.Cache, r.environment.Prebuilt
	return o
}

// mostMachines is how many machines are given images at a time: each import uses one processor for half of its time.
const mostMachines = 3

// bringImages has the images on all machines of the cluster. Those that are made later have them from the start.
func (r *run) bringImages(ctx context.Context, say func(string)) (string, error) {
	host, err := sandbox.Open(r.Daemon.State, r.environment.Network, r.environment.NodeBinary)
	if err != nil {
		return "", err
	}
	machines, err := host.List()
	if err != nil {
		return "", fmt.Errorf("listing machines: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(mostMachines)
	count := 0
	for _, m := range machines {
		if m.Cluster != r.Cluster.String() || m.State != sandbox.Running {
			continue
		}
		count++
		group.Go(func() error {
			for _, file := range r.images {
				say(m.Name + ": " + strings.TrimSuffix(filepath.Base(file), ".tar"))
				if err := provider.Import(ctx, host, m.Name, file); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return fmt.Sprintf("on %d machines", count), group.Wait()
}

// init installs cert-manager, Cluster API and Quorate in the cluster. clusterctl refuses to install what is there.
func (r *run) init(ctx context.Context, say func(string)) (string, error) {
	there, err := r.cluster.providers(ctx)
	if err != nil {
		return "", err
	}
	if len(there) >= len(wanted) {
		return "already there", r.cluster.awaitProviders(ctx, say)
	}
	if err := r.writeRepository(ctx); err != nil {
		return "", err
	}
	arguments := []string{"init", "--wait-providers", "--kubeconfig", r.cluster.file}
	for _, w := range wanted {
		arguments = append(arguments, "--"+w.flag, w.name)
	}
	say("cert-manager and providers start")
	if err := r.clusterctl(ctx, arguments...); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d providers and cert-manager run", len(wanted)), nil
}

// providers are clusterctl's records of what is installed; none where it installed nothing.
func (a access) providers(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Kind: "ProviderList"})
	err := a.client.List(ctx, list)
	if err != nil && !isNoKind(err) {
		return nil, fmt.Errorf("listing the installed providers: %w", err)
	}
	return list.Items, nil
}

// awaitLimit is how long the providers may take to run.
const awaitLimit = 5 * time.Minute

// awaitProviders waits until all that clusterctl installed runs.
func (a access) awaitProviders(ctx context.Context, say func(string)) error {
	var missing []string
	err := wait.PollUntilContextTimeout(ctx, time.Second, awaitLimit, true, func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DeploymentList"})
		if err := a.client.List(ctx, list, client.HasLabels{"clusterctl.cluster.x-k8s.io"}); err != nil {
			return false, fmt.Errorf("listing the providers' Deployments: %w", err)
		}
		missing = nil
		for i := range list.Items {
			if !available(&list.Items[i]) {
				missing = append(missing, list.Items[i].GetNamespace()+"/"+list.Items[i].GetName())
			}
		}
		say("waiting for " + strings.Join(missing, ", "))
		return len(missing) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the providers %s: %w", strings.Join(missing, ", "), err)
	}
	return nil
}

// available reports whether a Deployment says so of itself.
func available(deployment *unstructured.Unstructured) bool {
	all, _, _ := unstructured.NestedSlice(deployment.Object, "status", "conditions")
	for _, c := range all {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Available" {
			return condition["status"] == "True"
		}
	}
	return false
}

// follow has the daemon make machines for the LocalMachines of the cluster.
func (r *run) follow(ctx context.Context, say func(string)) (string, error) {
	admin, err := os.ReadFile(r.cluster.file)
	if err != nil {
		return "", fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	granted, err := r.grant(ctx, admin)
	if err != nil {
		return "", err
	}
	kept := embed.ManagementCluster{Namespace: r.Cluster.Namespace, Name: r.Cluster.Name, Machines: true, Images: r.images}
	if before := r.environment.ManagementCluster; before != nil {
		kept.Clusters = before.Clusters
	}
	if err := r.keep(ctx, &kept, admin, granted, say); err != nil {
		return "", err
	}
	return "made for the objects of cluster " + r.Cluster.Name, nil
}

// keep records the management cluster, and has the daemon heed it.
func (r *run) keep(ctx context.Context, kept *embed.ManagementCluster, admin, provider []byte, say func(string)) error {
	if err := embed.SetManagementCluster(r.Daemon.State, kept, admin, provider); err != nil {
		return err
	}
	r.environment.ManagementCluster = kept
	return embed.Start(ctx, r.Daemon, say)
}

// move moves all Clusters to the cluster.
func (r *run) move(ctx context.Context, say func(string)) (string, error) {
	moved, err := r.moveAll(ctx, r.plane, r.cluster, say)
	if err != nil {
		return "", err
	}
	kept := *r.environment.ManagementCluster
	kept.Clusters = true
	if err := embed.SetManagementCluster(r.Daemon.State, &kept, nil, nil); err != nil {
		return "", err
	}
	return moved + " moved to cluster " + r.Cluster.Name, nil
}

// unfollow has the daemon make machines for the LocalMachines of its own management plane again.
func (r *run) unfollow(ctx context.Context, say func(string)) (string, error) {
	if r.environment.ManagementCluster == nil {
		return "made for the objects of the management plane", nil
	}
	kept := *r.environment.ManagementCluster
	kept.Machines = false
	return "made for the objects of the management plane", r.keep(ctx, &kept, nil, nil, say)
}

// moveBack moves all Clusters to the management plane. clusterctl asks there for the providers of where it comes from: the daemon is all of
// them.
func (r *run) moveBack(ctx context.Context, say func(string)) (string, error) {
	installed, err := r.cluster.providers(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range installed {
		if err := r.plane.claim(ctx, p); err != nil {
			return "", err
		}
	}
	moved, err := r.moveAll(ctx, r.cluster, r.plane, say)
	if err != nil {
		return "", err
	}
	return moved + " moved to the management plane", r.keep(ctx, nil, nil, nil, say)
}

// claim records a provider that another management cluster has.
func (a access) claim(ctx context.Context, p unstructured.Unstructured) error {
	namespace := &corev1.Namespace{}
	namespace.Name = p.GetNamespace()
	record := &unstructured.Unstructured{Object: map[string]any{}}
	for name, value := range p.Object {
		if name != "metadata" {
			record.Object[name] = value
		}
	}
	record.SetNamespace(p.GetNamespace())
	record.SetName(p.GetName())
	record.SetLabels(p.GetLabels())
	for _, o := range []client.Object{namespace, record} {
		if err := a.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("recording provider %s in the management plane: %w", p.GetName(), err)
		}
	}
	return nil
}

// moveAll moves the Clusters of all namespaces.
func (r *run) moveAll(ctx context.Context, from, to access, say func(string)) (string, error) {
	namespaces, err := from.namespaces(ctx)
	if err != nil {
		return "", err
	}
	for _, namespace := range namespaces {
		say("namespace " + namespace)
		if err := r.clusterctl(ctx, "move", "--kubeconfig", from.file, "--to-kubeconfig", to.file, "--namespace", namespace); err != nil {
			return "", err
		}
	}
	if len(namespaces) == 0 {
		return "nothing", nil
	}
	return "namespaces " + strings.Join(namespaces, ", "), nil
}
