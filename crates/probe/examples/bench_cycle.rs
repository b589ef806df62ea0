//! Counts the user-space instructions of a cycle, one by one: with ptrace, the processor stops after
//! each of them, in a child that runs the probe's loop, and in one that runs the collector.
//!
//! The counts do not depend on anything else on the machine. `cargo xtask bench` runs it.
#![allow(unsafe_code, reason = "an example calls the C library")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to `cargo xtask bench`"
)]

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
fn main() -> std::process::ExitCode {
    match counted::print() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench_cycle: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64")))]
fn main() -> std::process::ExitCode {
    eprintln!("bench_cycle: counts instructions of x86-64 only");
    std::process::ExitCode::FAILURE
}

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
mod counted {
    use std::collections::BTreeMap;
    use std::io;
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use punctual_probe::collector::{Collector, Lane};
    use punctual_probe::cycle::{self, Bounds, Halt, Sample};
    use punctual_probe::nanosleep::Nanosleep;
    use punctual_probe::stops::{StopEvidence, StopWindow};
    use punctual_probe::tally::{Halves, Tally};
    use punctual_rt::clock::{mark_wake_up, now_ns};
    use punctual_rt::periodic::{Fixed, Schedule};
    use punctual_rt::ring::ring;

    /// Cycles of the probe that are counted.
    const CYCLES: u64 = 24;
    /// Long enough for a cycle that stops after each instruction, even on a busy machine.
    const SLOW_NS: u64 = 20_000_000;
    /// The interval of the collector's samples: those of two pauses of it are counted at once.
    const INTERVAL_NS: u64 = 500_000;
    const DEADLINE_NS: u64 = 100_000;
    const PEAKS: usize = 4096;
    /// Samples of one pause.
    const BATCH: u64 = 200;
    /// Samples that are collected before instructions are counted: all of the first samples of a
    /// run are peaks.
    const BEFORE: u64 = 50_000;
    /// Samples whose collection is counted.
    const COUNTED: u64 = 50_000;
    /// How far back the stops' watch hasn't checked yet.
    const UNSETTLED_NS: u64 = 12_500_000;
    /// The bytes of `mark_wake_up`, which ends a cycle, and a collection.
    const MARK: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0x70, 0x75, 0x6b, 0x74];

    /// Instructions of the program itself, and of the kernel's code in its memory (vDSO).
    #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    struct Count {
        own: u64,
        vdso: u64,
    }

    pub fn print() -> Result<(), String> {
        let of_cycles = counts_of(probe, CYCLES)?;
        let mut frequent: BTreeMap<Count, u64> = BTreeMap::new();
        // The first one begins before the loop.
        for count in of_cycles.iter().skip(1) {
            *frequent.entry(*count).or_default() += 1;
        }
        let usual = frequent.iter().max_by_key(|(_, times)| **times);
        let (usual, times) = usual.ok_or("no cycle was counted")?;
        println!("probe_instructions {}", usual.own);
        println!("probe_vdso_instructions {}", usual.vdso);
        println!("probe_cycles {times} of {}", of_cycles.len() - 1);
        let collected = counts_of(collector, 1)?;
        let all: u64 = collected.iter().map(|count| count.own).sum();
        println!("collector_instructions {:.2}", all as f64 / COUNTED as f64);
        Ok(())
    }

    /// The loop as in a run, except for its interval.
    fn probe() {
        let (mut producer, _consumer) = ring(1024);
        let schedule = Schedule::new(now_ns(), Fixed(SLOW_NS));
        let bounds = Bounds {
            cycles: CYCLES,
            break_ns: u64::MAX,
        };
        let (source, halt) = (Nanosleep::default(), Halt::at(u64::MAX));
        stop();
        cycle::run(source, &schedule, &mut producer, &halt, bounds);
    }

    struct NeverStopped(Arc<AtomicU64>);

    impl StopEvidence for NeverStopped {
        fn settled_ns(&self) -> u64 {
            self.0.load(Ordering::Acquire)
        }

        fn take(&mut self) -> Vec<StopWindow> {
            Vec::new()
        }

        fn is_stopped(&mut self, _tid: i32) -> bool {
            false
        }
    }

    /// Samples as they arrive from one CPU, collected after each pause.
    fn collector() {
        let (mut producer, consumer) = ring(Collector::ring_capacity(INTERVAL_NS));
        // In the past, so that no thread counts as silent.
        let start_ns = now_ns();
        let tally = Tally::new(
            start_ns,
            DEADLINE_NS,
            Halves::At((BEFORE + COUNTED) * INTERVAL_NS / 2),
            PEAKS,
        )
        .with_shortest_interval(INTERVAL_NS)
        .with_interval(INTERVAL_NS);
        let lane = Lane::new(0, 0, consumer, tally).with_interval(INTERVAL_NS);
        let settled_ns = Arc::new(AtomicU64::new(0));
        let mut collector = Collector::new(vec![lane], start_ns, Vec::new())
            .with_evidence(Some(Box::new(NeverStopped(Arc::clone(&settled_ns)))));
        let mut state = 1u64;
        let mut requested_ns = start_ns;
        for first in (0..BEFORE + COUNTED).step_by(BATCH as usize) {
            for _ in 0..BATCH {
                producer.push(Sample {
                    requested_ns,
                    late_ns: latency_ns(&mut state),
                    missed: 0,
                });
                requested_ns += INTERVAL_NS;
            }
            settled_ns.store(requested_ns - UNSETTLED_NS, Ordering::Release);
            if first >= BEFORE {
                stop();
            }
            collector.collect();
            mark_wake_up();
        }
    }

    /// Most about 5 us, some of tens, a few beyond the deadline.
    fn latency_ns(state: &mut u64) -> i64 {
        let mut next = || {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            (*state >> 20) as i64
        };
        match next() % 65_536 {
            0..32 => 100_000 + next() % 300_000,
            32..3_000 => 8_000 + next() % 60_000,
            _ => 3_000 + next() % 4_000,
        }
    }

    /// The parent counts from here on.
    fn stop() {
        // SAFETY: raise takes an integer and no pointer.
        unsafe { libc::raise(libc::SIGSTOP) };
    }

    /// Runs `work` in a child, and counts instructions from each of its stops to the next mark, and
    /// then from mark to mark, this many times.
    fn counts_of(work: fn(), times: u64) -> Result<Vec<Count>, String> {
        let vdso = vdso().ok_or("the kernel has hidden its vDSO")?;
        // SAFETY: this process has one thread, so the child may call any function.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: PTRACE_TRACEME ignores its pointers.
            unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
            work();
            // SAFETY: _exit ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(0) };
        }
        if child < 0 {
            return Err(format!("no process: {}", io::Error::last_os_error()));
        }
        let counts = follow(child, &vdso, times);
        // SAFETY: kill takes two integers; our child is not reaped before it has ended.
        unsafe { libc::kill(child, libc::SIGKILL) };
        counts
    }

    fn follow(child: libc::pid_t, vdso: &Range<u64>, times: u64) -> Result<Vec<Count>, String> {
        let mut counts = Vec::new();
        let mut count = Count::default();
        // Remaining marks until the child continues at full speed.
        let mut left = 0;
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid int that outlives the call.
            if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
                return Err(format!("waitpid: {}", io::Error::last_os_error()));
            }
            if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
                return Ok(counts);
            }
            if !libc::WIFSTOPPED(status) {
                return Err(format!("the counted process ended: status {status}"));
            }
            let at = instruction_of(child)?;
            match libc::WSTOPSIG(status) {
                libc::SIGSTOP => (left, count) = (times, Count::default()),
                libc::SIGTRAP => {
                    // SAFETY: the child is a copy of this process: what it executes is mapped
                    // here too, at the same place, and eight bytes more are.
                    let code = unsafe { (at as *const [u8; 8]).read_unaligned() };
                    let counted = match vdso.contains(&at) {
                        true => &mut count.vdso,
                        false => &mut count.own,
                    };
                    *counted += 1;
                    if code == MARK {
                        counts.push(std::mem::take(&mut count));
                        left -= 1;
                    }
                }
                signal => return Err(format!("the counted process had signal {signal}")),
            }
            let go_on = match left {
                0 => libc::PTRACE_CONT,
                _ => libc::PTRACE_SINGLESTEP,
            };
            // SAFETY: the child is stopped; the request passes no signal and no pointer.
            if unsafe { libc::ptrace(go_on, child, 0, 0) } != 0 {
                return Err(format!("ptrace: {}", io::Error::last_os_error()));
            }
        }
    }

    /// The next instruction of a stopped process.
    fn instruction_of(child: libc::pid_t) -> Result<u64, String> {
        let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
        // SAFETY: the kernel writes the whole structure, which outlives the call.
        let done = unsafe { libc::ptrace(libc::PTRACE_GETREGS, child, 0, registers.as_mut_ptr()) };
        if done != 0 {
            return Err(format!("ptrace: {}", io::Error::last_os_error()));
        }
        // SAFETY: the kernel has written it.
        Ok(unsafe { registers.assume_init() }.rip)
    }

    /// The address range of the vDSO in this process.
    fn vdso() -> Option<Range<u64>> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some(number(from)?..number(to)?)
    }
}
