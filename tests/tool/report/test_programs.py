"""Checks that the resident parts in the report of real programs sum to the kernel's count, within 2 %.

test_programs.py LIBRARY WORKER"""
import shutil
import subprocess
import sys

import reports

ENOUGH = 3  # least number of the programs below that must be installed

PYTHON = "import json\nx = [{'a': str(i), 'b': [i] * 5} for i in range(60000)]\ny = json.loads(json.dumps(x))\ndel x[::2]"
PERL = "my %h; $h{$_} = [($_) x 4] for 1..100000; delete $h{2 * $_} for 1..40000; my $s = 'x' x 20000000; $s .= 'y'"
SQL = """create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000) insert into t select i, hex(randomblob(40)) from n;
create index i on t(b); select count(*), max(b) from t group by a % 100 order by 2;"""


class Programs(reports.Case):
    def reports_of(self, command: list[str], given: str = "", **variables: str) -> list[dict]:
        into = self.folder / "reports"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()
        run = subprocess.run(command, input=given, capture_output=True, text=True, timeout=500, cwd=self.folder,
                             env={**self.environment(report=str(into / "%p.json")), **variables})
        self.assertEqual(run.returncode, 0, run.stderr)
        found = [reports.read(path) for path in into.glob("*.json")]
        self.assertTrue(found and max(report["served"]["malloc"] for report in found) > 100, command)
        return found

    def python3(self) -> list[dict]:
        return self.reports_of([sys.executable, "-c", PYTHON], PYTHONMALLOC="malloc")

    def cc1(self) -> list[dict]:
        compiler = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()
        source = self.folder / "many.c"
        source.write_text("".join(f"int f{i}(int x) {{ int s = 0; while (x) s += x-- * {i}; return s; }}\n" for i in range(600)))
        return self.reports_of([compiler, "-quiet", "-O2", str(source), "-o", str(self.folder / "many.s")])

    def sqlite3(self) -> list[dict]:
        return self.reports_of(["sqlite3", ":memory:"], SQL)

    def perl(self) -> list[dict]:
        return self.reports_of(["perl", "-e", PERL])

    def git(self) -> list[dict]:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "init", "-q", "."], check=True, cwd=self.folder)
        (self.folder / "file").write_text("\n".join(str(i * i) for i in range(50000)))
        return (self.reports_of(["git", "add", "file"]) + self.reports_of(["git", *who, "commit", "-qm", "first"])
                + self.reports_of(["git", "log", "-p"]))

    def test_parts_sum_to_resident(self) -> None:
        tried = 0
        for name, program in {"python3": self.python3, "gcc": self.cc1, "sqlite3": self.sqlite3, "git": self.git,
                              "perl": self.perl}.items():
            if shutil.which(name) is None:
                continue
            tried += 1
            for report in program():
                parts = report["resident_parts"]
                print(f"{name}: {sum(parts.values()) / report['resident']:.4f} of {report['resident']} bytes, HAKMEM's "
                      f"{1 - parts['rest_of_process'] / report['resident']:.3f}", flush=True)
                self.assertTrue(reports.parts_sum_to_resident(report), f"{name}: {report}")
        self.assertGreaterEqual(tried, ENOUGH)


if __name__ == "__main__":
    reports.main()
