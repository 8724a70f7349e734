package inplace

import (
	"strings"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

func TestNext(t *testing.T) {
	first := Machine{Name: "m", Version: "v2.0.0", ControlPlane: true, Updating: true}
	worker := Machine{Name: "w", Version: "v2.0.0", Updating: true}
	old, done, busy := Machine{Name: "o", Version: "v1.9.9"}, Machine{Name: "d", Version: "v2.0.0"},
		Machine{Name: "b", Version: "v2.0.0", Updating: true}
	with := func(m Machine, change func(*Machine)) *Machine { change(&m); return &m }
	wanted := func(u Upgrade) []Upgrade { u.Name = "wanted"; return []Upgrade{u} }
	other := func(u Upgrade) []Upgrade { u.Name = "other"; return []Upgrade{u} }
	for _, c := range []struct {
		name      string
		machine   *Machine
		requested string // the machine's version if empty
		others    []Machine
		upgrades  []Upgrade
		want      Verb
		first     bool
		message   string // part of it
	}{
		{name: "no machine", want: Failed, message: "no such Machine"},
		{name: "being deleted", machine: with(first, func(m *Machine) { m.Deleting = true }), want: Wait, message: "being deleted"},
		{name: "an old request", machine: &first, requested: "v1.9.9", want: Wait, message: "v2.0.0, and the request says v1.9.9"},
		{name: "not marked", machine: with(first, func(m *Machine) { m.Updating = false }), want: Wait, message: "not marked"},

		{name: "alone", machine: &first, want: Make, first: true},
		{name: "first of three", machine: &first, others: []Machine{old, old}, want: Make, first: true},
		{name: "while another is at it", machine: &first, others: []Machine{old, busy}, want: Make, first: true},
		{name: "second of three", machine: &first, others: []Machine{old, done}, want: Make},
		{name: "a worker after its control plane", machine: &worker, others: []Machine{done}, want: Make},
		{name: "a worker without", machine: &worker, want: Make},
		{name: "a worker before", machine: &worker, others: []Machine{done, old}, want: Wait, message: "worker w waits for control plane " +
			"machine o"},
		{name: "a worker meanwhile", machine: &worker, others: []Machine{busy}, want: Wait, message: "control plane machine b"},
		{name: "a worker that the control plane has passed", machine: &worker, others: []Machine{{Name: "n", Version: "v2.1.0"}}, want: Make},
		{name: "a worker beside an odd version", machine: &worker, others: []Machine{{Name: "n", Version: "odd"}}, want: Make},

		{name: "made", machine: &first, upgrades: wanted(Upgrade{Ours: true}), want: Wait, message: "wanted: it has not begun"},
		{name: "begun", machine: &first, upgrades: wanted(Upgrade{Ours: true, Begun: true, Message: "step swap (7 of 9)"}), want: Wait,
			message: "step swap (7 of 9)"},
		{name: "finished", machine: &first, upgrades: wanted(Upgrade{Ours: true, Begun: true, Completed: true}), want: Done,
			message: "the node runs v2.0.0"},
		{name: "failed", machine: &first, upgrades: wanted(Upgrade{Ours: true, Begun: true, Failed: true, Message: "swap: no such image"}),
			want: Failed, message: "no such image. To try again, run `quorate upgrade retry`"},
		{name: "retried", machine: &first, upgrades: wanted(Upgrade{Ours: true, Begun: true, Message: "Running"}), want: Wait,
			message: "Running"},
		{name: "of an earlier time", machine: &first, upgrades: wanted(Upgrade{Begun: true, Completed: true, Recorded: true}), want: Remove,
			message: "made again"},
		{name: "finished, and recorded meanwhile", machine: &first,
			upgrades: wanted(Upgrade{Ours: true, Begun: true, Completed: true, Recorded: true}), want: Done},
		{name: "on its way out", machine: &first, upgrades: wanted(Upgrade{Deleting: true, Completed: true}), want: Wait, message: "made again"},

		{name: "an obsolete one that failed", machine: &first, upgrades: other(Upgrade{Ours: true, Begun: true, Failed: true}), want: Remove},
		{name: "an obsolete one that is finished", machine: &first, upgrades: other(Upgrade{Ours: true, Begun: true, Completed: true}),
			want: Remove},
		{name: "an obsolete one that has not begun", machine: &first, upgrades: other(Upgrade{Ours: true}), want: Remove},
		{name: "an obsolete one that is under way", machine: &first, upgrades: other(Upgrade{Ours: true, Begun: true}), want: Wait,
			message: "finished first"},
		{name: "an obsolete one that goes", machine: &first, upgrades: other(Upgrade{Ours: true, Deleting: true}), want: Wait,
			message: "other is being deleted"},
		{name: "somebody else's that failed", machine: &first, upgrades: other(Upgrade{Begun: true, Failed: true}), want: Make, first: true},
		{name: "somebody else's that is finished", machine: &first, upgrades: other(Upgrade{Begun: true, Completed: true}), want: Make,
			first: true},
		{name: "somebody else's that is under way", machine: &first, upgrades: other(Upgrade{}), want: Wait, message: "finished first"},
		{name: "an obsolete one beside the finished one", machine: &first, upgrades: append(other(Upgrade{Ours: true, Failed: true}),
			wanted(Upgrade{Completed: true})...), want: Remove},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Facts{Machine: c.machine, Requested: c.requested, Others: c.others, Upgrades: c.upgrades, Wanted: "wanted"}
			if c.requested == "" && c.machine != nil {
				f.Requested = c.machine.Version
			}
			got := Next(f)
			name := map[Verb]string{Make: "wanted", Remove: "other"}[c.want]
			if c.want == Remove && c.upgrades[0].Name == "wanted" {
				name = "wanted"
			}
			if got.Verb != c.want || got.First != c.first || got.Upgrade != name || !strings.Contains(got.Message, c.message) {
				t.Errorf("%+v, want %s of %q, first %t, with %q", got, c.want, name, c.first, c.message)
			}
			if got.Message == "" {
				t.Error("it says nothing")
			}
		})
	}
}

func TestUpgradeName(t *testing.T) {
	with := func(argument, endpoint string) bootstrapv1.ClusterConfiguration {
		return bootstrapv1.ClusterConfiguration{ControlPlaneEndpoint: endpoint,
			APIServer: bootstrapv1.APIServer{ExtraArgs: []bootstrapv1.Arg{{Name: argument}}}}
	}
	base := UpgradeName("m", "v1", with("a", "x"))
	if !strings.HasPrefix(base, "m-") || len(base) > 20 {
		t.Errorf("name %q", base)
	}
	// What is not brought to the node makes no other upgrade, so that what a provider fills in does not.
	if got := UpgradeName("m", "v1", with("a", "y")); got != base {
		t.Errorf("%s, want %s", got, base)
	}
	seen := map[string]string{base: "the first"}
	for what, name := range map[string]string{
		"another machine":  UpgradeName("n", "v1", with("a", "")),
		"another version":  UpgradeName("m", "v2", with("a", "")),
		"other arguments":  UpgradeName("m", "v1", with("b", "")),
		"no configuration": UpgradeName("m", "v1", bootstrapv1.ClusterConfiguration{}),
		"a long name":      UpgradeName(strings.Repeat("m", 250), "v1", with("a", "")),
		"a longer one":     UpgradeName(strings.Repeat("m", 251), "v1", with("a", "")),
	} {
		if seen[name] != "" || len(name) > 210 {
			t.Errorf("%s: %s, as %s", what, name, seen[name])
		}
		seen[name] = what
	}
}
