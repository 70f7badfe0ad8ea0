//! Heaps of the program's own.
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::ptr::{self, NonNull};

use hakmem_sys as sys;

pub use hakmem_sys::hak_heap_stats as HeapStats;

/// Blocks of malloc are aligned to so much.
const NATURAL: usize = 16;

/// A heap beside that of the process: for a tenant, a query, a plugin. It has a name for reports, and a limit on physical memory if it is given one.
/// Any thread may allocate from it and free its blocks. Dropping it frees all its blocks at once.
///
/// With the feature `allocator-api2` it is an `Allocator`: containers take a `&Heap`, and cannot outlive it, or a `SharedHeap`, and keep it. Without,
/// its blocks are those of `GlobalAlloc`, and raw.
///
/// ```
/// use hakmem_ctl::Heap;
///
/// let tenant = Heap::new("tenant 7", 64 << 20)?;
/// # #[cfg(feature = "allocator-api2")] {
/// use allocator_api2::vec::Vec;
/// let mut rows = Vec::new_in(&tenant);
/// rows.extend(0..1000u64);
/// assert!(tenant.stats().live >= 8000);
/// # }
/// assert!(tenant.stats().peak <= 64 << 20);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// What a container still uses cannot go:
///
/// ```compile_fail,E0505
/// # use hakmem_ctl::Heap;
/// # struct Container<'a>(&'a Heap);
/// let heap = Heap::new("short", None).unwrap();
/// let rows = Container(&heap);
/// drop(heap);
/// # let _ = rows.0;
/// ```
/// ```compile_fail,E0502
/// # use hakmem_ctl::Heap;
/// # struct Container<'a>(&'a Heap);
/// let mut heap = Heap::new("short", None).unwrap();
/// let rows = Container(&heap);
/// heap.reset();
/// # let _ = rows.0;
/// ```
#[derive(Debug)]
pub struct Heap {
    handle: NonNull<sys::hak_heap_t>,
}

// Any thread may call any function of a heap. Its end, and a reset, have it to themselves: by value, or by &mut.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap without memory. 63 bytes of the name are kept; names need not differ. `limit`: bytes of physical memory, `None` for no limit; the first
    /// small block takes 65536. Fails if memory is refused, or if there are 65535 heaps, or if the name has a NUL.
    ///
    /// ```
    /// # use hakmem_ctl::Heap;
    /// let (bounded, free) = (Heap::new("bounded", 1 << 20)?, Heap::new("free", None)?);
    /// assert_eq!((bounded.stats().limit, free.stats().limit), (1 << 20, 0));
    /// assert_eq!(bounded.stats().name(), "bounded");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(name: &str, limit: impl Into<Option<usize>>) -> io::Result<Heap> {
        let name = CString::new(name)?;
        let handle = unsafe { sys::hak_heap_create(name.as_ptr(), bytes_of(limit.into())) };
        NonNull::new(handle).map(|handle| Heap { handle }).ok_or_else(io::Error::last_os_error)
    }

    /// From now on. What the heap has beyond a lower limit it keeps.
    ///
    /// ```
    /// # use hakmem_ctl::Heap;
    /// let heap = Heap::new("grows", 1 << 20)?;
    /// heap.set_limit(2 << 20);
    /// assert_eq!(heap.stats().limit, 2 << 20);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_limit(&self, limit: impl Into<Option<usize>>) {
        unsafe { sys::hak_heap_set_limit(self.handle.as_ptr(), bytes_of(limit.into())) };
    }

    /// Frees all blocks at once; the heap goes on with its name, limit and peak. Costs the time of its runs of pages, not of its blocks.
    ///
    /// Values in the heap are not dropped: the borrow checker sees to it that there are none, but for raw blocks and containers that were forgotten.
    pub fn reset(&mut self) {
        unsafe { sys::hak_heap_reset(self.handle.as_ptr()) };
    }

    /// What the heap has now, and what it has had.
    pub fn stats(&self) -> HeapStats {
        let mut stats = HeapStats::default();
        unsafe { sys::hak_heap_get_stats(self.handle.as_ptr(), &mut stats, size_of::<HeapStats>()) };
        stats
    }

    /// Is this a block of the heap?
    ///
    /// ```
    /// # use hakmem_ctl::Heap;
    /// let heap = Heap::new("mine", None)?;
    /// assert!(!heap.has(&heap as *const Heap as *const u8));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn has(&self, block: *const u8) -> bool {
        unsafe { sys::hak_heap_of(block.cast()) == self.handle.as_ptr() }
    }

    /// For C code, as long as the heap is there.
    pub fn as_ptr(&self) -> *mut sys::hak_heap_t {
        self.handle.as_ptr()
    }
}

/// As the C functions take it, where 0 is no limit.
fn bytes_of(limit: Option<usize>) -> usize {
    limit.map_or(0, |bytes| bytes.max(1))
}

impl Drop for Heap {
    fn drop(&mut self) {
        unsafe { sys::hak_heap_destroy(self.handle.as_ptr()) };
    }
}

/// Null where the limit or the system refuses memory. Blocks are gone with the heap, and after a reset.
///
/// ```
/// use std::alloc::{GlobalAlloc, Layout};
/// # use hakmem_ctl::Heap;
/// let heap = Heap::new("raw", 1 << 20)?;
/// let layout = Layout::from_size_align(100, 64).unwrap();
/// unsafe {
///     let block = heap.alloc_zeroed(layout);
///     assert!(heap.has(block) && *block.add(99) == 0);
///     heap.dealloc(block, layout);
///     assert!(heap.alloc(Layout::from_size_align(2 << 20, 8).unwrap()).is_null());
/// }
/// assert_eq!(heap.stats().refused, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            sys::hak_heap_malloc(self.as_ptr(), layout.size()).cast()
        } else {
            sys::hak_heap_aligned_alloc(self.as_ptr(), layout.align(), layout.size()).cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            return sys::hak_heap_calloc(self.as_ptr(), 1, layout.size()).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            ptr::write_bytes(block, 0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        sys::hak_heap_free(self.as_ptr(), block.cast());
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= NATURAL {
            return sys::hak_heap_realloc(self.as_ptr(), block.cast(), size).cast();
        }
        // hak_heap_realloc keeps no larger alignment.
        let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
            self.dealloc(block, layout);
        }
        moved
    }
}

#[cfg(feature = "allocator-api2")]
pub use allocator::SharedHeap;

#[cfg(feature = "allocator-api2")]
mod allocator {
    use std::sync::Arc;

    use super::{GlobalAlloc, Heap, Layout, NonNull};
    use allocator_api2::alloc::{AllocError, Allocator};

    /// Aligned, and not to be accessed: the block of a layout of 0 bytes.
    fn empty(layout: Layout) -> NonNull<[u8]> {
        let address = std::ptr::null_mut::<u8>().wrapping_add(layout.align());
        // An alignment is not 0.
        NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(address) }, 0)
    }

    fn slice(block: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
        let start = NonNull::new(block).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(start, size))
    }

    impl Heap {
        /// The block in the new layout, with the contents that fit.
        unsafe fn resized(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
            if old.size() == 0 || new.size() == 0 || old.align() != new.align() {
                let moved = self.allocate(new)?;
                std::ptr::copy_nonoverlapping(block.as_ptr(), moved.cast().as_ptr(), old.size().min(new.size()));
                self.deallocate(block, old);
                return Ok(moved);
            }
            slice(self.realloc(block.as_ptr(), old, new.size()), new.size())
        }
    }

    /// A heap that its containers keep: it ends with the last of its clones.
    ///
    /// ```
    /// use allocator_api2::vec::Vec;
    /// use hakmem_ctl::{Heap, SharedHeap};
    ///
    /// let heap = SharedHeap::from(Heap::new("index", None)?);
    /// let mut words = Vec::new_in(heap.clone());
    /// words.push("first");
    /// assert_eq!(heap.stats().live_blocks, 1);
    /// std::thread::spawn(move || assert_eq!(words.pop(), Some("first"))).join().unwrap();
    /// assert_eq!(heap.stats().live_blocks, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    pub struct SharedHeap(Arc<Heap>);

    impl From<Heap> for SharedHeap {
        fn from(heap: Heap) -> Self {
            SharedHeap(Arc::new(heap))
        }
    }

    impl std::ops::Deref for SharedHeap {
        type Target = Heap;

        fn deref(&self) -> &Heap {
            &self.0
        }
    }

    // Clones have the same heap.
    unsafe impl Allocator for SharedHeap {
        #[inline]
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.0.allocate(layout)
        }

        #[inline]
        fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.0.allocate_zeroed(layout)
        }

        #[inline]
        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
            self.0.deallocate(block, layout)
        }

        #[inline]
        unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.0.grow(block, old, new)
        }

        #[inline]
        unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.0.grow_zeroed(block, old, new)
        }

        #[inline]
        unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.0.shrink(block, old, new)
        }
    }

    unsafe impl Allocator for Heap {
        #[inline]
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            match layout.size() {
                0 => Ok(empty(layout)),
                size => slice(unsafe { self.alloc(layout) }, size),
            }
        }

        #[inline]
        fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            match layout.size() {
                0 => Ok(empty(layout)),
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
            self.resized(block, old, new)
        }

        #[inline]
        unsafe fn grow_zeroed(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
            let grown = self.resized(block, old, new)?;
            std::ptr::write_bytes(grown.cast::<u8>().as_ptr().add(old.size()), 0, new.size() - old.size());
            Ok(grown)
        }

        #[inline]
        unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
            self.resized(block, old, new)
        }
    }
}
