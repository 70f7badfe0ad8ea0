#!/usr/bin/env python3
"""Checks .github/workflows/*.yml.   check_workflows.py ROOT

Each `make TARGET` must name a target of the Makefile, and each PRESETS=... must name presets of CMakePresets.json. ci.yml must test all presets of
`make test`. If actionlint is installed (`go install github.com/rhysd/actionlint/cmd/actionlint@latest`), it must report nothing."""
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

COMMAND = re.compile(r"\bmake ([a-z][a-z-]*)((?: [A-Z]+=(?:\"[^\"]*\"|\S+))*)$", re.MULTILINE)
VARIABLE = re.compile(r"([A-Z]+)=\"?([\w ]+)\"?")


def commands(text: str) -> list[tuple[str, dict[str, str]]]:
    """Returns target and variables of each make command at the end of a line with run: or command:."""
    lines = [line for line in text.splitlines() if re.match(r"\s*(?:- )?(?:run|command): ", line)]
    return [(target, dict(VARIABLE.findall(more))) for target, more in COMMAND.findall("\n".join(lines))]


def presets(root: Path) -> set[str]:
    return {row["name"] for row in json.loads((root / "CMakePresets.json").read_text())["configurePresets"]}


def weekly(root: Path) -> set[str]:
    """Returns the presets that tools/test_all.sh --weekly adds."""
    return set(re.search(r"\$presets ([\w ]+)\"", (root / "tools/test_all.sh").read_text())[1].split())


def tested(root: Path) -> set[str]:
    """Returns the presets that tools/test_all.sh builds by default."""
    return set(re.search(r"\$\{\*:-([\w ]+)\}", (root / "tools/test_all.sh").read_text())[1].split())


def check(root: Path) -> list[str]:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(), re.MULTILINE))
    said, covered = [], set()
    workflows = sorted((root / ".github/workflows").glob("*.yml"))
    for path in workflows:
        found = commands(path.read_text())
        said += [] if found else [f"{path.name}: it calls no make"]
        said += [f"{path.name}: the Makefile has no target {target}" for target, _ in found if target not in targets]
        named = {name for _, more in found for name in more.get("PRESETS", "").split()}
        said += [f"{path.name}: there is no preset {name}" for name in sorted(named - presets(root) - tested(root) - weekly(root))]
        if path.name == "ci.yml":
            covered = named | ({"release"} if any(target == "check" for target, _ in found) else set())
    return said + [f"ci.yml does not test the preset {name}" for name in sorted(tested(root) - covered)]


def lint(root: Path) -> list[str]:
    program = shutil.which("actionlint") or shutil.which("actionlint", path=str(Path.home() / "go/bin"))
    if not program:
        print("left out: there is no actionlint")
        return []
    ended = subprocess.run([program, "-no-color", *map(str, (root / ".github/workflows").glob("*.yml"))], capture_output=True, text=True)
    print(f"actionlint found {'nothing' if ended.returncode == 0 else 'this:'}")
    return (ended.stdout + ended.stderr).splitlines()


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1]).resolve()
    said = check(root) + lint(root)
    print("\n".join(said) or "the workflows call what exists")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
