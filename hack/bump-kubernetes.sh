#!/bin/bash
# bump-kubernetes.sh VERSION: pins a version of Kubernetes, which then can be asked for beside the others, and prints what is left to do. The default
# version stays: internal/local/artifacts/pins.go has it. Of a minor the version and the newest pinned patch before it are kept, for upgrades between them.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-}
[[ $version =~ ^v1\.[0-9]+\.[0-9]+$ ]] || { echo "bump-kubernetes: invalid VERSION \"$version\": must be like v1.36.3" >&2; exit 1; }
go=${GO:-go} minor=${version%.*} began=$SECONDS
step() { printf '%4ds  %s\n' $((SECONDS - began)) "$*"; }

pinned=$(sed -n "s/^kubernetes='\(.*\)'$/\1/p" hack/update-pins.sh)
patches=() replaced=
for old in $pinned; do
  [ "$old" != "$version" ] || { echo "bump-kubernetes: $version is pinned already" >&2; exit 1; }
  [ "${old%.*}" != "$minor" ] || patches+=("$old")
done
[ ${#patches[@]} -lt 2 ] || replaced=${patches[-1]} # the oldest

step "asking the module proxy for $version"
answer=$("$go" mod download -json "k8s.io/kubernetes@$version" 2>&1) || {
  error=$(sed -n 's/.*"Error": "\(.*\)".*/\1/p' <<<"$answer" | sed 's/\\n\\t/ /g')
  echo "bump-kubernetes: cannot download k8s.io/kubernetes@$version: ${error:-$answer}" >&2
  exit 1
}
source=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$answer")

# All that is changed is copied first, and put back where a step fails.
changed=(hack/update-pins.sh docs/compatibility.md "artifacts/kubernetes-$version")
[ -z "$replaced" ] || changed+=("artifacts/kubernetes-$replaced" "internal/core/programs/tables/$replaced.txt")
backup=$(mktemp -d) finished=
restore() {
  if [ -z "$finished" ]; then
    rm -rf "${changed[@]}"
    cp -a "$backup/." .
    echo "bump-kubernetes: $version is not pinned, and all files are as they were" >&2
  fi
  rm -rf "$backup"
}
for path in "${changed[@]}"; do [ ! -e "$path" ] || cp -a --parents "$path" "$backup"; done
trap restore EXIT

# check NAME [ARGUMENT...]: runs a test of test/compatibility, whose output is in $output.
check() { output=$("$go" test ./test/compatibility -run "$1\$" -count 1 "${@:2}" 2>&1); }

step "pinning $version${replaced:+ in place of $replaced}"
all=$(printf '%s\n' $pinned "$version" | { grep -vx "${replaced:-none}" || true; } | sort -rV | paste -sd ' ')
sed -i "s/^kubernetes='.*'$/kubernetes='$all'/" hack/update-pins.sh
GO=$go ./hack/update-pins.sh "kubernetes-$version"
[ -z "$replaced" ] || rm -rf "artifacts/kubernetes-$replaced" "internal/core/programs/tables/$replaced.txt"

step 'writing docs/compatibility.md'
check TestTable -args -update || { echo "$output" >&2; exit 1; }
# A new patch may take the place of one that tests name: then they come first.
"$go" run ./hack/docs || echo '         which test runs which version: `make generate` writes it once the tests name versions that are pinned'

step "what kubeadm $version asks for"
sed -nE 's/^\t(DefaultEtcdVersion|CoreDNSVersion|PauseVersion) += (.*)/         \1 \2/p' "$source/cmd/kubeadm/app/constants/constants.go"

step 'places that know of versions'
# It fails where places were not compared with a new minor version yet: that is what is printed here.
check TestPlaces || grep -q '^[0-9]* places know of versions' <<<"$output" || { echo "$output" >&2; exit 1; }
places=$(sed -nE 's/^ *places_test.go:[0-9]*: /         /p; /^ +Compare/p; /^[0-9]+ places/p' <<<"$output")
echo "${places:-         none: all were compared with $minor or a newer minor version}"

cat <<EOF
left to do:
  1. read the difference of artifacts/: a build trusts these files
  2. ./bin/quorate artifacts build $version && $go run ./hack/programs $version    # the tables of flags and feature gates
  3. the places above, each with what changed in the sources
  4. $go test ./internal/local/artifacts ./internal/cli ./internal/core/programs ./test/compatibility ./test/limits
  5. as root: make e2e RUN='(versions|etcd-newest)' FROM=... TO=$version, then with TO=$version the lives of the default version
  6. the default: DefaultVersion in internal/local/artifacts/pins.go${replaced:+, which must not be $replaced}, and 'newer' in test/e2e
EOF
finished=yes
step 'done'
