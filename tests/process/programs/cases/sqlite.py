"""SQLite: its own Tcl tests and speedtest1, built from the same source."""

import re

from harness.case import Case
from harness.outcomes import lines
from harness.side import digest

SCRIPTS = """
    select1 select2 select3 select4 select5 insert insert2 update delete index index2 join join2 where where2 trigger1
    trigger2 view alter altertab expr func date misc1 misc2 misc3 null collate1 collate2 subquery subselect aggnested
    window1 window2 with1 with2 upsert1 json101 json102 fts3aa fts3ab fts4content rtree1 blob autoinc analyze attach
    between cast check conflict count default distinct enc fkey1 fkey2 format4 hook in intarray like limit main memdb
    minmax notnull orderby1 pragma printf quote rowid savepoint sort tkt1435 trans types unique utf16align vacuum wal
    malloc3 mallocA thread001 thread1
""".split()
LINE = r"^\.*(?P<name>\S+?)\.\.\. (?P<outcome>Ok|Omitted)?.*$"
WORDS = {"Ok": "ok", "Omitted": "skip", None: "fail"}
COUNT = re.compile(r"^(\d+) errors? out of (\d+) tests", re.MULTILINE)
SWITCHES = ("--with-tcl=/usr/lib/tcl8.6", "--disable-readline", "--disable-shared")


class Sqlite(Case):
    """SQLite: its own Tcl tests and speedtest1, built from the same source."""

    name = "sqlite"
    medium = 34
    least = 2000
    packages = {"tclsh8.6": "tcl8.6", "/usr/include/tcl8.6/tcl.h": "tcl8.6-dev", "gcc": "gcc", "make": "make"}

    def prepare(self, kit):
        def build(tree):
            kit.call(["./configure", *SWITCHES, "CFLAGS=-O1"], cwd=tree)
            kit.call(["make", "testfixture", "speedtest1"], cwd=tree, timeout=1500)

        self.tree = kit.built("sqlite", "sqlite3", build)

    def groups(self, quick):
        there = [s for s in SCRIPTS if (self.tree / "test" / f"{s}.test").exists()]
        return there + ["speedtest1", "speedtest1 memdb", "speedtest1 threads"]

    @staticmethod
    def folded(found):
        """Joins the outcomes of simulated failures whose names differ only in numbers. The allocator influences how many there are, because SQLite
        asks malloc_usable_size before it requests more. None may fail."""
        worst = {}
        for name, outcome in found.items():
            kind = re.sub(r"\d+", "#", name)
            worst[kind] = "fail" if "fail" in (outcome, worst.get(kind)) else outcome
        return worst

    def run(self, side, group):
        work = side.fresh("work")
        if group.startswith("speedtest1"):
            extra = {"speedtest1 memdb": ["--memdb"], "speedtest1 threads": ["--multithread"]}.get(group, [])
            done = side.run([self.tree / "speedtest1", "--size", "12", "--verify", *extra, "test.db"], cwd=work)
            steady = re.sub(r"\b\d+\.\d+s", "", done.out)
            return {"end": done.outcome, "results": digest(steady)}
        done = side.run([self.tree / "testfixture", self.tree / "test" / f"{group}.test", "--verbose=1"], cwd=work,
                        timeout=180)
        found = lines(LINE, done.out, WORDS)
        if group.startswith("malloc"):
            found = self.folded(found)
        total = COUNT.search(done.out)
        return {**found, "no errors in the end": "ok" if total and total[1] == "0" else "fail", "end": done.outcome}
