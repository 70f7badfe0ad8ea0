"""Java: javac over commons-lang, the class files compared, and a program with many threads."""

import re
import shutil

from harness.case import WORKLOADS, Case
from harness.side import digest_files

FOLDER = "src/main/java"


class Java(Case):
    """Java: javac over commons-lang, the class files compared, and a program with many threads."""

    name = "java"
    medium = 30
    least = 150
    packages = {"javac": "default-jdk-headless"}

    def prepare(self, kit):
        self.javac, self.java = shutil.which("javac"), shutil.which("java")
        self.sources = kit.source("libcommons-lang3-java") / FOLDER

    def groups(self, quick):
        return ["javac commons-lang", "threads"]

    def run(self, side, group):
        work = side.fresh("work")
        if group == "threads":
            built = side.run([self.javac, "-d", work, WORKLOADS / "Threads.java"])
            done = side.run([self.java, "-Xmx256m", "-cp", work, "Threads"], timeout=180)
            return {"compiled": built.outcome, "end": done.outcome, **dict(re.findall(r"^(\w+)=(\w+)$", done.out, re.M))}
        files = sorted(self.sources.rglob("*.java"))
        done = side.run([self.javac, "-nowarn", "-encoding", "UTF-8", "-d", work, *files], timeout=240)
        return {"end": done.outcome, **digest_files(work, "*.class")}
