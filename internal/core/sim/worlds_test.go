package sim

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	seed  = flag.Int64("seed", -1, "run the world of this seed alone, and tell its story")
	steps = flag.Int("steps", 1_000_000, "how many steps random worlds take in all")
	from  = flag.Int64("from", 0, "the seed of the first random world")
	brief = flag.Int("brief", 0, "tell one line of each world that fails, up to so many; 0: the stories of a few")
)

// TestWorlds lets the rules run many random worlds, in which much goes wrong, and
// holds every step against the truth. A world that fails is told as a story;
// -seed tells it again.
func TestWorlds(t *testing.T) { run(t, Random, *steps) }

// TestUncommonWorlds runs a quarter as many worlds in which happens what seldom does, beside all else.
func TestUncommonWorlds(t *testing.T) { run(t, Uncommon, *steps/4) }

// TestRestoredWorlds runs a quarter as many worlds whose management cluster is restored from an older state.
func TestRestoredWorlds(t *testing.T) { run(t, Restored, *steps/4) }

// TestHangingWorlds runs a quarter as many worlds with machines that hang before they join, and that somebody gives up.
func TestHangingWorlds(t *testing.T) { run(t, Hanging, *steps/4) }

// TestRecoveredWorlds runs a twentieth as many worlds that lose their quorum, or all machines, and that a person recovers.
func TestRecoveredWorlds(t *testing.T) { run(t, Recovered, *steps/20) }

// TestHibernatedWorlds runs a fortieth as many worlds that a person switches off and on.
func TestHibernatedWorlds(t *testing.T) { run(t, Hibernated, *steps/40) }

// failed are seeds of worlds that once failed, and why. What a seed makes may become another world: rows and sweeps guard the same.
var failed = map[int64]string{
	7700009161:    "etcd was lowered while outdated machines could still add learners, which then could not start",
	7700011495:    "the judge took a machine for one without a member although the note of its removal was lost, so that it may yet join",
	7700016022:    "the judge of updates counted a machine that has lost its labels and its member",
	7700046898:    "the same, of a machine that is being deleted",
	7700062186:    "the same, of a machine that never came up",
	7700044934:    "the judge of choices blamed the rules for a look in which a member gave no answer",
	1003000005298: "an update that was begun in part was waited for on a machine that a person then deleted, for ever",
	1003000007949: "the judge counted an update of a machine that has lost its labels",
	2000000011894: "nobody was to decide about a first machine that never came up, whose record and whose data were lost",
	2000000012823: "a machine that was begun as one that is held back, and was finished as the first, counted as a second one that " +
		"initialises the cluster",
	31337000002082:   "the judge took a host for one that seems to be there whose Node was deleted before it died",
	770000000001034:  "a voter that could not be asked was waited for, since it might be on a machine that was made ahead",
	880000000013978:  "the judge wanted more machines to stay beside one that the operator's etcd waits for",
	1110000000005641: "a machine was created on an old look at a group that was deleted without its machines, which the API server refuses",
	1770000000001393: "the judge of the limit counted a machine that came up a second before it was discarded on an old look",
	9970025081:       "the judge counted for how long a machine was hidden, and not for how long its voter had been silent before",
	378617824000744: "a machine whose member could not be asked for a moment was taken for one that never came up, and went without an " +
		"approval",
	234810285801704: "an alarm was to be ended although the learner that raised it was full, and was not known to be well",
	385539631500339: "a member was to be defragmented beside a voter whose machine was not known",
	234810285805427: "a decision to forget a machine was taken away when what was noted of that machine was lost for a while",
}

// failedRecovered are the same of worlds that a person recovers.
var failedRecovered = map[int64]string{
	1001260: "the snapshot lacked permissions without which etcd cannot be asked, and nothing wrote them while the recovery lasted, for ever",
	1001314: "the judge let a machine that no object tells of keep the seed from the next",
	1007423: "the judge wanted an update to be recorded of a machine that a recovery gives up",
	1031575: "a machine that restores the seed lost its labels, and another was made that could fetch it too",
	1002723: "a machine that a person declared off joined the cluster of the seed, and took its quorum along when it went",
	1023568: "the judge wanted the name of a machine to be avoided of which nothing in the restored cluster tells",
	1024814: "the same, of a machine that joined after the backup was taken",
	1031677: "the judge took an update for the only failure although the voter of a machine that is gone counted as well",
	1034456: "a backup that was asked for while another was being taken was never begun",
	2029187: "a person added a voter to the etcd of the seed, which lost its quorum, and nobody was told what to do",
	1037131: "the judge knew of no machine that is broken whose etcd lost its disk before it came up",
	2003941: "a person did not switch off a machine of before, which is not known any more, once the seed's etcd had taken its place",
	2028974: "the same, of the machine that an older management cluster does not know",

	301996549500164: "the judge wanted a dead member to be removed although no machine was left, and a person had to decide",
	34068087001438:  "the judge wanted a member to be removed before an etcd that takes no write is relieved",
}

// failedUncommon are the same of worlds in which happens what seldom does.
var failedUncommon = map[int64]string{
	1770000000000298: "a placeholder was removed while a machine that it kept out was controlled by somebody else for a while",
	328914452400764:  "the judge counted a voter that a person added while the group was paused",
	9960009161:       "the group forgot its cluster while the only machine that stayed had lost its labels, which nobody can know then",
	7700002198:       "the judge counted an update of a machine that has lost its labels",
}

// failedRestored are the same of worlds whose management cluster is restored.
var failedRestored = map[int64]string{
	990000000001789:  "the judge counted replacements that the restored record does not have",
	7700000086:       "the judge counted a second replacement of a machine that the restored record has of an earlier time only",
	7700009277:       "the same, of a machine that was replaced a moment after its replacement was recorded",
	7700001233:       "the judge counted a machine that is long gone, and is known again, as a second one that initialises the cluster",
	1440000000044152: "the world's extension was not asked any more when etcd had a quorum again",
	1330000000000917: "the judge took a machine whose update was begun in part, and cannot be finished yet, for one that does not serve",
	9950002300:       "the judge wanted an update that waits for a backup of which the restored record does not tell, while the store is down",
	9950007293:       "the judge wanted a dead machine to be replaced before a decision that was carried out is taken away",
	9985002796:       "a marked machine waited for one that was being deleted and stayed as long as no other served, for ever",
	127283346400905:  "the judge took a machine more than wanted for one that is replaced, and asked for the order of marks",
}

// failedHanging are the same of worlds with machines that hang.
var failedHanging = map[int64]string{
	9995000137:       "machines that were made ahead, and are outdated, waited for the program that changes machines in place, for ever",
	1440000000019557: "a machine that was one too many went beyond the limit and did not count, in place of another that counted and stayed",
	1440000000023673: "the same, and etcd was lowered 2 s before a day had passed",
	1660000000000919: "the judge knew that a machine without a member, of which the provider reports a failure, had one before",
	332684126800152: "a spec whose Nodes are never ready was tried for a day and a half, until a person changed it, which took more steps " +
		"than a life had",
	9920004438:      "a backup that was asked for while another was being taken was never begun",
	9920006524:      "the same, of a slow store",
	9940003397:      "the judge wanted a stray member to be removed before a void decision of a person is taken away",
	220000000001653: "the judge asked for kubeadm's configuration of a spec that was invalid when a machine came to join",
}

// TestFailedWorlds lets the worlds live again that failed once.
func TestFailedWorlds(t *testing.T) {
	liveAgain(t, Hanging, failedHanging)
	liveAgain(t, Restored, failedRestored)
	liveAgain(t, Random, failed)
	liveAgain(t, Uncommon, failedUncommon)
	liveAgain(t, Recovered, failedRecovered)
}

// liveAgain lets worlds live that failed once.
func liveAgain(t *testing.T, setup func(seed int64) Setup, failed map[int64]string) {
	t.Helper()
	for n, why := range failed {
		if _, err := Live(setup(n), nil); err != nil {
			story := &Story{}
			_, _ = Live(setup(n), story)
			t.Errorf("seed %d failed before because %s: %v\n%s", n, why, err, story)
		}
	}
}

// run lets worlds live that are made of seeds, several at a time.
func run(t *testing.T, setup func(seed int64) Setup, steps int) {
	t.Helper()
	if *seed >= 0 {
		story := &Story{}
		_, err := Live(setup(*seed), story)
		t.Logf("seed %d: %+v\n%s", *seed, setup(*seed), story)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	r := &course{t: t, setup: setup, steps: steps, next: *from}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(r.work)
	}
	wg.Wait()
	fmt.Printf("%d worlds, %d steps; worlds in which somebody had to help: %d\n", r.next-*from, r.total, r.helped)
}

// A course takes seeds one after the other, and counts what became of their worlds.
type course struct {
	t                     *testing.T
	setup                 func(seed int64) Setup
	steps                 int
	mu                    sync.Mutex
	next                  int64
	total, failed, helped int
}

func (r *course) work() {
	for {
		n, more := r.take()
		if !more {
			return
		}
		took, err := Live(r.setup(n), nil)
		r.note(n, took, err)
	}
}

// take returns the next seed, unless enough steps were taken, or enough worlds failed.
func (r *course) take() (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := 5
	if *brief > 0 {
		most = *brief
	}
	if r.total >= r.steps || r.failed >= most {
		return 0, false
	}
	r.next++
	return r.next - 1, true
}

// note counts a world, and tells of it where it failed.
func (r *course) note(n int64, took int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total += took
	if err == nil {
		return
	}
	r.failed++
	if errors.As(err, &NeedsHelp{}) {
		r.helped++
	}
	if *brief > 0 {
		r.t.Errorf("seed %d: %v", n, err)
		return
	}
	story := &Story{}
	Live(r.setup(n), story)
	r.t.Errorf("seed %d: %v\n%+v\n%s\ntell it again: go test ./internal/core/sim -run '%s$' -args -seed %d", n, err, r.setup(n), story,
		r.t.Name(), n)
}

// BenchmarkWorlds measures steps a second, and a second of the processor's where the
// host is busy: looking, deciding, checking, acting and judging.
func BenchmarkWorlds(b *testing.B) {
	total, n := 0, int64(0)
	before := processor(b)
	for b.Loop() {
		steps, err := Live(Random(n), nil)
		if err != nil {
			b.Fatal(fmt.Errorf("seed %d: %w", n, err))
		}
		total, n = total+steps, n+1
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(float64(total)/(processor(b)-before).Seconds(), "steps/cpu-s")
}

// processor is how much of the processor's time this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
