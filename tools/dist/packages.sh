#!/bin/sh
# packages.sh deb|rpm [NAME=VALUE...]: builds the packages by CPack into build-packages, in a build folder of their own, for a distribution's folders
# are others than those of `make install`. NAME=VALUE: cache variables, such as HAKMEM_PACKAGE_RELEASE=2.
set -eu
kind=$1
shift
root=$(cd "$(dirname -- "$(readlink -f -- "$0")")/../.." && pwd)
case $kind in
  deb) libdir=lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH) python=lib/python3/dist-packages ;;
  # python3-hakmem of no distribution: the version of its Python is not known here.
  rpm) libdir=lib64 python=share/hakmem ;;
  *)   echo "usage: packages.sh deb|rpm [NAME=VALUE...]" >&2; exit 64 ;;
esac
# One for both: the folders do not change what is compiled.
build=${HAKDEV_PACKAGES:-$root}/build-distribution output=${HAKDEV_PACKAGES:-$root}/build-packages
for setting in "$@"; do
  set -- "$@" "-D$setting"
  shift
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM
run() { "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }; }
run cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR="$libdir" \
  -DHAKMEM_PRELOAD_DIR="$libdir/hakmem" -DHAKMEM_TOOL=ON -DHAKMEM_PYTHON_DIR="$python" -DHAKMEM_TESTS=OFF -DHAKMEM_BENCH=OFF -DHAKMEM_WERROR=OFF \
  -DCMAKE_EXE_LINKER_FLAGS=-Wl,-z,relro,-z,now "$@"
run cmake --build "$build" -j "${JOBS:-1}"
rm -rf "$build/$kind"
cd "$build"
run cpack -G "$(echo "$kind" | tr a-z A-Z)" -B "$build/$kind"
mkdir -p "$output"
for package in "$build/$kind"/*."$kind"; do
  cp "$package" "$output/"
  echo "$kind: $output/${package##*/}"
done
