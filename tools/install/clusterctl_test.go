package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/manager"
)

// release is the version that is written in tests.
const release = "v0.1.7"

// repositoryOf writes a repository of Quorate's providers and returns its folder.
func repositoryOf(t *testing.T) string {
	t.Helper()
	o := options{root: sources, out: t.TempDir(), version: release, image: "registry.example.com/manager"}
	if err := o.write(); err != nil {
		t.Fatal(err)
	}
	return o.out
}

// configuration writes clusterctl's configuration file, in which are providers of a repository and some variables.
func configuration(t *testing.T, repository string, variables map[string]string) string {
	t.Helper()
	var entries []map[string]string
	for _, p := range providers {
		u := url.URL{Scheme: "file", Path: filepath.Join(repository, p.label(), release, p.Components)}
		entries = append(entries, map[string]string{"name": name, "type": string(p.Type), "url": u.String()})
	}
	for _, own := range []struct {
		name, label, file string
		kind              clusterctlv1.ProviderType
	}{
		{"cluster-api", "cluster-api", "core-components.yaml", clusterctlv1.CoreProviderType},
		{"kubeadm", "bootstrap-kubeadm", "bootstrap-components.yaml", clusterctlv1.BootstrapProviderType},
	} {
		u := url.URL{Scheme: "file", Path: filepath.Join(repository, own.label, upstreamVersion, own.file)}
		entries = append(entries, map[string]string{"name": own.name, "type": string(own.kind), "url": u.String()})
	}
	// cert-manager's kinds are there, and nobody is to install more of it.
	all := map[string]any{"providers": entries, "cert-manager": map[string]string{"externallyProvisioned": "true", "timeout": "1m"}}
	for k, v := range variables {
		all[k] = v
	}
	data, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "clusterctl.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// components returns a provider's components as clusterctl reads them from the repository.
func components(t *testing.T, p provider, file string, o repository.ComponentsOptions) repository.Components {
	t.Helper()
	cfg, err := config.New(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	known, err := cfg.Providers().Get(name, p.Type)
	if err != nil {
		t.Fatal(err)
	}
	r, err := repository.New(t.Context(), known, cfg)
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := r.Metadata(release).Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := metadata.GetReleaseSeriesForContract("v1beta2"); s == nil {
		t.Errorf("%s: no series keeps the contract v1beta2", p.Folder)
	}
	found, err := r.Components().Get(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestComponents: clusterctl reads the components of all providers, which have nothing in common, and which are together what
// config/default installs.
func TestComponents(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	file := configuration(t, repositoryOf(t), nil)
	owners, webhooks := map[string]string{}, map[string]string{}
	for _, p := range providers {
		c := components(t, p, file, repository.ComponentsOptions{})
		if c.Version() != release || p.Folder != "infrastructure" &&
			!slices.Equal(c.Images(), []string{"registry.example.com/manager:" + release}) {
			t.Errorf("%s: version %s, images %q", p.Folder, c.Version(), c.Images())
		}
		for _, o := range c.Objs() {
			key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			if other, ok := owners[key]; ok {
				t.Errorf("%s is of %s and %s", key, other, p.Folder)
			}
			owners[key] = p.Folder
			checkLabels(t, p, o)
			hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
			for _, h := range hooks {
				webhooks[fmt.Sprint(h.(map[string]any)["name"])] = p.Folder
			}
		}
	}
	for key, o := range objects(t, "default") {
		if _, ok := owners[key]; !ok && (o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "ClusterRole") {
			t.Errorf("no provider has %s", key)
		}
		hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		for _, h := range hooks {
			hook := fmt.Sprint(h.(map[string]any)["name"])
			if want := map[bool]string{true: "bootstrap", false: "control-plane"}[strings.Contains(hook, ".bootstrap.")]; webhooks[hook] != want {
				t.Errorf("the webhook %s is of %q, want %s", hook, webhooks[hook], want)
			}
		}
	}
}

// checkLabels: all objects say whose they are, and kinds which version is for which contract, and that they may be moved.
func checkLabels(t *testing.T, p provider, o unstructured.Unstructured) {
	t.Helper()
	labels := o.GetLabels()
	if labels[clusterv1.ProviderNameLabel] != p.label() {
		t.Errorf("%s %s has the provider %q, want %s", o.GetKind(), o.GetName(), labels[clusterv1.ProviderNameLabel], p.label())
	}
	if o.GetKind() != "CustomResourceDefinition" {
		return
	}
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	var served []string
	for _, v := range versions {
		served = append(served, fmt.Sprint(v.(map[string]any)["name"]))
	}
	if named := labels["cluster.x-k8s.io/v1beta2"]; !slices.Contains(served, named) {
		t.Errorf("%s has the versions %q, and %q for the contract", o.GetName(), served, named)
	}
	if _, ok := labels[clusterctlv1.ClusterctlLabel]; !ok {
		t.Errorf("%s cannot be moved", o.GetName())
	}
}

// TestTargetNamespace: clusterctl puts a provider into another namespace, and nothing is left of the first one.
func TestTargetNamespace(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	file := configuration(t, repositoryOf(t), nil)
	for _, p := range providers {
		data, err := components(t, p, file, repository.ComponentsOptions{TargetNamespace: "elsewhere"}).Yaml()
		if err != nil {
			t.Fatal(err)
		}
		if left := regexp.MustCompile(`.*quorate(-[a-z]+)*-system.*`).Find(data); left != nil {
			t.Errorf("%s: %s", p.Folder, left)
		}
		if bytes.Contains(data, []byte("${")) {
			t.Errorf("%s: a variable has no default", p.Folder)
		}
	}
}

// upstreamVersion is that of Cluster API's own providers in repositories.
const upstreamVersion = "v1.14.2"

// core writes a repository of Cluster API's core, of its kinds alone: clusterctl installs none of Quorate's providers without it.
func core(t *testing.T, repository string) {
	t.Helper()
	upstream(t, repository, "core", "cluster-api", "core-components.yaml", "capi-system")
}

// upstream writes a repository of one of Cluster API's own providers, of its kinds alone, without conversions, as nobody would answer them.
func upstream(t *testing.T, repository, folder, label, file, namespace string) {
	t.Helper()
	module := moduleDir(t, "sigs.k8s.io/cluster-api")
	data, err := render(filepath.Join(module, folder, "config", "crd"))
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := utilyaml.ToUnstructured(data)
	if err != nil || len(kinds) == 0 {
		t.Fatalf("%d kinds of %s, %v", len(kinds), label, err)
	}
	for i := range kinds {
		unstructured.RemoveNestedField(kinds[i].Object, "spec", "conversion")
	}
	if data, err = utilyaml.FromUnstructured(kinds); err != nil {
		t.Fatal(err)
	}
	metadata, err := os.ReadFile(filepath.Join(module, "metadata.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := append([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n---\n"), data...)
	if err := (provider{Components: file}).write(filepath.Join(repository, label, upstreamVersion), all, metadata); err != nil {
		t.Fatal(err)
	}
}

// TestInit: clusterctl init installs all providers into a real API server, their pods are admitted, and each has the rights that its
// manager needs, and no other's.
func TestInit(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	c := start(t)
	repository := repositoryOf(t)
	core(t, repository)
	cli, err := clusterctl.New(t.Context(), configuration(t, repository, map[string]string{"QUORATE_PROFILING": "true"}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = cli.Init(t.Context(), clusterctl.InitOptions{
		Kubeconfig:   clusterctl.Kubeconfig{Path: c.kubeconfig},
		CoreProvider: "cluster-api:" + upstreamVersion, BootstrapProviders: []string{name}, ControlPlaneProviders: []string{name},
		InfrastructureProviders: []string{name}, RuntimeExtensionProviders: []string{name},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("inventory", func(t *testing.T) {
		for _, p := range providers {
			known := &unstructured.Unstructured{}
			known.SetGroupVersionKind(clusterctlv1.GroupVersion.WithKind("Provider"))
			namespace := "quorate-system"
			if p.Folder != "control-plane" {
				namespace = "quorate-" + p.Folder + "-system"
			}
			if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: p.label()}, known); err != nil ||
				at(*known, "version") != release {
				t.Errorf("%s: version %v, %v", p.Folder, at(*known, "version"), err)
			}
		}
	})
	t.Run("variables", func(t *testing.T) {
		var d appsv1.Deployment
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "quorate-system", Name: "quorate-manager"}, &d); err != nil {
			t.Fatal(err)
		}
		if args := d.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--profiling=true") ||
			!slices.Contains(args, "--diagnostics-address=:8443") {
			t.Errorf("the manager has %q", args)
		}
	})
	for _, m := range []struct {
		namespace, user string
		options         manager.Options
		kinds           []client.Object
	}{
		{"quorate-system", serviceAccount, manager.Options{Providers: []string{manager.ControlPlaneProvider}}, watched()},
		{
			"quorate-bootstrap-system", "system:serviceaccount:quorate-bootstrap-system:quorate-bootstrap-manager",
			manager.Options{Providers: []string{manager.BootstrapProvider}},
			[]client.Object{&clusterv1.Cluster{}, &clusterv1.Machine{}, &etcdclusterv1alpha1.EtcdCluster{}, &bootstrapv1alpha1.EtcdadmConfig{}},
		},
		{
			"quorate-runtime-extension-system", "system:serviceaccount:quorate-runtime-extension-system:quorate-runtime-extension-manager",
			manager.Options{Providers: []string{}}, []client.Object{&clusterv1.Machine{}, &upgradev1.NodeUpgrade{}},
		},
	} {
		t.Run(m.namespace, func(t *testing.T) {
			eventually(t, "two pods", func(ctx context.Context) bool {
				var pods corev1.PodList
				return c.client.List(ctx, &pods, client.InNamespace(m.namespace)) == nil && len(pods.Items) == 2
			})
			eventually(t, "rights", func(ctx context.Context) bool {
				return c.may(ctx, t, m.user, "list", "machines", "cluster.x-k8s.io", "")
			})
			c.run(t, m.user, m.options, m.kinds...)
			if got, want := c.may(t.Context(), t, m.user, "create", "machines", "cluster.x-k8s.io", ""),
				m.namespace == "quorate-system"; got != want {
				t.Errorf("it may make machines: %t", got)
			}
		})
	}
}

// TestBadOptions: what cannot be written is refused, and the refusal names the flag.
func TestBadOptions(t *testing.T) {
	for _, row := range []struct {
		options options
		err     string
	}{
		{options{root: sources}, "--out is missing"},
		{options{root: sources, out: t.TempDir(), version: "0.1.0"}, "--version=0.1.0: it must be a semantic version behind a v"},
		{options{root: sources, out: t.TempDir(), version: "v1"}, "--version=v1"},
		{options{root: sources, out: t.TempDir(), version: "v9.9.0"}, "no release series 9.9"},
		{options{root: t.TempDir(), out: t.TempDir()}, "config/manager/kustomization.yaml"},
	} {
		if err := row.options.write(); err == nil || !strings.Contains(err.Error(), row.err) {
			t.Errorf("%+v: error %v, want one with %q", row.options, err, row.err)
		}
	}
}
