//! Threads allocate, free, pass on stacks and end, all in parallel.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::stack_support::alone;
use punctual_rt::stack::{self, Class, SIZES, Stack, StackError, Stats};

/// A generator of sufficiently random numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Writes the holder's mark into a stack, to detect another holder.
fn sign(stack: &Stack, name: u64) {
    let place = stack.base().cast::<u64>();
    // SAFETY: the holder's stack, in which a word fits.
    unsafe { place.write_volatile(name) };
}

fn signature(stack: &Stack) -> u64 {
    // SAFETY: the holder's stack, in which a word fits.
    unsafe { stack.base().cast::<u64>().read_volatile() }
}

#[test]
fn no_stack_is_allocated_twice() {
    let _alone = alone();
    let (give, take) = mpsc::channel::<(Stack, u64)>();
    let take = Mutex::new(take);
    thread::scope(|scope| {
        let threads = (1..=6_u64).map(|thread| {
            let (give, take) = (give.clone(), &take);
            scope.spawn(move || {
                let mut numbers = Numbers(thread * 0x9e37_79b9);
                let mut held: Vec<(Stack, u64)> = Vec::new();
                for step in 0..20_000_u64 {
                    match numbers.below(8) {
                        0..=3 if held.len() < 12 => {
                            let stack = Stack::new(SIZES[numbers.below(4)]).unwrap();
                            let name = thread << 32 | step;
                            sign(&stack, name);
                            held.push((stack, name));
                        }
                        4 if !held.is_empty() => {
                            let chosen = numbers.below(held.len());
                            give.send(held.swap_remove(chosen)).unwrap();
                        }
                        5 => {
                            if let Ok(taken) = take.lock().unwrap().try_recv() {
                                held.push(taken);
                            }
                        }
                        6 if step % 512 == 0 => {
                            let class = Class::fitting(SIZES[numbers.below(4)]).unwrap();
                            stack::trim(class, 3).unwrap();
                        }
                        _ if !held.is_empty() => {
                            let (stack, name) = held.swap_remove(numbers.below(held.len()));
                            assert_eq!(signature(&stack), name);
                        }
                        _ => {}
                    }
                }
                for (stack, name) in held {
                    assert_eq!(signature(&stack), name);
                }
            })
        });
        // A scope ends before its threads have given their free stacks back; a join waits for that.
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
    });
    drop(take);
    for class in Class::all().take(4) {
        let stats = Stats::of(class);
        assert_eq!(stats.used, 0);
        assert_eq!(
            stats.made - stats.unmapped,
            stats.free() as u64,
            "{stats:?}"
        );
        assert_eq!(stack::trim(class, 0), Ok(stats.free()));
    }
}

#[test]
fn exactly_one_of_many_frees_of_one_stack_succeeds() {
    let _alone = alone();
    let class = Class::exact(2 << 20).unwrap();
    for _ in 0..300 {
        let address = stack::alloc(class).unwrap().as_ptr() as usize;
        let freed = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    // SAFETY: the stack is not used; all frees but one are wrong and must be
                    // refused.
                    match unsafe { stack::free(address, class) } {
                        Ok(()) => drop(freed.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error, StackError::NotInUse(address)),
                    }
                });
            }
        });
        assert_eq!(freed.into_inner(), 1);
    }
}
