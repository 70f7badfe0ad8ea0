//! The functions of HAKMEM, a malloc for Linux, as `hakmem.h` declares them; its comments say what holds for each (units, threads, errors, moments).
//! Programs use the crates hakmem and hakmem-ctl.
#![no_std]
#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_long, c_void};

macro_rules! stats {
    ($($(#[$meaning:meta])* $field:ident,)*) => {
        /// How much memory HAKMEM has, where it is, and what was done so far. Fields are only ever added.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct hak_stats { $($(#[$meaning])* pub $field: u64,)* }

        impl hak_stats {
            /// The names of the fields, in their order.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    };
}

stats! {
    /// Bytes of this structure that the library knows of and has filled in; this crate knows `size_of::<hak_stats>()`.
    size,
    /// HAKMEM_VERSION of the library.
    version,
    /// Mapped to write to; the parts below sum to it, while no other thread allocates.
    mapped,
    /// Of the heap, without HAKMEM's tables: what may be resident.
    footprint,
    /// Part: asked for by the program in blocks of up to 1 MiB (an estimate).
    live,
    /// Part: added to that by rounding up to size classes (an estimate).
    rounding,
    /// Part: blocks of more than 1 MiB with the program, in whole pages.
    large_live,
    /// Part: free blocks ready in threads' caches.
    thread_caches,
    /// Part: blocks freed by another thread, on their way back.
    remote_pending,
    /// Part: free blocks in slabs that are partly used.
    free_in_slabs,
    /// Part: ends of slabs, too short for a block.
    slab_tails,
    /// Part: freed large blocks, and spare ends of others, kept for reuse.
    large_cached,
    /// Part: runs of pages without a block, resident or given back.
    idle,
    /// Part: HAKMEM's own tables.
    metadata,
    /// Part: mapped for tables and not used.
    metadata_spare,
    /// Of the part idle: what may be resident.
    idle_resident,
    /// Blocks with the program.
    live_blocks,
    /// Threads with a cache.
    threads,
    /// Blocks handed out.
    mallocs,
    /// Blocks given back.
    frees,
    /// Of mallocs: the thread's cache, or that of large blocks, had none ready.
    misses,
    /// Of frees: blocks sent to the thread that owns them.
    remote_frees,
    /// Of mallocs: more than 1 MiB, or an alignment of more than 64 KiB.
    large_calls,
    /// Of large_calls: mapped anew.
    large_mapped,
    /// Times that a range of free memory was given back to the system.
    purges,
    /// Bytes of these ranges.
    purged_bytes,
    /// Times that the system refused memory.
    os_refusals,
    /// Times that HAKMEM_LIMIT refused memory.
    limit_refusals,
    /// Of calls: failed for want of memory.
    out_of_memory,
    /// Caches begun.
    threads_started,
    /// Caches ended.
    threads_ended,
    /// In this process and its ancestors.
    forks,
    /// Part, now: slices of the program's own heaps, whose large blocks count as `large_live`.
    heaps,
}

/// A heap of the program's own, behind pointers only.
#[repr(C)]
pub struct hak_heap_t {
    _opaque: [u8; 0],
}

/// Bytes and numbers of a heap, now. Fields are only ever added.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct hak_heap_stats {
    /// Bytes of this structure that the library knows of and has filled in.
    pub size: u64,
    /// 0: none.
    pub limit: u64,
    /// Bytes that the limit counts: runs of pages with the heap's blocks, live or free.
    pub physical: u64,
    /// The most that `physical` has been.
    pub peak: u64,
    /// Bytes of blocks with the program, rounded up to their classes.
    pub live: u64,
    /// Bytes of free blocks in threads' caches.
    pub cached: u64,
    /// Of physical and live: blocks of more than 1 MiB.
    pub large: u64,
    /// Blocks with the program.
    pub live_blocks: u64,
    /// Threads that have a cache of the heap since its last reset.
    pub caches: u64,
    /// Blocks handed out.
    pub mallocs: u64,
    /// Calls that the limit has refused.
    pub refused: u64,
    /// Calls of hak_heap_reset.
    pub resets: u64,
    /// Ends with 0.
    pub name: [c_char; 64],
}

impl hak_heap_stats {
    /// The name that the heap was given: as much of it as fits.
    pub fn name(&self) -> &str {
        let bytes = unsafe { core::slice::from_raw_parts(self.name.as_ptr().cast::<u8>(), self.name.len()) };
        let name = bytes.split(|&byte| byte == 0).next().unwrap_or(&[]);
        core::str::from_utf8(name).unwrap_or("?")
    }
}

impl Default for hak_heap_stats {
    fn default() -> Self {
        // Numbers only.
        unsafe { core::mem::zeroed() }
    }
}

impl core::fmt::Debug for hak_heap_stats {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("hak_heap_stats")
            .field("name", &self.name())
            .field("limit", &self.limit)
            .field("physical", &self.physical)
            .field("peak", &self.peak)
            .field("live", &self.live)
            .field("cached", &self.cached)
            .field("large", &self.large)
            .field("live_blocks", &self.live_blocks)
            .field("caches", &self.caches)
            .field("mallocs", &self.mallocs)
            .field("refused", &self.refused)
            .field("resets", &self.resets)
            .finish()
    }
}

/// `pthread_t` of the C library.
pub type pthread_t = core::ffi::c_ulong;

/// `pthread_attr_t` of the C library, behind pointers only.
#[repr(C)]
pub struct pthread_attr_t {
    _opaque: [u8; 0],
}

/// `struct mallinfo` of `malloc.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mallinfo {
    pub arena: c_int,
    pub ordblks: c_int,
    pub smblks: c_int,
    pub hblks: c_int,
    pub hblkhd: c_int,
    pub usmblks: c_int,
    pub fsmblks: c_int,
    pub uordblks: c_int,
    pub fordblks: c_int,
    pub keepcost: c_int,
}

/// `struct mallinfo2` of `malloc.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mallinfo2 {
    pub arena: usize,
    pub ordblks: usize,
    pub smblks: usize,
    pub hblks: usize,
    pub hblkhd: usize,
    pub usmblks: usize,
    pub fsmblks: usize,
    pub uordblks: usize,
    pub fordblks: usize,
    pub keepcost: usize,
}

/// `FILE` of the C library, behind pointers only.
#[repr(C)]
pub struct FILE {
    _opaque: [u8; 0],
}

extern "C" {
    pub fn hak_version() -> *const c_char;
    pub fn hak_malloc(size: usize) -> *mut c_void;
    pub fn hak_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn hak_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn hak_reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    pub fn hak_free(block: *mut c_void);
    pub fn hak_cfree(block: *mut c_void);
    pub fn hak_free_sized(block: *mut c_void, size: usize);
    pub fn hak_free_aligned_sized(block: *mut c_void, alignment: usize, size: usize);
    pub fn hak_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn hak_memalign(alignment: usize, size: usize) -> *mut c_void;
    pub fn hak_posix_memalign(block: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    pub fn hak_valloc(size: usize) -> *mut c_void;
    pub fn hak_pvalloc(size: usize) -> *mut c_void;
    pub fn hak_malloc_usable_size(block: *mut c_void) -> usize;
    pub fn hak_should_move(block: *const c_void) -> c_int;
    pub fn hak_malloc_trim(keep: usize) -> c_int;
    pub fn hak_mallinfo() -> mallinfo;
    pub fn hak_mallinfo2() -> mallinfo2;
    pub fn hak_mallopt(parameter: c_int, value: c_int) -> c_int;
    pub fn hak_malloc_info(options: c_int, file: *mut FILE) -> c_int;
    pub fn hak_malloc_stats();
    pub fn hak_get_stats(stats: *mut hak_stats, size: usize) -> c_int;
    pub fn hak_report(path: *const c_char) -> c_int;
    pub fn hak_heap_profile(path: *const c_char) -> c_int;
    pub fn hak_heap_create(name: *const c_char, limit: usize) -> *mut hak_heap_t;
    pub fn hak_heap_reset(heap: *mut hak_heap_t) -> c_int;
    pub fn hak_heap_destroy(heap: *mut hak_heap_t) -> c_int;
    pub fn hak_heap_set_limit(heap: *mut hak_heap_t, limit: usize) -> c_int;
    pub fn hak_heap_of(block: *const c_void) -> *mut hak_heap_t;
    pub fn hak_heap_malloc(heap: *mut hak_heap_t, size: usize) -> *mut c_void;
    pub fn hak_heap_calloc(heap: *mut hak_heap_t, count: usize, size: usize) -> *mut c_void;
    pub fn hak_heap_realloc(heap: *mut hak_heap_t, block: *mut c_void, size: usize) -> *mut c_void;
    pub fn hak_heap_aligned_alloc(heap: *mut hak_heap_t, alignment: usize, size: usize) -> *mut c_void;
    pub fn hak_heap_free(heap: *mut hak_heap_t, block: *mut c_void);
    pub fn hak_heap_get_stats(heap: *mut hak_heap_t, stats: *mut hak_heap_stats, size: usize) -> c_int;
    pub fn hak_dlopen(file: *const c_char, mode: c_int) -> *mut c_void;
    pub fn hak_dlmopen(space: c_long, file: *const c_char, mode: c_int) -> *mut c_void;
    pub fn hak_pthread_create(
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        start: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
}
