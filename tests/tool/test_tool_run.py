"""Checks hakmem run: HAKMEM must serve the program, and the program must end in the same way as without the tool."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import unittest

from hakmem import options, protections
from hakmem.protections import OVERFLOW
from tool import HARDENED, LIBRARY, LINKED_SHARED, OWN_MALLOC, PLAIN, PYTHON, ROOT, RUN, STATIC, TOOL, ToolTest

PRINT_HAKMEM = ("sh", "-c", "env | grep ^HAKMEM_ | sort")


class Serves(ToolTest):
    def test_the_report_says_so(self) -> None:
        self.ok("run", "--report", "out.json", "--", PLAIN, "5000")
        self.assertGreaterEqual(json.loads((self.folder / "out.json").read_text())["served"]["malloc"], 5000)

    def test_the_librarys_path_comes_first(self) -> None:
        said = self.ok("run", "--", "sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD="/lib/other.so")
        self.assertEqual(said.strip(), f"{os.path.realpath(LIBRARY)}:/lib/other.so")

    def test_it_says_what_will_not_be_served(self) -> None:
        for program, why in ((STATIC, "statically linked"), (OWN_MALLOC, "linked in")):
            with self.subTest(program):
                done = self.tool("run", "--", program)
                self.assertEqual((done.returncode, done.stdout), (0, "1000\n"))
                self.assertIn(why, done.stderr)
        self.assertNotIn("will not be served", self.tool("run", "--", PLAIN).stderr)


class Passes(ToolTest):
    def test_exit_codes(self) -> None:
        for code in (0, 1, 7, 255):
            self.assertEqual(self.tool("run", "--", "sh", "-c", f"exit {code}").returncode, code)

    def test_signals(self) -> None:
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            self.assertEqual(self.tool("run", "--", "sh", "-c", f"kill -{number.value} $$").returncode, -number)

    def test_a_signal_to_the_tool_is_one_to_the_program(self) -> None:
        process = self.start(*TOOL, "run", "--", "sh", "-c", "trap 'exit 9' USR1; echo ready; read line")
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGUSR1)
        # The trap may end the shell before it reads the line. communicate() accepts a closed pipe.
        process.communicate("\n")
        self.assertEqual(process.returncode, 9)

    def test_arguments_and_input(self) -> None:
        words = ("--help", "-x", "a b", "--", "--report", "$HOME", "")
        self.assertEqual(self.ok("run", "--", "printf", "%s|", *words), "".join(f"{word}|" for word in words))
        self.assertEqual(self.ok("run", "printf", "%s|", *words), "".join(f"{word}|" for word in words))

    def test_options(self) -> None:
        (self.folder / "my.profile").write_text("# hakmem profile\n")
        said = self.ok(
            "run",
            "--profile",
            "my.profile",
            "--goal",
            "70%",
            "--limit",
            "1g",
            "--learn",
            "frozen",
            "--explain",
            "log",
            "--report",
            "out.json",
            "--set",
            "purge_delay=7",
            "--set",
            "LARGE_CACHE=1m",
            "--",
            *PRINT_HAKMEM,
        )
        expected = {
            "HAKMEM_PROFILE": f"{self.folder}/my.profile",
            "HAKMEM_GOAL": "70%",
            "HAKMEM_LIMIT": "1g",
            "HAKMEM_LEARN": "frozen",
            "HAKMEM_EXPLAIN": f"{self.folder}/log",
            "HAKMEM_REPORT": f"{self.folder}/out.json",
            "HAKMEM_PURGE_DELAY": "7",
            "HAKMEM_LARGE_CACHE": "1m",
        }
        self.assertEqual(dict(line.split("=", 1) for line in said.splitlines()), expected)


class Protects(ToolTest):
    def environment(self, *words: str, **more: str) -> dict[str, str]:
        said = self.ok("run", "--no-live", *words, "--", *PRINT_HAKMEM, **more)
        return dict(line.split("=", 1) for line in said.splitlines())

    def test_what_it_sets(self) -> None:
        guard = {"HAKMEM_SAFE_FREE": "1", "HAKMEM_GUARD_SAMPLE": "1m"}
        self.assertEqual(self.environment("--hardened"), {"HAKMEM_HARDENED": "1"})
        self.assertEqual(self.environment("--guard"), guard)
        self.assertEqual(self.environment("--guard", "--hardened"), guard | {"HAKMEM_HARDENED": "1"})

    def test_the_users_own_values_stay(self) -> None:
        set_before = self.environment("--guard", "--hardened", HAKMEM_SAFE_FREE="strict", HAKMEM_HARDENED="zero")
        self.assertEqual(set_before["HAKMEM_SAFE_FREE"], "strict")
        self.assertEqual(set_before["HAKMEM_HARDENED"], "zero")

    @unittest.skipUnless("guard_sample" in options.table(), "the library has no option guard_sample")
    def test_options_stay(self) -> None:
        self.assertEqual(self.environment("--guard", "--set", "guard_sample=8m")["HAKMEM_GUARD_SAMPLE"], "8m")

    def test_the_library(self) -> None:
        said = self.ok("run", "--hardened", "--", "sh", "-c", "echo $LD_PRELOAD")
        self.assertEqual(said.strip(), os.path.realpath(HARDENED))
        said = self.ok("run", "--guard", "--", "sh", "-c", "echo $LD_PRELOAD")
        self.assertEqual(said.strip(), os.path.realpath(LIBRARY))
        self.ok("run", "--hardened", "--report", "out.json", "--", PLAIN, "5000")
        self.assertGreaterEqual(json.loads((self.folder / "out.json").read_text())["served"]["malloc"], 5000)

    def test_a_mistake_ends_the_program(self) -> None:
        self.assertEqual(self.tool("run", "--", PYTHON, "-c", OVERFLOW).returncode, 0)
        done = self.tool("run", "--hardened", "--", PYTHON, "-c", OVERFLOW)
        self.assertEqual(done.returncode, -signal.SIGABRT)
        self.assertIn("hakmem: memset(): write beyond the end of a block", done.stderr)

    def test_without_the_hardened_library(self) -> None:
        alone = self.folder / "libhakmem.so"
        shutil.copy(LIBRARY, alone)
        self.refused(66, "no libhakmem-hardened.so in", "run", "--hardened", "--", PLAIN, HAKMEM_LIBRARY=str(alone))
        self.ok("run", "--guard", "--", PLAIN, HAKMEM_LIBRARY=str(alone))

    @unittest.skipUnless("guard_sample" in options.table(), "the library has no option guard_sample")
    def test_all_that_it_sets_is_an_option(self) -> None:
        for name, value in protections.options(hardened=True, guard=True).items():
            options.check(name, value, name)


class Script(ToolTest):
    """Tests hakmem-run, without the tool."""

    def said(self, *words: str) -> str:
        done = subprocess.run([RUN, *words], env=self.env, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "1000\n")
        return done.stderr

    def test_a_static_program(self) -> None:
        self.assertIn(f"hakmem-run: {STATIC} is statically linked", self.said(STATIC))
        shutil.copy(STATIC, self.folder / "found-in-path")
        self.env["PATH"] = f"{self.folder}:{self.env['PATH']}"
        self.assertIn("is statically linked", self.said("found-in-path"))

    def test_others(self) -> None:
        script = self.folder / "script"
        script.write_text("#!/bin/sh\necho 1000\n")
        script.chmod(0o755)
        for program in (PLAIN, LINKED_SHARED, str(script)):
            self.assertEqual(self.said(program), "")


class Refuses(ToolTest):
    def test_library_paths_that_the_loader_would_split(self) -> None:
        for name in ("with space", "with:colon"):
            place = self.folder / name / "libhakmem.so"
            place.parent.mkdir()
            shutil.copy(LIBRARY, place)
            self.refused(66, "no space or colon", "run", "--", PLAIN, HAKMEM_LIBRARY=str(place))

    def test_what_is_not_there(self) -> None:
        self.refused(66, "which is not there", "run", "--", PLAIN, HAKMEM_LIBRARY="/none/libhakmem.so")
        self.refused(127, "no such program", "run", "--", "no-such-program-here")
        (self.folder / "text").write_text("no program")
        self.refused(126, "not executable", "run", "--", "./text")

    def test_what_is_not_understood(self) -> None:
        self.refused(64, "write name=value", "run", "--set", "purge_delay", "--", PLAIN)
        self.refused(64, "ends in .json", "run", "--live", "--report", "out.txt", "--", PLAIN)
        self.assertEqual(self.tool("run", "--learn", "perhaps", "--", PLAIN).returncode, 2)

    def test_options_that_the_library_would_reject(self) -> None:
        for code, said, *words in (
            (66, "nosuch is neither a file nor one of", "--profile", "nosuch"),
            (66, "did you mean compact?", "--profile", "comact"),
            (64, "no option is named foo", "--set", "foo=1"),
            (64, "did you mean large_cache?", "--set", "large_cach=1m"),
            (64, "'1x' is not a number from 0 to 1024g", "--set", "large_cache=1x"),
            (64, "'99' is not a number from 100 % to 400 %", "--set", "large_fit=99"),
            (64, "did you mean watch?", "--set", "site_rules=wach"),
            (64, "'12x' is neither bytes (512m), nor 1% to 100%, nor none", "--goal", "12x"),
            (64, "'0%' is neither", "--goal", "0%"),
            (64, "is not a number", "--limit", "many"),
        ):
            with self.subTest(words):
                self.refused(code, said, "run", *words, "--", "sh", "-c", "echo > ran")
        self.assertFalse((self.folder / "ran").exists())
        for words in (("--goal", "512m"), ("--goal", "none"), ("--set", "SITE_RULES=watch"), ("--set", "site_rules=1"), ("--profile", "debug")):
            self.assertEqual(self.ok("run", *words, "--", PLAIN), "1000\n")

    def test_variables_that_are_no_options(self) -> None:
        done = self.tool("run", "--", PLAIN, HAKMEM_REPRT="r.json")
        self.assertEqual((done.returncode, done.stdout), (0, "1000\n"))
        self.assertIn("HAKMEM_REPRT: no option has this name; did you mean HAKMEM_REPORT?", done.stderr)
        self.assertNotIn("no option has", self.tool("run", "--", PLAIN, HAKMEM_CONF="large_cache:1m").stderr)

    def test_a_library_that_is_not_hakmem(self) -> None:
        for other in ("/bin/ls", PLAIN):
            self.refused(66, "is not HAKMEM's library", "run", "--", PLAIN, HAKMEM_LIBRARY=other)


class LiveFolder(ToolTest):
    def reports(self) -> dict[str, str]:
        said = self.ok("run", *self.words, "--", *PRINT_HAKMEM)
        return dict(line.split("=", 1) for line in said.splitlines() if line.startswith("HAKMEM_REPORT"))

    def test_it_is_private_and_named_by_process(self) -> None:
        self.words = ()
        self.assertEqual(self.reports()["HAKMEM_REPORT"], f"{self.live}/%p.json")
        self.assertEqual(stat.S_IMODE(self.live.stat().st_mode), 0o700)
        self.assertGreater(int(self.reports()["HAKMEM_REPORT_EVERY"]), 0)

    def test_when_it_is_used(self) -> None:
        for words, expected in (
            (("--report", "a.json"), {"HAKMEM_REPORT"}),
            (("--no-live",), set()),
            (("--live", "--report", "a.json"), {"HAKMEM_REPORT", "HAKMEM_REPORT_EVERY"}),
        ):
            with self.subTest(words):
                self.words = words
                self.assertEqual(set(self.reports()), expected)
                self.assertFalse(self.live.exists())

    def test_files_of_ended_processes_are_swept(self) -> None:
        self.live.mkdir(mode=0o700)
        ended = subprocess.Popen(["true"])
        ended.wait()
        for name in (f"{ended.pid}.json", f"{os.getpid()}.json", "notes.json"):
            (self.live / name).write_text("{}")
        self.ok("run", "--", "true")
        left = {file.name for file in self.live.iterdir()}
        self.assertLessEqual({f"{os.getpid()}.json", "notes.json"}, left)
        self.assertNotIn(f"{ended.pid}.json", left)

    def test_a_folder_that_others_may_enter_is_refused(self) -> None:
        self.live.mkdir()
        self.live.chmod(0o755)
        self.refused(1, "not a private folder", "run", "--", "true")
        self.live.rmdir()
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        self.live.symlink_to(elsewhere)
        self.refused(1, "not a private folder", "run", "--", "true")
        self.assertEqual(list(elsewhere.iterdir()), [])


class Options(unittest.TestCase):
    def test_every_row_of_the_table_is_read(self) -> None:
        text = ROOT.joinpath("src/policy/options.def").read_text()
        self.assertEqual(len(options.table()), len(re.findall(r"(?m)^HK_OPT\(", text)))
        profiles = ROOT.joinpath("src/policy/profiles.def").read_text()
        self.assertEqual(len(options.profiles()), len(re.findall(r"(?m)^HK_PROFILE\(", profiles)))

    def test_defaults_are_valid_and_texts_have_units(self) -> None:
        for option in options.table().values():
            if option.kind == "NUMBER":
                options.check(option.name, str(option.default), option.name)
        for name, value, text in (
            ("large_cache", 128 << 20, "128m"),
            ("large_cache", 1000003, "1 000 003 bytes"),
            ("purge_delay", 24 << 10, "24576 ms"),
            ("large_fit", 400, "400 %"),
            ("limit", 0, "0"),
            ("learn", "on", "on"),
            ("goal", "", "-"),
            ("unknown", 8388608, "8 388 608"),
        ):
            self.assertEqual(options.option_text(name, value), text)

    def test_all_that_it_sets_by_name_is_told_in_its_help(self) -> None:
        text = ROOT.joinpath("tools/hakmem/README.md").read_text()
        for word in ("--profile", "--goal", "--limit", "--explain", "--report", "--learn", "--set", "--live", "--hardened", "--guard", "--scripts"):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
