"""Ruby: the core's and the library's own tests, run by the installed ruby of the same version."""

import re
import shutil
import subprocess

from harness.case import Case, Skip

FILES = """
    ruby/test_array ruby/test_hash ruby/test_string ruby/test_symbol ruby/test_regexp ruby/test_range ruby/test_struct
    ruby/test_enum ruby/test_enumerator ruby/test_proc ruby/test_method
    ruby/test_module ruby/test_object ruby/test_marshal ruby/test_integer ruby/test_bignum
    ruby/test_float ruby/test_complex ruby/test_rational ruby/test_pack ruby/test_sprintf ruby/test_m17n ruby/test_iterator
    ruby/test_lazy_enumerator ruby/test_keyword ruby/test_pattern_matching ruby/test_time
    ruby/test_transcode ruby/test_weakmap ruby/test_objectspace test_set test_pp test_tempfile json/json_parser_test
    json/json_generator_test strscan/test_stringscanner stringio/test_stringio zlib/test_zlib bigdecimal/test_bigdecimal
    csv/parse/test_general date/test_date monitor/test_monitor psych/test_yaml ripper/test_parser_events
""".split()
RAN = re.compile(r"^\[ *\d+/\d+\] (\S+#\S+) = [\d.]+ s", re.MULTILINE)
REPORTED = re.compile(r"^ *\d+\) (Failure|Error|Skipped):\n(\S+#\S+?):?(?= |$)", re.MULTILINE)
WORDS = {"Failure": "fail", "Error": "error", "Skipped": "skip"}


class Ruby(Case):
    """Ruby: the core's and the library's own tests, run by the installed ruby of the same version."""

    name = "ruby"
    medium = 80
    least = 1500
    packages = {"ruby": "ruby"}

    def prepare(self, kit):
        self.ruby = shutil.which("ruby3.1") or shutil.which("ruby")
        self.tree = kit.source("ruby3.1")
        version = subprocess.run([self.ruby, "-e", "print RUBY_VERSION"], capture_output=True, text=True,
                                 check=True).stdout
        if not version.startswith("3.1"):
            raise Skip(f"the source is of 3.1, the installed ruby of {version}")

    def groups(self, quick):
        return [f for f in FILES if (self.tree / "test" / f"{f}.rb").exists()]

    def run(self, side, group):
        done = side.run([self.ruby, "-W0", "-I", self.tree / "tool/lib", "-I", self.tree / "test/lib",
                         self.tree / "test/runner.rb", "-v", "--color=never", "--tty=no", "--seed=1",
                         self.tree / "test" / f"{group}.rb"], cwd=side.fresh("work"),
                        env={"RUBYOPT": ""}, timeout=240)
        found = {name: "ok" for name in RAN.findall(done.out)}
        found.update((name, WORDS[word]) for word, name in REPORTED.findall(done.out))
        return {**found, "end": done.outcome}
