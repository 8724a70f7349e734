package releases_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/check"
	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/sim"
)

var update = flag.String("update", "", "write what random worlds at rest look like into the folder of this name, such as v1.4.0")

// look is what a world at rest looked like, and what was decided then.
type look struct {
	Seed     int64         `json:"seed"`
	Step     string        `json:"step"`
	Reason   string        `json:"reason"`
	Observed plan.Observed `json:"observed"`
}

// worldsKept is how many worlds a recording holds; each at its end, and some before.
const worldsKept = 600

// TestWorldsAtRest: what random worlds looked like when a release had nothing to do in them, or waited there for a person, gets the same
// answer from today's rules, and no forecast of today's touches a machine where that release had nothing to do.
func TestWorldsAtRest(t *testing.T) {
	if *update != "" {
		writeWorlds(t, filepath.Join(*update, "worlds.json.gz"))
	}
	files, err := filepath.Glob("*/worlds.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings of worlds: %v", err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			all := readWorlds(t, file)
			for _, r := range all {
				if r.Observed.Group.Name == "" {
					t.Fatalf("world %d has no group", r.Seed)
				}
				d := plan.Next(r.Observed)
				if got := d.Step.String(); got != r.Step {
					t.Errorf("world %d: %s (%s: %s), when it was recorded %s (%s)", r.Seed, got, d.Reason, d.Message, r.Step, r.Reason)
				}
				if err := check.Decision(r.Observed, d); err != nil {
					t.Errorf("world %d: %v", r.Seed, err)
				}
				if r.Step != string(plan.Nothing) {
					continue
				}
				for _, m := range forecast.Of(r.Observed, forecast.DefaultTimes()).Machines {
					if m.Fate != forecast.Keep {
						t.Errorf("world %d: machine %s: %s: %s", r.Seed, m.Name, m.Fate, m.Why)
					}
				}
			}
			t.Logf("%d looks at worlds at rest", len(all))
		})
	}
}

// TestUnknownFactsAreTold: a fact that today's rules do not know any more is an error with its name.
func TestUnknownFactsAreTold(t *testing.T) {
	_, err := decodeWorlds([]byte(`[{"seed":1,"observed":{"group":{"name":"g","forgotten":true}}}]`))
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte(`"forgotten"`)) {
		t.Errorf("the error is %v", err)
	}
}

func decodeWorlds(raw []byte) ([]look, error) {
	var all []look
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return all, decoder.Decode(&all)
}

func readWorlds(t *testing.T, file string) []look {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	all, err := decodeWorlds(raw)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(all) < worldsKept/2 {
		t.Fatalf("%s: %d looks, which holds nothing", file, len(all))
	}
	return all
}

func writeWorlds(t *testing.T, file string) {
	t.Helper()
	var all []look
	for seed := range int64(worldsKept) {
		all = append(all, rests(seed)...)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// rests lets a random world live, accidents included, and returns how it looked when there was nothing to do, or when nothing went on any
// more: the first look of each kind of rest and the last.
func rests(seed int64) []look {
	w := sim.New(sim.Random(seed))
	var found []look
	add := func(o plan.Observed, d plan.Decision) {
		found = append(found, look{Seed: seed, Step: d.Step.String(), Reason: d.Reason, Observed: o})
	}
	known := map[string]bool{}
	for range 3000 {
		o, _ := w.Look()
		d := plan.Next(o)
		if d.Step.Acts() {
			// What is refused now is tried again.
			_ = w.Do(d)
			if d.Step.Verb == plan.Finish {
				return found
			}
			w.Advance(o.Now.Add(time.Second))
			continue
		}
		quiet := w.Quiet() && d.Again == 0
		if d.Step.Verb == plan.Nothing && !known[string(d.Step.Verb)] || quiet {
			known[string(d.Step.Verb)] = true
			add(o, d)
		}
		switch {
		case quiet:
			return found
		case d.Again > 0:
			w.Advance(o.Now.Add(d.Again))
		default:
			w.Advance(time.Time{})
		}
	}
	return found
}
