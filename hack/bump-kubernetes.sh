#!/bin/bash
# bump-kubernetes.sh VERSION: pins a version of Kubernetes, which then can be asked for beside the others, and prints what is left to do. The default
# version stays: internal/local/artifacts/pins.go has it. Another patch of a minor that is pinned takes the place of the older one.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-}
[[ $version =~ ^v1\.[0-9]+\.[0-9]+$ ]] || { echo "bump-kubernetes: invalid VERSION \"$version\": must be like v1.36.3" >&2; exit 1; }
go=${GO:-go} minor=${version%.*} began=$SECONDS
step() { printf '%4ds  %s\n' $((SECONDS - began)) "$*"; }

pinned=$(sed -n "s/^kubernetes='\(.*\)'$/\1/p" hack/update-pins.sh)
replaced=
for old in $pinned; do
  [ "$old" != "$version" ] || { echo "bump-kubernetes: $version is pinned already" >&2; exit 1; }
  [ "${old%.*}" != "$minor" ] || replaced=$old
done

step "pinning $version${replaced:+ in place of $replaced}"
all=$(printf '%s\n' $pinned "$version" | { grep -vx "${replaced:-none}" || true; } | sort -rV | paste -sd ' ')
sed -i "s/^kubernetes='.*'$/kubernetes='$all'/" hack/update-pins.sh
GO=$go ./hack/update-pins.sh "kubernetes-$version"
[ -z "$replaced" ] || rm -r "artifacts/kubernetes-$replaced"

step 'writing docs/compatibility.md'
"$go" test ./test/compatibility -run 'TestTable$' -count 1 -args -update >/dev/null

step "what kubeadm $version asks for"
source=$("$go" mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
sed -nE 's/^\t(DefaultEtcdVersion|CoreDNSVersion|PauseVersion) = (.*)/         \1 \2/p' "$source/cmd/kubeadm/app/constants/constants.go"

step 'places that know of versions'
"$go" test ./test/compatibility -run 'TestPlaces$' -count 1 | grep -E '^ +places_test.go|^ +Compare|^[0-9]+ places' | sed 's/^ *places_test.go:[0-9]*: /         /' || true

cat <<EOF
left to do:
  1. read the difference of artifacts/: a build trusts these files
  2. ./bin/quorate artifacts build $version && $go run ./hack/programs $version    # the tables of flags and feature gates
  3. the places above, each with what changed in the sources
  4. $go test ./internal/local/artifacts ./internal/cli ./internal/core/programs ./test/compatibility ./test/limits
  5. as root: make e2e RUN='(versions|etcd-newest)' FROM=... TO=$version, then with TO=$version the lives of the default version
  6. the default: DefaultVersion in internal/local/artifacts/pins.go${replaced:+, which must not be $replaced}, and 'newer' in test/e2e
EOF
step 'done'
