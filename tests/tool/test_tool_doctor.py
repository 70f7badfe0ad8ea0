"""Checks hakmem doctor: it finds programs that cannot be served, and confirms those that are."""

import os
import shutil
import tempfile
import unittest
from pathlib import Path

from hakmem import doctor, elf
from tool import LIBRARY, OWN_MALLOC, PLAIN, PYTHON, STATIC, ToolTest


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
        """The limit of a group above counts too."""
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
