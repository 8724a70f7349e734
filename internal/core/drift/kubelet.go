package drift

import (
	"maps"
	"slices"
	"strings"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// kubeletArgs is where initConfiguration and joinConfiguration say which arguments the kubelet has beside those of kubeadm.
const kubeletArgs = ".nodeRegistration.kubeletExtraArgs"

// Why a kubelet's argument takes another machine.
const (
	atRegistration = "the kubelet uses it when it registers its Node, and not again"
	namesTheNode   = "it says which Node the kubelet is"
	holdsState     = "what is there would be lost to the kubelet"
	holdsPods      = "pods that run would be in the wrong place"
	isKubeadms     = "kubeadm sets it itself"
)

// fixedKubeletArgs are the kubelet's arguments that no live node can be given another value of, and why.
var fixedKubeletArgs = map[string]string{
	"register-node":                   atRegistration,
	"register-with-taints":            atRegistration,
	"node-labels":                     atRegistration,
	"cloud-provider":                  atRegistration,
	"provider-id":                     atRegistration,
	"hostname-override":               namesTheNode,
	"node-ip":                         "certificates and other nodes name the address",
	"kubeconfig":                      namesTheNode,
	"bootstrap-kubeconfig":            namesTheNode,
	"cert-dir":                        holdsState,
	"root-dir":                        holdsState,
	"enable-controller-attach-detach": holdsState,
	"cgroup-driver":                   holdsPods,
	"cgroup-root":                     holdsPods,
	"cgroups-per-qos":                 holdsPods,
	"cpu-manager-policy":              "the kubelet does not start with CPUs that were given out by another policy",
	"memory-manager-policy":           "the kubelet does not start with memory that was given out by another policy",
	"reserved-cpus":                   "the kubelet does not start with CPUs that were given out by another policy",
	"reserved-memory":                 "the kubelet does not start with memory that was given out by another policy",
	"config":                          isKubeadms,
	"config-dir":                      "it is not known what the files there say",
	"pod-manifest-path":               isKubeadms,
	"container-runtime-endpoint":      isKubeadms,
	"image-service-endpoint":          "pods that run are known to one runtime",
	"pod-infra-container-image":       isKubeadms,
}

// flagLetters are what names of flags are made of.
const flagLetters = "-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// filledIn are what a value holds that is filled in at the machine's first boot, or that cannot stand in kubeadm's file as it is.
const filledIn = "{}$`\"'\\"

// fixedKubeletArg says why an argument cannot be changed on a live node; empty: it can.
func fixedKubeletArg(name string, values []string) string {
	name = strings.ReplaceAll(name, "_", "-")
	if why, fixed := fixedKubeletArgs[name]; fixed {
		return why
	}
	if name == "" || name[0] == '-' || strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(flagLetters, r) }) {
		return "the name is that of no flag"
	}
	for _, value := range values {
		if strings.ContainsAny(value, filledIn) {
			return "the value is filled in at the machine's first boot"
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return "the value has spaces, or what is no plain ASCII"
		}
	}
	return ""
}

// valuesOf returns the values of arguments by their names. One without a value has an empty one.
func valuesOf(args []bootstrapv1.Arg) map[string][]string {
	values := map[string][]string{}
	for _, arg := range args {
		value := ""
		if arg.Value != nil {
			value = *arg.Value
		}
		values[arg.Name] = append(values[arg.Name], value)
	}
	return values
}

// judgeArgs notes on the differences of the kubelet's arguments which of them take another machine: what is shown of a value may be only a
// part of it.
func judgeArgs(found []Difference, want *bootstrapv1.KubeadmConfigSpec) []Difference {
	for part, args := range map[string][]bootstrapv1.Arg{
		initPart: want.InitConfiguration.NodeRegistration.KubeletExtraArgs, joinPart: want.JoinConfiguration.NodeRegistration.KubeletExtraArgs,
	} {
		after := valuesOf(args)
		for i, d := range found {
			if name, ok := argumentOf(d.Field, part); ok {
				found[i].fixed = fixedKubeletArg(name, after[name])
			}
		}
	}
	return found
}

// argumentOf is the name of the kubelet's argument that a field is about.
func argumentOf(field, part string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(field, spec.field+"."+part+kubeletArgs+"[")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "]")
}

// ofKubelet says why a difference of the kubelet's arguments takes another machine; empty: it does not.
func ofKubelet(d Difference) string {
	if !strings.HasSuffix(d.Field, "]") {
		return "it depends on the argument"
	}
	return d.fixed
}

// KubeletArgs are the arguments of one node's kubelet that an upgrade in place sets and takes away. Those that no live node can be given
// another value of are in neither, and neither are those of kubeadm.
type KubeletArgs struct {
	// Extra are all that the kubelet is to have beside those of kubeadm.
	Extra []bootstrapv1.Arg
	// Removed are the names of those that it had when its machine was made or changed last, and is not to have any more, sorted.
	Removed []string
}

// KubeletArgs returns what the goal says of the arguments of a machine's kubelet. Known is false where it says nothing, or nothing is known
// of the machine.
func (g Goal) KubeletArgs(m Machine) (args KubeletArgs, known bool) {
	if m.Config == nil || g.KubeadmConfig.InitConfiguration == nil || g.KubeadmConfig.JoinConfiguration == nil {
		return KubeletArgs{}, false
	}
	part, want := g.kubeletOf(&m.Config.Spec)
	was := part.KubeletExtraArgs
	before, after := valuesOf(was), valuesOf(want)
	for _, arg := range want {
		if fixedKubeletArg(arg.Name, after[arg.Name]) == "" {
			args.Extra = append(args.Extra, *arg.DeepCopy())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, wanted := after[name]; !wanted && fixedKubeletArg(name, nil) == "" {
			args.Removed = append(args.Removed, name)
		}
	}
	return args, true
}

// kubeletOf returns the part of a machine's configuration that it was made with, and the arguments that its kubelet is to have. A machine
// that was made by init is as wanted too with those of a join.
func (g Goal) kubeletOf(config *bootstrapv1.KubeadmConfigSpec) (part *bootstrapv1.NodeRegistrationOptions, want []bootstrapv1.Arg) {
	byInit, byJoin := g.KubeadmConfig.InitConfiguration.NodeRegistration.KubeletExtraArgs,
		g.KubeadmConfig.JoinConfiguration.NodeRegistration.KubeletExtraArgs
	if joined(tree(*config)) {
		return &config.JoinConfiguration.NodeRegistration, byJoin
	}
	part = &config.InitConfiguration.NodeRegistration
	if maps.EqualFunc(valuesOf(part.KubeletExtraArgs), valuesOf(byJoin), slices.Equal[[]string]) {
		return part, byJoin
	}
	return part, byInit
}

// RecordKubelet writes the arguments of the kubelet into what a machine was made from, as they are once the machine was brought to the
// goal. What the goal does not say stays.
func (g Goal) RecordKubelet(config *bootstrapv1.KubeadmConfigSpec) {
	if g.KubeadmConfig.InitConfiguration == nil || g.KubeadmConfig.JoinConfiguration == nil {
		return
	}
	to, want := g.kubeletOf(config)
	to.KubeletExtraArgs = nil
	for _, arg := range want {
		to.KubeletExtraArgs = append(to.KubeletExtraArgs, *arg.DeepCopy())
	}
}
