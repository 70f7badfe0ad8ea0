# The short front of the CMake build. `make help` lists it.
JOBS   ?= $(shell nproc)
PREFIX ?= /usr/local
PROG   ?=
ROWS   ?=
THP    ?=
ONLY   ?=
TARGET ?=
PRESETS ?=
MACHINES ?= x86_64
LIBCS ?= gnu
SECONDS ?= 10
SANITIZE ?=
export JOBS

.DEFAULT_GOAL := all
.PHONY: all tools run check test test-everywhere coverage faults programs fuzz bench bench-quick install deb rpm dist wheel test-packages format clean help

all: build/build.ninja          ## build/libhakmem.so, build/libhakmem-hardened.so, build/libhakmem.a, build/bench/* (release)
	@cmake --build build -j $(JOBS) --target hakmem hakmem_hardened hakmem_static hakmem_object hakmem-replay hakmem_record hakmem-play bench/all
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

test:                           ## all tests: release, debug, clang, sanitizers, valgrind, real programs (PRESETS="debug tsan": these builds)
	@tools/setup.sh test
	@tools/test_all.sh $(PRESETS)

test-everywhere: build/build.ninja ## aarch64 under an emulator, programs of Debian's for it, pages of 16 and 64 KiB, litmus tests (ONLY=pages for one)
	@tools/setup.sh test
	@tools/in_venv.sh tests/everywhere/run.py $(if $(ONLY),$(ONLY),all)

coverage:                       ## the lines of the core that the tests reach, by room and file; build-coverage/html (5 min)
	@tools/setup.sh test
	@tools/coverage.sh

faults:                         ## plants each fault of tests/faults/faults.txt in a copy: the tests must find it (hours; ONLY=name,name)
	@tools/setup.sh test
	@tests/faults/plant.py $(if $(ONLY),--only '$(ONLY)')

programs: all                   ## every real program beside its control on glibc: downloads some 5 GB, then hours (ONLY=r,vim for some)
	@tools/setup.sh programs
	@tools/in_venv.sh tests/programs/run.py --set full $(if $(ONLY),--only '$(ONLY)',--least 36) --json build/programs.json --logs build/programs-logs

fuzz:                           ## the fuzz targets by coverage, 10 s each (TARGET=heap SECONDS=600 SANITIZE=address,undefined)
	@tools/setup.sh test
	@cmake --preset fuzz --log-level=NOTICE -DHAKMEM_SANITIZE=$(SANITIZE) $(if $(shell command -v clang++),-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
	@cmake --build build-fuzz -j $(JOBS) --target fuzz_programs
	@tests/fuzz/guided.py build-fuzz --seconds $(SECONDS) $(if $(TARGET),--target $(TARGET))

bench: all                      ## HAKMEM and its peers, some 15 min (ROWS=P1,P4 for some rows, exact, guard, all for the slow ones too; THP=always|madvise|never)
	@tools/setup.sh bench '$(ROWS)'
	@tools/in_venv.sh bench/run.py $(if $(ROWS),--rows '$(ROWS)') $(if $(THP),--thp '$(THP)')

bench-quick: all                ## a few rows, a tenth of the work, < 90 s
	@tools/setup.sh bench
	@tools/in_venv.sh bench/run.py --quick --budget 80

install: all                    ## headers, libraries, pkg-config, CMake package, hakmem-run (PREFIX=/usr/local; DESTDIR= works)
	@cmake --install build --prefix $(PREFIX)

deb:                            ## Debian packages: libhakmem0, libhakmem-dev, hakmem-tools; build-packages
	@tools/setup.sh package
	@tools/dist/packages.sh deb

rpm:                            ## RPM packages: libhakmem, libhakmem-devel, hakmem-tools; build-packages
	@tools/setup.sh package
	@tools/dist/packages.sh rpm

dist:                           ## the source tarball, which builds without git; build-packages
	@tools/dist/source.py

wheel:                          ## the Python wheel: the tool, the libraries, hakmem-run; glibc 2.17 or newer (MACHINES="x86_64 aarch64" LIBCS="gnu musl" for all four); build-packages
	@tools/setup.sh wheel
	@tools/in_venv.sh tools/dist/wheel.py $(foreach machine,$(MACHINES),--machine $(machine)) $(foreach libc,$(LIBCS),--libc $(libc))

test-packages: build/build.ninja  ## builds each kind of package, installs and uses it: debootstrap's root, RPM, tarball, wheel
	@tools/setup.sh test
	@ctest --test-dir build -R '^packages_' --output-on-failure --no-tests=error

format:                         ## the C files in their shape (clang-format 14)
	@tests/format/check_format.py . --write

clean:                          ## remove every build folder
	rm -rf build build-*

help:                           ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 16
