//! The declarations are those of hakmem.h: its functions, the fields of its statistics in their order, its version.
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::mem::{align_of, size_of};

use hakmem_sys::*;

const HEADER: &str = include_str!("../include/hakmem.h");
const DECLARED: &str = include_str!("../src/lib.rs");

fn without_comments(text: &str) -> String {
    text.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, rest)| rest)).collect()
}

/// The words that stand before an opening bracket and begin with hak_.
fn functions(text: &str) -> BTreeSet<&str> {
    text.split('(')
        .filter_map(|part| part.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next())
        .filter(|word| word.starts_with("hak_"))
        .collect()
}

#[test]
fn each_function() {
    let code = without_comments(HEADER);
    let rust = DECLARED.split("extern \"C\" {").nth(1).unwrap();
    assert!(functions(&code).len() > 15);
    assert_eq!(functions(&code), functions(rust));
}

#[test]
fn each_field() {
    let code = without_comments(HEADER);
    let body = code.split("struct hak_stats {").nth(1).unwrap().split("};").next().unwrap();
    let fields: Vec<&str> = body.split(';').filter_map(|line| Some(line.trim().strip_prefix("uint64_t")?.trim())).collect();
    assert_eq!(fields, hak_stats::FIELDS);
    assert_eq!(size_of::<hak_stats>(), fields.len() * 8);
    assert_eq!(align_of::<hak_stats>(), 8);
}

#[test]
fn each_field_of_heaps() {
    let code = without_comments(HEADER);
    let body = code.split("struct hak_heap_stats {").nth(1).unwrap().split("};").next().unwrap();
    let fields: Vec<&str> = body.split(';').filter_map(|line| line.split_whitespace().nth(1)?.split('[').next()).collect();
    let rust = DECLARED.split("pub struct hak_heap_stats {").nth(1).unwrap().split("\n}").next().unwrap();
    let ours: Vec<&str> = rust.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next()).collect();
    assert!(fields.len() > 12);
    assert_eq!(fields, ours);
    assert_eq!(size_of::<hak_heap_stats>(), (fields.len() - 1) * 8 + 64);
    let heap = unsafe { hak_heap_create(c"of a test".as_ptr(), 1 << 20) };
    let mut stats = hak_heap_stats::default();
    assert_eq!(unsafe { hak_heap_get_stats(heap, &mut stats, size_of::<hak_heap_stats>()) }, 0);
    assert_eq!((stats.size as usize, stats.name(), stats.limit), (size_of::<hak_heap_stats>(), "of a test", 1 << 20));
    assert_eq!(unsafe { hak_heap_destroy(heap) }, 0);
}

#[test]
fn one_version() {
    let version = unsafe { CStr::from_ptr(hak_version()) }.to_str().unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let parts: Vec<u64> = version.split('.').map(|part| part.parse().unwrap()).collect();
    let mut stats = hak_stats::default();
    assert_eq!(unsafe { hak_get_stats(&mut stats, size_of::<hak_stats>()) }, 0);
    assert_eq!(stats.version, parts[0] * 10000 + parts[1] * 100 + parts[2]);
    assert_eq!(stats.size as usize, size_of::<hak_stats>());
}

#[test]
fn blocks() {
    unsafe {
        let block = hak_malloc(100);
        assert!(hak_malloc_usable_size(block) >= 100);
        let block = hak_realloc(block, 5000);
        hak_free_sized(block, 5000);
        let block = hak_malloc(20 << 20);
        assert!(hak_mallinfo2().hblkhd >= 20 << 20 && hak_mallinfo().hblkhd >= 20 << 20);
        hak_cfree(block);
        let block = hak_aligned_alloc(4096, 10);
        assert_eq!(block as usize % 4096, 0);
        hak_free_aligned_sized(block, 4096, 10);
        assert!(hak_malloc(usize::MAX).is_null());
        hak_free(core::ptr::null_mut());
    }
}
