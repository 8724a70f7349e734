package kubeadm

import (
	"fmt"
	"maps"

	"github.com/blang/semver/v4"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstream"
	"sigs.k8s.io/yaml"
)

// render writes the wanted configuration as kubeadm of that version reads it.
func render(want Wanted) (map[string]any, error) {
	text, err := marshal(&want.Configuration, want.Version, upstream.AdditionalData{})
	if err != nil {
		return nil, err
	}
	wanted := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &wanted); err != nil {
		return nil, fmt.Errorf("reading the ClusterConfiguration for %s: %w", want.Version, err)
	}
	return wanted, nil
}

// restores reports whether a configuration is lost, and all is known of which it consisted: what the user says, and what Cluster API adds
// to that. Of a cluster whose user says nothing of it, others may have said more to kubeadm.
func (w Wanted) restores(text string) bool {
	var has map[string]any
	return w.Cluster.Name != "" && !w.silent() && yaml.Unmarshal([]byte(text), &has) == nil && len(has) == 0
}

// configurationOf writes the configuration with which Cluster API has kubeadm initialise a cluster.
func configurationOf(want Wanted) (string, error) {
	configuration := want.Configuration.DeepCopy()
	if configuration.ControlPlaneEndpoint == "" {
		configuration.ControlPlaneEndpoint = want.Cluster.Endpoint
	}
	return marshal(configuration, want.Version, upstream.AdditionalData{
		ClusterName:   &want.Cluster.Name,
		DNSDomain:     said(want.Cluster.DNSDomain),
		ServiceSubnet: said(want.Cluster.ServiceSubnet),
		PodSubnet:     said(want.Cluster.PodSubnet),
	})
}

// marshal writes a configuration for kubeadm of a version, with what Cluster API adds to it.
func marshal(configuration *bootstrapv1.ClusterConfiguration, version string, data upstream.AdditionalData) (string, error) {
	v, err := semver.ParseTolerant(version)
	if err != nil {
		return "", fmt.Errorf("version %q: %w", version, err)
	}
	data.KubernetesVersion = &version
	text, err := kubeadmtypes.MarshalClusterConfigurationForVersion(configuration, v, &data)
	if err != nil {
		return "", fmt.Errorf("writing a ClusterConfiguration for %s: %w", version, err)
	}
	return text, nil
}

// said is nil where nothing is: kubeadm has defaults.
func said(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// parse reads the configuration that a cluster has, in the form that kubeadm of a version reads.
func parse(text, version string, form any) (map[string]any, error) {
	var has map[string]any
	if err := yaml.Unmarshal([]byte(text), &has); err != nil {
		return nil, refuseConfig("reading %s of ConfigMap %s: %v", configKey, configName, err)
	}
	if len(has) == 0 {
		return nil, refuseConfig("ConfigMap %s has no %s, and no machine can join without one: `kubeadm init phase upload-config kubeadm` "+
			"writes it", configName, configKey)
	}
	if kind := has["kind"]; kind != configKey {
		return nil, refuseConfig("%s of ConfigMap %s is of kind %v", configKey, configName, kind)
	}
	if has[versionKey] == form {
		return has, nil
	}
	converted, err := convert(text, version)
	if err != nil {
		return nil, err
	}
	maps.Copy(has, converted)
	return has, nil
}

// convert brings a configuration of an older form, with lists where the newer one has objects, into that of a version.
func convert(text, version string) (map[string]any, error) {
	v, err := semver.ParseTolerant(version)
	if err != nil {
		return nil, fmt.Errorf("version %q: %w", version, err)
	}
	typed, data, err := kubeadmtypes.UnmarshalClusterConfiguration(text)
	if err != nil {
		return nil, refuseConfig("reading %s of ConfigMap %s: %v", configKey, configName, err)
	}
	text, err = kubeadmtypes.MarshalClusterConfigurationForVersion(typed, v, data)
	if err != nil {
		return nil, refuseConfig("writing %s of ConfigMap %s for %s: %v", configKey, configName, version, err)
	}
	converted := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &converted); err != nil {
		return nil, fmt.Errorf("reading the ClusterConfiguration for %s: %w", version, err)
	}
	return converted, nil
}
