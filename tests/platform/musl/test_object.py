"""Usage: test_object.py BUILD glibc|musl
Tests that hakmem.o can be linked with `cc program.c hakmem.o`, dynamically and statically, together with everything else in libc.a. CC and CXX name
the compilers."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OBJECT, ARCHIVE = Path(sys.argv[1]).resolve() / "hakmem.o", Path(sys.argv[1]).resolve() / "libhakmem.a"
GLIBC = sys.argv[2] == "glibc"
CC, CXX = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")
PROGRAM = ROOT / "tests/process"
INCLUDES = [f"-I{ROOT}/include", f"-I{ROOT}/tests", "-O1", "-fno-builtin", "-D_GNU_SOURCE", "-pthread"]
# Each function takes other parts of the C library into a static program. These parts allocate, fork, start threads, or end the process.
OTHERS = """fopen getline opendir scandir qsort fork posix_spawn popen system pthread_create pthread_atfork setlocale atexit regcomp glob
  strdup asprintf open_memstream fmemopen timer_create sem_open tmpfile ftw wordexp iconv_open tsearch hcreate lio_listio abort exit
  quick_exit raise signal sigaction longjmp realpath getcwd setenv putenv clearenv on_exit_ mq_notify aio_read""".split()


def run(*words: object, good: bool = True, **more: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_"))}
    ended = subprocess.run([str(word) for word in words], env=kept | more, capture_output=True, text=True)
    if (ended.returncode == 0) != good:
        sys.exit(f"FAILED: {words} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout + ended.stderr


def exported() -> list[str]:
    lines = (line.split() for line in run("nm", "--defined-only", "--extern-only", OBJECT).splitlines())
    return sorted(fields[-1] for fields in lines)


def all_names(folder: Path) -> Path:
    """Writes a program with the address of each name of hakmem.o, and of functions that take other parts of the C library into the program."""
    names = exported()
    hidden = {"operator new", "hk_"} & set(names)
    if "malloc" not in names or "hak_malloc" not in names or hidden or any(name.startswith("hk_") for name in names):
        sys.exit(f"FAILED: the object's names: {names}")
    wanted = names + [name for name in OTHERS if name not in names and not name.endswith("_")]
    text = "".join(f"extern char n{i}[] __asm__(\"{name}\");\n" for i, name in enumerate(wanted))
    places = ", ".join(f"n{i}" for i in range(len(wanted)))
    source = folder / "names.c"
    source.write_text(f"{text}char *names[] = {{{places}}};\nint main(void) {{ for (unsigned i = 0; i < {len(wanted)}; i++) "
                      f"if (!((char *volatile *)names)[i]) return 1; return 0; }}\n")
    return source


def ways() -> list[list[str]]:
    return [["-static"], []] + ([["-static-pie", "-fPIE"], ["-no-pie"]] if GLIBC else [])


def check_linked(folder: Path) -> None:
    names = all_names(folder)
    for way in ways():
        for source in (PROGRAM / "linked.c", names):
            program = folder / f"{source.stem}{len(way)}{'_'.join(way)}"
            run(CC, *INCLUDES, *way, source, OBJECT, "-o", program)
            run(program)
        # HAKMEM's own count shows that it serves the program.
        said = run(folder / f"linked{len(way)}{'_'.join(way)}", HAKMEM_REPORT="-")
        served = int(said.split("served ")[1].split()[0])
        if served < 1_500:
            sys.exit(f"FAILED: {way}: {served} allocations served\n{said}")
    if GLIBC:
        for way in ways():
            run(CXX, *INCLUDES, *way, PROGRAM / "linked_cxx.cpp", OBJECT, "-o", folder / "cxx")
            run(folder / "cxx")


def check_own_names(folder: Path) -> None:
    """Checks that a program may use HAKMEM's internal names. Negative controls: with the archive it may not, and a name may not be defined twice."""
    source = folder / "own.c"
    source.write_text("#include <stdlib.h>\nint hk_malloc_slow(int x); int hk_malloc_slow(int x) { return x; }\n"
                      "int main(void) { free(malloc(10)); return hk_malloc_slow(0); }\n")
    run(CC, *INCLUDES, "-static", source, OBJECT, "-o", folder / "own")
    run(folder / "own")
    said = run(CC, *INCLUDES, "-static", source, ARCHIVE, "-o", folder / "own", good=False)
    said += run(CC, *INCLUDES, "-static", PROGRAM / "linked.c", OBJECT, OBJECT, "-o", folder / "own", good=False)
    if said.count("multiple definition of `hk_malloc_slow'") != 1 or "multiple definition of `malloc'" not in said:
        sys.exit(f"FAILED: the controls\n{said}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        check_linked(Path(place))
        check_own_names(Path(place))
    print(f"hakmem.o links for {sys.argv[2]}, and serves: all right")
