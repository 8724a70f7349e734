//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// users are clients of a cluster that stay while it is recovered: an informer, the holder of a lease, and a pod on a worker that asks the
// API server with its token.
type users struct {
	c   *kubernetes.Clientset
	pod *corev1.Pod

	mu      sync.Mutex
	seen    map[string]bool
	expired int // watches that ended because their revision is compacted
	leading bool
	led     int // how often the lease was acquired
}

// usersOf begins to use a cluster that has a worker.
func (e *environment) usersOf(t *testing.T, name string) *users {
	t.Helper()
	c, cfg := e.workload(t, name)
	cfg.Timeout = 0 // watches last
	u := &users{c: c, seen: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	u.informs(ctx, t, kubernetes.NewForConfigOrDie(cfg))
	go u.leads(ctx)
	u.pod = asker(imageOfProxy(t, c))
	if _, err := c.CoreV1().Pods("default").Create(ctx, u.pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all users are served", patience, u.missing(t, c, time.Now()))
	return u
}

// informs keeps an informer of ConfigMaps.
func (u *users) informs(ctx context.Context, t *testing.T, c kubernetes.Interface) {
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps().Informer()
	err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			u.note(func() { u.expired++ })
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	note := func(object any, is bool) {
		if m, ok := object.(*corev1.ConfigMap); ok {
			u.note(func() { u.seen[m.Name] = is })
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { note(o, true) },
		DeleteFunc: func(o any) {
			if gone, is := o.(cache.DeletedFinalStateUnknown); is {
				o = gone.Obj
			}
			note(o, false)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
}

// leads holds a lease for as long as it can, and tries again when it lost it.
func (u *users) leads(ctx context.Context) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "user"}, Client: u.c.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "user"},
	}
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { u.note(func() { u.leading, u.led = true, u.led+1 }) },
				OnStoppedLeading: func() { u.note(func() { u.leading = false }) },
			},
		})
	}
}

// asker is a pod that asks the API server with its token every two seconds, and prints when, and what it was answered.
func asker(image string) *corev1.Pod {
	pod := probe(image)
	pod.Name = "asker"
	const at = "/var/run/secrets/kubernetes.io/serviceaccount"
	pod.Spec.Containers[0].Command = []string{"/node/bin/bash", "-c", `while true; do
echo $(date +%s) $(curl -s -m 3 -o /dev/null -w '%{http_code}' --cacert ` + at + `/ca.crt \
-H "Authorization: Bearer $(cat ` + at + `/token)" \
https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/apis); sleep 2; done`}
	return pod
}

// missing says which user is not served by what was written after a moment.
func (u *users) missing(t *testing.T, c kubernetes.Interface, since time.Time) func() string {
	t.Helper()
	ctx, name := context.Background(), fmt.Sprintf("for-users-%d", since.UnixNano())
	return func() string {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.CoreV1().ConfigMaps("default").Create(ctx, m, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		var seen, leading bool
		u.note(func() { seen, leading = u.seen[name], u.leading })
		lease, err := c.CoordinationV1().Leases("default").Get(ctx, "user", metav1.GetOptions{})
		logs, logged := c.CoreV1().Pods("default").GetLogs(u.pod.Name, &corev1.PodLogOptions{SinceTime: &metav1.Time{Time: since}}).DoRaw(ctx)
		switch {
		case !seen:
			return "the informer has not seen " + name
		case err != nil || !leading || lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(since):
			return fmt.Sprintf("the lease is not renewed: %v, holds it: %t", err, leading)
		case logged != nil || !strings.HasSuffix(strings.TrimSpace(string(logs)), " 200"):
			return fmt.Sprintf("the pod's token: %v, %q", logged, logs)
		}
		return ""
	}
}

func (u *users) note(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

// recovered waits until all users are served by the recovered cluster, and nothing of the old machines is left in it.
func (u *users) recovered(t *testing.T, old []string, addresses []string) {
	t.Helper()
	before, err := u.c.CoreV1().Pods("default").Get(context.Background(), u.pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Errorf("the pod of the worker: %v", err)
		return
	}
	served := eventually(t, "all users are served again", patience, u.missing(t, u.c, time.Now()))
	eventually(t, "the informer holds what there is, and nothing else", patience, u.differs)
	clean := eventually(t, "nothing of the old machines is left", patience, func() string { return stale(u.c, old, addresses) })
	u.note(func() {
		t.Logf("FIGURE users after the recovery: served %.1f s after its end, nothing stale after %.1f s; watches that ended with 410: %d; "+
			"the lease was acquired %d times; the pod restarted %d times",
			served.Seconds(), clean.Seconds(), u.expired, u.led, before.Status.ContainerStatuses[0].RestartCount)
	})
}

// differs says in what the informer differs from the cluster.
func (u *users) differs() string {
	all, err := u.c.CoreV1().ConfigMaps("default").List(context.Background(), listAll)
	if err != nil {
		return err.Error()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	there := map[string]bool{}
	for i := range all.Items {
		there[all.Items[i].Name] = true
	}
	for name, is := range u.seen {
		if is && !there[name] {
			return name + " is gone, and the informer still has it"
		}
	}
	for name := range there {
		if !u.seen[name] {
			return name + " is there, and the informer has not seen it"
		}
	}
	return ""
}

// stale says what is left of machines that are gone.
func stale(c kubernetes.Interface, old, addresses []string) string {
	ctx := context.Background()
	nodes, err := c.CoreV1().Nodes().List(ctx, listAll)
	if err != nil {
		return err.Error()
	}
	for i := range nodes.Items {
		if slices.Contains(old, nodes.Items[i].Name) {
			return "Node " + nodes.Items[i].Name
		}
	}
	leases, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, listAll)
	if err != nil {
		return err.Error()
	}
	for i := range leases.Items {
		if slices.Contains(old, leases.Items[i].Name) {
			return "Lease " + leases.Items[i].Name
		}
	}
	pods, err := c.CoreV1().Pods(metav1.NamespaceAll).List(ctx, listAll)
	if err != nil {
		return err.Error()
	}
	for i := range pods.Items {
		if slices.Contains(old, pods.Items[i].Spec.NodeName) {
			return "Pod " + pods.Items[i].Name
		}
	}
	ofService := metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"}
	slicesOf, err := c.DiscoveryV1().EndpointSlices("default").List(ctx, ofService)
	if err != nil {
		return err.Error()
	}
	for i := range slicesOf.Items {
		for _, e := range slicesOf.Items[i].Endpoints {
			for _, a := range e.Addresses {
				if slices.Contains(addresses, a) {
					return "endpoint " + a + " of Service kubernetes"
				}
			}
		}
	}
	return ""
}
