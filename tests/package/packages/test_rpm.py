"""Builds the RPM packages and checks their contents: files, requirements, provided names, and scripts."""

from kit import must, need, packages, run, step, version

# For each package some files of each kind that it must have and that no other package may have.
FILES = {
    "libhakmem": ["/usr/lib64/libhakmem.so.0", "/usr/lib64/libhakmem.so.{}", "/usr/lib64/hakmem/libhakmem-hardened.so"],
    "libhakmem-devel": ["/usr/include/hakmem.h", "/usr/include/hakmem.hpp", "/usr/lib64/libhakmem.a", "/usr/lib64/libhakmem.so",
                        "/usr/lib64/pkgconfig/hakmem.pc", "/usr/lib64/cmake/hakmem/hakmem-config.cmake", "/usr/share/man/man3/hakmem.3"],
    "hakmem-tools": ["/usr/bin/hakmem", "/usr/bin/hakmem-run", "/usr/bin/hakmem-play", "/usr/bin/hakmem-replay", "/usr/lib64/hakmem/libhakmem-record.so",
                     "/usr/share/hakmem/hakmem/cli.py", "/usr/share/hakmem/hakmem/options.def", "/usr/share/man/man1/hakmem-run.1",
                     "/usr/share/bash-completion/completions/hakmem"],
}
PROVIDES = {"libhakmem": "libhakmem.so.0()(64bit)", "libhakmem-devel": "pkgconfig(hakmem) = {}", "hakmem-tools": "hakmem-tools = {}-1"}
REQUIRES = {"libhakmem": "libc.so.6()(64bit)", "libhakmem-devel": "libhakmem = {}-1", "hakmem-tools": "python3-typer"}
# Folders that other packages own. If two packages had different permissions for them, they could not be installed together.
FOREIGN = ("/usr", "/usr/bin", "/usr/lib64", "/usr/include", "/usr/lib64/pkgconfig", "/usr/lib64/cmake", "/usr/share/man/man1", "/usr/share/bash-completion")


def main() -> None:
    need("rpmbuild", "rpm", "cpack")
    made = packages("rpm")
    must(set(made) == set(FILES), made)
    now = version()
    owners: dict[str, str] = {}
    for name, file in made.items():
        step(name)
        listed = run("rpm", "-qpl", file).splitlines()
        for wanted in FILES[name]:
            must(wanted.format(now) in listed, f"{name} has no {wanted}: {listed}")
        must(not set(FOREIGN) & set(listed), f"{name} owns {set(FOREIGN) & set(listed)}")
        for path in listed:
            must(path not in owners or path == "/usr/lib64/hakmem", f"{path}: in {name} and {owners.get(path)}")
            owners[path] = name
        provides, requires = (run("rpm", "-qp", f"--{what}", file).splitlines() for what in ("provides", "requires"))
        must(PROVIDES[name].format(now) in provides, provides)
        must(REQUIRES[name].format(now) in requires, requires)
        must(not [line for line in provides if "hardened" in line or "record" in line], f"what is only preloaded is provided: {provides}")
    must("ldconfig" in run("rpm", "-qp", "--scripts", made["libhakmem"]), "no ldconfig")
    must(run("rpm", "-qp", "--qf", "%{license} %{version}", made["libhakmem"]) == f"MIT {now}", "license and version")
    print(f"rpm: {len(owners)} files in 3 packages: all right")


if __name__ == "__main__":
    main()
