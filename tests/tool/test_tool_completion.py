"""Checks shell completion in real shells: bash in a terminal, and zsh and fish if they are installed."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
import unittest

from tool import WAIT_S, ToolTest

PROGRAM = """#!{python}
import sys
from hakmem.cli import main
sys.argv[0] = "hakmem"
main()
"""


class Completion(ToolTest):
    def setUp(self) -> None:
        super().setUp()
        program = self.folder / "bin/hakmem"
        program.parent.mkdir()
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
        self.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"


@unittest.skipUnless(shutil.which("bash"), "no bash")
class Bash(Completion):
    def setUp(self) -> None:
        super().setUp()
        shell, self.terminal = pty.fork()
        if shell == 0:
            os.chdir(self.folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], self.env | {"PS1": "$ ", "TERM": "dumb"})
        self.addCleanup(os.waitpid, shell, 0)
        self.addCleanup(os.close, self.terminal)
        self.type_in('bind "set bell-style none"; eval "$(hakmem completion bash)" && echo rea""dy\n', "ready")

    def type_in(self, keys: str, until: str) -> str:
        os.write(self.terminal, keys.encode())
        seen, end = "", time.monotonic() + WAIT_S
        while until not in seen:
            self.assertLess(time.monotonic(), end, f"{until!r} never came: {seen!r}")
            if select.select([self.terminal], [], [], 0.1)[0]:
                seen += os.read(self.terminal, 65536).decode(errors="replace")
        return seen

    def completes(self, typed: str, to: str) -> None:
        self.type_in(typed + "\t", to)
        self.type_in("\x15", "")  # clears the line

    def test_words(self) -> None:
        (self.folder / "some-report.json").touch()
        for typed, to in (
            ("hakmem sym", "hakmem symbolize "),
            ("hakmem diff --symbols-b", "hakmem diff --symbols-b "),
            ("hakmem run --profile comp", "hakmem run --profile compact "),
            ("hakmem run --set purge_d", "hakmem run --set purge_delay="),
            ("hakmem run --set learn=fr", "hakmem run --set learn=frozen "),
            ("hakmem top --sort in-b", "hakmem top --sort in-bins "),
            ("hakmem report some-r", "hakmem report some-report.json "),
        ):
            with self.subTest(typed):
                self.completes(typed, to)

    def test_no_space_behind_a_name(self) -> None:
        self.type_in("hakmem run --set purge_d\t7", "purge_delay=7")

    def test_a_running_process(self) -> None:
        program = self.start("sleep", "600")
        self.live.mkdir()
        (self.live / f"{program.pid}.json").touch()
        (self.live / "1.json.tmp").touch()
        self.completes("hakmem top ", f"hakmem top {program.pid} ")


class Others(Completion):
    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self) -> None:
        line = 'hakmem completion fish | source; complete --do-complete "hakmem sym"'
        done = subprocess.run(["fish", "--no-config", "-c", line], env=self.env | {"HOME": str(self.folder)}, capture_output=True, text=True, check=True)
        self.assertIn("symbolize", done.stdout)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self) -> None:
        script = self.ok("completion", "zsh")
        (self.folder / "_hakmem").write_text(script)
        subprocess.run(["zsh", "-n", str(self.folder / "_hakmem")], check=True)
        self.assertTrue(script.startswith("#compdef hakmem"))
        asked = {"_HAKMEM_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "hakmem sym"}
        said = subprocess.run(["hakmem"], env=self.env | asked, capture_output=True, text=True, check=False).stdout
        self.assertIn("symbolize", said)

    def test_another_shell(self) -> None:
        self.refused(2, "'tcsh' is not one of", "completion", "tcsh")


if __name__ == "__main__":
    unittest.main(verbosity=2)
