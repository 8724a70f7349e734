//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/soak/clients"
	"github.com/quorate/quorate/test/soak/history"
	"github.com/quorate/quorate/test/soak/schedule"
)

// The run of RUN=soak-short.
const (
	shortSoak = 20 * time.Minute
	shortSeed = 1
)

// soakShort: operations of users meet faults, both drawn from a fixed seed, while clients write, read, watch and hold a lease. What they
// saw is judged in the end.
//
//quorate:shows kubernetes created older
func soakShort(t *testing.T, e *environment) {
	soak(t, e, uint64(soakNumber(t, "QUORATE_SOAK_SEED", shortSeed)), time.Duration(soakNumber(t, "QUORATE_SOAK_MINUTES",
		int(shortSoak/time.Minute)))*time.Minute)
}

// TestSoak is the run of `make soak`, which says for how many hours.
func TestSoak(t *testing.T) {
	if os.Getenv("QUORATE_SOAK_HOURS") == "" {
		t.Skip("run this by make soak HOURS=8 SEED=1")
	}
	env := beginE2E(t)
	hours := soakNumber(t, "QUORATE_SOAK_HOURS", 8)
	soak(t, env, uint64(soakNumber(t, "QUORATE_SOAK_SEED", shortSeed)), time.Duration(hours)*time.Hour)
	if t.Failed() {
		env.tellWhy(t)
	}
}

// soakNumber reads a number from the environment.
func soakNumber(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil || n < 0 {
		t.Fatalf("invalid %s %q: must be a number", name, os.Getenv(name))
	}
	return n
}

// soakName is the cluster of a soak.
const soakName = "soak"

// soakRun is a cluster of a soak, from its creation until it is taken down.
type soakRun struct {
	*environment
	t      *testing.T
	file   string
	record *history.Recorder
	load   *clients.Load
	// number counts what operations and faults change, so that each change is another one.
	number int
	// version is what the machines run.
	version string
	looking *soakLooks
	// facts is the file of what the rules looked at.
	facts *os.File
}

// soak draws rounds from a seed, and begins none after a time.
func soak(t *testing.T, e *environment, seed uint64, lasts time.Duration) {
	folder, err := filepath.Abs(cmp.Or(os.Getenv("QUORATE_SOAK_RESULTS"), "../../dist/soak"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	e.quorate(t, "artifacts", "build", older, newer)
	began := time.Now()
	rounds := schedule.Draw(seed, 10000, namesOfSoak(soakOperations, func(o soakOperation) string { return o.name }),
		namesOfSoak(soakFaults, func(f soakFault) string { return f.name }))
	if only := os.Getenv("QUORATE_SOAK_ONLY"); only != "" {
		rounds = onlyRounds(t, rounds, only)
	}
	t.Logf("seed %d, %s", seed, lasts)
	var run *soakRun
	var files []string
	for i, r := range rounds {
		if time.Since(began) > lasts || t.Failed() {
			break
		}
		if run != nil && r.Operation == "version" && run.version == newer { // there is no way back: another cluster
			run.end()
			run = nil
		}
		if run == nil {
			run = e.beginSoak(t, filepath.Join(folder, fmt.Sprintf("seed-%d-cluster-%d.jsonl", seed, len(files)+1)))
			files = append(files, run.file)
		}
		run.round(i+1, r)
	}
	if run != nil {
		run.end()
	}
	tellSoak(t, folder, seed, files)
}

// namesOfSoak returns the names of operations or faults.
func namesOfSoak[T any](all []T, name func(T) string) []string {
	var names []string
	for _, one := range all {
		names = append(names, name(one))
	}
	return names
}

// onlyRounds returns the rounds of pairs that are named as operation+fault, separated by commas, in that order.
func onlyRounds(t *testing.T, rounds []schedule.Round, only string) []schedule.Round {
	t.Helper()
	var chosen []schedule.Round
	for _, pair := range strings.Split(only, ",") {
		i := slices.IndexFunc(rounds, func(r schedule.Round) bool { return r.Operation+"+"+r.Fault == pair })
		if i < 0 {
			t.Fatalf("invalid QUORATE_SOAK_ONLY %q: must be OPERATION+FAULT", pair)
		}
		chosen = append(chosen, rounds[i])
	}
	return chosen
}

// beginSoak makes a cluster of one machine of the older version, begins to write, and grows it to three.
func (e *environment) beginSoak(t *testing.T, file string) *soakRun {
	t.Helper()
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	seen, err := os.Create(strings.TrimSuffix(file, ".jsonl") + ".facts")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { seen.Close() })
	s := &soakRun{environment: e, t: t, file: file, record: history.NewRecorder(out), version: older, facts: seen}
	e.up(t, soakName, "--replicas", "1", "--kubernetes-version", older, "--backup", "@daily")
	_, config := e.workload(t, soakName)
	if s.load, err = clients.Start(context.Background(), config, s.record); err != nil {
		t.Fatal(err)
	}
	s.looking = s.beginLooks()
	grown := history.Entry{Kind: history.Operation, Client: "grow", Begin: s.record.Now(), Outcome: history.OK}
	e.up(t, soakName, "--replicas", "3")
	grown.End = s.record.Now()
	s.record.Write(grown)
	s.settle(0, 3)
	return s
}

// end stops the clients, compares the members of etcd and takes the cluster down.
func (s *soakRun) end() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.load.Stop(ctx); err != nil {
		s.t.Error(err)
	}
	s.looking.stop()
	s.hashes()
	if err := s.record.Err(); err != nil {
		s.t.Error(err)
	}
	s.takeDown(s.t, soakName)
}

// round has an operation meet a fault, and waits until all is as wanted.
func (s *soakRun) round(number int, r schedule.Round) {
	s.t.Helper()
	s.number++
	s.t.Logf("round %d: %+v", number, r)
	o := soakOperations[slices.IndexFunc(soakOperations, func(o soakOperation) bool { return o.name == r.Operation })]
	f := soakFaults[slices.IndexFunc(soakFaults, func(f soakFault) bool { return f.name == r.Fault })]
	operation := history.Entry{Kind: history.Operation, Client: o.name, Round: number, Begin: s.record.Now()}
	done := make(chan error, 1)
	go func() {
		err := o.do(s)
		operation.End = s.record.Now()
		done <- err
	}()
	wait := time.NewTimer(r.Delay)
	defer wait.Stop()
	var err error
	over := false
	select {
	case err = <-done:
		over = true
	case <-wait.C:
	}
	s.strike(number, f, r)
	if !over {
		err = <-done
	}
	operation.Outcome = history.OK
	if err != nil {
		operation.Outcome, operation.Error = history.Unknown, err.Error()
		s.t.Logf("round %d: %s: %v", number, o.name, err)
	}
	s.record.Write(operation)
	s.settle(number, 3)
}

// strike puts a fault into the cluster, and mends it after its time.
func (s *soakRun) strike(number int, f soakFault, r schedule.Round) {
	s.t.Helper()
	victim := s.victim(r)
	e := history.Entry{Kind: history.Fault, Client: f.name, Object: victim.Name, Round: number, Begin: s.record.Now(), Outcome: history.OK}
	proof, err := f.bite(s, victim)
	bit := time.Now()
	e.Value = proof
	if err != nil || proof == "" {
		e.Outcome, e.Error = history.Refused, fmt.Sprintf("it did not bite: %v", err)
	} else if f.lasts {
		<-time.After(r.Lasts - time.Since(bit))
	}
	if f.mend != nil {
		if err := f.mend(s, victim); err != nil {
			e.Error = err.Error()
		}
	}
	e.End = s.record.Now()
	s.record.Write(e)
	s.t.Logf("round %d: %s of %s (%s): %s %s", number, f.name, victim.Name, r.Target, proof, e.Error)
}

// settle waits until all is as wanted, and records how it ended.
func (s *soakRun) settle(number, replicas int) {
	s.t.Helper()
	e := history.Entry{Kind: history.Settled, Round: number, Begin: s.record.Now(), Outcome: history.OK}
	began, why := time.Now(), ""
	for why = s.unsettled(replicas); why != "" && time.Since(began) < patience; why = s.unsettled(replicas) {
		<-time.After(time.Second)
	}
	e.End = s.record.Now()
	if why != "" {
		e.Outcome, e.Value = history.Refused, why
		s.t.Errorf("round %d: not as wanted after %s: %s", number, patience, why)
	}
	s.record.Write(e)
	s.t.Logf("round %d: as wanted after %.1f s %s", number, time.Since(began).Seconds(), why)
}
