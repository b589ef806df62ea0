//! The wake-ups of every real-time thread: `bpf/wakeups.bpf.c`, loaded, attached and read.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aya::maps::{HashMap, Map, MapData};
use aya::programs::Program;
use aya::sys::{Stats, enable_stats};
use aya::{Btf, Ebpf, EbpfLoader};

use super::counts::{self, TURN, TURN_MOST, WORDS};
use super::{BpfCost, CpuWakeUps, RunQueues, queue};
use crate::capture::kernel::{
    attach, attach_typed, incomplete, load, locate_preempt_count, map_memory, possible_cpus,
    read_layout, refused,
};
use crate::capture::shared::Shared;
use crate::capture::unavailable::{self, Unavailable};
use punctual_record::{TracingPart, TracingStep};

/// The compiled program.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/wakeups.bpf.o"));

const TRACEPOINTS: &[&str] = &[
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "sched_waking",
    "sched_switch",
    "sched_migrate_task",
];

/// The words of `struct waking`, the first of which is the instant from which on its latency counts.
const WAKING_WORDS: usize = 8;

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
        let layout = read_layout();
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .override_global("deadline_ns", &deadline_ns, true)
            .map_max_entries("by_cpu", cpus);
        let asked = u32::from(run_queue);
        locate_preempt_count(&mut loader, &layout);
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

    /// The counts of one CPU, since the watch began, with its worst wake-ups.
    #[must_use]
    pub fn cpu(&self, cpu: usize) -> Option<CpuWakeUps> {
        (cpu < self.cpus).then(|| counts::read(self.words(cpu)))
    }

    /// The CPUs that have counted a wake-up, or lost one.
    pub fn counting(&self) -> impl Iterator<Item = usize> {
        (0..self.cpus).filter(|cpu| counts::is_counting(self.words(*cpu)))
    }

    /// The longest wake-up of a CPU since the last call.
    pub fn take_longest(&mut self, cpu: usize) -> u64 {
        if cpu >= self.cpus {
            return 0;
        }
        let words = self.words(cpu);
        let before = words[TURN].fetch_add(1, Ordering::Relaxed) as usize & 1;
        words[TURN_MOST + before].swap(0, Ordering::Relaxed)
    }

    /// Threads that were woken and have not run since: each by the kernel's number, with the instant from which on its
    /// latency counts. Some may have run, or ended, where the kernel ran no BPF program.
    #[must_use]
    pub fn waiting(&self) -> Vec<(u32, u64)> {
        let map = self.programs.map("wakings");
        let map =
            map.and_then(|it| HashMap::<&MapData, u32, [u64; WAKING_WORDS]>::try_from(it).ok());
        let entries = map.iter().flat_map(|it| it.iter().filter_map(Result::ok));
        let waiting = entries.filter(|(_, waking)| waking[0] > 0);
        waiting.map(|(tid, waking)| (tid, waking[0])).collect()
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
