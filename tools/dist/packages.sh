#!/bin/sh
# packages.sh deb|rpm [NAME=VALUE...]: builds the packages by CPack, in a build folder of their own, for a distribution's folders are others than those
# of `make install`. They lie in build-deb/packages or build-rpm/packages. NAME=VALUE: cache variables, such as HAKMEM_PACKAGE_RELEASE=2.
set -eu
kind=$1
shift
root=$(dirname -- "$(readlink -f -- "$0")")/../..
case $kind in
  deb) libdir=lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH) python=lib/python3/dist-packages ;;
  # python3-hakmem of no distribution: the version of its Python is not known here.
  rpm) libdir=lib64 python=share/hakmem ;;
  *)   echo "usage: packages.sh deb|rpm [NAME=VALUE...]" >&2; exit 64 ;;
esac
build=${HAKMEM_PACKAGES:-$root}/build-$kind
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
rm -rf "$build/packages"
cd "$build"
run cpack -G "$(echo "$kind" | tr a-z A-Z)"
for package in packages/*."$kind"; do echo "$kind: $build/$package"; done
