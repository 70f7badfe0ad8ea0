//! A Heap as an Allocator: containers that borrow it or share it, layouts of 0 bytes, refusals.
use std::alloc::Layout;
use std::thread;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use hakmem_ctl::{Heap, SharedHeap};

#[test]
fn borrowed() {
    let mut heap = Heap::new("query", 64 << 20).unwrap();
    for query in 1..=3 {
        let mut rows: Vec<Vec<u32, &Heap>, &Heap> = Vec::new_in(&heap);
        for n in 0..1000 {
            let mut row = Vec::with_capacity_in(n % 50, &heap);
            row.extend(0..(n % 50) as u32);
            rows.push(row);
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.len()));
        rows.truncate(300);
        rows.shrink_to_fit();
        assert!(rows.iter().all(|row| row.len() >= 34 && row.iter().sum::<u32>() as usize == row.len() * (row.len() - 1) / 2));
        assert!(heap.has(rows.as_ptr().cast()) && heap.stats().live_blocks >= 301);
        std::mem::forget(rows);
        heap.reset();
        assert_eq!((heap.stats().live_blocks, heap.stats().resets), (0, query));
    }
}

#[test]
fn shared() {
    let heap = SharedHeap::from(Heap::new("shared", None).unwrap());
    let threads: std::vec::Vec<_> = (0..4u64)
        .map(|number| {
            let heap = heap.clone();
            thread::spawn(move || {
                let mut numbers = Vec::new_in(heap);
                numbers.extend((0..20_000).map(|n| n * number));
                numbers
            })
        })
        .collect();
    let results: std::vec::Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(heap.stats().live >= 4 * 160_000);
    let last = results.into_iter().next_back().unwrap();
    assert_eq!((last.iter().sum::<u64>(), heap.stats().live_blocks), (3 * 19_999 * 10_000, 1));
    drop(heap);
    assert_eq!(last[19_999], 3 * 19_999); // it keeps the heap
}

#[test]
fn no_bytes() {
    let heap = Heap::new("empty", None).unwrap();
    let (none, some) = (Layout::from_size_align(0, 64).unwrap(), Layout::from_size_align(100, 64).unwrap());
    let block = heap.allocate(none).unwrap();
    assert_eq!((block.len(), block.cast::<u8>().as_ptr() as usize % 64, heap.stats().mallocs), (0, 0, 0));
    unsafe {
        let grown = heap.grow_zeroed(block.cast(), none, some).unwrap();
        assert!(grown.len() == 100 && (0..100).all(|at| *grown.cast::<u8>().as_ptr().add(at) == 0));
        let shrunk = heap.shrink(grown.cast(), some, none).unwrap();
        heap.deallocate(shrunk.cast(), none);
    }
    drop(Box::new_in((), &heap));
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn refused() {
    let heap = Heap::new("small", 1 << 20).unwrap();
    let mut bytes: Vec<u8, &Heap> = Vec::new_in(&heap);
    assert!(bytes.try_reserve(2 << 20).is_err());
    bytes.extend_from_slice(&[5; 1000]);
    assert!(bytes.try_reserve(2 << 20).is_err());
    assert!(bytes.len() == 1000 && bytes.iter().all(|&byte| byte == 5) && heap.stats().refused >= 2);
}
