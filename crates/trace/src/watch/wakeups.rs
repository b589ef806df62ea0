//! The wake-ups of every real-time thread: `bpf/wakeups.bpf.c`, loaded, attached and read.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aya::maps::Map;
use aya::programs::Program;
use aya::sys::{Stats, enable_stats};
use aya::{Btf, Ebpf, EbpfLoader};

use super::lengths::{bounds, places};
use super::{BpfCost, CpuWakeUps, Other, RunQueues, SystemWorst, queue};
use crate::capture::kernel::{
    attach, attach_typed, incomplete, load, map_memory, possible_cpus, refused,
};
use crate::capture::shared::Shared;
use crate::capture::slot;
use crate::capture::unavailable::{self, Unavailable};
use punctual_record::{TracingPart, TracingStep};

/// The compiled program.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/wakeups.bpf.o"));

const TRACEPOINTS: &[&str] = &[
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "sched_waking",
    "sched_switch",
];

/// Offsets of the fields of `struct cpu`, in words.
const COUNT: usize = 1;
const SUM: usize = 2;
const LEAST: usize = 3;
const MOST: usize = 4;
const LATE: usize = 5;
const TURN: usize = 6;
const TURN_MOST: usize = 7;
const TURN_LATE: usize = 9;
const THRESHOLD: usize = 11;
const LOST: usize = 12;
const WORST: usize = 13;
/// The number of entries, and the words of one.
const WORST_COUNT: usize = 16;
const WORST_WORDS: usize = 11;
/// After them, the threads that ran last: a count, and 16 times an instant and a task.
const RAN_WORDS: usize = 1 + 16 * 5;
const LENGTHS: usize = WORST + WORST_COUNT * WORST_WORDS + RAN_WORDS;
const PART_BITS: u32 = 6;
const LENGTH_COUNT: usize = places(PART_BITS);
const WORDS: usize = LENGTHS + LENGTH_COUNT;

/// How long the cost is measured, and how often.
const MEASURED: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_secs(60);

/// A watch of the system in progress. When it is dropped, or this process is killed, all of it is
/// removed from the kernel.
pub struct ActiveSystemWatch {
    // Owns programs, links and maps by descriptors: however this process ends, they end with it.
    programs: Ebpf,
    memory: Shared,
    cpus: usize,
    cost: Cost,
}

/// The cost of the programs, measured for a second each minute, because measuring costs as well.
struct Cost {
    /// The measurement in progress: when it began, and the figures then.
    under_way: Option<(OwnedFd, Instant, BpfCost)>,
    next: Instant,
    taken: BpfCost,
}

impl ActiveSystemWatch {
    /// Starts watching; wake-ups longer than the deadline, in ns, are late. On request also counts how
    /// long every thread waits for a CPU.
    ///
    /// # Errors
    /// What is missing here, and what to do.
    pub fn start(deadline_ns: Option<u64>, run_queue: bool) -> Result<Self, Unavailable> {
        unavailable::check()?;
        let btf = Btf::from_sys_fs().map_err(|error| refused(TracingStep::ReadTypes, &error))?;
        let cpus = possible_cpus();
        let deadline_ns = deadline_ns.unwrap_or(0);
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .override_global("deadline_ns", &deadline_ns, true)
            .map_max_entries("by_cpu", cpus);
        let asked = u32::from(run_queue);
        queue::ask(&mut loader, &asked);
        let mut programs = loader
            .load(OBJECT)
            .map_err(|error| refused(load(TracingPart::Watch), &error))?;
        let data = match programs.map("by_cpu") {
            Some(Map::Array(data)) => data,
            _ => {
                return Err(incomplete("by_cpu"));
            }
        };
        let cpus = cpus as usize;
        let memory = Shared::map(data.fd().as_fd(), cpus * WORDS)
            .map_err(|error| refused(map_memory("by_cpu"), &error))?;
        let queues: &[&str] = if run_queue { queue::TRACEPOINTS } else { &[] };
        for tracepoint in queues.iter().chain(TRACEPOINTS) {
            attach_typed(&mut programs, &format!("on_{tracepoint}"), tracepoint, &btf)
                .map_err(|error| refused(attach(tracepoint), &error))?;
        }
        let mut watching = Self {
            programs,
            memory,
            cpus,
            cost: Cost {
                under_way: None,
                next: Instant::now(),
                taken: BpfCost::default(),
            },
        };
        watching.measure_cost();
        Ok(watching)
    }

    fn words(&self, cpu: usize) -> &[AtomicU64] {
        &self.memory.words()[cpu * WORDS..][..WORDS]
    }

    /// The counts of one CPU, since the watch began.
    #[must_use]
    pub fn cpu(&self, cpu: usize) -> Option<CpuWakeUps> {
        if cpu >= self.cpus {
            return None;
        }
        let words = self.words(cpu);
        let at = |index: usize| words[index].load(Ordering::Relaxed);
        // The lengths are read before their bounds: what is counted in between is within these.
        let lengths = (0..LENGTH_COUNT).filter_map(|index| {
            let count = at(LENGTHS + index);
            (count > 0).then(|| (bounds(index, PART_BITS), count))
        });
        Some(CpuWakeUps {
            lengths: lengths.collect(),
            count: at(COUNT),
            sum_ns: at(SUM),
            least_ns: at(LEAST),
            most_ns: at(MOST),
            late: at(LATE),
            threshold_ns: at(THRESHOLD),
            lost: at(LOST),
        })
    }

    /// The longest wake-up of a CPU since the last call, and how many were late.
    pub fn take_interval(&mut self, cpu: usize) -> (u64, u64) {
        if cpu >= self.cpus {
            return (0, 0);
        }
        let words = self.words(cpu);
        let before = words[TURN].fetch_add(1, Ordering::Relaxed) as usize & 1;
        (
            words[TURN_MOST + before].swap(0, Ordering::Relaxed),
            words[TURN_LATE + before].swap(0, Ordering::Relaxed),
        )
    }

    /// The worst wake-ups of one CPU, in no order. An entry that is being written is omitted.
    #[must_use]
    pub fn worst(&self, cpu: usize) -> Vec<SystemWorst> {
        if cpu >= self.cpus {
            return Vec::new();
        }
        let words = self.words(cpu);
        let copy = |index: usize| {
            let from = WORST + index * WORST_WORDS;
            let mut copy = [0; WORST_WORDS];
            for (to, word) in copy.iter_mut().zip(&words[from..]) {
                *to = word.load(Ordering::Acquire);
            }
            copy
        };
        (0..WORST_COUNT)
            .filter_map(|index| {
                let first = copy(index);
                (first[0] != 0 && first == copy(index)).then(|| SystemWorst {
                    latency_ns: first[0],
                    at_ns: first[1],
                    by_timer: first[2] != 0,
                    woken: task(&first[3..7]),
                    before: task(&first[7..11]),
                })
            })
            .collect()
    }

    /// How long threads waited for a CPU, if that was requested.
    pub fn run_queues(&mut self) -> RunQueues<'_> {
        RunQueues::of_programs(&mut self.programs)
    }

    /// Measures the cost of the programs when it is time; call it regularly.
    pub fn measure_cost(&mut self) {
        let now = Instant::now();
        match self.cost.under_way.take() {
            None if now >= self.cost.next => {
                self.cost.next = now + EVERY;
                // Without the permission to count there is no figure.
                if let Ok(counting) = enable_stats(Stats::RunTime) {
                    self.cost.under_way = Some((counting, Instant::now(), self.taken_so_far()));
                }
            }
            Some((_, since, before)) if now.duration_since(since) >= MEASURED => {
                self.end_measuring(since, before);
            }
            other => self.cost.under_way = other,
        }
    }

    fn end_measuring(&mut self, since: Instant, before: BpfCost) {
        let after = self.taken_so_far();
        let taken = &mut self.cost.taken;
        taken.measured_ns += u64::try_from(since.elapsed().as_nanos()).unwrap_or(0);
        taken.calls += after.calls.saturating_sub(before.calls);
        taken.spent_ns += after.spent_ns.saturating_sub(before.spent_ns);
    }

    fn taken_so_far(&self) -> BpfCost {
        let mut taken = BpfCost::default();
        for (_, program) in self.programs.programs() {
            if let Program::BtfTracePoint(program) = program
                && let Ok(info) = program.info()
            {
                taken.calls += info.run_count();
                taken.spent_ns += u64::try_from(info.run_time().as_nanos()).unwrap_or(0);
            }
        }
        taken
    }

    /// The cost of the programs while it was measured.
    #[must_use]
    pub fn cost(&mut self) -> BpfCost {
        if let Some((counting, since, before)) = self.cost.under_way.take() {
            // A short watch does not contain a whole second.
            if self.cost.taken == BpfCost::default() {
                self.end_measuring(since, before);
            }
            self.cost.under_way = Some((counting, Instant::now(), self.taken_so_far()));
        }
        self.cost.taken
    }
}

fn task(words: &[u64]) -> Option<Other> {
    let tid = words[0] as u32;
    (tid != 0).then(|| Other {
        tid,
        name: slot::text(&words[2..4]),
        policy: words[1] as u32,
        priority: (words[0] >> 32) as u32 as i32,
    })
}
