//! HAKMEM as the global allocator: what collections hold, alignment, zeroed and resized blocks, threads, refusals.
use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::thread;

#[global_allocator]
static GLOBAL: hakmem::HakMem = hakmem::HakMem;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn layouts() -> impl Iterator<Item = Layout> {
    let sizes = [1, 7, 16, 100, 1024, 33000, 70000, 3 << 20];
    (0..22).flat_map(move |shift| sizes.into_iter().map(move |size| layout(size, 1 << shift)))
}

unsafe fn is_all(block: *const u8, size: usize, byte: u8) -> bool {
    std::slice::from_raw_parts(block, size).iter().all(|&found| found == byte)
}

#[test]
fn collections() {
    let mut words: HashMap<String, Vec<usize>> = HashMap::new();
    for n in 0..20000 {
        words.entry(format!("word {}", n % 700)).or_default().push(n);
    }
    let sorted: BTreeMap<_, _> = words.iter().collect();
    assert_eq!(sorted.len(), 700);
    assert_eq!(words["word 699"].iter().sum::<usize>(), (699..20000).step_by(700).sum());
    assert!(unsafe { GLOBAL.usable_size(words["word 1"].as_ptr().cast()) } >= 28 * 8);
}

#[test]
fn each_alignment() {
    for layout in layouts() {
        unsafe {
            let block = alloc(layout);
            assert_eq!(block as usize % layout.align(), 0, "{layout:?}");
            block.write_bytes(0xA5, layout.size());
            dealloc(block, layout);
            let zeroed = alloc_zeroed(layout);
            assert_eq!(zeroed as usize % layout.align(), 0, "{layout:?}");
            assert!(is_all(zeroed, layout.size(), 0), "{layout:?}");
            dealloc(zeroed, layout);
        }
    }
}

#[test]
fn each_resize() {
    for old in layouts().filter(|layout| layout.align() <= 1 << 16) {
        for size in [1, 50, 5000, 2 << 20] {
            unsafe {
                let block = alloc(old);
                block.write_bytes(0x5A, old.size());
                let moved = realloc(block, old, size);
                assert_eq!(moved as usize % old.align(), 0, "{old:?} to {size}");
                assert!(is_all(moved, size.min(old.size()), 0x5A), "{old:?} to {size}");
                dealloc(moved, layout(size, old.align()));
            }
        }
    }
}

#[test]
fn refused() {
    let huge = layout(isize::MAX as usize - 4096, 8);
    unsafe {
        assert!(alloc(huge).is_null() && alloc_zeroed(huge).is_null());
        let block = alloc(layout(100, 8));
        block.write_bytes(7, 100);
        assert!(realloc(block, layout(100, 8), huge.size()).is_null());
        assert!(is_all(block, 100, 7), "a block that cannot grow is as it was");
        dealloc(block, layout(100, 8));
    }
    assert!(Vec::<u8>::new().try_reserve(huge.size()).is_err());
}

#[test]
fn threads() {
    let makers: Vec<_> =
        (0..8).map(|n| thread::spawn(move || (0..2000).map(|i| vec![n as u8; i % 300 + 1]).collect::<Vec<_>>())).collect();
    for (n, maker) in makers.into_iter().enumerate() {
        let made = maker.join().unwrap();
        assert!(made.iter().all(|block| block[0] == n as u8));
        thread::spawn(move || drop(made)).join().unwrap();
    }
}
