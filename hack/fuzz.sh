#!/bin/bash
# Runs every fuzz function of the module, or of the packages given, for FUZZTIME (a minute unless given), one after the other.
# The first run compiles all that the packages import once more, with what the fuzzer measures by; that takes minutes.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
time=${FUZZTIME:-1m}
go=${GO:-go}
[ $# -gt 0 ] || set -- ./...

if ! listed=$("$go" test -list '^Fuzz' "$@"); then
	printf '%s\nfuzz: the fuzz functions cannot be listed\n' "$listed" >&2
	exit 1
fi
# The functions of a package are printed before its name.
list=$(awk '/^Fuzz/ {names[++n] = $1; next} $1 == "ok" {for (i = 1; i <= n; i++) print $2, names[i]} {n = 0}' <<<"$listed")

ran=0 failed=()
while read -r package name; do
	[ -n "$name" ] || continue
	echo "== $package $name, $time"
	ran=$((ran + 1))
	"$go" test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 10s </dev/null || failed+=("$package $name")
done <<<"$list"

[ ${#failed[@]} = 0 ] || printf 'failed: %s\n' "${failed[@]}"
echo "fuzzed $ran functions for $time each, ${#failed[@]} failed"
[ "$ran" -gt 0 ] && [ ${#failed[@]} = 0 ]
