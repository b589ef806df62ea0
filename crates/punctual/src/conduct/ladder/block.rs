//! One block: a thread is set up as its rung says, the kernel is asked whether it is, and it runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use punctual_machine::root::plain;
use punctual_record::ladder::RungInForce;
use punctual_record::proc_stat::Stat;
use punctual_record::proc_status;
use punctual_rt::advice::{Attempt, advice};
use punctual_rt::cpulist;
use punctual_rt::sched::Policy;
use punctual_rt::sys::fresh::FreshMemory;
use punctual_rt::sys::futex;
use punctual_rt::sys::task::{current_tid, policy_name};
use punctual_rt::thread::{Builder, Handle, SpawnError};
use punctual_rt::{clock, memory};

use crate::probe::cycle::Halt;
use crate::probe::rung::{RungBlock, RungLoop};

/// How often it is asked whether a block goes on, in ns.
const LOOK_NS: u64 = 100_000_000;

/// The set-up of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RungSetup {
    /// SCHED_FIFO at this priority, or SCHED_OTHER.
    pub priority: Option<u32>,
    /// Whether memory is locked.
    pub is_locked: bool,
    /// Its CPUs.
    pub cpus: Vec<usize>,
}

/// A block that has ended.
#[derive(Debug)]
pub struct EndedBlock {
    /// What it measured.
    pub measured: RungBlock,
    /// What the kernel says of its thread.
    pub in_force: RungInForce,
}

/// Why a block could not be measured.
#[derive(Debug)]
pub enum BlockError {
    /// The thread can't be set up.
    Spawn(SpawnError),
    /// Memory can't be locked.
    Lock(io::Error),
    /// Memory can't be mapped, or the thread's sleep failed.
    System(io::Error),
}

impl std::fmt::Display for BlockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Spawn(error) => error.fmt(f),
            Self::Lock(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::ENOMEM);
                let advice = advice(Attempt::Lock, errno).to_string_lossy();
                write!(f, "memory cannot be locked: {} ({advice})", plain(error))
            }
            Self::System(error) => error.fmt(f),
        }
    }
}

impl RungSetup {
    fn builder(&self) -> Builder {
        let policy = self.priority.map_or(Policy::Other, Policy::Fifo);
        Builder::new()
            .name("ladder")
            .policy(policy)
            .cpus(&self.cpus)
    }

    /// Whether the kernel sets up such a thread: it ends at once.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn check(&self) -> Result<(), BlockError> {
        let lock = Locked::take(self.is_locked).map_err(BlockError::Lock)?;
        let thread = self.builder().start(|| ()).map_err(BlockError::Spawn)?;
        // It does nothing that could panic.
        let _ = thread.join();
        drop(lock);
        Ok(())
    }

    /// Whether that is what the kernel says of the thread.
    #[must_use]
    pub fn is(&self, in_force: &RungInForce) -> bool {
        let policy = match self.priority {
            Some(_) => "fifo",
            None => "other",
        };
        in_force.policy == policy
            && in_force.priority == self.priority.unwrap_or(0)
            && in_force.cpus == self.cpus
            && (in_force.locked_kib > 0) == self.is_locked
    }

    /// Runs a block. `goes_on` is called several times a second; the block ends early if it
    /// returns false.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn run(
        &self,
        of: RungLoop,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<EndedBlock, BlockError> {
        let bytes = usize::try_from(of.most_bytes()).unwrap_or(usize::MAX);
        let mut fresh = FreshMemory::map(bytes).map_err(BlockError::System)?;
        let room = of.room();
        let halt = Arc::new(Halt::at(u64::MAX));
        let line = Arc::new(Line::default());
        let (thread_halt, thread_line) = (Arc::clone(&halt), Arc::clone(&line));
        let thread = self.builder().start(move || {
            thread_line.arrive();
            of.run(&mut fresh, room, &thread_halt)
        });
        let thread = thread.map_err(BlockError::Spawn)?;
        let tid = line.await_arrival();
        // All that the thread uses exists: its memory, its stack.
        let lock = Locked::take(self.is_locked);
        let in_force = lock.is_ok().then(|| in_force(tid)).flatten();
        if lock.is_err() {
            halt.now();
        }
        line.go();
        let measured = ended(thread, &halt, goes_on).map_err(BlockError::System)?;
        let lock = lock.map_err(BlockError::Lock)?;
        drop(lock);
        Ok(EndedBlock {
            measured,
            in_force: in_force.unwrap_or_default(),
        })
    }
}

/// Waits for the thread, and ends it when it must not go on.
fn ended(
    mut thread: Handle<io::Result<RungBlock>>,
    halt: &Halt,
    goes_on: &mut dyn FnMut() -> bool,
) -> io::Result<RungBlock> {
    loop {
        if !goes_on() {
            halt.now();
        }
        match thread.join_until(clock::now_ns() + LOOK_NS) {
            Ok(ended) => {
                let panicked = |_| Err(io::Error::other("the thread panicked"));
                return ended.unwrap_or_else(panicked);
            }
            Err(running) => thread = running,
        }
    }
}

/// The memory of this process, locked while this lives; or unlocked, where it must not be.
struct Locked(bool);

impl Locked {
    fn take(is_wanted: bool) -> io::Result<Self> {
        match is_wanted {
            // Not what comes later: with a limit, the next large mapping of a helper would fail.
            true => memory::lock_present()?,
            false => memory::unlock_all()?,
        }
        Ok(Self(is_wanted))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.0 {
            // It has no error where there was none in locking.
            let _ = memory::unlock_all();
        }
    }
}

/// Where the thread waits until it was looked at.
#[derive(Debug, Default)]
struct Line {
    tid: AtomicI32,
    /// 0: set up; 1: the thread has arrived; 2: it may go.
    state: AtomicU32,
}

impl Line {
    const ARRIVED: u32 = 1;
    const GO: u32 = 2;

    /// In the thread: arrives, and waits until it may go.
    fn arrive(&self) {
        self.tid.store(current_tid(), Ordering::Relaxed);
        self.put(Self::ARRIVED);
        while self.state.load(Ordering::Acquire) == Self::ARRIVED {
            futex::wait(&self.state, Self::ARRIVED);
        }
    }

    /// Waits until the thread has arrived; returns its id.
    fn await_arrival(&self) -> i32 {
        while self.state.load(Ordering::Acquire) == 0 {
            futex::wait(&self.state, 0);
        }
        self.tid.load(Ordering::Relaxed)
    }

    fn go(&self) {
        self.put(Self::GO);
    }

    fn put(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        futex::wake(&self.state, 2);
    }
}

/// What `/proc` says of a thread of this process.
fn in_force(tid: i32) -> Option<RungInForce> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/task/{tid}/{name}")).ok();
    let (stat, status) = (read("stat")?, read("status")?);
    let stat = Stat::parse(&stat)?;
    let number = |field| u32::try_from(stat.count(field)?).ok();
    let locked = proc_status::value(&status, "VmLck")?;
    Some(RungInForce {
        policy: policy_name(number(41)?).to_owned(),
        priority: number(40)?,
        cpus: cpulist::numbers(proc_status::value(&status, "Cpus_allowed_list")?).ok()?,
        locked_kib: locked.split_whitespace().next()?.parse().ok()?,
    })
}
