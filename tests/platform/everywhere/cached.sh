#!/bin/sh
# cached.sh NAME SUITE ARCH PACKAGE...
# Prints the folder of the cache that has these Debian packages. The first call extracts them with from_suite.sh. Exits with 77 if they cannot be
# fetched.
set -eu
here=$(dirname -- "$(readlink -f -- "$0")")
folder=${HAKDEV_EVERYWHERE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/hakmem/everywhere}/$1
suite=$2 arch=$3
shift 3
if [ "$(cat "$folder/.packages" 2>/dev/null)" != "$suite $arch $*" ]; then
  mkdir -p "${folder%/*}"
  "$here/from_suite.sh" "$suite" "$arch" "$folder" "$@" || exit 77
  echo "$suite $arch $*" >"$folder/.packages"
fi
echo "$folder"
