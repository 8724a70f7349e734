package upgrader

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/cluster/staticpod"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// images has the runtime know all images that the new version's kubeadm names.
func (n *node) images(ctx context.Context) (string, error) {
	if err := eventually(ctx, patienceWithAPI, n.writeConfig); err != nil {
		return "", err
	}
	kubeadm, err := n.program("kubeadm")
	if err != nil {
		return "", err
	}
	listed, err := run(ctx, nil, kubeadm, "config", "images", "list", "--config", n.config())
	if err != nil {
		return "", err
	}
	wanted := imageNames(listed)
	missing, err := n.awaitImages(ctx, wanted)
	if err != nil {
		return "", err
	}
	if len(missing) == 0 {
		return fmt.Sprintf("all %d are there", len(wanted)), nil
	}
	n.say("pulling %s", strings.Join(missing, " "))
	_, pulled := run(ctx, nil, kubeadm, "config", "images", "pull", "--config", n.config())
	if pulled != nil {
		n.say("%v", pulled)
	}
	return fmt.Sprintf("%d are there", len(wanted)), n.hasRequired(ctx, wanted, pulled)
}

// How long images that somebody brings are waited for: all of those without which the node cannot serve, and then the others while more
// come.
const (
	patienceForImages = 25 * time.Minute
	patienceForOthers = time.Minute
)

// awaitImages returns the images that the runtime does not know. Where somebody brings them it waits for them before.
func (n *node) awaitImages(ctx context.Context, wanted []string) ([]string, error) {
	missing, err := n.missingImages(ctx, wanted)
	if err != nil || len(missing) == 0 || !n.wanted.AwaitImages {
		return missing, err
	}
	n.say("waiting for %s, which are being brought", strings.Join(missing, " "))
	began := time.Now()
	a := arrival{began: began, changed: began, missing: len(missing)}
	again := time.NewTicker(retryInterval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", strings.Join(missing, ", "), ctx.Err())
		case <-again.C:
		}
		if missing, err = n.missingImages(ctx, wanted); err != nil {
			return nil, err
		}
		if a.over(time.Now(), len(missing), slices.ContainsFunc(missing, n.required)) {
			return missing, nil
		}
	}
}

// arrival is how images come to a node.
type arrival struct {
	// began is when it was first looked for them, changed when there last was another number of them missing.
	began, changed time.Time
	missing        int
}

// over reports whether no more images are waited for, of which some are missing, perhaps one without which the node cannot serve.
func (a *arrival) over(now time.Time, missing int, required bool) bool {
	if missing != a.missing {
		a.missing, a.changed = missing, now
	}
	switch {
	case missing == 0:
		return true
	case required:
		return now.Sub(a.began) > patienceForImages
	}
	return now.Sub(a.changed) > patienceForOthers
}

// hasRequired returns an error, with that of the pull if there is one, unless the runtime knows the images without which the node cannot
// serve. Others are pulled when a pod needs them.
func (n *node) hasRequired(ctx context.Context, wanted []string, pulled error) error {
	missing, err := n.missingImages(ctx, wanted)
	if err != nil {
		return err
	}
	missing = slices.DeleteFunc(missing, func(name string) bool { return !n.required(name) })
	switch {
	case len(missing) == 0:
		return nil
	case pulled != nil:
		return fmt.Errorf("pulling images: the node has no %s: %w", strings.Join(missing, ", "), pulled)
	}
	return fmt.Errorf("pulling images: the node has no %s", strings.Join(missing, ", "))
}

// imageNames are the lines of kubeadm's list that are names.
func imageNames(output string) []string {
	var names []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); strings.Contains(line, ":") && !strings.ContainsAny(line, " \t") {
			names = append(names, line)
		}
	}
	return names
}

// required reports whether the node cannot serve without an image: it is that of a component of its control plane.
func (n *node) required(name string) bool {
	base, _, _ := strings.Cut(path.Base(name), ":")
	if base == etcdName && !n.wanted.StackedEtcd {
		return false
	}
	return n.wanted.Type == steps.ControlPlane && slices.Contains(components, base)
}

// missingImages are those that the runtime does not know.
func (n *node) missingImages(ctx context.Context, names []string) ([]string, error) {
	list, err := n.ctr("--namespace", "k8s.io", "images", "ls", "--quiet")
	if err != nil {
		return nil, err
	}
	output, err := run(ctx, nil, list...)
	if err != nil {
		return nil, err
	}
	known := strings.Fields(output)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(known, wholeName(name)) }), nil
}

// wholeName is the name by which the runtime knows an image: with the registry that is meant where none is named, and without the tag where
// there is a digest.
func wholeName(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name // kubeadm's own list has no such name; the runtime does not know it either
	}
	if digested, ok := named.(reference.Digested); ok {
		if whole, err := reference.WithDigest(reference.TrimNamed(named), digested.Digest()); err == nil {
			return whole.String()
		}
	}
	return reference.TagNameOnly(named).String()
}

// writeConfig writes what the new version's kubeadm works with: the cluster's own configuration at the new version.
func (n *node) writeConfig(ctx context.Context) error {
	if _, err := os.Stat(n.config()); err == nil {
		return nil
	}
	documents, err := n.configuration(ctx)
	if err != nil {
		return err
	}
	text, err := yamlText(documents)
	if err != nil {
		return fmt.Errorf("writing kubeadm's configuration: %w", err)
	}
	return atomicfile.Write(n.config(), text, 0o600)
}

// configuration reads the cluster's configuration as the new version's kubeadm takes it, and what that needs of the node.
func (n *node) configuration(ctx context.Context) ([]map[string]any, error) {
	a, err := openAPI(n.credentials(), "")
	if err != nil {
		return nil, err
	}
	var stored struct {
		Data map[string]string `json:"data"`
	}
	if err := a.get(ctx, "/api/v1/namespaces/kube-system/configmaps/kubeadm-config", &stored); err != nil {
		return nil, fmt.Errorf("reading kubeadm's configuration: %w", err)
	}
	gates, err := n.featureGates(ctx)
	if err != nil {
		return nil, err
	}
	cluster, err := clusterConfiguration(stored.Data["ClusterConfiguration"], n.wanted, gates)
	if err != nil {
		return nil, err
	}
	local, err := n.initConfiguration()
	if err != nil {
		return nil, err
	}
	return []map[string]any{cluster, local}, nil
}

// yamlText is the YAML of some documents, one after the other.
func yamlText(documents []map[string]any) ([]byte, error) {
	var text [][]byte
	for _, d := range documents {
		data, err := yaml.Marshal(d)
		if err != nil {
			return nil, err
		}
		text = append(text, data)
	}
	return bytes.Join(text, []byte("---\n")), nil
}

// credentials is the kubeconfig with which the node talks to the API.
func (n *node) credentials() string {
	if n.wanted.Type == steps.ControlPlane {
		return adminConfig
	}
	return kubeletConf
}

// gate is a line of kubeadm's help on feature gates.
var gate = regexp.MustCompile(`\b([A-Z][A-Za-z0-9]+)=true\|false`)

// featureGates are those that the new version's kubeadm knows; it refuses a configuration with others.
func (n *node) featureGates(ctx context.Context) ([]string, error) {
	kubeadm, err := n.program("kubeadm")
	if err != nil {
		return nil, err
	}
	help, err := run(ctx, nil, kubeadm, "init", "--help")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, found := range gate.FindAllStringSubmatch(help, -1) {
		names = append(names, found[1])
	}
	return names, nil
}

// clusterConfiguration is the stored configuration as the new version is to find it.
func clusterConfiguration(stored string, wanted steps.Wanted, gates []string) (map[string]any, error) {
	var c map[string]any
	if err := yaml.Unmarshal([]byte(stored), &c); err != nil {
		return nil, fmt.Errorf("reading kubeadm's configuration: %w", err)
	}
	if len(c) == 0 {
		return nil, fmt.Errorf("reading kubeadm's configuration: kubeadm-config has no ClusterConfiguration")
	}
	c["kubernetesVersion"] = wanted.KubernetesVersion
	if set, ok := c["featureGates"].(map[string]any); ok {
		for name := range set {
			if !slices.Contains(gates, name) {
				delete(set, name)
			}
		}
	}
	etcd, _ := c["etcd"].(map[string]any)
	if local, ok := etcd["local"].(map[string]any); ok && wanted.EtcdVersion != "" {
		local["imageTag"] = wanted.EtcdVersion
	}
	return c, nil
}

// initConfiguration is what kubeadm must know of the node itself: its runtime, and on a control plane the API server that runs on it.
func (n *node) initConfiguration() (map[string]any, error) {
	f, err := n.look()
	if err != nil {
		return nil, err
	}
	registration := map[string]any{"name": n.wanted.Node}
	if f.criSocket != "" {
		registration["criSocket"] = f.criSocket
	}
	c := map[string]any{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration", "nodeRegistration": registration}
	if n.wanted.Type != steps.ControlPlane {
		return c, nil
	}
	p, err := n.manifest(apiServer)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("reading %s: there is no manifest of the API server", manifestDir)
	}
	if _, err := serverOf(p); err != nil {
		return nil, err
	}
	c["localAPIEndpoint"] = map[string]any{"advertiseAddress": f.address, "bindPort": port(staticpod.Flag(p, "secure-port"))}
	if n.wanted.Patches != "" {
		c["patches"] = map[string]any{"directory": n.wanted.Patches}
	}
	return c, nil
}
