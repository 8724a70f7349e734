// Package monitoring keeps metrics, their page, alerts, their tests and runbooks, and the dashboard in agreement.
package monitoring

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/status"
	"github.com/quorate/quorate/internal/manager/backups"
	"github.com/quorate/quorate/internal/program/buildinfo/gauge"
)

// foreign are metrics that alerts and the dashboard use and that are not Quorate's: controller-runtime's.
var foreign = []string{"leader_election_master_status"}

// metric is what a metric's description says.
type metric struct{ name, help, labels string }

// described matches what client_golang writes of a description, the only way to read one.
var described = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*)", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// registrar notes what is registered, also metrics that have no series yet.
type registrar struct {
	prometheus.Registerer
	t     *testing.T
	found map[string]metric
}

func (r registrar) Register(c prometheus.Collector) error {
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		c.Describe(all)
	}()
	for desc := range all {
		part := described.FindStringSubmatch(desc.String())
		if part == nil {
			r.t.Fatalf("%s cannot be read", desc)
		}
		m := metric{name: part[1], help: strings.ReplaceAll(part[2], `\"`, `"`), labels: strings.ReplaceAll(part[4], ",", ", ")}
		if m.labels == "" { // quorate_build_info, whose labels are constant
			m.labels = labelNames(part[3])
		}
		r.found[m.name] = m
	}
	return nil
}

// labelNames are the names of constant labels in one order.
func labelNames(pairs string) string {
	var names []string
	for _, pair := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(pairs, -1) {
		names = append(names, pair[1])
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// registered are all metrics of Quorate, by their names.
func registered(t *testing.T) map[string]metric {
	t.Helper()
	r := registrar{t: t, found: map[string]metric{}}
	if err := errors.Join(group.RegisterMetrics(r), backups.RegisterMetrics(r), gauge.Register(r)); err != nil {
		t.Fatal(err)
	}
	if len(r.found) < 10 {
		t.Fatalf("only %d metrics are registered", len(r.found))
	}
	return r.found
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestMetricsDocumented: docs/metrics.md has each metric, with its labels and what it says, and no other.
func TestMetricsDocumented(t *testing.T) {
	all := registered(t)
	row := regexp.MustCompile("(?m)^\\| `(quorate_\\w+)` \\| (\\w+) \\| ([\\w, ]+) \\|(?: \\w+)? \\| (.*) \\|$")
	var names []string
	for _, part := range row.FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		name, kind, labels, help := part[1], part[2], part[3], part[4]
		names = append(names, name)
		m, has := all[name]
		switch {
		case !has:
			t.Errorf("docs/metrics.md has %s, which is not registered", name)
		case m.help != help:
			t.Errorf("docs/metrics.md says of %s:\n%s\nits help:\n%s", name, help, m.help)
		case sorted(m.labels) != sorted(labels):
			t.Errorf("docs/metrics.md gives %s the labels %s, it has %s", name, labels, m.labels)
		case kind != typeOf(name):
			t.Errorf("docs/metrics.md says that %s is a %s; by its name it is a %s", name, kind, typeOf(name))
		}
	}
	for name := range all {
		if !slices.Contains(names, name) {
			t.Errorf("docs/metrics.md lacks %s", name)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("docs/metrics.md is not in the order of names: %v", names)
	}
}

func sorted(labels string) string {
	all := strings.Split(labels, ", ")
	slices.Sort(all)
	return strings.Join(all, " ")
}

// typeOf is the type that the conventions for names give a metric.
func typeOf(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return "gauge"
	case strings.HasSuffix(name, "_seconds"):
		return "histogram"
	}
	return "gauge"
}

// TestTypes: metrics are of the type that their names promise.
func TestTypes(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := errors.Join(group.RegisterMetrics(registry), backups.RegisterMetrics(registry), gauge.Register(registry)); err != nil {
		t.Fatal(err)
	}
	sample()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := registered(t)
	for _, family := range families {
		delete(all, family.GetName())
		if got := strings.ToLower(family.GetType().String()); got != typeOf(family.GetName()) {
			t.Errorf("%s is a %s, want a %s", family.GetName(), got, typeOf(family.GetName()))
		}
	}
	for name := range all {
		t.Errorf("%s has no sample here", name)
	}
}

// sample gives each metric a series.
func sample() {
	kind, of := group.Metrics("Sample"), client.ObjectKey{Namespace: "default", Name: "sample"}
	backups.Stands("Sample", of, controlplanev1.VerifiedBackup{}, metav1.Condition{Reason: controlplanev1.BackupNever})
	backups.Observe("Sample", time.Second)
	backups.CountFailure("Sample", controlplanev1.BackupFailed)
	kind.Step(plan.Decision{Step: plan.Step{Verb: plan.Create}}, group.Timing{}, nil)
	kind.Turn(time.Second)
	kind.Rollout(time.Minute)
	kind.Repair(time.Minute)
	kind.Stands(of, status.Standing{
		Reachable: ptr.To(true), Addons: map[string]bool{"coredns": true}, CertificateEnds: map[string]time.Time{"ca": time.Unix(1, 0)},
		Waits: status.Waiting{Rule: "grow", Reason: "Joining", Since: time.Unix(1, 0)},
		Etcd: &status.EtcdStanding{
			Differing: ptr.To(1), Sizes: map[string]int64{"sample-1": 1}, Quotas: map[string]int64{"sample-1": 2},
		},
	})
}

// ours matches names of Quorate's metrics, and of those that it may use of others.
var ours = regexp.MustCompile(`\b(?:quorate|leader_election)_[a-z0-9_]+\b`)

// used says which metrics a text uses that are not there.
func used(text string, all map[string]metric) (names, unknown []string) {
	for _, name := range ours.FindAllString(text, -1) {
		base := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if cut, is := strings.CutSuffix(name, suffix); is && typeOf(cut) == "histogram" {
				base = cut
			}
		}
		if _, has := all[base]; !has && !slices.Contains(foreign, base) {
			unknown = append(unknown, name)
		}
		names = append(names, name)
	}
	return names, unknown
}

// rule is one alert.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, "config/monitoring/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts")
	}
	return all
}

// TestAlerts: each alert uses metrics that exist, says how urgent it is and what is wrong, and has a runbook; each runbook has an alert.
func TestAlerts(t *testing.T) {
	all := registered(t)
	pages := map[string]bool{}
	files, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		pages[filepath.Base(file)] = true
	}
	for _, r := range alerts(t) {
		if names, unknown := used(r.Expr, all); len(names) == 0 || len(unknown) > 0 {
			t.Errorf("%s uses %v; there is no %v", r.Alert, names, unknown)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q, want critical or warning", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks a summary or a description", r.Alert)
		}
		page := r.Alert + ".md"
		if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/runbooks/"+page) || !pages[page] {
			t.Errorf("%s has the runbook %s; is there a docs/runbooks/%s: %t", r.Alert, r.Annotations["runbook_url"], page, pages[page])
			continue
		}
		delete(pages, page)
		if text := read(t, "docs/runbooks/"+page); !strings.HasPrefix(text, "# "+r.Alert+"\n") || !contains(text, "**Means:**", "**Look at**",
			"**Do") {
			t.Errorf("docs/runbooks/%s must have the alert's name as its title, and say what it means, what to look at and what to do", page)
		}
	}
	for page := range pages {
		t.Errorf("docs/runbooks/%s has no alert", page)
	}
}

func contains(text string, all ...string) bool {
	return !slices.ContainsFunc(all, func(part string) bool { return !strings.Contains(text, part) })
}

// TestAlertsTested: promtool's tests have each alert fire, and not fire.
func TestAlertsTested(t *testing.T) {
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	text := read(t, "config/monitoring/alerts_test.yaml")
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.AlertRuleTest {
			if len(c.ExpAlerts) > 0 {
				fires[c.Alertname] = true
			} else {
				silent[c.Alertname] = true
			}
		}
	}
	for _, r := range alerts(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s is tested to fire: %t, not to fire: %t", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
	if _, unknown := used(text, registered(t)); len(unknown) > 0 {
		t.Errorf("alerts_test.yaml has %v, which do not exist", unknown)
	}
}

// TestReasons: each reason by which an alert chooses is one that rules, chores or the second key give, and a runbook that advises on
// reasons knows it.
func TestReasons(t *testing.T) {
	known := read(t, "docs/rules.md") + read(t, "docs/operating.md") + group.CheckFailed
	chosen := regexp.MustCompile(`reason=~"([^"]*)"`)
	for _, r := range alerts(t) {
		for _, list := range regexp.MustCompile(`reason[=!]~"([^"]*)"`).FindAllStringSubmatch(r.Expr, -1) {
			for _, reason := range strings.Split(list[1], "|") {
				if !regexp.MustCompile(`\b` + reason + `\b`).MatchString(known) {
					t.Errorf("%s knows the reason %s, which nobody gives", r.Alert, reason)
				}
			}
		}
		for _, list := range chosen.FindAllStringSubmatch(r.Expr, -1) {
			page := read(t, "docs/runbooks/"+r.Alert+".md")
			for _, reason := range strings.Split(list[1], "|") {
				if !regexp.MustCompile(`\b` + reason + `\b`).MatchString(page) {
					t.Errorf("docs/runbooks/%s.md does not say what to do about %s", r.Alert, reason)
				}
			}
		}
	}
}

// TestReasonsAlertOnce: whatever has an alert of its own, by its reason, is not called stuck besides.
func TestReasonsAlertOnce(t *testing.T) {
	all := alerts(t)
	at := slices.IndexFunc(all, func(r rule) bool { return r.Alert == "QuorateStuck" })
	if at < 0 {
		t.Fatal("no QuorateStuck")
	}
	for _, r := range all {
		for _, list := range regexp.MustCompile(`reason=~"([^"]*)"`).FindAllStringSubmatch(r.Expr, -1) {
			for _, reason := range strings.Split(list[1], "|") {
				if !regexp.MustCompile(`[|"]` + reason + `[|"]`).MatchString(all[at].Expr) {
					t.Errorf("%s and QuorateStuck both fire for %s", r.Alert, reason)
				}
			}
		}
	}
}

// TestDashboard: each panel asks, and asks for metrics that exist.
func TestDashboard(t *testing.T) {
	var board struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	text := read(t, "config/monitoring/dashboard.json")
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		t.Fatal(err)
	}
	all := registered(t)
	if _, unknown := used(text, all); len(unknown) > 0 {
		t.Errorf("the dashboard has %v, which do not exist", unknown)
	}
	ids, shown := map[int]bool{}, ""
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the ID %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", cmp.Or(p.Title, p.Type))
		}
		for _, target := range p.Targets {
			shown += target.Expr + "\n"
		}
	}
	for name := range all {
		if !strings.Contains(shown, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}
