// Package programs knows which flags and feature gates the programs of some versions of Kubernetes take, and says what of a configuration
// for kubeadm a version does not take. It reads tables that hack/programs writes from the programs themselves. Of a version without a table
// it knows nothing, and of a flag that no table names it does not say that it is wrong.
package programs

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
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
	// Gates stands for the feature gates that all of Kubernetes' programs take, OnlyGates(program) for those that not all take, and
	// KubeadmGates for those of kubeadm.
	Gates        = "feature gates"
	KubeadmGates = "kubeadm feature gates"
	// Versions stands for the versions of programs that have one of their own: etcd's.
	Versions = "versions"
)

//go:embed tables/*.txt
var files embed.FS

// A Table has what a minor version of Kubernetes takes, by the name of a program: its flags, or feature gates. The value is empty, or the
// only one that a feature gate may have, or a version.
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

// OnlyGates returns the name of the list of feature gates that a program takes and not all others do.
func OnlyGates(program string) string { return Gates + " of " + program }

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
	for _, program := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintln(&text, program)
		for _, name := range slices.Sorted(maps.Keys(t[program])) {
			if only := t[program][name]; only != "" {
				name += "=" + only
			}
			fmt.Fprintln(&text, "\t"+name)
		}
	}
	return text.String()
}

// Known returns the minor versions of v1 that there is a table of, the oldest first.
func Known() []int { return slices.Sorted(maps.Keys(tables)) }

// Of returns the table of a version of Kubernetes; nil: there is none.
func Of(kubernetes string) Table {
	v, err := version.Parse(kubernetes)
	if err != nil || v.Major != 1 {
		return nil
	}
	return tables[v.Minor]
}

// Findings are what is wrong with the flags and feature gates of a configuration, a sentence each.
type Findings struct {
	// Refused are flags and feature gates that a program does not take, and NotKnown those of which no table says it.
	Refused, NotKnown []string
}

// Check looks for the flags and feature gates of a configuration in the table of a version of Kubernetes. Those of etcd it looks for in a
// table of the etcd that the tag of its image names, if there is one.
func Check(kubernetes string, spec *bootstrapv1.KubeadmConfigSpec) Findings {
	v, err := version.Parse(kubernetes)
	if err != nil {
		return Findings{} // others report it
	}
	var c checker
	table, minor, cluster := Of(kubernetes), fmt.Sprintf("v%d.%d", v.Major, v.Minor), &spec.ClusterConfiguration
	for _, of := range []struct {
		program, field string
		args           []bootstrapv1.Arg
	}{
		{APIServer, "clusterConfiguration.apiServer.extraArgs", cluster.APIServer.ExtraArgs},
		{ControllerManager, "clusterConfiguration.controllerManager.extraArgs", cluster.ControllerManager.ExtraArgs},
		{Scheduler, "clusterConfiguration.scheduler.extraArgs", cluster.Scheduler.ExtraArgs},
		{Kubelet, "initConfiguration.nodeRegistration.kubeletExtraArgs", spec.InitConfiguration.NodeRegistration.KubeletExtraArgs},
		{Kubelet, "joinConfiguration.nodeRegistration.kubeletExtraArgs", spec.JoinConfiguration.NodeRegistration.KubeletExtraArgs},
	} {
		c.flags(place{table, of.program, minor + " " + of.program, of.field}, of.args)
	}
	c.etcd(table, cluster.Etcd.Local)
	kubeadm := place{table, "kubeadm", minor + " kubeadm", "clusterConfiguration.featureGates"}
	for _, name := range slices.Sorted(maps.Keys(cluster.FeatureGates)) {
		c.gate(kubeadm, KubeadmGates, name, strconv.FormatBool(cluster.FeatureGates[name]))
	}
	if c.noTable {
		c.NotKnown = append(c.NotKnown, fmt.Sprintf("cannot check flags and feature gates of %s: there are tables of v1.%s", minor,
			joined(Known())))
	}
	return c.Findings
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

// checker collects what is found.
type checker struct {
	Findings
	noTable bool // something was looked for, and there is no table
}

// A place is a field that configures a program.
type place struct {
	table          Table  // nil: there is none
	program, named string // named has its version too
	field          string
}

func (c *checker) flags(at place, args []bootstrapv1.Arg) {
	for _, arg := range args {
		name := strings.TrimLeft(arg.Name, "-")
		if c.has(at, at.program, "flag --"+name, name) && name == "feature-gates" && at.program != Etcd && arg.Value != nil {
			c.gates(at, *arg.Value)
		}
	}
}

// etcd checks the flags of etcd with the table of the etcd that the tag names, or that the version of Kubernetes has.
func (c *checker) etcd(table Table, local bootstrapv1.LocalEtcd) {
	const field = "clusterConfiguration.etcd.local.extraArgs"
	if local.ImageTag != "" {
		table = ofEtcd(local.ImageTag)
		if table == nil && len(local.ExtraArgs) > 0 {
			c.NotKnown = append(c.NotKnown, fmt.Sprintf("cannot check flags of etcd (%s): there is no table for imageTag %q", field, local.ImageTag))
			return
		}
	}
	c.flags(place{table, Etcd, "etcd " + minorOf(table[Versions][Etcd]), field}, local.ExtraArgs)
}

// ofEtcd returns the newest table with the etcd of an image's tag, 3.6.16-0 for instance; nil: there is none.
func ofEtcd(tag string) Table {
	for _, minor := range slices.Backward(Known()) {
		if has := minorOf(tables[minor][Versions][Etcd]); has != "" && has == minorOf(tag) {
			return tables[minor]
		}
	}
	return nil
}

// minorOf returns 3.6 of 3.6.16-0, and nothing of what is no version.
func minorOf(text string) string {
	v, err := version.Parse(text)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// gates are the value of a flag: Name=true,kube:Other=false.
func (c *checker) gates(at place, value string) {
	for setting := range strings.SplitSeq(value, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(setting), "=")
		if of, bare, component := strings.Cut(name, ":"); component {
			if of != "kube" {
				continue
			}
			name = bare
		}
		if name != "" {
			c.gate(at, Gates, name, value)
		}
	}
}

// gate checks one setting of a feature gate. Programs read its value as strconv.ParseBool does: True and 1 are true.
func (c *checker) gate(at place, list, name, value string) {
	on, err := strconv.ParseBool(value)
	if err != nil {
		c.Refused = append(c.Refused, fmt.Sprintf("invalid feature gate %s %q of %s (%s): must be true or false", name, value, at.program,
			at.field))
		return
	}
	if !c.has(at, list, "feature gate "+name, name) {
		return
	}
	if only, _ := at.table.find(at.program, list, name); only != "" && only != strconv.FormatBool(on) {
		c.Refused = append(c.Refused, fmt.Sprintf("%s has the feature gate %s locked to %s: %s sets it to %s", at.named, name, only, at.field,
			value))
	}
}

// has reports whether a list of the table has a name. If not, it notes it: as refused where another table has it.
func (c *checker) has(at place, list, what, name string) bool {
	_, has := at.table.find(at.program, list, name)
	switch {
	case has:
	case at.table == nil:
		c.noTable = true
	case anyHas(list, name):
		c.Refused = append(c.Refused, fmt.Sprintf("%s has no %s: remove it from %s", at.named, what, at.field))
	default:
		c.NotKnown = append(c.NotKnown, fmt.Sprintf("cannot check %s of %s (%s): it is in no table", what, at.program, at.field))
	}
	return has
}

// find returns the value of a name in a list, and reports whether the list has it. To Gates belong those that only the program takes.
func (t Table) find(program, list, name string) (string, bool) {
	value, has := t[list][name]
	if !has && list == Gates {
		value, has = t[OnlyGates(program)][name]
	}
	return value, has
}

// anyHas reports whether a program of any version has a flag, or a list a gate. Each program was asked for the gates of the others.
func anyHas(list, name string) bool {
	for _, t := range tables {
		for of, names := range t {
			if _, has := names[name]; has && (of == list || list == Gates && strings.HasPrefix(of, OnlyGates(""))) {
				return true
			}
		}
	}
	return false
}
