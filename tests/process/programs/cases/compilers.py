"""gcc, g++ and clang: real source trees, with the same object files as on glibc."""

import shutil

from harness.case import Case, Skip
from harness.side import digest_files

FLAGS = ("-O2", "-g", "-w", "-c", "-frandom-seed=1", "-pipe")


class Compiler(Case):
    """Runs the compiler once for each file, and compares the hashes of the object files."""

    compiler = ""
    trees = ()          # (Debian source, pattern of files, include folders, macros)
    quick_files = 15
    files = 1000
    least = 20

    def prepare(self, kit):
        self.work = []
        for package, pattern, includes, macros in self.trees:
            tree = kit.source(package)
            found = sorted(tree.glob(pattern))[:self.files]
            if not found:
                raise Skip(f"the source of {package} has no {pattern}")
            flags = [*(f"-I{tree / i}" for i in includes), *(f"-D{m}" for m in macros), f"-ffile-prefix-map={tree}=."]
            self.work += [(f"{package}/{path.relative_to(tree)}", path, flags) for path in found]
        self.program = shutil.which(self.compiler)

    def groups(self, quick):
        names = [name for name, _, _ in self.work]
        return names[:self.quick_files] if quick else names

    def run(self, side, group):
        _, path, flags = next(w for w in self.work if w[0] == group)
        work = side.fresh("objects")
        done = side.run([self.program, *FLAGS, *flags, f"-ffile-prefix-map={work}=.", path, "-o", "file.o"], cwd=work, timeout=180)
        hashes = digest_files(work, "*.o")
        return {"end": done.outcome, "object": hashes.get("file.o", "fail: none")}


class Gcc(Compiler):
    """gcc -O2 over the sources of zlib and part of Redis: identical object files."""

    name = "gcc"
    medium = 10
    quick = 6
    compiler = "gcc"
    packages = {"gcc": "gcc"}
    trees = (("zlib", "*.c", (".",), ("HAVE_UNISTD_H",)),
             ("redis", "src/[bd]*.c", ("src", "deps/hiredis", "deps/lua/src", "deps/hdr_histogram", "deps/linenoise"),
              ("REDIS_STATIC=", "_GNU_SOURCE")))


class Gxx(Compiler):
    """g++ -O2 over LevelDB and RE2: templates, exceptions, identical object files."""

    name = "g++"
    medium = 50
    compiler = "g++"
    packages = {"g++": "g++"}
    files = 14
    trees = (("re2", "re2/*.cc", (".",), ()), ("leveldb", "table/*.cc", (".", "include"), ("LEVELDB_PLATFORM_POSIX=1",)))


class Clang(Compiler):
    """clang -O2 over the same C sources: identical object files."""

    name = "clang"
    medium = 10
    compiler = "clang"
    packages = {"clang": "clang"}
    files = 20
    trees = Gcc.trees
