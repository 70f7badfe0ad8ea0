"""Emacs and Vim: their own tests, and the output of their compilers."""

import re
import shutil
from pathlib import Path

from harness.case import Case
from harness.outcomes import numbered
from harness.side import digest_files

# They need the network, a terminal or other users' processes, or they wait by the clock.
UNSTEADY = re.compile(r"/(filenotify|inotify|tramp|auth-source|network-stream|gnutls|mailcap|socks|process|keyboard|comp|term|vterm|"
                      r"em-|esh|eshell|eww|shr|url-|browse|dired|epg|epa|battery|xt-mouse|thumbs|image|wdired|vc|bug-reference|flymake|"
                      r"man|xref|python|gdb|lpr|dbus|rfc|nsm|autorevert|emacs-module|shadowfile|server|tab-bar|callproc|time-stamp|"
                      r"emacsclient|undigest|jsonrpc|icalendar|todo-mode|package|memory-report|profiler|edebug|testcover|kmacro)[^/]*-tests.el$")
PASSED = re.compile(r"^ +(passed|FAILED|failed|skipped) +\d+/\d+ +(\S+)", re.MULTILINE)
WORDS = {"passed": "ok", "FAILED": "fail", "failed": "ok", "skipped": "skip"}  # "failed" in lower case means an expected failure
COMPILED = ("emacs-lisp/*.el", "textmodes/[f-r]*.el", "calendar/*.el", "net/[a-e]*.el")
NATIVE = ("emacs-lisp/ring.el", "emacs-lisp/avl-tree.el", "emacs-lisp/seq.el", "emacs-lisp/rx.el", "calc/calc-bin.el", "json.el", "sort.el")


class Emacs(Case):
    """Emacs: its own tests in batch, its compiler over its own Lisp, and native code by libgccjit."""

    name = "emacs"
    medium = 0
    least = 1500
    packages = {"emacs": "emacs-nox", "/usr/share/emacs/*/lisp/subr.el*": "emacs-el"}

    def prepare(self, kit):
        self.tree = kit.source("emacs")
        self.program = shutil.which("emacs")

    def groups(self, quick):
        tests = sorted(str(p.relative_to(self.tree)) for f in ("src", "lisp", "lisp/emacs-lisp", "lisp/textmodes", "lisp/progmodes",
                                                               "lisp/calc", "lisp/international", "lisp/calendar", "lisp/net")
                       for p in (self.tree / "test" / f).glob("*-tests.el"))
        return [*(t for t in tests if not UNSTEADY.search(t)), *(f"compile {c}" for c in COMPILED), "native"]

    def start(self, side):
        for part in ("test", "lisp"):
            side.copy(self.tree / part, part)
        shutil.copytree(self.tree / "etc", side.dir / "etc", symlinks=True)

    def emacs(self, side, *words, timeout=240):
        return side.run([self.program, "-Q", "--batch", *words], cwd=side.dir / "test", timeout=timeout,
                        env={"EMACS_TEST_DIRECTORY": side.dir / "test", "EMACSLOADPATH": ""})

    def run(self, side, group):
        if group == "native":
            return self.native(side)
        if group.startswith("compile "):
            files = sorted((side.dir / "lisp").glob(group.split()[1]))
            work = side.fresh("compiled")
            for path in files:
                shutil.copy2(path, work)
            done = self.emacs(side, "-f", "batch-byte-compile", *sorted(work.glob("*.el")), timeout=400)
            return {"end": done.outcome, **digest_files(work, "*.elc")}
        done = self.emacs(side, "-L", Path(group).parent.name, "-l", "ert", "-l", side.dir / group, "--eval",
                          "(ert-run-tests-batch-and-exit '(not (or (tag :expensive-test) (tag :unstable) (tag :nativecomp))))")
        return {**numbered((name, WORDS[word]) for word, name in PASSED.findall(done.out + done.err)), "end": done.outcome}

    def native(self, side):
        """Each file is compiled by libgccjit and loaded, and its byte-compiled functions must be gone."""
        found = {}
        for name in NATIVE:
            out = side.fresh("native") / "out.eln"
            done = self.emacs(side, "--eval", f'(progn (native-compile "{side.dir}/lisp/{name}" "{out}") (load "{out}") (let ((n 0))'
                              f' (mapatoms (lambda (s) (when (and (fboundp s) (subr-native-elisp-p (symbol-function s))'
                              f' (equal (file-name-nondirectory (or (ignore-errors (native-comp-unit-file (subr-native-comp-unit'
                              f' (symbol-function s)))) "")) "out.eln")) (setq n (1+ n))))) (message "native=%d" n)))')
            said = re.search(r"^native=(\d+)$", done.err, re.MULTILINE)
            found[name] = f"{done.outcome}, {said[1] if said else 'no'} functions"
        return found


VIM_TESTS = """
    arglist assert autocmd autoload blob blockedit breakindent buffer bufline cd changelist charsearch cindent cmdline const cursor_func
    cursorline diffmode digraph edit ex_equal exists expand expand_func expr fileformat filetype filter_map fixeol flatten float_func
    fnamemodify fold functions gf glob2regpat global gn goto hlsearch increment indent ins_complete join json jumplist lambda let
    lineending lispindent listchars listdict listener listlbr mapping marks match matchfuzzy method mksession nested_function normal
    options partial popup prompt_buffer put python3 pyx3 quickfix recover regexp_latin regexp_utf8 registers retab search search_stat
    searchpos signs smartindent sort source spell spell_utf8 statusline substitute syn_attr syntax tabline tabpage tagjump taglist
    textformat textobjects textprop true_false trycatch undo unlet user_func usercommands utf8 vartabs vim9_assign vim9_builtin
    vim9_cmd vim9_disassemble vim9_expr vim9_func vim9_import vim9_script viminfo vimscript virtualedit visual window_cmd wordcount writefile
""".split()
RAN = re.compile(r"^Executed (Test_\w+)\(", re.MULTILINE)
FAILED = re.compile(r"^Found errors in (Test_\w+)\(", re.MULTILINE)
SKIPPED = re.compile(r"^SKIPPED (Test_\w+)\(", re.MULTILINE)


class Vim(Case):
    """Vim with Python 3: its own tests, run by the installed Vim."""

    name = "vim"
    medium = 0
    least = 1500
    packages = {"/usr/bin/vim.nox": "vim-nox", "make": "make", "xxd": "xxd"}

    def prepare(self, kit):
        self.tree = kit.source("vim")

    def groups(self, quick):
        return [t for t in VIM_TESTS if (self.tree / f"src/testdir/test_{t}.vim").exists()]

    def start(self, side):
        side.folder("vim")
        for part in ("src", "runtime"):
            side.copy(self.tree / part, f"vim/{part}")

    def run(self, side, group):
        tests = side.dir / "vim/src/testdir"
        (tests / "messages").unlink(missing_ok=True)
        # One of the two left out expects a job to end at the moment of its output, and otherwise breaks a later test. The other one depends on the
        # clock.
        done = side.run(["make", f"test_{group}", "VIMPROG=/usr/bin/vim.nox", "XXDPROG=xxd"], cwd=tests, timeout=300,
                        env={"TEST_SKIP_PAT": r"Test_no_unknown_error_after_error\|Test_searchpair_timeout"})
        said = (tests / "messages").read_text(errors="replace") if (tests / "messages").exists() else ""
        found = {name: "ok" for name in RAN.findall(said)}
        found.update({name: "skip" for name in SKIPPED.findall(said)})
        found.update({name: "fail" for name in FAILED.findall(said)})
        return {**found, "end": done.outcome}
