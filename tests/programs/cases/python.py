"""CPython: its own regression tests, with every object allocated by malloc."""

import shutil
import subprocess

from harness.case import Case, Skip
from harness.outcomes import junit

QUICK = ("test_json", "test_dict", "test_list", "test_set", "test_threading")
MORE = """
    test_re test_gc test_fork1 test_subprocess test_sqlite3 test_zlib test_io test_concurrent_futures
    test_multiprocessing_fork test_ssl test_ast test_asyncio.test_queues test_asyncio.test_tasks test_array test_bisect
    test_bytes test_bz2 test_class test_codecs test_collections test_configparser test_copy test_csv test_ctypes
    test_datetime test_decimal test_deque test_descr test_email test_enum test_exceptions test_fileio test_float
    test_fstring test_functools test_generators test_grammar test_hashlib test_heapq test_hmac test_httpservers
    test_itertools test_long test_lzma test_marshal test_math test_memoryio test_memoryview test_mmap test_mutants
    test_ordered_dict test_parser test_pickle test_posix test_queue test_random test_richcmp test_scope test_select
    test_signal test_slice test_socket test_sort test_statistics test_str test_struct test_sys test_syntax
    test_tarfile test_tempfile test_thread test_threading_local test_threadsignals test_tokenize test_traceback
    test_tuple test_types test_typing test_unicode test_userdict test_userlist test_weakref test_weakset
    test_xml_etree test_xml_etree_c test_zipfile test_capi
""".split()
SLOW = {"test_concurrent_futures": 600, "test_multiprocessing_fork": 600}


class Python(Case):
    """CPython: its own regression tests, with every object allocated by malloc."""

    name = "python"
    quick = True
    least = 300
    health = 0.9
    packages = {"/usr/lib/python3*/test/test_json": "libpython3-testsuite", "/usr/bin/python3": "python3"}

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
        done = side.run([self.python, "-m", "test", "-v", "--junit-xml", work / "results.xml", group], cwd=work,
                        env={"PYTHONMALLOC": "malloc"}, timeout=SLOW.get(group, 240))
        return {**junit(work / "results.xml"), "end": done.outcome}
