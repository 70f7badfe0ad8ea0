#![doc = include_str!("../README.md")]
#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::ptr;

use hakmem_sys as sys;

#[cfg(feature = "allocator-api2")]
mod allocator;

/// Statistics, reports, `trim`: the crate hakmem-ctl.
///
/// ```
/// let before = hakmem::ctl::stats()?;
/// println!("{} blocks live, {} bytes mapped", before.live_blocks, before.mapped);
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(feature = "stats")]
pub use hakmem_ctl as ctl;

/// The heap of the process: the global allocator. With the feature `allocator-api2` it is an `Allocator` too. It has no state; all are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HakMem;

/// Blocks of malloc are aligned to so much.
const NATURAL: usize = 16;

impl HakMem {
    /// Bytes that may be used in a block of HAKMEM's: as many as were asked for, or more.
    ///
    /// # Safety
    /// `block` is null, or a live block of HAKMEM's.
    pub unsafe fn usable_size(&self, block: *const u8) -> usize {
        sys::hak_malloc_usable_size(block as *mut c_void)
    }
}

unsafe impl GlobalAlloc for HakMem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            sys::hak_malloc(layout.size()).cast()
        } else {
            sys::hak_aligned_alloc(layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            return sys::hak_calloc(1, layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            ptr::write_bytes(block, 0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() <= NATURAL {
            sys::hak_free_sized(block.cast(), layout.size());
        } else {
            sys::hak_free_aligned_sized(block.cast(), layout.align(), layout.size());
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= NATURAL {
            return sys::hak_realloc(block.cast(), size).cast();
        }
        // hak_realloc keeps no larger alignment.
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }
}
