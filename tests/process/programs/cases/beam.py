"""Erlang and Elixir: their own tests on a machine with two schedulers."""

import re

from harness.case import WORKLOADS, Case
from harness.outcomes import numbered, values

# Suites of stdlib that do not start other nodes, do not measure time, and do not take minutes.
SUITES = """
    array base64 calendar dict digraph digraph_utils erl_anno erl_expand_records erl_internal erl_lint
    erl_pp erl_scan file_sorter filename format id_transform io lists maps math
    ms_transform proplists queue re sets sofs sys tar uri_string zip
""".split()
HOOK = "-module(ts_install_cth).\n-export([id/1, init/2]).\nid(_) -> ok.\ninit(_, _) -> ok.\n"
CASE = re.compile(r"^=case\s+(\S+)(?:.|\n)*?^=result\s+(\w+)", re.MULTILINE)
WORDS = {"ok": "ok", "skipped": "skip", "auto_skipped": "skip", "failed": "fail"}


class Erlang(Case):
    """Erlang: suites of its standard library, and processes that build terms on two schedulers at the same time."""

    name = "erlang"
    medium = 0
    least = 400
    packages = {"erl": "erlang-base", "erlc": "erlang-dev", "/usr/lib/erlang/lib/common_test-*/ebin": "erlang-common-test"}

    def prepare(self, kit):
        def build(tree):
            """The suites need a hook of Erlang's own build, which an installed Erlang does not have. This builds one that does nothing."""
            tests = tree / "lib/stdlib/test"
            (tests / "ts_install_cth.erl").write_text(HOOK)
            files = [f for f in sorted(tests.glob("*.erl")) if not f.name.startswith(("stdlib_bench", "dummy"))]
            kit.call(["erlc", "-W0", *(f.name for f in files if f.stem not in ("win32reg_SUITE",))], cwd=tests)

        self.tests = kit.built("erlang-tests", "erlang", build) / "lib/stdlib/test"

    def groups(self, quick):
        return ["terms", *(s for s in SUITES if (self.tests / f"{s}_SUITE.beam").exists())]

    def start(self, side):
        side.copy(self.tests, "tests")

    def run(self, side, group):
        work = side.fresh("work")
        if group == "terms":
            made = side.run(["erlc", WORKLOADS / "terms.erl"], cwd=work)
            done = side.run(["erl", "+S", "2:2", "-noshell", "-pa", work, "-s", "terms", "main", "-s", "init", "stop"], cwd=work, timeout=240)
            return {"compiled": made.outcome, **values(done)}
        tests = side.dir / "tests"
        # Runs without a network name, because both sides would use the same name, and a daemon gives the names out.
        call = f'ct:run_test([{{dir, "{tests}"}}, {{suite, {group}_SUITE}}, {{logdir, "{work}"}}, {{auto_compile, false}}]), halt().'
        done = side.run(["erl", "-noinput", "+S", "2:2", "-pa", tests, "-eval", call], cwd=tests, timeout=300)
        logs = "\n".join(log.read_text(errors="replace") for log in work.rglob("suite.log"))
        return {**numbered((name, WORDS.get(word, word)) for name, word in CASE.findall(logs)), "end": done.outcome}


ELIXIR_TESTS = """
    access agent atom base bitwise code_fragment code_identifier code_normalizer collectable dynamic_supervisor enum exception
    float function gen_server inspect integer io keyword list macro map map_set module option_parser partition_supervisor path
    process protocol range record regex registry stream string string_io supervisor task tuple typespec uri version
""".split()
FOLDERS = ("calendar", "code_formatter", "config", "inspect", "kernel", "list", "module", "protocol", "string", "task")
ENDED = re.compile(r"^@@ (.*) => (\w+)$", re.MULTILINE)


class Elixir(Case):
    """Elixir: the tests of its core, compiled and run four at a time."""

    name = "elixir"
    medium = 0
    least = 2000
    packages = {"elixir": "elixir"}

    def prepare(self, kit):
        self.tree = kit.source("elixir-lang") / "lib"

    def groups(self, quick):
        files = [f"{t}_test.exs" for t in ELIXIR_TESTS] + [f"{f}/*_test.exs" for f in FOLDERS]
        return [f for f in files if list((self.tree / "elixir/test/elixir").glob(f))]

    def start(self, side):
        side.copy(self.tree, "lib")

    def run(self, side, group):
        done = side.run(["elixir", "--erl", "+S 2:2", "-r", "test/elixir/test_helper.exs", "-r", WORKLOADS / "lines.exs",
                         "-pr", f"test/elixir/{group}"], cwd=side.dir / "lib/elixir", timeout=240)
        return {**numbered((name, "ok" if word == "ok" else "skip" if word in ("skipped", "excluded") else "fail")
                           for name, word in ENDED.findall(side.clean(done.out))), "end": done.outcome}
