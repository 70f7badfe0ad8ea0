#!/bin/sh
# setup.sh [--check] build|run|bench [ROWS]|test|package|wheel|programs: installs what that target of the Makefile needs and this machine lacks: Debian
# packages (tools/packages/*.txt, the packages.txt of tests/, bench/packages*.txt) and Python packages, which go into a venv outside the tree.
# Does nothing, quickly, if nothing is missing. --check installs nothing: it names the missing packages in one message, and fails.
set -eu
check=
[ "${1:-}" != --check ] || { check=yes; shift; }
goal=${1:-} rows=${2:-}
home=$(dirname -- "$(readlink -f -- "$0")")/..
venv=${HAKDEV_VENV:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/hakmem/venv}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

case $goal in build|run|bench|test|package|wheel|programs) ;; *) die "usage: setup.sh [--check] build|run|bench [ROWS]|test|package|wheel|programs" ;; esac

# Called while wildcards are off, for the probes.
lists() {
  echo "$home/tools/packages/build.txt"
  [ "$goal" = build ] || echo "$home/tools/packages/run.txt"
  [ "$goal" != bench ] || ls "$home"/bench/packages.txt 2>/dev/null || true
  case $goal,$rows in bench,all|bench,*[pP]16*|bench,*[pP]25*|bench,*exact*|bench,*EXACT*|bench,guard*) echo "$home/bench/packages-programs.txt" ;; esac
  [ "$goal" != package ] || echo "$home/tests/package/packages/packages.txt"
  [ "$goal" != test ] || (set +f; ls "$home/tools/packages/test.txt" "$home"/tests/*/packages.txt "$home"/tests/*/*/packages.txt)
}

# present PROBE: a path (wildcards allowed) that exists, or a command.
present() {
  case $1 in
    /*) for path in $1; do [ ! -e "$path" ] || return 0; done; return 1 ;;
    *)  command -v "$1" >/dev/null 2>&1 ;;
  esac
}

missing_packages() {
  set -f; # a probe's wildcards are for present()
  lists | while read -r list; do cat "$list"; done | while read -r probe packages; do
    case $probe in ''|'#'*) continue ;; esac
    (set +f; present "$probe") || printf ' %s' "$packages"
  done
}

# Words of $missing are package names: splitting is wanted.
# shellcheck disable=SC2086
apt_install() { $root apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing >"$log" 2>&1; }

# install PACKAGES: by apt, refreshing its lists if it must.
install() {
  missing=$1
  command -v apt-get >/dev/null 2>&1 ||
    die "needs $missing, and there is no apt-get here: install these by your system's means and try again."
  root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || die "needs $missing: as root, run: apt-get install $missing"
    root=sudo
  fi
  say "installing $missing"
  # dpkg wants ldconfig and its like, which a user's PATH may lack.
  export DEBIAN_FRONTEND=noninteractive PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
  log=$(mktemp)
  if ! apt_install; then
    say "refreshing the package lists first"
    $root apt-get -qq -o DPkg::Lock::Timeout=300 update || say "could not refresh them; trying with what is there"
    apt_install || { cat "$log" >&2; rm -f "$log"; die "apt-get could not install $missing (see above)."; }
  fi
  rm -f "$log"
}

install_packages() {
  absent=$(missing_packages)
  [ -z "$absent" ] || [ -z "$check" ] ||
    die "the $goal needs these packages of Debian, or their equivalents:$absent. On Debian and its derivatives, 'make deps' installs them."
  [ -z "$absent" ] || install "${absent# }"
}

# A venv with the packages from the Python index, or, where that cannot be reached, from Debian.
# shellcheck disable=SC2086
fill_venv() {
  python3 -m venv "$venv" || die "python3 -m venv failed (see above)."
  "$venv/bin/pip" -q --disable-pip-version-check --retries 1 install $wanted 2>"$venv/pip.log" && return 0
  tail -n 3 "$venv/pip.log" >&2
  say "the Python package index cannot be used (see above): taking Debian's packages"
  install "$(for name in $wanted; do printf 'python3-%s ' "$name" | tr _ -; done)"
  /usr/bin/python3 -m venv --clear --system-site-packages "$venv" || die "python3 -m venv failed (see above)."
}

# importable NAME...: the venv's Python finds them all, as modules or, what has none, as programs beside it.
importable() {
  "$venv/bin/python3" -c 'import importlib.util, os, sys
beside = os.path.dirname(sys.executable)
sys.exit(not all(importlib.util.find_spec(name) or os.path.exists(os.path.join(beside, name)) for name in sys.argv[1:]))' "$@" 2>/dev/null
}

# The tables are rich's, the command lines typer's, the charts matplotlib's, the page jinja2's; the build of
# the user's tool setuptools's; the report is read by jsonschema and prometheus_client, types by mypy.
# shellcheck disable=SC2086
install_python_packages() {
  case $goal in
    build) return 0 ;;
    run|programs|package) wanted="rich typer" ;;
    wheel) wanted="rich typer $(cat "$home/tools/packages/wheel.txt")" ;;
    bench) wanted="rich typer numpy matplotlib jinja2" ;;
    *)     wanted="rich typer numpy matplotlib jinja2 setuptools wheel jsonschema prometheus_client mypy" ;;
  esac
  importable $wanted && return 0
  say "Python packages ($wanted) into $venv"
  mkdir -p "$(dirname "$venv")" || die "cannot write there: set HAKDEV_VENV to a folder of yours."
  fill_venv
  importable $wanted || die "$wanted: installed, but $venv/bin/python3 does not find them."
}

# What one test needs, and is left out without: Debian has no such packages.
# shellcheck disable=SC2086
install_optional_packages() {
  [ "$goal" = test ] || return 0
  extra=$(cat "$home/tools/packages/wheel.txt")
  importable $extra || "$venv/bin/pip" -q --disable-pip-version-check --retries 1 install $extra 2>"$venv/pip.log" ||
    say "no $extra from the Python package index: the test of the wheel is left out"
}

install_packages
[ -z "$check" ] || exit 0
install_python_packages
install_optional_packages
