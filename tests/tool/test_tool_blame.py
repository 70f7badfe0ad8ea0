"""Tests which frame of a stack `hakmem leaks` and the page of a profile name, with stacks of several languages."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/hakmem"))
from hakmem import leaks, scripts  # noqa: E402
from hakmem.profiles import Live, Profile, Site, parse, text_of  # noqa: E402
from hakmem.profiling import show  # noqa: E402
from hakmem.sources import BEST_RULE, CALLER_RULE, UNKNOWN, Frame, Sources, blame, plain  # noqa: E402

LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"
STDCXX = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
SHOP = "/srv/shop/bin/shop"
THREAD = Frame("start_thread", "./nptl/pthread_create.c", 442, LIBC)
MAIN = Frame("main", "/srv/shop/main.c", 7, SHOP)


class Blame(unittest.TestCase):
    def named(self, *frames: Frame) -> tuple:
        frame, rule = blame(list(frames))
        return frame.function, frame.line, rule == BEST_RULE

    def test_c_with_lines_of_the_c_library(self) -> None:
        self.assertEqual(self.named(Frame("strdup", "./string/strdup.c", 42, LIBC), Frame("remember", "/srv/shop/names.c", 12, SHOP), MAIN, THREAD),
                         ("remember", 12, True))

    def test_cxx(self) -> None:
        push = Frame("std::vector<int>::push_back(int const&)", "/usr/include/c++/12/bits/stl_vector.h", 1287, SHOP)
        new = Frame("operator new(unsigned long)", "/srv/hakmem/src/api/operators.c", 80, SHOP)
        self.assertEqual(self.named(new, push, Frame("Orders::add(Order)", "orders.cpp", 31, SHOP), MAIN), ("Orders::add(Order)", 31, True))
        self.assertEqual(self.named(Frame("std::string::_M_create", module=STDCXX), Frame("std::vector<int>::_M_grow", module=SHOP), MAIN), ("main", 7, True))

    def test_rust(self) -> None:
        crate = Frame("<hakmem::HakMem as core::alloc::global::GlobalAlloc>::alloc", "/srv/rust/hakmem/src/lib.rs", 120, SHOP)
        library = Frame("alloc::raw_vec::finish_grow", "/rustc/90c541806f23/library/alloc/src/raw_vec.rs", 430, SHOP)
        table = Frame("hashbrown::raw::alloc::inner::do_alloc", "/rust/deps/hashbrown-0.16.1/src/raw/alloc.rs", 19, SHOP)
        package = Frame("serde_json::de::from_str", "/home/me/.cargo/registry/src/index/serde_json-1.0.1/src/de.rs", 2600, SHOP)
        self.assertEqual(self.named(crate, Frame("__rust_alloc", module=SHOP), library, table, package, Frame("shop::orders::load", "src/orders.rs", 42, SHOP), MAIN),
                         ("shop::orders::load", 42, True))

    def test_names_of_rust(self) -> None:
        names = {
            "_$LT$hakmem..HakMem$u20$as$u20$core..alloc..global..GlobalAlloc$GT$::alloc::hd450598dbe76bdcf":
                "<hakmem::HakMem as core::alloc::global::GlobalAlloc>::alloc",
            "shop::main::_$u7b$$u7b$closure$u7d$$u7d$::hbe9e2ba227dcaf32": "shop::main::_{{closure}}",
            "alloc::vec::Vec$LT$T$C$A$GT$::with_capacity_in::ha92f2faed47b63f9": "alloc::vec::Vec<T,A>::with_capacity_in",
            "load.constprop.0": "load",
            "a$b$c": "a$b$c",
        }
        self.assertEqual({name: plain(name) for name in names}, names)
        shim = Frame("__rustc::__rust_alloc", "/srv/shop/src/main.rs", 3, SHOP)
        self.assertEqual(self.named(shim, Frame("shop::load", "/srv/shop/src/main.rs", 7, SHOP)), ("shop::load", 7, True))

    def test_generated_code(self) -> None:
        """Runtimes write the functions of their generated code to /tmp/perf-PID.map. A later line replaces an earlier one. The last line is not complete."""
        lines = ("7f0000001000 100 JS:~old /srv/shop.js:1:1", "7f0000001000 80 JS:*remember /srv/shop.js:2:18", "7f0000002000 40 JS:^ file:///srv/shop.mjs:7:3",
                 "0x7f0000003000 40 py::Shop.load:/srv/shop.py", "7f0000004000 10 JS:^emit node:events:465:44", "no line of the format",
                 "7f0000005000 10 BytecodeHandler:Wide", "7f0000006000 10 JS:*cut /srv/sh")
        sources = self.with_map("\n".join(lines))
        asked = {0x7f0000001080: ("remember", "/srv/shop.js:2"), 0x7f0000001081: ("old", "/srv/shop.js:1"), 0x7f0000002040: ("(anonymous)", "/srv/shop.mjs:7"),
                 0x7f0000003001: ("Shop.load", "/srv/shop.py"), 0x7f0000004001: ("emit", "node:events:465"), 0x7f0000005001: ("BytecodeHandler:Wide", ""),
                 0x7f0000006001: ("0x7f0000006001", "")}
        sources.learn([tuple(asked)])
        found = sources.frames(tuple(asked))
        self.assertEqual([(frame.function, frame.place) for frame in found], list(asked.values()))
        node = Frame("node::NodeArrayBufferAllocator::Allocate(unsigned long)", module="/srv/node/bin/node")
        self.assertEqual(self.named(node, Frame("Builtins_CreateTypedArray", module="/srv/node/bin/node"), found[4], found[0]), ("remember", 2, True))
        self.assertEqual(self.named(node, self.script("/srv/node_modules/json5/parse.js"), found[2]), ("(anonymous)", 7, True))
        again = Sources(sources.code_text())  # as in the file of a profile, which is read on another machine
        again.learn([tuple(asked)])
        self.assertEqual(again.frames(tuple(asked)), found)

    def with_map(self, text: str) -> Sources:
        self.map = Path(f"/tmp/perf-{os.getpid()}.map")
        self.map.write_text(text)
        self.addCleanup(self.map.unlink, missing_ok=True)
        return Sources("", pid=os.getpid())

    def script(self, file: str) -> Frame:
        return Frame("parse", file, 9, file, True)

    def test_names_of_generated_code(self) -> None:
        names = {
            "py::<module>:/srv/my shop.py": ("<module>", "/srv/my shop.py", 0),
            "py::f.<locals>.<lambda>:<string>": ("f.<locals>.<lambda>", "<string>", 0),
            "py::f:relative:name.py": ("f", "relative:name.py", 0),
            "LazyCompile:*load /srv/shop.js:12": ("load", "/srv/shop.js", 12),
            "JS:+get size /srv/my shop.js:2:3": ("get size", "/srv/my shop.js", 2),
            "JS:~ [eval]:1:1": ("(anonymous)", "[eval]", 1),
            "Eval:~ node:internal/main/run:1:1": ("(anonymous)", "node:internal/main/run", 1),
            "Function:f evalmachine.<anonymous>:3:4": ("f", "evalmachine.<anonymous>", 3),
            "Builtin:ArrayPush": None, "JS:*load": None, "JS:*load /srv/shop.js": None, "py::": None, "": None,
        }
        self.assertEqual({name: scripts.function_of(name) for name in names}, names)
        for text in ("", "\n\n", "7f00\n", "7f00 10\n", "7f00 zz name\n", f"{'f' * 17} 10 name\n", "7f00-7f10 r-xp 0 0:0 1 /srv/shop\n", "7f00 10 cut off"):
            self.assertEqual(list(scripts.rows(text)), [], text)

    def test_lines_of_python(self) -> None:
        text = ("@one\n@two\nclass Shop:\n    size = lambda self: 1\n\n    @property\n    def load(self):\n        async def inner():\n"
                "            return [x for x in ()]\n\nif 1:\n    def twice(): ...\nelse:\n    def twice(): ...\n")
        lines = scripts.lines_of(text)
        asked = {"Shop": 3, "Shop.<lambda>": 3, "Shop.load": 7, "Shop.load.<locals>.inner": 8, "Shop.load.<locals>.inner.<locals>.<listcomp>": 8, "twice": 14,
                 "Shop.load.<locals>.inner.<locals>.<lambda>.<locals>.<genexpr>": 8, "<module>": 0, "missing": 0}
        self.assertEqual({name: scripts.line_of(name, lines) for name in asked}, asked)
        for broken in ("def f(:\n", "\0", "(" * 300, "x = " + "-" * 100000 + "1\n"):
            self.assertEqual(scripts.lines_of(broken), {})

    def test_lines_of_a_script_that_has_changed(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write("\ndef load(): ...\n")
            file.flush()
            os.utime(file.name, (0, 0))
            for place, said in ((f"{file.name}:2", ""), (file.name, f"hakmem: {file.name} has changed since")):
                sources = self.with_map(f"1000 10 py::load:{file.name}\n")
                sources.learn([(0x1001,)])
                self.assertEqual(sources.frames((0x1001,))[0].place, place)
                self.assertTrue(self.told(sources).startswith(said))
                os.utime(file.name, (2 ** 33, 2 ** 33))

    def told(self, sources: Sources) -> str:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            sources.tell_missing()
        return said.getvalue()

    def test_a_map_that_may_be_forged(self) -> None:
        """Anybody can create the file in /tmp, so a link, a pipe and a file of another user are not read."""
        def link() -> None:
            self.map.symlink_to(__file__)

        def others() -> None:
            self.map.write_text("1000 10 py::load:/srv/shop.py\n")
            os.chown(self.map, 65534, 65534)

        kinds = {link: "symbolic links", lambda: os.mkfifo(self.map): "no regular file", others: "another user"}
        for make, why in kinds.items():
            if make is others and os.getuid() != 0:
                continue
            sources = self.with_map("")
            self.map.unlink()
            make()
            sources.learn([(0x1001,)])
            self.assertEqual(sources.frames((0x1001,)), [Frame("0x1001")])
            self.assertRegex(self.told(sources), rf"(?m)^hakmem: \S*{self.map} is not used: .*{why}$")
            self.map.unlink()

    def test_scripts(self) -> None:
        """A script's own files may be below /usr or /opt, but its packages and the standard library are skipped, whether they are in C or not."""
        python, module = Frame("_PyEval_EvalFrameDefault", "Python/ceval.c", 9, "/usr/bin/python3.12"), "/srv/venv/lib/python3.12/site-packages/numpy/core.so"
        library, package = self.script("/usr/lib/python3.12/json/encoder.py"), Frame("array_new", "numpy/core/array.c", 3, module)
        frozen, zip_file = self.script("<frozen importlib._bootstrap>"), self.script("/usr/lib/python3.12/json.zip")
        for own in ("/usr/src/app/shop.py", "/opt/shop/shop.js", "<string>", "[eval]", "/srv/python3.12/shop.py"):
            self.assertEqual(self.named(package, python, library, frozen, zip_file, self.script(own), python), ("parse", 9, True))
        dynamic = Frame("scan_once", module="/srv/python/lib/python3.12/lib-dynload/_json.cpython-312.so")
        self.assertEqual(blame([Frame("strdup", module=LIBC), dynamic, python, library]), (dynamic, "function of a package or a standard library"))
        self.assertEqual(blame([Frame("strdup", module=LIBC), python, package])[0], package)
        plugin = Frame("load", "plugin.c", 3, "/srv/shop/plugin.so")
        self.assertEqual(self.named(Frame("strdup", module=LIBC), plugin, python, self.script("/srv/shop.py")), ("load", 3, True))

    def test_a_plugin_without_lines_is_not_hidden_by_its_caller(self) -> None:
        self.assertEqual(self.named(Frame("plugin_open", module="/srv/shop/plugin.so"), MAIN, THREAD), ("plugin_open", 0, True))

    def test_a_plugin_that_is_closed(self) -> None:
        """The line of the caller is not the line that allocates."""
        self.assertEqual(blame([Frame("0x7f886e68e137"), MAIN, THREAD]), (MAIN, CALLER_RULE))
        self.assertEqual(self.named(Frame("load", "/srv/shop/load.c", 3, SHOP), Frame("0x7f886e68e137"), MAIN), ("load", 3, True))

    def test_cgo(self) -> None:
        """All calls of C.malloc in Go come from one function that cgo writes. The stack ends where Go changes to another stack."""
        wrapper, change = Frame("_cgo_64547b4b5c66_Cfunc__Cmalloc", "/tmp/go-build/_cgo_export.c", 32, SHOP), Frame("runtime.asmcgocall.abi0", "/usr/local/go/src/runtime/asm_amd64.s", 995, SHOP)
        self.assertEqual(self.named(wrapper, change), (wrapper.function, 32, False))
        self.assertEqual(self.named(Frame("new_image", "images.go", 11, SHOP), wrapper, change), ("new_image", 11, True))

    def test_a_stripped_program(self) -> None:
        self.assertEqual(self.named(Frame("shop+0x11e1", module=SHOP), Frame("__libc_start_call_main", module=LIBC)), ("shop+0x11e1", 0, True))

    def test_a_program_of_the_system(self) -> None:
        glib, nginx = "/usr/lib/x86_64-linux-gnu/libglib-2.0.so.0", "/usr/sbin/nginx"
        self.assertEqual(self.named(Frame("g_malloc", module=glib), Frame("ngx_alloc", module=nginx), THREAD), ("ngx_alloc", 0, False))
        self.assertEqual(self.named(Frame("g_malloc", module=glib), THREAD), ("g_malloc", 0, False))

    def test_a_replaced_file_is_named_and_not_used(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            written = Path(file.name).stat().st_mtime
            for since, said in ((0, ""), (-1, f"hakmem: {file.name} has changed since: functions and lines are not looked up in it\n")):
                sources = Sources(f"1000-2000 r-xp 00000000 00:00 1 {file.name}\n", written=written + since)
                sources.learn([(0x1100,)])
                told = io.StringIO()
                with contextlib.redirect_stderr(told):
                    sources.tell_missing()
                self.assertEqual(told.getvalue(), said)
                self.assertEqual(sources.frames((0x1100,))[0].function, f"{Path(file.name).name}+0x{0x10ff - 0x1000:x}")

    def test_without_addr2line(self) -> None:
        with unittest.mock.patch("shutil.which", return_value=None):
            sources = Sources(f"1000-2000 r-xp 00000000 00:00 1 {sys.executable}\n")
            sources.learn([(0x1100,)])
            told = io.StringIO()
            with contextlib.redirect_stderr(told):
                sources.tell_missing()
        self.assertRegex(told.getvalue(), r"\Ahakmem: no lines of sources are shown, because addr2line is not installed.*\n\Z")

    def test_the_profile_names_the_rule_of_each_line(self) -> None:
        nginx = "/usr/sbin/nginx"
        found = Profile([Site((0x1100,), 5, 1, 32, 1, 32), Site((0x2100,), 5, 2, 64, 2, 64)], f"1000-2000 r-xp 0 0:0 1 {SHOP}\n2000-3000 r-xp 0 0:0 1 {nginx}\n", 1.0, 1)
        sources = Sources(found.maps)
        sources.learn(site.stack for site in found.sites)
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            show(found, sources, False)
        lines = told.getvalue().splitlines()
        self.assertTrue(lines[-3].endswith("nginx+0xff (the innermost function of the executable)"), lines)
        self.assertTrue(lines[-2].endswith("shop+0xff"), lines)
        self.assertIn(BEST_RULE, lines[-1])

    def test_what_leaks_says_of_few_samples(self) -> None:
        """It says how many samples there are, and what they may hide. Large blocks, which are all sampled, hide nothing."""
        mean, large = 1 << 16, Site((0x2000,), 25, 9, 9 << 24, 9, 9 << 24)
        for blocks, sites, said in ((0, [], "No samples"), (9, [], "Too few samples to tell if there is a leak: 9."), (90, [large], "No leak is suspected")):
            small = Site((0x1000,), 6, blocks, 64 * blocks, blocks, 64 * blocks)
            found = Profile([small, *sites], "", 10.0, mean)
            text = leaks.text(found, leaks.find(found, Sources("")), 10)
            self.assertTrue(text.startswith(said), text)
            self.assertIn(f"{found.samples} samples in 10.0 s", text)
            self.assertIn("less than 403.4 KiB in this time may be hidden" if blocks else "less than 403.2 KiB", text)
        small.scale *= 10  # as in a process that is sampled in rounds
        self.assertIn("less than 3.9 MiB", leaks.text(found, [], 10))
        again = parse(text_of(found), "again")
        self.assertIn("less than 3.9 MiB", leaks.text(again, [], 10))

    def test_blocks_of_a_short_time(self) -> None:
        """A leak goes on. Blocks that were allocated in a short time belong to something that is loaded once, or wait for a garbage collector."""
        for first, last, suspected in ((1.0, 9.0, True), (0.5, 4.0, True), (3.0, 3.5, False), (0.3, 1.2, False)):
            ages = [first + (last - first) * part / 99 for part in range(100)]
            site = Site((0x1000,), 6, 100, 6400, 100, 6400, {1: 50}, [Live(64, age) for age in ages])
            found = leaks.find(Profile([site], "", 10.0, 1), Sources(""))
            self.assertEqual(len(found), int(suspected), (first, last))

    def test_nothing_but_the_c_library(self) -> None:
        self.assertEqual(self.named(THREAD, Frame("clone3", "../sysdeps/unix/clone3.S", 81, LIBC)), ("start_thread", 442, False))
        self.assertEqual(blame([])[0], Frame(UNKNOWN))


if __name__ == "__main__":
    unittest.main()
