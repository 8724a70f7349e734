#!/bin/bash
# demo.sh: what `make demo` does, and from the first second on how far it is and about how long the rest takes. The operating system's packages, Quorate's own
# programs, and `quorate up`. Go reports each module that it fetches and each package that it compiles; how many there are is asked for first.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go} make=${MAKE:-make}
cores=$(nproc)

# What takes how long from nothing, in seconds of one processor: Quorate's programs, which have so many packages, and what machines consist of. Measured on a quiet host of two cores.
own=640 packages=1400 parts=1250
# A cluster, and the import of a bundle, in seconds.
cluster=45 bundle=60

every=5 # seconds between two lines about the same

# about SECONDS prints a duration.
about() { if [ "$1" -lt 90 ]; then echo "about $1 s"; else echo "about $((($1 + 30) / 60)) min"; fi; }

# later prints how many seconds what follows the programs takes.
later() {
  local built=("${QUORATE_CACHE:-$HOME/.cache/quorate}"/management-*)
  if [ -n "${QUORATE_ARTIFACTS:-}" ] || [ -e "${built[0]}" ]; then echo $cluster
  elif [ -n "${QUORATE_BUNDLE:-}" ]; then echo $((cluster + bundle))
  else echo $((cluster + parts / cores)); fi
}

# follow TOTAL WORD...: counts the lines of Go's messages about what the words name, prints how far that is, and passes on all else. A TOTAL of 0 is not known.
follow() {
  local total=$1 n=0 begun=$SECONDS last=$SECONDS line left rest
  shift
  rest=$(later)
  while :; do
    if IFS= read -r -t "$every" line; then
      case $line in
      "go: downloading "*) n=$((n + 1)) ;;
      *' '* | '') printf '%s\n' "$line" >&2 ;;
      *) n=$((n + 1)) ;;
      esac
    elif [ $? -le 128 ]; then
      return # the end
    fi
    [ $((SECONDS - last)) -lt "$every" ] && continue
    last=$SECONDS
    if [ "$total" = 0 ]; then
      echo "  $n $*; $(about $((own / cores + rest))) left if nothing is compiled yet"
    elif [ $n -lt "$total" ]; then
      # The first hundred packages count as if they took the usual time: one alone says little.
      left=$(((total - n) * (100 * own / cores / packages + SECONDS - begun) / (100 + n)))
      echo "  $n of $total $*; $(about $((left + rest))) left"
    else
      echo "  all $total $*, linking; $(about "$rest") left"
    fi
  done
}

echo "demo: first the operating system's packages and Quorate's own programs, then the cluster and what its machines consist of"
echo "  $(about $((own / cores + $(later)))) on $cores processors if nothing is compiled yet"
"$make" --no-print-directory packages
"$make" --no-print-directory fetch

echo "Quorate's programs: fetching modules, and looking for what is to be compiled"
list=$(mktemp)
trap 'rm -f "$list"' EXIT
# What the list costs is no loss: the builds need the modules, and the digests of all files.
{ "$go" list -deps -f '{{if .StaleReason}}{{.ImportPath}}{{end}}' ./cmd/quorate ./cmd/node ./cmd/upgrader 2>&1 >"$list" || echo FAILED >"$list.failed"; } | follow 0 'modules fetched'
if [ -e "$list.failed" ]; then rm "$list.failed"; echo "demo: the list of packages could not be read: see above" >&2; exit 1; fi
total=$(grep -c . "$list" || true)
echo "Quorate's programs: $total packages to compile"
if ! { "$make" --no-print-directory -s programs VERBOSE=-v 2>&1 || echo FAILED >"$list.failed"; } | follow "$((total > 0 ? total : 1))" 'packages compiled' || [ -e "$list.failed" ]; then
  rm -f "$list.failed"
  echo "demo: Quorate's programs could not be built: see above" >&2
  exit 1
fi
echo "Quorate's programs are in bin/; $(about "$(later)") left"
rm -f "$list"
exec ./bin/quorate up
