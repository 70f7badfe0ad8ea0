#!/usr/bin/env python3
"""Reports which lines of the core the tests reached: report.py BUILD [--least PERCENT] [--most N] [--html FOLDER] [--list]

Reads the counts that the programs of a coverage build left in BUILD/counters (counters.c), prints the coverage of the lines of src/ by room and file,
and compares the lines that no test reached with explained.txt. Complains if an uncovered line is not explained, and if an explained line is covered
or does not exist any more. Fails if the total is less than PERCENT, or if there are more than N complaints. --list prints all complaints."""
import argparse
import collections
import mmap
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HOME = pathlib.Path(__file__).resolve().parent
ROOT = HOME.parents[2]
SECTIONS = ("names", "cnts", "data")
MAGIC = 0xFF6C70726F667281  # of a raw profile of 64 bits
RAW_VERSION = {14: 8, 15: 8, 16: 8}  # version of clang, and the version of its raw profiles
MOST_SHOWN = 40
FNV, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def sections(program):
    """Returns the sections of an ELF file that coverage needs, as name -> (address, bytes), or None if the file has no counters."""
    with open(program, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
        elf = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, start + n * size) for n in range(count)]
    texts = rows[names][4]
    found = {}
    for name, _, _, address, offset, length in rows:
        text = elf[texts + name:elf.find(b"\0", texts + name)].decode()
        if text.startswith("__llvm_prf_"):
            found[text.removeprefix("__llvm_prf_")] = (address, elf[offset:offset + length])
    return found if all(name in found for name in SECTIONS) else None


def sum_of(names, size):
    """Returns the name of the file of counts, computed in the same way as in counters.c."""
    total = FNV
    for part in (*names, size):
        total = (total ^ part) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return f"{total:016x}"


def raw_profile(found, counts, version):
    """Returns a raw profile in the format of compiler-rt (llvm/ProfileData/InstrProfData.inc)."""
    (names_at, names), (counts_at, own), (data_at, data) = (found[name] for name in SECTIONS)
    if len(counts) != len(own):
        sys.exit(f"coverage: {len(counts)} bytes of counts for {len(own)}: remove the folder counters and run the tests again")
    fields = (MAGIC, version, 0, len(data) // 48, 0, len(counts) // 8, 0, len(names), (counts_at - data_at) % 2**64, names_at, 1)
    return struct.pack(f"<{len(fields)}Q", *fields) + data + counts + names + b"\0" * (-len(names) % 8)


def programs(build):
    """Yields one program for each file of counts."""
    left = {path.name: path for path in (build / "counters").iterdir()}
    for path in sorted(build.rglob("*")):
        if path.is_file() and not path.is_symlink() and (path.stat().st_mode & 0o111 or path.name.startswith("libhakmem.so")):
            found = sections(path)
            counts = left.pop(sum_of(found["names"][1], len(found["cnts"][1])), None) if found else None
            if counts is not None:
                yield path, found, counts.read_bytes()
    for name in left:
        print(f"coverage: counters/{name} belongs to no program of this build", file=sys.stderr)


def tool(name):
    """Returns the path of an llvm tool and the version of the raw profiles. On Debian the names of the tools have a version."""
    clang = subprocess.run(["clang", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    major = int(clang.split(".")[0])
    path = shutil.which(f"{name}-{major}") or shutil.which(name)
    if path is None or major not in RAW_VERSION:
        sys.exit(f"coverage: needs {name} of clang {min(RAW_VERSION)} to {max(RAW_VERSION)}; clang here is {clang.strip()}")
    return path, RAW_VERSION[major]


def merged(build, folder):
    """Writes the profile of all programs, and returns the arguments that name the programs."""
    profdata, version = tool("llvm-profdata")
    profiles, objects = [], []
    for path, found, counts in programs(build):
        profiles.append(folder / f"{len(profiles)}.profraw")
        profiles[-1].write_bytes(raw_profile(found, counts, version))
        objects.append(path)
    if not objects:
        sys.exit("coverage: no counts: run the tests of the build first")
    subprocess.run([profdata, "merge", "-sparse", "-o", build / "coverage.profdata", *profiles], check=True)
    return [objects[0], *(f"-object={path}" for path in objects[1:])]


def exported(build, objects):
    """Returns a map file -> line -> count."""
    text = subprocess.run([tool("llvm-cov")[0], "export", "-format=lcov", f"-instr-profile={build}/coverage.profdata", *objects,
                           f"-ignore-filename-regex=^(?!{re.escape(str(ROOT))}/src/)"], capture_output=True, text=True, check=True).stdout
    lines = collections.defaultdict(dict)
    file = None
    for row in text.splitlines():
        if row.startswith("SF:"):
            path = pathlib.Path(row[3:]).resolve()
            file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT / "src") else None
        elif row.startswith("DA:") and file:
            line, count = map(int, row[3:].split(",")[:2])
            lines[file][line] = max(count, lines[file].get(line, 0))
    return lines


def explanations(path):
    """Yields the rows of explained.txt: (file, first line's text, last line's text, reason). A reason that begins with "at times" is for lines that
    only some runs reach."""
    for number, row in enumerate(path.read_text().splitlines(), 1):
        if row.strip() and not row.startswith("#"):
            parts = [part.strip() for part in row.split(" | ")]
            if len(parts) != 3:
                sys.exit(f"{path.name}:{number}: not of the form FILE | TEXT | REASON")
            first, _, last = parts[1].partition(" ... ")
            yield parts[0], first, last, parts[2]


def explained_lines(source, first, last):
    """Returns the lines that an explanation covers: each line that contains `first`, and the lines after it up to `last`."""
    covered = set()
    for at, text in enumerate(source, 1):
        if first not in text:
            continue
        end = at
        if last:
            end = next((n for n in range(at, len(source) + 1) if last in source[n - 1]), None)
            if end is None:
                return set()
        covered.update(range(at, end + 1))
    return covered


def unexplained(lines, rows):
    """Returns the complaints, and the lines that have explanations. Removes from `lines` the lines of another processor ("elsewhere")."""
    complaints, known = [], collections.defaultdict(set)
    sources = {file: (ROOT / file).read_text().splitlines() for file in lines}
    for file, first, last, reason in rows:
        meant = explained_lines(sources.get(file, []), first, last)
        missed = {n for n in meant if lines.get(file, {}).get(n) == 0}
        if not meant:
            complaints.append(f"{file}: explained, but not there any more: {first}")
        elif not missed and not reason.startswith("at times"):
            complaints.append(f"{file}: explained, but covered: {first}")
        if reason.startswith("elsewhere"):
            for n in missed:
                del lines[file][n]
        else:
            known[file] |= missed
    for file, counts in sorted(lines.items()):
        for n in sorted(n for n, count in counts.items() if count == 0 and n not in known[file]):
            complaints.append(f"{file}:{n}: not covered, not explained: {sources[file][n - 1].strip()}")
    return complaints, known


def table(lines, known):
    """Prints the coverage of rooms and files, and returns the percentage of all lines."""
    rooms = collections.defaultdict(lambda: [0, 0, 0])
    rows = []
    for file, counts in sorted(lines.items()):
        reached = sum(count > 0 for count in counts.values())
        rows.append((file, reached, len(counts), len(known[file])))
        for name in (file.split("/")[1], ""):
            rooms[name] = [a + b for a, b in zip(rooms[name], rows[-1][1:])]
    for file, reached, count, why in rows:
        if reached < count:
            print(f"  {file:32} {reached:6} of {count:5}  {100 * reached / count:6.2f} %  {why:4} explained")
    print()
    for name, (reached, count, why) in sorted(rooms.items(), key=lambda item: (item[0] == "", item[0])):
        print(f"{name or 'all of the core':34} {reached:6} of {count:5}  {100 * reached / count:6.2f} %  {why:4} explained")
    return 100 * rooms[""][0] / rooms[""][1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--most", type=int, default=0, help="complaints that do not fail: races reach other lines in each run")
    parser.add_argument("--html", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.build) as folder:
        objects = merged(args.build, pathlib.Path(folder))
    lines = exported(args.build, objects)
    complaints, known = unexplained(lines, list(explanations(HOME / "explained.txt")))
    total = table(lines, known)
    if args.html:
        subprocess.run([tool("llvm-cov")[0], "show", "-format=html", f"-output-dir={args.html}", "-show-instantiations=false",
                        f"-instr-profile={args.build}/coverage.profdata", *objects,
                        f"-ignore-filename-regex=^(?!{re.escape(str(ROOT))}/src/)"], check=True, stdout=subprocess.DEVNULL)
        print(f"\n{args.html}/index.html has each line.")
    shown = len(complaints) if args.list else MOST_SHOWN
    print("", *complaints[:shown], *(["... and more: --list shows all"] if complaints[shown:] else []), sep="\n")
    print(f"coverage: {total:.2f} % of the core's lines; {len(complaints)} complaints")
    return 1 if len(complaints) > args.most or total < args.least else 0


if __name__ == "__main__":
    sys.exit(main())
