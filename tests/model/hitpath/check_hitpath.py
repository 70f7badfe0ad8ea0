#!/usr/bin/env python3
"""Checks the compiled fast path of malloc and free.    check_hitpath.py LIBRARY

The path has the instructions from the entry to the first ret if no conditional jump is taken, because the code jumps to all rare cases. It must be
short and have no calls and no atomic instructions. It may write only to memory of the thread, which is memory reached from thread-local storage, and
the stack.
"""
import re
import subprocess
import sys
from dataclasses import dataclass

import aarch64
from locks import bound, over

CANNOT_RUN = 77
HELD = ("malloc", "free")
SHOWN = ("calloc", "_Znwm", "_ZdlPv")
LONGEST = 200  # instructions, after which the search for the end of the path stops

ATOMIC = re.compile(r"lock|xacquire|xrelease|[lms]fence|cmpxchg\w*|xadd\w*")
CALL = re.compile(r"l?callq?|syscall|sysenter|int")
READS_ONLY = re.compile(r"cmp\w*|test\w*|bt[lqw]?|push\w*|prefetch\w*|nop\w*|j\w+")
PLAIN_LOAD = re.compile(r"mov|mov[bwlq]|movz\w+|movs[bwl]\w+|movabs")
MEMORY = re.compile(r"(?P<segment>%[fg]s:)?(?P<shift>-?(0x)?[0-9a-f]+)?(\((?P<base>%\w+)?(,[^)]*)?\))?$")

# All names of each register, because %eax and %rax hold the same pointer.
WIDE = {f"%{part.format(letter)}": f"%r{letter}x" for letter in "abcd" for part in ("r{}x", "e{}x", "{}x", "{}l", "{}h")}
WIDE |= {f"%{part.format(name)}": f"%r{name}" for name in ("si", "di", "bp", "sp") for part in ("r{}", "e{}", "{}", "{}l")}
WIDE |= {f"%r{n}{part}": f"%r{n}" for n in range(8, 16) for part in ("", "d", "w", "b")}


@dataclass
class Instruction:
    address: int
    name: str
    operands: list

    def __str__(self) -> str:
        return f"{self.address:x}: {self.name} {','.join(self.operands)}".rstrip()


def entry(library: str, symbol: str) -> int:
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    for address, _, name in (line.split() for line in listing.splitlines()):
        if name.split("@")[0] == symbol:
            return int(address, 16)
    raise SystemExit(f"hitpath: {library} does not export {symbol}")


def parsed(line: str) -> Instruction:
    address, text = line.split(":", 1)
    text = text.split("#")[0].strip()
    # objdump writes some prefixes before the name. They belong to the name.
    prefix = re.match(r"((lock|rep\w*|bnd|notrack|data16|addr32|[cdefgs]s|rex(\.\w+)?|xacquire|xrelease)\s+)+", text)
    name, _, rest = text[prefix.end():].partition(" ") if prefix else text.partition(" ")
    rest = rest.split("<")[0].strip()
    operands = re.findall(r"(?:[^,(]|\([^)]*\))+", rest)
    return Instruction(int(address, 16), (prefix.group() if prefix else "") + name, operands)


def disassembled(library: str, start: int) -> list[Instruction]:
    """Disassembles from an entry on, because only there a disassembler knows that an instruction begins."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--start-address={start:#x}",
                           f"--stop-address={start + 1024:#x}", library], check=True, capture_output=True, text=True).stdout
    return [parsed(line) for line in text.splitlines() if re.match(r"\s+[0-9a-f]+:\t\S", line)]


def path(library: str, start: int) -> list[Instruction]:
    taken, code = [], disassembled(library, start)
    while code and len(taken) < LONGEST:
        step = code.pop(0)
        taken.append(step)
        last = step.name.split()[-1]
        if last.startswith("ret"):
            return taken
        if last.startswith("jmp"):
            if step.operands[0].startswith("*"):
                return taken
            code = disassembled(library, int(step.operands[0], 16))
    return taken


def memory(operand: str):
    """Returns the parts of a memory operand, or None for a register or a constant."""
    if operand.startswith("$") or operand in WIDE or re.match(r"%[xyz]mm", operand):
        return None
    return MEMORY.match(operand)


def foreign_stores(steps: list[Instruction]) -> list[Instruction]:
    """Returns the stores outside the thread's own memory, which is the memory at %fs, the memory reached from there, and the stack."""
    own, foreign = {"%rsp"}, []
    for step in steps:
        if not step.operands or READS_ONLY.fullmatch(step.name):
            continue
        target = step.operands[-1]
        place = memory(target)
        if place:
            if not place["segment"] and WIDE.get(place["base"]) not in own:
                foreign.append(step)
            continue
        source = memory(step.operands[0])
        reached = source and (source["segment"] == "%fs:" or WIDE.get(source["base"]) in own)
        moved = WIDE.get(step.operands[0]) in own
        offset = step.name.startswith("add") and (moved or (source and source["segment"] == "%fs:"))
        if offset or (PLAIN_LOAD.fullmatch(step.name) and (reached or moved)):
            own.add(WIDE.get(target))
        elif not (step.name.startswith(("add", "sub", "lea")) and WIDE.get(target) == "%rsp"):
            own.discard(WIDE.get(target))
    return foreign


def breaches(symbol: str, steps: list[Instruction]) -> list[str]:
    said = over("path_instructions", len(steps), f"{symbol}: instructions of the path")
    if not steps or not steps[-1].name.split()[-1].startswith("ret"):
        said.append(f"{symbol}: the path does not end in ret")
    for step in steps:
        words = step.name.split()
        if any(CALL.fullmatch(word) for word in words):
            said.append(f"{symbol}: calls: {step}")
        if any(ATOMIC.fullmatch(word) for word in words) or (words[-1].startswith("xchg") and any(map(memory, step.operands))):
            said.append(f"{symbol}: atomic: {step}")
    return said + [f"{symbol}: writes to what is not the thread's own: {step}" for step in foreign_stores(steps)]


def machine(library: str) -> str:
    """Returns the processor that the library is for. A cross compiler may have made it for another one."""
    with open(library, "rb") as file:
        number = int.from_bytes(file.read(20)[18:20], "little")
    return {62: "x86_64", 183: "aarch64"}.get(number, str(number))


def check_aarch64(library: str) -> list[str]:
    with open(library, "rb") as file:
        lock = "path_instructions_aarch64_by_clang" if b"clang version" in file.read() else "path_instructions_aarch64"
    said = []
    for symbol in HELD:
        steps = aarch64.path(library, entry(library, symbol), LONGEST)
        found = over(lock, len(steps), f"{symbol}: instructions of the path") + aarch64.breaches(symbol, steps)
        print(f"{symbol}: {len(steps)} instructions, at most {bound(lock)}")
        if found:
            print("\n".join(f"    {aarch64.shown(step)}" for step in steps))
        said += found
    return said


def check(library: str) -> list[str]:
    said = []
    for symbol in HELD:
        steps = path(library, entry(library, symbol))
        found = breaches(symbol, steps)
        print(f"{symbol}: {len(steps)} instructions, at most {bound('path_instructions')}")
        if found:
            print("\n".join(f"    {step}" for step in steps))
        said += found
    return said


def main(library: str) -> int:
    if machine(library) not in ("x86_64", "aarch64"):
        print(f"hitpath: read for x86_64 and aarch64 only, this is {machine(library)}: skipped")
        return CANNOT_RUN
    said = check(library) if machine(library) == "x86_64" else check_aarch64(library)
    for symbol in SHOWN if machine(library) == "x86_64" else ():
        steps = path(library, entry(library, symbol))
        print(f"{symbol}: {len(steps)} instructions (for information)")
    print("\n".join(said) if said else "hitpath: short, no call, nothing atomic, no write but to the thread's own memory")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
