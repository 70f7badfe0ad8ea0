"""Small tools with large inputs: compressors, sort and similar tools, OpenSSL; outputs compared by hash."""

import random

from harness.case import Case
from harness.side import digest

LINES = 300_000


class Tools(Case):
    """Runs a table of shell lines over the same generated files. Each line runs one program of interest."""

    lines = {}   # {group: shell line}; the standard output is compared

    def groups(self, quick):
        return list(self.lines)

    def start(self, side):
        """Writes the same input on both sides: numbers and words from a fixed seed."""
        side.work = side.folder("work")
        chance = random.Random(17)
        words = [f"{chance.randrange(10 ** 9):x}" for _ in range(5000)]
        rows = (f"{chance.randrange(10 ** 6)} {chance.choice(words)} {chance.choice(words)}\n" for _ in range(LINES))
        (side.work / "lines").write_text("".join(rows))
        parts = side.work / "tree"
        parts.mkdir()
        for number in range(200):
            (parts / f"{number:03d}").write_bytes(chance.randbytes(number * 37) + b"x" * number * 101)

    def run(self, side, group):
        done = side.run(["/bin/sh", "-ec", self.lines[group]], cwd=side.work, timeout=180)
        return {"end": done.outcome, "output": digest(done.out), "complaints": digest(side.clean(done.err))}


class Compress(Tools):
    """xz, zstd, gzip, bzip2 and tar, compressed and decompressed, with threads if the tool supports them."""

    name = "compress"
    medium = 8
    least = 15
    packages = {"xz": "xz-utils", "zstd": "zstd", "bzip2": "bzip2", "pigz": "pigz"}
    lines = {
        "xz": "xz -T2 -1 --block-size=1MiB -c lines >a.xz; cat a.xz; xz -dc -T2 a.xz | cmp - lines",
        "zstd": "zstd -q -T2 -9 -c lines >a.zst; cat a.zst; zstd -dqc a.zst | cmp - lines",
        "zstd long": "zstd -q -T2 -4 --long=24 -c lines >b.zst; cat b.zst; zstd -dqc --long=24 b.zst | cmp - lines",
        "gzip": "gzip -nc lines >a.gz; cat a.gz; gzip -dc a.gz | cmp - lines",
        "pigz": "pigz -n -p2 -c lines >b.gz; cat b.gz; pigz -dc b.gz | cmp - lines",
        "bzip2": "bzip2 -c lines >a.bz2; cat a.bz2; bzip2 -dc a.bz2 | cmp - lines",
        "tar": "tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf a.tar tree; cat a.tar; rm -rf x; mkdir x;"
               " tar -xf a.tar -C x; diff -r tree x/tree",
    }


class Coreutils(Tools):
    """sort --parallel, join, uniq, diff, grep, sed, awk, find and xargs over 300 000 lines."""

    name = "coreutils"
    medium = 8
    least = 20
    packages = {"gawk": "gawk"}
    lines = {
        "sort": "sort --parallel=2 -S 8M -k2,2 -k1,1n lines",
        "sort stable": "sort --parallel=2 -s -n lines",
        "uniq": "cut -d' ' -f2 lines | sort --parallel=2 | uniq -c",
        "join": "sort -k2,2 lines >a; sort -u -k2,2 lines | head -n 2000 >b; join -1 2 -2 2 b a",
        "diff": "head -n 20000 lines >a; sed 's/77/seven/' a >b; diff a b || true",
        "grep": "grep -cE '([0-9a-f])\\1.* [a-f]+[0-9]' lines",
        "sed": "sed -E 's/([0-9]+) (\\w+)/\\2 \\1/; y/abc/xyz/' lines",
        "gawk": "gawk '{n[$2] += $1; l[$3] = l[$3] \",\" $1} END {for (k in n) print k, n[k], length(l[k])}' lines | sort",
        "find": "find tree -type f -size +2k -print0 | sort -z | xargs -0 -n 7 sha256sum",
        "tac": "tac lines | rev | nl",
    }


class Openssl(Tools):
    """OpenSSL: digests, ciphers, key derivation, certificates, and its speed loops."""

    name = "openssl"
    medium = 10
    least = 12
    packages = {"openssl": "openssl"}
    lines = {
        "digests": "for d in sha256 sha512 sha3-256 blake2b512 md5; do openssl dgst -$d lines; done",
        "cipher": "openssl enc -aes-256-ctr -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
                  " -iv 000102030405060708090a0b0c0d0e0f -in lines",
        "derivation": "openssl kdf -keylen 64 -kdfopt pass:x -kdfopt salt:y -kdfopt n:16384 -kdfopt r:8 -kdfopt p:1 SCRYPT",
        "certificates": "openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 9 -subj /CN=a 2>/dev/null;"
                        " openssl verify -CAfile c c; openssl dgst -sha256 -sign k -out s lines;"
                        " openssl x509 -in c -noout -pubkey >p; openssl dgst -sha256 -verify p -signature s lines",
        "curves": "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out e; openssl pkey -in e -pubout -out f;"
                  " openssl dgst -sha256 -sign e -out s lines; openssl dgst -sha256 -verify f -signature s lines",
        "speed": "openssl speed -seconds 1 -multi 2 sha256 ecdsap256 >/dev/null 2>&1; echo done",
    }
