"""git: scripts t0 and t1 of its own test suite, on a git built from the same source."""

from harness.case import Case
from harness.outcomes import lines

ALWAYS = ("t0003", "t0020", "t1006", "t1300")
# They take minutes, or they test terminals, servers and file systems rather than the program.
LEFT_OUT = ("t0021", "t0027", "t0300", "t0301", "t0303", "t0410", "t1006", "t1050", "t1092", "t1091", "t1400", "t1512",
            "t1510", "t1700", "t1701", "t0610", "t0040", "t0052", "t1013", "t1300")
STEP = 3  # every third script of the others, because all take many minutes
BUILD = ("NO_GETTEXT=1", "NO_TCLTK=1", "NO_CURL=1", "NO_EXPAT=1", "NO_PYTHON=1", "CFLAGS=-O1")
KNOWN = {"ok": "ok", "not ok": "fail"}
LINE = r"^(?P<outcome>not ok|ok) (?P<name>\d+ - .*?)(?: # (?:skip|TODO).*)?$"


class Git(Case):
    """git: scripts t0 and t1 of its own test suite, on a git built from the same source."""

    name = "git"
    medium = 65
    least = 100
    packages = {"gcc": "gcc", "make": "make", "msgfmt": "gettext", "/usr/include/zlib.h": "zlib1g-dev",
                "/usr/include/openssl/ssl.h": "libssl-dev", "perl": "perl"}

    def prepare(self, kit):
        def build(tree):
            kit.call(["make", "-j2", *BUILD], cwd=tree, timeout=1500)
            (tree / "built-at").write_text(str(tree))
            for needless in [*tree.rglob("*.o"), *tree.rglob("*.a")]:
                needless.unlink()

        self.tree = kit.built("git", "git", build)

    def groups(self, quick):
        scripts = sorted(p.name for p in (self.tree / "t").glob("t[01]*.sh"))
        kept = [s for s in scripts if not s.startswith(LEFT_OUT)]
        return [s for s in scripts if s.startswith(ALWAYS) or s in kept[::STEP]]

    def start(self, side):
        """Makes a copy whose wrappers call the copy's own programs."""
        side.tree = side.copy(self.tree, "git")
        built_at = (side.tree / "built-at").read_text().strip()
        for script in [*(side.tree / "bin-wrappers").iterdir(), side.tree / "GIT-BUILD-OPTIONS"]:
            script.write_text(script.read_text().replace(built_at, str(side.tree)))

    def run(self, side, group):
        # Without TEST_NO_MALLOC_CHECK, git's tests would use glibc's checking malloc instead of the tested one.
        env = {"TEST_NO_MALLOC_CHECK": "1", "GIT_TEST_CHAIN_LINT": "0", "SHELL": "/bin/sh"}
        done = side.run(["/bin/sh", group, "--no-color"], cwd=side.tree / "t", env=env, timeout=180)
        return {**lines(LINE, side.clean(done.out), KNOWN), "end": done.outcome}
