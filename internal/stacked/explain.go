package stacked

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capikubeconfig "sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/kubeconfig"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/workload"
)

// ObserveOptions say how Observe reads. The zero value is good.
type ObserveOptions struct {
	// Patience is how long the managed cluster may take to answer; 0: 5 s.
	Patience time.Duration
}

// Observe reads what a decision about one control plane would be made from, once
// and without a manager: for the command line. Since when members are as they
// are is not known to one who looks once; Member.Since is the time of the look.
// A managed cluster that does not answer is a fact, not an error. A control
// plane without a Cluster is an error.
func Observe(ctx context.Context, c client.Reader, key client.ObjectKey, options ObserveOptions) (plan.Observed, error) {
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := c.Get(ctx, key, kcp); err != nil {
		return plan.Observed{}, fmt.Errorf("reading KubeadmControlPlane %s: %w", key, err)
	}
	cluster := &clusterv1.Cluster{}
	owner := clusterName(kcp)
	if owner == "" {
		return plan.Observed{}, fmt.Errorf("no Cluster owns KubeadmControlPlane %s", key)
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: owner}, cluster); err != nil {
		return plan.Observed{}, fmt.Errorf("reading Cluster %s: %w", owner, err)
	}
	from := reader{objects: c, direct: c}
	machines, err := group.ListMachines(ctx, c, kcp, cluster.Name)
	if err != nil {
		return plan.Observed{}, err
	}
	s, err := from.gather(ctx, kcp, cluster, machines, &slowFacts{}, time.Now())
	if err != nil {
		return plan.Observed{}, err
	}
	patience := options.Patience
	if patience == 0 {
		patience = 5 * time.Second
	}
	lookOnce(ctx, c, s, patience)
	s.Facts.Now = time.Now()
	return s.Facts, nil
}

// lookOnce adds what the managed cluster and its etcd say.
func lookOnce(ctx context.Context, c client.Reader, s *scene, patience time.Duration) {
	config, err := workloadConfig(ctx, c, s.Cluster)
	if err != nil {
		s.addWorkload(workload.View{Why: err.Error()})
		return
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	view, err := workload.Once(short, config)
	if err != nil {
		view = workload.View{Why: err.Error()}
	}
	s.addWorkload(view)
	if !s.Surveys() {
		return
	}
	q := &quorums{secrets: c}
	defer q.Forget(client.ObjectKeyFromObject(s.Cluster))
	quorum, err := q.Of(ctx, s.Cluster)
	if err != nil {
		s.AddEtcd(etcd.Survey{Why: err.Error()}, &group.MemberTimes{}, time.Now())
		return
	}
	survey := s.Ask(ctx, quorum, func(node, ip string) etcd.Target {
		return etcd.Target{Name: node, Dial: workload.Dial(config, node, ip, etcdPort)}
	}, etcd.Survey{})
	s.AddEtcd(survey, &group.MemberTimes{}, time.Now())
}

// workloadConfig reads how the managed cluster is reached.
func workloadConfig(ctx context.Context, c client.Reader, cluster *clusterv1.Cluster) (*rest.Config, error) {
	data, err := capikubeconfig.FromSecret(ctx, c, client.ObjectKeyFromObject(cluster))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", cluster.Name, err)
	}
	config, err := kubeconfig.RESTConfig(data)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", cluster.Name, err)
	}
	return config, nil
}

// clusterName returns the name of the Cluster that owns a control plane; empty when none does.
func clusterName(kcp *controlplanev1.KubeadmControlPlane) string {
	for _, o := range kcp.OwnerReferences {
		if o.Kind == "Cluster" {
			return o.Name
		}
	}
	return ""
}
