"""CPython: its own regression tests, with every object allocated by malloc."""

import shutil
import subprocess

from harness.case import Case, Skip
from harness.outcomes import junit

QUICK = ("test_json", "test_dict", "test_list", "test_set", "test_threading")
MORE = """
    test_re test_gc test_fork1 test_subprocess test_sqlite3 test_zlib test_io test_concurrent_futures
    test_multiprocessing_fork test_ssl test_ast test_bytes test_bz2 test_collections test_copy test_csv test_ctypes
    test_decimal test_deque test_descr test_functools test_generators test_hashlib test_itertools test_memoryview
    test_mmap test_ordered_dict test_pickle test_queue test_struct test_thread test_threading_local test_weakref
    test_xml_etree test_capi
""".split()
# It may wait forever for a future that it has cancelled, with CPython before 3.11.3 (its issue gh-94440).
UNSTEADY = "test_map_exception"
SLOW = {"test_concurrent_futures": 600, "test_multiprocessing_fork": 600}


class Python(Case):
    """CPython: its own regression tests, with every object allocated by malloc."""

    name = "python"
    medium = 400
    quick = 20
    least = 300
    health = 0.9
    packages = {"/usr/lib/python3*/test/test_json": "libpython3.11-testsuite", "/usr/bin/python3": "python3"}

    def prepare(self, kit):
        self.python = next((p for p in ("/usr/bin/python3", shutil.which("python3")) if self.has_tests(p)), None)
        if not self.python:
            raise Skip("no python3 with its test package")
        found = subprocess.run([self.python, "-c", "import test, os; print(*os.listdir(test.__path__[0]))"],
                               capture_output=True, text=True, check=True).stdout.split()
        self.modules = {name.removesuffix(".py") for name in found}

    @staticmethod
    def has_tests(python):
        return python and subprocess.run([python, "-c", "import test.test_json"], capture_output=True,
                                         check=False).returncode == 0

    def groups(self, quick):
        return [g for g in (QUICK if quick else QUICK + tuple(MORE)) if g.split(".")[0] in self.modules]

    def run(self, side, group):
        work = side.fresh("work")
        done = side.run([self.python, "-m", "test", "-v", "-i", UNSTEADY, "--junit-xml", work / "results.xml", group], cwd=work,
                        env={"PYTHONMALLOC": "malloc"}, timeout=SLOW.get(group, 240))
        return {**junit(work / "results.xml"), "end": done.outcome}
