"""Tests the checks of this folder: small libraries and numbers with one mistake each must be reported.    test_hitpath.py PAIRS CLOCK CC"""
import contextlib
import io
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import check_loops
import check_modes
import check_programs
from check_hitpath import check, check_aarch64
from check_kernel import judged
from check_pairs import instructions_a_pair
from locks import bound
from loops import Bench, Loop

PAIRS, CLOCK, COMPILER = "", "", "cc"
FRONT = """#include <stddef.h>
struct front { void **top; long served; };
static struct front none;
__attribute__((visibility("hidden"))) _Thread_local struct front *self = &none;
long together;
void elsewhere(void);
"""
MALLOC = "void *malloc(size_t n) { void *p = self->top[n]; self->top--; BREAK return p; }\n"
FREE = "void free(void *p) { *self->top = p; self->top++; }\n"
# malloc has 66 instructions and free has 1. malloc returns a new block each time.
LONG = """__asm__(".text; .globl malloc, free; .type malloc, @function; .type free, @function;"
"malloc: .rept 60; nop; .endr; lea room(%rip), %rax; add used(%rip), %rax; add $15, %rdi; and $-16, %rdi; add %rdi, used(%rip); ret;"
".size malloc, .-malloc; free: ret; .size free, .-free;"
".bss; .balign 16; used: .skip 16; room: .skip 1 << 24; .section .note.GNU-stack,\\"\\",@progbits");
"""
# Each malloc makes a system call.
ASKING = """#include <sys/mman.h>
static char room[1 << 24], *next = room;
void *malloc(size_t size) { madvise(0, 0, 0); char *p = next; next += (size + 15) & -(size_t)16; return p; }
void free(void *p) { (void)p; }
"""


def built(folder: str, code: str, more: tuple = ()) -> str:
    source, library = Path(folder) / "a.c", Path(folder) / "liba.so"
    source.write_text(code)
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O2", "-fno-builtin", "-ftls-model=initial-exec", *more, str(source), "-o", str(library)], check=True)
    return str(library)


@unittest.skipUnless(shutil.which("aarch64-linux-gnu-gcc"), "no cross compiler")
class FastPathOfAarch64(unittest.TestCase):
    def said(self, wrong: str) -> str:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), mock.patch(f"{__name__}.COMPILER", "aarch64-linux-gnu-gcc"):
            return "\n".join(check_aarch64(built(folder, FRONT + MALLOC.replace("BREAK", wrong) + FREE)))

    def test_a_good_one_passes(self):
        self.assertEqual(self.said("self->served++;"), "")

    def test_call(self):
        self.assertIn("malloc: calls", self.said("elsewhere();"))

    def test_atomic_addition(self):
        self.assertIn("malloc: ", self.said("__atomic_fetch_add(&self->served, 1, __ATOMIC_RELAXED);"))

    def test_release(self):
        self.assertIn("malloc: atomic", self.said("__atomic_store_n(&self->served, 1, __ATOMIC_RELEASE);"))

    def test_fence(self):
        self.assertIn("malloc: atomic", self.said('__asm__ volatile("dmb ishst" ::: "memory");'))

    def test_write_to_what_is_shared(self):
        self.assertIn("malloc: writes to what is not the thread's own", self.said("together++;"))

    def test_too_long(self):
        self.assertIn("malloc: instructions of the path", self.said('__asm__ volatile(".rept 20; nop; .endr");'))


@unittest.skipUnless(platform.machine() == "x86_64", "read for x86_64 only")
class FastPath(unittest.TestCase):
    def said(self, wrong: str, free: str = FREE, more: tuple = ()) -> str:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            return "\n".join(check(built(folder, FRONT + MALLOC.replace("BREAK", wrong) + free, more)))

    def test_a_good_one_passes(self):
        self.assertEqual(self.said("self->served++;"), "")

    def test_call(self):
        self.assertIn("malloc: calls", self.said("elsewhere();"))

    def test_call_for_thread_local_storage(self):
        self.assertIn("malloc: calls", self.said("self->served++;", more=("-ftls-model=global-dynamic",)))

    def test_jump_to_elsewhere(self):
        self.assertIn("free: the path does not end in ret", self.said("", "void free(void *p) { (void)p; elsewhere(); }\n"))

    def test_atomic_addition(self):
        self.assertIn("malloc: atomic", self.said("__atomic_fetch_add(&self->served, 1, __ATOMIC_RELAXED);"))

    def test_exchange(self):
        self.assertIn("malloc: atomic", self.said('__asm__ volatile("xchgq %0, (%1)" : "+r"(p) : "r"(self) : "memory");'))

    def test_fence(self):
        self.assertIn("malloc: atomic", self.said('__asm__ volatile("mfence");'))

    def test_common_counter(self):
        self.assertIn("not the thread's own", self.said("together++;"))

    def test_common_counter_by_pointer(self):
        self.assertIn("not the thread's own", self.said('long *at = &together; __asm__("" : "+r"(at)); *at = 1;'))

    def test_offset_to_what_is_common(self):
        at = 'long at = (long)&together; __asm__("add %1, %0" : "+r"(at) : "m"(*(long *)self)); *(long *)at = 1;'
        self.assertIn("not the thread's own", self.said(at))

    def test_offset_to_what_is_own(self):
        at = 'char *at = (char *)8; __asm__("add %1, %0" : "+r"(at) : "r"(self)); *(long *)at = 1;'
        self.assertNotIn("not the thread's own", self.said(at))

    def test_write_into_the_block(self):
        wrong = "void free(void *p) { *(void **)p = 0; }\n"
        self.assertIn("not the thread's own", self.said("", wrong))

    def test_too_long(self):
        self.assertIn("instructions of the path", self.said('__asm__ volatile(".rept 18; nop; .endr");'))


@unittest.skipUnless(shutil.which("valgrind"), "no valgrind here")
class Pairs(unittest.TestCase):
    def test_instructions_are_counted_exactly(self):
        with tempfile.TemporaryDirectory() as folder:
            found = instructions_a_pair(built(folder, LONG), PAIRS)
        self.assertGreater(found, bound("pair_instructions"))
        self.assertIn(found - 67, range(2, 7), "67 in the library, and two jumps of one to three instructions")


@unittest.skipUnless(shutil.which("valgrind"), "no valgrind here")
class Counting(unittest.TestCase):
    def counted(self, code: str, pairs: int) -> tuple[int, int]:
        with tempfile.TemporaryDirectory() as folder:
            return Bench(built(folder, code), Path(PAIRS).parent, CLOCK).counted(Loop("pairs", f"test_pairs {pairs}"))

    def test_instructions(self):
        self.assertEqual(self.counted(LONG, 2000)[0] - self.counted(LONG, 1000)[0], 67 * 1000)

    def test_system_calls(self):
        self.assertEqual(self.counted(LONG, 1000)[1], 0)
        self.assertEqual(self.counted(ASKING, 1000)[1], 1000)


class Loops(unittest.TestCase):
    GOOD = {"instructions": 100_000, "system_calls": 20, "page_faults": 1000}

    def judged(self, **other: int) -> tuple[int, int]:
        worse, better = check_loops.judged("a loop", self.GOOD | other, self.GOOD)
        return len(worse), len(better)

    def test_as_locked(self):
        self.assertEqual(self.judged(), (0, 0))
        self.assertEqual(self.judged(instructions=101_000, page_faults=1012), (0, 0))

    def test_more(self):
        for other in ({"instructions": 101_001}, {"system_calls": 21}, {"page_faults": 1013}):
            self.assertEqual(self.judged(**other), (1, 0), other)

    def test_less(self):
        for other in ({"instructions": 99_000}, {"system_calls": 19}, {"page_faults": 980}):
            self.assertEqual(self.judged(**other), (0, 1), other)

    def test_faults_with_huge_pages_may_differ(self):
        few, some, many = ({"instructions": 1, "page_faults_with_huge_pages": n} for n in (1000, 1240, 1260))
        self.assertEqual(check_loops.judged("a program", some, few), ([], []))
        self.assertEqual(len(check_loops.judged("a program", many, few)[0]), 1)

    def test_nothing_counted(self):
        self.assertEqual(self.judged(instructions=0), (1, 1))

    def test_not_locked(self):
        self.assertEqual(len(check_loops.judged("a new loop", self.GOOD, {})[0]), 1)


class Programs(unittest.TestCase):
    """Costs of a real program are compared only if its version is the locked one."""

    def answer(self, locks: str, version: str, costs: dict[str, int]) -> int:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            file = Path(folder) / "programs.json"
            file.write_text(locks)
            with mock.patch.multiple(check_programs, FILE=file, compiler=lambda _: "gcc 12.2", version=lambda _: version,
                                     measured=lambda _, programs: {name: costs for name in programs}):
                with mock.patch.object(sys, "argv", ["check_programs.py", "lua"]):
                    self.addCleanup(said.close)
                    return check_programs.main()

    LOCKS = '{"gcc 12.2": {"lua, lua5.4 5.4.4": {"instructions": 100000, "page_faults_with_huge_pages": 1000}}}'

    def test_the_version_that_is_locked(self):
        for costs, code in (({"instructions": 100_900}, 0), ({"instructions": 101_100}, 1),
                            ({"instructions": 99_000, "page_faults_with_huge_pages": 1300}, 1)):
            self.assertEqual(self.answer(self.LOCKS, "lua, lua5.4 5.4.4", costs), code, costs)

    def test_another_version_or_none(self):
        for version in ("lua, lua5.4 5.4.6", ""):
            self.assertEqual(self.answer(self.LOCKS, version, {"instructions": 10**9}), check_loops.CANNOT_RUN)

    def test_a_version_is_read(self):
        for said, read in (("Python 3.11.2", "3.11.2"), ("ruby 3.1.2p20 (2022-04-12)", "3.1.2p20"), ("none", "")):
            program = check_programs.Program("p", "", "", f"/bin/echo {said}")
            self.assertEqual(check_programs.version(program), f"p, echo {read}" if read else "")
        self.assertEqual(check_programs.version(check_programs.Program("p", "", "", "/nowhere/p --version")), "")

    def test_six_are_locked(self):
        for compiler, locked in json.loads(check_programs.FILE.read_text()).items():
            self.assertEqual({name.partition(",")[0] for name in locked}, {p.name for p in check_programs.PROGRAMS}, compiler)


class Modes(unittest.TestCase):
    CASE = check_modes.Case("a case", "", 1.5)
    GOOD = {mode: check_modes.Took(10_000, 1000) for mode in ("always", "madvise", "never", "refused")}

    def test_good_numbers_pass(self):
        self.assertEqual(check_modes.judged(self.CASE, self.GOOD), [])

    def test_bad_numbers(self):
        for mode, taken in (("always", (15_400, 9)), ("never", (10_900, 1000)), ("never", (10_000, 1020))):
            wrong = self.GOOD | {mode: check_modes.Took(*taken)}
            self.assertEqual(len(check_modes.judged(self.CASE, wrong)), 1, (mode, taken))

    def test_a_mode_that_cannot_be_set_is_no_result(self):
        with mock.patch.object(check_modes.thp, "mode", lambda _: contextlib.nullcontext("not permitted")):
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertIsNone(check_modes.measured("", Path()))


class Kernel(unittest.TestCase):
    GOOD = {"faults": 175, "glibc": 155, "calls": 70, "calls of twice the steps": 70}

    def test_good_numbers_pass(self):
        self.assertEqual(judged(self.GOOD), [])

    def test_bad_numbers(self):
        for wrong in ({"faults": 251, "glibc": 240}, {"faults": 181}, {"calls of twice the steps": 71},
                      {"calls": 0, "calls of twice the steps": 0}):
            self.assertEqual(len(judged(self.GOOD | wrong)), 1, wrong)


if __name__ == "__main__":
    PAIRS, CLOCK, COMPILER = (sys.argv.pop(1) for _ in range(3))
    unittest.main()
