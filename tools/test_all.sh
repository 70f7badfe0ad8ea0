#!/bin/sh
# test_all.sh [preset...]: builds every preset and runs its tests; continues after a failure, and prints a summary of
# all at the end. The release build runs all tests; the others the quick ones without the real programs, which would run for
# minutes each time; of these, sanitizers and valgrind have those marked SANITIZE. coverage and faults are no builds of the
# library: tools/coverage.sh, and a part of the faults of tests/faults.
set -u
cd "$(dirname -- "$(readlink -f -- "$0")")/.." || exit 1
jobs=${JOBS:-$(nproc)}
presets=${*:-release debug clang musl asan tsan valgrind coverage faults}
logs=build/test-logs
mkdir -p "$logs"
closing=$logs/closing.txt
: >"$closing"
failed=

# chosen PRESET: which tests a build runs, for ctest. The medium set of real programs holds all that the quick one does.
chosen() { case $1 in release) echo '-L .* -E ^programs(_prepare)?_quick$' ;; musl) echo '-L .*' ;; *) echo '-L ^quick$ -LE ^programs$' ;; esac; }
folder() { case $1 in release) echo build ;; *) echo "build-$1" ;; esac; }

build() {
  { cmake --preset "$1" && cmake --build "$(folder "$1")" -j "$jobs"; } >"$logs/$1-build.log" 2>&1 && return 0
  tail -n 60 "$logs/$1-build.log"
  echo "$1: does not build (see above)" | tee -a "$closing"
  return 1
}

# Shown as it runs, and kept: the closing lines of each build come again at the very end, with what a test that passed wants
# to be read.
# Words of chosen() are options: splitting is wanted, wildcards are not.
# shellcheck disable=SC2046
run() {
  set -f
  status=$logs/$1.status
  { ctest --test-dir "$(folder "$1")" $(chosen "$1") -j "$jobs" --output-on-failure --no-tests=error
    echo $? >"$status"; } 2>&1 | tee "$logs/$1-test.log"
  { echo "$1:"; sed -n '/tests passed/,$p' "$logs/$1-test.log" | grep -v '^$' | grep -v -e '^Label Time' -e 'sec\*proc'
    sed -n '/^notice: /p' "$(folder "$1")/Testing/Temporary/LastTest.log"; } >>"$closing"
  [ "$(cat "$status")" -eq 0 ]
}

# Neither is a build that is tested as the others are: each has a script, of which the last lines are kept.
apart() {
  case $1 in
    coverage) tools/coverage.sh ;;
    # As many as fit into the time, others for each commit; none on a machine that is too slow for it.
    faults) tests/faults/plant.py --minutes 3.5 --seed "$(git rev-parse HEAD 2>/dev/null || echo none)" ;;
  esac >"$logs/$1.log" 2>&1
  code=$?
  [ "$code" -eq 0 ] || tail -n 60 "$logs/$1.log"
  { echo "$1:"; grep -e "^$1: " "$logs/$1.log"; } | tee -a "$closing"
  return "$code"
}

count=$(echo "$presets" | wc -w)
at=0
for preset in $presets; do
  at=$((at + 1))
  case $preset in coverage|faults)
    printf '\n== %s (%d of %d)\n' "$preset" "$at" "$count"
    apart "$preset" || failed="$failed $preset"
    continue ;;
  esac
  printf '\n== %s (%d of %d): build\n' "$preset" "$at" "$count"
  build "$preset" || { failed="$failed $preset"; continue; }
  printf '== %s (%d of %d): test\n' "$preset" "$at" "$count"
  run "$preset" || failed="$failed $preset"
done

printf '\n== What became of each build\n'
cat "$closing"
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
echo "all builds passed: $presets"
