//! Compares the cost of this library's locks and rings with the alternatives.
//!
//! Every variant runs in every round, one after the other. Figures are medians over the rounds,
//! in ns: per lock and unlock with 1 or 2 threads, and per value through a ring, within one
//! thread or from one to another, each on its own CPU where there are two.
//!
//! `cargo run --release -p punctual-rt --example sync_bench [ROUNDS]`
//!
//! With `lines` after ROUNDS, a line for each figure: name, threads and value, for `make bench`.
#![allow(unsafe_code, reason = "an example calls the C library")]
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Instant;

use punctual_rt::affinity;
use punctual_rt::records::Records;
use punctual_rt::ring::ring;
use punctual_rt::sync::PiMutex;

/// A record like a log's.
type Value = [u64; 8];
const CAPACITY: usize = 4096;

/// A pthread mutex as C programs use it.
struct Plain(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex may be used by several threads.
unsafe impl Sync for Plain {}

impl Plain {
    fn inheriting() -> Self {
        let made = Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let mut attr = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: filled by this call.
        unsafe { libc::pthread_mutexattr_init(attr.as_mut_ptr()) };
        // SAFETY: initialised above.
        let set = unsafe {
            libc::pthread_mutexattr_setprotocol(attr.as_mut_ptr(), libc::PTHREAD_PRIO_INHERIT)
        };
        assert_eq!(set, 0);
        // SAFETY: no thread uses the mutex yet, and an unlocked one may move.
        unsafe { libc::pthread_mutex_init(made.0.get(), attr.as_ptr()) };
        made
    }

    fn pair(&self) {
        // SAFETY: initialised, and it doesn't move while it is borrowed.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        // SAFETY: locked just now.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// The mean time of `pair`, in ns, over `threads` parallel threads. For a single thread its
/// shortest part counts: disturbances can only lengthen a part.
fn locked(threads: usize, pair: &(dyn Fn() + Sync)) -> f64 {
    const COUNT: usize = 200_000;
    let pieces = if threads == 1 { 20 } else { 1 };
    let piece = COUNT / pieces;
    let start = Barrier::new(threads);
    let times: Vec<f64> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let timed = (0..pieces).map(|_| {
                        let begun = Instant::now();
                        (0..piece).for_each(|_| pair());
                        begun.elapsed().as_secs_f64() * 1e9 / piece as f64
                    });
                    timed.fold(f64::INFINITY, f64::min)
                })
            })
            .collect();
        all.into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    times.iter().sum::<f64>() / times.len() as f64
}

/// How values are passed; returns the time per value, in ns.
trait Pass {
    fn run(push: impl FnMut(Value) -> bool + Send, pop: impl FnMut() -> usize) -> f64;
}

/// From thread to thread, each on its own CPU: on one CPU they would take turns, as [`Alone`]
/// measures. A thread that finds the ring full or empty yields.
struct Across;

impl Pass for Across {
    fn run(mut push: impl FnMut(Value) -> bool + Send, mut pop: impl FnMut() -> usize) -> f64 {
        const COUNT: usize = 1_000_000;
        let cpus = affinity::get(0).expect("our CPUs");
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        let start = Barrier::new(2);
        let passed = thread::scope(|scope| {
            let start = &start;
            scope.spawn(move || {
                affinity::set_current(&[last]).expect("one of our CPUs");
                start.wait();
                for number in 0..COUNT as u64 {
                    while !push([number; 8]) {
                        thread::yield_now();
                    }
                }
            });
            affinity::set_current(&[first]).expect("one of our CPUs");
            start.wait();
            let begun = Instant::now();
            let mut seen = 0;
            while seen < COUNT {
                match pop() {
                    0 => thread::yield_now(),
                    some => seen += some,
                }
            }
            begun.elapsed()
        });
        affinity::set_current(&cpus).expect("our CPUs");
        passed.as_secs_f64() * 1e9 / COUNT as f64
    }
}

/// In one thread that fills half of the ring and empties it: only the instructions. The shortest
/// turn counts.
struct Alone;

impl Pass for Alone {
    fn run(mut push: impl FnMut(Value) -> bool + Send, mut pop: impl FnMut() -> usize) -> f64 {
        const TURN: usize = CAPACITY / 2;
        let turns = (0..100).map(|_| {
            let begun = Instant::now();
            for number in 0..TURN as u64 {
                assert!(push([number; 8]));
            }
            let mut seen = 0;
            while seen < TURN {
                seen += pop();
            }
            begun.elapsed().as_secs_f64() * 1e9 / TURN as f64
        });
        turns.fold(f64::INFINITY, f64::min)
    }
}

fn by_ring<P: Pass>() -> f64 {
    let (mut producer, mut consumer) = ring::<Value>(CAPACITY);
    P::run(
        move |value| producer.push(value),
        || {
            consumer.drain(|value| {
                black_box(value);
            })
        },
    )
}

fn by_records<P: Pass>() -> f64 {
    let records = Records::new(size_of::<Value>(), CAPACITY).expect("a ring");
    let mut value: Value = [0; 8];
    P::run(
        // SAFETY: one thread pushes, and the sizes are the same.
        |value| unsafe { records.push_value(value) },
        || {
            // SAFETY: one thread pops, and the sizes are the same.
            let there = unsafe { records.pop_value(&mut value) };
            black_box(&value);
            usize::from(there)
        },
    )
}

fn by_rtrb<P: Pass>() -> f64 {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<Value>::new(CAPACITY);
    P::run(
        move |value| producer.push(value).is_ok(),
        || usize::from(consumer.pop().map(black_box).is_ok()),
    )
}

/// From memory that was just filled and into memory, like the C functions.
fn by_pointer<P: Pass>() -> f64 {
    let records = Records::new(size_of::<Value>(), CAPACITY).expect("a ring");
    let mut value: Value = [0; 8];
    P::run(
        // SAFETY: one thread pushes, and the sizes are the same.
        |value| unsafe { records.push(black_box(&value).as_ptr().cast()) },
        || {
            // SAFETY: one thread pops, and the sizes are the same.
            let there = unsafe { records.pop(value.as_mut_ptr().cast()) };
            black_box(&value);
            usize::from(there)
        },
    )
}

/// Like [`by_pointer`].
fn by_rtrb_from_memory<P: Pass>() -> f64 {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<Value>::new(CAPACITY);
    P::run(
        move |value| producer.push(*black_box(&value)).is_ok(),
        || usize::from(consumer.pop().map(black_box).is_ok()),
    )
}

/// A key for `lines`, a name, and the measured function.
type Lock<'a> = (&'a str, &'a str, &'a (dyn Fn() + Sync));
type Ring = (&'static str, &'static str, [fn() -> f64; 2]);

const RINGS: [Ring; 5] = [
    (
        "ring",
        "ring of this library",
        [by_ring::<Alone>, by_ring::<Across>],
    ),
    (
        "records",
        "records of this library",
        [by_records::<Alone>, by_records::<Across>],
    ),
    ("rtrb", "rtrb", [by_rtrb::<Alone>, by_rtrb::<Across>]),
    (
        "records-memory",
        "records, from memory to memory",
        [by_pointer::<Alone>, by_pointer::<Across>],
    ),
    (
        "rtrb-memory",
        "rtrb, from memory to memory",
        [by_rtrb_from_memory::<Alone>, by_rtrb_from_memory::<Across>],
    ),
];

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn print_lines(locks: &[Lock<'_>]) {
    for (key, _, pair) in locks {
        println!("{key}\t1\t{}", locked(1, pair));
        println!("{key}\t2\t{}", locked(2, pair));
    }
    for (key, _, [alone, across]) in RINGS {
        println!("{key}\t1\t{}", alone());
        println!("{key}\t2\t{}", across());
    }
}

fn print_table(locks: &[Lock<'_>], rounds: usize) {
    let mut times = vec![[Vec::new(), Vec::new()]; locks.len()];
    let mut values = vec![[Vec::new(), Vec::new()]; RINGS.len()];
    for _ in 0..rounds {
        for ((_, _, pair), times) in locks.iter().zip(&mut times) {
            times[0].push(locked(1, pair));
            times[1].push(locked(2, pair));
        }
        for ((_, _, passes), times) in RINGS.iter().zip(&mut values) {
            for (pass, times) in passes.iter().zip(times) {
                times.push(pass());
            }
        }
    }
    println!("{:34}{:>11}{:>11}", "lock and unlock, ns", "1 thr", "2 thr");
    for ((_, name, _), [one, two]) in locks.iter().zip(times) {
        println!("{name:34}{:11.1}{:11.1}", median(one), median(two));
    }
    println!();
    println!("{:34}{:>11}{:>11}", "64 bytes, ns", "alone", "across");
    for ((_, name, _), [alone, across]) in RINGS.iter().zip(values) {
        println!("{name:34}{:11.1}{:11.1}", median(alone), median(across));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(9_usize)
        .max(1);
    let plain = Plain(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
    let of_posix = Plain::inheriting();
    let inheriting = PiMutex::new(()).expect("a mutex");
    let of_std = Mutex::new(());
    let locks: [Lock<'_>; 4] = [
        ("pi-mutex", "PiMutex of this library", &|| {
            drop(inheriting.lock().expect("not ours"));
        }),
        ("pthread-pi", "pthread mutex, PRIO_INHERIT", &|| {
            of_posix.pair();
        }),
        ("pthread", "pthread mutex, no inheritance", &|| plain.pair()),
        ("std-mutex", "std::sync::Mutex", &|| {
            drop(of_std.lock().expect("not poisoned"));
        }),
    ];
    if arguments.next().is_some_and(|word| word == "lines") {
        (0..rounds).for_each(|_| print_lines(&locks));
    } else {
        print_table(&locks, rounds);
    }
}
