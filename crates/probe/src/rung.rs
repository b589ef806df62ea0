//! The thread of one block of a ladder: a periodic loop as a program has it, with a little work
//! that a program does in each cycle.
//!
//! Unlike the probe of `measure`, it may take page faults: what a rung lacks must cost here what
//! it costs a program. A response time ends with the work of its cycle, so that a fault counts.

use std::io;

use punctual_record::ladder::LadderCounts;
use punctual_rt::clock::{self, mark_wake_up};
use punctual_rt::memory::Disturbances;
use punctual_rt::sys::fresh::FreshMemory;
use punctual_rt::sys::task::current_cpu;

use super::cycle::Halt;

/// What a thread does in its block.
#[derive(Debug, Clone, Copy)]
pub struct RungLoop {
    /// Whether it sleeps until an instant; else for a time, and its period grows by what else it
    /// does.
    pub is_absolute: bool,
    /// Its period in ns.
    pub interval_ns: u64,
    /// Bytes that each cycle writes.
    pub work_bytes: usize,
    /// The beginning that does not count, in ns.
    pub settle_ns: u64,
    /// The time after that which counts, in ns.
    pub block_ns: u64,
    /// Cycles that count, at most.
    pub loops: u64,
}

/// What a block measured.
#[derive(Debug, Default)]
pub struct RungBlock {
    /// Response times in ns, in the order of the cycles.
    pub responses_ns: Vec<u64>,
    /// What was counted.
    pub counts: LadderCounts,
}

impl RungLoop {
    /// Cycles of a block at most, with those that don't count and some in reserve.
    #[must_use]
    pub fn most_cycles(&self) -> u64 {
        let settling = self.settle_ns / self.interval_ns.max(1);
        let counting = (self.block_ns / self.interval_ns.max(1)).min(self.loops);
        settling.saturating_add(counting).saturating_add(16)
    }

    /// Bytes that its work writes at most.
    #[must_use]
    pub fn most_bytes(&self) -> u64 {
        let lines = self.work_bytes.next_multiple_of(FreshMemory::LINE) as u64;
        self.most_cycles().saturating_mul(lines)
    }

    /// Room for the response times, all of it touched: only the work may fault.
    #[must_use]
    pub fn room(&self) -> Vec<u64> {
        let cycles = usize::try_from(self.most_cycles()).unwrap_or(usize::MAX);
        // Zeroed memory would be mapped and not touched.
        let mut room = vec![u64::MAX; cycles];
        room.clear();
        room
    }

    /// Runs the block.
    ///
    /// # Errors
    /// The kernel's errno from the sleep, or from counting faults.
    pub fn run(
        &self,
        memory: &mut FreshMemory,
        room: Vec<u64>,
        halt: &Halt,
    ) -> io::Result<RungBlock> {
        let mut block = RungBlock {
            responses_ns: room,
            counts: LadderCounts::default(),
        };
        let mut cycles = Cycles {
            of: self,
            memory,
            due_ns: clock::now_ns(),
            woke_ns: 0,
            cpu: current_cpu(),
            counts: LadderCounts::default(),
        };
        let settled_ns = cycles.due_ns.saturating_add(self.settle_ns);
        while cycles.due_ns < settled_ns && !halt.called() {
            cycles.next()?;
        }
        let end_ns = clock::now_ns().saturating_add(self.block_ns);
        cycles.counts = LadderCounts::default();
        cycles.woke_ns = 0;
        let pages = cycles.memory.pages();
        let before = Disturbances::of_this_thread()?;
        while block.counts.cycles < self.loops && cycles.due_ns < end_ns && !halt.called() {
            let response_ns = cycles.next()?;
            // What has no room is not measured; there is room for more cycles than the time has.
            if block.responses_ns.len() == block.responses_ns.capacity() {
                break;
            }
            block.responses_ns.push(response_ns);
            block.counts.cycles += 1;
        }
        let since = Disturbances::of_this_thread()?.since(&before);
        block.counts = LadderCounts {
            cycles: block.counts.cycles,
            minor_faults: since.minor_faults,
            major_faults: since.major_faults,
            preemptions: since.preemptions,
            fresh_pages: (cycles.memory.pages() - pages) as u64,
            ..cycles.counts
        };
        Ok(block)
    }
}

/// The state of a loop.
struct Cycles<'a> {
    of: &'a RungLoop,
    memory: &'a mut FreshMemory,
    /// The instant of the last wake-up that was requested.
    due_ns: u64,
    /// The last wake-up; 0 before the first.
    woke_ns: u64,
    cpu: usize,
    counts: LadderCounts,
}

impl Cycles<'_> {
    /// One cycle: sleeps, works, and returns its response time.
    #[inline]
    fn next(&mut self) -> io::Result<u64> {
        if self.of.is_absolute {
            self.due_ns += self.of.interval_ns;
            let due_ns = self.due_ns;
            again(|| clock::sleep_until(due_ns))?;
        } else {
            let due_ns = clock::now_ns() + self.of.interval_ns;
            self.due_ns = due_ns;
            let mut left_ns = self.of.interval_ns;
            again(|| {
                let slept = clock::sleep_for(left_ns);
                left_ns = due_ns.saturating_sub(clock::now_ns());
                slept
            })?;
        }
        let woke_ns = clock::now_ns();
        mark_wake_up();
        self.memory.append(self.of.work_bytes, woke_ns);
        let done_ns = clock::now_ns();
        if self.woke_ns != 0 {
            self.counts.periods_ns += woke_ns - self.woke_ns;
            self.counts.periods += 1;
        }
        self.woke_ns = woke_ns;
        let cpu = current_cpu();
        self.counts.migrations += u64::from(cpu != self.cpu);
        self.cpu = cpu;
        let response_ns = done_ns.saturating_sub(self.due_ns);
        if self.of.is_absolute {
            let skipped = response_ns / self.of.interval_ns;
            self.counts.skipped += skipped;
            self.due_ns += skipped * self.of.interval_ns;
        }
        Ok(response_ns)
    }
}

/// Sleeps again where a signal ended it.
#[inline]
fn again(mut sleep: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match sleep() {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: RungLoop = RungLoop {
        is_absolute: true,
        interval_ns: 200_000,
        work_bytes: 1024,
        settle_ns: 1_000_000,
        block_ns: u64::MAX / 2,
        loops: 64,
    };

    fn run(of: RungLoop) -> RungBlock {
        let mut memory = FreshMemory::map(of.most_bytes() as usize).unwrap();
        of.run(&mut memory, of.room(), &Halt::at(u64::MAX)).unwrap()
    }

    #[test]
    fn every_cycle_has_one_response_time_and_its_work_faults_once_in_each_page() {
        let before = Disturbances::of_this_thread().unwrap();
        let block = run(LOOP);
        let since = Disturbances::of_this_thread().unwrap().since(&before);
        assert_eq!(block.counts.cycles, 64);
        assert_eq!(block.responses_ns.len(), 64);
        assert_eq!(block.counts.periods, 63);
        // Four cycles fill a page; the first may begin within one.
        assert!((16..=17).contains(&block.counts.fresh_pages));
        assert_eq!(block.counts.minor_faults, block.counts.fresh_pages);
        assert!(since.minor_faults >= block.counts.minor_faults);
        let without = run(RungLoop {
            work_bytes: 0,
            ..LOOP
        });
        assert_eq!(without.counts.fresh_pages, 0);
        assert_eq!(without.counts.faults(), 0);
    }

    #[test]
    fn an_absolute_sleep_keeps_its_period_and_a_relative_one_is_longer_by_all_else() {
        let absolute = run(LOOP).counts;
        let relative = run(RungLoop {
            is_absolute: false,
            ..LOOP
        })
        .counts;
        // The wake-ups lie on a grid: the last may be late by less than a period that is not skipped.
        let periods = absolute.periods + absolute.skipped;
        assert!(absolute.periods_ns <= (periods + 2) * LOOP.interval_ns);
        // A relative sleep is never shorter than it was asked to be.
        assert!(relative.periods_ns >= relative.periods * LOOP.interval_ns);
        assert_eq!(relative.skipped, 0);
    }

    #[test]
    fn a_block_ends_when_it_is_called_to() {
        let mut memory = FreshMemory::map(1 << 20).unwrap();
        let halt = Halt::at(u64::MAX);
        halt.now();
        let block = LOOP.run(&mut memory, LOOP.room(), &halt).unwrap();
        assert_eq!(block.counts.cycles, 0);
        assert!(block.responses_ns.is_empty());
    }

    #[test]
    fn a_block_that_its_time_ends_has_no_more_cycles_than_periods() {
        let block = run(RungLoop {
            block_ns: 5_000_000,
            loops: u64::MAX,
            ..LOOP
        });
        assert!((1..=26).contains(&block.counts.cycles), "{block:?}");
    }
}
