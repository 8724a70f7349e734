package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// sweeps are worlds in which one thing happens at every moment.
const sweeps = "^Test(DeathAtEveryMoment|DeletionAtEveryMoment|RestartAtEveryMoment|EveryFate|DeathInARollout|ChangeAtEveryMoment|" +
	"ElectionAtEveryMoment|LostLabelsAtEveryMoment|HangAtEveryMoment|TheDeadGoFirst|AllDueAtOnce|DowngradeAtEveryMoment|" +
	"DowngradeOfJoiners|UpdateAtEveryMoment|SingleUpdateAtEveryMoment|BlinkAtEveryMoment)$"

// sabotageMeanings returns all sabotages of meaning, not yet tried.
func sabotageMeanings() []meaning {
	all := append(meanings(), swaps()...)
	renumber(all)
	return all
}

// buildMeanings compiles what is to catch them: what the rows, the worlds and the model say.
func buildMeanings(root, work string, all []meaning) (suite, error) {
	overlay := map[string]string{}
	if err := overlayMeanings(root, work, all, overlay); err != nil {
		return nil, err
	}
	c := compiler{root: root, work: work, kind: "meaning", overlay: overlay}
	if err := c.tests("plan", "check", "sim"); err != nil {
		return nil, err
	}
	if err := c.program("model", "./test/model"); err != nil {
		return nil, err
	}
	worlds := func(args ...string) stage {
		return c.stage("worlds", "sim", append([]string{"-test.failfast"}, args...)...)
	}
	stories := worlds("-test.run", "^TestStories$", "-update")
	stories.aside = true // whether their invariants hold, and not whether they go as before
	recovered := worlds("-test.run", "^TestRecoveredWorlds$", "-brief=1", "-steps=1000000")
	recovered.about = ofRecoveries
	hibernated := worlds("-test.run", "^TestHibernatedWorlds$", "-brief=1", "-steps=1000000")
	hibernated.about = ofHibernations
	return suite{
		recovered,
		hibernated,
		worlds("-test.run", "^TestWorlds$", "-brief=1", "-steps=60000"),
		worlds("-test.run", "^TestUncommonWorlds$", "-brief=1", "-steps=400000"),
		worlds("-test.run", "^TestWorldsByName$"),
		stories,
		{name: "model", binary: filepath.Join(work, "model.meaning"), dir: root, args: []string{"-quick", "-workers=1"}},
		worlds("-test.run", sweeps),
		worlds("-test.run", "^TestWorlds$", "-brief=1", "-from=100000", "-steps=100000"),
		c.stage("rows", "check", "-test.failfast"),
		c.stage("rows", "plan", "-test.failfast", "-test.run", "^(TestNext|TestExplain.*)$"),
	}, nil
}

// catch runs the tests against one sabotage until one has seen it, the rows at last.
func (s suite) catch(m *meaning) {
	for _, st := range s {
		if m.isSeen() || slices.Contains(m.by, st.name) || m.excuse == checkAlone && st.name != "rows" {
			continue
		}
		if !strings.Contains(m.says, st.about) {
			continue
		}
		if out, failed := st.run(m.number); failed {
			m.by = append(m.by, st.name)
			m.said = firstOf(out)
		}
	}
	if m.number > 0 {
		fmt.Printf("%-14s %s\n", strings.Join(m.by, " "), m)
	}
}

// catchAll runs the tests against every sabotage, several at a time.
func (s suite) catchAll(all []meaning, workers int) {
	work := make(chan *meaning)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for m := range work {
				s.catch(m)
			}
		})
	}
	for i := range all {
		work <- &all[i]
	}
	close(work)
	wg.Wait()
}

// firstOf is the first line of an output that says what is wrong.
func firstOf(out string) string {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return line[:min(len(line), 160)]
		}
	}
	return ""
}

// meanings tries sabotages of meaning and reports on them: how many were caught, of how many.
func (o options) meanings(root, work string) (caught, counted int, err error) {
	begun := time.Now()
	all := sabotageMeanings()
	tests, err := buildMeanings(root, work, all)
	if err != nil {
		return 0, 0, err
	}
	chosen, err := regexp.Compile(o.only)
	if err != nil {
		return 0, 0, fmt.Errorf("-only: %w", err)
	}
	all = slices.DeleteFunc(all, func(m meaning) bool { return !chosen.MatchString(m.String()) })
	if o.compare {
		return 0, 0, tests.compareAll(all)
	}
	if o.only == "" {
		var none meaning
		if tests.catch(&none); len(none.by) > 0 {
			return 0, 0, fmt.Errorf("without any sabotage of meaning %s fail: %s", strings.Join(none.by, ", "), none.said)
		}
	}
	tests.catchAll(all, o.workers)
	caught, counted = reportMeanings(all, o.all)
	fmt.Printf("sabotages of meaning: %s\n", time.Since(begun).Round(time.Second))
	return caught, counted, nil
}

// reportMeanings prints what caught each sabotage, and lists those that no world and no model saw.
func reportMeanings(all []meaning, told bool) (caught, counted int) {
	var listed []string
	for i := range all {
		m := &all[i]
		if told {
			fmt.Printf("%s\n    %s\n", m, m.said)
		}
		became, text := m.outcome(all)
		if became != seen {
			listed = append(listed, fmt.Sprintf("%-9s %s", became, text))
		}
		if became != equal {
			counted++
		}
		if became == seen || became == rowsOnly {
			caught++
		}
	}
	for _, line := range listed {
		fmt.Println(line)
	}
	return caught, counted
}

// outcome is what became of a sabotage.
type outcome string

const (
	// seen by a world or by the model.
	seen outcome = "SEEN"
	// equal to the original: there is nothing to be seen.
	equal outcome = "EQUAL"
	// rowsOnly, with an excuse for it.
	rowsOnly outcome = "ROWS ONLY"
	// unseen by worlds and model, without an excuse.
	unseen outcome = "UNSEEN"
	// survived whatever was run.
	survived outcome = "SURVIVED"
)

// outcome returns what became of a sabotage, and what to say about it.
func (m *meaning) outcome(all []meaning) (outcome, string) {
	switch {
	case m.isSeen():
		return seen, m.String()
	case m.equal != "":
		return equal, fmt.Sprintf("%s: %s", m, m.equal)
	case len(m.by) == 0:
		return survived, m.String()
	case m.excuse == checkAlone && bothSeen(all, m.number+1):
		return rowsOnly, fmt.Sprintf("%s: %s; sabotaged with the rules it is seen: %d", m, m.excuse, m.number+1)
	case m.excuse == checkAlone, m.excuse == "":
		return unseen, fmt.Sprintf("%s: rows only", m)
	default:
		return rowsOnly, fmt.Sprintf("%s: %s", m, m.excuse)
	}
}

// bothSeen: a world or the model caught the sabotage of that number, or an excuse says why it cannot.
func bothSeen(all []meaning, number int) bool {
	at := slices.IndexFunc(all, func(m meaning) bool { return m.number == number })
	return at >= 0 && (all[at].isSeen() || all[at].excuse != "" && len(all[at].by) > 0)
}

// asideDir is a folder in which stories may be written down without changing those that are kept.
func asideDir() (string, error) {
	dir, err := os.MkdirTemp("", "mutate-stories")
	if err != nil {
		return "", fmt.Errorf("making a folder for stories: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "testdata"), 0o755); err != nil {
		return "", fmt.Errorf("making a folder for stories: %w", err)
	}
	return dir, nil
}
