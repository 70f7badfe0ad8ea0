//! Reports, statistics and heaps of HAKMEM. All functions may be called by any thread at any time, but not by a signal handler.
#![doc = include_str!("../README.md")]

use std::ffi::{CStr, CString};
use std::io;
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use hakmem_sys::hak_stats as Stats;

mod heap;
#[cfg(feature = "allocator-api2")]
pub use heap::SharedHeap;
pub use heap::{Heap, HeapStats};

/// The version of the HAKMEM that serves, as "0.1.0".
///
/// ```
/// assert_eq!(hakmem_ctl::version(), env!("CARGO_PKG_VERSION"));
/// ```
pub fn version() -> &'static str {
    // Static ASCII text.
    unsafe { CStr::from_ptr(hakmem_sys::hak_version()) }.to_str().unwrap_or("unknown")
}

/// How much memory HAKMEM has, where it is, and what was done so far. Walks over the whole heap: some milliseconds in one of GiB.
/// Fails if there is no memory for the walk.
///
/// ```
/// let stats = hakmem_ctl::stats()?;
/// assert!(stats.mallocs >= stats.frees && stats.mapped >= stats.metadata);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn stats() -> io::Result<Stats> {
    let mut stats = Stats::default();
    match unsafe { hakmem_sys::hak_get_stats(&mut stats, size_of::<Stats>()) } {
        0 => Ok(stats),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if a move of the block that contains `value` helps to save memory: if the program allocates a block of the same size, copies the contents and
/// frees the old block. The program has to move the block at once. False for a value that lies in no block of HAKMEM.
///
/// ```
/// let mut texts: Vec<Box<[u8; 200]>> = (0..40000).map(|n| Box::new([n as u8; 200])).collect();
/// let mut number = 0;
/// texts.retain(|_| {
///     number += 1;
///     number % 4 == 0
/// });
/// for text in &mut texts {
///     if hakmem_ctl::should_move(&**text) {
///         *text = text.clone();
///     }
/// }
/// assert!(!hakmem_ctl::should_move(&number), "on the stack");
/// ```
pub fn should_move<T: ?Sized>(value: &T) -> bool {
    unsafe { hakmem_sys::hak_should_move((value as *const T).cast()) == 1 }
}

/// Gives free memory back to the system at once, but for `keep` bytes of whole free memory. True if some was given back.
///
/// ```
/// hakmem_ctl::trim(0);
/// assert!(!hakmem_ctl::trim(0), "the first call left nothing");
/// ```
pub fn trim(keep: usize) -> bool {
    unsafe { hakmem_sys::hak_malloc_trim(keep) == 1 }
}

/// Writes the report to a file, which is replaced whole: JSON if the name ends in .json, OpenMetrics if in .prom, else text; "-" is stderr, %p in the
/// name the process id.
///
/// ```
/// let path = std::env::temp_dir().join("hakmem-ctl-%p.txt");
/// hakmem_ctl::report(&path)?;
/// # let written = path.to_str().unwrap().replace("%p", &std::process::id().to_string());
/// # assert!(std::fs::read_to_string(&written)?.contains("where the memory is"));
/// # std::fs::remove_file(written)?;
/// assert!(hakmem_ctl::report("/no/such/folder/report.txt").is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn report(path: impl AsRef<Path>) -> io::Result<()> {
    written(path.as_ref(), "the report cannot be written", hakmem_sys::hak_report)
}

/// Writes the heap profile so far to a file, for pprof or jeprof. Fails also if no samples are taken: the environment has to say so when the program
/// starts (HAKMEM_HEAP_SAMPLE=512k, or HAKMEM_HEAP_PROFILE=FILE).
///
/// ```
/// # if std::env::var_os("HAKMEM_HEAP_SAMPLE").is_none() && std::env::var_os("HAKMEM_HEAP_PROFILE").is_none() {
/// assert!(hakmem_ctl::heap_profile("heap.prof").is_err(), "no samples are taken");
/// # }
/// ```
pub fn heap_profile(path: impl AsRef<Path>) -> io::Result<()> {
    written(path.as_ref(), "the heap profile cannot be written, or no samples are taken", hakmem_sys::hak_heap_profile)
}

fn written(path: &Path, trouble: &str, write: unsafe extern "C" fn(*const core::ffi::c_char) -> core::ffi::c_int) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    match unsafe { write(name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::Other, format!("{}: {trouble}", path.display()))),
    }
}
