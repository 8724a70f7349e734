package embed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// poll is how often a condition of the API server is looked at while it starts, and startLimit how long it may take. It
// is a matter of seconds, but a host may be busy with many machines.
const (
	poll       = 50 * time.Millisecond
	startLimit = 2 * time.Minute
)

// The role that is written last, and its annotation that says what was installed before it.
const (
	markRole       = "quorate:installed"
	markAnnotation = "quorate.dev/manifests"
)

// install puts the manifests into the management plane unless exactly these are there.
func install(ctx context.Context, c client.Client, m *manifests) error {
	print, err := m.fingerprint()
	if err != nil {
		return err
	}
	var mark rbacv1.ClusterRole
	err = c.Get(ctx, client.ObjectKey{Name: markRole}, &mark)
	if err == nil && mark.Annotations[markAnnotation] == print {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking what is installed: %w", err)
	}
	// The API server has two processors at best; more at once would only queue there.
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for _, obj := range m.objects() {
		group.Go(func() error { return put(groupCtx, c, obj) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return put(ctx, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
		Name: markRole, Annotations: map[string]string{markAnnotation: print},
	}})
}

// put creates an object, or makes the existing one like it.
func put(ctx context.Context, c client.Client, obj client.Object) error {
	err := c.Create(ctx, obj)
	if apierrors.IsAlreadyExists(err) {
		current, ok := obj.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("installing %T %s: no object", obj, obj.GetName())
		}
		if err = c.Get(ctx, client.ObjectKeyFromObject(obj), current); err == nil {
			obj.SetResourceVersion(current.GetResourceVersion())
			err = c.Update(ctx, obj)
		}
	}
	if err != nil {
		return fmt.Errorf("installing %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

// ask waits until the API server answers its administrator at all.
func ask(ctx context.Context, c client.Client, trouble func() error) error {
	var last error
	return until(ctx, &last, "the API server to answer", func(ctx context.Context) (bool, error) {
		if err := trouble(); err != nil {
			return false, err
		}
		last = c.Get(ctx, client.ObjectKey{Name: "cluster-admin"}, &rbacv1.ClusterRole{})
		return last == nil, nil
	})
}

// mayRead waits until a user of the controllers has its rights: the API server makes the roles for discovery while it starts,
// and takes notice of ours a little after they were written.
func mayRead(ctx context.Context, user *rest.Config) error {
	c, err := discovery.NewDiscoveryClientForConfig(user)
	if err != nil {
		return fmt.Errorf("creating a client for discovery: %w", err)
	}
	clusters := []string{"apis", clusterv1.GroupVersion.Group, clusterv1.GroupVersion.Version, "clusters"}
	var last error
	return until(ctx, &last, "the controllers to get their rights", func(ctx context.Context) (bool, error) {
		if _, last = c.ServerGroups(); last == nil {
			last = c.RESTClient().Get().AbsPath(clusters...).Param("limit", "1").Do(ctx).Error()
		}
		return last == nil, nil
	})
}

// ready waits until all kinds of the manifests are known to the mapper, in each version that is served, and namespaces can be written
// to. The versions are named: a mapper that looks for any keeps those of a group that it found first, and never
// looks for kinds that are served in another.
func ready(ctx context.Context, c client.Client, mapper meta.RESTMapper, crds []*apiextensionsv1.CustomResourceDefinition) error {
	var last error
	for _, crd := range crds {
		gk := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			if err := until(ctx, &last, "kind "+gk.String()+" in version "+v.Name, func(context.Context) (bool, error) {
				_, last = mapper.RESTMapping(gk, v.Name)
				return last == nil, nil
			}); err != nil {
				return err
			}
		}
	}
	return until(ctx, &last, "the namespace default", func(ctx context.Context) (bool, error) {
		last = c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceDefault}, &corev1.Namespace{})
		return last == nil, nil
	})
}

// until polls a condition, and says at the end what it waited for and what the last error was.
func until(ctx context.Context, last *error, what string, condition wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, poll, startLimit, true, condition)
	if wait.Interrupted(err) {
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, *last))
	}
	return err
}
