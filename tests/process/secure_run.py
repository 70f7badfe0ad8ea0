#!/usr/bin/env python3
"""Checks that a privileged program reads no option of HAKMEM from its environment.

Usage: secure_run.py PROGRAM      (HAKMEM is linked statically into PROGRAM; the script needs root to make a set-group-id copy)
As user nobody, the plain copy must write the report that HAKMEM_REPORT names, which shows that the test can fail. The
set-group-id copy, which the kernel marks with AT_SECURE, must do its work and write no file and no warning.
"""
import os
import shutil
import subprocess
import sys
import tempfile

NOBODY = 65534
OTHER_GROUP = 1
SKIPPED = 77


def run_as_nobody(program, folder, options):
    """Returns AT_SECURE as the program saw it, its stderr, and the files that it left in the folder."""
    run = subprocess.run([program], env=options, user=NOBODY, group=NOBODY, extra_groups=[], cwd=folder,
                         capture_output=True, timeout=500, check=False)
    left = sorted(os.listdir(folder))
    for name in left:
        os.unlink(os.path.join(folder, name))
    if run.returncode != 0:
        sys.exit(f"secure: {program} ended with {run.returncode}: {run.stderr.decode(errors='replace')}")
    return run.stdout.decode().strip(), run.stderr.decode(errors="replace"), left


def main():
    if os.geteuid() != 0:
        print("secure: only root can make a set-group-id program for this")
        return SKIPPED
    failures = []
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o755)
        folder = os.path.join(home, "writable")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        report = os.path.join(folder, "report.json")
        plain = shutil.copy(sys.argv[1], os.path.join(home, "plain"))
        privileged = shutil.copy(sys.argv[1], os.path.join(home, "privileged"))
        os.chmod(plain, 0o755)
        os.chown(privileged, 0, OTHER_GROUP)
        os.chmod(privileged, 0o2755)
        for options in ({"HAKMEM_REPORT": report}, {"HAKMEM_CONF": f"report:{report}"}):
            secure, errors, left = run_as_nobody(plain, folder, options)
            if secure != "AT_SECURE 0" or left != ["report.json"]:
                failures.append(f"plain, {options}: {secure}, wrote {left}, stderr {errors!r}")
            secure, errors, left = run_as_nobody(privileged, folder, options)
            if secure == "AT_SECURE 0":
                print("secure: set-group-id programs get no privilege here (nosuid?)")
                return SKIPPED
            if left or errors:
                failures.append(f"privileged, {options}: wrote {left}, stderr {errors!r}")
        secure, errors, left = run_as_nobody(privileged, folder, {"HAKMEM_CONF": "no_such_option:1", "HAKMEM_REPORT": "-"})
        if errors:
            failures.append(f"privileged, bad options: stderr {errors!r}")
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"secure: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
