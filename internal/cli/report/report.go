// Package report says how clusters are, as plain data and as text made from
// it: the tree of `quorate status`, the progress lines of `quorate up`, the
// tables of `quorate explain` and `quorate history`. It knows no client and reads nothing; the
// caller has the facts and fills in its types.
package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/quorum"
)

// Cluster is one cluster as seen through the management plane and, where it can be reached, itself.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Endpoint is host:port of the API server; empty until there is one.
	Endpoint string `json:"endpoint,omitempty"`
	// Phase is Cluster API's: Pending, Provisioning, Provisioned, Deleting, Failed.
	Phase    string `json:"phase,omitempty"`
	Paused   bool   `json:"paused,omitempty"`
	Deleting bool   `json:"deleting,omitempty"`
	// Problem is why the cluster cannot be read completely; empty: it was.
	Problem      string       `json:"problem,omitempty"`
	ControlPlane ControlPlane `json:"controlPlane,omitzero"`
	Etcd         Etcd         `json:"etcd,omitzero"`
	// EtcdClusters are those on machines of their own.
	EtcdClusters []EtcdCluster `json:"etcdClusters,omitempty"`
	Workers      []Workers     `json:"workers,omitempty"`
}

// ControlPlane is the control plane of a cluster. Its name is empty when there is none yet.
type ControlPlane struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Replicas are wanted.
	Replicas  int  `json:"replicas"`
	Available bool `json:"available"`
	// UpToDate: all machines are as the spec wants them.
	UpToDate bool `json:"upToDate"`
	// Current: the controller has seen the newest spec. Only then is the rest about that.
	Current bool `json:"current"`
	Next    Next `json:"next,omitzero"`
	// CertificateExpiry is the first certificate to expire; zero: none is known.
	CertificateExpiry CertificateExpiry `json:"certificateExpiry,omitzero"`
	// Recovery is from which backup its etcd can be recovered; zero: none is taken, or the etcd is elsewhere.
	Recovery Recovery  `json:"recovery,omitzero"`
	Machines []Machine `json:"machines,omitempty"`
	// Conditions are those of its status, in its order.
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is one condition of an object's status.
type Condition struct {
	Type string `json:"type"`
	// Status is True, False or Unknown.
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when Status became what it is.
	Since time.Time `json:"since,omitzero"`
}

// Inactive reports whether the control plane tells its next step without taking it, until a person activates it.
func (cp ControlPlane) Inactive() bool { return cp.Current && cp.Next.Reason == "Inactive" }

// CertificateExpiry is the serving certificate, of all API servers and etcd members, that expires first.
type CertificateExpiry struct {
	Date      time.Time `json:"date"`
	Machine   string    `json:"machine"`
	Component string    `json:"component"`
	// Soon: it expires within 30 days. Past: it has expired.
	Soon bool `json:"soon,omitempty"`
	Past bool `json:"past,omitempty"`
}

// Next is the step that was decided last, and why.
type Next struct {
	Step    string `json:"step,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// EtcdCluster is an etcd cluster on machines of its own.
type EtcdCluster struct {
	Name string `json:"name"`
	// Version of etcd.
	Version string `json:"version,omitempty"`
	// Replicas are wanted.
	Replicas int `json:"replicas"`
	// Current: the controller has seen the newest spec.
	Current  bool      `json:"current"`
	Next     Next      `json:"next,omitzero"`
	Machines []Machine `json:"machines,omitempty"`
	Etcd     Etcd      `json:"etcd,omitzero"`
	// Recovery is from which backup it can be recovered; zero: none is taken.
	Recovery Recovery `json:"recovery,omitzero"`
	// Conditions are those of its status, in its order.
	Conditions []Condition `json:"conditions,omitempty"`
}

// Workers are the machines of one MachineDeployment, or, without a name, of none, or of one etcd cluster that is not known here.
type Workers struct {
	Name string `json:"name,omitempty"`
	// EtcdCluster is the etcd cluster whose members the machines are; empty: they are workers.
	EtcdCluster string `json:"etcdCluster,omitempty"`
	Version     string `json:"version,omitempty"`
	// Replicas are wanted.
	Replicas int `json:"replicas"`
	// Current: the controller has seen the newest spec.
	Current  bool      `json:"current"`
	Machines []Machine `json:"machines,omitempty"`
}

// Machine is one machine of a cluster.
type Machine struct {
	Name    string    `json:"name"`
	Domain  string    `json:"domain,omitempty"`
	Version string    `json:"version,omitempty"`
	Address string    `json:"address,omitempty"`
	Created time.Time `json:"created"`
	// Since is when it began to come or to go.
	Since time.Time `json:"since"`
	// Node is the name of its Node; empty until one is registered.
	Node       string           `json:"node,omitempty"`
	NodeReady  bool             `json:"nodeReady"`
	Deleting   bool             `json:"deleting,omitempty"`
	Components []plan.Component `json:"components,omitempty"`
	// Failed: it waits for something that will not come by itself.
	Failed bool `json:"failed,omitempty"`
	// Waiting is what it waits for; empty: it is as wanted.
	Waiting string `json:"waiting,omitempty"`
}

// IsWell reports whether a machine waits for nothing, and each of its components is known to be healthy.
func (m Machine) IsWell() bool {
	return !m.Failed && m.Waiting == "" && !slices.ContainsFunc(m.Components, func(c plan.Component) bool { return c.Health != plan.Healthy })
}

// Etcd is the quorum of a control plane, or of an etcd cluster on machines of its own.
type Etcd struct {
	// Managed: members run on the control plane's machines, and are Quorate's to keep.
	Managed bool `json:"managed"`
	// Operated: they run there, and an operator in the cluster keeps them.
	Operated bool `json:"operated,omitempty"`
	// Known: the members' list was read.
	Known bool `json:"known"`
	// Why it is not known, or what is wrong with it; empty: nothing.
	Why string `json:"why,omitempty"`
	// Obstacle is why writes may be refused although a majority is healthy: members disagree, or an alarm is active. Empty: nothing is known.
	Obstacle string        `json:"obstacle,omitempty"`
	Members  []plan.Member `json:"members,omitempty"`
	// Voters, and how many of them are healthy.
	Voters  int `json:"voters"`
	Healthy int `json:"healthy"`
	// Majority is how many voters must be healthy.
	Majority int `json:"majority"`
	// CanStand is how many more may fail before the quorum is lost; negative when it is.
	CanStand int `json:"canStand"`
}

// NewEtcd counts the votes of what was observed.
func NewEtcd(o plan.Etcd) Etcd {
	e := Etcd{Managed: o.Ours(), Operated: o.Operated(), Known: o.Known, Why: o.Why, Obstacle: obstacle(o), Members: o.Members}
	voters := plan.Assess(plan.Observed{Etcd: o}).Voters
	if len(voters) == 0 {
		return e
	}
	e.Voters, e.Healthy = len(voters), quorum.Healthy(voters)
	e.Majority, e.CanStand = quorum.Majority(len(voters)), quorum.Spare(voters)
	return e
}

// obstacle says why etcd may refuse writes although a majority of its voters is healthy.
func obstacle(o plan.Etcd) string {
	if !o.Known {
		return ""
	}
	var all []string
	if !o.Agreed {
		all = append(all, "members disagree")
	}
	for _, m := range o.Members {
		if len(m.Alarms) > 0 {
			all = append(all, MemberName(m)+" raised the alarm "+strings.Join(m.Alarms, " and "))
		}
	}
	return strings.Join(append(all, o.StrayAlarms...), "; ")
}

// Quorum is that of the cluster's data: the etcd on the machines of the control plane, or the one on machines of its own.
func (c Cluster) Quorum() Etcd {
	if !c.Etcd.Managed && !c.Etcd.Operated && len(c.EtcdClusters) == 1 {
		return c.EtcdClusters[0].Etcd
	}
	return c.Etcd
}

// Sentence says how many failures the quorum can stand.
func (e Etcd) Sentence() string {
	switch {
	case e.Operated:
		return "kept by an operator in the cluster"
	case !e.Managed:
		return "not on these machines"
	case !e.Known:
		return e.unknown()
	case e.Voters == 0:
		return "not known yet"
	case e.CanStand < 0:
		return fmt.Sprintf("QUORUM LOST: %d of %d %s healthy, %d are needed", e.Healthy, e.Voters, are(e.Healthy), e.Majority)
	}
	s := fmt.Sprintf("quorum %d of %d, can stand %s", e.Majority, e.Voters, count(e.CanStand, "failure"))
	if e.Why != "" {
		s += "; " + e.Why
	}
	return s
}

// unknown says why etcd is not known, as far as that is known.
func (e Etcd) unknown() string {
	if e.Why == "" {
		return "not known yet"
	}
	return "not known: " + e.Why
}

// Ready counts the machines that wait for nothing.
func Ready(machines []Machine) int {
	n := 0
	for _, m := range machines {
		if m.Waiting == "" {
			n++
		}
	}
	return n
}

// Missing says what keeps the cluster from being up as wanted; empty: nothing does.
func (c Cluster) Missing() string {
	var missing []string
	add := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	if c.Deleting {
		add("the cluster is being deleted")
	}
	if c.Problem != "" {
		add("%s", c.Problem)
	}
	cp := c.ControlPlane
	switch {
	case cp.Name == "":
		add("there is no control plane yet")
	case !cp.Current:
		add("the controller has not seen the newest spec of %s yet", cp.Name)
	default:
		missing = append(missing, cp.unsettled()...)
	}
	missing = append(missing, waitingMachines(cp.Machines)...)
	for _, e := range c.EtcdClusters {
		missing = append(missing, e.missing()...)
	}
	for _, w := range c.Workers {
		missing = append(missing, w.missing()...)
	}
	return strings.Join(missing, "; ")
}

// unsettled is what the control plane itself says is not as its newest spec wants it. Whether something is still to be done is its
// controller's word, not a matter of counting machines: one more or less may be in order, or the right number of the wrong ones.
func (cp ControlPlane) unsettled() []string {
	var missing []string
	if !cp.Available {
		missing = append(missing, cp.Name+" is not available yet")
	}
	if !cp.UpToDate {
		missing = append(missing, "the machines of "+cp.Name+" are not up to date yet")
	}
	if next := cp.Next; next.Step != "" && next.Step != string(plan.Nothing) {
		missing = append(missing, cp.Name+" is not at rest: "+shorten(next.Span().Text, longestNext))
	}
	return missing
}

// missing is what keeps an etcd cluster from being as wanted.
func (e EtcdCluster) missing() []string {
	if !e.Current {
		return []string{"the controller has not seen the newest spec of " + e.Name + " yet"}
	}
	missing := missingMachines(e.Name, e.Replicas, e.Machines)
	if e.Next.Step != "" && e.Next.Step != string(plan.Nothing) {
		missing = append(missing, e.Name+" is not at rest: "+shorten(e.Next.Span().Text, longestNext))
	}
	return missing
}

// missing says what keeps workers from being as wanted. Of machines of no MachineDeployment nothing is wanted.
func (w Workers) missing() []string {
	var missing []string
	if !w.Current {
		missing = append(missing, "the controller has not seen the newest spec of "+w.Name+" yet")
	}
	if w.Name != "" {
		missing = append(missing, missingMachines(w.Name, w.Replicas, w.Machines)...)
	}
	return missing
}

func missingMachines(group string, wanted int, machines []Machine) []string {
	var missing []string
	if len(machines) != wanted {
		missing = append(missing, fmt.Sprintf("%s has %s of %d wanted", group, count(len(machines), "machine"), wanted))
	}
	return append(missing, waitingMachines(machines)...)
}

func waitingMachines(machines []Machine) []string {
	var missing []string
	for _, m := range machines {
		if m.Waiting != "" {
			missing = append(missing, m.Name+" waits for "+m.Waiting)
		}
	}
	return missing
}

// Machines are all machines, those of the control plane first.
func (c Cluster) Machines() []Machine {
	machines := slices.Clone(c.ControlPlane.Machines)
	for _, e := range c.EtcdClusters {
		machines = append(machines, e.Machines...)
	}
	for _, w := range c.Workers {
		machines = append(machines, w.Machines...)
	}
	return machines
}

func count(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
