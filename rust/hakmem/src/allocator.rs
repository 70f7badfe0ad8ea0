//! The trait Allocator, by allocator-api2. Layouts of 0 bytes take no block.
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};

use crate::HakMem;

/// A pointer that is aligned and not to be accessed.
fn dangling(layout: Layout) -> NonNull<u8> {
    // An alignment is not 0.
    unsafe { NonNull::new_unchecked(ptr::null_mut::<u8>().wrapping_add(layout.align())) }
}

fn slice(block: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    let start = NonNull::new(block).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(start, size))
}

/// The block in the new layout, with the contents that fit; bytes beyond them are undefined.
unsafe fn resized(block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
    if old.size() == 0 || new.size() == 0 || old.align() != new.align() {
        let moved = HakMem.allocate(new)?;
        ptr::copy_nonoverlapping(block.as_ptr(), moved.cast().as_ptr(), old.size().min(new.size()));
        HakMem.deallocate(block, old);
        return Ok(moved);
    }
    slice(HakMem.realloc(block.as_ptr(), old, new.size()), new.size())
}

unsafe impl Allocator for HakMem {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        match layout.size() {
            0 => Ok(NonNull::slice_from_raw_parts(dangling(layout), 0)),
            size => slice(unsafe { self.alloc(layout) }, size),
        }
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        match layout.size() {
            0 => Ok(NonNull::slice_from_raw_parts(dangling(layout), 0)),
            size => slice(unsafe { self.alloc_zeroed(layout) }, size),
        }
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            self.dealloc(block.as_ptr(), layout);
        }
    }

    #[inline]
    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        resized(block, old, new)
    }

    #[inline]
    unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let grown = resized(block, old, new)?;
        ptr::write_bytes(grown.cast::<u8>().as_ptr().add(old.size()), 0, new.size() - old.size());
        Ok(grown)
    }

    #[inline]
    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        resized(block, old, new)
    }
}
