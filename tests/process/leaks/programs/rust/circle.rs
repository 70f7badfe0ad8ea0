// This program links places to a circle of Rc. Nobody breaks the circle, so its places are never dropped. Single places are dropped.
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

struct Place {
    next: RefCell<Option<Rc<Place>>>,
    name: [u8; 300],
}

#[inline(never)]
fn new_place(number: usize) -> Rc<Place> {
    Rc::new(Place { next: RefCell::new(None), name: [number as u8; 300] }) // LEAK
}

#[inline(never)]
fn make_circle(number: usize) {
    let (one, other) = (new_place(number), new_place(number));
    *one.next.borrow_mut() = Some(other.clone());
    *other.next.borrow_mut() = Some(one);
}

fn main() {
    let mut sum = 0;
    for round in 0..2000 {
        for number in 0..10 {
            sum += new_place(number).name[7] as usize;
        }
        make_circle(round);
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("{sum}");
}
