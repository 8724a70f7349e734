#!/bin/bash
# test.sh: all checks, in an order that fails early, each with its time.
set -euo pipefail
cd "$(dirname "$0")/.."
logs=$(mktemp -d); trap 'rm -rf "$logs"; kill $(jobs -p) 2>/dev/null || true' EXIT
step() { # step NAME COMMAND...: runs it, prints its output only when it fails
  local name=$1 start=$SECONDS; shift
  printf '%-28s' "$name"
  if "$@" >"$logs/out" 2>&1; then echo "ok   $((SECONDS - start)) s"; else echo "FAILED after $((SECONDS - start)) s"; cat "$logs/out"; exit 1; fi
}
show() { # show NAME COMMAND...: runs it, and its output is part of the report
  echo "--- $1"; local start=$SECONDS; shift; "$@"; echo "    $((SECONDS - start)) s"
}
e2e=no; [ "$(id -u)" = 0 ] && e2e=yes
if [ $e2e = yes ]; then step "packages" make -s packages; fi
step "build" make -s build
if [ $e2e = yes ]; then ./bin/quorate artifacts build; fi
step "generated files" make -s verify
step "lint" make -s lint
show "unit" make -s unit
show "hostile clusters" make -s hostile
show "model" make -s model
show "mutation" make -s mutate
# CI runs some lives on real machines: a birth, a repair, an adoption, a frozen machine beside a deleted one, a lost
# status, an etcd cluster of its own. `make e2e` runs all; `make meaning`, `make write-points` and `make fuzz`
# go further than the tests here.
[ -z "${CI:-}" ] || QUORATE_E2E='(create|repair|adopt|freeze-delete|status-lost|etcd-create)'
if [ $e2e = yes ]; then show "e2e" make -s e2e RUN="${QUORATE_E2E:-}"; else echo "e2e left out: it needs root"; fi
