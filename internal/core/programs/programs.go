// Package programs knows which flags and feature gates the programs of some versions of Kubernetes take, and says what of a configuration
// for kubeadm a version does not take. It reads tables that hack/programs writes from the programs themselves; of a version without a table it
// knows nothing, and of a flag that no table names it does not say that it is wrong.
package programs

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/quorate/quorate/internal/core/version"
)

// The names of the programs in tables.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubelet           = "kubelet"
	Etcd              = "etcd"
	// Gates stands for the feature gates of Kubernetes' programs, and KubeadmGates for those of kubeadm.
	Gates        = "feature gates"
	KubeadmGates = "kubeadm feature gates"
)

//go:embed tables/*.txt
var files embed.FS

// A Table has what a minor version of Kubernetes takes, by the name of a program: its flags, or feature gates. The value is empty, or the only one
// that a feature gate may have.
type Table map[string]map[string]string

// tables are all, by minor version of v1.
var tables = mustRead(files)

func mustRead(embedded fs.FS) map[int]Table {
	all, err := readTables(embedded)
	if err != nil {
		panic(err) // a test reads them too
	}
	return all
}

// readTables reads tables/VERSION.txt of each minor version of v1.
func readTables(in fs.FS) (map[int]Table, error) {
	all := map[int]Table{}
	names, err := fs.Glob(in, "tables/*.txt")
	if err != nil {
		return nil, fmt.Errorf("listing tables: %w", err)
	}
	for _, name := range names {
		v, err := version.Parse(strings.TrimSuffix(path.Base(name), ".txt"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		text, err := fs.ReadFile(in, name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if all[v.Minor] != nil {
			return nil, fmt.Errorf("%s: there is another table of v1.%d", name, v.Minor)
		}
		all[v.Minor] = Parse(string(text))
	}
	return all, nil
}

// Parse reads a table as Table.String writes it.
func Parse(text string) Table {
	t, of := Table{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		name, indented := strings.CutPrefix(line, "\t")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case indented:
			name, value, _ := strings.Cut(name, "=")
			t[of][name] = value
		default:
			of = line
			t[of] = map[string]string{}
		}
	}
	return t
}

// String writes the table: each program, and below it, indented, a line for each of its flags.
func (t Table) String() string {
	var text strings.Builder
	for _, program := range sorted(t) {
		fmt.Fprintln(&text, program)
		for _, name := range sorted(t[program]) {
			if only := t[program][name]; only != "" {
				name += "=" + only
			}
			fmt.Fprintln(&text, "\t"+name)
		}
	}
	return text.String()
}

// Known returns the minor versions of v1 that there is a table of, the oldest first.
func Known() []int { return sorted(tables) }

// Of returns the table of a version of Kubernetes; nil: there is none.
func Of(kubernetes string) Table {
	v, err := version.Parse(kubernetes)
	if err != nil || v.Major != 1 {
		return nil
	}
	return tables[v.Minor]
}

// Refused says what of a configuration the programs of a version of Kubernetes do not take, and what of it is not known, as one sentence each.
func Refused(kubernetes string, spec *bootstrapv1.KubeadmConfigSpec) []string {
	v, err := version.Parse(kubernetes)
	if err != nil {
		return nil // that it is none is said elsewhere
	}
	c := checker{table: Of(kubernetes), minor: fmt.Sprintf("v%d.%d", v.Major, v.Minor)}
	cluster := &spec.ClusterConfiguration
	c.flags(APIServer, "clusterConfiguration.apiServer.extraArgs", cluster.APIServer.ExtraArgs)
	c.flags(ControllerManager, "clusterConfiguration.controllerManager.extraArgs", cluster.ControllerManager.ExtraArgs)
	c.flags(Scheduler, "clusterConfiguration.scheduler.extraArgs", cluster.Scheduler.ExtraArgs)
	c.flags(Etcd, "clusterConfiguration.etcd.local.extraArgs", cluster.Etcd.Local.ExtraArgs)
	c.flags(Kubelet, "initConfiguration.nodeRegistration.kubeletExtraArgs", spec.InitConfiguration.NodeRegistration.KubeletExtraArgs)
	c.flags(Kubelet, "joinConfiguration.nodeRegistration.kubeletExtraArgs", spec.JoinConfiguration.NodeRegistration.KubeletExtraArgs)
	for _, name := range sorted(cluster.FeatureGates) {
		c.gate("kubeadm", KubeadmGates, "clusterConfiguration.featureGates", name, strconv.FormatBool(cluster.FeatureGates[name]))
	}
	if c.table == nil && c.asked > 0 {
		return []string{fmt.Sprintf("which flags and feature gates %s takes is not known: there are tables of v1.%s", c.minor, joined(Known()))}
	}
	return c.refused
}

func joined(minors []int) string {
	var texts []string
	for _, m := range minors {
		texts = append(texts, strconv.Itoa(m))
	}
	return strings.Join(texts, ", v1.")
}

// HasGate reports whether kubeadm of a version has a feature gate; true where there is no table of the version.
func HasGate(kubernetes, name string) bool {
	t := Of(kubernetes)
	_, has := t[KubeadmGates][name]
	return has || t == nil
}

// checker collects what is refused.
type checker struct {
	table   Table // nil: there is none
	minor   string
	refused []string
	asked   int // how many flags and feature gates were looked for
}

func (c *checker) flags(program, field string, args []bootstrapv1.Arg) {
	for _, arg := range args {
		name := strings.TrimLeft(arg.Name, "-")
		c.asked++
		if _, has := c.table[program][name]; !has {
			c.refuse(program, field, "flag --"+name, anyHas(program, name))
			continue
		}
		if name == "feature-gates" && program != Etcd && arg.Value != nil {
			c.gates(program, field, *arg.Value)
		}
	}
}

// gates are the value of a flag: Name=true,kube:Other=false.
func (c *checker) gates(program, field, value string) {
	for setting := range strings.SplitSeq(value, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(setting), "=")
		if of, bare, component := strings.Cut(name, ":"); component {
			if of != "kube" {
				continue
			}
			name = bare
		}
		if name != "" {
			c.gate(program, Gates, field, name, value)
		}
	}
}

// gate checks one setting of a feature gate. Programs read its value as strconv.ParseBool does: True and 1 are true.
func (c *checker) gate(program, list, field, name, value string) {
	c.asked++
	on, err := strconv.ParseBool(value)
	if err != nil {
		c.refused = append(c.refused, fmt.Sprintf("invalid feature gate %s %q of %s (%s): must be true or false", name, value, program, field))
		return
	}
	only, has := c.table[list][name]
	switch {
	case !has:
		c.refuse(program, field, "feature gate "+name, anyHas(list, name))
	case only != "" && only != strconv.FormatBool(on):
		c.refused = append(c.refused, fmt.Sprintf("%s %s has the feature gate %s locked to %s: %s sets it to %s", c.minor, program, name, only, field, value))
	}
}

// refuse says that a program has something no more, if an older or a newer one has it; otherwise that no table names it.
func (c *checker) refuse(program, field, what string, gone bool) {
	if gone {
		c.refused = append(c.refused, fmt.Sprintf("%s %s has no %s: remove it from %s", c.minor, program, what, field))
		return
	}
	c.refused = append(c.refused, fmt.Sprintf("whether %s %s has a %s is not known: no table names it, and %s sets it", c.minor, program, what, field))
}

// anyHas reports whether a program of any version has a flag, or a list a gate.
func anyHas(list, name string) bool {
	for _, t := range tables {
		if _, has := t[list][name]; has {
			return true
		}
	}
	return false
}

func sorted[K int | string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
