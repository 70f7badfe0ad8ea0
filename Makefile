# The short front of the CMake build. `make help` lists it.
JOBS   ?= $(shell nproc)
PREFIX ?= /usr/local
PROG   ?=
ROWS   ?=
PEERS  ?=
THP    ?=
ONLY   ?=
TARGET ?=
PRESETS ?=
MACHINES ?= x86_64
LIBCS ?= gnu
SECONDS ?= 10
SANITIZE ?=
FOR ?= run
export JOBS
# Called with FOR=..., as `make deps` is by hand.
DEPS := $(MAKE) -s deps FOR
# Only targets that call `make deps` install anything. All others say what is missing.
MISSING := --check

.DEFAULT_GOAL := all
.PHONY: all deps run check test test-all test-everywhere coverage faults programs fuzz bench bench-quick install deb rpm dist wheel test-packages format clean help

all: build/build.ninja          ## build/libhakmem.so, build/libhakmem-hardened.so, build/libhakmem.a, build/bench/* (release)
	@cmake --build build -j $(JOBS) --target hakmem hakmem_hardened hakmem_static hakmem_object hakmem-replay hakmem_record hakmem-play bench/all
	@$(if $(MAKECMDGOALS:all=),:,printf '%s\n' 'Next: make run      a real program on glibc and on HAKMEM: time, memory, the report (a minute)' \
	  '      make check    the quick tests (2.5 minutes)' '      build/hakmem-run --report - program args')

build/build.ninja: CMakeLists.txt CMakePresets.json
	@tools/setup.sh $(MISSING) build
	@cmake --preset release --log-level=NOTICE

deps:                           ## installs what `make` and `make run` need (apt as root or by sudo; Python packages into a venv); FOR=test, bench, package, wheel, programs
	@tools/setup.sh $(FOR) '$(ROWS)'

run check test-everywhere programs bench bench-quick test-packages: MISSING =

run: all                        ## a real program on glibc and on HAKMEM (PROG="command args" for any other), and the report
	@$(DEPS)=run
	@tools/in_venv.sh tools/run_demo.py --library build/libhakmem.so $(if $(PROG),--prog '$(subst ','\'',$(PROG))')

check: build/build.ninja        ## the quick tests, 2.5 min
	@$(DEPS)=test
	@cmake --build build -j $(JOBS)
	@ctest --test-dir build -L '^quick$$' -j $$(($(JOBS) + 1)) --output-on-failure

test:                           ## before each merge: release, debug, clang, sanitizers, valgrind, real programs (PRESETS="debug tsan": these builds)
	@$(DEPS)=test
	@tools/test_all.sh $(PRESETS)

test-all:                       ## every week: make test without its choices, other processors and page sizes, all real programs and faults; hours
	@$(DEPS)=test
	@tools/test_all.sh --weekly $(PRESETS)

test-everywhere: build/build.ninja ## aarch64 under an emulator, programs of Debian's for it, pages of 16 and 64 KiB, litmus tests (ONLY=pages for one)
	@$(DEPS)=test
	@tools/in_venv.sh tests/platform/everywhere/run.py $(if $(ONLY),$(ONLY),all)

coverage:                       ## the lines of the core that the tests reach, by room and file; build-coverage/html (5 min)
	@$(DEPS)=test
	@tools/coverage.sh

faults:                         ## plants each fault of tests/hardening/faults/faults.txt in a copy: the tests must find it (hours; ONLY=name,name)
	@$(DEPS)=test
	@tests/hardening/faults/plant.py $(if $(ONLY),--only '$(ONLY)')

programs: all                   ## every real program beside its control on glibc: downloads some 5 GB, then hours (ONLY=r,vim for some)
	@$(DEPS)=programs
	@tools/in_venv.sh tests/process/programs/run.py --set full $(if $(ONLY),--only '$(ONLY)',--least 36) --json build/programs.json --logs build/programs-logs

fuzz:                           ## the fuzz targets by coverage, 10 s each (TARGET=heap SECONDS=600 SANITIZE=address,undefined)
	@$(DEPS)=test
	@cmake --preset fuzz --log-level=NOTICE -DHAKMEM_SANITIZE=$(SANITIZE) $(if $(shell command -v clang++),-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
	@cmake --build build-fuzz -j $(JOBS) --target fuzz_programs
	@tests/unit/fuzz/guided.py build-fuzz --seconds $(SECONDS) $(if $(TARGET),--target $(TARGET))

bench: all                      ## HAKMEM and its peers, some 15 min (ROWS=P1,P4 for some rows, exact, memory, guard, all for the slow ones too; PEERS=glibc,rpmalloc; THP=always|madvise|never)
	@$(DEPS)=bench
	@tools/in_venv.sh bench/run.py $(if $(ROWS),--rows '$(ROWS)') $(if $(PEERS),--peers '$(PEERS)') $(if $(THP),--thp '$(THP)')

bench-quick: all                ## a few rows, a tenth of the work, < 90 s
	@$(DEPS)=bench
	@tools/in_venv.sh bench/run.py --quick --budget 80

install: all                    ## headers, libraries, pkg-config, CMake package, hakmem-run (PREFIX=/usr/local; DESTDIR= works)
	@cmake --install build --prefix $(PREFIX)

deb:                            ## Debian packages: libhakmem0, libhakmem-dev, hakmem-tools; build-packages
	@$(DEPS)=package
	@tools/dist/packages.sh deb

rpm:                            ## RPM packages: libhakmem, libhakmem-devel, hakmem-tools; build-packages
	@$(DEPS)=package
	@tools/dist/packages.sh rpm

dist:                           ## the source tarball, which builds without git; build-packages
	@tools/dist/source.py

wheel:                          ## the Python wheel: the tool, the libraries, hakmem-run; glibc 2.17 or newer (MACHINES="x86_64 aarch64" LIBCS="gnu musl" for all four); build-packages
	@$(DEPS)=wheel
	@tools/in_venv.sh tools/dist/wheel.py $(foreach machine,$(MACHINES),--machine $(machine)) $(foreach libc,$(LIBCS),--libc $(libc))

test-packages: build/build.ninja  ## builds each kind of package, installs and uses it: debootstrap's root, RPM, tarball, wheel
	@$(DEPS)=test
	@ctest --test-dir build -R '^packages_' --output-on-failure --no-tests=error

format:                         ## the C files in their shape (clang-format 14)
	@tests/model/format/check_format.py . --write

clean:                          ## remove every build folder
	rm -rf build build-*

help:                           ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 16
