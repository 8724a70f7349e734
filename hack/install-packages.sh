#!/bin/sh
# install-packages.sh [--dry-run]: installs the distribution packages that Quorate's local machines need.
# A package is installed only when the program it is for cannot be found: a host that has runc from elsewhere (Docker's
# containerd.io, for one, which does not go together with the package runc) keeps what it has.
# internal/local/hostcheck has the same list, and a test compares the two.
set -eu

# program:package
needed='
runc:runc
nft:nftables
mount:mount
losetup:mount
cp:coreutils
'

# Administrators' programs lie in sbin, which the PATH of sudo or su may lack.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

fail() { printf 'install-packages: %s\n' "$*" >&2; exit 1; }

missing=
for pair in $needed; do
  package=${pair#*:}
  command -v "${pair%%:*}" >/dev/null 2>&1 && continue
  case " $missing " in *" $package "*) ;; *) missing="$missing $package" ;; esac
done
# Go fetches modules by HTTPS, and for that a file of certificate authorities must exist.
certificates=/etc/ssl/certs/ca-certificates.crt
[ -e "$certificates" ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || missing="$missing ca-certificates"
missing=${missing# }

if [ -z "$missing" ]; then
  echo 'install-packages: all packages are there, nothing to install'
  exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
  name=$( (. /etc/os-release && printf '%s' "$PRETTY_NAME") 2>/dev/null || uname -sr)
  fail "this script knows apt-get (Debian, Ubuntu) only, and this is $name. Install what these packages are called there, and run this again: $missing"
fi

echo "install-packages: will be installed with apt-get: $missing"
[ "${1:-}" = --dry-run ] && exit 0
[ "$(id -u)" = 0 ] || fail "installing packages needs root: sudo $0"

export DEBIAN_FRONTEND=noninteractive
install() { apt-get install --yes --no-install-recommends $missing; } # unquoted: a list of names
if ! install; then
  # The lists of a fresh or an old host name versions that its mirror no longer has.
  echo 'install-packages: reading the package lists anew'
  apt-get update
  install || fail "apt-get could not install: $missing (its message is above)"
fi
echo "install-packages: installed: $missing"
