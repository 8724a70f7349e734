#!/bin/bash
# update-pins.sh [COMPONENT...]: writes artifacts/COMPONENT/{go.mod.txt,go.sum.txt} anew for the versions below, by asking
# the Go module proxy. Run it after changing a version here; the files are what a build trusts, so read the difference.
# They are not named go.mod because Go does not embed files of another module, and quorate must carry them.
set -euo pipefail
cd "$(dirname "$0")/../artifacts"

# Two patches of each minor version, for upgrades between them. The module proxy serves more versions than it lists: ask for a patch by its name,
# by `go list -m k8s.io/kubernetes@v1.37.1`.
kubernetes='v1.37.2 v1.37.1 v1.36.5 v1.36.3 v1.35.4 v1.35.3 v1.34.4 v1.34.3'
kubernetes_commands='kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl'
etcd=v3.6.16 etcd37=v3.7.3 etcd35=v3.5.35 etcdadm=v0.1.5 containerd=v2.4.2 cni=v1.9.1 coredns=v1.14.7 clusterapi=v1.14.2
helm=v4.2.4 certmanager=v1.21.2
# With which Cluster API renders the manifests of its releases.
kustomize=v5.7.0
# One Go version for all, the highest that any of them asks for: what is built must not depend on which go is in PATH more
# than it has to. containerd asks for it.
go=1.26.6
export GOWORK=off GOFLAGS=-mod=mod

# pin COMPONENT: resolves the go.mod in the current folder completely and keeps it with its checksums.
pin() {
  go mod tidy
  keep "$1"
}

# keep COMPONENT: the go.mod of the current folder as it is.
keep() {
  grep -qx "go $go" go.mod || { echo "update-pins: $1 wants $(grep '^go ' go.mod), write that version above" >&2; exit 1; }
  mkdir -p "$artifacts/$1"
  cp go.mod "$artifacts/$1/go.mod.txt"
  cp go.sum "$artifacts/$1/go.sum.txt"
  echo "pinned $1"
}

# raise: modules that quorate has in newer versions get these, so that packages of both are compiled once for both. That is for what quorate has a part of
# itself, or a main package of its own for. What runs machines has the versions that it was released with.
raise() {
  local module version
  sed -n 's/^\t\([^ ]*\.[^ ]*\) \(v[^ ]*\).*/\1 \2/p' "$artifacts/../go.mod" | while read -r module version; do
    ! grep -q "^	$module v" go.mod || go mod edit -require "$module@$version"
  done
}

# begin: an empty module in a folder of its own.
begin() {
  rm -rf "$work/module" && mkdir "$work/module" && cd "$work/module"
  printf 'module artifacts\n\ngo %s\n' "$go" >go.mod
}

# tools MODULE@VERSION PACKAGE...: the programs that are built are the tool lines of go.mod.
tools() {
  local module=$1 package
  shift
  for package; do go get -tool "$package@${module#*@}"; done
}

# k8s.io/kubernetes replaces its staging modules with folders that its module zip does not hold; each is replaced here by
# the published module of the same minor and patch (v0.36.3 for v1.36.3).
pin_kubernetes() {
  local version=$1 source staging command
  begin
  go mod download "k8s.io/kubernetes@$version" # with -json its error would be lost
  source=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  {
    # The behaviour of Go's library that upstream's binaries have; it is the main module's word that counts.
    sed -n 's/^godebug .*/\n&/p' "$source/go.mod"
    printf '\nrequire k8s.io/kubernetes %s\n\nreplace (\n' "$version"
    sed -n 's#^\t\(k8s\.io/[a-z0-9-]*\) => \./staging.*#\1#p' "$source/go.mod" |
      while read -r staging; do printf '\t%s => %s v0.%s\n' "$staging" "$staging" "${version#v1.}"; done
    printf ')\n\ntool (\n'
    for command in $kubernetes_commands; do printf '\tk8s.io/kubernetes/cmd/%s\n' "$command"; done
    printf ')\n'
  } >>go.mod
  pin "kubernetes-$version"
}

pin_etcd() {
  begin
  tools "etcd@$etcd" go.etcd.io/etcd/server/v3 go.etcd.io/etcd/etcdctl/v3 go.etcd.io/etcd/etcdutl/v3
  pin etcd
}

# The minor version after: that of Kubernetes v1.37 and later, and for etcd clusters of their own.
pin_etcd-3.7() {
  begin
  tools "etcd@$etcd37" go.etcd.io/etcd/server/v3 go.etcd.io/etcd/etcdctl/v3 go.etcd.io/etcd/etcdutl/v3
  pin etcd-3.7
}

# The minor version before, for etcd clusters of their own that come from it, or go back to it.
pin_etcd-3.5() {
  begin
  tools "etcd@$etcd35" go.etcd.io/etcd/server/v3 go.etcd.io/etcd/etcdctl/v3
  pin etcd-3.5
}

pin_etcdadm() {
  begin
  tools "etcdadm@$etcdadm" sigs.k8s.io/etcdadm
  pin etcdadm
}

pin_containerd() {
  local commands=github.com/containerd/containerd/v2/cmd
  begin
  tools "containerd@$containerd" $commands/containerd $commands/ctr $commands/containerd-shim-runc-v2
  pin containerd
}

pin_cni() {
  local plugins=github.com/containernetworking/plugins/plugins
  begin
  tools "cni@$cni" $plugins/main/{bridge,loopback,ptp} $plugins/ipam/host-local $plugins/meta/portmap
  pin cni
}

pin_coredns() {
  begin
  # The program is ours, with fewer plugins: its source says why.
  mkdir coredns
  cp "$artifacts/coredns/coredns/main.go.txt" coredns/main.go
  go mod edit -tool artifacts/coredns -require "github.com/coredns/coredns@$coredns"
  go mod tidy
  raise
  pin coredns
}

# Cluster API replaces the module of its API types with a folder that its module zip does not hold; the published module has them.
pin_cluster-api() {
  local module=sigs.k8s.io/cluster-api
  begin
  go mod edit -require "$module@$clusterapi" -require "$module/api@$clusterapi"
  tools "cluster-api@$clusterapi" $module/core $module/bootstrap/kubeadm $module/controlplane/kubeadm $module/cmd/clusterctl
  tools "kustomize@$kustomize" sigs.k8s.io/kustomize/kustomize/v5
  go mod tidy
  raise
  pin cluster-api
}

pin_helm() {
  begin
  tools "helm@$helm" helm.sh/helm/v4/cmd/helm
  pin helm
}

# cert-manager's programs are modules that the proxy does not have. Those of artifacts/cert-manager stand in for them; in a module
# below cert-manager's they may import its internal packages.
pin_cert-manager() {
  local module=github.com/cert-manager/cert-manager source
  begin
  printf 'module %s/quorate\n\ngo %s\n' $module "$go" >go.mod
  for source in "$artifacts"/cert-manager/*/main.go.txt; do
    source=$(basename "$(dirname "$source")")
    mkdir "$source"
    cp "$artifacts/cert-manager/$source/main.go.txt" "$source/main.go"
    go mod edit -tool "$module/quorate/$source"
  done
  go mod edit -require "$module@$certmanager"
  pin cert-manager
}

artifacts=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
components=("$@")
if [ ${#components[@]} = 0 ]; then
  components=(etcd etcd-3.7 etcd-3.5 etcdadm containerd cni coredns cluster-api helm cert-manager)
  for version in $kubernetes; do components+=("kubernetes-$version"); done
fi
for component in "${components[@]}"; do
  case $component in
  kubernetes-*) pin_kubernetes "${component#kubernetes-}" ;;
  *) "pin_$component" ;;
  esac
done
