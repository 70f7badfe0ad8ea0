"""Reads the compiled fast path on aarch64. check_hitpath.py uses it to check each instruction."""
import re
import shutil
import subprocess

ATOMIC = re.compile(r"ld(ax|x)r\w*|st(lx|x)r\w*|ldap?r[bh]?|stlu?r[bh]?|casp?\w*|swp\w*|(ld|st)(add|clr|set|eor|[su]max|[su]min)[alhb]*|d[ms]b|isb|__aarch64_\w+")
CALL = re.compile(r"blr?|svc")
JUMP = re.compile(r"br|b")
STORE = re.compile(r"st[up]?r[bh]?|stp|stnp|stur[bh]?")
LOAD = re.compile(r"ldu?r(s?[bhw])?|ldp|ldnp")
ADDRESS = re.compile(r"\b[xw]\d+|\bsp\b")


def wide(register: str) -> str:
    return re.sub(r"^w(\d+|zr)$", r"x\1", register)


def disassembled(library: str, start: int) -> list[tuple[int, str, list[str]]]:
    program = shutil.which("aarch64-linux-gnu-objdump") or "objdump"
    text = subprocess.run([program, "-d", "--no-show-raw-insn", f"--start-address={start:#x}", f"--stop-address={start + 1024:#x}", library],
                          check=True, capture_output=True, text=True).stdout
    found = []
    for line in text.splitlines():
        parts = re.match(r"\s+([0-9a-f]+):\t(\S+)\s*([^/]*)", line)
        if parts:
            operands = re.findall(r"(?:[^,\[]|\[[^\]]*\]!?)+", parts[3].split("<")[0].strip())
            found.append((int(parts[1], 16), parts[2], [word.strip() for word in operands]))
    return found


def path(library: str, start: int, longest: int) -> list[tuple[int, str, list[str]]]:
    """Returns the instructions up to the first ret, if no conditional branch is taken."""
    taken, code = [], disassembled(library, start)
    while code and len(taken) < longest:
        step = code.pop(0)
        taken.append(step)
        if step[1] in ("ret", "br"):
            return taken
        if step[1] == "b":
            code = disassembled(library, int(step[2][0], 16))
    return taken


def foreign_stores(steps) -> list:
    """Returns the stores outside the thread's own memory, which is the stack and everything that is reached from the thread pointer."""
    own, foreign = {"sp"}, []
    for step in steps:
        name, operands = step[1], step[2]
        memory = next((word for word in operands if word.startswith("[")), None)
        address = {wide(word) for word in ADDRESS.findall(memory)} if memory else set()
        if STORE.fullmatch(name):
            if not address & own:
                foreign.append(step)
            continue
        if not operands or name.startswith(("cmp", "ccmp", "tst", "b", "cb", "tb", "prfm", "nop", "ret")):
            continue
        targets = [wide(word) for word in operands[: 2 if name in ("ldp", "ldnp") else 1]]
        moved = name in ("mov", "add", "sub", "bfxil", "bfi", "orr") and any(wide(word) in own for word in operands[0 if name.startswith("bf") else 1:])
        reached = (LOAD.fullmatch(name) and address & own) or (name == "mrs" and operands[1] == "tpidr_el0") or moved
        own = own | set(targets) if reached else own - set(targets)
    return foreign


def shown(step) -> str:
    return f"{step[0]:x}: {step[1]} {', '.join(step[2])}".rstrip()


def breaches(symbol: str, steps) -> list[str]:
    said = [] if steps and steps[-1][1] == "ret" else [f"{symbol}: the path does not end in ret"]
    said += [f"{symbol}: calls: {shown(step)}" for step in steps if CALL.fullmatch(step[1])]
    said += [f"{symbol}: atomic: {shown(step)}" for step in steps if ATOMIC.fullmatch(step[1])]
    return said + [f"{symbol}: writes to what is not the thread's own: {shown(step)}" for step in foreign_stores(steps)]
