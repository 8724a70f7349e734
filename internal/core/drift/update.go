package drift

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/version"
)

// changeableField is a difference that needs no other machine.
type changeableField struct {
	// field is the difference's, or what that begins with.
	field string
	// recorded: nothing is done on the node, only the machine's objects are to say so.
	recorded bool
	// may says why a difference of this field needs another machine all the same; nil: none does.
	may func(Difference) string
	// why says the reason.
	why string
}

// changeable are all differences that can be changed in place. All else needs another machine.
var changeable = []changeableField{
	{field: "spec.version", may: upgrade, why: "the node's programs and static pods are replaced"},
	{field: "spec.kubeadmConfigSpec.clusterConfiguration.apiServer.extraArgs", why: "kubeadm renders the static pod again from its " +
		"configuration in the cluster"},
	{field: "spec.kubeadmConfigSpec.clusterConfiguration.controllerManager.extraArgs", why: "as of the API server"},
	{field: "spec.kubeadmConfigSpec.clusterConfiguration.scheduler.extraArgs", why: "as of the API server"},
	{field: "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local.extraArgs", why: "as of the API server"},
	{field: "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local.imageRepository", why: "as of the API server; where the data are does " +
		"not change"},
	{field: "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local.imageTag",
		why: "as of the API server; where the data are does not change"},
	{field: "spec.kubeadmConfigSpec.clusterConfiguration.imageRepository", why: "the static pods are rendered with it"},
	{field: spec.field + "." + initPart + kubeletArgs, may: ofKubelet, why: "the kubelet is restarted with them"},
	{field: spec.field + "." + joinPart + kubeletArgs, may: ofKubelet, why: "the kubelet is restarted with them"},
	{field: spec.field + "." + filesPart, may: ofFile, why: "it is written, and all that could read it is restarted"},
	{field: "spec.machineTemplate.spec.infrastructureRef.name", recorded: true, why: "what a machine was made from says nothing of how it " +
		"goes on; new ones are made from the new template"},
	{field: "spec.rollout.before.certificatesExpiryDays", why: "an upgrade renews the certificates"},
}

// upgrade says why a version cannot follow another one in place: kubeadm goes up, by one minor version at most.
func upgrade(d Difference) string {
	was, err1 := version.Parse(d.Was)
	want, err2 := version.Parse(d.Want)
	switch {
	case err1 != nil || err2 != nil:
		return "the versions cannot be compared"
	case version.Compare(was.Release(), want.Release()) > 0:
		return "kubeadm does not go back to an older version"
	case was.Major != want.Major || want.Minor-was.Minor > 1:
		return "kubeadm goes up by one minor version at a time"
	}
	return ""
}

// covers reports whether a field is the rule's, or a part of it.
func (c changeableField) covers(field string) bool {
	rest, has := strings.CutPrefix(field, c.field)
	return has && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// changeOf returns how a difference is changed in place; ok is false where that cannot be.
func changeOf(d Difference) (c changeableField, ok bool) {
	i := slices.IndexFunc(changeable, func(c changeableField) bool { return c.covers(d.Field) })
	if i < 0 || changeable[i].may != nil && changeable[i].may(d) != "" {
		return changeableField{}, false
	}
	return changeable[i], true
}

// Replacing are the differences that cannot be changed in place, deadlines last.
func (d Drift) Replacing() []Difference {
	return slices.DeleteFunc(slices.Concat(d.Reasons, d.Due), func(one Difference) bool {
		_, ok := changeOf(one)
		return ok
	})
}

// ReplacingText names them for people, with the reason where there is one beside the field itself. Empty: all can be changed in place.
func (d Drift) ReplacingText() string {
	var texts []string
	for _, one := range d.Replacing() {
		text := one.String()
		for _, c := range changeable {
			if c.covers(one.Field) && c.may != nil {
				text += " (" + c.may(one) + ")"
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// OnNode reports whether something of the machine's node is to be changed. Otherwise its objects only have to say what is wanted.
func (d Drift) OnNode() bool {
	return slices.ContainsFunc(slices.Concat(d.Reasons, d.Due), func(one Difference) bool {
		c, ok := changeOf(one)
		return !ok || !c.recorded
	})
}

// Goal is what machines are brought to in place: what of a control plane's spec can be changed so, at the same paths.
type Goal struct {
	Version         string       `json:"version,omitempty"`
	KubeadmConfig   goalConfig   `json:"kubeadmConfigSpec,omitzero"`
	MachineTemplate goalTemplate `json:"machineTemplate,omitzero"`

	// files is what the files hold, and what decides which of them can be written; nil in a goal that was read: there it is not known.
	files *bootstrapv1.KubeadmConfigSpec
}

// goalConfig is what of a kubeadmConfigSpec can be changed in place. Init and join are nil where nothing is known of kubelets.
type goalConfig struct {
	ClusterConfiguration bootstrapv1.ClusterConfiguration `json:"clusterConfiguration,omitzero"`
	InitConfiguration    *goalNode                        `json:"initConfiguration,omitempty"`
	JoinConfiguration    *goalNode                        `json:"joinConfiguration,omitempty"`
	Files                []goalFile                       `json:"files,omitempty"`
}

// goalNode is what of a node's own part can be changed in place.
type goalNode struct {
	NodeRegistration struct {
		KubeletExtraArgs []bootstrapv1.Arg `json:"kubeletExtraArgs,omitempty"`
	} `json:"nodeRegistration,omitzero"`
}

// clone returns a copy that shares nothing; nil of nil.
func (g *goalNode) clone() *goalNode {
	if g == nil {
		return nil
	}
	return nodeGoal(bootstrapv1.NodeRegistrationOptions{KubeletExtraArgs: g.NodeRegistration.KubeletExtraArgs})
}

func nodeGoal(of bootstrapv1.NodeRegistrationOptions) *goalNode {
	g := &goalNode{}
	g.NodeRegistration.KubeletExtraArgs = of.DeepCopy().KubeletExtraArgs
	return g
}

type goalTemplate struct {
	Spec struct {
		InfrastructureRef clusterv1.ContractVersionedObjectReference `json:"infrastructureRef,omitzero"`
	} `json:"spec,omitzero"`
}

// NewGoal returns the goal of a version, a configuration and a template of infrastructure machines. The configuration is zero where nothing
// is known of it.
func NewGoal(version string, of bootstrapv1.ClusterConfiguration, infrastructure clusterv1.ContractVersionedObjectReference) Goal {
	g := Goal{Version: version}
	g.MachineTemplate.Spec.InfrastructureRef = infrastructure
	copyChangeable(&g.KubeadmConfig.ClusterConfiguration, &of)
	return g
}

// WithFiles returns the goal with the files of machines. It shares them with what they are from.
func (g Goal) WithFiles(of *bootstrapv1.KubeadmConfigSpec) Goal {
	g.files, g.KubeadmConfig.Files = of, goalFiles(of.Files)
	return g
}

// WithKubelets returns the goal with the arguments of kubelets, of machines that were made by init and of those that joined.
func (g Goal) WithKubelets(of bootstrapv1.KubeadmConfigSpec) Goal {
	g.KubeadmConfig.InitConfiguration = nodeGoal(of.InitConfiguration.NodeRegistration)
	g.KubeadmConfig.JoinConfiguration = nodeGoal(of.JoinConfiguration.NodeRegistration)
	return g
}

// kubelets are the goal's parts that name arguments of kubelets.
func (g Goal) kubelets() []*goalNode {
	var parts []*goalNode
	for _, part := range []*goalNode{g.KubeadmConfig.InitConfiguration, g.KubeadmConfig.JoinConfiguration} {
		if part != nil && len(part.NodeRegistration.KubeletExtraArgs) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// Infrastructure is the template that new infrastructure machines are made from.
func (g Goal) Infrastructure() clusterv1.ContractVersionedObjectReference {
	return g.MachineTemplate.Spec.InfrastructureRef
}

// copyChangeable copies what of a configuration can be changed in place.
func copyChangeable(to, from *bootstrapv1.ClusterConfiguration) {
	from = from.DeepCopy()
	to.APIServer.ExtraArgs = from.APIServer.ExtraArgs
	to.ControllerManager.ExtraArgs = from.ControllerManager.ExtraArgs
	to.Scheduler.ExtraArgs = from.Scheduler.ExtraArgs
	to.DNS = from.DNS
	to.ImageRepository = from.ImageRepository
	to.Etcd.Local.ExtraArgs = from.Etcd.Local.ExtraArgs
	to.Etcd.Local.ImageRepository = from.Etcd.Local.ImageRepository
	to.Etcd.Local.ImageTag = from.Etcd.Local.ImageTag
}

// Record returns the configuration that a machine was made from, as it is once the machine was brought to the goal.
func (g Goal) Record(was bootstrapv1.ClusterConfiguration) bootstrapv1.ClusterConfiguration {
	after := *was.DeepCopy()
	copyChangeable(&after, &g.KubeadmConfig.ClusterConfiguration)
	return after
}

// RecordOf returns the configuration that a machine was made from, as it is once the machine was brought to the goal; false: it is not
// known.
func (g Goal) RecordOf(m Machine) (bootstrapv1.ClusterConfiguration, bool) {
	was, known := clusterConfiguration(m)
	return g.Record(was), known
}

// RecordText is a configuration as RecordAnnotation has it.
func RecordText(config bootstrapv1.ClusterConfiguration) string { return string(encode(config)) }

// Hash identifies what the node itself is brought to: 10 hexadecimal digits. The infrastructure's template has no part in it.
func (g Goal) Hash() string {
	g.MachineTemplate = goalTemplate{}
	if len(g.kubelets()) == 0 {
		// To know that there are none brings nodes to nothing else than not to know it.
		g.KubeadmConfig.InitConfiguration, g.KubeadmConfig.JoinConfiguration = nil, nil
	}
	sum := sha256.Sum256(encode(g))
	return fmt.Sprintf("%x", sum[:5])
}

// String is the goal as JSON, for people and for who records it. Arguments whose names tell of a secret have no value in it.
func (g Goal) String() string {
	config := g.KubeadmConfig.ClusterConfiguration.DeepCopy()
	g.KubeadmConfig.InitConfiguration, g.KubeadmConfig.JoinConfiguration = g.KubeadmConfig.InitConfiguration.clone(),
		g.KubeadmConfig.JoinConfiguration.clone()
	lists := [][]bootstrapv1.Arg{config.APIServer.ExtraArgs, config.ControllerManager.ExtraArgs, config.Scheduler.ExtraArgs,
		config.Etcd.Local.ExtraArgs}
	for _, part := range g.kubelets() {
		lists = append(lists, part.NodeRegistration.KubeletExtraArgs)
	}
	for _, args := range lists {
		for i := range args {
			if secret(args[i].Name) {
				args[i].Value = nil
			}
		}
	}
	g.KubeadmConfig.ClusterConfiguration = *config
	return string(encode(g))
}

// ParseGoal reads what String wrote.
func ParseGoal(text string) (Goal, error) {
	var g Goal
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return Goal{}, fmt.Errorf("reading what machines are brought to: %w", err)
	}
	return g, nil
}
