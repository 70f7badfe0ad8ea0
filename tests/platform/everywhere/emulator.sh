#!/bin/sh
# Prints the path of an emulator that runs programs for aarch64: qemu-aarch64 of version 8 or later, because version 7 (Debian 12's) faults at
# addresses that are mapped. It tries the emulator that $HAKDEV_EMULATOR names, then one in PATH, then Debian 13's, which is kept in the cache. Exits
# with 77 if there is none.
set -eu
here=$(dirname -- "$(readlink -f -- "$0")")
cache=${HAKDEV_EVERYWHERE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/hakmem/everywhere}

# serves PROGRAM: succeeds if the program runs and is new enough.
serves() {
  version=$("$1" --version 2>/dev/null | sed -n 's/^qemu-aarch64 version \([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 8 ]
}

for program in ${HAKDEV_EMULATOR:-} qemu-aarch64 qemu-aarch64-static "$cache/emulator/qemu-aarch64"; do
  found=$(command -v "$program" 2>/dev/null) || continue
  ! serves "$found" || { echo "$found"; exit 0; }
done
"$here/from_suite.sh" trixie "$(dpkg --print-architecture)" "$cache/qemu-user" qemu-user || exit 77
mkdir -p "$cache/emulator"
mv "$cache/qemu-user/usr/bin/qemu-aarch64" "$cache/emulator/"
rm -rf "$cache/qemu-user"
serves "$cache/emulator/qemu-aarch64" || { echo "Debian's qemu-aarch64 does not run here" >&2; exit 77; }
echo "$cache/emulator/qemu-aarch64"
