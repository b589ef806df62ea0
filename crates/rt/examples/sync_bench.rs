//! What locks and rings cost: this library's against what else there is.
//!
//! Every variant runs in every round, one after the other. Figures are medians over the
//! rounds, in ns: for one lock and unlock with 1 or 2 threads at it, and for one value from
//! one thread to another.
//!
//! `cargo run --release -p punctual-rt --example sync_bench [ROUNDS]`
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::cell::UnsafeCell;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Instant;

use punctual_rt::records::Records;
use punctual_rt::ring::ring;
use punctual_rt::sync::PiMutex;

/// A record like a log's.
type Value = [u64; 8];
const CAPACITY: usize = 4096;

/// A pthread mutex as it comes.
struct Plain(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex is made for several threads.
unsafe impl Sync for Plain {}

impl Plain {
    fn pair(&self) {
        // SAFETY: initialised, and it doesn't move while it is borrowed.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        // SAFETY: locked just now.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// The mean time of `pair`, in ns, over `threads` threads at once.
fn locked(threads: usize, pair: &(dyn Fn() + Sync)) -> f64 {
    const COUNT: usize = 200_000;
    let start = Barrier::new(threads);
    let times: Vec<f64> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let begun = Instant::now();
                    (0..COUNT).for_each(|_| pair());
                    begun.elapsed().as_secs_f64() * 1e9 / COUNT as f64
                })
            })
            .collect();
        all.into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    times.iter().sum::<f64>() / times.len() as f64
}

/// The time of one value from thread to thread, in ns. Who finds the ring full or empty lets
/// the other run.
fn passed(mut push: impl FnMut(Value) -> bool + Send, mut pop: impl FnMut() -> usize) -> f64 {
    const COUNT: usize = 1_000_000;
    thread::scope(|scope| {
        let begun = Instant::now();
        scope.spawn(move || {
            for number in 0..COUNT as u64 {
                while !push([number; 8]) {
                    thread::yield_now();
                }
            }
        });
        let mut seen = 0;
        while seen < COUNT {
            match pop() {
                0 => thread::yield_now(),
                some => seen += some,
            }
        }
        begun.elapsed().as_secs_f64() * 1e9 / COUNT as f64
    })
}

fn by_ring() -> f64 {
    let (mut producer, mut consumer) = ring::<Value>(CAPACITY);
    passed(
        move |value| producer.push(value),
        || {
            consumer.drain(|value| {
                std::hint::black_box(value);
            })
        },
    )
}

fn by_records() -> f64 {
    let records = Records::new(size_of::<Value>(), CAPACITY).expect("a ring");
    let mut value: Value = [0; 8];
    passed(
        // SAFETY: one thread pushes, and the sizes are the same.
        |value| unsafe { records.push(value.as_ptr().cast()) },
        // SAFETY: one thread pops, and the sizes are the same.
        || usize::from(unsafe { records.pop(value.as_mut_ptr().cast()) }),
    )
}

fn by_rtrb() -> f64 {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<Value>::new(CAPACITY);
    passed(
        move |value| producer.push(value).is_ok(),
        || usize::from(consumer.pop().map(std::hint::black_box).is_ok()),
    )
}

type Variant = (&'static str, fn() -> f64);

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(9_usize)
        .max(1);
    let plain = Plain(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    let inheriting = PiMutex::new(()).expect("a mutex");
    let of_std = Mutex::new(());
    let pairs: [(&str, &(dyn Fn() + Sync)); 3] = [
        ("PiMutex of this library", &|| {
            drop(inheriting.lock().expect("not ours"));
        }),
        ("pthread mutex, no inheritance", &|| plain.pair()),
        ("std::sync::Mutex", &|| {
            drop(of_std.lock().expect("not poisoned"));
        }),
    ];
    let rings: [Variant; 3] = [
        ("ring of this library", by_ring),
        ("records of this library", by_records),
        ("rtrb", by_rtrb),
    ];
    let mut locks = vec![[Vec::new(), Vec::new()]; pairs.len()];
    let mut values = vec![Vec::new(); rings.len()];
    for _ in 0..rounds {
        for ((_, pair), times) in pairs.iter().zip(&mut locks) {
            times[0].push(locked(1, pair));
            times[1].push(locked(2, pair));
        }
        for ((_, pass), times) in rings.iter().zip(&mut values) {
            times.push(pass());
        }
    }
    println!("{:34}{:>11}{:>11}", "lock and unlock, ns", "1 thr", "2 thr");
    for ((name, _), [one, two]) in pairs.iter().zip(locks) {
        println!("{name:34}{:11.1}{:11.1}", median(one), median(two));
    }
    println!();
    println!("{:34}{:>11}", "64 bytes to another thread, ns", "each");
    for ((name, _), times) in rings.iter().zip(values) {
        println!("{name:34}{:11.1}", median(times));
    }
}
