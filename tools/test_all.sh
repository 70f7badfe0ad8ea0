#!/bin/sh
# test_all.sh [--weekly] [preset...]: builds every preset and runs its tests. It continues after a failure, and prints a summary at the end.
#
#   release   all tests but the weekly ones; of those that are marked TURN (tests of packages, of crates ...) a third, chosen by the commit, and
#             a third of the real programs
#   debug     the quick tests
#   clang     the quick tests that coverage leaves out, and only what they need, because coverage is built by clang too
#   asan tsan valgrind    the quick tests that are marked SANITIZE; of valgrind's one half, chosen by the commit
#   musl      all tests, those that are marked TURN as above
#   coverage faults       tools/coverage.sh; some of the faults of tests/hardening/faults, chosen by the commit, in the time that is left
#
# --weekly: the same without choices and shortcuts, and then the other processors and page sizes, all real programs and all faults. This takes
# hours.
set -u
cd "$(dirname -- "$(readlink -f -- "$0")")/.." || exit 1
weekly=
[ "${1:-}" != --weekly ] || { weekly=yes; shift; }
jobs=${JOBS:-$(nproc)}
# Many tests wait for something: one more than there are processors.
test_jobs=$((jobs + 1))
presets=${*:-release debug clang musl asan tsan valgrind coverage faults}
[ -z "$weekly" ] || [ $# -gt 0 ] || presets="$presets everywhere programs"
logs=build/test-logs
mkdir -p "$logs"
closing=$logs/closing.txt
: >"$closing"
failed=
seed=$(git rev-parse HEAD 2>/dev/null || echo none)
began=$(date +%s)
goal_minutes=37 # of everything: planting faults ends then

folder() { case $1 in release) echo build ;; *) echo "build-$1" ;; esac; }
random() { printf '%s %s' "$seed" "$1" | sha256sum | cut -c1-8; }

# not_its_turn FOLDER: a pattern of the tests marked TURN that this commit leaves out.
not_its_turn() {
  ctest --test-dir "$1" -N -L '^turn$' | sed -n 's/^ *Test *#[0-9]*: //p' | while read -r name; do echo "$(random "$name") $name"; done |
    sort | awk '{ name[NR] = $2 } END { for (i = 1 + int((NR + 2) / 3); i <= NR; i++) printf "%s%s", (n++ ? "|" : ""), name[i] }'
}

# chosen PRESET: the tests of a build, as arguments of ctest.
chosen() {
  in=$(folder "$1")
  case $weekly,$1 in
    ,release|,musl)    echo "-LE ^(weekly|short|third_[^$((0x$(random third) % 3 + 1))])\$ -E ^($(not_its_turn "$in"))\$" ;;
    yes,release)       echo "-LE ^short\$" ;;
    yes,musl)          echo "-L ." ;;
    ,clang)            echo "-L ^quick\$ -LE ^programs\$ -R $(tools/coverage.sh --without)" ;;
    ,valgrind)         echo "-L ^quick\$ -LE ^programs\$ -I $((0x$(random valgrind) % 2 + 1)),,2" ;;
    *)                 echo "-L ^quick\$ -LE ^programs\$" ;;
  esac
}

# targets PRESET: what the tests of a build need, as arguments of cmake, if it is not everything.
targets() {
  case $weekly,$1 in
    ,clang) echo "--target hakmem hakmem_hardened hakmem_static hakmem_object hakmem-replay hakmem_record hakmem-play bench/all tests/hitpath/all \
      tests/support/all tests/examples/all test_start_faults_true" ;;
  esac
}

# shellcheck disable=SC2046
build() {
  { cmake --preset "$1" && cmake --build "$(folder "$1")" -j "$jobs" $(targets "$1"); } >"$logs/$1-build.log" 2>&1 && return 0
  tail -n 60 "$logs/$1-build.log"
  echo "$1: does not build (see above)" | tee -a "$closing"
  return 1
}

# failures PRESET: the last lines of each test that failed.
failures() {
  results=$(folder "$1")/Testing/Temporary
  sed 's/^[0-9]*://' "$results/LastTestsFailed.log" 2>/dev/null | while read -r name; do
    sed -n "/ Test: $name\$/,/^<end of output>/p" "$results/LastTest.log" | cut -c1-300 | tail -n 20 | sed "s|^|  $name: |"
  done
}

# The output is shown as it comes, and kept. The closing lines of each build are printed again at the very end, with the notices of tests
# that passed and the last lines of those that failed.
# Words of chosen() are options: splitting is wanted, wildcards are not.
# shellcheck disable=SC2046
run() {
  set -f
  status=$logs/$1.status
  { ctest --test-dir "$(folder "$1")" $(chosen "$1") -j "$test_jobs" --output-on-failure --no-tests=error
    echo $? >"$status"; } 2>&1 | tee "$logs/$1-test.log"
  { echo "$1:"; sed -n '/tests passed/,$p' "$logs/$1-test.log" | grep -v '^$' | grep -v -e '^Label Time' -e 'sec\*proc'
    sed -n '/^notice: /p' "$(folder "$1")/Testing/Temporary/LastTest.log"; [ "$(cat "$status")" -eq 0 ] || failures "$1"; } >>"$closing"
  [ "$(cat "$status")" -eq 0 ]
}

# The minutes that are left for planting faults: at most 3.5, and at least 1.
minutes_for_faults() { awk "BEGIN { left = $goal_minutes - ($(date +%s) - $began) / 60; print (left < 1 ? 1 : (left > 3.5 ? 3.5 : left)) }"; }

# script NAME: what is no build that is tested as the others are. The lines that begin with its name are kept, or the last ones.
script() {
  case $weekly,$1 in
    *,coverage)     tools/coverage.sh ;;
    ,faults)        tests/hardening/faults/plant.py --minutes "$(minutes_for_faults)" --seed "$seed" ;;
    yes,faults)     tests/hardening/faults/plant.py ;;
    *,everywhere)   tools/in_venv.sh tests/platform/everywhere/run.py all ;;
    *,programs)     make programs ;;
  esac >"$logs/$1.log" 2>&1
  code=$?
  [ "$code" -eq 0 ] || tail -n 60 "$logs/$1.log"
  { echo "$1:"; grep -e "^$1: " "$logs/$1.log" || tail -n 3 "$logs/$1.log"; } | tee -a "$closing"
  return "$code"
}

count=$(echo "$presets" | wc -w)
at=0
for preset in $presets; do
  at=$((at + 1))
  since=$(date +%s)
  case $preset in coverage|faults|everywhere|programs)
    printf '\n== %s (%d of %d)\n' "$preset" "$at" "$count"
    script "$preset" || failed="$failed $preset" ;;
  *)
    printf '\n== %s (%d of %d): build\n' "$preset" "$at" "$count"
    if build "$preset"; then
      printf '== %s (%d of %d): test, after %d s\n' "$preset" "$at" "$count" $(($(date +%s) - since))
      run "$preset" || failed="$failed $preset"
    else
      failed="$failed $preset"
    fi ;;
  esac
  echo "  in $(($(date +%s) - since)) s" >>"$closing"
done

printf '\n== What became of each build\n'
cat "$closing"
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
echo "all builds passed: $presets"
