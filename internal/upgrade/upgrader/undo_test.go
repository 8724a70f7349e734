package upgrader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/steps"
)

// swapped is a worker whose swap is over, and that no service manager of its own machine hears of. What it asks for is noted; a start of
// the service runs it.
type swapped struct {
	*scene
	asked []string
	// proof is how the old version serves.
	proof func() error
}

func newSwapped(t *testing.T) *swapped {
	s := &swapped{scene: staged(t), proof: func() error { return nil }}
	s.at.units = filepath.Join(s.dir, "units")
	s.at.manager = s.manage
	s.write(s.at.units+"/other.service", "")
	for _, do := range []func() error{s.at.prepare, s.at.replace} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	// What kubeadm changes and adds after the swap.
	s.write(filepath.Join(s.at.saved(), s.node, "config"), "old")
	s.write(s.node+"/config", "of kubeadm")
	s.write(s.node+"/instance", "of kubeadm")
	if err := s.at.noteAbsent([]string{s.node + "/instance", s.node + "/never"}); err != nil {
		t.Fatal(err)
	}
	s.remember(steps.Journal{Wanted: wantedOf(1), Phase: steps.Committed})
	return s
}

func wantedOf(attempt int32) steps.Wanted {
	return steps.Wanted{ID: "u1", Attempt: attempt, Node: "n1", Type: steps.Worker, KubernetesVersion: "v1.36.3"}
}

func (s *swapped) remember(j steps.Journal) {
	s.t.Helper()
	if err := s.at.saveJournal(j); err != nil {
		s.t.Fatal(err)
	}
}

// manage is the service manager. The service is stopped by the end of its context.
func (s *swapped) manage(ctx context.Context, args ...string) error {
	s.asked = append(s.asked, strings.Join(args, " "))
	if !reflect.DeepEqual(args, []string{"start", unitName}) {
		return nil
	}
	proof := func(context.Context, steps.Journal, string) error { return s.proof() }
	return service{at: s.at, out: io.Discard, proof: proof}.run(ctx)
}

// pod is the node's part of a pod's step.
func (s *swapped) pod(attempt int32) *node {
	s.t.Helper()
	n := &node{layout: s.at, wanted: wantedOf(attempt), out: io.Discard}
	if err := n.takeJournal(steps.Verify); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func fails(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "", errors.New(text) }
}

func (s *swapped) wantOld() {
	s.t.Helper()
	s.want("put back", map[string]string{"kubelet": "old", "other": "stays", "config": "old"})
	if _, err := os.Stat(s.at.unitFile()); !os.IsNotExist(err) {
		s.t.Errorf("the service is still there: %v", err)
	}
}

// TestConcludingUndoes: a step after the swap that fails puts the node back, with what kubeadm changed since, and says which step it was.
func TestConcludingUndoes(t *testing.T) {
	for _, name := range []steps.Name{steps.Finish, steps.Verify} {
		s := newSwapped(t)
		r := s.pod(1).concluding(t.Context(), name, fails("it is not ready"))
		if r.State != steps.RolledBack || r.FailedStep != name || r.Message != "it is not ready" {
			t.Errorf("%s: %+v", name, r)
		}
		s.wantOld()
		want := []string{"daemon-reload", "enable " + unitName, "start " + unitName, "stop kubelet", "start kubelet", "disable " + unitName}
		if !reflect.DeepEqual(s.asked, want) {
			t.Errorf("%s: the service manager was asked for %q", name, s.asked)
		}
		j, err := s.at.loadJournal()
		if err != nil || j.Phase != steps.Reverted || j.Reported != 1 {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
		if again := s.pod(2); again.journal.Begun() {
			t.Errorf("%s: the next attempt does not begin anew: %+v", name, again.journal)
		}
	}
}

// TestUndoResumes: a way back that is cut off anywhere is gone on with by the next pod, in the step of the swap, which still names the step
// that failed.
func TestUndoResumes(t *testing.T) {
	for _, cut := range []string{"daemon-reload", "start " + unitName, "stop kubelet", "start kubelet", "proof", "disable " + unitName} {
		s := newSwapped(t)
		ctx, kill := context.WithCancel(t.Context())
		manager := s.at.manager
		s.at.manager = func(ctx context.Context, args ...string) error {
			if strings.Join(args, " ") == cut {
				kill()
				return ctx.Err()
			}
			return manager(ctx, args...)
		}
		s.proof = func() error {
			if cut == "proof" {
				kill()
			}
			return ctx.Err()
		}
		if r := s.pod(1).concluding(ctx, steps.Verify, fails("it is not ready")); r != (steps.Result{}) {
			t.Errorf("cut off at %s: %+v", cut, r)
		}
		s.at.manager, s.proof = s.manage, func() error { return nil }
		for range 2 {
			// Who asks a second time hears the same.
			r := s.pod(2).swap(t.Context())
			if r.State != steps.RolledBack || r.FailedStep != steps.Verify || r.Message != "it is not ready" {
				t.Errorf("after a cut at %s: %+v", cut, r)
			}
		}
		s.want("put back after a cut at "+cut, map[string]string{"kubelet": "old", "other": "stays", "config": "old"})
	}
}

// TestNotUndone: a step that was ended by others, one that succeeded, and one that failed when the backup is gone, change nothing of the
// node.
func TestNotUndone(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for name, test := range map[string]struct {
		ctx      context.Context
		do       func(context.Context) (string, error)
		verified bool
		want     steps.State
	}{
		"it succeeds":        {t.Context(), func(context.Context) (string, error) { return "fine", nil }, false, steps.Done},
		"it is ended":        {ended, fails("x"), false, steps.Interrupted},
		"the backup is gone": {t.Context(), fails("x"), true, steps.Failed},
	} {
		s := newSwapped(t)
		s.remember(steps.Journal{Wanted: wantedOf(1), Phase: steps.Committed, Verified: test.verified})
		if r := s.pod(1).concluding(test.ctx, steps.Verify, test.do); r.State != test.want {
			t.Errorf("%s: %+v", name, r)
		}
		if got := s.read()["kubelet"]; got != "new" || len(s.asked) > 0 {
			t.Errorf("%s: kubelet %s, asked for %q", name, got, s.asked)
		}
		if j, err := s.at.loadJournal(); err != nil || j.Phase != steps.Committed {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
	}
}

// TestSpareMember: a member is not stopped where the others could not do without it.
func TestSpareMember(t *testing.T) {
	for _, c := range []struct{ members, silent, want string }{
		{"1 2 3", "", ""}, {"1", "", ""}, {"1 2 3", "https://10.0.0.3:2379", "1 of the 2 other voters answer"},
	} {
		n := etcdNode(t, c.members, c.silent)
		ctx, cancel := context.WithTimeout(t.Context(), retryInterval*2)
		err := n.spareMember(ctx)
		cancel()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s without %q: %v, want %q", c.members, c.silent, err, c.want)
		}
		if err := os.WriteFile(n.programs()+"/etcdctl", []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := n.spareMember(t.Context()); err != nil {
			t.Errorf("%s: the node's own member does not serve: %v", c.members, err)
		}
	}
}

// TestRestoreStays: a file that is to stay has its new content after all else was put back, and its old one when it is to go too.
func TestRestoreStays(t *testing.T) {
	s := newSwapped(t)
	for range 2 {
		if err := s.at.restore(s.node+"/kubelet", s.node+"/none"); err != nil {
			t.Fatal(err)
		}
		s.want("all but one", map[string]string{"kubelet": "new", "other": "stays", "config": "old"})
	}
	if err := s.at.restore(); err != nil {
		t.Fatal(err)
	}
	s.want("all", map[string]string{"kubelet": "old", "other": "stays", "config": "old"})
	if err := s.at.restore(s.node + "/kubelet"); err != nil {
		t.Fatal(err)
	}
	s.want("it is put in again", map[string]string{"kubelet": "new", "other": "stays", "config": "old"})
}

// TestStays: only etcd stays, and only until its data come from the snapshot.
func TestStays(t *testing.T) {
	for want, j := range map[string]steps.Journal{"": {FailedStep: steps.Verify}, etcdManifest: {EtcdKept: true}} {
		if got := strings.Join(stays(j), " "); got != want {
			t.Errorf("%+v: %s stays, want %s", j, got, want)
		}
	}
	if got := stays(steps.Journal{EtcdKept: true, DataRestored: true}); len(got) > 0 {
		t.Errorf("data of the snapshot: %v stay", got)
	}
}

// TestBlamesEtcd: writes are at stake once the new version has served, so that a kubelet that does not run says nothing of etcd.
func TestBlamesEtcd(t *testing.T) {
	s, j := service{out: io.Discard}, steps.Journal{FailedStep: steps.Verify}
	for want, errs := range map[bool][]error{
		true:  {&downError{etcdName, errors.New("refused")}, fmt.Errorf("waited: %w", &downError{etcdName, errors.New("x")})},
		false: {errors.New("the kubelet does not run"), &downError{apiServer, errors.New("refused")}},
	} {
		for _, err := range errs {
			if s.blamesEtcd(t.Context(), j, err) != want {
				t.Errorf("%v: %t", err, !want)
			}
		}
	}
}

// TestGiveUpBackup: that there is no way back is on record before any of it is removed.
func TestGiveUpBackup(t *testing.T) {
	s := newSwapped(t)
	if err := s.pod(1).giveUpBackup(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.at.saved()); !os.IsNotExist(err) {
		t.Errorf("the backup: %v", err)
	}
	if r := s.pod(2).concluding(t.Context(), steps.Verify, fails("x")); r.State != steps.Failed || s.read()["kubelet"] != "new" {
		t.Errorf("%+v", r)
	}
}
