#!/bin/bash
# fetch-modules.sh: fetches the Go modules that the first `quorate up` builds artifacts from, while quorate itself is compiled, and has Go compile what everything
# needs of its own while quorate's modules are fetched. Nothing depends on it: what it could not do the builds do themselves, and say why they cannot.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
$go build net/http &
export GOWORK=off GOFLAGS=-mod=mod
newest=$(printf '%s\n' artifacts/kubernetes-v* | sort -V | tail -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for component in "$newest" artifacts/{coredns,containerd,etcd,cni}; do
  mkdir "$work/module"
  cp "$component/go.mod.txt" "$work/module/go.mod"
  cp "$component/go.sum.txt" "$work/module/go.sum"
  $go -C "$work/module" mod download
  rm -r "$work/module"
done
wait
