#!/usr/bin/env python3
"""Checks the debug ring on SIGUSR2 and in programs that crash. A program must end in the same way as without the ring.

test_ring.py --library libhakmem.so --crashes PROGRAM [unittest's own arguments]
"""
import argparse
import os
import re
import resource
import signal
import subprocess
import tempfile
import unittest
from dataclasses import dataclass

TITLE, END = "hakmem: last events of each thread, the oldest first", "hakmem: end of events"
EVENT = re.compile(r"  (\d+\.\d{6}) (\w+) (\d+) (bytes|blocks)(?: (0x[0-9a-f]+))?")
SIZE = 4321
arguments = argparse.Namespace()


@dataclass(frozen=True)
class Event:
    clock: float
    name: str
    amount: int
    address: str | None


class Dump:
    """Reads what was written to stderr: the events of each thread by its title, and the lines that do not belong to the ring."""

    def __init__(self, text: str) -> None:
        self.threads: dict[str, list[Event]] = {}
        self.other: list[str] = []
        self.times = 0
        inside = False
        for line in text.splitlines():
            if line == TITLE:
                inside, self.times = True, self.times + 1
                self.threads = {}
            elif line == END:
                inside = False
            elif not inside:
                self.other.append(line)
            elif found := EVENT.fullmatch(line):
                list(self.threads.values())[-1].append(Event(float(found[1]), found[2], int(found[3]), found[5]))
            elif re.fullmatch(r"thread \d+(?: \(this one\)| \(ended\))?|no thread", line):
                self.threads[line] = []
            else:
                raise AssertionError(f"a line that nobody knows: {line!r}")

    def own(self) -> list[Event]:
        (events,) = (events for title, events in self.threads.items() if title.endswith("(this one)"))
        return events


def environment(events: int) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "LD_PRELOAD": arguments.library, "HAKMEM_TRACE_RING": str(events)}


def without_cores() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(how: str, events: int = 64) -> subprocess.CompletedProcess:
    return subprocess.run([arguments.crashes, how], env=environment(events), capture_output=True, text=True, timeout=500,
                          preexec_fn=without_cores)


class Ring(unittest.TestCase):
    def last_block(self, output: str) -> str:
        return re.search(r"^last (0x[0-9a-f]+)$", output, re.MULTILINE)[1]

    def assert_tells(self, done: subprocess.CompletedProcess, dump: Dump) -> None:
        """Checks that the events end with the program's last calls, in order."""
        last = Event(0, "alloc", SIZE, self.last_block(done.stdout))
        own = dump.own()
        self.assertIn((last.name, last.amount, last.address), [(e.name, e.amount, e.address) for e in own])
        self.assertEqual([e.clock for e in own], sorted(e.clock for e in own))
        self.assertIn("free", {e.name for e in own})

    def assert_dies(self, how: str, number: int) -> Dump:
        done = run(how)
        self.assertEqual(done.returncode, -number)
        dump = Dump(done.stderr)
        self.assertEqual(dump.times, 1, "shown once")
        self.assert_tells(done, dump)
        self.assertEqual(run(how, events=0).returncode, -number, "as without a ring")
        return dump

    def test_fault(self):
        self.assertEqual(self.assert_dies("fault", signal.SIGSEGV).other, [])

    def test_fault_on_another_stack(self):
        self.assert_dies("fault_stack", signal.SIGSEGV)

    def test_divide(self):
        self.assert_dies("divide", signal.SIGFPE)

    def test_abort(self):
        self.assert_dies("abort", signal.SIGABRT)

    def test_sent(self):
        self.assert_dies("sent", signal.SIGSEGV)

    def test_double_free(self):
        dump = self.assert_dies("double", signal.SIGABRT)
        self.assertRegex("\n".join(dump.other), r"\Ahakmem: free\(\), found later: [^\n]*\Z")

    def test_own_handler(self):
        done = run("own")
        self.assertEqual((done.returncode, done.stderr), (42, ""))

    def test_many_at_once(self):
        done = run("threads")
        self.assertEqual(done.returncode, -signal.SIGSEGV)
        dump = Dump(done.stderr)
        self.assertEqual((dump.times, done.stderr.splitlines()[-1]), (1, END), "whole, and once")
        self.assertGreaterEqual(sum(title.startswith("thread") for title in dump.threads), 5)

    def test_off(self):
        self.assertEqual(run("fault", events=0).stderr, "")

    def test_size(self):
        self.assertEqual(len(Dump(run("fault", events=5).stderr).own()), 8, "rounded up to a power of two")

    def test_on_request(self):
        with subprocess.Popen([arguments.crashes, "wait"], env=environment(64), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as program:
            before = program.stdout.readline() + program.stdout.readline()
            self.assertTrue(before.endswith("ready\n"))
            for _ in range(2):
                program.send_signal(signal.SIGUSR2)
                lines = []
                while not lines or lines[-1] != END + "\n":
                    lines.append(program.stderr.readline())
            output, errors = program.communicate(timeout=500)
        self.assertEqual((program.returncode, output, errors), (0, "went on\n", ""))
        done = subprocess.CompletedProcess([], 0, before, "")
        self.assert_tells(done, Dump("".join(lines)))

    def test_not_on_request(self):
        """Negative control: without a ring, SIGUSR2 has its default effect."""
        with subprocess.Popen([arguments.crashes, "wait"], env=environment(0), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as program:
            program.stdout.readline(), program.stdout.readline()
            program.send_signal(signal.SIGUSR2)
            self.assertEqual(program.wait(timeout=500), -signal.SIGUSR2)

    def test_particulars_are_kept(self):
        """Checks that a tracer sees the address and the kind of a fault at the end of the program."""
        with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
            script.write("set confirm off\nset startup-with-shell off\nhandle SIGSEGV nostop noprint pass\n"
                         f"set environment LD_PRELOAD {arguments.library}\nset environment HAKMEM_TRACE_RING 16\n"
                         "catch signal SIGSEGV\nrun\nprint $_siginfo._sifields._sigfault.si_addr\ncontinue\n"
                         "print $_siginfo._sifields._sigfault.si_addr\nprint $_siginfo.si_code\ncontinue\n")
            script.flush()
            try:
                done = subprocess.run(["gdb", "-q", "-batch", "-nx", "-x", script.name, "--args", arguments.crashes, "fault"],
                                      capture_output=True, text=True, timeout=500)
            except FileNotFoundError:
                self.skipTest("no gdb here")
        self.assertEqual(re.findall(r"^\$\d = (.*)$", done.stdout, re.MULTILINE), ["(void *) 0x40", "(void *) 0x40", "1"],
                         done.stdout + done.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("library", "crashes"):
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    _, rest = parser.parse_known_args(namespace=arguments)
    unittest.main(argv=["test_ring.py"] + rest)


if __name__ == "__main__":
    main()
