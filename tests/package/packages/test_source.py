"""Makes the source tarball as `make dist` does, builds it in a folder without git, and runs quick tests there. Two runs must make the same bytes."""

import tempfile
from pathlib import Path

from kit import FOLDER, ROOT, attempt, must, need, run, step, version

# Tests of the core, the tree and the documents. None needs more than the library, so that they take little time.
TARGETS = ("hakmem", "hakmem_static", "test_public_c")
TESTS = "^(public_c|rooms|docs_names|docs_generated)$"


def make(root: Path, output: Path) -> bytes:
    run("make", "-s", "-C", root, "dist") if output == root / "build-packages" else run(root / "tools/dist/source.py", "--output", output)
    return (output / f"hakmem-{version()}.tar.gz").read_bytes()


def main() -> None:
    need("git", "make", "tar", "cmake", "ctest", "ninja")
    if attempt("git", "-C", ROOT, "rev-parse", "HEAD").returncode != 0:
        print("there is no git here: the tarball is that of the tree")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step("the same bytes twice")
        first = make(ROOT, folder / "first")
        must(first == make(ROOT, folder / "second"), "two runs wrote different tarballs")
        run("tar", "-xf", folder / "first" / f"hakmem-{version()}.tar.gz", "-C", folder)
        tree = folder / f"hakmem-{version()}"
        must(attempt("git", "-C", tree, "rev-parse", "HEAD").returncode != 0, f"{tree} lies in a git: this test would prove nothing")
        step("from the tree without git, the same again")
        again = make(tree, tree / "build-packages")
        must(again == first, "the tarball of the unpacked tree is another one")
        step("build and tests")
        run("cmake", "--preset", "release", folder=tree)
        run("cmake", "--build", "build", "-j", "2", "--target", *TARGETS, folder=tree)
        said = run("ctest", "--test-dir", "build", "-R", TESTS, "--output-on-failure", "--no-tests=error", folder=tree)
        must(f"out of {TESTS.count('|') + 1}" in said, said)
    print("source: builds and passes tests without git: all right")


if __name__ == "__main__":
    main()
