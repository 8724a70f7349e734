package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// before and after are the versions of a rollout. In memory nothing runs, and nothing is downloaded.
	before, after = "v1.35.4", "v1.36.3"
	// atOnce is how many clusters are made or changed at the same time.
	atOnce = 16
	// look is how often the machines in our memory are looked at.
	look = 20 * time.Millisecond
)

// fleet makes control planes in a world, and looks at their machines.
type fleet struct {
	world  *world
	client client.Client
	cache  cache.Cache
}

func newFleet(ctx context.Context, w *world) (*fleet, error) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(w.config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	machines, err := cache.New(w.config, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	if _, err := machines.GetInformer(ctx, &clusterv1.Machine{}); err != nil {
		return nil, err
	}
	go func() { _ = machines.Start(ctx) }() // what it cannot do, the waits tell
	if !machines.WaitForCacheSync(ctx) {
		return nil, errors.New("the machines cannot be watched")
	}
	return &fleet{w, c, machines}, nil
}

// names are those of that many clusters.
func names(prefix string, count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("%s%04d", prefix, i)
	}
	return all
}

// create makes clusters with that many replicas each, and returns how long it took until all machines were ready.
func (f *fleet) create(ctx context.Context, o options, clusters []string, replicas int) (time.Duration, error) {
	start := time.Now()
	err := each(clusters, func(name string) error {
		for _, object := range objects(name, replicas, o.delays, o.overlap && f.world.side == quorate) {
			if err := f.client.Create(ctx, object); err != nil {
				return fmt.Errorf("making %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return f.await(ctx, start, o.patience, clusters, replicas, before)
}

// roll changes the version, and returns how long it took until all machines had it and were ready.
func (f *fleet) roll(ctx context.Context, o options, clusters []string, replicas int) (time.Duration, error) {
	start := time.Now()
	err := each(clusters, func(name string) error {
		kcp := &unstructured.Unstructured{}
		kcp.SetAPIVersion("controlplane.cluster.x-k8s.io/v1beta2")
		kcp.SetKind("KubeadmControlPlane")
		kcp.SetNamespace("default")
		kcp.SetName(name)
		return f.client.Patch(ctx, kcp, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"version":"`+after+`"}}`)))
	})
	if err != nil {
		return 0, err
	}
	return f.await(ctx, start, o.patience, clusters, replicas, after)
}

// await waits until each cluster has just that many machines, all ready and of the version.
func (f *fleet) await(
	ctx context.Context, start time.Time, patience time.Duration, clusters []string, replicas int, version string,
) (time.Duration, error) {
	again := time.NewTicker(look)
	defer again.Stop()
	for {
		if err := f.world.alive(); err != nil {
			return 0, err
		}
		missing, err := f.missing(ctx, clusters, replicas, version)
		if err != nil || missing == "" {
			return time.Since(start), err
		}
		if time.Since(start) > patience {
			return 0, fmt.Errorf("after %s %s", patience, missing)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-again.C:
		}
	}
}

// missing says what is not as wanted yet; empty: nothing.
func (f *fleet) missing(ctx context.Context, clusters []string, replicas int, version string) (string, error) {
	var all clusterv1.MachineList
	if err := f.cache.List(ctx, &all, client.InNamespace("default"), client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	there, ready := map[string]int{}, map[string]int{}
	for i := range all.Items {
		m := &all.Items[i]
		there[m.Spec.ClusterName]++
		if m.Spec.Version == version && m.DeletionTimestamp.IsZero() && conditions.IsTrue(m, clusterv1.MachineReadyCondition) {
			ready[m.Spec.ClusterName]++
		}
	}
	var short []string
	for _, name := range clusters {
		if there[name] != replicas || ready[name] != replicas {
			short = append(short, fmt.Sprintf("%s has %d machines, %d of them ready", name, there[name], ready[name]))
		}
	}
	if len(short) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d of %d clusters are not as wanted: %s", len(short), len(clusters), strings.Join(short[:min(3, len(short))], "; ")),
		nil
}

// each does something for all clusters, several at the same time.
func each(clusters []string, do func(string) error) error {
	failed := make(chan error, len(clusters))
	turns := make(chan struct{}, atOnce)
	for _, name := range clusters {
		turns <- struct{}{}
		go func() {
			failed <- do(name)
			<-turns
		}()
	}
	var all error
	for range clusters {
		all = errors.Join(all, <-failed)
	}
	return all
}

// delays are how long a machine, and each of its Node, API server and etcd, takes to come up in memory.
type delays struct{ Machine, Parts time.Duration }

// objects are those of one cluster. overlap: its rollouts do not wait for infrastructure to go.
func objects(name string, replicas int, d delays, overlap bool) []*unstructured.Unstructured {
	var text bytes.Buffer
	values := map[string]any{"Name": name, "Replicas": replicas, "Version": before, "Machine": d.Machine, "Parts": d.Parts, "Overlap": overlap}
	if err := manifests.Execute(&text, values); err != nil {
		panic(err) // the template and its values are our own
	}
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(&text, 4096)
	for {
		o := &unstructured.Unstructured{}
		if decoder.Decode(o) != nil {
			return all
		}
		all = append(all, o)
	}
}

// manifests has an annotation on the DevCluster: its controller expects that there is one.
var manifests = template.Must(template.New("").Parse(`apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: {{.Name}}, namespace: default}
spec:
  clusterNetwork:
    pods: {cidrBlocks: [10.244.0.0/16]}
    services: {cidrBlocks: [10.96.0.0/12]}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: {{.Name}}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: {{.Name}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevCluster
metadata: {name: {{.Name}}, namespace: default, annotations: {comparison: "true"}}
spec: {backend: {inMemory: {}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: {name: {{.Name}}, namespace: default}
spec:
  template:
    spec:
      backend:
        inMemory:
          vm: {provisioning: {startupDuration: {{.Machine}}, startupJitter: "0"}}
          node: {provisioning: {startupDuration: {{.Parts}}, startupJitter: "0"}}
          apiServer: {provisioning: {startupDuration: {{.Parts}}, startupJitter: "0"}}
          etcd: {provisioning: {startupDuration: {{.Parts}}, startupJitter: "0"}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: {{.Name}}, namespace: default}
spec:
  replicas: {{.Replicas}}
  version: {{.Version}}
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}
{{- if .Overlap}}
  joins: {overlap: true}
{{- end}}
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: {{.Name}}}
  kubeadmConfigSpec:
    clusterConfiguration: {apiServer: {certSANs: [localhost]}}
`))
