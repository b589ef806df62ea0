//! The work of a job, prepared so that doing it neither allocates nor looks anything up.

use std::hint::black_box;
use std::io;
use std::sync::Arc;

use punctual_record::taskset::{Phase, Step};
use punctual_rt::clock;

use crate::call::{Call, Calls, Used};
use crate::speed::{Speed, turns_of};
use crate::sys::mutex::Mutex;
use crate::sys::spawn::{Command, Started};
use crate::sys::spin::spin;

/// Values of an area from one cache line to the next.
const LINE: usize = 64 / size_of::<u64>();
/// The largest area, in bytes.
const MOST_BYTES: u64 = 1 << 32;

/// A step, with the step of the set that it belongs to.
struct Op {
    does: Does,
    /// The step, counted through the phase and what is within its locks.
    step: usize,
}

enum Does {
    Spin(u64),
    Touch(Box<[u64]>),
    GetParent(u64),
    Yield,
    Sleep(u64),
    Lock(usize),
    Unlock(usize),
    Call(Box<dyn Call>),
    Start(Command),
}

/// A step that could not be done.
#[derive(Debug)]
pub struct Refused {
    /// Which one, counted through the phase and what is within its locks.
    pub step: usize,
    /// Why.
    pub error: io::Error,
}

/// The work of the jobs of a phase.
pub struct Work {
    ops: Vec<Op>,
    locks: Arc<[Mutex]>,
}

impl Work {
    /// Prepares the work of a phase.
    ///
    /// # Errors
    /// A step that can't be done.
    pub fn new(
        phase: &Phase,
        locks: &Arc<[Mutex]>,
        speed: &Speed,
        calls: &mut dyn Calls,
    ) -> Result<Self, Refused> {
        let mut work = Self {
            ops: Vec::new(),
            locks: Arc::clone(locks),
        };
        let mut step = 0;
        work.add(&phase.work, &mut step, speed, calls)?;
        Ok(work)
    }

    fn add(
        &mut self,
        steps: &[Step],
        at: &mut usize,
        speed: &Speed,
        calls: &mut dyn Calls,
    ) -> Result<(), Refused> {
        for step in steps {
            let number = *at;
            *at += 1;
            let refused = |error| Refused {
                step: number,
                error,
            };
            let does = match step {
                Step::Run { ns } => Does::Spin(speed.turns(*ns)),
                Step::Instructions { count } => Does::Spin(turns_of(*count)),
                Step::Memory { bytes } => Does::Touch(area(*bytes).map_err(refused)?),
                Step::Calls { count } => Does::GetParent(*count),
                Step::Yield => Does::Yield,
                Step::Sleep { ns } => Does::Sleep(*ns),
                Step::Library { path, function } => {
                    Does::Call(calls.find(path, function).map_err(refused)?)
                }
                Step::Command { command } => Does::Start(Command::new(command).map_err(refused)?),
                Step::Lock { lock, work } => {
                    if *lock >= self.locks.len() {
                        return Err(refused(io::Error::from_raw_os_error(libc::EINVAL)));
                    }
                    self.ops.push(Op {
                        does: Does::Lock(*lock),
                        step: number,
                    });
                    self.add(work, at, speed, calls)?;
                    Does::Unlock(*lock)
                }
            };
            self.ops.push(Op { does, step: number });
        }
        Ok(())
    }

    /// Does it once. Real-time safe as far as the steps are.
    ///
    /// # Errors
    /// The step that could not be done; locks taken before it are released.
    #[inline]
    pub fn job(&mut self) -> Result<(), Refused> {
        self.each(true)
    }

    /// Does it once without code of the user's own, so that all memory is there; without its length, since
    /// the set waits for it.
    ///
    /// # Errors
    /// As [`Work::job`].
    pub fn warm_up(&mut self) -> Result<(), Refused> {
        self.each(false)
    }

    #[inline]
    fn each(&mut self, for_real: bool) -> Result<(), Refused> {
        let length = |of_a_job: u64| if for_real { of_a_job } else { 1 };
        for index in 0..self.ops.len() {
            let op = &mut self.ops[index];
            let done = match &mut op.does {
                Does::Spin(turns) => {
                    spin(length(*turns));
                    Ok(())
                }
                Does::Touch(area) => {
                    touch(area);
                    Ok(())
                }
                Does::GetParent(count) => {
                    for _ in 0..length(*count) {
                        black_box(get_parent());
                    }
                    Ok(())
                }
                Does::Yield => {
                    std::thread::yield_now();
                    Ok(())
                }
                Does::Sleep(ns) => sleep_for(length(*ns)),
                Does::Lock(lock) => self.locks[*lock].lock(),
                Does::Unlock(lock) => self.locks[*lock].unlock(),
                Does::Call(call) if for_real => call.call(),
                Does::Call(call) => call.prepare(),
                Does::Start(command) if for_real => command.run(),
                Does::Start(_) => Ok(()),
            };
            if let Err(error) = done {
                let step = op.step;
                self.release_all(index);
                return Err(Refused { step, error });
            }
        }
        Ok(())
    }

    /// The threads of other processes that execute code of the user's own.
    pub fn threads(&self) -> impl Iterator<Item = u32> {
        self.ops.iter().filter_map(|op| match &op.does {
            Does::Call(call) => call.thread(),
            _ => None,
        })
    }

    /// The processes of commands that run.
    pub fn commands(&self) -> impl Iterator<Item = Arc<Started>> {
        self.ops.iter().filter_map(|op| match &op.does {
            Does::Start(command) => Some(command.started()),
            _ => None,
        })
    }

    /// What code of the user's own has taken so far, on threads of its own. It may allocate.
    pub fn used(&self) -> Used {
        let calls = self.ops.iter().filter_map(|op| match &op.does {
            Does::Call(call) => Some(call.used()),
            _ => None,
        });
        calls.fold(Used::default(), |sum, used| sum.and(&used))
    }

    /// Releases what was locked before an operation.
    #[cold]
    fn release_all(&self, before: usize) {
        let mut held = Vec::new();
        for op in &self.ops[..before] {
            match op.does {
                Does::Lock(lock) => held.push(lock),
                Does::Unlock(_) => drop(held.pop()),
                _ => {}
            }
        }
        for lock in held.into_iter().rev() {
            // It holds it: it has just locked it.
            let _ = self.locks[lock].unlock();
        }
    }
}

fn get_parent() -> u32 {
    std::os::unix::process::parent_id()
}

fn area(bytes: u64) -> io::Result<Box<[u64]>> {
    if bytes > MOST_BYTES {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    let values = usize::try_from(bytes)
        .unwrap_or(0)
        .div_ceil(size_of::<u64>());
    let mut area = Vec::new();
    area.try_reserve_exact(values)
        .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    area.resize(values, 1);
    Ok(area.into_boxed_slice())
}

#[inline(never)]
fn touch(area: &mut [u64]) {
    for line in area.chunks_mut(LINE) {
        line[0] = black_box(line[0].wrapping_add(1));
    }
}

/// Sleeps for the whole time, whatever signal comes.
fn sleep_for(ns: u64) -> io::Result<()> {
    let until_ns = clock::now_ns().saturating_add(ns);
    loop {
        match clock::sleep_until(until_ns) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            slept => return slept,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use punctual_record::taskset::LockProtocol;

    use super::*;

    const SPEED: Speed = Speed {
        turns: 1000,
        ns: 1000,
        spread: 0.0,
    };

    /// Counts its calls; the third fails.
    #[derive(Default)]
    struct Counting(Arc<AtomicU64>);

    impl Call for Counting {
        fn call(&mut self) -> io::Result<()> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                2 => Err(io::Error::other("it is the third")),
                _ => Ok(()),
            }
        }
    }

    impl Calls for Counting {
        fn find(&mut self, _: &Path, function: &str) -> io::Result<Box<dyn Call>> {
            match function {
                "step" => Ok(Box::new(Counting(Arc::clone(&self.0)))),
                _ => Err(io::Error::from_raw_os_error(libc::ENOENT)),
            }
        }
    }

    fn library(function: &str) -> Step {
        Step::Library {
            path: "x.so".into(),
            function: function.to_owned(),
        }
    }

    fn phase(work: Vec<Step>) -> Phase {
        Phase {
            jobs: 1,
            period_ns: None,
            deadline_ns: None,
            work,
        }
    }

    fn locks() -> Arc<[Mutex]> {
        Arc::new([
            Mutex::new(LockProtocol::Inherit).unwrap(),
            Mutex::new(LockProtocol::Plain).unwrap(),
        ])
    }

    fn within(lock: usize, work: Vec<Step>) -> Step {
        Step::Lock { lock, work }
    }

    #[test]
    fn a_step_that_fails_is_named_and_its_locks_are_released() {
        let (locks, mut calls) = (locks(), Counting::default());
        let steps = vec![
            Step::Run { ns: 10 },
            within(0, vec![Step::Yield, within(1, vec![library("step")])]),
        ];
        let mut work = Work::new(&phase(steps), &locks, &SPEED, &mut calls).unwrap();
        work.warm_up().unwrap();
        assert_eq!(calls.0.load(Ordering::Relaxed), 0);
        work.job().unwrap();
        work.job().unwrap();
        let refused = work.job().unwrap_err();
        assert_eq!(
            (refused.step, refused.error.to_string().as_str()),
            (4, "it is the third")
        );
        for lock in &*locks {
            lock.lock().unwrap();
            lock.unlock().unwrap();
        }
    }

    #[test]
    fn what_can_not_be_prepared_is_named() {
        let locks = locks();
        let refused = |steps| {
            let work = Work::new(&phase(steps), &locks, &SPEED, &mut Counting::default());
            work.err()
                .map(|refused| (refused.step, refused.error.raw_os_error()))
        };
        let no_function = vec![Step::Yield, library("stop")];
        assert_eq!(refused(no_function), Some((1, Some(libc::ENOENT))));
        assert_eq!(
            refused(vec![within(2, vec![])]),
            Some((0, Some(libc::EINVAL)))
        );
        let large = Step::Memory { bytes: u64::MAX };
        assert_eq!(refused(vec![large]), Some((0, Some(libc::ENOMEM))));
    }

    #[test]
    fn a_lock_that_its_holder_takes_again_is_refused() {
        let locks = locks();
        let steps = vec![within(0, vec![within(0, vec![])])];
        let mut work = Work::new(&phase(steps), &locks, &SPEED, &mut Counting::default()).unwrap();
        let refused = work.job().unwrap_err();
        assert_eq!(
            (refused.step, refused.error.raw_os_error()),
            (1, Some(libc::EDEADLK))
        );
        locks[0].lock().unwrap();
    }

    #[test]
    fn each_cache_line_of_an_area_is_written_once() {
        let mut area = area(64 * 4 + 1).unwrap();
        touch(&mut area);
        let lines: Vec<u64> = area.chunks(LINE).map(|line| line[0]).collect();
        assert_eq!(lines, [2; 5]);
        assert_eq!(area.iter().filter(|value| **value == 2).count(), 5);
    }
}
