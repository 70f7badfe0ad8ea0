#!/bin/sh
# setup.sh build|run|test|bench: installs what that target needs and this machine lacks: Debian packages by name, and
# Python packages into a venv outside the tree. Does nothing, quickly, where all is there.
set -eu
goal=${1:-build}
venv=${HAKMEM_VENV:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/hakmem/venv}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

missing=
# need COMMAND PACKAGE: the command must be there, the package brings it.
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
# need_package PACKAGE: for packages without a command of their own.
need_package() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' || missing="$missing $1"; }

packages_for() {
  need cmake cmake
  need ninja ninja-build
  need gcc gcc
  need g++ g++
  need python3 python3
  [ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
  case $goal in build) return ;; esac
  need_package python3-venv
  case $goal in test) ;; *) return ;; esac
  need clang clang
  need valgrind valgrind
  need pkg-config pkg-config
  need git git
  need readelf binutils
  need gdb gdb
  need_package libcmocka-dev
  need_package musl-tools
}

install_packages() {
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null 2>&1 ||
    die "needs$missing, and there is no apt-get here: install them by your system's means and run this again."
  root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || die "needs$missing: as root, run: apt-get install$missing"
    root=sudo
  fi
  say "installing$missing"
  export DEBIAN_FRONTEND=noninteractive
  # Words of $missing are package names: splitting is wanted.
  # shellcheck disable=SC2086
  apt_install() { $root apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing >/dev/null; }
  apt_install 2>/dev/null || {
    say "refreshing the package lists"
    $root apt-get -qq -o DPkg::Lock::Timeout=300 update || say "could not refresh the package lists; trying without"
    apt_install || die "apt-get could not install$missing (see above)."
  }
}

# The tables are drawn by rich, the command line is typer's, the charts are matplotlib's.
python_packages() {
  case $goal in build) return 0 ;; bench) wanted="rich typer matplotlib" ;; *) wanted="rich typer" ;; esac
  stamp=$venv/.$(echo "$wanted" | tr ' ' -)
  [ -e "$stamp" ] && "$venv/bin/python3" -c '' 2>/dev/null && return 0
  say "Python packages ($wanted) into $venv"
  mkdir -p "$(dirname "$venv")" || die "cannot write to $(dirname "$venv"): set HAKMEM_VENV to a folder that can be written."
  python3 -m venv "$venv" || die "python3 -m venv failed (see above)."
  # shellcheck disable=SC2086
  "$venv/bin/pip" -q --disable-pip-version-check install $wanted ||
    die "pip could not install $wanted: is a Python package index reachable?"
  touch "$stamp"
}

packages_for
install_packages
python_packages
