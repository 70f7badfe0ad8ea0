#!/bin/sh
# test_install.sh BUILD CMAKE GENERATOR CC CXX LIBDIR
# Installs the build into a prefix, moves the prefix, and uses it with pkg-config, find_package and hakmem-run.
set -eu
build=$1 cmake=$2 generator=$3 cc=$4 cxx=$5 libdir=$6
here=$(dirname -- "$(readlink -f -- "$0")")/programs

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
unset LD_PRELOAD LD_LIBRARY_PATH HAKMEM_REPORT HAKMEM_CONF 2>/dev/null || true

fail() { echo "FAILED: $*" >&2; exit 1; }
step() { echo "-- $*"; }

# An installed package may be moved (into a container, into a home folder), and must still find its files.
step "install, then move"
"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"
prefix=$work/prefix
for file in bin/hakmem-run share/man/man1/hakmem.1 share/man/man1/hakmem-run.1 share/man/man3/hakmem.3 include/hakmem.h include/hakmem.hpp "$libdir/libhakmem.so" "$libdir/libhakmem.a" "$libdir/hakmem.o" "$libdir/libhakmem-hardened.so" \
            bin/hakmem-play "$libdir/libhakmem-record.so" \
            "$libdir/pkgconfig/hakmem.pc" "$libdir/cmake/hakmem/hakmem-config.cmake"; do
  [ -e "$prefix/$file" ] || fail "$file was not installed"
done
[ ! -x "$build/bench/larson" ] || [ -x "$prefix/$libdir/hakmem/larson" ] || fail "the benchmarks of hakmem bench were not installed"
if grep -rIl -e "$build" -e "$work" "$prefix" >"$work/leaks"; then
  cat "$work/leaks"; fail "an installed text names the build folder"
fi

step "pkg-config"
PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
export PKG_CONFIG_PATH
version=$(pkg-config --modversion hakmem)
cd "$work"
# The words that pkg-config prints are options, so they are not quoted.
# shellcheck disable=SC2046
shared() { "$@" $(pkg-config --cflags --libs hakmem) -Wl,-rpath,"$prefix/$libdir"; }
# shellcheck disable=SC2046
static() { "$@" $(pkg-config --cflags hakmem) $(pkg-config --variable=archive hakmem) -pthread; }
# shellcheck disable=SC2046
object() { "$@" $(pkg-config --cflags hakmem) $(pkg-config --variable=object hakmem) -pthread; }
check() { "$@" >out 2>&1 || { code=$?; cat out; fail "'$*' ended with $code"; }; }
shared "$cc" -O2 -o c_shared "$here/uses.c";            check ./c_shared "$version"
static "$cc" -O2 -o c_static "$here/uses.c";            check ./c_static "$version"
shared "$cxx" -O2 -std=c++17 -o x_shared "$here/uses.cpp"; check ./x_shared "$version"
static "$cxx" -O2 -std=c++17 -o x_static "$here/uses.cpp"; check ./x_static "$version"
# --as-needed is the default on some distributions. It would remove a library of which no symbol is needed.
shared "$cc" -Wl,--as-needed -o silent "$here/silent.c"; check ./silent libhakmem
static "$cc" -o silent_static "$here/silent.c";          check ./silent_static silent_static
static "$cc" -static -O2 -o c_fully "$here/uses.c";      check ./c_fully "$version"

object "$cc" -O2 -o c_object "$here/uses.c";             check ./c_object "$version"
object "$cc" -o silent_object "$here/silent.c";          check ./silent_object silent_object
object "$cxx" -static -O2 -std=c++17 -o x_object "$here/uses.cpp"; check ./x_object "$version"

step "find_package"
"$cmake" -S "$here" -B "$work/stranger" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" >out 2>&1 || { cat out; fail "a project that uses find_package"; }
"$cmake" --build "$work/stranger" >out 2>&1 || { cat out; fail "building it"; }
for program in c_hakmem c_hakmem_static c_hakmem_object cxx_hakmem cxx_hakmem_static cxx_hakmem_object; do
  check "$work/stranger/$program" "$version"
done

step "hakmem-run"
"$cc" -O2 -o plain "$here/silent.c"
if ./plain libhakmem >/dev/null; then fail "the control: without the launcher this is glibc's malloc"; fi
run=$prefix/bin/hakmem-run
check "$run" ./plain libhakmem
check "$run" -- ./plain libhakmem
check "$build/hakmem-run" ./plain libhakmem # in the build folder, as the last lines of make say
ln -s "$run" "$work/link";               check "$work/link" ./plain libhakmem
check "$run" --report "$work/report.json" ./plain libhakmem
[ -s "$work/report.json" ] || fail "--report wrote nothing"
check "$run" --report="$work/report.txt" -- ./plain libhakmem
[ -s "$work/report.txt" ] || fail "--report= wrote nothing"
# The options for protections must keep values that the user has set.
check "$run" --hardened ./plain libhakmem-hardened
"$run" --hardened --guard sh -c 'env | grep ^HAKMEM_ | sort' >out
printf 'HAKMEM_GUARD_SAMPLE=1m\nHAKMEM_HARDENED=1\nHAKMEM_SAFE_FREE=1\n' | cmp - out || { cat out; fail "--hardened --guard"; }
# shellcheck disable=SC2016
HAKMEM_SAFE_FREE=strict HAKMEM_HARDENED=zero "$run" --guard --hardened sh -c 'echo $HAKMEM_SAFE_FREE $HAKMEM_HARDENED' >out
grep -q '^strict zero$' out || { cat out; fail "the user's own values are lost"; }
mv "$prefix/$libdir/libhakmem-hardened.so" "$work/away"
"$run" --hardened ./plain 2>out && fail "without its library, --hardened must be refused"
grep -q 'no libhakmem-hardened.so' out || { cat out; fail "... with a reason"; }
mv "$work/away" "$prefix/$libdir/libhakmem-hardened.so"
# Libraries that were preloaded before must stay, after HAKMEM.
"$cc" -shared -fPIC -o other.so -x c - <<'C'
int other_is_here(void);
int other_is_here(void) { return 1; }
C
# The inner shell must expand the variable.
# shellcheck disable=SC2016
LD_PRELOAD=$work/other.so "$run" sh -c 'echo "$LD_PRELOAD"' >out
grep -q "^$(readlink -f "$prefix/$libdir/libhakmem.so"):$work/other.so\$" out || { cat out; fail "LD_PRELOAD was not kept"; }
"$run" sh -c 'exit 41' && fail "the exit code is lost" || [ $? -eq 41 ] || fail "the exit code is lost"
"$run" >/dev/null 2>&1 && fail "no program is an error" || [ $? -eq 64 ] || fail "no program is an error of usage"
"$run" --nonsense x >/dev/null 2>&1 && fail "an unknown option is an error" || [ $? -eq 64 ] || fail "an unknown option"
"$run" --help | grep -q '^usage:' || fail "--help"
# The loader would ignore a path with a space with a warning, and would run the program on glibc.
cp -r "$prefix" "$work/a space"
"$work/a space/bin/hakmem-run" true 2>out && fail "a path that cannot be preloaded must be refused"
grep -q 'no space' out || fail "... with a reason"

echo "install: pkg-config, find_package and hakmem-run, C and C++, shared and static: all right"
