#!/usr/bin/env python3
"""Checks the documents against the tree: each name in backticks in README.md, CONTRIBUTING.md, docs/*.md and the models must exist. Also checks the
scripts: no script may read a variable HAKMEM_* that is not an option, because the library complains about an unknown variable.

check_names.py ROOT
  `refill()` in `tcache/tcache.c`   a function (or a macro with arguments) that this file defines
  `refill()`                      a function that some file of src/ or include/ defines
  `tcache/tcache.c`, `cache.c`      a file, relative to the root, to src/ or to include/; without a folder, a file of this name anywhere
  `HK_RANK_META`, `hk_self`       a word in src/; `hk_os.purge` must be an entry of the table in os.h
  [text](docs/MAP.md#one-malloc)  a file, relative to the document's folder, and a heading in it
  os.environ["HAKMEM_X"]          an option of options.def; variables of scripts begin with HAKDEV_
"""
import re
import sys
from pathlib import Path

FOLDERS = ("src", "include", "tests", "tools", "bench", "cmake", "docs")
FUNCTION = re.compile(r"`(\w+)\(\)`(?:\s+in\s+`([\w/.-]+)`)?")
FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:c|h|def|py|sh|json))`")
WORD = re.compile(r"`((?:hk|HK)_\w+)`")
SYSTEM_CALL = re.compile(r"`hk_os\.(\w+)`")
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SCRIPTS = ("tools", "tests", "bench", "cmake", "examples", ".github", ".ci")
READ_VARIABLE = re.compile(r"""(?:environ\b[\w.]*\s*[\[(]\s*|getenv\(\s*)["'](HAKMEM_\w+)|\$(?:ENV\{)(HAKMEM_\w+)""")
SHELL_VARIABLE = re.compile(r"\$\{?(HAKMEM_\w+)")
OPTION = re.compile(r"^HK_OPT\(\w+, (\w+)", re.MULTILINE)
NOT_OPTIONS = {"HAKMEM_CONF", "HAKMEM_LIBRARY"}
DEFINITION = r"^(?:#define |(?:[A-Za-z_][\w*(), ]*[ *]))?{}\((?!.*;\s*$)"


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root
        sources = [*(root / "src").rglob("*"), *(root / "include").rglob("*")]
        self.texts = {path: path.read_text() for path in sources if path.suffix in (".c", ".h", ".def")}
        self.words = set(re.findall(r"\w+", "\n".join(self.texts.values())))

    def find(self, name: str) -> list[Path]:
        if "/" not in name:
            return [path for folder in FOLDERS for path in (self.root / folder).rglob(name)] + list(self.root.glob(name))
        return [self.root / folder / name for folder in ("", "src", "include") if (self.root / folder / name).is_file()]

    def defines(self, function: str, path: Path) -> bool:
        text = re.sub(r"/\*.*?\*/", "", self.texts.get(path, ""), flags=re.DOTALL)
        return bool(re.search(DEFINITION.format(function), text, re.MULTILINE))

    def function_trouble(self, function: str, file: str) -> str:
        if not file:
            found = any(self.defines(function, path) for path in self.texts)
            return "" if found else f"{function}() is defined nowhere"
        return "" if any(self.defines(function, path) for path in self.find(file)) else f"{file} does not define {function}()"

    def link_trouble(self, document: Path, name: str, place: str) -> str:
        path = document.parent / name if name else document
        if not path.exists():
            return f"a link leads nowhere: {name}"
        if not place or path.suffix != ".md":
            return ""
        headings = HEADING.findall(CODE_BLOCK.sub("", path.read_text()))
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        return "" if place in anchors else f"a link leads nowhere: {name}#{place}"

    def troubles(self, document: Path) -> list[str]:
        text = document.read_text()
        said = [self.function_trouble(function, file) for function, file in FUNCTION.findall(text)]
        said += [f"there is no file {name}" for name in FILE.findall(text) if not self.find(name)]
        said += [f"src/ has no word {word}" for word in WORD.findall(text) if word not in self.words]
        calls = self.texts.get(self.root / "src/os/os.h", "")
        said += [f"hk_os has no entry {name}" for name in SYSTEM_CALL.findall(text) if f"(*{name})" not in calls]
        return sorted({f"{document.relative_to(self.root)}: {what}" for what in said if what}) + self.link_troubles(document)

    def link_troubles(self, document: Path) -> list[str]:
        links = LINK.findall(CODE_BLOCK.sub("", document.read_text()))
        said = [self.link_trouble(document, *link) for link in links]
        return sorted({f"{document.relative_to(self.root)}: {what}" for what in said if what})


def is_shell(path: Path, text: str) -> bool:
    return path.suffix in (".sh", ".yml") or path.name == "Makefile" or text.startswith(("#!/bin/sh", "#!/usr/bin/env bash", "#!/bin/bash"))


def check_scripts(root: Path) -> list[str]:
    """Finds the scripts that read a variable HAKMEM_* that the library does not know. Skips tests/model/docs, which has examples of these scripts."""
    known = NOT_OPTIONS | {f"HAKMEM_{name.upper()}" for name in OPTION.findall((root / "src/policy/options.def").read_text())}
    files = [root / "Makefile", *(path for folder in SCRIPTS for path in (root / folder).rglob("*"))]
    said = []
    for path in files:
        if not path.is_file() or root / "tests/model/docs" in path.parents or path.suffix not in (".sh", ".py", ".yml", ".cmake", ".c", ".txt", ".in", ""):
            continue
        text = path.read_text(errors="replace")
        names = {name for found in READ_VARIABLE.findall(text) for name in found if name}
        names |= set(SHELL_VARIABLE.findall(text)) if is_shell(path, text) else set()
        said += [f"{path.relative_to(root)}: reads {name}, which is no option: name it HAKDEV_{name[7:]}" for name in sorted(names - known)]
    return said


def check(root: Path) -> list[str]:
    """Returns the troubles of the documents. Of the archive of decisions, it checks only the links, because the archive names things that were
    removed."""
    tree = Tree(root)
    documents = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md")),
                 *sorted((root / "tests/model").glob("*.pml"))]
    said = [what for document in documents if document.exists() for what in tree.troubles(document)]
    return said + [what for document in sorted((root / "bench/results").glob("*.md")) for what in tree.link_troubles(document)]


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1]).resolve()
    if not FUNCTION.search((root / "docs/MAP.md").read_text()):
        sys.exit("docs/MAP.md names no function: nothing was checked")
    said = check(root) + check_scripts(root)
    print("\n".join(said) or "every file, function and word that the documents name is there")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
