"""Tests the description of the peers. Run by CTest, without a network:

python3 bench/test_peers.py
"""
import hashlib
import io
import os
import sys
import tarfile
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

import peers
import sources
from sources import Crate, Source


class Built(unittest.TestCase):
    """A crate of one file, in a Cargo cache of the test's own."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.cache = self.root / "peers"
        self.enterContext(mock.patch.dict(os.environ, CARGO_HOME=str(self.root / "cargo")))
        self.enterContext(mock.patch.multiple(sources, CACHE=self.cache, say=mock.DEFAULT))
        crate = Crate("toy-sys", "1.0.0+2.0", self.write_crate("toy-sys-1.0.0+2.0"))
        self.source = Source("toy", "2.0", crate, 'cp toy.c "$OUT/toy.so"', "toy.so")

    def write_crate(self, stem: str) -> str:
        archive = self.root / "cargo/registry/cache/index" / f"{stem}.crate"
        archive.parent.mkdir(parents=True)
        with tarfile.open(archive, "w:gz") as tar:
            member = tarfile.TarInfo(f"{stem}/toy.c")
            member.size = 4
            tar.addfile(member, io.BytesIO(b"toy\n"))
        return hashlib.sha256(archive.read_bytes()).hexdigest()

    def left_behind(self) -> list[str]:
        return sorted(e.name for e in self.cache.iterdir() if e.suffix != ".lock")

    def test_once(self) -> None:
        library = sources.built_library(self.source)
        self.assertEqual(library.read_text(), "toy\n")
        os.utime(library, (1, 1))
        self.assertEqual(sources.built_library(self.source).stat().st_mtime, 1)

    def test_another_recipe_is_another_build(self) -> None:
        old = sources.built_library(self.source)
        changed = replace(self.source, recipe='echo new >"$OUT/toy.so"')
        new = sources.built_library(changed)
        self.assertEqual((new.read_text(), old.read_text()), ("new\n", "toy\n"))
        self.assertEqual(self.left_behind(), sorted([old.parent.name, new.parent.name]))

    def test_each_part_of_a_recipe_counts(self) -> None:
        crate = replace(self.source.crate, sha256="0" * 64)
        for other in (replace(self.source, crate=crate), replace(self.source, library="t.so")):
            self.assertNotEqual(other.fingerprint(), self.source.fingerprint())

    def test_a_build_that_fails_has_a_reason_and_leaves_nothing(self) -> None:
        crate = self.source.crate
        for reason, changes in (
            ("no luck", {"recipe": 'cp toy.c "$OUT/toy.so"; echo no luck >&2; exit 1'}),
            ("absent", {"recipe": "cp absent toy.so"}),
            ("failed", {"recipe": f"false\n{self.source.recipe}"}),
            ("made no toy.so", {"recipe": "true"}),
            ("SHA-256", {"crate": replace(crate, sha256="0" * 64)}),
            ("no cargo", {"crate": replace(crate, version="9.9.9")}),
            ("1.9, not 2.0", {"says": 'print("1.9")', "recipe": 'echo >"$OUT/toy.so"'}),
        ):
            path = {"PATH": "nothing"} if reason == "no cargo" else {}
            with self.subTest(reason), mock.patch.dict(os.environ, path), self.assertRaisesRegex(RuntimeError, reason):
                sources.built_library(replace(self.source, **changes))
            self.assertEqual(self.left_behind(), [])

    def test_flags_of_the_caller_do_not_reach_a_build(self) -> None:
        source = replace(self.source, recipe='echo "${CFLAGS-none}" >"$OUT/toy.so"')
        with mock.patch.dict(os.environ, CFLAGS="-O0"):
            self.assertEqual(sources.built_library(source).read_text(), "none\n")


class Found(unittest.TestCase):
    def test_an_unknown_name(self) -> None:
        with self.assertRaisesRegex(SystemExit, "no peer nonesuch"):
            peers.find_peers(["glibc", "nonesuch"])

    def test_glibc_has_its_version(self) -> None:
        (glibc,), missing = peers.find_peers(["glibc"])
        self.assertRegex(glibc.version, r"^\d+\.\d+")
        self.assertEqual((glibc.environment(), missing), ({}, []))

    def test_one_that_cannot_be_had_is_named_and_skipped(self) -> None:
        with mock.patch.object(peers, "find_built", side_effect=RuntimeError("no luck")):
            found, missing = peers.find_peers(["snmalloc", "glibc"])
        self.assertEqual([a.name for a in found], ["glibc"])
        self.assertEqual(missing, ["snmalloc: no luck"])

    def test_names_are_one_peer_each_and_all_but_the_outdated_run_unasked(self) -> None:
        finders, usual = peers.all_finders()
        self.assertEqual(list(finders), ["glibc", *(s.name for s in sources.SOURCES), *(p.name for p in peers.PACKAGES)])
        self.assertEqual(set(finders) - usual, {"jemalloc-debian"})

    def test_settings_reach_the_program(self) -> None:
        allocator = peers.Allocator("x", Path("/x.so"), "peer", settings=(("A", "1"),))
        self.assertEqual(allocator.environment(), {"LD_PRELOAD": "/x.so", "A": "1"})

    def test_versions_are_upstream_s(self) -> None:
        for debian, upstream in (("1:2.0.9+ds-2", "2.0.9"), ("2021.8.0-2+deb12u1", "2021.8.0"), ("2.10-1", "2.10")):
            self.assertEqual(peers.upstream_version(debian), upstream)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
