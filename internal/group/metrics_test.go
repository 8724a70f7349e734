package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/group/status"
)

// told are the figures of one kind as lines, sorted: a metric, its labels but the kind's and the namespace's, and its value.
func told(t *testing.T, kind string) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := RegisterMetrics(registry); err != nil {
		t.Fatal(err)
	}
	if err := RegisterMetrics(registry); err != nil {
		t.Errorf("registered twice: %v", err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if line, of := written(family.GetName(), m); of == kind {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// written is one figure as a line, and the kind that it is of.
func written(name string, m *dto.Metric) (line, kind string) {
	line = strings.TrimPrefix(name, "quorate_")
	for _, label := range m.GetLabel() {
		switch label.GetName() {
		case "kind":
			kind = label.GetValue()
		case "namespace":
		default:
			line += " " + label.GetName() + "=" + label.GetValue()
		}
	}
	switch {
	case m.GetGauge() != nil:
		line += fmt.Sprintf(" %.0f", m.GetGauge().GetValue())
	case m.GetCounter() != nil:
		line += fmt.Sprintf(" %.0f", m.GetCounter().GetValue())
	case m.GetHistogram() != nil:
		line += fmt.Sprintf(" %d of %.1f", m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum())
	}
	return line, kind
}

func wants(t *testing.T, when, kind string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := told(t, kind); !slices.Equal(got, want) {
		t.Errorf("%s:\n got  %s\n want %s", when, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
	}
}

// etcdTurn is a turn that sees three voters and a learner without a machine; one voter does not answer, one is full.
func etcdTurn() *Turn {
	o := &observe.View{Facts: plan.Observed{
		Now: time.Unix(1000, 0), Group: plan.Group{Initialized: true}, Cluster: plan.Cluster{Reachable: true},
		Etcd: plan.Etcd{Owner: plan.EtcdOurs},
	}}
	survey := etcd.Survey{Known: true, Agreed: true}
	for i, name := range []string{"a", "b", "c"} {
		m := &observe.Machine{Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}},
			Facts: &plan.Machine{Name: name, Host: name}}
		o.Machines = append(o.Machines, m)
		survey.Members = append(survey.Members, etcd.Member{ID: uint64(i + 1), Name: name, Health: plan.Healthy, Size: 100, Quota: 2000})
	}
	survey.Members[1].Health, survey.Members[1].Size, survey.Members[1].Quota = plan.Unhealthy, 0, 0
	survey.Members[2].Alarms, survey.Members[2].Quota = []string{"NOSPACE", "NEW"}, 0
	survey.Members = append(survey.Members, etcd.Member{ID: 4, Learner: true, Size: 5})
	o.Survey = survey
	t := turnOf(&Controller{}, o)
	o.AddEtcd(survey, &t.Memory.Since, o.Facts.Now)
	o.Assessed = plan.Assess(o.Facts)
	return t
}

// TestStands: what is seen is told, and what is not known any more is told no longer.
func TestStands(t *testing.T) {
	of, metrics := client.ObjectKey{Namespace: "default", Name: "x"}, Metrics("Stands")
	turn, rest := etcdTurn(), plan.Decision{Step: plan.Step{Verb: plan.Nothing}}
	ends := map[string]time.Time{"ca": time.Unix(99, 0), "apiserver": time.Unix(77, 0)}
	metrics.Stands(of, turn.stands(status.Of(turn.View, nil, rest, nil), ends))
	wants(t, "all is known", "Stands",
		"certificate_expiry_timestamp_seconds certificate=apiserver name=x 77", "certificate_expiry_timestamp_seconds certificate=ca name=x 99",
		"cluster_reachable name=x 1", "quorum_spare name=x 0",
		"etcd_members name=x role=voter 3", "etcd_members name=x role=learner 1",
		"etcd_alarms alarm=CORRUPT name=x 0", "etcd_alarms alarm=NOSPACE name=x 1",
		"etcd_db_size_bytes machine=a name=x 100", "etcd_db_size_bytes machine=c name=x 100", "etcd_db_quota_bytes machine=a name=x 2000")

	turn.Facts.Etcd.Known, turn.Facts.Cluster.Reachable = false, false
	metrics.Stands(of, turn.stands(status.Of(turn.View, nil, rest, nil), nil))
	wants(t, "nobody answers", "Stands", "cluster_reachable name=x 0")

	other := status.Standing{CertificateEnds: map[string]time.Time{"ca": time.Unix(5, 0)}}
	metrics.Stands(client.ObjectKey{Namespace: "default", Name: "y"}, other)
	metrics.Forget(of)
	wants(t, "one of two is gone", "Stands", "certificate_expiry_timestamp_seconds certificate=ca name=y 5")
}

// TestReachableWhereExpected: nobody is alerted of an API server that is not there yet, goes, or never was.
func TestReachableWhereExpected(t *testing.T) {
	for name, change := range map[string]func(*Turn){
		"not initialized": func(t *Turn) { t.Facts.Group.Initialized = false },
		"deleted":         func(t *Turn) { t.Facts.Group.Deleting = true },
		"no Nodes":        func(t *Turn) { t.Nodeless = true },
	} {
		turn := etcdTurn()
		change(turn)
		if got := turn.stands(status.Of(turn.View, nil, plan.Decision{}, nil), nil).Reachable; got != nil {
			t.Errorf("%s: it tells %t", name, *got)
		}
	}
}

// TestWaits: a wait counts from its first turn for as long as rule and reason stay, and only the present one is told.
func TestWaits(t *testing.T) {
	of, metrics, turn := client.ObjectKey{Name: "x"}, Metrics("Waits"), turnOf(&Controller{}, &observe.View{})
	for _, c := range []struct {
		at                 int64
		verb               plan.Verb
		rule, reason, want string
	}{
		{10, plan.Wait, "grow", "Joining", "rule=grow 10"},
		{20, plan.Wait, "grow", "Joining", "rule=grow 10"},
		{30, plan.Wait, "settle", "Joining", "rule=settle 30"},
		{40, plan.Wait, "settle", "MachineDeleting", "rule=settle 40"},
		{50, plan.Create, "grow", "ScalingUp", ""},
		{60, plan.Wait, "settle", "MachineDeleting", "rule=settle 60"},
		{70, plan.Nothing, "steady", "AsWanted", ""},
	} {
		turn.Facts.Now = time.Unix(c.at, 0)
		metrics.Stands(of, turn.stands(status.Of(turn.View, nil, plan.Decision{Step: plan.Step{Verb: c.verb}, Rule: c.rule, Reason: c.reason},
			nil), nil))
		var want []string
		if c.want != "" {
			want = []string{"waiting_since_timestamp_seconds name=x reason=" + c.reason + " " + c.want}
		}
		wants(t, fmt.Sprint("at ", c.at), "Waits", want...)
	}
}

// TestStepTimes: a step that failed took time too, and has no delay.
func TestStepTimes(t *testing.T) {
	d := plan.Decision{Step: plan.Step{Verb: plan.Create}, Rule: "grow", Reason: "ScalingUp"}
	Metrics("Steps").Step(d, Timing{Delay: 3 * time.Second, Write: time.Second}, nil)
	Metrics("Steps").Step(d, Timing{Delay: 3 * time.Second, Write: 2 * time.Second}, fmt.Errorf("refused"))
	wants(t, "one done, one failed", "Steps",
		"step_delay_seconds verb=Create 1 of 3.0", "step_duration_seconds verb=Create 2 of 3.0",
		"steps_total reason=ScalingUp result=done rule=grow verb=Create 1", "steps_total reason=ScalingUp result=failed rule=grow verb=Create 1")
}

// TestEpisode: an episode lasts from the time that its condition has on record until all is as wanted.
func TestEpisode(t *testing.T) {
	const goes, gone = metav1.ConditionTrue, metav1.ConditionFalse
	e := &episode{}
	for i, c := range []struct {
		cause    metav1.ConditionStatus
		since    int64
		asWanted bool
		now      int64
		took     time.Duration
	}{
		{gone, 5, true, 10, 0},
		{goes, 20, false, 22, 0},
		{goes, 24, false, 24, 0},
		{gone, 30, false, 30, 0},
		{goes, 35, true, 36, 0},
		{gone, 40, false, 40, 0},
		{gone, 40, true, 50, 30 * time.Second},
		{gone, 40, true, 60, 0},
	} {
		took, over := e.follow(&metav1.Condition{Status: c.cause, LastTransitionTime: metav1.Unix(c.since, 0)}, c.asWanted, time.Unix(c.now, 0))
		if took != c.took || over != (c.took > 0) {
			t.Errorf("%d: took %s, over %t; want %s", i, took, over, c.took)
		}
	}
	if took, over := e.follow(nil, true, time.Unix(99, 0)); over {
		t.Errorf("without a condition it took %s", took)
	}
}
