"""PHP with Debian's extensions, which it opens with RTLD_DEEPBIND: a script that uses each, and PHP's own tests."""

import re
import shutil
import subprocess
from pathlib import Path

from harness.case import WORKLOADS, Case, Skip

EXTENSIONS = """
    amqp apcu ast bcmath bz2 common curl dba ds enchant gd gearman gmp gnupg http igbinary imagick imap interbase intl ldap mailparse
    maxminddb mbstring mcrypt memcache memcached mongodb msgpack mysql oauth odbc opcache pcov pgsql pinba ps pspell psr raphf
    readline redis rrd snmp soap solr sqlite3 ssh2 stomp sybase tideways tidy uopz uploadprogress uuid xdebug xml xmlrpc yaml zip zmq
""".split()
FOLDERS = """
    Zend/tests ext/bcmath/tests ext/bz2/tests ext/ctype/tests ext/curl/tests ext/date/tests ext/dom/tests ext/exif/tests ext/ffi/tests
    ext/fileinfo/tests ext/gd/tests ext/gmp/tests ext/hash/tests ext/iconv/tests ext/intl/tests ext/json/tests ext/mbstring/tests
    ext/openssl/tests ext/pcntl/tests ext/pcre/tests ext/pdo_sqlite/tests ext/phar/tests ext/posix/tests ext/reflection/tests
    ext/session/tests ext/simplexml/tests ext/soap/tests ext/sockets/tests ext/sodium/tests ext/spl/tests ext/sqlite3/tests
    ext/standard/tests ext/tidy/tests ext/tokenizer/tests ext/xml/tests ext/xmlreader/tests ext/xmlwriter/tests ext/xsl/tests
    ext/zip/tests ext/zlib/tests tests/classes tests/lang
""".split()
A_FOLDER, OF_LARGE = 6, 16  # number of tests of each folder, and of folders with more than a thousand
# They depend on the network, on times, on a server of their own, or on the folder's name.
LEFT_OUT = re.compile(r"--(PHPDBG|CAPTURE_STDIO)--|microtime|hrtime|uniqid|fsockopen|stream_socket|getmypid|memory_get|sleep|"
                      r"cli_server|server\.inc|mt_srand\(\)|disk_(free|total)|proc_(open|nice)|getrusage|lstat|touch\(|set_time_limit")
RESULT = re.compile(r"^([A-Z]+)\t\S+/(\S+\.phpt)", re.MULTILINE)
WORDS = {"PASSED": "ok", "FAILED": "fail", "SKIPPED": "skip", "XFAILED": "todo", "BORKED": "error", "LEAKED": "error"}


class Php(Case):
    """PHP with Debian's extensions, which it opens with RTLD_DEEPBIND: a script that uses each, and PHP's own tests."""

    name = "php"
    medium = 100
    least = 400
    health = 0.85  # some tests fail if all extensions are loaded
    packages = {"php8.2": "php8.2-cli",
                **{f"/usr/share/doc/php8.2-{name}": f"php8.2-{name}" for name in EXTENSIONS}}

    def prepare(self, kit):
        self.php = shutil.which("php8.2")
        self.tree = kit.source("php8.2")
        known = subprocess.run([self.php, "-r", "echo PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;"], capture_output=True,
                               text=True, check=True).stdout
        if known != "8.2":
            raise Skip(f"the source is of 8.2, the installed PHP of {known}")
        self.chosen = {folder: self.choose(folder) for folder in FOLDERS}

    def choose(self, folder):
        """Returns some of a folder's tests, spread evenly."""
        every = sorted((self.tree / folder).rglob("*.phpt"))
        count = OF_LARGE if len(every) > 1000 else A_FOLDER
        kept = every[::max(1, len(every) // (2 * count))]
        kept = [path for path in kept if not LEFT_OUT.search(path.read_text(errors="replace"))]
        return [str(path.relative_to(self.tree)) for path in kept[:count]]

    def groups(self, quick):
        return ["extensions", *(folder for folder, tests in self.chosen.items() if tests)]

    def start(self, side):
        side.tests = side.folder("php")
        shutil.copy2(self.tree / "run-tests.php", side.tests)

    def run(self, side, group):
        if group == "extensions":
            done = side.run([self.php, WORKLOADS / "extensions.php"], cwd=side.fresh("work"), env={"XDEBUG_MODE": "off"})
            return {**dict(re.findall(r"^([\w-]+)=(\S+)$", done.out, re.MULTILINE)), "end": done.outcome}
        if not (side.tests / group).exists():  # a copy, because tests write into their folder
            shutil.copytree(self.tree / group, side.tests / group, symlinks=True)
        results = side.tests / "results.txt"
        results.unlink(missing_ok=True)
        # The tested PHP must not get -n, because the installed php.ini lists its extensions. uopz's own exit must not be used either.
        done = side.run([self.php, "-n", "run-tests.php", "-q", "-x", "--offline", "-p", self.php, "-d", "uopz.exit=1",
                         "-W", results, *self.chosen[group]], cwd=side.tests,
                        env={"XDEBUG_MODE": "off", "NO_INTERACTION": "1"}, timeout=300)
        text = results.read_text(errors="replace") if Path(results).exists() else ""
        return {name.split("/tests/")[-1]: WORDS.get(word, word.lower()) for word, name in RESULT.findall(text)} | {
            "end": "ran" if text else done.outcome}
