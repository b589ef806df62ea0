//! Checks every interleaving of the magazine, depot and stealing protocol with loom.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::sync::atomic::{AtomicU64, Ordering};

use loom::sync::{Arc, Mutex};
use loom::thread;
use punctual_rt::stack::Class;
use punctual_rt::stack::protocol::{Atom, Depot, Header, Magazine, ROUNDS, State, Word, steal};

/// The word of a stack, watched by the model checker, and a copy that it doesn't watch.
#[derive(Debug)]
struct Watched(loom::sync::atomic::AtomicU64, AtomicU64);

impl Atom for Watched {
    fn new(word: u64) -> Self {
        Self(
            loom::sync::atomic::AtomicU64::new(word),
            AtomicU64::new(word),
        )
    }

    /// A relaxed load is made only by the thread that alone may store, and is no step of its own:
    /// loom keeps only the last load of a value, so a load before each store would hide the other
    /// threads' loads from it, and with that most interleavings.
    fn load(&self, order: Ordering) -> u64 {
        match order {
            Ordering::Relaxed => self.1.load(order),
            order => self.0.load(order),
        }
    }

    fn store(&self, word: u64, order: Ordering) {
        self.0.store(word, order);
        self.1.store(word, Ordering::Relaxed);
    }

    fn swap_if(&self, old: u64, new: u64, done: Ordering, refused: Ordering) -> Result<u64, u64> {
        let swapped = self.0.compare_exchange(old, new, done, refused);
        swapped.inspect(|_| self.1.store(new, Ordering::Relaxed))
    }
}

/// A stack: its header, and its memory, which one thread at a time may touch.
struct Model {
    headers: &'static [Header<Watched>],
    bytes: Vec<loom::cell::UnsafeCell<u32>>,
    depot: Mutex<Depot<Watched>>,
}

// SAFETY: only the holder of a stack touches its cell, which is what loom checks here.
unsafe impl Sync for Model {}
// SAFETY: the cells don't depend on the thread, and loom checks concurrent accesses.
unsafe impl Send for Model {}

fn class() -> Class {
    Class::fitting(0).unwrap()
}

impl Model {
    /// `count` stacks, all stored in the depot.
    fn new(count: usize) -> Arc<Self> {
        let headers = Vec::leak((0..count).map(|_| Header::empty()).collect());
        let mut depot = Depot::new();
        for (number, header) in headers.iter().enumerate() {
            depot.store_own(
                header,
                Word::new((number + 1) << 12, class(), State::Moving),
            );
        }
        let bytes = (0..count).map(|_| loom::cell::UnsafeCell::new(0)).collect();
        Arc::new(Self {
            headers,
            bytes,
            depot: Mutex::new(depot),
        })
    }

    fn alloc(&self, magazine: &Magazine<Watched>) -> Option<usize> {
        let own = magazine.take(class());
        let stored = || self.depot.lock().unwrap().take(class(), State::Used);
        let stolen = || steal(self.headers, class(), State::Used);
        let (_, word) = own.or_else(stored).or_else(stolen)?;
        let index = (word.address() >> 12) - 1;
        // SAFETY: loom fails the test if two threads access the cell at a time.
        self.bytes[index].with_mut(|byte| unsafe { *byte += 1 });
        Some(index)
    }

    fn free(&self, index: usize, magazine: &Magazine<Watched>) -> bool {
        let header = &self.headers[index];
        let freed = header.release((index + 1) << 12, class(), State::Kept);
        if let Ok(word) = freed {
            magazine.push(header, word, ROUNDS);
        }
        freed.is_ok()
    }

    fn use_one(&self, magazine: &Magazine<Watched>) {
        if let Some(index) = self.alloc(magazine) {
            assert!(self.free(index, magazine));
        }
    }

    /// What a thread that ends does.
    fn drain(&self, magazine: &Magazine<Watched>) {
        self.depot.lock().unwrap().drain(magazine, 0);
    }
}

fn bounded(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

#[test]
fn a_stolen_stack_has_one_holder() {
    bounded(|| {
        let model = Model::new(1);
        let mine = Magazine::new();
        model.use_one(&mine);
        let other = {
            let model = model.clone();
            thread::spawn(move || {
                let own = Magazine::new();
                model.use_one(&own);
                model.use_one(&own);
                model.drain(&own);
            })
        };
        model.use_one(&mine);
        model.drain(&mine);
        other.join().unwrap();
        assert_eq!(model.depot.lock().unwrap().len(class()), 1);
    });
}

#[test]
fn ending_threads_lose_no_stack() {
    bounded(|| {
        let model = Model::new(2);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || {
                    let own = Magazine::new();
                    model.use_one(&own);
                    model.drain(&own);
                })
            })
            .collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(model.depot.lock().unwrap().len(class()), 2);
    });
}

#[test]
fn exactly_one_of_two_frees_of_one_stack_succeeds() {
    bounded(|| {
        let model = Model::new(1);
        let mine = Magazine::new();
        let index = model.alloc(&mine).unwrap();
        let other = {
            let model = model.clone();
            thread::spawn(move || {
                let own = Magazine::new();
                let freed = model.free(index, &own);
                model.drain(&own);
                freed
            })
        };
        let freed = model.free(index, &mine);
        model.drain(&mine);
        assert!(freed != other.join().unwrap());
        assert_eq!(model.depot.lock().unwrap().len(class()), 1);
    });
}

/// From a thread's hands into the depot, from there into its magazine, and stolen from that: only
/// the word passes the memory on, because a thief takes no lock.
#[test]
fn a_stack_that_was_refilled_and_stolen_has_one_holder() {
    bounded(|| {
        let model = Model::new(4);
        let other = {
            let model = model.clone();
            thread::spawn(move || {
                let own = Magazine::new();
                model.use_one(&own);
                model.drain(&own);
                model.depot.lock().unwrap().refill(&own, class());
                // One of four; none if the other thread has one of them.
                assert!(own.len() <= 1);
                model.use_one(&own);
                model.drain(&own);
            })
        };
        let mine = Magazine::new();
        if let Some((header, word)) = steal(model.headers, class(), State::Used) {
            let index = (word.address() >> 12) - 1;
            assert!(std::ptr::eq(header, &model.headers[index]));
            // SAFETY: loom fails the test if two threads access the cell at a time.
            model.bytes[index].with_mut(|byte| unsafe { *byte += 1 });
            assert!(model.free(index, &mine));
        }
        model.drain(&mine);
        other.join().unwrap();
        assert_eq!(model.depot.lock().unwrap().len(class()), 4);
    });
}
