//! The experiment's own process: real-time threads, each with one operation, beside threads that map
//! memory in the same address space.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use punctual_load::Area;
use punctual_record::interference::{Interference, LockWaits, Operation, OperationTimes};
use punctual_rt::clock::now_ns;
use punctual_rt::memory;
use punctual_rt::sched::{self, Policy};
use punctual_rt::sync::{Condvar, PiMutex};
use punctual_rt::sys::futex;
use punctual_rt::sys::map::page_size;
use punctual_rt::sys::task;
use punctual_rt::sys::time::sleep_until;
use punctual_stats::histogram::{Histogram, HistogramRecord};

/// Threads that map memory.
const MAPPERS: u32 = 2;
/// Of the measured threads; the threads of interrupts have 50 on PREEMPT_RT.
const PRIORITY: u32 = 80;
/// The nice value of the threads that map memory.
const MAPPER_NICE: i32 = -20;
/// Of the thread that holds the mutex: it is to unlock it in time.
const HOLDER_PRIORITY: u32 = 81;
/// How often each measured thread begins its operation.
const PERIOD_NS: u64 = 10_000_000;
/// The threads begin one after the other.
const APART_NS: u64 = 1_000_000;
/// How long the waits take that nobody ends earlier, and how long the mutex is held.
const WAIT_NS: u64 = 100_000;
/// Times with and without mappers alternate.
const BLOCKS: u64 = 8;
/// From the start to the first operation.
const BEGIN_NS: u64 = 20_000_000;
/// Bytes of /proc that are read at a time.
const READ_BYTES: usize = 1 << 14;

/// What the threads share.
struct Shared {
    map_bytes: usize,
    begin_ns: AtomicU64,
    block_ns: u64,
    cycles: u64,
    /// Mappers that are at it.
    mapping: AtomicU32,
    maps: AtomicU64,
    over: AtomicBool,
    /// Threads that are set up.
    ready: AtomicU32,
    /// Not 0 once the threads may begin.
    started: AtomicU32,
    /// Measured threads that are done.
    done: AtomicU32,
    /// Not 0 once the threads may end.
    ended: AtomicU32,
    /// What the measured threads did, in the order of the operations.
    made: [Mutex<Option<io::Result<Made>>>; Operation::ALL.len()],
    held: Mutex<()>,
}

/// The operations that a thread made.
struct Made {
    /// Whether beside mappers, and how long.
    times: Vec<(bool, u64)>,
    between: u64,
}

impl Made {
    fn histogram(&self, beside: bool) -> HistogramRecord {
        let mut histogram = Histogram::new();
        let those = self.times.iter().filter(|it| it.0 == beside);
        those.for_each(|it| histogram.record(it.1));
        HistogramRecord::from(&histogram)
    }
}

/// Runs the experiment for a time; `start` returns when it may begin, and `finish` gets the result
/// while all threads still stand: what they do when they end is not part of it.
///
/// # Errors
/// The system refuses what it takes: a priority, memory.
pub fn run(
    map_bytes: u64,
    duration_ns: u64,
    start: impl FnOnce() -> io::Result<()>,
    finish: impl FnOnce(&Interference) -> io::Result<()>,
) -> io::Result<Interference> {
    // No page of its code is to be faulted in while it measures.
    memory::lock_present().map_err(|error| {
        let why = format!("its memory can't be locked ({error}): run as root");
        io::Error::other(why)
    })?;
    let shared = Shared {
        map_bytes: usize::try_from(map_bytes).map_err(io::Error::other)?,
        begin_ns: AtomicU64::new(0),
        block_ns: (duration_ns / BLOCKS).max(PERIOD_NS),
        cycles: (duration_ns / PERIOD_NS).max(1),
        mapping: AtomicU32::new(0),
        maps: AtomicU64::new(0),
        over: AtomicBool::new(false),
        ready: AtomicU32::new(0),
        started: AtomicU32::new(0),
        done: AtomicU32::new(0),
        ended: AtomicU32::new(0),
        made: Default::default(),
        held: Mutex::new(()),
    };
    let shared = &shared;
    thread::scope(|scope| {
        // The scope waits for its threads, also if one of them can't be started.
        let ends = Ends(shared);
        let named = |name: String| thread::Builder::new().name(name);
        let mut others = Vec::new();
        for _ in 0..MAPPERS {
            others.push(named("mapper".to_owned()).spawn_scoped(scope, || map(shared))?);
        }
        others.push(named("holder".to_owned()).spawn_scoped(scope, || hold(shared))?);
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            let thread = named(operation.to_string());
            thread.spawn_scoped(scope, move || {
                let made = measure(shared, operation, index as u64);
                *lock(&shared.made[index]) = Some(made);
                shared.done.fetch_add(1, Ordering::Release);
                futex::wake(&shared.done, u32::MAX);
                wait_until(&shared.ended, 1);
            })?;
        }
        let threads = others.len() + Operation::ALL.len();
        wait_until(&shared.ready, threads as u32);
        start()?;
        let begin_ns = now_ns() + BEGIN_NS;
        shared.begin_ns.store(begin_ns, Ordering::Relaxed);
        set(&shared.started);
        wait_until(&shared.done, Operation::ALL.len() as u32);
        let measured_ns = now_ns().saturating_sub(begin_ns);
        shared.over.store(true, Ordering::Relaxed);
        for other in others {
            let lost = |_| io::Error::other("a thread ended");
            other.join().map_err(lost).and_then(|result| result)?;
        }
        let mut operations = Vec::new();
        let mut between = 0;
        for (operation, made) in Operation::ALL.into_iter().zip(&shared.made) {
            let made = lock(made).take();
            let made = made.unwrap_or_else(|| Err(io::Error::other("a thread ended")))?;
            between += made.between;
            operations.push(OperationTimes {
                operation,
                alone: made.histogram(false),
                beside: made.histogram(true),
                waits: LockWaits::default(),
                longest: None,
            });
        }
        let done = Interference {
            mappers: MAPPERS,
            map_bytes,
            maps: shared.maps.load(Ordering::Relaxed),
            priority: PRIORITY,
            period_ns: PERIOD_NS,
            begin_ns,
            measured_ns,
            between,
            unplaced: 0,
            operations,
        };
        finish(&done)?;
        drop(ends);
        Ok(done)
    })
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a number is at least this.
fn wait_until(number: &AtomicU32, least: u32) {
    loop {
        let now = number.load(Ordering::Acquire);
        if now >= least {
            return;
        }
        futex::wait(number, now);
    }
}

fn set(number: &AtomicU32) {
    number.store(u32::MAX, Ordering::Release);
    futex::wake(number, u32::MAX);
}

/// Ends all threads when it is dropped, also those that have not begun.
struct Ends<'a>(&'a Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
        set(&self.0.started);
        set(&self.0.ended);
    }
}

impl Shared {
    /// Waits for the start.
    fn begin(&self) -> u64 {
        self.ready.fetch_add(1, Ordering::Release);
        futex::wake(&self.ready, u32::MAX);
        wait_until(&self.started, 1);
        self.begin_ns.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether the mappers work at this instant.
    fn maps_at(&self, now_ns: u64) -> bool {
        let since = now_ns.saturating_sub(self.begin_ns.load(Ordering::Relaxed));
        since / self.block_ns % 2 == 1
    }
}

/// Maps, touches and unmaps memory in every second block.
fn map(shared: &Shared) -> io::Result<()> {
    // Whoever waits for the lock waits for a mapper, and is not to wait for what the watching
    // process or others do in its place.
    let permitted = task::set_nice(MAPPER_NICE);
    let begin_ns = shared.begin();
    permitted?;
    while !shared.is_over() {
        let now_ns = now_ns();
        if !shared.maps_at(now_ns) {
            let block = now_ns.saturating_sub(begin_ns) / shared.block_ns;
            // In short steps: the measured threads may be done before the next block.
            let next_ns = begin_ns + (block + 1) * shared.block_ns;
            sleep_until(next_ns.min(now_ns + PERIOD_NS))?;
            continue;
        }
        shared.mapping.fetch_add(1, Ordering::Relaxed);
        let mapped = Area::map_with(shared.map_bytes, false);
        let touched = mapped.map(|mut area| area.touch(0, shared.map_bytes, page_size()));
        shared.mapping.fetch_sub(1, Ordering::Relaxed);
        touched?;
        shared.maps.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Holds the mutex at the instants at which the measured thread wants it.
fn hold(shared: &Shared) -> io::Result<()> {
    let permitted = sched::set_current(Policy::Fifo(HOLDER_PRIORITY));
    let begin_ns = shared.begin();
    permitted?;
    let place = Operation::ALL.iter().position(|it| *it == Operation::Mutex);
    let first_ns = begin_ns + place.unwrap_or(0) as u64 * APART_NS;
    for cycle in 0..shared.cycles {
        if shared.is_over() {
            break;
        }
        let at_ns = first_ns + cycle * PERIOD_NS;
        sleep_until(at_ns - WAIT_NS)?;
        let held = lock(&shared.held);
        sleep_until(at_ns + WAIT_NS)?;
        drop(held);
    }
    Ok(())
}

/// What the operations work on.
struct Things<'s> {
    held: &'s Mutex<()>,
    condvar: Condvar,
    guarded: PiMutex<()>,
    word: AtomicU32,
    /// A page for each fault.
    fresh: Area,
    buffer: Vec<u8>,
}

impl Things<'_> {
    /// Makes an operation once, the first time with number 0.
    fn operate(&mut self, operation: Operation, number: u64) -> io::Result<()> {
        let page = page_size();
        let until_ns = now_ns() + WAIT_NS;
        match operation {
            Operation::Futex => {
                // Nobody wakes it.
                let _ = futex::wait_until(&self.word, 0, until_ns);
            }
            Operation::Condvar => {
                let mut guard = self.guarded.lock()?;
                while self.condvar.wait_until(&mut guard, until_ns)? {}
            }
            Operation::Mutex => drop(lock(self.held)),
            Operation::Fault => {
                let at = page * usize::try_from(number).unwrap_or(0);
                self.fresh.touch(at, at + page, page);
            }
            Operation::Mmap => drop(Area::map(page)?),
            Operation::Proc => {
                let mut maps = File::open("/proc/self/maps")?;
                while maps.read(&mut self.buffer)? > 0 {}
            }
        }
        Ok(())
    }
}

/// Makes an operation in each period.
fn measure(shared: &Shared, operation: Operation, index: u64) -> io::Result<Made> {
    let cycles = usize::try_from(shared.cycles).map_err(io::Error::other)?;
    let set_up = || {
        sched::set_current(Policy::Fifo(PRIORITY))?;
        let mut things = Things {
            held: &shared.held,
            condvar: Condvar::new(),
            guarded: PiMutex::new(())?,
            word: AtomicU32::new(0),
            fresh: Area::map_with(page_size() * (cycles + 1), false)?,
            buffer: vec![0; READ_BYTES],
        };
        let mut times = vec![(true, 1); cycles];
        times.clear();
        // The first pages of its code and its stack are not part of what is measured.
        sleep_until(now_ns())?;
        things.operate(operation, 0)?;
        Ok::<_, io::Error>((things, times))
    };
    let set_up = set_up();
    let begin_ns = shared.begin();
    let (mut things, mut times) = set_up?;
    let mut between = 0;
    for cycle in 0..shared.cycles {
        if shared.is_over() {
            break;
        }
        sleep_until(begin_ns + cycle * PERIOD_NS + index * APART_NS)?;
        let from_ns = now_ns();
        let beside = shared.maps_at(from_ns);
        if !beside && shared.mapping.load(Ordering::Relaxed) > 0 {
            between += 1;
            continue;
        }
        things.operate(operation, cycle + 1)?;
        times.push((beside, now_ns().saturating_sub(from_ns)));
    }
    // Unmapping waits for the lock too, and is not part of it; the process ends soon.
    std::mem::forget(things);
    Ok(Made { times, between })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_begin_ends_all_threads() {
        let no = || Err(io::Error::other("no"));
        assert!(run(1 << 16, 1_000_000_000, no, |_| Ok(())).is_err());
    }
}
