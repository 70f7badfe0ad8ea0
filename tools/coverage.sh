#!/bin/sh
# coverage.sh: builds the preset coverage, runs the tests that exercise the core, and reports the lines that they reached.
# coverage.sh --without: prints the pattern of the tests that it leaves out.
set -eu
cd "$(dirname -- "$(readlink -f -- "$0")")/.."
jobs=${JOBS:-$(nproc)}
least=99
most=30
log=build-coverage/tests.log

# These tests are about symbols, headers, instructions, page faults or installed files, and not about what the core does.
without='^(hitpath|start_faults|install|rooms|library|programs|public_header|checked_exports|example_|cxx_header)'
[ "${1:-}" != --without ] || { echo "$without"; exit 0; }
cmake --preset coverage --log-level=NOTICE
cmake --build build-coverage -j "$jobs" >build-coverage/build.log 2>&1 || { tail -n 60 build-coverage/build.log; exit 1; }
rm -f build-coverage/counters/*
code=0
# The names of tests that fail are printed at the end, because the rest of this log is long.
run() { ctest --test-dir build-coverage "$@" --output-on-failure --no-tests=error >>"$log" 2>&1 || code=$?; }
: >"$log"
run -L '^quick$' -LE '^programs$' -E "$without" -j "$((jobs + 1))"
# Beside it the one test of those too long for `make check` that sees more: a table of samples that is full.
run -R '^heap_profile$'
grep -a -A 40 -e '\*\*\*\(Failed\|Timeout\|Exception\)' "$log" | tail -n 80
sed -n 's/^.*Test  *#[0-9]*: \([^ ]*\) .*\*\*\*\(Failed\|Timeout\|Exception[^ ]*\).*/coverage: the test \1 failed/p' "$log"
python3 tests/model/coverage/report.py build-coverage --least "$least" --most "$most" --html build-coverage/html || code=$?
exit "$code"
