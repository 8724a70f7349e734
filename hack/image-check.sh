#!/bin/bash
# image-check.sh: builds the manager's image here and from a copy of the sources in another folder, and compares the two byte by byte. It does the same
# for the upgrader of one version of Kubernetes whose programs are in the cache; the first of UPGRADERS, or of all that are pinned. Then it starts the
# manager as a pod would: as its user, on a file system that it cannot write to. That part needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
version=${VERSION:-v0.0.0-check}
release() { # release SOURCES OUT KUBERNETES PART
  (cd "$1" && ${GO:-go} run ./hack/release -out "$2" -version "$version" -revision "$REVISION" -date "$DATE" -architectures "$ARCHES" -kubernetes "$3" "$4")
}
cached=$(release . "$work/first" "${UPGRADERS:-}" cached)
kubernetes=${cached%%$'\n'*}
build() { # build SOURCES OUT
  release "$1" "$2" none manager
  [ -z "$kubernetes" ] || release "$1" "$2" "$kubernetes" upgrader
}
[ -n "$kubernetes" ] || echo "no upgrader is compared: the cache has no version's programs for $ARCHES; make image UPGRADERS=VERSION builds them" >&2
build . "$work/first"
mkdir -p "$work/elsewhere/copy"
# What git knows, and what is new here and not ignored.
git ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
  tar --null -T - -cf - | tar -xf - -C "$work/elsewhere/copy"
build "$work/elsewhere/copy" "$work/second"
diff -r "$work/first" "$work/second" || { echo 'two builds of the image differ' >&2; exit 1; }
echo "two builds of the image are equal: manager${kubernetes:+, upgrader $kubernetes}"

[ "$(id -u)" = 0 ] || { echo 'not started: that needs root'; exit 0; }
root=$work/root; mkdir "$root"
layer=$(find "$work/first/images/quorate-manager/blobs" -type f -size +1M | head -1)
tar -xzf "$layer" -C "$root"
[ -z "$(find "$root" -type f -perm /111 ! -name quorate-manager)" ] || { echo 'there is another program in the image' >&2; exit 1; }
said=$(unshare --mount sh -c "mount --bind -o ro '$root' '$root' && mount -o remount,bind,ro '$root' && exec chroot --userspec=65532:65532 '$root' /quorate-manager --version")
echo "$said"
case $said in *"$version"*"$REVISION"*"$DATE"*) ;; *) echo "it does not say $version, $REVISION and $DATE" >&2; exit 1 ;; esac
