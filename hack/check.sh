#!/bin/bash
# check.sh: the first loop of a change, in less than a minute, offline and without root. It lints the packages that differ from the
# merge base with the main branch, uncommitted changes included. BASE names another branch or commit to compare with.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/steps.sh
go=${GO:-go}

# base prints the commit that the working tree is compared with.
base() {
  local branch
  for branch in ${BASE:-origin/HEAD origin/main main}; do
    git merge-base HEAD "$branch" 2>/dev/null && return
  done
  if [ -n "${BASE:-}" ]; then echo "invalid BASE=\"$BASE\": must be a branch or a commit" >&2; return 1; fi
  git rev-parse HEAD
}

# changed prints the files that differ, new ones included, without those that are deleted.
changed() {
  local from; from=$(base) || return 1
  git diff --name-only --diff-filter=d "$from"
  git ls-files --others --exclude-standard
}

# packages prints the folders of the main module's packages that have a changed Go file. A folder with build-tagged files only is none.
packages() {
  printf '%s\n' "$files" | grep '\.go$' | grep -v '^tools/\|/testdata/' | xargs -r -n 1 dirname | sort -u |
    while read -r dir; do $go list -e -find -f '{{if or .GoFiles .TestGoFiles .XTestGoFiles}}./'"$dir"'{{end}}' "./$dir"; done | grep .
}

files=$(changed)
if printf '%s\n' "$files" | grep -qx '.golangci.yaml'; then linted=./...; else linted=$(packages || true); fi

step limits hide "layers, sizes, purity" $go test ./test/limits -count 1
step documents hide "links, navigation and commands of the documents" $go test ./test/docs -count 1
step rows hide "each decision of internal/core/plan/testdata, and each refusal of internal/core/check/testdata" $go test ./internal/core/plan ./internal/core/check
step stories hide "whole lives of internal/core/sim/testdata" $go test ./internal/core/sim -run 'TestStories|TestSameSetupSameLife'
# A fresh clone has not compiled what the packages import: vet would take minutes to find nothing.
if printf '%s\n' "$files" | grep -q '\.go$\|^go\.\(mod\|sum\)$'; then
  step vet hide "all packages and their tests compile" $go vet ./...
else
  step vet hide "no Go file differs from $(base | cut -c1-12)" true
fi
if [ -n "$linted" ]; then
  lint() { make -s "$GOLANGCI" && "$GOLANGCI" run --allow-parallel-runners $linted; }
  step lint hide "$(echo $linted)" lint
else
  step lint hide "no package differs from $(base | cut -c1-12)" true
fi
run_steps
