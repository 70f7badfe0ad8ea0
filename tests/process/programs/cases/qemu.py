"""QEMU: guests of qemu-user, static and dynamic, and a machine of two processors that boots Linux."""

import re
import shutil

from harness.case import Case, Skip
from harness.side import digest

# Each command runs in a process of its own under qemu-user.
COMMANDS = {
    "sha512sum": "sha512sum {input}", "sort": "sort -k2 {input}", "gzip": "gzip -nc {input}", "awk": "awk '{{n[$1 % 97] += NR}} END {{for (k in n) print k, n[k]}}' {input}",
    "sed": "sed -e s/7/seven/g {input}", "xxd": "xxd {input}", "md5sum": "md5sum {input} {input}", "wc": "wc {input}",
    "tac": "tac {input}", "cut": "cut -c2-9 {input}", "od": "od -x {input}", "tr": "tr 0-9 a-j", "bc": "bc", "factor": "factor 1234567891 99999989 360360",
    "seq": "seq 1 7 20000", "bzip2": "bzip2 -c {input}", "uniq": "uniq -c {input}", "grep": "grep -c 9.*9 {input}", "expr": "expr 123456 * 789", "fold": "fold -w 3 {input}",
}
SCRIPT = "n=0; for i in $(seq 1 60); do n=$((n + i * i)); echo step $i $n; echo $i | sha1sum; done; find {tree} -type f | sort | head -40 | xargs md5sum"


class Qemu(Case):
    """QEMU: guests of qemu-user, static, dynamic and with threads, and a machine of two processors that boots Linux."""

    name = "qemu"
    medium = 0
    least = 250
    health = 0.9
    packages = {"qemu-x86_64": "qemu-user", "qemu-system-x86_64": "qemu-system-x86", "/bin/busybox": "busybox-static", "cpio": "cpio"}

    def prepare(self, kit):
        self.guest = self.static(kit)
        self.kernel = next((kit.unpacked(self.newest(kit)) / "boot").glob("vmlinuz-*"))
        self.disk = kit.cache / "qemu-initrd"
        if not self.disk.exists():
            tree = kit.cache / "qemu-tree"
            shutil.rmtree(tree, ignore_errors=True)
            for folder in ("bin", "proc", "sys", "dev", "tmp"):
                (tree / folder).mkdir(parents=True)
            shutil.copy2(self.guest, tree / "bin/busybox")
            (tree / "init").write_text(INIT)
            (tree / "init").chmod(0o755)
            kit.call(["sh", "-c", f"cd {tree} && find . | cpio -o -H newc | gzip -1 >{self.disk}.part && mv {self.disk}.part {self.disk}"])

    @staticmethod
    def static(kit):
        """Returns the path of busybox-static, because the installed busybox may be dynamic."""
        return next(p for p in (kit.unpacked("busybox-static") / "bin/busybox", kit.unpacked("busybox-static") / "usr/bin/busybox") if p.exists())

    @staticmethod
    def newest(kit):
        found = re.search(r"Depends: (linux-image-[\w.+-]+)", kit.call(["apt-cache", "depends", "linux-image-cloud-amd64"]))
        if not found:
            raise Skip("no kernel among the packages")
        return found[1]

    def groups(self, quick):
        return ["static guests", "shell", "dynamic guests", "threads", "a machine"]

    def start(self, side):
        side.input = side.dir / "input"
        side.input.write_text("".join(f"{n * 7919 % 10007} {n * n % 997} line\n" for n in range(20000)))

    def run(self, side, group):
        if group == "a machine":
            return self.machine(side)
        found = {}
        if group == "static guests":
            for name, command in COMMANDS.items():
                done = side.run(["qemu-x86_64", self.guest, *words(command.format(input=side.input))], stdin="12 * 34 + 5\n2 ^ 300\n", timeout=120)
                found[name] = f"{done.outcome} {digest(side.clean(done.out))}"
        if group == "shell":
            done = side.run(["qemu-x86_64", self.guest, "sh", "-c", SCRIPT.format(tree="/usr/share/zoneinfo/America")], timeout=240)
            found = {f"line {n}": digest(line) for n, line in enumerate(done.out.splitlines(), 1)}
            found["end"] = done.outcome
        if group == "dynamic guests":  # the guest's loader preloads the library too
            for line in ("/usr/bin/sort {input}", "/usr/bin/sha256sum {input}", "/usr/bin/xz -c {input}", "/usr/bin/perl -e print(join(q(,),sort(map{{$_*7%101}}1..999)))",
                         "/usr/bin/find /usr/share/doc/base-files", "/usr/bin/sed -n 1~7p {input}", "/bin/bash -c help"):
                done = side.run(["qemu-x86_64", *line.format(input=side.input).split()], timeout=240)
                found[line] = f"{done.outcome} {digest(side.clean(done.out))}"
        if group == "threads":
            for line in ("/usr/bin/xz -T2 --block-size=40KiB -c {input}", "/usr/bin/sort --parallel=2 -S 1M {input}", "/usr/bin/zstd -q -T2 -c {input}"):
                done = side.run(["qemu-x86_64", *line.format(input=side.input).split()], timeout=240)
                found[line] = f"{done.outcome} {digest(done.out)}"
        return found

    def machine(self, side):
        """Emulates a machine with a host thread for each processor. The guest prints each of its results on its serial line."""
        done = side.run(["qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "512", "-nographic", "-no-reboot",
                         "-nic", "none", "-kernel", self.kernel, "-initrd", self.disk, "-append", "console=ttyS0 panic=-1 quiet"], timeout=500)
        return {"end": done.outcome, **{f"{n}": line.strip() for n, line in enumerate(re.findall(r"^@@ (.*)$", done.out, re.MULTILINE))}}


INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t tmpfs tmpfs /tmp; mount -t devtmpfs dev /dev
echo; echo "@@ processors $(grep -c ^processor /proc/cpuinfo)"
work() { for n in $(seq $1 2 60); do dd if=/dev/zero bs=64k count=$n 2>/dev/null | sha256sum >/tmp/sum$n; seq 1 $((n * 50)) | sort -r | md5sum >>/tmp/sum$n; done; }
work 1 & first=$!; work 2; wait $first
for n in $(seq 1 60); do echo "@@ $n $(cat /tmp/sum$n | tr '\\n' ' ')"; done
tar -cf /tmp/a.tar /bin/busybox && gzip -c /tmp/a.tar | gzip -dc | cmp - /tmp/a.tar && echo "@@ tar same"
echo "@@ end"
poweroff -f
"""


def words(command):
    """Splits a command into words. A text in single quotes is one word."""
    return [plain or quoted for quoted, plain in re.findall(r"'([^']*)'|(\S+)", command)]
