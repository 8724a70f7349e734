package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/sandbox"
)

const (
	// drainLimit is the longest that a deletion waits for connections to move to other machines.
	drainLimit = 5 * time.Second
	// lookAtDrain is how often the balancer's status is looked at meanwhile.
	lookAtDrain = 200 * time.Millisecond
)

// ensure has the machine there and running, as far as that is ours to do, and returns it; or why it is not there.
func (r *machineReconciler) ensure(
	ctx context.Context, lm *infrav1.LocalMachine, of owner,
) (*sandbox.Status, ctrl.Result, *problem, error) {
	s, err := r.machines.Get(lm.Name)
	switch {
	case errors.Is(err, sandbox.ErrNotFound):
		return r.create(ctx, lm, of)
	case err != nil:
		return nil, ctrl.Result{}, nil, fmt.Errorf("looking at machine %s: %w", lm.Name, err)
	case s.Cluster != sandboxCluster(of.cluster) || !owns(lm, &s):
		return nil, ctrl.Result{RequeueAfter: askAgain}, othersProblem(lm, of, &s), nil
	case s.State == sandbox.Dead && r.shouldStart(lm):
		return r.start(ctx, lm, ownedBy(lm, s.Spec))
	case s.State != sandbox.Dead && s.Owner == "":
		return r.start(ctx, lm, ownedBy(lm, s.Spec)) // it runs, or was stopped on purpose: this only records the owner
	default:
		return &s, ctrl.Result{}, nil, nil
	}
}

// shouldStart reports whether a machine that does not run, although no user stopped it, is to be started: it never ran, or the
// host was booted since. One that died by itself stays dead, as evidence, and for the controller that replaces machines.
func (r *machineReconciler) shouldStart(lm *infrav1.LocalMachine) bool {
	if !ptr.Deref(lm.Status.Initialization.Provisioned, false) {
		return true
	}
	seen := conditions.GetLastTransitionTime(lm, infrav1.SandboxReadyCondition)
	return seen == nil || seen.Time.Before(r.booted)
}

// create makes the machine, as soon as there is what it is made of. It does not wait for bootstrap data: containerd and
// the images are ready when that comes.
func (r *machineReconciler) create(
	ctx context.Context, lm *infrav1.LocalMachine, of owner,
) (*sandbox.Status, ctrl.Result, *problem, error) {
	if ptr.Deref(lm.Status.Initialization.Provisioned, false) {
		// Its disk was all it knew; a new one under its name would be another machine.
		return nil, ctrl.Result{},
			&problem{infrav1.VanishedReason, "nothing is left of the machine on this host; delete its Machine to replace it"}, nil
	}
	if p := cmp.Or(nameProblem(lm.Name), addressesProblem(r.claims.network, lm.Spec.Addresses)); p != nil {
		return nil, ctrl.Result{}, p, nil
	}
	set, result, problem := r.artifacts(of.machine)
	if problem != nil {
		return nil, result, problem, nil
	}
	if later, p := beforeMaking(lm); p != nil {
		return nil, ctrl.Result{RequeueAfter: later}, p, nil
	}
	mine, problem, err := r.claim(ctx, lm, of)
	if problem != nil || err != nil {
		return nil, ctrl.Result{RequeueAfter: askAgain}, problem, err
	}
	spec := sandbox.Spec{
		Name: lm.Name, Owner: string(lm.UID), Cluster: mine.cluster, FailureDomain: of.machine.Spec.FailureDomain,
		Address: mine.address, PodCIDR: mine.pods, PodCIDR6: mine.pods6, IPv6Only: mine.v6Only, Artifacts: *set, Resources: limitsOf(lm),
	}
	if mine.pods6.IsValid() {
		spec.Address6 = sandbox.Address6(r.claims.network, mine.address)
	}
	return r.start(ctx, lm, spec)
}

func (r *machineReconciler) start(
	ctx context.Context, lm *infrav1.LocalMachine, spec sandbox.Spec,
) (*sandbox.Status, ctrl.Result, *problem, error) {
	err := r.machines.Ensure(ctx, spec)
	if missing, ok := errors.AsType[*sandbox.NotFreeError](err); ok {
		return nil, ctrl.Result{RequeueAfter: askAgain}, notFree(lm, missing), nil
	}
	if err != nil {
		return nil, ctrl.Result{}, &problem{infrav1.NotStartedReason, err.Error()}, fmt.Errorf("starting machine %s: %w", lm.Name, err)
	}
	s, err := r.machines.Get(lm.Name)
	if err != nil {
		return nil, ctrl.Result{}, nil, fmt.Errorf("looking at machine %s: %w", lm.Name, err)
	}
	return &s, ctrl.Result{}, nil, nil
}

// artifacts returns what runs on the machine, or why it is not there yet.
func (r *machineReconciler) artifacts(m *clusterv1.Machine) (*artifacts.Set, ctrl.Result, *problem) {
	what, version := "Kubernetes "+m.Spec.Version, m.Spec.Version
	if isEtcd(m) {
		// Whatever version of etcd the bootstrap data asks for: the machine has several.
		what, version = "etcd", etcdBuild
	}
	if version == "" {
		return nil, ctrl.Result{}, &problem{infrav1.SpecInvalidReason, "spec.version of Machine " + m.Name +
			" is empty, want a version of Kubernetes"}
	}
	set, err := r.builds.get(version)
	switch {
	case err != nil:
		return nil, ctrl.Result{RequeueAfter: retryBuild}, &problem{infrav1.NotBuiltReason, fmt.Sprintf("%s cannot be had: %v", what, err)}
	case set == nil:
		return nil, ctrl.Result{}, &problem{infrav1.BuildingReason, what + " is being built, which takes minutes the first time"}
	default:
		return set, ctrl.Result{}, nil
	}
}

// claim returns the machine's address and part of the pod network.
func (r *machineReconciler) claim(ctx context.Context, lm *infrav1.LocalMachine, of owner) (claim, *problem, error) {
	networks, err := podNetwork(of.cluster.Spec.ClusterNetwork.Pods.CIDRBlocks)
	if err != nil {
		return claim{}, &problem{infrav1.NoAddressReason, err.Error()}, nil
	}
	for _, network := range []netip.Prefix{r.claims.network, sandbox.Network6(r.claims.network)} {
		for _, pods := range []netip.Prefix{networks.v4, networks.v6} {
			if pods.IsValid() && pods.Overlaps(network) {
				return claim{}, &problem{infrav1.NoAddressReason, fmt.Sprintf(
					"the pod network %s overlaps with %s, the network of machines; choose another for spec.clusterNetwork.pods of the Cluster", pods,
					network)}, nil
			}
		}
	}
	taken, err := r.taken(ctx)
	if err != nil {
		return claim{}, nil, err
	}
	reserved, err := r.reserved(ctx)
	if err != nil {
		return claim{}, nil, err
	}
	mine, err := r.claims.take(request{
		key: client.ObjectKeyFromObject(lm), cluster: sandboxCluster(of.cluster), pods: networks.numbered(), fixed: parsed(lm.Spec.Addresses),
		reserved: reserved,
	}, taken)
	if err != nil {
		return claim{}, &problem{infrav1.NoAddressReason, err.Error()}, nil
	}
	mine.pods6, mine.v6Only = networks.part6(mine.pods), networks.v6Only()
	return mine, nil, nil
}

// taken are the addresses and pod ranges that machines and endpoints have.
func (r *machineReconciler) taken(ctx context.Context) ([]claim, error) {
	var taken []claim
	running, err := r.machines.List()
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	for _, s := range running {
		taken = append(taken, claim{holder: machineNamed(s.Name), cluster: s.Cluster, address: s.Address, pods: s.PodCIDR})
	}
	var objects infrav1.LocalMachineList
	if err := r.client.List(ctx, &objects); err != nil {
		return nil, fmt.Errorf("listing LocalMachines: %w", err)
	}
	for i := range objects.Items {
		taken = append(taken, claimOf(&objects.Items[i]))
	}
	var clusters infrav1.LocalClusterList
	if err := r.client.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("listing LocalClusters: %w", err)
	}
	for _, c := range clusters.Items {
		if a, err := netip.ParseAddr(c.Spec.ControlPlaneEndpoint.Host); err == nil {
			taken = append(taken, claim{holder: "the endpoint of LocalCluster " + c.Name, address: a})
		}
	}
	return taken, nil
}

// tell hands the bootstrap data to the machine, once there is some; or says why that cannot be used.
func (r *machineReconciler) tell(ctx context.Context, lm *infrav1.LocalMachine, of owner, s *sandbox.Status) (*problem, error) {
	key := client.ObjectKeyFromObject(lm)
	name := of.machine.Spec.Bootstrap.DataSecretName
	r.mu.Lock()
	known := r.told[key]
	r.mu.Unlock()
	if name == nil || s.Bootstrap.Phase != "" || known {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: lm.Namespace, Name: *name}, secret); err != nil {
		var missing *problem
		if apierrors.IsNotFound(err) {
			missing = &problem{infrav1.WaitingForBootstrapDataReason, fmt.Sprintf(
				"secret %s, which spec.bootstrap.dataSecretName of Machine %s names, is not there", *name, of.machine.Name)}
		}
		return missing, fmt.Errorf("reading the bootstrap data of %s: %w", lm.Name, err)
	}
	data, unsupported := bootstrapData(secret)
	if unsupported != nil {
		return unsupported, nil
	}
	lm.Status.BootstrapToken = r.knownToken(ctx, of, data)
	if err := r.machines.Bootstrap(ctx, lm.Name, data); err != nil {
		return nil, fmt.Errorf("handing the bootstrap data to machine %s: %w", lm.Name, err)
	}
	r.mu.Lock()
	r.told[key] = true
	r.mu.Unlock()
	return nil, nil
}

// bootstrapData is what a secret holds for a machine, or why that cannot be used.
func bootstrapData(secret *corev1.Secret) ([]byte, *problem) {
	if format := string(secret.Data["format"]); format != "" && format != "cloud-config" {
		return nil, &problem{infrav1.BootstrapDataUnsupportedReason, fmt.Sprintf("the bootstrap data has the format %q; local machines execute "+
			"cloud-config", format)}
	}
	data, ok := secret.Data["value"]
	if !ok {
		return nil, &problem{infrav1.BootstrapDataUnsupportedReason, fmt.Sprintf("secret %s has no key \"value\" with bootstrap data",
			secret.Name)}
	}
	return data, nil
}

// sandboxCluster is what the LocalMachine's machine on this host carries as its cluster's name, also when the Cluster is gone.
func (o owner) sandboxCluster(lm *infrav1.LocalMachine) string {
	if o.cluster != nil {
		return sandboxCluster(o.cluster)
	}
	return lm.Namespace + "/" + clusterName(lm)
}

// beforeDeletion reports whether there is a machine that is ours to remove, and whether its connections are still being moved.
func (r *machineReconciler) beforeDeletion(lm *infrav1.LocalMachine, of owner) (mine, draining bool, err error) {
	s, err := r.machines.Get(lm.Name)
	if errors.Is(err, sandbox.ErrNotFound) || nameProblem(lm.Name) != nil {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("looking at machine %s: %w", lm.Name, err)
	}
	if s.Cluster != of.sandboxCluster(lm) || !owns(lm, &s) {
		return false, false, nil
	}
	if of.cluster == nil || s.State != sandbox.Running || time.Since(removal(lm)) > drainLimit {
		return true, false, nil
	}
	return true, !r.endpoints.drained(of.endpoint(lm.Namespace), lm.Name), nil
}

// endpoint is the one that leads to a machine of a cluster.
func (o owner) endpoint(namespace string) client.ObjectKey {
	key := client.ObjectKey{Namespace: namespace, Name: o.cluster.Spec.InfrastructureRef.Name}
	if o.machine != nil && isEtcd(o.machine) {
		return ofEtcd(key)
	}
	return key
}
