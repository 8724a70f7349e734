#!/bin/bash
# fetch-modules.sh: fetches the Go modules that the first `quorate up` builds artifacts from, while quorate itself is compiled, and has Go compile what everything
# needs of its own while quorate's modules are fetched. Nothing depends on it: what it could not do the builds do themselves, and say why they cannot.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
$go build net/http &
export GOWORK=off GOFLAGS=-mod=mod
# What `quorate up` builds for its default version.
version=$(sed -n 's/^const DefaultVersion = "\(.*\)"$/\1/p' internal/local/artifacts/pins.go)
components="kubernetes-$version coredns containerd etcd-3.7 cni"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for component in $components; do
  mkdir "$work/module"
  cp "artifacts/$component/go.mod.txt" "$work/module/go.mod"
  cp "artifacts/$component/go.sum.txt" "$work/module/go.sum"
  $go -C "$work/module" mod download
  rm -r "$work/module"
done
wait
