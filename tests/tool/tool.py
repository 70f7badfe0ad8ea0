"""The common parts of the tests of the tool. They start the tool as a user does, in an environment of their own."""

import os
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from pathlib import Path
from typing import NoReturn

LIBRARY = os.environ["HAKMEM_LIBRARY"]
HARDENED = str(Path(LIBRARY).parent / "libhakmem-hardened.so")
PROGRAMS = Path(os.environ["TOOL_PROGRAMS"])
PLAIN, STATIC, OWN_MALLOC = (str(PROGRAMS / f"test_tool_{name}") for name in ("plain", "static", "own_malloc"))
LINKED, LINKED_SHARED = (str(PROGRAMS / f"test_tool_{name}") for name in ("linked", "linked_shared"))
RUN = str(Path(LIBRARY).parent / "hakmem-run")  # the shell script
PYTHON = os.path.realpath(sys.executable)
TOOL = [sys.executable, "-m", "hakmem"]
ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 500  # seconds to wait for an event, also on a busy machine


class ToolTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        (self.folder / "runtime").mkdir()
        self.live = self.folder / "runtime/hakmem"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
        self.env |= {"HAKMEM_LIBRARY": LIBRARY, "XDG_RUNTIME_DIR": str(self.folder / "runtime")}

    def tool(self, *words: str, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*TOOL, *words],
            env=self.env | more,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def ok(self, *words: str, **more: str) -> str:
        done = self.tool(*words, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def in_a_copy(self, words: tuple, more: dict) -> subprocess.CompletedProcess:
        """Does the same as tool() in a fork of this process, which has already imported the tool. The import takes nine tenths of the time of a
        refusal."""
        import hakmem.cli

        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            sys.stdout.flush()
            sys.stderr.flush()
            child = os.fork()
            if child == 0:
                self.be_tool(hakmem.cli.main, ["hakmem", *words], self.env | more, out.fileno(), err.fileno())
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(words, code, out.read(), err.read())

    def be_tool(self, main, words: list, environment: dict, out: int, err: int) -> NoReturn:
        code: object = 70
        try:
            os.chdir(self.folder)
            os.environ.clear()
            os.environ.update(environment)
            for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
                os.dup2(file, number)
            sys.argv = words
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 1)

    def refused(self, code: int, said: str, *words: str, **more: str) -> None:
        done = self.in_a_copy(words, more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(said, " ".join((done.stdout + done.stderr).split()))
        self.assertNotIn("Traceback", done.stderr)

    def wait_for(self, condition, what: str) -> None:
        until = time.monotonic() + WAIT_S
        while not condition():
            self.assertLess(time.monotonic(), until, f"never: {what}")
            time.sleep(0.02)

    def start(self, *words: str, **more: str) -> subprocess.Popen:
        process = subprocess.Popen(
            words,
            env=self.env | more,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(self.end, process)
        return process

    def end(self, process: subprocess.Popen) -> None:
        process.kill()
        process.communicate()
