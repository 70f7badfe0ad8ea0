//! Counts who serves whom: Rust's allocations are HAKMEM's; malloc, and the blocks that the C library takes for itself, with the feature `override` only.
use std::ffi::{c_char, c_void};
use std::hint::black_box;
use std::mem::size_of;
use std::os::unix::process::CommandExt;

use hakmem_sys::{hak_get_stats, hak_stats};

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn strdup(text: *const c_char) -> *mut c_char;
}

const BLOCKS: u64 = 1000;

fn now() -> hak_stats {
    let mut stats = hak_stats::default();
    assert_eq!(unsafe { hak_get_stats(&mut stats, size_of::<hak_stats>()) }, 0);
    stats
}

/// Blocks that HAKMEM hands out while `work` is done BLOCKS times; each must come back.
fn served(mut work: impl FnMut()) -> u64 {
    let before = now();
    (0..BLOCKS).for_each(|_| work());
    let after = now();
    // With protections, freed blocks wait in quarantine.
    let most_kept = if cfg!(feature = "hardened") { BLOCKS } else { 0 };
    assert!(after.mallocs - before.mallocs <= after.frees - before.frees + most_kept);
    after.mallocs - before.mallocs
}

/// HAKMEM counts all calls only if the environment says so at the start.
fn start_again_with_counts() {
    if std::env::var_os("HAKMEM_COUNT").is_none() {
        let program = std::env::current_exe().unwrap();
        panic!("{}", std::process::Command::new(program).env("HAKMEM_COUNT", "1").exec());
    }
}

fn main() {
    start_again_with_counts();
    let expected = if cfg!(feature = "override") { BLOCKS } else { 0 };
    assert_eq!(served(|| drop(black_box(Box::new([0u8; 100])))), BLOCKS);
    assert_eq!(served(|| unsafe { free(black_box(malloc(100))) }), expected);
    assert_eq!(served(|| unsafe { free(strdup(black_box(c"a text").as_ptr()).cast()) }), expected);
    #[cfg(feature = "stats")]
    assert!(hakmem::ctl::stats().unwrap().mallocs >= BLOCKS);
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    assert_eq!(threads, 1, "HAKMEM has a thread beside those of the program only");
    println!("served: {} allocations, override {}", now().mallocs, cfg!(feature = "override"));
}
