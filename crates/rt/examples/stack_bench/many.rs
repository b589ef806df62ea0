//! Many threads in parallel, each of which touches 200 KB of its stack: on glibc's stacks, and on
//! ours.

use std::ptr::{NonNull, null_mut};
use std::time::Instant;

use punctual_rt::stack;

use super::{SIZE, attribute, class, median, touch_200_kb};

/// Threads in parallel.
pub const THREADS: usize = 64;

/// The time from the first `pthread_create` to the last `pthread_join`, in ns, with glibc's and
/// our stacks in turn: medians.
pub fn many_threads() -> [f64; 2] {
    stack::reserve(class(), THREADS).expect("stacks");
    let stacks: Vec<_> = (0..THREADS)
        .map(|_| stack::alloc(class()).expect("a reserved stack"))
        .collect();
    let of_glibc = vec![attribute(None, SIZE); THREADS];
    let ours: Vec<_> = stacks
        .iter()
        .map(|&base| attribute(Some(base), SIZE))
        .collect();
    let mut taken = [Vec::new(), Vec::new()];
    // In the first round glibc maps its stacks, which it keeps for the next, as ours are kept.
    for turn in 0..16 {
        for (attributes, taken) in [&of_glibc, &ours].into_iter().zip(&mut taken) {
            let time = at_once(attributes);
            if turn > 0 {
                taken.push(time);
            }
        }
    }
    for base in stacks {
        // SAFETY: each thread that ran on it was joined.
        unsafe { stack::free(NonNull::as_ptr(base) as usize, class()) }.expect("freed");
    }
    taken.map(median)
}

fn at_once(attributes: &[libc::pthread_attr_t]) -> f64 {
    let mut threads = vec![0; attributes.len()];
    let begun = Instant::now();
    for (attribute, thread) in attributes.iter().zip(&mut threads) {
        // SAFETY: the attribute is initialised, no other thread has its stack, and the body
        // accepts any argument.
        let failed = unsafe { libc::pthread_create(thread, attribute, touch_200_kb, null_mut()) };
        assert_eq!(failed, 0);
    }
    for &thread in &threads {
        // SAFETY: created above, and joined once.
        assert_eq!(unsafe { libc::pthread_join(thread, null_mut()) }, 0);
    }
    begun.elapsed().as_secs_f64() * 1e9
}
