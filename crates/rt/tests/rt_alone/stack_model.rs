//! Compares the allocator with a model that is too simple to be wrong.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::collections::HashMap;

use crate::stack_support::alone;
use proptest::prelude::*;
use punctual_rt::stack::{self, Class, SIZES, StackError, Stats};

#[derive(Clone, Debug)]
enum Step {
    Alloc(usize),
    /// The index of a stack in use, and the named class.
    Free(usize, usize),
    /// The index of a stack that was freed.
    FreeAgain(usize),
    /// An address that was never allocated: at this distance from one that was.
    FreeForeign(usize, usize),
    Reserve(usize, usize),
    Trim(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // The four smaller classes: the test is about the accounting, not about memory.
    let class = 0..4_usize;
    let step = prop_oneof![
        6 => class.clone().prop_map(Step::Alloc),
        6 => (any::<usize>(), 0..8_usize).prop_map(|(which, named)| Step::Free(which, named)),
        1 => any::<usize>().prop_map(Step::FreeAgain),
        1 => (any::<usize>(), 1..4096_usize).prop_map(|(which, off)| Step::FreeForeign(which, off)),
        1 => (class.clone(), 0..12_usize).prop_map(|(class, count)| Step::Reserve(class, count)),
        1 => (class, 0..6_usize).prop_map(|(class, keep)| Step::Trim(class, keep)),
    ];
    prop::collection::vec(step, 1..120)
}

fn class(index: usize) -> Class {
    Class::exact(SIZES[index]).unwrap()
}

/// Frees without checking the arguments.
fn free(address: usize, class: Class) -> Result<(), StackError> {
    // SAFETY: the test never uses the memory of a stack.
    unsafe { stack::free(address, class) }
}

#[derive(Default)]
struct Model {
    used: Vec<(usize, usize)>,
    freed: HashMap<usize, usize>,
}

impl Model {
    fn apply(&mut self, step: Step) {
        match step {
            Step::Alloc(index) => {
                let free = Stats::of(class(index)).free();
                let made = Stats::of(class(index)).made;
                let address = stack::alloc(class(index)).unwrap().as_ptr() as usize;
                let overlaps = |&(other, at): &(usize, usize)| {
                    address < other + SIZES[at] + 4096 && other < address + SIZES[index] + 4096
                };
                assert!(!self.used.iter().any(overlaps));
                // The kernel is called if and only if nothing is free.
                assert_eq!(Stats::of(class(index)).made, made + u64::from(free == 0));
                self.freed.remove(&address);
                self.used.push((address, index));
            }
            Step::Free(which, named) if !self.used.is_empty() => {
                let which = which % self.used.len();
                let (address, index) = self.used[which];
                // With seven wrong classes hardly any stack would ever be freed.
                let named = if named < 7 && named % 3 == 0 {
                    named
                } else {
                    index
                };
                let answer = free(address, class(named));
                if named == index {
                    assert_eq!(answer, Ok(()));
                    self.used.swap_remove(which);
                    self.freed.insert(address, index);
                } else {
                    let wrong = StackError::WrongClass {
                        is: SIZES[index],
                        named: SIZES[named],
                    };
                    assert_eq!(answer, Err(wrong));
                }
            }
            Step::FreeAgain(which) if !self.freed.is_empty() => {
                let mut known: Vec<_> = self.freed.iter().collect();
                known.sort_unstable();
                let (&address, &index) = known[which % known.len()];
                let answer = free(address, class(index));
                let trimmed = StackError::NotAStack(address);
                assert!([Err(StackError::NotInUse(address)), Err(trimmed)].contains(&answer));
            }
            Step::FreeForeign(which, off) if !self.used.is_empty() => {
                let (address, index) = self.used[which % self.used.len()];
                let answer = free(address + off, class(index));
                assert_eq!(answer, Err(StackError::NotAStack(address + off)));
            }
            Step::Reserve(index, count) => {
                stack::reserve(class(index), count).unwrap();
                assert!(Stats::of(class(index)).free() >= count);
            }
            Step::Trim(index, keep) => {
                let free = Stats::of(class(index)).free();
                assert_eq!(
                    stack::trim(class(index), keep),
                    Ok(free.saturating_sub(keep))
                );
            }
            Step::Free(..) | Step::FreeAgain(_) | Step::FreeForeign(..) => {}
        }
        for index in 0..4 {
            let stats = Stats::of(class(index));
            let used = self.used.iter().filter(|(_, at)| *at == index).count();
            assert_eq!(stats.used, used);
            assert_eq!(stats.made - stats.unmapped, (used + stats.free()) as u64);
        }
    }
}

#[test]
fn the_allocator_behaves_like_the_model() {
    let _alone = alone();
    let config = ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in steps())| {
        let mut model = Model::default();
        for step in steps {
            model.apply(step);
        }
        for (address, index) in model.used {
            assert_eq!(free(address, class(index)), Ok(()));
        }
    });
}
