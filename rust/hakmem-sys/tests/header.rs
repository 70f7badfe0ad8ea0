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
    let fields: Vec<&str> = body.lines().filter_map(|line| line.trim().strip_prefix("uint64_t ")?.split(';').next()).collect();
    assert_eq!(fields, hak_stats::FIELDS);
    assert_eq!(size_of::<hak_stats>(), fields.len() * 8);
    assert_eq!(align_of::<hak_stats>(), 8);
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
        assert!(hak_usable_size(block) >= 100);
        let block = hak_realloc(block, 5000);
        hak_free_sized(block, 5000);
        let block = hak_aligned_alloc(4096, 10);
        assert_eq!(block as usize % 4096, 0);
        hak_free_aligned_sized(block, 4096, 10);
        assert!(hak_malloc(usize::MAX).is_null());
        hak_free(core::ptr::null_mut());
    }
}
