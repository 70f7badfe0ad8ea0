"""Checks hakmem doctor: it must find programs that cannot be served, and confirm programs that can."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from hakmem import doctor, elf, protections
from tool import HARDENED, LIBRARY, LINKED, LINKED_SHARED, OWN_MALLOC, PLAIN, PYTHON, STATIC, ToolTest


class Programs(ToolTest):
    def test_here_it_serves(self) -> None:
        said = self.ok("doctor")
        self.assertRegex(said, r"ok  a small program \(Python\)  served, \d+")
        self.assertIn("HAKMEM serves here.", said)
        for subject in (
            "RLIMIT_AS",
            "RLIMIT_DATA",
            "vm.max_map_count",
            "huge pages",
            "overcommit",
            "swap",
            "cgroup",
            "PSI",
            "libc",
            "kernel",
            "ASLR",
            "static TLS",
        ):
            self.assertIn(subject, said)

    def test_a_program_that_can_be_served(self) -> None:
        self.assertRegex(self.ok("doctor", "--", PLAIN), r"ok  .*test_tool_plain  can be served")
        self.assertRegex(
            self.ok("doctor", "--try", "--", PLAIN, "5000"), r"test_tool_plain  tried: served, (5 \d\d\d|\d\d+ \d\d\d)"
        )

    def test_a_static_program(self) -> None:
        self.refused(1, "statically linked", "doctor", "--", STATIC)

    def test_a_program_with_a_malloc_of_its_own(self) -> None:
        self.refused(1, "it has an allocator of its own linked in", "doctor", "--", OWN_MALLOC)

    def test_a_program_that_is_linked_with_hakmem(self) -> None:
        said = self.ok("doctor", "--try", "--", LINKED, "5000")
        self.assertIn("it is linked with HAKMEM: that copy serves it", said)
        self.assertRegex(said, r"test_tool_linked  tried: served, (5 \d\d\d|\d\d+ \d\d\d)")
        stripped = self.folder / "stripped"
        subprocess.run(["strip", "-o", stripped, LINKED], check=True)
        self.assertIn("it is linked with HAKMEM", self.ok("doctor", "--", str(stripped)))
        self.assertIn("it runs on HAKMEM without a preload too", self.ok("doctor", "--", LINKED_SHARED))

    def test_trying_claims_no_more_than_it_saw(self) -> None:
        script = self.folder / "dies"
        script.write_text("#!/bin/sh\nkill -9 $$\n")
        script.chmod(0o755)
        self.assertRegex(self.ok("doctor", "--try", "--", str(script)), r"note .*tried: wrote no report")

    def test_a_script_is_judged_by_its_interpreter(self) -> None:
        script = self.folder / "script"
        script.write_text(f"#!{STATIC}\n")
        script.chmod(0o755)
        self.refused(1, f"(run by {STATIC}) will not be served", "doctor", "--", str(script))

    def test_pythons_pools(self) -> None:
        self.assertIn("PYTHONMALLOC=malloc", self.ok("doctor", "--", PYTHON))

    @unittest.skipUnless(os.geteuid() == 0, "to give a file to another user takes root")
    def test_a_set_user_id_program(self) -> None:
        for mode, word in ((0o4755, "set-user-ID"), (0o2755, "set-group-ID")):
            program = self.folder / f"secure-{mode:o}"
            shutil.copy(PLAIN, program)
            os.chown(program, 65534, 65534)
            program.chmod(mode)
            self.refused(1, word, "doctor", "--", str(program))

    def test_a_library_that_does_not_serve(self) -> None:
        empty = self.folder / "libhakmem.so"
        empty.write_text("not a library")
        served = doctor.small_program_line(empty)
        self.assertEqual((served.level, served.stops), (doctor.WARNING, True))
        self.assertIn("NOT served", served.found)
        for other in (str(empty), "/bin/ls"):
            self.refused(1, "which is not HAKMEM's library", "doctor", HAKMEM_LIBRARY=other)
        self.refused(1, "which is not there", "doctor", HAKMEM_LIBRARY="/none")

    def test_trying_needs_a_program(self) -> None:
        self.refused(64, "--try needs a program", "doctor", "--try")

    def test_misspelled_options_in_the_environment(self) -> None:
        said = self.ok("doctor", HAKMEM_REPRT="x")
        self.assertIn(
            "warning HAKMEM_REPRT no option has this name; did you mean HAKMEM_REPORT?", " ".join(said.split())
        )

    def test_options_in_the_environment_are_told(self) -> None:
        self.assertIn("HAKMEM_PURGE_DELAY is set to '7'", " ".join(self.ok("doctor", HAKMEM_PURGE_DELAY="7").split()))


class Protections(ToolTest):
    def test_what_holds_here(self) -> None:
        said = self.ok("doctor")
        self.assertRegex(said, rf"ok  hardened library  {re.escape(os.path.realpath(HARDENED))}")
        self.assertIn("ok  checked copies  a write beyond the end of a block ended its program", said)
        self.assertRegex(said, r"ok  guard pages  (MADV_GUARD_INSTALL|PROT_NONE)")
        self.assertIn("ok  remote track  a block freed by two threads ended its program", said)
        self.assertIn("core files", said)

    def test_without_the_hardened_library(self) -> None:
        alone = self.folder / "libhakmem.so"
        shutil.copy(LIBRARY, alone)
        said = self.ok("doctor", HAKMEM_LIBRARY=str(alone))
        self.assertIn("note  hardened library  no libhakmem-hardened.so in", said)
        self.assertNotIn("checked copies", said)

    def test_a_library_that_checks_nothing(self) -> None:
        self.assertEqual(protections.checked_copies(Path(LIBRARY)).level, doctor.WARNING)

    def test_without_a_library(self) -> None:
        line = protections.remote_track(self.folder / "libhakmem.so")
        self.assertEqual((line.level, line.found), (doctor.WARNING, "a block freed by two threads was not seen"))

    def test_guard_pages(self) -> None:
        system = doctor.System(self.folder)
        (by_advice,) = protections.guard_pages(system, lambda: True)
        self.assertIn("MADV_GUARD_INSTALL", by_advice.found)
        (self.folder / "proc/sys/vm").mkdir(parents=True)
        (self.folder / "proc/sys/vm/max_map_count").write_text("65530\n")
        (by_protection,) = protections.guard_pages(system, lambda: False)
        self.assertIn("PROT_NONE", by_protection.found)
        self.assertIn("65 530", by_protection.found)

    def test_the_kernel_is_asked(self) -> None:
        release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
        if release >= (6, 13):
            self.assertTrue(protections.guard_advice_works())
        elif release < (6, 12):
            self.assertFalse(protections.guard_advice_works())

    def test_core_files(self) -> None:
        system = doctor.System(self.folder)
        self.assertEqual(protections.core_files(system).level, doctor.NOTE)
        (self.folder / "proc/sys/kernel").mkdir(parents=True)
        (self.folder / "proc/sys/kernel/core_pattern").write_text("|/usr/lib/collector %p\n")
        self.assertEqual(protections.core_files(system).found, "go to /usr/lib/collector")


class Files(unittest.TestCase):
    def test_this_builds_programs(self) -> None:
        plain, static, own, library = (elf.read(Path(name)) for name in (PLAIN, STATIC, OWN_MALLOC, LIBRARY))
        self.assertIsNone(plain.own_malloc)
        self.assertIn("libc.so.6", plain.needed)
        self.assertIsNone(static.interpreter)
        self.assertEqual((own.own_malloc, own.exports_malloc), ("an allocator of its own", True))
        self.assertEqual(library.own_malloc, "HAKMEM")
        self.assertGreater(library.tls_bytes, 0)

    def test_other_machines(self) -> None:
        library = elf.read(Path(LIBRARY))
        self.assertIsNone(elf.wrong_machine(elf.read(Path(PLAIN)), library))
        self.assertIn("32 bits", elf.wrong_machine(elf.Elf(wide=False, machine=3), library))

    def test_other_c_libraries(self) -> None:
        machine = elf.read(Path(PLAIN)).machine
        musl = elf.Elf(wide=True, machine=machine, interpreter="/lib/ld-musl-x86_64.so.1", needed=["libc.musl-x86_64.so.1"])
        of_musl = elf.Elf(wide=True, machine=machine, needed=["libc.so"], own_malloc="HAKMEM")
        self.assertEqual([elf.c_library(elf.read(Path(name))) for name in (PLAIN, LIBRARY, STATIC)], ["glibc", "glibc", None])
        self.assertEqual((elf.c_library(musl), elf.c_library(of_musl)), ("musl", "musl"))
        files = {"musl": musl, "library": of_musl, "plain": elf.read(Path(PLAIN)), "ours": elf.read(Path(LIBRARY))}
        with mock.patch.object(elf, "read", lambda path: files[path.name]), mock.patch.object(elf, "privilege_of", lambda _: None):
            self.assertIsNone(elf.why_not_served(Path("musl"), Path("library")))
            self.assertIsNone(elf.why_not_served(Path("plain"), Path("ours")))
            self.assertIn("built for musl, the library for glibc", elf.why_not_served(Path("musl"), Path("ours")))
            self.assertIn("built for musl, the library for glibc", elf.why_not_served(Path("musl")))
            self.assertIn("built for glibc, the library for musl", elf.why_not_served(Path("plain"), Path("library")))

    def test_what_is_broken_is_no_program(self) -> None:
        whole = Path(PLAIN).read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            for size in (0, 3, 20, 70, 200):
                path = Path(folder) / str(size)
                path.write_bytes(whole[:size])
                self.assertIsNone(elf.read(path))
        self.assertIsNone(elf.read(Path("/none")))


class Systems(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.system = doctor.System(self.root)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def line(self, check) -> doctor.Line:
        return next(iter(check(self.system)))

    def test_overcommit(self) -> None:
        self.write("proc/sys/vm/overcommit_memory", "0\n")
        self.assertEqual(self.line(doctor.overcommit).level, doctor.OK)
        self.write("proc/sys/vm/overcommit_memory", "2\n")
        self.write("proc/meminfo", "CommitLimit:    3072 kB\nCommitted_AS:    1024 kB\n")
        self.assertEqual(self.line(doctor.overcommit).level, doctor.NOTE)
        self.assertIn("2.0 MiB left", self.line(doctor.overcommit).found)

    def test_files_of_another_form(self) -> None:
        """On a system that only resembles Linux, a value that cannot be read counts as missing."""
        self.write("proc/meminfo", "SwapTotal:\nSwapFree: max kB\nCommitLimit: 3 kB\n")
        self.assertEqual([self.system.meminfo(name) for name in ("SwapTotal", "SwapFree", "CommitLimit")], [None, None, 3072])
        (self.root / "proc/meminfo").write_bytes(b"\xff\xfe")
        self.assertIsNone(self.system.meminfo("SwapTotal"))

    def test_huge_pages(self) -> None:
        for text, level in (("always [madvise] never", doctor.OK), ("always madvise [never]", doctor.NOTE)):
            self.write("sys/kernel/mm/transparent_hugepage/enabled", text)
            self.assertEqual(self.line(doctor.huge_pages).level, level)

    def test_mappings(self) -> None:
        for text, level in (("65530", doctor.OK), ("4096", doctor.NOTE)):
            self.write("proc/sys/vm/max_map_count", text)
            self.assertEqual(self.line(doctor.mappings).level, level)

    def test_swap(self) -> None:
        self.write("proc/meminfo", "SwapTotal: 2048 kB\nSwapFree: 1024 kB\n")
        self.assertIn("1.0 MiB of 2.0 MiB", self.line(doctor.swap).found)

    def test_cgroup_2(self) -> None:
        """The limit of a parent group counts too."""
        self.write("sys/fs/cgroup/cgroup.controllers", "cpu memory")
        self.write("proc/self/cgroup", "0::/user/app\n")
        self.write("sys/fs/cgroup/user/app/memory.max", "max")
        self.write("sys/fs/cgroup/user/memory.max", str(512 << 20))
        self.write("sys/fs/cgroup/memory.max", str(900 << 20))
        self.write("sys/fs/cgroup/user/app/memory.high", "max")
        self.write("sys/fs/cgroup/user/app/cpu.max", "150000 100000")
        memory, cpu = doctor.cgroup(self.system)
        self.assertEqual(memory.found, "memory.max 512.0 MiB")
        self.assertIn("quota of 1.5 CPUs", cpu.found)

    def test_cgroup_1(self) -> None:
        self.write("proc/self/cgroup", "3:memory:/app\n2:cpu,cpuacct:/app\n")
        self.write("sys/fs/cgroup/memory/app/memory.limit_in_bytes", str(256 << 20))
        self.write("sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "50000")
        self.write("sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000")
        memory, cpu = doctor.cgroup(self.system)
        self.assertIn("256.0 MiB", memory.found)
        self.assertIn("quota of 0.5 CPUs", cpu.found)

    def test_nothing_readable_stops_nothing(self) -> None:
        lines = list(doctor.environment_lines(self.system))
        self.assertFalse(any(line.stops for line in lines))
        self.assertEqual(self.line(doctor.cgroup).level, doctor.NOTE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
