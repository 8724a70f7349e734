#!/bin/bash
# outdated.sh: fails when the Go module proxy has a newer patch of Kubernetes or etcd than is pinned, or a newer minor version. It asks the proxy, and
# is no part of `make test`: what others release must not break a build.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go} outdated=0

# released MODULE: its versions without pre-releases, the oldest first.
released() { "$go" list -m -versions "$1" | tr ' ' '\n' | grep -E '^v[0-9]+\.[0-9]+\.[0-9]+$' | sort -V; }

# compare NAME MODULE PINNED...: the newest patch of each pinned minor, and of all minors. Of two patches of a minor the first is compared.
compare() {
  local name=$1 all newest version last=
  all=$(released "$2")
  shift 2
  for version; do
    [ "${version%.*}" != "$last" ] || continue
    last=${version%.*}
    newest=$(grep -E "^${version%.*}\.[0-9]+$" <<<"$all" | tail -1)
    [ "$newest" = "$version" ] || { echo "$name $version: the proxy has $newest"; outdated=1; }
  done
  newest=$(tail -1 <<<"$all")
  [[ " $* " == *" ${newest%.*}."* ]] || { echo "$name: the proxy has the minor version $newest, which is not pinned"; outdated=1; }
}

pins() { sed -nE "s/.*\b$1=(v[0-9.]+).*/\1/p" hack/update-pins.sh; }
compare Kubernetes k8s.io/kubernetes $(sed -n "s/^kubernetes='\(.*\)'$/\1/p" hack/update-pins.sh)
compare etcd go.etcd.io/etcd/server/v3 "$(pins etcd)" "$(pins etcd37)" "$(pins etcd35)"
compare 'Cluster API' sigs.k8s.io/cluster-api "$(pins clusterapi)"
[ $outdated = 0 ] && echo 'all pins are the newest'
exit $outdated
