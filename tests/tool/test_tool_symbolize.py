"""Checks hakmem symbolize: after the line of a frame it prints what addr2line knows about the frame. All other lines stay the same."""

import re
import shutil
import subprocess
import unittest

from tool import PLAIN, STATIC, TOOL, ToolTest


def address_of_main(program: str) -> int:
    said = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    return int(re.search(r"^([0-9a-f]+) [Tt] main$", said, re.MULTILINE)[1], 16)


@unittest.skipUnless(shutil.which("addr2line"), "no addr2line here")
class Symbolize(ToolTest):
    def frame(self, program: str, number: int = 0) -> str:
        return f"    #{number} 0x55a50529a1e1 main+0x0 ({program}+0x{address_of_main(program):x})\n"

    def symbolized(self, text: str) -> list[str]:
        file = self.folder / "stderr"
        file.write_text(text)
        return self.ok("symbolize", str(file)).splitlines()

    def test_frames(self) -> None:
        text = "hakmem: use after free\n" + self.frame(PLAIN) + "  freed by thread 1:\n" + self.frame(STATIC, 1) + "the end\n"
        said = self.symbolized(text)
        self.assertEqual([line for line in said if " at " not in line], text.splitlines())
        added = [number for number, line in enumerate(said) if re.fullmatch(r"       main at .*plain\.c:\d+", line)]
        self.assertEqual(added, [2, 5])

    def test_the_line_of_the_remote_track(self) -> None:
        """The line has the place of the free itself, even if only the caller is known."""
        place = self.frame(PLAIN).split(None, 1)[1].strip()
        text = f"hakmem: free(): block already free, in an outbox, freed by thread 7 at {place}: address 0x7f00, class 64 bytes, owner 2\n"
        line, source = self.symbolized(text)
        self.assertEqual(line + "\n", text)
        self.assertRegex(source, r"^       main at .*plain\.c:\d+$")

    def test_unknown(self) -> None:
        """Tests a module that does not exist any more, an address without a line, and a frame without a module."""
        text = "    #0 0x1 (/no/such/module+0x10)\n    #1 0x2 f+0x1 (/proc/self/exe+0x1)\n    #2 0x3\n"
        self.assertEqual(self.symbolized(text), text.splitlines())

    def test_standard_input(self) -> None:
        done = subprocess.run([*TOOL, "symbolize"], input=self.frame(PLAIN), env=self.env, capture_output=True, text=True, check=True)
        self.assertEqual(len(done.stdout.splitlines()), 2)

    def test_no_addr2line(self) -> None:
        (self.folder / "stderr").write_text(self.frame(PLAIN))
        self.refused(1, "addr2line is needed", "symbolize", "stderr", PATH=str(self.folder))

    def test_no_file(self) -> None:
        self.refused(1, "No such file", "symbolize", "nothing")


if __name__ == "__main__":
    unittest.main()
