package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/programs"
)

// program writes a script that judges feature gates as Kubernetes' programs do: the first that it does not know ends it.
func program(t *testing.T, judge string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), programs.Scheduler)
	if err := os.WriteFile(path, []byte("#!/bin/bash\n"+judge), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGatesOf: a program is asked until it knows all gates that are left, and then which it has locked.
func TestGatesOf(t *testing.T) {
	const judge = `IFS=, locks=
for setting in ${1#--feature-gates=}; do
  case $setting in
  Free=*) ;;
  On=false | Off=true) locks+="cannot set feature gate ${setting%=*} to ${setting#*=}, feature is locked to $([ $setting = On=false ] && echo true || echo false), " ;;
  On=* | Off=*) ;;
  Early=*) echo "cannot set feature gate Early to true, feature is PreAlpha at emulated version 1.36" >&2; exit 1 ;;
  *) echo "unrecognized feature gate: ${setting%=*}" >&2; exit 1 ;;
  esac
done
echo "[$locks no kubeconfig]" >&2
exit 1
`
	gates, err := gatesOf(program(t, judge), []string{"Free", "Gone", "On", "Off", "Early", "Elsewhere"})
	if want := map[string]string{"Free": "", "On": "true", "Off": "false"}; err != nil || !maps.Equal(gates, want) {
		t.Errorf("%v, %v", gates, err)
	}
	for judge, want := range map[string]string{
		"exit 1": "takes any feature gate",
		"exit 0": "did not refuse to start",
		"echo unrecognized feature gate: Other; exit 1": "names a feature gate that was not set: Other",
	} {
		if _, err := gatesOf(program(t, judge), []string{"Free"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", judge, err, want)
		}
	}
}

// TestShare: what all programs take stands once, and what not all take, or with another value, stands with the program.
func TestShare(t *testing.T) {
	table := programs.Table{}
	share(table, map[string]map[string]string{
		programs.Kubelet:   {"All": "", "Locked": "true", "Some": ""},
		programs.Scheduler: {"All": "", "Locked": ""},
	})
	const want = "feature gates\n\tAll\nfeature gates of kube-scheduler\n\tLocked\nfeature gates of kubelet\n\tLocked=true\n\tSome\n"
	if got := table.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
