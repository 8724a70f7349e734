#!/bin/bash
# test.sh [rest]: what CI runs, in an order that fails early; with `rest` what CI leaves out, which takes hours.
# The result does not depend on who calls it, but for root: only root can make machines.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/steps.sh
root=no; [ "$(id -u)" = 0 ] && root=yes

ci() {
  if [ $root = yes ]; then step packages hide "the operating system's packages that machines need" make -s packages; fi
  step build hide "all programs" make -s build
  if [ $root = yes ]; then step artifacts show "what machines are made of" ./bin/quorate artifacts build; fi
  step "generated files" hide "they and go.mod agree with the code" make -s verify
  step lint hide "golangci-lint and the limits of the tree" make -s lint
  step unit show "unit tests, rows, stories, worlds, a real API server" make -s unit
  step "hostile clusters" show "the manager beside clusters that attack it" make -s hostile
  step model show "every state of small groups" make -s model
  step mutation show "each rule and comparison sabotaged" make -s mutate
  # A birth, a repair, an adoption, a frozen machine beside a deleted one, a lost status, an etcd cluster of its own, backups.
  if [ $root = yes ]; then
    step e2e show "eight lives on real machines" make -s e2e RUN='(create|repair|adopt|freeze-delete|status-lost|etcd-create|backup|recover-survivor)'
  fi
}

rest() {
  step meaning show "sabotage of what the rules mean" make -s meaning
  step "write points" show "each write of the controller fails, or loses its answer" make -s write-points
  step "fresh worlds" show "random worlds of seeds that follow from the commit" make -s nightly
  step fuzz show "every fuzz function, a minute each" make -s fuzz
  step alerts show "alerts, by promtool" make -s alerts
  step prose hide "the language of documents, comments and messages, by vale, which is built with a C compiler" make -s prose
  step images show "two builds of an image are equal" make -s image-check
  if [ $root = yes ]; then step e2e show "all lives on real machines" make -s e2e; fi
}

case ${1:-} in
'') ci ;;
rest) rest ;;
*) echo "invalid argument \"$1\": must be empty or rest" >&2; exit 1 ;;
esac
run_steps
if [ $root = no ]; then echo "e2e left out: it needs root"; fi
