#!/bin/bash
# outdated.sh: fails when the Go module proxy has a newer patch of Kubernetes or etcd than is pinned, or a newer minor version. It asks the proxy, and
# is no part of `make test`: what others release must not break a build.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go} outdated=0

# released MODULE: its versions without pre-releases, the oldest first.
released() { "$go" list -m -versions "$1" | tr ' ' '\n' | grep -E '^v[0-9]+\.[0-9]+\.[0-9]+$' | sort -V; }

# served MODULE VERSION PINNED: whether the proxy has it, which may be so for versions that are not on its list. Of Kubernetes the modules
# beside it count that are pinned for another version: without one of them it cannot be built, which is printed. It returns 2 where the proxy
# cannot be asked.
served() {
  local all=("$1@$2") errors missing
  if [ "$1" = k8s.io/kubernetes ]; then
    all+=($(sed -nE "s#^(k8s\.io/[a-z-]+) v0\.${3#v1.} h1:.*#\1@v0.${2#v1.}#p" "artifacts/kubernetes-$3/go.sum.txt"))
  fi
  errors=$("$go" mod download "${all[@]}" 2>&1 >/dev/null) && return
  errors=$(grep -E '^go: ' <<<"$errors" | grep -v '^go: downloading ') || true
  missing=$(sed -nE 's/^go: ([^ ]+@v[^ :]+): .*(404 Not Found|410 Gone|403 Forbidden|unknown revision).*/\1/p' <<<"$errors")
  if [ -z "$missing" ] || grep -qvE '404 Not Found|410 Gone|403 Forbidden|unknown revision' <<<"$errors"; then
    echo "outdated: cannot ask the module proxy for $1@$2: ${errors:-go mod download fails}" >&2
    return 2
  fi
  grep -qxF "$1@$2" <<<"$missing" || echo "$1@$2 cannot be built: the proxy lacks" $missing >&2
  return 1
}

# newest MODULE MINOR LISTED PINNED: the newest patch of a minor version, from the newest on the list on; empty if there is none.
newest() {
  local patch=${3##*.} next status=0
  next=${3:+$((patch + 1))}
  next=${next:-0}
  while served "$1" "$2.$next" "$4" || { status=$?; false; }; do patch=$next next=$((next + 1)); done
  [ $status = 1 ] || return $status
  echo "${patch:+$2.$patch}"
}

# compare NAME MODULE PINNED...: the newest patch of each pinned minor, the minor version after the newest that is pinned, and the list's newest.
# Of two patches of a minor the first is compared.
compare() {
  local name=$1 module=$2 all found version last= next
  all=$(released "$module")
  shift 2
  for version; do
    [ "${version%.*}" != "$last" ] || continue
    last=${version%.*}
    # The list may lack what is pinned.
    found=$(newest "$module" "$last" "$({ grep -E "^${last//./\\.}\.[0-9]+$" <<<"$all" || true; echo "$version"; } | sort -V | tail -1)" "$version") || exit
    [ "$found" = "$version" ] || { echo "$name $version: the proxy has $found"; outdated=1; }
  done
  version=$(printf '%s\n' "$@" | sort -V | tail -1) version=${version%.*}
  next=${version%.*}.$((${version##*.} + 1))
  found=$(newest "$module" "$next" "$(grep -E "^${next//./\\.}\.[0-9]+$" <<<"$all" | tail -1)" "$1") || exit
  [ -n "$found" ] || found=$(tail -1 <<<"$all")
  [[ " $* " == *" ${found%.*}."* ]] || { echo "$name: the proxy has the minor version $found, which is not pinned"; outdated=1; }
}

pins() { sed -nE "s/.*\b$1=(v[0-9.]+).*/\1/p" hack/update-pins.sh; }
compare Kubernetes k8s.io/kubernetes $(sed -n "s/^kubernetes='\(.*\)'$/\1/p" hack/update-pins.sh)
compare etcd go.etcd.io/etcd/server/v3 "$(pins etcd)" "$(pins etcd37)" "$(pins etcd35)"
compare 'Cluster API' sigs.k8s.io/cluster-api "$(pins clusterapi)"
[ $outdated = 0 ] && echo 'all pins are the newest'
exit $outdated
