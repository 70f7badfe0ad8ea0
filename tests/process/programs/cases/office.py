"""LibreOffice without a display and pdfTeX: documents converted and back, compared by their text and pages."""

import random
import re
import shutil

from harness.case import Case
from harness.side import digest, digest_files

ROWS = 1500


def table(chance):
    """Returns comma-separated values with formulas for LibreOffice to calculate."""
    rows = ["number,word,product,sum"]
    for n in range(2, ROWS):
        rows.append(f'{chance.randrange(10 ** 6)},{chance.choice(("red", "green", "blue"))} {n % 97},"=A{n}*{n % 13}","=SUM(A2:A{n})"')
    return "\n".join(rows) + "\n"


def page(chance):
    """Returns HTML with headings, tables, lists and markup."""
    parts = ["<html><body>"]
    for n in range(60):
        words = " ".join(chance.choice(("anchor", "bridge", "cellar", "dragon", "engine", "feather")) for _ in range(80))
        parts.append(f"<h{n % 3 + 1}>Part {n}</h{n % 3 + 1}><p>{words} <b>{n}</b> <i>{n * n}</i></p>")
        parts.append("<table border=1>" + "".join(f"<tr><td>{n}</td><td>{k}</td><td>{n * k}</td></tr>" for k in range(12)) + "</table>")
        parts.append("<ul>" + "".join(f"<li>item {k}</li>" for k in range(n % 7)) + "</ul>")
    return "".join(parts) + "</body></html>"


class LibreOffice(Case):
    """LibreOffice: tables and texts converted to its formats and back, each line and number a check."""

    name = "libreoffice"
    medium = 0
    least = 4000
    serial = True
    packages = {"soffice": "libreoffice-core-nogui", "/usr/lib/libreoffice/program/libswlo.so": "libreoffice-writer-nogui",
                "/usr/lib/libreoffice/program/libsclo.so": "libreoffice-calc-nogui"}
    steps = {"ods": ("table.csv", "ods"), "xlsx": ("table.ods", "xlsx"), "xls": ("table.xlsx", "xls"), "csv back": ("table.xls", "csv"),
             "odt": ("text.html", "odt"), "docx": ("text.odt", "docx"), "rtf": ("text.docx", "rtf"), "doc": ("text.rtf", "doc"),
             "text back": ("text.doc", "txt"), "pdf": ("text.odt", "pdf"), "html back": ("table.ods", "html")}

    def groups(self, quick):
        return list(self.steps)

    def start(self, side):
        side.work = side.folder("work")
        (side.work / "table.csv").write_text(table(random.Random(31)))
        (side.work / "text.html").write_text(page(random.Random(37)))

    def run(self, side, group):
        source, kind = self.steps[group]
        out = side.fresh("out")
        words = {"odt": "odt:writer8", "txt": "txt:Text (encoded):UTF8", "csv": "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true"}
        more = ["--infilter=HTML (StarWriter)"] if source == "text.html" else []
        done = side.run(["soffice", f"-env:UserInstallation=file://{side.dir}/profile", "--headless", "--norestore", "--nologo", *more, "--convert-to",
                         words.get(kind, kind), "--outdir", out, side.work / source], timeout=300, env={"SAL_DISABLE_CUPS": "1"})
        made = next(iter(out.iterdir()), None)
        found = {"end": done.outcome, "made": "ok" if made else "fail"}
        if made is None:
            return found
        if kind in ("csv", "txt", "html"):
            lines = re.sub(r'content="[^"]*"', "@", made.read_text(errors="replace")).splitlines()
            return {**found, **{f"line {number}": digest(line) for number, line in enumerate(lines, 1)}}
        shutil.copy2(made, side.work)
        if kind == "pdf":
            found["pages"] = str(len(re.findall(rb"/Type ?/Page\b(?!s)", made.read_bytes())))
        return found


DOCUMENT = r"""\documentclass[11pt]{article}
\usepackage{amsmath,longtable,makeidx,multicol}\makeindex
\pdfinfoomitdate=1\pdftrailerid{}\pdfsuppressptexinfo=-1
\newcount\n\newcommand{\fib}[1]{\n=#1 \the\n}
\begin{document}\title{Many pages}\author{Nobody}\date{}\maketitle\tableofcontents
%s
\begin{thebibliography}{9}\bibitem{a} A book.\end{thebibliography}\printindex\end{document}
"""


def section(number, chance):
    words = " ".join(chance.choice(("matrix", "vector", "scalar", "tensor", "kernel", "module", "lattice")) for _ in range(220))
    rows = "".join(rf"{k} & {k * number} & $\sqrt{{{k + number}}}$ & \textit{{{chance.choice('abcdef') * 4}}}\\" for k in range(25))
    return (rf"\section{{Part {number}}}\label{{s{number}}}\index{{part {number}}} {words} See section \ref{{s{(number * 7) % 60}}} and \cite{{a}}."
            rf"\[\sum_{{k=0}}^{{{number}}}\binom{{{number}}}{{k}}\frac{{x^k}}{{k!}}=\prod_{{j}}\begin{{pmatrix}}a_{{{number}}}&b\\c&d\end{{pmatrix}}\]"
            rf"\begin{{longtable}}{{rrll}}{rows}\end{{longtable}}\begin{{multicols}}{{2}}{words}\end{{multicols}}\footnote{{{words[:90]}}}")


class PdfLatex(Case):
    """pdfTeX and its helpers: long documents in three runs, the format itself; files and each line of the log are checks."""

    name = "pdflatex"
    medium = 0
    least = 1000
    packages = {"pdflatex": "texlive-latex-base", "/usr/share/texlive/texmf-dist/tex/latex/tools/longtable.sty": "texlive-latex-base"}

    def groups(self, quick):
        return ["document", "samples", "format"]

    def tex(self, side, work, *words):
        return side.run(["pdftex" if "-ini" in words else "pdflatex", "-interaction=nonstopmode", *words], cwd=work, timeout=240,
                        env={"SOURCE_DATE_EPOCH": "1000000000", "FORCE_SOURCE_DATE": "1", "TEXMFVAR": side.dir / "texmf", "max_print_line": "1000"})

    def run(self, side, group):
        work = side.fresh("work")
        if group == "format":
            # This builds the format. Debian's list of languages for hyphenation differs from that of TeX Live.
            done = self.tex(side, work, "-ini", "-etex", "-jobname=made", "pdflatex.ini")
            return {"end": done.outcome, **self.lines(work / "made.log"), **digest_files(work, "*.fmt")}
        if group == "samples":
            found = {}
            for name in ("sample2e", "small2e", "lppl"):
                done = self.tex(side, work, f"{name}.tex")
                found[name] = done.outcome
            return {**found, **digest_files(work, "*.aux", "*.pdf", "*.dvi")}
        chance = random.Random(41)
        (work / "many.tex").write_text(DOCUMENT % "\n".join(section(n, chance) for n in range(60)))
        found = {}
        for turn in range(3):
            found[f"run {turn}"] = self.tex(side, work, "many.tex").outcome
            found[f"index {turn}"] = side.run(["makeindex", "-q", "many.idx"], cwd=work).outcome
            found.update((f"{name} {turn}", value) for name, value in digest_files(work, "*.aux", "*.toc", "*.ind", "*.pdf").items())
        return {**found, **self.lines(work / "many.log")}

    @staticmethod
    def lines(path):
        """Returns the lines of the log except the first one, which contains the time."""
        said = path.read_text(errors="replace").splitlines()[1:] if path.exists() else []
        return {f"log {n}": digest(line) for n, line in enumerate(said)}
