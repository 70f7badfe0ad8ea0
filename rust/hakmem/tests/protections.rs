//! With the feature `hardened`, a write beyond a block and a second free end the program; HAKMEM_HARDENED=0 turns that off, HAKMEM_HARDENED=1 on.
use std::alloc::{alloc, dealloc, Layout};
use std::env;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

const SIGABRT: i32 = 6;

fn mistake(which: &str) {
    let layout = Layout::from_size_align(100, 8).unwrap();
    unsafe {
        let block = black_box(alloc(layout));
        match which {
            "overflow" => black_box(block.add(100)).write(1),
            "twice" => dealloc(black_box(block), layout),
            _ => {}
        }
        dealloc(black_box(block), layout);
    }
}

fn ended(which: &str, option: Option<&str>) -> (ExitStatus, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env_remove("HAKMEM_HARDENED").arg(which);
    if let Some(value) = option {
        command.env("HAKMEM_HARDENED", value);
    }
    let output = command.output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn main() {
    if let Some(which) = env::args().nth(1).filter(|word| ["none", "overflow", "twice"].contains(&word.as_str())) {
        mistake(&which);
        std::process::exit(0);
    }
    for (option, on) in [(None, cfg!(feature = "hardened")), (Some("0"), false), (Some("1"), true)] {
        for which in ["overflow", "twice"] {
            let (status, said) = ended(which, option);
            let stopped = status.signal() == Some(SIGABRT) && said.starts_with("hakmem: ");
            let at_once = stopped && !said.contains("found later"); // a second free is found at exit in any case
            assert_eq!(at_once, on, "{which}, HAKMEM_HARDENED={option:?}: {status} {said}");
        }
        let (status, said) = ended("none", option);
        assert!(status.success() && said.is_empty(), "no mistake, HAKMEM_HARDENED={option:?}: {status} {said}");
    }
    println!("protections: hardened {}", cfg!(feature = "hardened"));
}
