//! HAKMEM as the global allocator: a table is built and dropped, free memory given back, and each time the program says what HAKMEM holds and what is in memory.
use std::collections::HashMap;
use std::io;

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

const MIB: f64 = 1048576.0;

/// MiB of the process that are in memory.
fn resident() -> io::Result<f64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    Ok(pages.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0) * 4096.0 / MIB)
}

fn say(when: &str) -> io::Result<()> {
    let stats = hakmem::ctl::stats()?;
    let live = (stats.live + stats.large_live) as f64 / MIB;
    println!("{when:16} {live:7.1} MiB with the program {:7.1} MiB resident {:9} blocks", resident()?, stats.live_blocks);
    Ok(())
}

fn main() -> io::Result<()> {
    say("at first")?;
    let table: HashMap<u32, String> = (0..200_000).map(|n| (n, "x".repeat(100 + n as usize % 400))).collect();
    say("with the table")?;
    drop(table);
    say("dropped")?;
    hakmem::ctl::trim(0);
    say("after trim")?;
    println!("HAKMEM {} serves", hakmem::ctl::version());
    Ok(())
}
