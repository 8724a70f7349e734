package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// phase is what a machine is at a moment.
type phase string

// The phases of a machine in a rollout.
const (
	joins   phase = "joins"
	serves  phase = "serves, as wanted"
	behind  phase = "serves, outdated"
	leaving phase = "leaves"
)

// span is the time that a machine spends in one phase, as the leader of etcd or not.
type span struct {
	from, to time.Duration
	phase    phase
	leads    bool
}

// step is one thing that Quorate did to a machine.
type step struct {
	at      time.Duration
	machine string
	text    string
}

// story is a life: its machines in the order in which they came.
type story struct {
	machines []string
	spans    map[string][]span
	steps    []step
	changed  time.Duration // when another spec was wanted
	end      time.Duration
}

var (
	// lineIs is a line of a golden file: the time, the machines, what was decided or happened.
	lineIs = regexp.MustCompile(`^ *(\S+) \[([^\]]*)\] +(.*)$`)
	// hostIs is one machine: its number, its domain and its marks, of which internal/core/sim/story.go has the meaning.
	hostIs = regexp.MustCompile(`^(\d+)[a-z]?([*~!^l-]*)$`)
	// stepIs is a step on a machine.
	stepIs = regexp.MustCompile(`^(Create|Delete|MoveLeader|RemoveMember|ReleaseHook) .*?(cp-\d+)`)
)

// parseStory reads the golden file of a story.
func parseStory(text string) (story, error) {
	s := story{spans: map[string][]span{}}
	_, body, _ := strings.Cut(text, "\n\n")
	for i, line := range strings.Split(strings.TrimSpace(body), "\n") {
		found := lineIs.FindStringSubmatch(line)
		if found == nil {
			return s, fmt.Errorf("line %d is %q: must be a time, machines in brackets, and a step", i+3, line)
		}
		at, err := time.ParseDuration(found[1])
		if err != nil {
			return s, fmt.Errorf("line %d: %w", i+3, err)
		}
		s.end = at
		if strings.HasPrefix(found[3], "* machines of spec") {
			s.changed = at
		}
		if did := stepIs.FindStringSubmatch(found[3]); did != nil {
			s.steps = append(s.steps, step{at, did[2], did[1]})
		}
		if err := s.see(at, strings.Fields(found[2])); err != nil {
			return s, fmt.Errorf("line %d: %w", i+3, err)
		}
	}
	if s.changed == 0 || len(s.steps) == 0 {
		return s, fmt.Errorf("no rollout: spec changed at %s, %d steps", s.changed, len(s.steps))
	}
	return s, nil
}

// see adds what the machines are at a moment. It holds until the next one.
func (s *story) see(at time.Duration, hosts []string) error {
	for name, spans := range s.spans {
		if last := &spans[len(spans)-1]; last.to < 0 {
			last.to = at
			s.spans[name] = spans
		}
	}
	for _, host := range hosts {
		found := hostIs.FindStringSubmatch(host)
		if found == nil {
			return fmt.Errorf("machine %q: must be a number, a domain and marks of *~!^l-", host)
		}
		name, now := "cp-"+found[1], span{from: at, to: -1, phase: serves, leads: strings.Contains(found[2], "^")}
		switch {
		case strings.Contains(found[2], "!"):
			now.phase = leaving
		case strings.Contains(found[2], "~"):
			now.phase = joins
		case strings.Contains(found[2], "*"):
			now.phase = behind
		}
		s.add(name, now)
	}
	return nil
}

// add adds a span. One that goes on as it was becomes longer.
func (s *story) add(name string, now span) {
	spans := s.spans[name]
	if spans == nil {
		s.machines = append(s.machines, name)
	}
	if last := len(spans) - 1; last >= 0 && spans[last].to == now.from && spans[last].phase == now.phase && spans[last].leads == now.leads {
		spans[last].to = now.to
		return
	}
	s.spans[name] = append(spans, now)
}
