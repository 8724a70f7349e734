//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/manager"
)

// operatorHook holds a Machine until the operator has removed its member.
const operatorHook = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/etcd-operator"

// operatorKind is what the operator reports on, the default of spec.etcd.operator.
var operatorKind = schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "Etcd"}

// etcdOperator is a small operator of etcd: it removes the members of machines that go, and says how etcd is in the managed cluster.
// kubeadm on the machines adds the members.
type etcdOperator struct {
	management client.Client
	key        client.ObjectKey
	clients    certs.EtcdClients
	etcd       *etcd.Cluster

	mu      sync.Mutex
	objects string   // why it says that etcd is not healthy, whatever its members say
	removed []string // the machines whose members it removed
	failure string   // what it said last of what it could not do
}

// runEtcdOperator runs the operator of a cluster's etcd until the test ends.
func (e *environment) runEtcdOperator(t *testing.T, cluster string) *etcdOperator {
	t.Helper()
	o := &etcdOperator{management: e.management(t), key: client.ObjectKey{Namespace: "default", Name: cluster}, etcd: etcd.Open(nil)}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			err := o.turn(ctx)
			o.mu.Lock()
			o.failure = ""
			if err != nil {
				o.failure = err.Error()
			}
			o.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		o.etcd.Close()
		if t.Failed() {
			t.Logf("the operator removed the members of %v, and said last: %s", o.removed, o.failure)
		}
	})
	return o
}

// object has the operator say that etcd is not healthy; empty: what its members say.
func (o *etcdOperator) object(words string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.objects = words
}

// removals are the machines whose members the operator removed.
func (o *etcdOperator) removals() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.removed)
}

// turn looks at machines and members once, and does what is to be done.
func (o *etcdOperator) turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cluster := &clusterv1.Cluster{}
	if err := o.management.Get(ctx, o.key, cluster); err != nil {
		return client.IgnoreNotFound(err)
	}
	var machines clusterv1.MachineList
	if err := o.management.List(ctx, &machines, client.InNamespace(o.key.Namespace), machine.Labels(o.key.Name)); err != nil {
		return err
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		_, hooked := m.Annotations[operatorHook]
		switch {
		case m.DeletionTimestamp.IsZero() && !hooked:
			if err := o.hook(ctx, m, ptr.To("")); err != nil {
				return err
			}
		case !cluster.DeletionTimestamp.IsZero() && hooked: // its data go with it
			if err := o.hook(ctx, m, nil); err != nil {
				return err
			}
		}
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	survey, targets, err := o.survey(ctx, machines.Items)
	if err != nil {
		return err
	}
	if err := o.report(ctx, survey); err != nil {
		return err
	}
	for i := range machines.Items {
		if err := o.removeMember(ctx, &machines.Items[i], survey, targets); err != nil {
			return err
		}
	}
	return nil
}

// hook puts the operator's hook on a Machine, or, where the value is nil, takes it off.
func (o *etcdOperator) hook(ctx context.Context, m *clusterv1.Machine, value *string) error {
	after := m.DeepCopy()
	after.Annotations = maps.Clone(m.Annotations)
	delete(after.Annotations, operatorHook)
	if value != nil {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, operatorHook, *value)
	}
	return client.IgnoreNotFound(o.management.Patch(ctx, after, client.MergeFrom(m)))
}

// survey asks all members.
func (o *etcdOperator) survey(ctx context.Context, machines []clusterv1.Machine) (etcd.Survey, []etcd.Target, error) {
	config, err := o.clients.Config(ctx, o.management,
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.key.Namespace, Name: o.key.Name}})
	if err != nil {
		return etcd.Survey{}, nil, err
	}
	var targets []etcd.Target
	for _, m := range machines {
		if ip := machine.InternalIP(&m); ip != "" {
			targets = append(targets, etcd.Target{Name: m.Name, Dial: func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip, "2379"))
			}})
		}
	}
	o.etcd.Use(config)
	return o.etcd.Survey(ctx, targets), targets, nil
}

// removeMember removes the member of a Machine that has nothing else to wait for, hands its leadership over before, and lets the
// Machine go once the member is gone.
func (o *etcdOperator) removeMember(ctx context.Context, m *clusterv1.Machine, survey etcd.Survey, targets []etcd.Target) error {
	_, hooked := m.Annotations[operatorHook]
	if !hooked || conditions.GetReason(m, clusterv1.MachineDeletingCondition) != clusterv1.MachineDeletingWaitingForPreTerminateHookReason ||
		!survey.Known || !survey.Agreed {
		return nil
	}
	i := slices.IndexFunc(survey.Members, func(x etcd.Member) bool { return x.Name == m.Name })
	if i < 0 {
		return o.hook(ctx, m, nil)
	}
	goes := survey.Members[i]
	heir := slices.IndexFunc(survey.Members, func(x etcd.Member) bool { return x.ID != goes.ID && !x.Learner && x.Health == plan.Healthy })
	if heir < 0 {
		return fmt.Errorf("no other member than that of %s is healthy", m.Name)
	}
	if goes.Leader {
		return o.etcd.MoveLeader(ctx, targets, survey.Members[heir].ID)
	}
	if err := o.etcd.RemoveMember(ctx, targets, goes.ID); err != nil {
		return err
	}
	o.mu.Lock()
	o.removed = append(o.removed, m.Name)
	o.mu.Unlock()
	return nil
}

// report says in the managed cluster how etcd is.
func (o *etcdOperator) report(ctx context.Context, survey etcd.Survey) error {
	data, err := kubeconfig.FromSecret(ctx, o.management, o.key)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return err
	}
	config.Timeout = 2 * time.Second
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		return err
	}
	o.mu.Lock()
	words := o.objects
	o.mu.Unlock()
	condition := map[string]any{"type": "EtcdMembersAvailable", "status": "True", "reason": "AsExpected",
		"message": fmt.Sprintf("%d members are available", len(survey.Members))}
	if words = cmp.Or(words, ailing(survey)); words != "" {
		condition["status"], condition["reason"], condition["message"] = "False", "MembersUnavailable", words
	}
	status := &unstructured.Unstructured{}
	status.SetGroupVersionKind(operatorKind)
	err = c.Get(ctx, client.ObjectKey{Name: "cluster"}, status)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return install(ctx, c)
	case err != nil:
		return err
	}
	before := status.DeepCopy()
	if err := unstructured.SetNestedSlice(status.Object, []any{condition}, "status", "conditions"); err != nil {
		return err
	}
	return c.Status().Patch(ctx, status, client.MergeFrom(before))
}

// ailing says which members are not as they should be; empty: all are.
func ailing(survey etcd.Survey) string {
	if !survey.Known || !survey.Agreed {
		return "the members are not known: " + survey.Why
	}
	var texts []string
	for _, m := range survey.Members {
		switch {
		case m.Learner:
			texts = append(texts, "member "+etcd.FormatID(m.ID)+" is a learner")
		case m.Health != plan.Healthy:
			texts = append(texts, m.Name+" is not healthy: "+m.Why)
		}
	}
	return strings.Join(texts, ", ")
}

// install makes the operator's kind and object in a managed cluster.
func install(ctx context.Context, c client.Client) error {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "etcds." + operatorKind.Group}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: operatorKind.Group,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "etcds", Singular: "etcd", Kind: operatorKind.Kind,
			ListKind: operatorKind.Kind + "List"},
		Scope: apiextensionsv1.ClusterScoped,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: operatorKind.Version, Served: true, Storage: true,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: ptr.To(true),
			}},
		}},
	}
	if err := c.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(operatorKind)
	object.SetName("cluster")
	return c.Create(ctx, object)
}
