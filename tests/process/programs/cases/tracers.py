"""gdb, strace and ltrace: the tracers and the programs that they trace run on the allocator under test."""

import os
import re
import time
from pathlib import Path

from harness.case import WORKLOADS, Case
from harness.outcomes import numbered
from harness.side import digest

SOURCE = WORKLOADS / "traced.c"
CORE_BYTES = 256 << 20  # largest core on disk, of a program with a megabyte of heap
SAID = re.compile(r"^@@(\w+) (.*)$", re.MULTILINE)


class Traced(Case):
    """Compiles workloads/traced.c, once for both sides."""

    def prepare(self, kit):
        folder = kit.cache / "traced"
        folder.mkdir(exist_ok=True)
        self.program = folder / f"traced-{digest(SOURCE.read_bytes())}"
        if not self.program.exists():
            kit.call(["gcc", "-g", "-O1", "-pthread", SOURCE, "-o", self.program])


def waiting(pid):
    """Waits until the process reads its standard input."""
    for _ in range(300):
        try:
            if Path(f"/proc/{pid}/syscall").read_text().split()[0] == "0":
                return True
        except OSError:
            pass
        time.sleep(0.1)
    return False


class Gdb(Traced):
    """gdb: breakpoints and lists read by its Python, symbols of large programs, and gcore of a process whose core is read again."""

    name = "gdb"
    medium = 0
    least = 600
    packages = {"gdb": "gdb", "gcc": "gcc", "python3": "python3"}

    def groups(self, quick):
        return ["breakpoints", "symbols", "gcore"]

    def gdb(self, side, *words, program=None, timeout=240, preload=True):
        return side.run(["gdb", "-nx", "-batch", *words, *([program] if program else [])], cwd=side.dir / "work", timeout=timeout, preload=preload,
                        env={"DEBUGINFOD_URLS": ""})

    def run(self, side, group):
        work = side.fresh("work")
        if group == "gcore":
            return self.gcore(side, work)
        if group == "symbols":
            words = ("info functions -n hash", "info types -q node", "list main", "info scope stop_here",
                     "disassemble main", "disassemble work", "ptype struct node", "info line stop_here", "info sources")
            found = {word: self.gdb(side, "-ex", "set print address off", "-ex", word, program=self.program) for word in words}
            return {word: f"{done.outcome} {digest(done.out)}" for word, done in found.items()}
        done = self.gdb(side, "-x", WORKLOADS / "look.gdb", program=self.program)
        return {**numbered((f"{kind} {words}", "ok") for kind, words in SAID.findall(done.out)), "end": done.outcome,
                "the program said": digest("\n".join(re.findall(r"^child.*$", done.out, re.MULTILINE)))}

    def gcore(self, side, work):
        """Checks a core of a process that has built its lists. The size on disk is limited, and the core's lists must equal those in memory."""
        line, feed = os.pipe()
        target = side.popen([self.program, "wait"], cwd=work, stdin=line)
        os.close(line)
        try:
            if not waiting(target.pid):
                return {"waits": "fail"}
            # A core larger than the limit ends gdb, and does not fill the disk.
            made = side.run(["prlimit", f"--fsize={CORE_BYTES}", "gdb", "-nx", "-batch", "-p", str(target.pid), "-ex", "gcore core.made"],
                            cwd=work, timeout=180)
        finally:
            os.close(feed)
            side.end(target, 20)
        core = work / "core.made"
        size = core.stat().st_blocks * 512 if core.exists() else 0
        found = {"made": made.outcome, "size": "ok" if 0 < size < CORE_BYTES else f"fail: {size >> 20} MiB"}
        look = self.gdb(side, "-x", WORKLOADS / "look_core.py", "-core", core, program=self.program)
        core.unlink(missing_ok=True)
        return {**found, "read": look.outcome, **numbered((f"{kind} {words}", "ok") for kind, words in SAID.findall(look.out))}


# These calls are the same each time. Other calls depend on the order of threads, on file contents, and on the allocator's requests.
STEADY = "trace=openat,write,close,wait4,exit_group,execve,getdents64,unlink,rename,pipe2,dup2,newfstatat"


class Strace(Traced):
    """strace: each system call of programs that run on glibc while strace itself runs on the allocator under test, and the reverse."""

    name = "strace"
    least = 600
    packages = {"strace": "strace", "gcc": "gcc"}
    lines = {"threads": "{program}", "find": "find /usr/share/doc/b* -name 'c*'", "sort": "sort /etc/passwd /etc/group", "shell":
             "sh -c 'for n in 1 2 3 4 5; do echo $n | cat; done; ls /etc/default'", "grep": "grep -c a /etc/services /etc/passwd"}

    def groups(self, quick):
        return [f"{line}, {who}" for line in self.lines for who in ("strace alone", "both")]

    def run(self, side, group):
        work = side.fresh("work")
        line, _, who = group.partition(", ")
        command = self.lines[line].format(program=self.program)
        alone = ["-E", "LD_PRELOAD"] if who == "strace alone" else []
        # Each process has a file of its own. In a common file, a call that another one interrupts would take two lines.
        done = side.run(["strace", "-ff", "-qq", "-s", "200", "-e", STEADY, "-o", "calls", *alone, "sh", "-c", f"exec {command}"], cwd=work, timeout=120)
        text = side.clean("".join(path.read_text(errors="replace") for path in work.glob("calls.*")))
        text = re.sub(r"0x[0-9a-f]+ /\* \d+ vars \*/|0x[0-9a-f]+|\bwait4\(-?\d+|\b\d{3,7}\b", "@", text)
        if who == "both":  # the library under test reads files in /sys and /proc, and writes a report
            text = "".join(row for row in text.splitlines(True) if row.startswith(("write(1,", "+++")))
        rows = sorted(row for row in text.splitlines() if not row.startswith(("---", "wait4(")))
        counts = side.run(["strace", "-f", "-c", "-o", "counts", *alone, "sh", "-c", f"exec {command}"], cwd=work, timeout=120)
        return {**numbered((row[:150], "ok") for row in rows), "end": done.outcome, "output": digest(side.clean(done.out)), "counts": counts.outcome}


class Ltrace(Traced):
    """ltrace: some library calls of a program with threads and a child, each by a breakpoint in its text."""

    name = "ltrace"
    medium = 0
    least = 300
    packages = {"ltrace": "ltrace", "gcc": "gcc"}

    def groups(self, quick):
        return ["calls", "children"]

    def run(self, side, group):
        work = side.fresh("work")
        more = ["-e", "fopen+fclose+printf+fprintf-@lib*"] if group == "calls" else ["-f", "-e", "strlen-@lib*"]
        done = side.run(["ltrace", *more, "-o", "calls", self.program], cwd=work, timeout=200)
        text = (work / "calls").read_text(errors="replace") if (work / "calls").exists() else ""
        rows = sorted(re.sub(r"0x[0-9a-f]+|\b\d{4,}\b", "@", text).splitlines())[:2000]
        return {**numbered((row, "ok") for row in rows), "end": done.outcome, "output": digest(side.clean(done.out))}
