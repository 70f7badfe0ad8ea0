"""Checks the man page: it must match the current commands, and a reader of man pages must accept it."""

import os
import re
import shutil
import subprocess
import unittest

from hakmem import manual
from hakmem.cli import app
from tool import ROOT, ToolTest

PAGE = ROOT / "tools/hakmem/man/hakmem.1"


class Manual(ToolTest):
    def test_it_is_current(self) -> None:
        self.assertEqual(
            PAGE.read_text(), manual.page(), "write it: cd tools/hakmem && python3 -m hakmem.manual man/hakmem.1"
        )

    def test_every_command_and_option_is_there(self) -> None:
        text = PAGE.read_text().replace("\\-", "-")
        for command in app.registered_commands:
            name = command.name or command.callback.__name__
            self.assertIn(f".SS {name}\n", text)
            section = text.partition(f".SS {name}\n")[2].partition("\n.S")[0]
            said = self.ok(name, "--help")
            for option in set(re.findall(r"(?m)^ +(?:-\w, )?(--[a-z-]+)", said)) - {"--help"}:
                self.assertIn(option, section, name)

    def test_text_is_no_request(self) -> None:
        self.assertEqual(manual.roff(".SH -x \\ y\n z"), "\\&.SH \\-x \\e y z")

    def test_a_reader_takes_it(self) -> None:
        readers = [line for line in (["mandoc", "-T", "ascii"], ["man", "-l"]) if shutil.which(line[0])]
        for line in readers:
            done = subprocess.run([*line, str(PAGE)], env=os.environ | {"MANWIDTH": "80"}, capture_output=True, text=True, check=True)
            plain = re.sub(r".\x08", "", done.stdout)
            self.assertRegex(plain, r"hakmem +diff +\[OPTIONS\] +A +B")
            self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
