//! Heaps: limits, threads, resizing, what a reset and a drop give back.
use std::alloc::{GlobalAlloc, Layout};
use std::thread;

use hakmem_ctl::Heap;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

unsafe fn is_all(block: *const u8, size: usize, byte: u8) -> bool {
    std::slice::from_raw_parts(block, size).iter().all(|&found| found == byte)
}

#[test]
fn names() {
    assert_eq!(Heap::new("Größe", None).unwrap().stats().name(), "Größe");
    assert_eq!(Heap::new(&"ä".repeat(40), None).unwrap().stats().name(), "ä".repeat(31));
    assert!(Heap::new("a\0b", None).is_err());
    assert!(format!("{:?}", Heap::new("shown", 77).unwrap().stats()).contains("name: \"shown\", limit: 77"));
}

#[test]
fn the_limit_holds_and_is_counted() {
    const LIMIT: usize = 4 << 20;
    let heap = Heap::new("limited", LIMIT).unwrap();
    let refused: u64 = thread::scope(|scope| {
        let work = || {
            let (mut blocks, mut refused) = (Vec::new(), 0);
            for n in 0..4000 {
                let layout = layout(16 + n * 7919 % 2000, 8);
                match unsafe { heap.alloc(layout) } {
                    block if block.is_null() => refused += 1,
                    block => blocks.push((block as usize, layout)),
                }
            }
            blocks.iter().for_each(|&(block, layout)| unsafe { heap.dealloc(block as *mut u8, layout) });
            refused
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let stats = heap.stats();
    assert!(refused > 0 && stats.refused == refused, "{refused} refused, {stats:?}");
    assert!(stats.peak as usize <= LIMIT && stats.peak as usize > LIMIT / 2, "{stats:?}");
    assert_eq!(stats.live_blocks, 0, "{stats:?}");
    heap.set_limit(None);
    assert!(unsafe { !heap.alloc(layout(2 * LIMIT, 8)).is_null() });
    heap.set_limit(Some(0));
    assert!(unsafe { heap.alloc(layout(2 * LIMIT, 8)).is_null() }, "none at all is not without a limit");
}

#[test]
fn blocks_change_threads() {
    let heap = Heap::new("shared", None).unwrap();
    let layout = layout(200, 8);
    let blocks: Vec<usize> = (0..500).map(|_| unsafe { heap.alloc(layout) as usize }).collect();
    assert!(blocks.iter().all(|&block| heap.has(block as *const u8)));
    assert_eq!(heap.stats().live_blocks, 500);
    thread::scope(|scope| {
        scope.spawn(|| blocks.iter().for_each(|&block| unsafe { heap.dealloc(block as *mut u8, layout) }));
    });
    assert_eq!(heap.stats().live_blocks, 0);
}

#[test]
fn each_resize() {
    let (heap, other) = (Heap::new("resized", None).unwrap(), Heap::new("other", None).unwrap());
    for align in [8, 16, 64, 4096] {
        for (old, new) in [(10, 3000), (3000, 10), (70_000, 3 << 20), (3 << 20, 5 << 20), (5 << 20, 50)] {
            unsafe {
                let block = heap.alloc_zeroed(layout(old, align));
                assert!(is_all(block, old, 0));
                block.write_bytes(7, old);
                let block = heap.realloc(block, layout(old, align), new);
                assert!(block as usize % align == 0 && is_all(block, old.min(new), 7), "{old} to {new} at {align}");
                assert!(heap.has(block) && !other.has(block));
                heap.dealloc(block, layout(new, align));
            }
        }
    }
    assert_eq!((heap.stats().live_blocks, heap.stats().large), (0, 0));
}

#[test]
fn all_at_once() {
    let mut heap = Heap::new("ends", None).unwrap();
    let fill = |heap: &Heap| (0..10_000).for_each(|_| unsafe { heap.alloc(layout(1000, 8)).write_bytes(1, 1000) });
    fill(&heap);
    assert!(heap.stats().live >= 10_000_000);
    heap.reset();
    let stats = heap.stats();
    assert_eq!((stats.live, stats.physical, stats.resets), (0, 0, 1));
    assert!(stats.peak >= 10_000_000);
    fill(&heap);
    let handle = heap.as_ptr();
    drop(heap);
    let mut gone = hakmem_ctl::HeapStats::default();
    assert_eq!(unsafe { hakmem_sys::hak_heap_get_stats(handle, &mut gone, std::mem::size_of_val(&gone)) }, -1);
}
