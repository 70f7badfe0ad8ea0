//! Compiles HAKMEM into one object of the crate, with the flags of the CMake build.
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// A compiler that knows these would make calls of them out of HAKMEM's own code.
const OWN_NAMES: [&str; 9] =
    ["malloc", "calloc", "realloc", "free", "aligned_alloc", "memalign", "posix_memalign", "valloc", "pvalloc"];

const MACHINES: [&str; 2] = ["x86_64", "aarch64"];

fn feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

fn target(key: &str) -> String {
    env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default()
}

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    for watched in ["core", "include", "unit.c", "build.rs"] {
        println!("cargo:rerun-if-changed={}", root.join(watched).display());
    }
    if target("OS") != "linux" || !MACHINES.contains(&target("ARCH").as_str()) {
        panic!("HAKMEM is for Linux on x86-64 and aarch64, the target is {} on {}", target("OS"), target("ARCH"));
    }
    compile(&root);
    // For build scripts of crates that depend on this one: DEP_HAKMEM_INCLUDE.
    println!("cargo:include={}", root.join("include").display());
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}

/// Writes hakmem.c, which includes every C file except those that only libhakmem-hardened.so has.
fn write_unit(core: &Path, to: &Path) {
    let mut unit = String::new();
    for room in sorted(core).iter().filter(|path| path.is_dir() && !path.ends_with("checked")) {
        for file in sorted(room).iter().filter(|path| path.extension().is_some_and(|ending| ending == "c")) {
            unit += &format!("#include \"{}\"\n", file.strip_prefix(core).expect("a file of core").display());
        }
    }
    fs::write(to.join("hakmem.c"), unit).expect("cargo makes OUT_DIR");
}

fn compile(root: &Path) {
    let mut build = cc::Build::new();
    let made = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    write_unit(&root.join("core"), &made);
    build.file(root.join("unit.c")).include(root.join("core")).include(root.join("include")).include(made);
    build.std("gnu11").opt_level(2).pic(true).warnings(false);
    build.define("_GNU_SOURCE", None).define("HK_DEBUG", "0");
    build.define("HK_OVERRIDE", if feature("OVERRIDE") { "1" } else { "0" });
    build.define("HK_VERSION", Some(format!("\"{}\"", env!("CARGO_PKG_VERSION")).as_str()));
    build.flag("-fvisibility=hidden").flag("-fno-semantic-interposition");
    // operator new throws; no LTO: the start changes constants; sibling calls: what malloc ends with finds the return address of malloc's caller.
    build.flag("-fexceptions").flag("-foptimize-sibling-calls").flag("-fno-lto");
    for name in OWN_NAMES {
        build.flag(format!("-fno-builtin-{name}"));
    }
    if feature("HARDENED") {
        build.define("HAKMEM_IS_HARDENED", None);
    }
    if feature("LOCAL_DYNAMIC_TLS") {
        // Also where the source names another model.
        build.flag("-ftls-model=local-dynamic").define("tls_model(model)", "tls_model(\"local-dynamic\")");
    } else {
        build.flag("-ftls-model=initial-exec");
    }
    // A static program has one pthread_create only, which a definition here would hide from it.
    let is_static = target("FEATURE").split(',').any(|word| word == "crt-static");
    if feature("OVERRIDE") && !is_static {
        build.define("HAKMEM_COUNTS_THREADS", None);
    }
    build.compile("hakmem");
}
