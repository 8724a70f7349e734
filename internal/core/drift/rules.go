package drift

import (
	"slices"
	"strings"
)

// rule is how one field is compared, where comparing it as it stands would be wrong.
type rule struct {
	// ignored: no change of it needs a new machine.
	ignored bool
	// filled: ignored while the control plane says nothing, since a provider fills it in.
	filled bool
	// assumed is what not setting it means.
	assumed any
	// emptyCounts: an empty list is not the same as none.
	emptyCounts bool
	// unordered: the order of the list means nothing.
	unordered bool
	// key names the fields by which the elements of the list are told apart.
	key []string
	// value names the only field of an element beside its name.
	value string
	// hidden: it may hold secrets and is never shown.
	hidden bool
	// why says the reason.
	why string
}

// rules are all exceptions: by the end of a field's path, the longest that
// fits. node stands for initConfiguration and joinConfiguration, [] for an
// element of a list. A switch or a number that is set is set, whatever its value,
// where no line here says what leaving it out means.
var rules = map[string]rule{
	"clusterConfiguration.dns": {ignored: true, why: "CoreDNS is updated in the running cluster"},
	"node.discovery":           {ignored: true, why: "used once, to join; the bootstrap provider fills in tokens and hashes"},
	"node.bootstrapTokens":     {ignored: true, why: "used once, by the first init; the machine in its place would join"},
	"node.timeouts.controlPlaneComponentHealthCheckSeconds": {ignored: true, why: "conversion from v1beta1 moves it between parts"},
	"clusterConfiguration.controlPlaneEndpoint":             {filled: true, why: "the bootstrap provider fills in the cluster's endpoint"},

	"kubeadmConfigSpec.format":         {assumed: "cloud-config", why: "once a webhook's default"},
	"nodeRegistration.imagePullPolicy": {assumed: "IfNotPresent", why: "once a webhook's default; kubeadm's"},
	"nodeRegistration.imagePullSerial": {assumed: true, why: "kubeadm's default"},
	"nodeRegistration.criSocket": {assumed: "unix:///var/run/containerd/containerd.sock",
		why: "kubeadm's default"},
	"localAPIEndpoint.bindPort":                            {assumed: 6443.0, why: "kubeadm's default"},
	"node.caCertPath":                                      {assumed: "/etc/kubernetes/pki/ca.crt", why: "kubeadm's default"},
	"node.timeouts.kubeletHealthCheckSeconds":              {assumed: 240.0, why: "kubeadm's default"},
	"node.timeouts.kubernetesAPICallSeconds":               {assumed: 60.0, why: "kubeadm's default"},
	"node.timeouts.etcdAPICallSeconds":                     {assumed: 120.0, why: "kubeadm's default"},
	"node.timeouts.tlsBootstrapSeconds":                    {assumed: 300.0, why: "kubeadm's default"},
	"node.timeouts.discoverySeconds":                       {assumed: 300.0, why: "kubeadm's default"},
	"clusterConfiguration.certificatesDir":                 {assumed: "/etc/kubernetes/pki", why: "kubeadm's default"},
	"clusterConfiguration.imageRepository":                 {assumed: "registry.k8s.io", why: "kubeadm's default"},
	"clusterConfiguration.certificateValidityPeriodDays":   {assumed: 365.0, why: "kubeadm's default"},
	"clusterConfiguration.caCertificateValidityPeriodDays": {assumed: 3650.0, why: "Cluster API's default"},
	"clusterConfiguration.encryptionAlgorithm":             {assumed: "RSA-2048", why: "Cluster API's default"},
	"clusterConfiguration.etcd.local.dataDir":              {assumed: "/var/lib/etcd", why: "kubeadm's default"},
	"clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode": {assumed: true, why: "set by control planes where kubeadm knows it " +
		"and the user says nothing"},
	"files[].append":              {assumed: false, why: "off, or not written at all"},
	"users[].inactive":            {assumed: false, why: "off, or not written at all"},
	"partitions[].overwrite":      {assumed: false, why: "off, or not written at all"},
	"filesystems[].overwrite":     {assumed: false, why: "off, or not written at all"},
	"extraVolumes[].readOnly":     {assumed: false, why: "off, or not written at all"},
	"containerLinuxConfig.strict": {assumed: false, why: "Cluster API's default"},
	"files[].contentFormat":       {assumed: "Raw", why: "Cluster API's default"},

	"nodeRegistration.taints": {emptyCounts: true, unordered: true, key: []string{"key", "effect"},
		why: "none: kubeadm's taint; empty: no taint"},
	"nodeRegistration.ignorePreflightErrors": {unordered: true, why: "a set"},
	"kubeletExtraArgs": {unordered: true, key: []string{"name"}, value: "value", why: "flags of different names have " +
		"no order"},
	"extraArgs":      {unordered: true, key: []string{"name"}, value: "value", why: "flags of different names have no order"},
	"extraVolumes":   {unordered: true, key: []string{"name"}, why: "volumes have no order"},
	"extraEnvs":      {key: []string{"name"}, why: "a variable may use those before it"},
	"certSANs":       {unordered: true, why: "a set"},
	"serverCertSANs": {unordered: true, why: "a set"},
	"peerCertSANs":   {unordered: true, why: "a set"},
	"files":          {key: []string{"path"}, why: "one may append to another"},
	"users":          {key: []string{"name"}, why: "numbered in their order"},
	"partitions":     {key: []string{"device"}, why: "written in their order"},

	"files[].content":     {hidden: true, why: "often keys"},
	"extraEnvs[].value":   {hidden: true, why: "often passwords, as in the address of a proxy"},
	"bootCommands":        {hidden: true, why: "scripts, often with credentials"},
	"preKubeadmCommands":  {hidden: true, why: "scripts, often with credentials"},
	"postKubeadmCommands": {hidden: true, why: "scripts, often with credentials"},
	"additionalConfig":    {hidden: true, why: "files and users in another form"},
}

// secretWords in the name of a field hide it, those that are yet to come included.
var secretWords = []string{"passw", "token", "credential", "privatekey"}

func secret(name string) bool { return containsAny(name, secretWords) }

// containsAny reports whether a name contains one of the words, in letters of either case.
func containsAny(name string, words []string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
}

// ruleOf returns the rule for a field: that of the longest end of its path.
func ruleOf(pattern string) rule {
	for {
		if r, ok := rules[pattern]; ok {
			return r
		}
		_, rest, more := strings.Cut(pattern, ".")
		if !more {
			return rule{}
		}
		pattern = rest
	}
}

// settled returns a value as it is compared: what is empty is not set, and what
// is not set means what is assumed.
func (r rule) settled(v any) any {
	list, isList := v.([]any)
	if v == "" || isList && len(list) == 0 && !r.emptyCounts {
		v = nil
	}
	if v == nil {
		return r.assumed
	}
	return v
}
