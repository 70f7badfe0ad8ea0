//! HakMem as an Allocator: containers in it, layouts of 0 bytes, growing, shrinking, other alignments, refusals. The global allocator is another.
use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use hakmem::HakMem;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// The bytes of the block; the caller knows how many are defined.
unsafe fn bytes<'a>(block: NonNull<[u8]>, size: usize) -> &'a [u8] {
    assert!(size <= block.len());
    std::slice::from_raw_parts(block.cast().as_ptr(), size)
}

unsafe fn filled(layout: Layout) -> NonNull<u8> {
    let block = HakMem.allocate(layout).unwrap();
    assert_eq!(block.len(), layout.size());
    block.cast::<u8>().as_ptr().write_bytes(9, layout.size());
    block.cast()
}

#[test]
fn containers() {
    let mut numbers = Vec::new_in(HakMem);
    numbers.extend(0..100_000u32);
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert!(unsafe { HakMem.usable_size(numbers.as_ptr().cast()) } >= 40);
    let nested: Vec<Vec<u32, HakMem>, HakMem> = {
        let mut outer = Vec::new_in(HakMem);
        outer.resize(50, numbers.clone());
        outer
    };
    assert!(nested.iter().all(|inner| inner[9] == 9));
    let boxed: Box<[u64; 100], HakMem> = Box::new_in([5; 100], HakMem);
    std::thread::spawn(move || assert_eq!(boxed.iter().sum::<u64>(), 500)).join().unwrap();
    let nothing: Box<(), HakMem> = Box::new_in((), HakMem);
    drop(nothing);
}

#[test]
fn no_bytes() {
    let none = layout(0, 64);
    let block = HakMem.allocate(none).unwrap();
    assert_eq!((block.len(), block.cast::<u8>().as_ptr() as usize % 64), (0, 0));
    unsafe {
        let grown = HakMem.grow_zeroed(block.cast(), none, layout(100, 64)).unwrap();
        assert_eq!(bytes(grown, 100), [0; 100]);
        let shrunk = HakMem.shrink(grown.cast(), layout(100, 64), none).unwrap();
        HakMem.deallocate(shrunk.cast(), none);
    }
}

#[test]
fn resized() {
    for (old, new) in [(8, 8), (8, 64), (64, 64), (64, 8), (4096, 4096)] {
        for (small, large) in [(1, 50), (100, 100), (100, 50_000), (5000, 3 << 20)] {
            unsafe {
                let block = filled(layout(small, old));
                let grown = HakMem.grow(block, layout(small, old), layout(large, new)).unwrap();
                assert_eq!(grown.cast::<u8>().as_ptr() as usize % new, 0);
                assert!(grown.len() == large && bytes(grown, small).iter().all(|&byte| byte == 9));
                let shrunk = HakMem.shrink(grown.cast(), layout(large, new), layout(small, old)).unwrap();
                assert_eq!(shrunk.cast::<u8>().as_ptr() as usize % old, 0);
                assert!(shrunk.len() == small && bytes(shrunk, small).iter().all(|&byte| byte == 9));
                let zeroed = HakMem.grow_zeroed(shrunk.cast(), layout(small, old), layout(large, new)).unwrap();
                let found = bytes(zeroed, large);
                assert!(found[..small].iter().all(|&byte| byte == 9) && found[small..].iter().all(|&byte| byte == 0));
                HakMem.deallocate(zeroed.cast(), layout(large, new));
            }
        }
    }
}

#[test]
fn refused() {
    let huge = layout(isize::MAX as usize - 4096, 8);
    assert!(HakMem.allocate(huge).is_err() && HakMem.allocate_zeroed(huge).is_err());
    unsafe {
        let small = layout(10, 8);
        let block = filled(small);
        assert!(HakMem.grow(block, small, huge).is_err());
        assert_eq!(*block.as_ptr().add(9), 9);
        HakMem.deallocate(block, small);
    }
}
