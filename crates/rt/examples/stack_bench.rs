//! Compares the cost of this allocator's stacks with the alternatives.
//!
//! Every variant runs in every round, one after the other, so that disturbances of the machine
//! affect all of them. Figures are medians over the rounds, in ns per pair of allocation and
//! free, or per thread from its creation to its end; the last column is the ratio to the checked
//! pair.
//!
//! `cargo run --release -p punctual-rt --example stack_bench [ROUNDS]`
//!
//! With `lines` after ROUNDS, a line for each figure: name, threads and value, for `make bench`.
#![allow(unsafe_code, reason = "an example calls the C library")]
#![allow(clippy::print_stdout, reason = "an example prints its result")]

#[path = "stack_bench/many.rs"]
mod many;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null, null_mut};
use std::sync::{Barrier, Mutex, OnceLock};
use std::thread;
use std::time::Instant;

use punctual_rt::affinity;
use punctual_rt::stack::{self, Class};
use punctual_rt::sync::PiMutex;
use punctual_rt::sys::map::{self, Access, page_size};

const SIZE: usize = 256 << 10;

fn class() -> Class {
    Class::exact(SIZE).expect("256 KB is a class")
}

/// Writes a word at the top of the stack, as every user would.
fn write_top(base: NonNull<u8>) {
    // SAFETY: the word lies within the stack of SIZE bytes.
    let top = unsafe { base.add(SIZE - 8) };
    // SAFETY: the stack belongs to the caller and is writable, and 8 divides the address.
    unsafe { top.cast::<u64>().write_volatile(1) };
}

fn from_kernel(count: usize) {
    for _ in 0..count {
        let whole = map::reserve(SIZE + 2 * page_size()).expect("address space");
        // SAFETY: the mapping is longer than a page.
        let base = unsafe { whole.add(page_size()) };
        // SAFETY: whole pages of the mapping created above, which nothing uses yet.
        unsafe { map::protect(base, SIZE, Access::ReadWrite) }.expect("pages");
        // SAFETY: whole pages of the mapping, which are writable since the call above.
        unsafe { map::populate(base, SIZE) }.expect("memory");
        write_top(base);
        // SAFETY: nothing uses the mapping any more.
        unsafe { map::unmap(whole, SIZE + 2 * page_size()) }.expect("unmapped");
    }
}

fn checked(count: usize) {
    for _ in 0..count {
        let base = stack::alloc(class()).expect("a stack");
        write_top(base);
        // SAFETY: the stack was allocated above, and nothing uses it.
        unsafe { stack::free(base.as_ptr() as usize, class()) }.expect("freed");
    }
}

static LIST: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static PI_LIST: OnceLock<PiMutex<Vec<usize>>> = OnceLock::new();

fn mutex_list(count: usize) {
    for _ in 0..count {
        let kept = LIST.lock().expect("not poisoned").pop();
        let base = match kept {
            Some(address) => NonNull::new(address as *mut u8).expect("a stack"),
            None => stack::alloc(class()).expect("a stack"),
        };
        write_top(base);
        LIST.lock()
            .expect("not poisoned")
            .push(base.as_ptr() as usize);
    }
}

fn pi_list(count: usize) {
    let list = PI_LIST.get_or_init(|| PiMutex::new(Vec::new()).expect("a mutex"));
    for _ in 0..count {
        let kept = list.lock().expect("not ours").pop();
        let base = match kept {
            Some(address) => NonNull::new(address as *mut u8).expect("a stack"),
            None => stack::alloc(class()).expect("a stack"),
        };
        write_top(base);
        list.lock().expect("not ours").push(base.as_ptr() as usize);
    }
}

fn attribute(stack: Option<NonNull<u8>>, size: usize) -> libc::pthread_attr_t {
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attribute is filled here.
    unsafe { libc::pthread_attr_init(attr.as_mut_ptr()) };
    let set = match stack {
        // SAFETY: the stack outlives the thread that is created with the attribute.
        Some(base) => unsafe {
            libc::pthread_attr_setstack(attr.as_mut_ptr(), base.as_ptr().cast(), size)
        },
        // SAFETY: the attribute is initialised.
        None => unsafe { libc::pthread_attr_setstacksize(attr.as_mut_ptr(), size) },
    };
    assert_eq!(set, 0);
    // SAFETY: initialised above.
    unsafe { attr.assume_init() }
}

#[inline(never)]
extern "C" fn touch_200_kb(_: *mut c_void) -> *mut c_void {
    let mut room = [0_u8; 200 << 10];
    for byte in room.iter_mut().step_by(4096) {
        *byte = std::hint::black_box(1);
    }
    std::hint::black_box(&mut room);
    null_mut()
}

/// Page faults of the calling thread so far.
fn faults() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the struct it is given.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all-zero is a value of rusage, and the call filled it.
    let usage = unsafe { usage.assume_init() };
    usage.ru_minflt + usage.ru_majflt
}

/// The measurements of a thread that touches 200 KB.
#[derive(Clone, Copy)]
struct Done {
    at: Option<Instant>,
    touched_in: f64,
    faults: i64,
}

extern "C" fn touch_and_report(done: *mut c_void) -> *mut c_void {
    let (begun, before) = (Instant::now(), faults());
    touch_200_kb(null_mut());
    let taken = faults() - before;
    let at = Instant::now();
    let touched_in = (at - begun).as_secs_f64() * 1e9;
    // SAFETY: the caller passes a Done that outlives this thread.
    unsafe {
        done.cast::<Done>().write(Done {
            at: Some(at),
            touched_in,
            faults: taken,
        })
    };
    null_mut()
}

/// The time from pthread_create to the end of the body, and of the body, in ns; its page faults.
fn create_to_done(attr: &libc::pthread_attr_t) -> (f64, f64, i64) {
    let mut done = Done {
        at: None,
        touched_in: 0.0,
        faults: 0,
    };
    let begun = Instant::now();
    run_thread(attr, touch_and_report, (&raw mut done).cast());
    let at = done.at.expect("the thread ran");
    (
        (at - begun).as_secs_f64() * 1e9,
        done.touched_in,
        done.faults,
    )
}

/// New threads that touch 200 KB, on glibc's stacks and on ours: medians of [`create_to_done`].
fn new_threads() -> [[f64; 3]; 2] {
    let stack = stack::alloc(class()).expect("a stack");
    let attributes = [attribute(None, SIZE), attribute(Some(stack), SIZE)];
    let mut seen = [const { Vec::new() }; 2];
    // On one CPU: waking another CPU from idle would be measured, too.
    let before = affinity::get(0).expect("CPUs");
    affinity::set_current(&before[..1]).expect("one of them");
    for _ in 0..200 {
        for (attr, seen) in attributes.iter().zip(&mut seen) {
            seen.push(create_to_done(attr));
        }
    }
    affinity::set_current(&before).expect("as it was");
    // SAFETY: every thread that ran on it was joined.
    unsafe { stack::free(stack.as_ptr() as usize, class()) }.expect("freed");
    seen.map(|seen| {
        [
            median(seen.iter().map(|seen| seen.0).collect()),
            median(seen.iter().map(|seen| seen.1).collect()),
            median(seen.iter().map(|seen| seen.2 as f64).collect()),
        ]
    })
}

fn print_new_threads([usual, ours]: [[f64; 3]; 2]) {
    println!();
    println!("a new thread that touches 200 KB    create to done  touching  page faults");
    for (name, [done, touching, faults]) in [("glibc's stack", usual), ("ours", ours)] {
        println!("{name:34}{done:16.0}{touching:10.0}{faults:13.0}");
    }
    let (done, touching) = (usual[0] / ours[0], usual[1] / ours[1]);
    println!("{:34}{done:15.1}x{touching:9.1}x", "ratio");
}

extern "C" fn do_nothing(_: *mut c_void) -> *mut c_void {
    null_mut()
}

fn run_thread(
    attr: *const libc::pthread_attr_t,
    body: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) {
    let mut made = 0;
    // SAFETY: the attribute is null or initialised, and the body fits its argument.
    let failed = unsafe { libc::pthread_create(&mut made, attr, body, argument) };
    assert_eq!(failed, 0);
    // SAFETY: the thread was made above and is joined once.
    assert_eq!(unsafe { libc::pthread_join(made, null_mut()) }, 0);
}

fn threads_default(count: usize) {
    (0..count).for_each(|_| run_thread(null(), do_nothing, null_mut()));
}

fn threads_default_touch(count: usize) {
    let attr = attribute(None, SIZE);
    (0..count).for_each(|_| run_thread(&attr, touch_200_kb, null_mut()));
}

fn on_ours(count: usize, body: extern "C" fn(*mut c_void) -> *mut c_void) {
    for _ in 0..count {
        let base = stack::alloc(class()).expect("a stack");
        run_thread(&attribute(Some(base), SIZE), body, null_mut());
        // SAFETY: the thread that ran on it was joined.
        unsafe { stack::free(base.as_ptr() as usize, class()) }.expect("freed");
    }
}

fn threads_ours(count: usize) {
    on_ours(count, do_nothing);
}

fn threads_ours_touch(count: usize) {
    on_ours(count, touch_200_kb);
}

struct Variant {
    key: &'static str,
    name: &'static str,
    count: usize,
    run: fn(usize),
}

const VARIANTS: [Variant; 8] = [
    Variant {
        key: "checked",
        name: "checked pair of this library",
        count: 400_000,
        run: checked,
    },
    Variant {
        key: "mutex-list",
        name: "list behind a mutex, unchecked",
        count: 400_000,
        run: mutex_list,
    },
    Variant {
        key: "pi-list",
        name: "list behind a PI mutex, unchecked",
        count: 400_000,
        run: pi_list,
    },
    Variant {
        key: "kernel",
        name: "mmap, mprotect, populate, munmap",
        count: 300,
        run: from_kernel,
    },
    Variant {
        key: "thread-default",
        name: "thread, default stack",
        count: 500,
        run: threads_default,
    },
    Variant {
        key: "thread-ours",
        name: "thread on a stack of ours",
        count: 500,
        run: threads_ours,
    },
    Variant {
        key: "touching-default",
        name: "touching thread, default",
        count: 300,
        run: threads_default_touch,
    },
    Variant {
        key: "touching-ours",
        name: "touching thread, ours",
        count: 300,
        run: threads_ours_touch,
    },
];

/// The number of parts that a run is measured in. Disturbances can only lengthen a part, so the
/// shortest counts.
const PIECES: usize = 20;

/// The time of a variant, in ns, in `threads` threads in parallel: the mean of each thread's
/// shortest part.
fn measure(variant: &Variant, threads: usize) -> f64 {
    let start = Barrier::new(threads);
    let piece = variant.count / PIECES;
    let all: Vec<f64> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    (variant.run)(piece);
                    start.wait();
                    let timed = (0..PIECES).map(|_| {
                        let begun = Instant::now();
                        (variant.run)(piece);
                        begun.elapsed().as_secs_f64() * 1e9 / piece as f64
                    });
                    timed.fold(f64::INFINITY, f64::min)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    all.iter().sum::<f64>() / all.len() as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The numbers of parallel threads: 1, 2, 4 and 8, up to the number of CPUs.
fn widths() -> Vec<usize> {
    let most = thread::available_parallelism().map_or(1, usize::from);
    let more = (1..4).map(|shift| 1 << shift);
    [1].into_iter()
        .chain(more.filter(|&count| count <= most))
        .collect()
}

fn print_lines(widths: &[usize]) {
    for variant in &VARIANTS {
        for &threads in widths {
            println!("{}\t{threads}\t{}", variant.key, measure(variant, threads));
        }
    }
    for (whose, [done, _, faults]) in ["default", "ours"].iter().zip(new_threads()) {
        println!("done-{whose}\t1\t{done}\nfaults-{whose}\t1\t{faults}");
    }
    for (whose, taken) in ["default", "ours"].iter().zip(many::many_threads()) {
        println!("many-{whose}\t{}\t{taken}", many::THREADS);
    }
}

fn print_table(widths: &[usize], rounds: usize) {
    let mut taken = vec![vec![Vec::new(); widths.len()]; VARIANTS.len()];
    for _ in 0..rounds {
        for (variant, figures) in VARIANTS.iter().zip(&mut taken) {
            for (&threads, figures) in widths.iter().zip(figures) {
                figures.push(measure(variant, threads));
            }
        }
    }
    print!("{:34}", "256 KB, ns, median of rounds");
    widths
        .iter()
        .for_each(|threads| print!("{:>11}", format!("{threads} thr")));
    println!("{:>13}", "x checked");
    let mut reference = 1.0;
    for (number, (variant, figures)) in VARIANTS.iter().zip(taken).enumerate() {
        let medians: Vec<f64> = figures.into_iter().map(median).collect();
        if number == 0 {
            reference = medians[0];
        }
        print!("{:34}", variant.name);
        medians.iter().for_each(|figure| print!("{figure:11.1}"));
        println!("{:13.1}", medians[0] / reference);
    }
    print_new_threads(new_threads());
    let [usual, ours] = many::many_threads();
    let (threads, ratio) = (many::THREADS, usual / ours);
    println!("{threads} of them at once: glibc's {usual:.0}, ours {ours:.0}, ratio {ratio:.1}x");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(9_usize)
        .max(1);
    let widths = widths();
    let most = widths.last().copied().unwrap_or(1);
    stack::reserve(class(), 4 * most).expect("stacks");
    if arguments.next().is_some_and(|word| word == "lines") {
        (0..rounds).for_each(|_| print_lines(&widths));
    } else {
        print_table(&widths, rounds);
    }
}
