//! A library that a program opens while it runs: its Rust code has HAKMEM, the program keeps the malloc that it has.
//! `cargo build --example plugin --features local_dynamic_tls` gives libplugin.so.
use std::collections::HashMap;

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

/// The sum of the numbers below `count`, by way of `count` blocks.
#[no_mangle]
pub extern "C" fn plugin_sum(count: u32) -> u64 {
    let boxes: HashMap<u32, Box<u32>> = (0..count).map(|n| (n, Box::new(n))).collect();
    boxes.values().map(|boxed| u64::from(**boxed)).sum()
}

/// Blocks that HAKMEM has handed out so far, or fewer if HAKMEM_COUNT is not 1.
#[no_mangle]
pub extern "C" fn plugin_served() -> u64 {
    let mut stats = hakmem_sys::hak_stats::default();
    unsafe { hakmem_sys::hak_get_stats(&mut stats, std::mem::size_of::<hakmem_sys::hak_stats>()) };
    stats.mallocs
}
