"""Compilers to native code that have a heap of their own: OCaml, GHC, SBCL; and Mono. Tests their output, and programs with threads."""

import re

from harness.case import WORKLOADS, Case
from harness.outcomes import values
from harness.side import digest, digest_files


class OCaml(Case):
    """OCaml: ocamlgraph and ocaml-re compiled to the same objects, and a program with threads, bigarrays and marshalling."""

    name = "ocaml"
    medium = 0
    least = 500
    packages = {"ocamlopt": "ocaml-nox", "gcc": "gcc"}
    trees = {"ocamlgraph": ("ocamlgraph", "src"), "re": ("ocaml-re", "lib")}

    def prepare(self, kit):
        self.sources = {name: kit.source(source) / folder for name, (source, folder) in self.trees.items()}

    def groups(self, quick):
        return [*self.trees, "blocks"]

    def run(self, side, group):
        work = side.fresh("work")
        if group == "blocks":
            made = side.run(["ocamlopt", "-w", "-a", "-I", "+threads", "unix.cmxa", "threads.cmxa", "-o", work / "blocks",
                             side.copy(WORKLOADS / "blocks.ml", "work/blocks.ml")], cwd=work)
            return {"compiled": made.outcome, **values(side.run([work / "blocks"], timeout=240))}
        tree = side.copy(self.sources[group], "work/tree")
        if group == "ocamlgraph":
            for path in (tree / "lib").iterdir():
                path.rename(tree / path.name)
            (tree / "version.ml").write_text('let version = "of the tree"\nlet date = ""\n')
        found = {}
        for tool, pattern in (("ocamllex", "*.mll"), ("ocamlyacc", "*.mly")):
            for path in sorted(tree.glob(pattern)):
                found[f"{tool} {path.name}"] = side.run([tool, "-q", path.name], cwd=tree).outcome
        order = side.run(["ocamldep", "-sort", *sorted(p.name for p in tree.glob("*.ml*") if p.suffix in (".ml", ".mli"))], cwd=tree).out.split()
        for name in order:
            found[f"compile {name}"] = side.run(["ocamlopt", "-w", "-a", "-c", name], cwd=tree, timeout=180).outcome
        return {**found, **digest_files(tree, "*.o", "*.cmx", "*.cmi")}


class Ghc(Case):
    """GHC: fgl compiled with two jobs to the same interfaces and objects, and a program on two of its capabilities."""

    name = "ghc"
    medium = 0
    least = 200
    packages = {"ghc": "ghc"}

    def prepare(self, kit):
        self.tree = kit.source("haskell-fgl")

    def groups(self, quick):
        return ["fgl", "blocks"]

    def run(self, side, group):
        work = side.fresh("work")
        if group == "blocks":
            made = side.run(["ghc", "-v0", "-O1", "-threaded", "-rtsopts", "-outputdir", work, "-o", work / "blocks", WORKLOADS / "Blocks.hs"],
                            cwd=work, timeout=300)
            return {"compiled": made.outcome, **values(side.run([work / "blocks", "+RTS", "-N2"], timeout=240))}
        tree = side.copy(self.tree, "work/fgl")
        (tree / "Paths_fgl.hs").write_text("module Paths_fgl where\nimport Data.Version\nversion :: Version\nversion = makeVersion [0]\n")
        done = side.run(["ghc", "-v0", "-O1", "-j2", "-outputdir", work / "out", *sorted(str(p.relative_to(tree)) for p in tree.glob("Data/**/*.hs"))],
                        cwd=tree, timeout=600)
        # Two jobs number things in a different order each time, and so the test compares what each module exports.
        shown = {}
        for path in sorted((work / "out").rglob("*.hi")):
            text = side.run(["ghc", "--show-iface", path]).out
            exports = re.search(r"^exports:\n(.*?)^module dependencies", text, re.MULTILINE | re.DOTALL)
            shown[path.name if path.parent.name == "out" else f"{path.parent.name}/{path.name}"] = digest(exports[1]) if exports else "fail"
        return {"end": done.outcome, "objects": str(len(list((work / "out").rglob("*.o")))), **shown}


class Sbcl(Case):
    """SBCL: functions compiled and run in four threads, foreign memory from malloc, bignums, and a saved core that is started."""

    name = "sbcl"
    medium = 0
    least = 400
    packages = {"sbcl": "sbcl"}

    def groups(self, quick):
        return ["blocks", "saved core"]

    def run(self, side, group):
        work = side.fresh("work")
        plain = ["--noinform", "--no-sysinit", "--no-userinit", "--disable-debugger"]
        if group == "blocks":
            made = side.run(["sbcl", *plain, "--eval", f'(compile-file "{side.copy(WORKLOADS / "blocks.lisp", "work/blocks.lisp")}")', "--quit"], cwd=work)
            return {"compiled": made.outcome, **values(side.run(["sbcl", *plain, "--load", work / "blocks.fasl", "--eval", "(main)", "--quit"],
                                                                cwd=work, timeout=240))}
        saved = side.run(["sbcl", *plain, "--load", WORKLOADS / "blocks.lisp", "--eval",
                          '(save-lisp-and-die "saved" :executable t :toplevel (lambda () (main) (exit)))'], cwd=work)
        return {"saved": saved.outcome, **values(side.run([work / "saved"], timeout=240))}


class Mono(Case):
    """Mono: mcs compiles a program with threads, collections, unmanaged blocks and exceptions; each of its lines is a check."""

    name = "mono"
    medium = 0
    least = 400
    packages = {"mcs": "mono-mcs", "mono": "mono-runtime", "/usr/lib/mono/4.5/System.Core.dll": "libmono-system-core4.0-cil"}

    def groups(self, quick):
        return ["as it is", "all optimisations"]

    def run(self, side, group):
        work = side.fresh("work")
        made = side.run(["mcs", "-optimize", f"-out:{work / 'blocks.exe'}", WORKLOADS / "Blocks.cs"], cwd=work)
        more = ["--optimize=all"] if group == "all optimisations" else []
        return {"compiled": made.outcome, **values(side.run(["mono", *more, work / "blocks.exe"], cwd=work, timeout=240))}
