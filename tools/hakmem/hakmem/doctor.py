"""hakmem doctor: finds problems of this machine and of a program, and checks that HAKMEM serves programs."""

from __future__ import annotations

import os
import platform
import resource
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hakmem import elf, protections
from hakmem.protections import NOTE, OK, WARNING, Line, System, said_by
from hakmem.figures import bytes_text, count_text
from hakmem.library import find_library, find_program
from hakmem.options import unknown_variables, variable
from hakmem.reports import read
from hakmem.trouble import Trouble

STYLES = {OK: "green", NOTE: "yellow", WARNING: "bold red"}
USUAL_MAPS = 65530  # the kernel's default of vm.max_map_count
TRY_S = 60
NO_LIMIT = 1 << 60


def limits() -> Iterator[Line]:
    advice = ("HAKMEM reserves address space in larger pieces than glibc: malloc fails at this limit. Raise it (ulimit -v, -d), and limit "
              "memory by HAKMEM_LIMIT or a cgroup instead")
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        soft, _ = resource.getrlimit(getattr(resource, name))
        yield Line(OK, name, "unlimited") if soft == resource.RLIM_INFINITY else Line(NOTE, name, bytes_text(soft), advice)


def mappings(system: System) -> Iterator[Line]:
    count = system.number("proc/sys/vm/max_map_count")
    low = count is not None and count < USUAL_MAPS
    advice = f"below the default {USUAL_MAPS}: sysctl vm.max_map_count={USUAL_MAPS}" if low else ""
    yield Line(NOTE if low else OK, "vm.max_map_count", count_text(count), advice)


def huge_pages(system: System) -> Iterator[Line]:
    modes = system.text("sys/kernel/mm/transparent_hugepage/enabled")
    mode = modes.partition("[")[2].partition("]")[0] if modes else None
    seldom = {
        None: (NOTE, "not supported by the kernel", "HAKMEM_HUGE_PAGES_FROM has no effect: more page faults"),
        "never": (NOTE, "never", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: fewer page faults for large heaps"),
        "always": (OK, "always (they may round up the RSS of any allocator; madvise leaves the choice to HAKMEM)", ""),
    }
    level, found, advice = seldom.get(mode, (OK, str(mode), ""))
    yield Line(level, "huge pages", found, advice)


def overcommit(system: System) -> Iterator[Line]:
    mode = system.number("proc/sys/vm/overcommit_memory")
    if mode == 2:
        left = (system.meminfo("CommitLimit") or 0) - (system.meminfo("Committed_AS") or 0)
        advice = "mapped memory counts even if untouched: malloc may fail early. The default is vm.overcommit_memory=0"
        yield Line(NOTE, "overcommit", f"2 (strict), {bytes_text(left)} left", advice)
    else:
        yield Line(OK, "overcommit", {0: "0 (heuristic)", 1: "1 (always)"}.get(mode, "not readable"))


def swap(system: System) -> Iterator[Line]:
    total, free = system.meminfo("SwapTotal"), system.meminfo("SwapFree") or 0
    used = f"{bytes_text(total - free)} of {bytes_text(total)} used (swapped memory is not in RSS)" if total else "none"
    yield Line(OK, "swap", used)


def own_groups(system: System) -> dict[str, str]:
    """This process's cgroup by controller; "" is version 2."""
    lines = [line.split(":", 2) for line in (system.text("proc/self/cgroup") or "").splitlines() if line.count(":") >= 2]
    return {controller: path.lstrip("/") for _, controllers, path in lines for controller in controllers.split(",")}


def group_texts(system: System, base: str, group: str, file: str) -> list[str]:
    """Returns the texts of a file of the group and of its ancestors. In a container, often only the file of the root exists."""
    places = [Path(group), *Path(group).parents] if group else [Path()]
    return [text for text in (system.text(str(Path(base) / place / file)) for place in places) if text]


def cgroup(system: System) -> Iterator[Line]:
    groups = own_groups(system)
    if system.text("sys/fs/cgroup/cgroup.controllers") is not None:
        files = ("memory.max", "memory.high", "cpu.max")
        read = {file: group_texts(system, "sys/fs/cgroup", groups.get("", ""), file) for file in files}
        quotas = [text.split() for text in read.pop("cpu.max") if not text.startswith("max")]
        yield memory_line("cgroup v2 memory", read)
        yield Line(OK, "cgroup v2 cpu", cpu_text(*(quotas[0][:2] if quotas else ("max", ""))))
    elif "memory" in groups or "cpu" in groups:
        limit = "memory.limit_in_bytes"
        yield memory_line("cgroup v1 memory", {limit: group_texts(system, "sys/fs/cgroup/memory", groups.get("memory", ""), limit)})
        quota, period = (
            (group_texts(system, "sys/fs/cgroup/cpu", groups.get("cpu", ""), f"cpu.cfs_{what}_us") or ["-1"])[0]
            for what in ("quota", "period")
        )
        yield Line(OK, "cgroup v1 cpu", cpu_text(quota, period))
    else:
        yield Line(NOTE, "cgroup", "none readable", "set a memory goal by hand: HAKMEM_GOAL=BYTES or PERCENT")


def memory_line(subject: str, read: dict[str, list[str]]) -> Line:
    """The least limit applies. Version 1 represents "no limit" by a huge number."""
    numbers = {file: [int(text) for text in texts if text.isdecimal() and int(text) < NO_LIMIT] for file, texts in read.items()}
    shown = [f"{file} {bytes_text(min(values))}" for file, values in numbers.items() if values]
    return Line(OK, subject, ", ".join(shown) or "no limit")


def cpu_text(quota: str, period: str) -> str:
    cpus = f"{len(os.sched_getaffinity(0))} CPUs available"
    if quota in ("max", "-1") or not period.isdecimal():
        return f"no quota, {cpus}"
    return f"quota of {int(quota) / int(period):g} CPUs, {cpus}"


def pressure(system: System) -> Iterator[Line]:
    subject, advice = "memory pressure (PSI)", "HAKMEM judges memory shortage by sizes alone; boot the kernel with psi=1 to enable it"
    known = system.text("proc/pressure/memory")
    yield Line(OK, subject, "readable") if known else Line(NOTE, subject, "not readable", advice)


def versions(system: System) -> Iterator[Line]:
    python = elf.read(Path(sys.executable))
    libc = (elf.c_library(python) if python else None) or "unknown"
    level, advice = (NOTE, "HAKMEM is for glibc and for musl") if libc == "unknown" else (OK, "")
    yield Line(level, "libc", f"{libc} {platform.libc_ver()[1]}".strip(), advice)
    yield Line(OK, "kernel", platform.release())
    fields = dict(line.partition(":")[::2] for line in (system.text("proc/cpuinfo") or "").splitlines())
    sizes = next((value.strip() for name, value in fields.items() if name.startswith("address sizes")), "address sizes unknown")
    aslr = {0: "off", 1: "on, except the heap", 2: "on"}.get(system.number("proc/sys/kernel/randomize_va_space") or 0)
    bits = system.number("proc/sys/vm/mmap_rnd_bits")
    yield Line(OK, "address space", f"{sizes}; ASLR {aslr}" + (f", {bits} random bits" if bits else ""))


def python_line(free_threaded: object) -> Line:
    """Returns the line for the Python that runs the tool. If the machine has only one Python, programs use it too."""
    version = f"{platform.python_implementation()} {platform.python_version()}"
    if not free_threaded:
        return Line(OK, "this Python", version)
    advice = "PYTHONMALLOC does not change that: HAKMEM serves what libraries, extension modules and raw memory ask for"
    return Line(NOTE, "this Python", f"{version}, free-threaded: a copy of mimalloc inside it serves its objects", advice)


def environment() -> Iterator[Line]:
    preloaded = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    others = [part for part in preloaded if any(name in Path(part).name for name in elf.ALLOCATOR_LIBRARIES)]
    if others:
        yield Line(NOTE, "LD_PRELOAD", f"already contains {', '.join(others)}", "HAKMEM comes before it; unset it to be sure")
    for name in sorted(name for name in os.environ if name.startswith("HAKMEM_") and name != "HAKMEM_LIBRARY"):
        yield Line(NOTE, name, f"is set to {os.environ[name]!r}", "this option applies to every program in this environment")
    for sentence in unknown_variables(os.environ):
        name, _, found = sentence.partition(": ")
        yield Line(WARNING, name, found)


def library_lines(library: Path) -> Iterator[Line]:
    yield Line(OK, "library", str(library))
    tls = elf.read(library)
    if tls:
        yield Line(OK, "static TLS", f"{tls.tls_bytes} bytes; always available to a preload; dlopen takes it from glibc's small reserve")


def try_serving(library: Path, command: list[str]) -> tuple[int | None, str]:
    """Returns the number of allocations served, or None if the program does not end, and its stderr. It counts by HAKMEM's own report, because a
    preload fails silently."""
    with tempfile.TemporaryDirectory(prefix="hakmem-doctor-") as folder:
        said = said_by(command, library, TRY_S, **{variable("report"): f"{folder}/%p.json"})
        if said is None:
            return None, ""
        reports = filter(None, map(read, Path(folder).glob("*.json")))
        return sum(int(report.number("served", "malloc") or 0) for report in reports), said


def loader_complaint(said: str) -> str | None:
    return next((line.strip() for line in said.splitlines() if "LD_PRELOAD" in line), None)


def small_program_line(library: Path) -> Line:
    served, said = try_serving(library, [sys.executable, "-I", "-S", "-c", ""])
    subject = "a small program (Python)"
    if served:
        return Line(OK, subject, f"served, {count_text(served)} allocations")
    found = f"NOT served: {loader_complaint(said) or 'it wrote no report of an allocation'}"
    return Line(WARNING, subject, found, f"is {library} intact and for this machine? file {library}; ldd {library}", stops=True)


def trial_line(library: Path, command: list[str]) -> Line:
    """Returns the line for a trial run. A missing report is only a note, because a program that ends by a signal or _exit writes none."""
    served, said = try_serving(library, command)
    if served is None:
        return Line(NOTE, command[0], f"tried: still running after {TRY_S} s", "start it with hakmem run and use hakmem top")
    if served:
        return Line(OK, command[0], f"tried: served, {count_text(served)} allocations")
    complaint = loader_complaint(said)
    if complaint:
        return Line(WARNING, command[0], f"tried: NOT served: {complaint}", "the library does not fit this program", stops=True)
    advice = "it ended by a signal or _exit, or was not served: start it with hakmem run, and use hakmem top while it runs"
    return Line(NOTE, command[0], "tried: wrote no report", advice)


def program_lines(library: Path, command: list[str], try_it: bool) -> Iterator[Line]:
    program = find_program(command[0])
    target = elf.executable_of(program)
    subject = str(program) if target == program else f"{program} (run by {target})"
    reason = elf.why_not_served(program, library)
    note = elf.note_on(program)
    if reason:
        yield Line(WARNING, subject, f"will not be served: {reason}", stops=True)
    elif elf.read(target) is None:
        yield Line(NOTE, subject, "not a readable executable", "use --try to run it")
    else:
        yield Line(OK, subject, "can be served")
    if note:
        yield Line(NOTE, subject, note)
    if try_it and not reason:
        yield trial_line(library, command)


def environment_lines(system: System) -> Iterator[Line]:
    yield from limits()
    for check in (mappings, huge_pages, overcommit, swap, cgroup, pressure, versions):
        yield from check(system)
    yield python_line(sysconfig.get_config_var("Py_GIL_DISABLED"))
    yield from environment()


def diagnose(command: list[str], try_it: bool) -> Iterator[Line]:
    system = System()
    yield from environment_lines(system)
    try:
        library = find_library()
    except Trouble as trouble:
        yield Line(WARNING, "library", str(trouble), stops=True)
        return
    yield from library_lines(library)
    yield from protections.lines(system, library)
    yield small_program_line(library)
    if command:
        yield from program_lines(library, command, try_it)


def doctor(command: list[str], try_it: bool, console: Console) -> bool:
    """Returns True if nothing prevents HAKMEM from serving."""
    serves = True
    for line in diagnose(command, try_it):
        serves = serves and not line.stops
        console.print(Text.assemble((f"{line.level:>7}  ", STYLES[line.level]), (line.subject, "bold"), f"  {line.found}"), soft_wrap=True)
        if line.advice:
            console.print(Text(f"         → {line.advice}", style="dim"), soft_wrap=True)
    console.print(Text("HAKMEM serves here." if serves else "HAKMEM does not serve: see the warnings.", style="bold"))
    return serves
