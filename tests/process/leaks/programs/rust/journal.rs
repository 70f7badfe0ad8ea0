// This program appends each line to a journal that is never shortened. It keeps the last 100 answers.
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

static JOURNAL: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[inline(never)]
fn note(number: usize) {
    let line = format!("{number:0>220}"); // LEAK
    JOURNAL.lock().unwrap().push(line);
}

#[inline(never)]
fn answer(number: usize) -> Vec<u8> {
    vec![number as u8; 700]
}

fn main() {
    let mut recent = VecDeque::new();
    for round in 0..2000 {
        for number in 0..4 {
            note(4 * round + number);
            recent.push_back(answer(number));
            if recent.len() > 100 {
                recent.pop_front();
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
