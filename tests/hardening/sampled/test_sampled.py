#!/usr/bin/env python3
"""Checks what a user sees of sampled guard pages: the report of each mistake and how the program ends. Handlers of the program must see the same as
without HAKMEM.

test_sampled.py --library libhakmem.so --programs FOLDER [unittest's own arguments]
"""
import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

arguments = argparse.Namespace()
HEADLINE = re.compile(r"hakmem: (?P<what>[^:]+):(?: (?P<access>read|write) at)? (?P<address>0x[0-9a-f]+), (?P<place>.+)")
TITLE = re.compile(r"  (allocated|freed|accessed|called) by thread (\d+):")
FRAME = re.compile(r"    #(\d+) 0x[0-9a-f]+(?: (?P<function>\S+)\+0x[0-9a-f]+)?(?: \((?P<module>/.*)\+0x(?P<at>[0-9a-f]+)\))?")
HINT = "hakmem: `hakmem symbolize` adds files and lines (docs/GUARD.md)"
SEGV, ABRT = -signal.SIGSEGV, -signal.SIGABRT


class Report:
    """Reads the report. Every line of stderr must belong to it."""

    def __init__(self, text: str):
        self.stacks: dict[str, list[re.Match]] = {}
        self.threads: dict[str, str] = {}
        lines = text.splitlines()
        self.head = HEADLINE.fullmatch(lines[0])
        assert self.head, text
        end = lines.index(HINT)
        self.rest = lines[end + 1:]
        for line in lines[1:end]:
            if title := TITLE.fullmatch(line):
                stack = self.stacks[title[1]] = []
                self.threads[title[1]] = title[2]
            elif frame := FRAME.fullmatch(line):
                assert int(frame[1]) == len(stack), text
                stack.append(frame)
            else:
                raise AssertionError(f"no line of a report: {line!r} in {text}")

    def functions(self, title: str) -> list[str]:
        return [frame["function"] for frame in self.stacks[title]]


def without_cores() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LD_PRELOAD": arguments.library, "HAKMEM_GUARD_SAMPLE": "1", "HAKMEM_BIN_CAP": "1"} | more


def run(*command: str, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=500, errors="replace",
                          preexec_fn=without_cores, check=False)


def program(name: str) -> str:
    return str(arguments.programs / f"test_sampled_{name}")


def mistake(how: str, of: str = "mistakes", **more: str) -> subprocess.CompletedProcess:
    return run(program(of), how, **more)


class Telling(unittest.TestCase):
    def told(self, how: str, end: int, what: str, last: str = "", of: str = "mistakes") -> Report:
        done = mistake(how, of)
        self.assertEqual(done.returncode, end, done.stderr)
        report = Report(done.stderr)
        self.assertEqual(report.head["what"], what)
        self.assertEqual([report.head["address"]], re.findall(r"^bad (0x[0-9a-f]+)$", done.stdout, re.MULTILINE))
        self.assertEqual(len(report.rest), 1 if last else 0, done.stderr)
        if last:
            self.assertIn(last, report.rest[0])
        return report

    def assert_stack(self, report: Report, title: str, *functions: str) -> None:
        self.assertEqual(report.functions(title)[:len(functions)], list(functions))
        self.assertIn("main", report.functions(title))


class Mistakes(Telling):
    def test_behind(self):
        for _ in range(8):  # so that blocks at both ends of the page occur
            report = self.told("behind", SEGV, "access behind a block")
            self.assertRegex(report.head["place"], r"^\d+ bytes behind the end of the block of 100 bytes at 0x[0-9a-f]+$")
            self.assertEqual(report.head["access"], "write")
            self.assert_stack(report, "allocated", "make_block")
            self.assert_stack(report, "accessed", "touch")
            self.assertNotIn("freed", report.stacks)

    def test_before(self):
        report = self.told("before", SEGV, "access before a block")
        self.assertIn("before the start of the block of 100", report.head["place"])

    def test_after(self):
        report = self.told("after", SEGV, "use after free")
        self.assertRegex(report.head["place"], r"^byte 5 of the freed block of 100 bytes at 0x[0-9a-f]+$")
        self.assert_stack(report, "allocated", "make_block")
        self.assert_stack(report, "freed", "drop_block", "after")
        self.assert_stack(report, "accessed", "touch", "after")

    def test_threads_are_told_apart(self):
        report = self.told("after_thread", SEGV, "use after free")
        self.assertEqual(report.threads["allocated"], report.threads["accessed"])
        self.assertNotEqual(report.threads["allocated"], report.threads["freed"])
        self.assertEqual(report.functions("freed")[:2], ["drop_block", "drop_in_thread"])

    def test_twice(self):
        report = self.told("twice", ABRT, "the block is already free", "hakmem: free(): block already free: address 0x")
        for title in ("freed", "called"):
            self.assert_stack(report, title, "drop_block", "twice")

    def test_inside(self):
        report = self.told("inside", ABRT, "not the start of a block", "hakmem: free(): pointer inside a block: address 0x")
        self.assertIn("byte 16 of the block of 100", report.head["place"])
        self.assert_stack(report, "called", "drop_block")

    def test_resize_freed(self):
        report = self.told("resize_freed", ABRT, "the block is already free", "hakmem: realloc(): block already free: address 0x")
        self.assertIn("resize_freed", report.functions("called"))

    def test_beside(self):
        for _ in range(8):
            report = self.told("beside", ABRT, "a byte beside a block was written, found at its free", "hakmem: free(): bytes beside")
            self.assert_stack(report, "called", "drop_block")

    def test_small_stacks(self):
        self.told("small_stack", SEGV, "use after free")
        # The walk by frame pointers may skip the caller of a function that has no frame pointer.
        self.assert_stack(self.told("small_signal_stack", SEGV, "use after free"), "accessed", "touch")

    def test_slots_come_round(self):
        self.told("come_round", SEGV, "use after free")

    def test_locked_memory(self):
        """The kernel accepts no guard markers in locked memory, so its pages are protected with mprotect."""
        # The walk by frame pointers may skip the caller of a function that has no frame pointer.
        self.assert_stack(self.told("locked", SEGV, "use after free"), "accessed", "touch")

    def test_many_at_once(self):
        """Several threads make the mistake at the same time. There must be one complete report."""
        self.told("race", SEGV, "use after free")

    def test_in_a_fork_child(self):
        done = mistake("in_child")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(Report(done.stderr).head["what"], "use after free")

    def test_stderr_that_the_program_closed(self):
        done = mistake("stderr_elsewhere")
        self.assertEqual((done.returncode, done.stderr), (SEGV, ""))

    def test_off(self):
        """Negative control: without the option no block is sampled."""
        done = subprocess.run([program("mistakes"), "after"], timeout=500, check=False, capture_output=True, preexec_fn=without_cores,
                              env={"LD_PRELOAD": arguments.library, "HAKMEM_LIMIT": "64m", "HAKMEM_OOM_REPORT": "0"})
        self.assertEqual((done.returncode, done.stderr), (4, b""), "memory ran out first")


class Handlers(Telling):
    """Faults that HAKMEM did not cause, and handlers of the program."""

    def ends(self, how: str, status: int, output: str = "^") -> subprocess.CompletedProcess:
        done = mistake(how)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertRegex(done.stdout, output)
        return done

    def test_own_handler_gets_the_fault_too(self):
        done = self.ends("own", 42, r"bad (0x\w+)\nown 11 \1\n")
        self.assertEqual(Report(done.stderr).head["what"], "use after free")

    def test_own_handler_of_other_faults(self):
        self.assertEqual(self.ends("own_elsewhere", 42, r"\Aown 11 0x40\n\Z").stderr, "")

    def test_handler_that_comes_later(self):
        self.assertEqual(self.ends("own_behind", 42, r"bad (0x\w+)\nown 11 \1\n").stderr, "")

    def test_handler_that_chains(self):
        """The handler finds the action that it would find without HAKMEM, whichever handlers HAKMEM has installed."""
        for ring in ("0", "16"):
            done = mistake("chained", HAKMEM_TRACE_RING=ring)
            self.assertEqual(done.returncode, 42, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"\Aown 11 0x40\n\Z")
            self.assertEqual(done.stderr, "")

    def test_handler_that_restores_what_it_found(self):
        """After the program restores the action that it found, HAKMEM's handler is installed again."""
        self.told("probed", SEGV, "use after free")
        self.told("probed_by_signal", SEGV, "use after free")
        self.assertEqual(Report(self.ends("probed_own", 42, r"bad (0x\w+)\nown 11 \1\n").stderr).head["what"], "use after free")

    def test_handler_that_recovers(self):
        self.assertEqual(self.ends("recover", 0).stderr, "")

    def test_handler_that_resets_itself(self):
        self.assertEqual(self.ends("reset", SEGV, r"\Areset\n\Z").stderr, "")

    def test_default_action(self):
        self.assertEqual(self.ends("elsewhere", SEGV).stderr, "")
        self.assertEqual(self.ends("sent", SEGV).stderr, "")

    def test_ignored(self):
        self.assertEqual(self.ends("sent_ignored", 0).stderr, "")


class Kinds(Telling):
    """The same mistakes in programs that are built in other ways."""

    def test_without_unwind_tables(self):
        """The walk follows frame pointers from the access. The stack of the allocation has only the caller."""
        report = self.told("after", SEGV, "use after free", of="no_tables")
        self.assertEqual(report.functions("accessed")[0], "touch")  # touch has no frame, so its caller is not seen
        self.assertIn("main", report.functions("accessed"))
        self.assertEqual(report.functions("freed")[:1], ["drop_block"])

    def test_without_tables_and_frame_pointers(self):
        report = self.told("after", SEGV, "use after free", of="no_frames")
        self.assertEqual(report.functions("accessed")[0], "touch")

    def test_static(self):
        report = self.told("after", SEGV, "use after free", of="static")
        self.assertEqual(report.functions("accessed")[0], "touch")
        self.assertEqual(report.functions("freed")[:1], ["drop_block"])

    def test_stripped(self):
        with tempfile.TemporaryDirectory() as folder:
            stripped = shutil.copy(program("mistakes"), folder)
            subprocess.run(["strip", stripped], check=True)
            done = run(stripped, "after")
        self.assertEqual(done.returncode, SEGV)
        self.assertEqual(Report(done.stderr).stacks["accessed"][0]["module"], stripped)
        self.assertNotIn("drop_block", done.stderr)

    def test_addresses_are_addr2lines(self):
        if not shutil.which("addr2line"):
            self.skipTest("no addr2line here")
        report = self.told("after", SEGV, "use after free")
        lines = (arguments.source / "mistakes.c").read_text().splitlines()
        for title, inside in (("freed", "free(block)"), ("accessed", "= 1;")):
            frame = report.stacks[title][0]
            said = subprocess.run(["addr2line", "-e", frame["module"], frame["at"]], check=True, capture_output=True, text=True).stdout
            number = int(re.search(r"mistakes\.c:(\d+)", said)[1])
            self.assertIn(inside, lines[number - 1])


class NoMistake(unittest.TestCase):
    def test_many_threads_and_forks(self):
        done = mistake("crowd", HAKMEM_REPORT="-")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"guard_faults +0\b|\A((?!guard_faults).)*\Z")

    def test_scarce_memory(self):
        done = mistake("scarce", HAKMEM_OOM_REPORT="0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, type=os.path.abspath)
    parser.add_argument("--programs", required=True, type=Path)
    _, rest = parser.parse_known_args(namespace=arguments)
    arguments.source = Path(__file__).resolve().parent
    unittest.main(argv=["test_sampled.py"] + rest)


if __name__ == "__main__":
    main()
