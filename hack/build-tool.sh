#!/bin/bash
# build-tool.sh MODULE_DIR PACKAGE OUT: builds a pinned tool into the cache. OUT carries the
# digest of the pins in its name, so an older build is never taken for a newer one; the rename at the end
# makes sure that an interrupted build is not taken for a whole one.
set -euo pipefail
dir=$1 package=$2 out=$3
mkdir -p "$(dirname "$out")"
echo "building $(basename "$package") (once)"
temporary=$(mktemp "$out.XXXXXX"); trap 'rm -f "$temporary"' EXIT
(cd "$dir" && GOFLAGS="${GOFLAGS:-} -mod=readonly" GOWORK=off go build -ldflags '-s -w' -o "$temporary" "$package")
chmod 755 "$temporary"
mv "$temporary" "$out"
