#!/usr/bin/env python3
"""Checks that real programs have the same output and exit status on libhakmem-hardened.so as without it.   check_same.py LIBRARY"""
import os
import shutil
import subprocess
import sys
import tempfile

PYTHON = """
import hashlib, json, re, zlib, pickle, collections, sqlite3
words = [str(i * 7919 % 10007) for i in range(60000)]
text = json.dumps({w: [w, len(w)] for w in words})
packed = zlib.compress(text.encode())
base = sqlite3.connect(':memory:')
base.execute('create table t (a text, b int)')
base.executemany('insert into t values (?, ?)', [(w, len(w)) for w in words])
print(hashlib.sha256(packed).hexdigest(), len(re.findall('1+2', text)), len(pickle.dumps(words)), collections.Counter(words).most_common(2))
print(base.execute('select a, count(*) from t group by a order by 2 desc, 1 limit 3').fetchall())
buffer = bytearray(3 << 20)
buffer[1 << 20:2 << 20] = b'x' * (1 << 20)
print(hashlib.sha256(buffer).hexdigest())
"""
BASH = """
x=; for i in {1..3000}; do x=$x$i; a[i]=${x:0:50}; done; echo ${#x} ${#a[@]} "${a[2999]//1/one}"
printf '%s\\n' {1..2000} | sort -r | head -3; sed 's/a/b/g' <<<"aaa$x" | cksum
"""
C = "#include <stdio.h>\n" + "".join(f"int f{i}(int a) {{ return a * {i} + {i}; }}\n" for i in range(300)) + "int main(void) { return f7(1); }\n"
GIT = """
git init -q . && git config user.email a@b && git config user.name a
for i in 1 2 3 4 5; do seq $((i * 1000)) > file$i; git add . ; GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' git commit -qm "$i"; done
git gc -q; git log --format='%H %s'; git diff HEAD~2 --stat; git fsck 2>/dev/null; git grep -c 777
"""
CASES = {
    "python3": [sys.executable, "-c", PYTHON],
    "python3 without its pools": ["env", "PYTHONMALLOC=malloc", sys.executable, "-c", PYTHON],
    "bash": ["bash", "-c", BASH],
    "gcc": ["sh", "-c", "gcc -O2 -S -o - program.c | cksum; gcc program.c -o program && ./program; echo $?"],
    "git": ["sh", "-c", GIT],
    "tar and gzip": ["sh", "-c", "tar --sort=name --mtime=@0 --owner=0 --group=0 -cf - program.c | gzip -nc | cksum"],
    "awk and grep": ["sh", "-c", "seq 20000 | awk '{ s = s $1; n[$1 % 100]++ } END { print length(s), n[7] }'; seq 50000 | grep -c '[13]7'"],
}


def run(command, library):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "program.c"), "w", encoding="ascii") as file:
            file.write(C)
        env = {"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C", "PYTHONHASHSEED": "0"}
        if library:
            env["LD_PRELOAD"] = library
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=500, check=False)
    return done.returncode, done.stdout, done.stderr


def main():
    library, failed, ran = sys.argv[1], 0, 0
    for name, command in CASES.items():
        if any(shutil.which(word) is None for word in name.split(" without")[0].split(" and ")):
            print(f"absent {name}")
            continue
        ran += 1
        plain, hardened = run(command, None), run(command, library)
        same = plain == hardened and plain[0] == 0 and plain[1]
        failed += not same
        print(f"{'ok' if same else 'FAILED':6} {name}")
        if not same:
            print(f"       alone    {plain}\n       hardened {hardened}")
    print(f"checked: {ran} programs, {failed} failed")
    return 1 if failed or ran < 3 else 0


if __name__ == "__main__":
    sys.exit(main())
