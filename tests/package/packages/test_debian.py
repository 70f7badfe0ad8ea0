"""Builds the Debian packages and checks them with lintian. Installs, uses, upgrades and purges them in a root folder with its own Debian. Nothing may
be left after the purge.

debootstrap makes the root folder once, and the cache of the tests keeps it. Each run works on a copy."""

import os
import re
import shutil
import tempfile
from pathlib import Path

from kit import FOLDER, ROOT, attempt, leave_out, must, need, packages, run, step, version

MIRROR = "http://deb.debian.org/debian"
INSIDE = "python3,python3-typer,python3-rich,gcc,libc6-dev,pkgconf"
NEXT_VERSION = "0.9.9"
# Files that dpkg itself and ldconfig change: lists with dates, and a cache that is written each time.
ALTERS = re.compile(r"^(proc|sys|dev|tmp|var/log|var/cache/ldconfig|var/lib/dpkg/(status|available|lock|triggers|info/format|diversions|statoverride)|etc/ld\.so\.cache|"
                    r"var/lib/dpkg/updates)")
PROGRAM = """#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) { void *block = malloc(100); printf("%s %d\\n", hak_version(), block != NULL && hak_malloc_usable_size(block) >= 100); free(block); return 0; }
"""
PRELOADED = "import os, sys; os.environ['X'] = 'y' * 100000; print(any('libhakmem' in line for line in open('/proc/self/maps')))"


class Root:
    """A copy of the cached root folder, in which commands can run."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "root"
        run("tar", "-xf", cached_root(), "-C", folder)
        command = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.path}/proc", "chroot", str(self.path)]
        if attempt(*command, "/bin/true").returncode != 0:
            leave_out("this machine allows no mounts of one's own (unshare)")
        self.command = command

    def run(self, *words: str, **more: str) -> str:
        settings = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"} | more
        return run(*self.command, "env", "-i", *(f"{name}={value}" for name, value in settings.items()), *words)

    def bring(self, files: list[Path]) -> list[str]:
        for file in files:
            shutil.copy(file, self.path / "tmp" / file.name)
        return [f"/tmp/{file.name}" for file in files]

    def files(self) -> set[str]:
        found = set()
        for folder, names, files in os.walk(self.path):
            inside = os.path.relpath(folder, self.path)
            found |= {os.path.normpath(os.path.join(inside, name)) for name in names + files}
        return {name for name in found if not ALTERS.match(name)}


def cached_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    kept = Path(base) / "hakmem/packages/bookworm.tar"
    if kept.is_file():
        return kept
    step("debootstrap: once, then it is kept")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as work:
        made = attempt("debootstrap", "--variant=minbase", f"--include={INSIDE}", "bookworm", f"{work}/root", MIRROR)
        if made.returncode != 0:
            leave_out(f"debootstrap cannot make a root here: {' '.join(made.stdout.split())[-200:]}")
        shutil.rmtree(f"{work}/root/var/cache/apt", ignore_errors=True)
        run("tar", "-cf", f"{work}/root.tar", "-C", work, "root")
        os.replace(f"{work}/root.tar", kept)
    return kept


def next_version(folder: Path) -> dict[str, Path]:
    """Returns the packages of a later version, which are built from the source tarball."""
    run(ROOT / "tools/dist/source.py", "--output", folder)
    run("tar", "-xf", next(folder.glob("*.tar.gz")), "-C", folder)
    tree = next(path for path in folder.iterdir() if path.is_dir() and path.name.startswith("hakmem-"))
    for name, old, new in (("CMakeLists.txt", f"VERSION {version()}", f"VERSION {NEXT_VERSION}"),
                           ("tools/hakmem/hakmem/__init__.py", f'"{version()}"', f'"{NEXT_VERSION}"')):
        text = (tree / name).read_text()
        must(old in text, f"{name}: no {old}")
        (tree / name).write_text(text.replace(old, new))
    return packages("deb", tree, folder / "built")


def check_lintian(files: list[Path]) -> None:
    said = attempt("lintian", "--fail-on", "error,warning", "--tag-display-limit", "0", "--allow-root", *files)
    must(said.returncode == 0, said.stdout)
    # Negative control: lintian must notice an error.
    broken = files[0].parent / "broken.deb"
    with tempfile.TemporaryDirectory() as work:
        run("dpkg-deb", "-R", files[0], f"{work}/tree")
        shutil.rmtree(f"{work}/tree/usr/share/doc")
        run("dpkg-deb", "-b", f"{work}/tree", broken)
    must(attempt("lintian", "--fail-on", "error,warning", "--allow-root", broken).returncode != 0, "lintian has nothing to say about a package without documents")
    broken.unlink()


def check_fields(made: dict[str, Path]) -> None:
    for name, file in made.items():
        fields = dict(re.findall(r"(?m)^([A-Z][\w-]+): (.*)$", run("dpkg-deb", "-f", file)))
        must(fields.get("Multi-Arch") == ("same" if name.startswith("lib") else None), fields)
        must(fields["Maintainer"].endswith("@hakmem.invalid>"), fields)
    control = run("dpkg-deb", "--info", made["libhakmem0"])
    must("triggers" in control and "symbols" in control and "shlibs" in control and "postinst" not in control, control)
    must("python3-typer" in run("dpkg-deb", "-f", made["hakmem-tools"], "Depends"), "the tool's needs")


def check_symbols(made: dict[str, Path], folder: Path) -> None:
    """Checks that the symbols file in the package is that of the library in the package."""
    tree = folder / "debian/libhakmem0"
    tree.parent.mkdir(parents=True)
    run("dpkg-deb", "-R", made["libhakmem0"], tree)
    (folder / "debian/control").write_text("Source: hakmem\nMaintainer: x <x@hakmem.invalid>\n\nPackage: libhakmem0\nArchitecture: any\nDescription: x\n")
    library = next(tree.glob("usr/lib/*/libhakmem.so.0.*"))
    run("dpkg-gensymbols", "-plibhakmem0", f"-v{version()}", "-c4", f"-e{library}", f"-I{tree}/DEBIAN/symbols", f"-P{tree}", "-O/dev/null", folder=folder)


def use(root: Root, now: str) -> None:
    """Runs programs of the root folder on the library, as users of the packages do."""
    library = next(path.name for path in root.path.glob("usr/lib/*-linux-gnu") if (path / "libhakmem.so.0").exists())
    preload = f"/usr/lib/{library}/libhakmem.so.0"
    must("libhakmem.so.0" in root.run("ldconfig", "-p"), "ldconfig does not know the library")
    must(root.run("python3", "-c", PRELOADED).strip() == "False", "the control: without a preload, no libhakmem")
    must(root.run("python3", "-c", PRELOADED, LD_PRELOAD=preload).strip() == "True", "python3 preloaded")
    must(root.run("bash", "-c", "echo $((6 * 7))", LD_PRELOAD="libhakmem.so.0").strip() == "42", "bash preloaded, by the library's name")
    for words in (["hakmem-run"], ["hakmem-run", "--hardened"], ["hakmem", "run", "--no-live", "--"], ["hakmem", "run", "--no-live", "--hardened", "--"]):
        must(root.run(*words, "python3", "-c", PRELOADED).strip() == "True", words)
    must(f"HAKMEM {now}, process" in root.run("hakmem-run", "--report", "-", "bash", "-c", "true"), "the report")
    must(root.run("hakmem", "--version").startswith(f"hakmem {now} (/usr/lib/"), root.run("hakmem", "--version"))
    must(root.run("python3", "-c", f"import hakmem; hakmem.preload(); {PRELOADED}").strip() == "True", "hakmem.preload()")
    root.run("hakmem", "record", "--output", "/tmp/recorded", "--", "bash", "-c", "true")
    must(list(root.path.glob("tmp/recorded/*.hkrec")), "the recorder")
    shutil.rmtree(root.path / "tmp/recorded")
    must("HAKMEM serves here." in root.run("hakmem", "doctor"), "doctor")
    must("_hakmem_completion" in (root.path / "usr/share/bash-completion/completions/hakmem").read_text(), "completion")
    (root.path / "tmp/program.c").write_text(PROGRAM)
    for form in ("$(pkg-config --cflags --libs hakmem)", "$(pkg-config --cflags hakmem) $(pkg-config --variable=archive hakmem) -pthread"):
        root.run("sh", "-c", f"gcc -o /tmp/program /tmp/program.c {form}")
        must(root.run("/tmp/program").strip() == f"{now} 1", form)


def check_life(root: Root, first: dict[str, Path], second: dict[str, Path]) -> None:
    before = root.files()
    step("install")
    root.run("dpkg", "-i", *root.bring(list(first.values())))
    use(root, version())
    must(any("hakmem/__pycache__/" in name for name in root.files() - before), "the control: what is purged is not seen")
    step("upgrade, under a program that runs on the old one")
    asleep = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    root.run("hakmem-run", "python3", "-c", asleep, "dpkg", "-i", *root.bring(list(second.values())))
    use(root, NEXT_VERSION)
    old = [name for name in root.files() if re.search(rf"libhakmem.*{re.escape(version())}$", name)]
    must(not old, f"the upgrade left {old}")
    step("purge")
    root.run("dpkg", "--purge", *reversed(list(second)))
    must("hakmem" not in root.run("dpkg", "-l") and "libhakmem" not in root.run("ldconfig", "-p"), "dpkg or ldconfig still knows it")
    left = root.files() ^ before
    must(not left, f"left behind, or gone: {sorted(left)[:20]}")


def main() -> None:
    need("dpkg-deb", "dpkg-shlibdeps", "fakeroot", "file", "lintian", "debootstrap", "unshare", "cpack")
    step("build, lintian")
    made = packages("deb")
    must(set(made) == {"libhakmem0", "libhakmem-dev", "hakmem-tools"}, made)
    check_lintian(list(made.values()))
    check_fields(made)
    if os.geteuid() != 0:
        leave_out("a root of Debian's own takes root; the packages are built, and lintian finds nothing")
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        check_symbols(made, Path(name) / "symbols")
        root = Root(Path(name))
        (Path(name) / "next").mkdir()
        check_life(root, made, next_version(Path(name) / "next"))
    print(f"debian: {', '.join(made)}: installed, used, upgraded, purged: all right")


if __name__ == "__main__":
    main()
