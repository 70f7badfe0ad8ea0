# The short front of the CMake build. `make help` lists it.
JOBS   ?= $(shell nproc)
PREFIX ?= /usr/local
PROG   ?=
ROWS   ?=
THP    ?=
ONLY   ?=
export JOBS

.DEFAULT_GOAL := all
.PHONY: all tools run check test programs bench bench-quick install format clean help

all: build/build.ninja          ## build/libhakmem.so, build/libhakmem.a, build/bench/* (release)
	@cmake --build build -j $(JOBS) --target hakmem hakmem_static hakmem-replay bench/all
	@$(if $(MAKECMDGOALS:all=),:,printf '%s\n' 'Next: make run      a real program on glibc and on HAKMEM: time, memory, the report (a minute)' \
	  '      make check    the quick tests (three minutes)' '      build/hakmem-run --report - program args')

build/build.ninja: CMakeLists.txt CMakePresets.json
	@tools/setup.sh build
	@cmake --preset release --log-level=NOTICE

run: all                        ## a real program on glibc and on HAKMEM (PROG="command args" for any other), and the report
	@tools/setup.sh run
	@tools/in_venv.sh tools/run_demo.py --library build/libhakmem.so $(if $(PROG),--prog '$(subst ','\'',$(PROG))')

check: build/build.ninja        ## the quick tests, < 3 min
	@tools/setup.sh test
	@cmake --build build -j $(JOBS)
	@ctest --test-dir build -L '^quick$$' -j $(JOBS) --output-on-failure

test:                           ## all tests: release, debug, clang, sanitizers, valgrind, real programs
	@tools/setup.sh test
	@tools/test_all.sh

programs: all                   ## every real program beside its control on glibc: downloads some 5 GB, then hours (ONLY=r,vim for some)
	@tools/setup.sh programs
	@tools/in_venv.sh tests/programs/run.py --set full $(if $(ONLY),--only '$(ONLY)',--least 36) --json build/programs.json --logs build/programs-logs

bench: all                      ## HAKMEM and its peers, some 15 min (ROWS=P1,P4 for some rows, exact, all for the slow ones too; THP=always|madvise|never)
	@tools/setup.sh bench '$(ROWS)'
	@tools/in_venv.sh bench/run.py $(if $(ROWS),--rows '$(ROWS)') $(if $(THP),--thp '$(THP)')

bench-quick: all                ## a few rows, a tenth of the work, < 90 s
	@tools/setup.sh bench
	@tools/in_venv.sh bench/run.py --quick --budget 80

install: all                    ## headers, libraries, pkg-config, CMake package, hakmem-run (PREFIX=/usr/local; DESTDIR= works)
	@cmake --install build --prefix $(PREFIX)

format:                         ## the C files in their shape (clang-format 14)
	@tests/format/check_format.py . --write

clean:                          ## remove every build folder
	rm -rf build build-*

help:                           ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 13
