#!/bin/bash
# vulncheck.sh GOVULNCHECK [MODULE_DIR...]: looks for known vulnerabilities in modules, by default in all of this repository. In a module
# with packages it reports those that its code reaches; of a module that only pins a tool, those in packages of which the tool consists. It
# exits with 3 where there are some, and with 2 where nothing was checked because no vulnerability database can be reached: GOVULNDB names
# another one, such as a mirror or file:///FOLDER.
set -euo pipefail
check=$1; shift
[ $# -gt 0 ] || set -- . tools/*/
database=${GOVULNDB:-https://vuln.go.dev}
output=$(mktemp); trap 'rm -f "$output"' EXIT
worst=0
for dir in "$@"; do
  dir=${dir%/}
  what=(./...)
  if [ -z "$(find "$dir" -maxdepth 1 -name '*.go' -print -quit)" ] && [ "$dir" != . ]; then what=(-scan package tool); fi
  code=0
  "$check" -C "$dir" -db "$database" "${what[@]}" >"$output" 2>&1 || code=$?
  if [ $code != 0 ] && grep -q 'fetching vulnerabilities' "$output"; then
    tail -n 1 "$output" >&2
    echo "vulncheck: the vulnerability database $database cannot be reached: nothing was checked. GOVULNDB names another one" >&2
    exit 2
  fi
  echo "--- $dir (${what[*]})"
  cat "$output"
  case $code in
    0) ;;
    3) worst=3 ;;
    *) echo "vulncheck: $dir was not checked: govulncheck ended with code $code" >&2; exit 1 ;;
  esac
done
exit $worst
