//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/local/embed"
)

// idleTurns is how many turns that change nothing are measured.
const idleTurns = 300

// reportIdle lets a control plane at rest be looked at again and again, and tells how long such a turn takes.
func reportIdle(t *testing.T, e *environment, name string) {
	t.Helper()
	c, ctx := e.management(t), context.Background()
	before := e.turns(t)
	took := eventually(t, "turns that change nothing", patience, func() string {
		m := e.machineObjects(t, name)[0]
		for n := range idleTurns / 3 {
			was := m.DeepCopy()
			m.Annotations["example.com/touched"] = strconv.Itoa(n)
			if err := c.Patch(ctx, &m, client.MergeFrom(was)); err != nil {
				return err.Error()
			}
		}
		if n := e.turns(t).GetSampleCount() - before.GetSampleCount(); n < idleTurns {
			return fmt.Sprintf("%d", n)
		}
		return ""
	})
	after := e.turns(t)
	total := after.GetSampleCount() - before.GetSampleCount()
	within := func(share float64) float64 {
		for i, b := range after.GetBucket() {
			if n := b.GetCumulativeCount() - before.GetBucket()[i].GetCumulativeCount(); float64(n) >= share*float64(total) {
				return b.GetUpperBound() * 1000
			}
		}
		return 0
	}
	t.Logf("FIGURE %d turns that change nothing, in %.1f s: half within %g ms, 95 %% within %g ms, %.1f ms on average",
		total, took.Seconds(), within(0.5), within(0.95), (after.GetSampleSum()-before.GetSampleSum())/float64(total)*1000)
}

// turns is how long each turn of the controller took, from the daemon's metrics.
func (e *environment) turns(t *testing.T) *dto.Histogram {
	t.Helper()
	env, err := embed.Load(e.state)
	if err != nil {
		t.Fatal(err)
	}
	web := http.Client{Timeout: 10 * time.Second}
	response, err := web.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", env.Ports.Metrics))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families["controller_runtime_reconcile_time_seconds"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "controller" && l.GetValue() == "kubeadmcontrolplane" {
				return m.GetHistogram()
			}
		}
	}
	t.Fatal("the daemon's metrics do not have the controller's turns")
	return nil
}
