//! Every real-time thread of the machine: counted in the kernel, read several times a second.

use std::cmp::Reverse;
use std::fs;
use std::time::Duration;

use punctual_stats::histogram::{Extremes, Histogram, HistogramRecord};
use punctual_stats::peaks::Peak;

use super::queues::{Apart, Queues, of_lengths};
use super::{Breached, Length, Watched, compose};
use crate::conduct::blocks::Stretches;
use crate::conduct::error::ConductError;
use crate::probe::timeline::{self, Rows};
use punctual_machine::Root;
use punctual_machine::survey::{Policy, online};
use punctual_record::condition::Target;
use punctual_record::live::{LiveRow, LiveSubject, LiveWatch, Notable, Note, RowsAre};
use punctual_record::proc_stat::Stat;
use punctual_record::watch::{Subject, WaitingThread, Watch, WatchCost, WatchedTask, WorstWakeUp};
use punctual_record::{Condition, Demand, Fix, Run, Thread};
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::watch::{ActiveSystemWatch, CpuWakeUps, Other, SystemWorst};

/// How often the run queues are read: there may be thousands of threads.
const QUEUES_EVERY_NS: u64 = 1_000_000_000;

pub(super) struct Whole {
    length: Length,
    watching: ActiveSystemWatch,
    /// The IDs of the threads of our container, if we are in one.
    numbers: Numbers,
    cpus: Vec<Cpu>,
    rows: Rows,
    start_ns: u64,
    /// When the rows were last written.
    looked_ns: u64,
    /// The longest time until late wake-ups were read.
    reading_ns: u64,
    stretches: Stretches,
    breach: Option<Breached>,
    queues: Option<Queues>,
    /// When they were last read.
    queues_ns: u64,
    /// Those that had not run when the watch ended.
    waiting: Vec<WaitingThread>,
}

/// A CPU at the last reading.
#[derive(Default)]
struct Cpu {
    number: usize,
    counts: CpuWakeUps,
    latency: Histogram,
    /// How many of its late wake-ups are in rows.
    late_in_rows: u64,
}

impl Cpu {
    fn new(number: usize) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// Puts its late wake-ups into the last row, which has its wake-ups, as far as they are in none; returns how many.
    fn put_late(&mut self, rows: &mut Rows) -> u64 {
        let all = self.counts.late.min(self.latency.count());
        let Some(row) = rows.last() else {
            return 0;
        };
        let late = all.saturating_sub(self.late_in_rows);
        let late = late.min(row.count.saturating_sub(row.late));
        row.late += late;
        row.misses += late;
        self.late_in_rows += late;
        late
    }
}

/// Adds CPUs that came online: the kernel counts on all.
fn add_cpus(cpus: &mut Vec<Cpu>, counting: impl Iterator<Item = usize>) {
    for number in counting {
        if let Err(at) = cpus.binary_search_by_key(&number, |cpu| cpu.number) {
            cpus.insert(at, Cpu::new(number));
        }
    }
}

impl Whole {
    /// Starts to count; `run_queue`: also how long threads wait for a CPU.
    pub(super) fn begin(length: Length, run_queue: bool) -> Result<Self, ConductError> {
        let watching =
            ActiveSystemWatch::start(length.deadline_ns, run_queue).map_err(ConductError::Watch)?;
        let mut cpus = Vec::new();
        add_cpus(&mut cpus, online(&Root::live()).into_iter());
        Ok(Self {
            length,
            cpus,
            watching,
            numbers: Numbers::of_proc().map_err(ConductError::Watch)?,
            rows: Rows::default(),
            start_ns: punctual_rt::clock::now_ns(),
            looked_ns: 0,
            reading_ns: 0,
            stretches: Stretches::new(),
            breach: None,
            queues: run_queue.then(|| Queues::new(Apart::Names)),
            queues_ns: 0,
            waiting: Vec::new(),
        })
    }

    /// The worst of all CPUs, each with its CPU's number, the worst first.
    fn worst(&self) -> Vec<(usize, &SystemWorst)> {
        let mut worst: Vec<(usize, &SystemWorst)> = Vec::new();
        for cpu in &self.cpus {
            worst.extend(cpu.counts.worst.iter().map(|one| (cpu.number, one)));
        }
        worst.sort_by_key(|(cpu, one)| (Reverse(one.latency_ns), one.at_ns, *cpu));
        worst
    }

    /// Reads how long threads waited for a CPU.
    fn read_queues(&mut self) {
        let Some(queues) = &mut self.queues else {
            return;
        };
        queues.look(self.watching.run_queues());
    }

    /// The threads that have waited longer than the deadline, or than all that ran.
    fn still_waiting(&mut self) -> Vec<WaitingThread> {
        self.numbers.refresh();
        let longest_ns = self.cpus.iter().map(|cpu| cpu.counts.most_ns).max();
        let above_ns = self.length.deadline_ns.or(longest_ns).unwrap_or(0);
        let entries = self.watching.waiting();
        let now_ns = punctual_rt::clock::now_ns();
        let waits = entries.into_iter().filter_map(|(kernels, from_ns)| {
            let waited_ns = now_ns.saturating_sub(from_ns);
            let tid = (waited_ns > above_ns).then(|| self.numbers.in_proc(kernels))??;
            let line = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
            waiting(tid, waited_ns, &Stat::parse(&line)?)
        });
        let mut waits: Vec<WaitingThread> = waits.collect();
        waits.sort_by_key(|it| (Reverse(it.waited_ns), it.task.tid));
        waits.truncate(Watch::WAITING);
        waits
    }

    /// The first wake-up above the break value, if there was one.
    fn look_for_breach(&mut self) {
        let Some(break_ns) = self.length.break_ns.filter(|_| self.breach.is_none()) else {
            return;
        };
        if !self.cpus.iter().any(|cpu| cpu.counts.most_ns > break_ns) {
            return;
        }
        let above = self.worst().into_iter();
        let above = above.filter(|(_, one)| one.latency_ns > break_ns);
        let first = above.min_by_key(|(_, one)| one.at_ns);
        self.breach = first.and_then(|(cpu, one)| {
            Some(Breached {
                task: one.woken.clone()?,
                cpu: u32::try_from(cpu).ok()?,
                from_ns: one.at_ns.saturating_sub(one.latency_ns),
                woken_ns: one.at_ns,
            })
        });
    }
}

/// The lengths as a histogram: each at most 1.6 % too long.
fn latency(counts: &CpuWakeUps) -> Histogram {
    of_lengths(&counts.lengths, counts.most_ns)
}

impl Watched for Whole {
    const NAP: Duration = Duration::from_millis(250);

    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    fn collect(&mut self, _: u64) {}

    fn count(&mut self, elapsed_ns: u64) {
        self.watching.measure_cost();
        self.rows.reach(elapsed_ns);
        add_cpus(&mut self.cpus, self.watching.counting());
        let mut late = 0;
        for cpu in &mut self.cpus {
            let Some(counts) = self.watching.cpu(cpu.number) else {
                continue;
            };
            let most_ns = self.watching.take_longest(cpu.number);
            let now = latency(&counts);
            let new = now.without(&cpu.latency);
            let most_ns = if most_ns == 0 {
                new.max().unwrap_or(0)
            } else {
                most_ns
            };
            let least_ns = new.min().unwrap_or(0).min(most_ns);
            let sum_ns = counts.sum_ns.saturating_sub(cpu.counts.sum_ns);
            self.rows.add(
                new.count(),
                sum_ns,
                Extremes {
                    min_ns: least_ns,
                    max_ns: most_ns,
                },
            );
            cpu.counts = counts;
            cpu.latency = now;
            late += cpu.put_late(&mut self.rows);
        }
        if late > 0 {
            self.rows.note_miss(self.looked_ns, elapsed_ns);
            // Some may have come while the CPUs were read.
            let read_ns = punctual_rt::clock::now_ns().saturating_sub(self.start_ns);
            self.reading_ns = self.reading_ns.max(read_ns.saturating_sub(self.looked_ns));
        }
        self.looked_ns = elapsed_ns;
        self.look_for_breach();
        if elapsed_ns >= self.queues_ns.saturating_add(QUEUES_EVERY_NS) {
            self.queues_ns = elapsed_ns;
            self.read_queues();
        }
        let all = || Histogram::merged(self.cpus.iter().map(|cpu| &cpu.latency));
        self.stretches.look_with(all, elapsed_ns);
    }

    fn view(&self, run: &Run, elapsed_ns: u64) -> LiveWatch {
        let row = |cpu: &Cpu| {
            let worst = cpu.counts.worst.iter();
            let own = worst.min_by_key(|one| (Reverse(one.latency_ns), one.at_ns));
            LiveRow {
                label: cpu.number.to_string(),
                count: cpu.latency.count(),
                avg_ns: cpu.counts.sum_ns as f64 / cpu.counts.count.max(1) as f64,
                p999_ns: cpu.latency.supported_quantile(0.999),
                max_ns: cpu.counts.most_ns,
                late: cpu.counts.late,
                notable: own.map(notable),
                ..LiveRow::default()
            }
        };
        LiveWatch {
            subject: LiveSubject::System,
            elapsed_ns,
            total_ns: self.length.duration_ns,
            deadline_ns: self.length.deadline_ns,
            rows_are: RowsAre::Cpus,
            rows: self.cpus.iter().map(row).collect(),
            marks: Vec::new(),
            notes: run
                .events
                .last()
                .cloned()
                .map(Note::Happened)
                .into_iter()
                .collect(),
        }
    }

    fn compose(&mut self, run: &mut Run, elapsed_ns: u64) {
        self.numbers.refresh();
        run.threads = self
            .cpus
            .iter()
            .map(|cpu| thread(cpu, elapsed_ns))
            .collect();
        run.timeline = timeline::merged([&self.rows], elapsed_ns);
        run.blocks = self.stretches.blocks();
        let taken = self.watching.cost();
        let worst = self.worst().into_iter().take(Watch::WORST);
        run.watch = Some(Watch {
            subject: Subject::System,
            threads: Vec::new(),
            beyond: 0,
            unfollowed: 0,
            children: 0,
            ordinary: 0,
            worst: worst
                .filter_map(|(cpu, one)| worst_of(cpu, one, &self.numbers))
                .collect(),
            waiting: self.waiting.clone(),
            reading_ns: self.reading_ns,
            cost: (taken.measured_ns > 0).then_some(WatchCost {
                measured_ns: taken.measured_ns,
                calls: taken.calls,
                spent_ns: taken.spent_ns,
            }),
            breach: self
                .breach
                .as_ref()
                .map(|it| compose::breach(it, &self.numbers)),
            off_cpu: None,
            run_queue: self.queues.as_ref().map(|it| it.to_record(&self.numbers)),
            marks: Vec::new(),
            runtime: None,
        });
    }

    fn finish(&mut self, elapsed_ns: u64) {
        self.waiting = self.still_waiting();
        self.count(elapsed_ns);
        self.read_queues();
    }

    fn breach(&self) -> Option<&Breached> {
        self.breach.as_ref()
    }

    fn demand(&self, run: &Run) -> Demand {
        let count: u64 = run.threads.iter().map(|thread| thread.latency.count).sum();
        let condition = Condition::Watched {
            target: Target::System,
            every: false,
            seen: 0,
            woken: count,
        };
        Demand::requested(condition, count > 0, || Fix::WatchLonger)
    }
}

/// The thread of the worst wake-up, and the thread that ran before.
fn notable(one: &SystemWorst) -> Notable {
    let name = |task: &Option<Other>| task.as_ref().map(|task| task.name.clone());
    Notable::WakeUp {
        woken: name(&one.woken),
        before: name(&one.before),
    }
}

/// A thread that is ready, and has a real-time priority: it waits for a CPU.
fn waiting(tid: u32, waited_ns: u64, stat: &Stat<'_>) -> Option<WaitingThread> {
    let number = |field: usize| stat.count(field).and_then(|it| u32::try_from(it).ok());
    let task = WatchedTask {
        tid,
        name: stat.name.to_owned(),
        policy: Policy::from_number(number(41)?).name().to_owned(),
        priority: number(40)?,
    };
    let waits = stat.state() == Some('R') && task.has_real_time_policy();
    waits.then_some(WaitingThread {
        waited_ns,
        cpu: number(39)?,
        task,
    })
}

fn worst_of(cpu: usize, one: &SystemWorst, numbers: &Numbers) -> Option<WorstWakeUp> {
    Some(WorstWakeUp {
        latency_ns: one.latency_ns,
        at_ns: one.at_ns,
        cpu: u32::try_from(cpu).ok()?,
        task: compose::task(one.woken.as_ref()?, numbers),
        before: one.before.as_ref().map(|task| compose::task(task, numbers)),
        by_timer: one.by_timer,
    })
}

fn thread(cpu: &Cpu, elapsed_ns: u64) -> Thread {
    let threshold_ns = cpu.counts.threshold_ns;
    let worst = cpu.counts.worst.iter();
    let mut peaks: Vec<Peak> = worst
        .filter(|one| one.latency_ns > threshold_ns)
        .map(|one| {
            let asked_ns = one.at_ns.saturating_sub(one.latency_ns);
            Peak::new(0, asked_ns, one.latency_ns)
        })
        .collect();
    // Two threads may wait for one instant.
    peaks.sort_by_key(|peak| (peak.asked_ns, Reverse(peak.latency_ns)));
    for (cycle, peak) in (0..).zip(&mut peaks) {
        peak.cycle = cycle;
    }
    Thread {
        cpu: Some(cpu.number),
        tid: 0,
        latency: HistogramRecord::from(&cpu.latency),
        late: cpu.counts.late.min(cpu.latency.count()),
        missed: 0,
        missed_late: Some(0),
        lost: cpu.counts.lost,
        early: 0,
        warm_up: 0,
        peaks,
        peaks_above_ns: threshold_ns,
        measured_ns: elapsed_ns,
        faults: None,
        preemptions: None,
        first_half: None,
        first_half_misses: None,
        fault: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU with so many wake-ups, and how many of them were late.
    fn counted(cpu: &mut Cpu, rows: &mut Rows, count: u64, late: u64) -> u64 {
        let before = cpu.latency.count();
        cpu.latency.record_n(1_000, count - before);
        cpu.counts.late = late;
        let extremes = Extremes {
            min_ns: 1_000,
            max_ns: 1_000,
        };
        rows.add(count - before, (count - before) * 1_000, extremes);
        cpu.put_late(rows)
    }

    #[test]
    fn every_late_wake_up_of_a_system_is_a_miss_of_one_row() {
        let (mut rows, mut cpu) = (Rows::default(), Cpu::new(3));
        rows.reach(250_000_000);
        assert_eq!(counted(&mut cpu, &mut rows, 100, 20), 20);
        rows.reach(500_000_000);
        assert_eq!(counted(&mut cpu, &mut rows, 200, 20), 0);
        // The kernel has counted that it was late, and not yet its length.
        assert_eq!(counted(&mut cpu, &mut rows, 200, 21), 1);
        rows.reach(750_000_000);
        assert_eq!(counted(&mut cpu, &mut rows, 202, 24), 2);
        rows.reach(1_000_000_000);
        assert_eq!(counted(&mut cpu, &mut rows, 300, 24), 1);
        let timeline = timeline::merged([&rows], 1_000_000_000);
        let misses: Vec<u64> = timeline.rows.iter().map(|row| row.misses).collect();
        assert_eq!(misses, [0, 0, 20, 0, 0, 1, 0, 2, 0, 0, 1]);
        assert!(timeline.rows.iter().all(|row| row.late == row.misses));
    }

    #[test]
    fn only_a_real_time_thread_that_is_ready_waits() {
        // The state, then rt_priority and policy: fields 3, 40 and 41.
        let line = |state: char, priority: u32, policy: u32| {
            let between = "0 ".repeat(35);
            format!("7 (rt) x) {state} {between}1 {priority} {policy} 0")
        };
        let of = |state, priority, policy| {
            let line = line(state, priority, policy);
            waiting(7, 9, &Stat::parse(&line).expect("a line"))
        };
        let found = of('R', 80, 1).expect("it waits");
        assert_eq!((found.waited_ns, found.cpu), (9, 1));
        let task = found.task;
        assert_eq!(
            (task.name.as_str(), task.policy.as_str()),
            ("rt) x", "fifo")
        );
        assert_eq!((task.tid, task.priority), (7, 80));
        assert!(of('R', 0, 6).is_some(), "SCHED_DEADLINE");
        for (state, priority, policy) in [('S', 80, 1), ('T', 80, 1), ('R', 0, 0), ('Z', 80, 2)] {
            assert_eq!(of(state, priority, policy), None, "{state} {policy}");
        }
    }

    #[test]
    fn cpus_that_come_online_later_are_read_too() {
        let mut cpus = Vec::new();
        add_cpus(&mut cpus, [0, 1, 4].into_iter());
        cpus[2].late_in_rows = 7;
        add_cpus(&mut cpus, [0, 3, 4].into_iter());
        let numbers: Vec<_> = cpus
            .iter()
            .map(|cpu| (cpu.number, cpu.late_in_rows))
            .collect();
        assert_eq!(numbers, [(0, 0), (1, 0), (3, 0), (4, 7)]);
    }
}
