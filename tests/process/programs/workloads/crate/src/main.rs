//! Strings, maps and vectors made in one thread and dropped in another; prints sums that are always the same.
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

fn words(seed: u64, count: usize) -> Vec<String> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x}", state >> (20 + i % 40))
        })
        .collect()
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn counted(list: &[String]) -> BTreeMap<String, usize> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in list {
        *counts.entry(&word[..1 + word.len() / 2]).or_default() += 1;
    }
    counts.into_iter().map(|(word, n)| (word.to_string(), n)).collect()
}

/// Producers send what they allocate; the receiver drops it.
fn exchange(producers: u64, rounds: u64) -> u64 {
    let (sender, receiver) = mpsc::sync_channel::<Vec<String>>(8);
    let threads: Vec<_> = (0..producers)
        .map(|p| {
            let sender = sender.clone();
            thread::spawn(move || (0..rounds).for_each(|r| sender.send(words(p * 1000 + r, 300)).unwrap()))
        })
        .collect();
    drop(sender);
    let sum = receiver.iter().flatten().fold(0u64, |s, w| s.wrapping_add(hash(&w)));
    threads.into_iter().for_each(|t| t.join().unwrap());
    sum
}

fn main() {
    println!("counted={:x}", counted(&words(1, 200_000)).iter().fold(0, |s, (w, n)| s ^ hash(w).wrapping_mul(*n as u64)));
    println!("exchanged={:x}", exchange(6, 300));
    let brief: usize = (0..500).map(|i| thread::spawn(move || words(i, 50).concat().len()).join().unwrap()).sum();
    println!("brief={brief}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_each_time() {
        assert_eq!(words(7, 500), words(7, 500));
    }

    #[test]
    fn counts_add_up() {
        assert_eq!(counted(&words(3, 10_000)).values().sum::<usize>(), 10_000);
    }

    #[test]
    fn order_of_threads_does_not_matter() {
        assert_eq!(exchange(4, 100), exchange(4, 100));
    }
}
