//! What is analysed: the tasks of a machine, their locks, and what the kernel takes.
//!
//! Every time is in nanoseconds and at most [`MAX_NS`]. A set that [`TaskSet::faults`] finds no
//! fault with can be analysed; none overflows.

/// The longest time that a set may hold, about two years.
pub const MAX_NS: u64 = 1 << 56;

/// The most tasks, locks, sections, and sources of interference of a set.
pub const MAX_COUNT: usize = 4_096;

/// Tasks that are each bound to one CPU (partitioned), with what they share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskSet {
    /// The tasks. Results name a task by its index here.
    pub tasks: Vec<Task>,
    /// The locks. A [`Section`] names a lock by its index here.
    pub locks: Vec<Lock>,
    /// What runs above all tasks of a CPU.
    pub interference: Vec<Interference>,
    /// What the kernel takes for a job, the same on all CPUs.
    pub overheads: Overheads,
    /// What the kernel keeps for ordinary tasks.
    pub servers: Vec<Server>,
}

/// A task: one thread that executes its jobs in the order of their arrival.
///
/// A job arrives, is released at most `jitter_ns` later, and then needs the CPU for at most
/// `execution_ns`. Jobs of a task don't overlap: where a job is late, the next one waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// What the task is called.
    pub name: String,
    /// The CPU it is bound to.
    pub cpu: u32,
    /// Who runs first.
    pub policy: Policy,
    /// Least distance of two arrivals, at least 1.
    pub period_ns: u64,
    /// Whether the first arrival and the period say when all others come.
    pub arrivals: Arrivals,
    /// The first arrival. Where arrivals are sporadic, the analysis ignores it, which is safe: its
    /// bounds hold for all offsets. Of a task that another one releases, with a longer period: after how many jobs of that one
    /// the first comes, modulo their number per release.
    pub offset_ns: u64,
    /// A job is released at most this long after it arrives.
    pub jitter_ns: u64,
    /// A job must finish this long after it arrives; it may be longer than the period. With
    /// [`after`](Self::after), arrival is that of the first task of the chain.
    pub deadline_ns: u64,
    /// Worst-case execution time of a job, at least 1, lock sections included.
    pub execution_ns: u64,
    /// How long a job waits for something else than a lock or the CPU.
    pub suspension: Suspension,
    /// The lock sections of one job. They don't nest. Nested sections of locks with a ceiling count as
    /// one section of the lock with the highest one, and as one of 1 ns of each other lock: tasks of other CPUs
    /// wait for that one too. For nested sections of locks that are inherited
    /// there is no model: a holder of the inner lock delays the outer one's holder, and both delay who
    /// waits for the outer one. No job suspends itself within a section.
    pub sections: Vec<Section>,
    /// The task whose finished job releases this one's job, if any. This one's period is a multiple
    /// of that one's: with the same one, each job of it releases one; with `n` times as long a
    /// period, every `n`-th.
    pub after: Option<usize>,
}

impl Task {
    /// A task of CPU 0 with sporadic arrivals, and its deadline at the earliest next one.
    #[must_use]
    pub fn new(name: &str, policy: Policy, period_ns: u64, execution_ns: u64) -> Self {
        Task {
            name: name.to_owned(),
            cpu: 0,
            policy,
            period_ns,
            arrivals: Arrivals::Sporadic,
            offset_ns: 0,
            jitter_ns: 0,
            deadline_ns: period_ns,
            execution_ns,
            suspension: Suspension::default(),
            sections: Vec::new(),
            after: None,
        }
    }

    /// The rank by which it preempts others, when it holds no lock.
    #[must_use]
    pub fn rank(&self) -> Rank {
        match self.policy {
            Policy::Deadline { .. } => Rank::Deadline,
            Policy::Fixed { priority } => Rank::Fixed(priority),
            Policy::Other => Rank::Other,
        }
    }
}

/// When the jobs of a task arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrivals {
    /// At any time, at least a period apart.
    #[default]
    Sporadic,
    /// At the offset and each period after it, by a clock that all such tasks share: absolute timers.
    /// A job may be released up to the jitter later, and one may be missing. Of a task that each job of
    /// another one releases, the other one's say when they arrive.
    Periodic,
}

/// How the kernel schedules a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_FIFO` and `SCHED_RR`: 1 to 99, 99 first. Tasks of equal priority are taken to delay
    /// each other in full, which covers both.
    Fixed {
        /// 1 to 99.
        priority: u8,
    },
    /// `SCHED_DEADLINE`, above all fixed priorities: a reservation of `runtime` in each `period`,
    /// scheduled by its `deadline` from the wake-up (EDF and a constant bandwidth server).
    Deadline {
        /// At least 1.
        runtime_ns: u64,
        /// At least the runtime.
        deadline_ns: u64,
        /// At least the deadline.
        period_ns: u64,
    },
    /// `SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`: no guarantee. It matters for the locks it holds.
    Other,
}

/// The order of [`Policy`], highest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Below all real-time tasks.
    Other,
    /// A fixed priority.
    Fixed(u8),
    /// Above all fixed priorities.
    Deadline,
}

/// Waiting within a job, for a device or a message: the CPU is free meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Suspension {
    /// How often at most in one job.
    pub count: u32,
    /// How long at most in one job, all together.
    pub total_ns: u64,
}

/// One critical section of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Index of the lock.
    pub lock: usize,
    /// Worst-case execution time within the section, at least 1.
    pub length_ns: u64,
    /// How often a job enters one of its lock at most; 0 as 1.
    pub times: u32,
}

/// A mutex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// What it is called.
    pub name: String,
    /// What its holder inherits.
    pub protocol: Protocol,
}

/// How a mutex limits priority inversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `PTHREAD_PRIO_INHERIT`: the holder runs at the rank of the first waiter.
    Inherit,
    /// `PTHREAD_PRIO_PROTECT`, the immediate ceiling: the holder runs at this priority.
    Ceiling {
        /// 1 to 99, at least that of each user.
        priority: u8,
    },
    /// `PTHREAD_PRIO_NONE`: nothing limits how long a waiter waits.
    Plain,
}

/// Something that takes a CPU from all tasks: an interrupt with its softirq, RT throttling, a
/// thread of the kernel above all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interference {
    /// What it is called.
    pub name: String,
    /// The CPU it takes.
    pub cpu: u32,
    /// Least distance of two arrivals, at least 1.
    pub period_ns: u64,
    /// How late an arrival may be.
    pub jitter_ns: u64,
    /// How long it runs each time.
    pub execution_ns: u64,
}

/// Time that the kernel keeps for ordinary tasks, on each CPU, while real-time tasks would take all of
/// it: the fair server (Linux 6.12), or RT throttling. [`crate::server`] says where it may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// In each period so much, at least 1.
    pub runtime_ns: u64,
    /// At least the runtime.
    pub period_ns: u64,
    /// How late the kernel notices that the runtime is over: at the next tick.
    pub overrun_ns: u64,
    /// CPUs on which it may run whatever the tasks of the set do: others run there too.
    pub certain: Vec<u32>,
    /// What real-time tasks that are bound to no CPU may take of any one, in each period.
    pub roaming_ns: u64,
    /// CPUs of which it must be known, beside those to which real-time tasks are bound.
    pub also: Vec<u32>,
}

impl Server {
    /// 50 ms of each second, as kernels have it where nobody changed it.
    #[must_use]
    pub fn usual() -> Self {
        Server {
            runtime_ns: 50_000_000,
            period_ns: 1_000_000_000,
            overrun_ns: 0,
            certain: Vec::new(),
            roaming_ns: 0,
            also: Vec::new(),
        }
    }
}

/// What the kernel itself takes, as measured on the machine. All zero: a machine without a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overheads {
    /// The timer interrupt that releases a job, or ends a suspension: it preempts tasks of all ranks.
    pub release_interrupt_ns: u64,
    /// From the end of that interrupt to the first instruction of the job: choosing and switching.
    /// It is charged to the job, and again for each suspension.
    pub wake_ns: u64,
    /// From the last instruction of the job to the next task's. Charged like `wake_ns`.
    pub sleep_ns: u64,
    /// What waiting for a lock adds to the holder's section: a switch there and back.
    pub contention_ns: u64,
    /// The longest time that the kernel runs without being preemptible, on behalf of any task.
    pub nonpreemptible_ns: u64,
    /// The scheduler's tick.
    pub tick: Option<Tick>,
}

/// The periodic interrupt of the scheduler, on each CPU with tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// `1 / CONFIG_HZ`, at least 1.
    pub period_ns: u64,
    /// How long it runs each time.
    pub execution_ns: u64,
}

/// What a set must not have. The index is that of the task, lock or interference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// More than [`MAX_COUNT`] of something.
    TooMany,
    /// A period, an execution time or the length of a section of this task is 0.
    ZeroTime(usize),
    /// A time of this task is longer than [`MAX_NS`].
    TooLong(usize),
    /// The priority of this task is not 1 to 99.
    Priority(usize),
    /// The reservation of this task does not have 0 < runtime <= deadline <= period.
    Reservation(usize),
    /// The sections of this task are longer than its execution time.
    SectionsExceedExecution(usize),
    /// This task suspends itself for a time, but never, or the other way round.
    Suspension(usize),
    /// This task names a lock that isn't there.
    UnknownLock(usize),
    /// This task follows one that isn't there, or itself.
    UnknownPredecessor(usize),
    /// The period of this task is no multiple of that of the one that it follows.
    PeriodOfPredecessor(usize),
    /// The tasks before this one form a circle.
    Cycle(usize),
    /// The ceiling of this lock is not 1 to 99, or is below the priority of one of its users.
    Ceiling(usize),
    /// A user of this lock has no fixed priority. The C library can't lock such a mutex then.
    CeilingWithoutPriority(usize),
    /// This interference, or the tick, has a period of 0, or a time longer than [`MAX_NS`].
    Interference(usize),
    /// A time of the overheads is longer than [`MAX_NS`], or the tick's period is 0.
    Overheads,
    /// This server does not have 0 < runtime <= period, or has a time longer than [`MAX_NS`].
    Server(usize),
}

impl TaskSet {
    /// All that is wrong with the set; empty where it can be analysed.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let counts = [
            self.tasks.len(),
            self.locks.len(),
            self.interference.len(),
            self.servers.len(),
            self.tasks.iter().map(|task| task.sections.len()).sum(),
        ];
        if counts.iter().any(|count| *count > MAX_COUNT) {
            return vec![Fault::TooMany];
        }
        let mut faults = Vec::new();
        for index in 0..self.tasks.len() {
            self.faults_of_task(index, &mut faults);
        }
        for index in 0..self.locks.len() {
            faults.extend(self.fault_of_lock(index));
        }
        for (index, one) in self.interference.iter().enumerate() {
            let times = [one.period_ns, one.jitter_ns, one.execution_ns];
            if one.period_ns == 0 || times.iter().any(|ns| *ns > MAX_NS) {
                faults.push(Fault::Interference(index));
            }
        }
        for (index, one) in self.servers.iter().enumerate() {
            let ordered = 0 < one.runtime_ns && one.runtime_ns <= one.period_ns;
            let times = [one.period_ns, one.overrun_ns, one.roaming_ns];
            if !ordered || times.iter().any(|ns| *ns > MAX_NS) {
                faults.push(Fault::Server(index));
            }
        }
        let of = &self.overheads;
        let tick = of.tick.unwrap_or(Tick {
            period_ns: 1,
            execution_ns: 0,
        });
        let times = [
            of.release_interrupt_ns,
            of.wake_ns,
            of.sleep_ns,
            of.contention_ns,
            of.nonpreemptible_ns,
            tick.period_ns,
            tick.execution_ns,
        ];
        if tick.period_ns == 0 || times.iter().any(|ns| *ns > MAX_NS) {
            faults.push(Fault::Overheads);
        }
        faults
    }

    fn faults_of_task(&self, index: usize, faults: &mut Vec<Fault>) {
        let task = &self.tasks[index];
        let mut times = vec![
            task.period_ns,
            task.offset_ns,
            task.jitter_ns,
            task.deadline_ns,
            task.execution_ns,
            task.suspension.total_ns,
        ];
        times.extend(task.sections.iter().map(|section| section.length_ns));
        match task.policy {
            Policy::Fixed { priority } if !(1..=99).contains(&priority) => {
                faults.push(Fault::Priority(index));
            }
            Policy::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
            } => {
                if runtime_ns == 0 || runtime_ns > deadline_ns || deadline_ns > period_ns {
                    faults.push(Fault::Reservation(index));
                }
                times.push(period_ns);
            }
            _ => {}
        }
        if times.iter().any(|ns| *ns > MAX_NS) {
            faults.push(Fault::TooLong(index));
        }
        let empty = task.sections.iter().any(|section| section.length_ns == 0);
        if task.period_ns == 0 || task.execution_ns == 0 || empty {
            faults.push(Fault::ZeroTime(index));
        }
        let held = task
            .sections
            .iter()
            .map(|section| u128::from(section.length_ns));
        if held.sum::<u128>() > u128::from(task.execution_ns) {
            faults.push(Fault::SectionsExceedExecution(index));
        }
        if (task.suspension.count == 0) != (task.suspension.total_ns == 0) {
            faults.push(Fault::Suspension(index));
        }
        if task
            .sections
            .iter()
            .any(|section| section.lock >= self.locks.len())
        {
            faults.push(Fault::UnknownLock(index));
        }
        let Some(before) = task.after else { return };
        match self.tasks.get(before) {
            Some(_) if before == index => faults.push(Fault::UnknownPredecessor(index)),
            None => faults.push(Fault::UnknownPredecessor(index)),
            // A period of 0 is a fault of its own.
            Some(known) if !task.period_ns.is_multiple_of(known.period_ns.max(1)) => {
                faults.push(Fault::PeriodOfPredecessor(index));
            }
            Some(_) => {
                // A way back that is longer than there are tasks never ends.
                let mut at = Some(index);
                for _ in 0..=self.tasks.len() {
                    at = at
                        .and_then(|at| self.tasks.get(at))
                        .and_then(|task| task.after);
                }
                if at.is_some() {
                    faults.push(Fault::Cycle(index));
                }
            }
        }
    }

    fn fault_of_lock(&self, index: usize) -> Option<Fault> {
        let Protocol::Ceiling { priority } = self.locks[index].protocol else {
            return None;
        };
        let mut ranks = self.users(index).map(Task::rank);
        if !(1..=99).contains(&priority) {
            return Some(Fault::Ceiling(index));
        }
        ranks.find_map(|rank| match rank {
            Rank::Fixed(own) if own > priority => Some(Fault::Ceiling(index)),
            Rank::Fixed(_) => None,
            Rank::Other | Rank::Deadline => Some(Fault::CeilingWithoutPriority(index)),
        })
    }

    /// The tasks with a section of a lock.
    pub fn users(&self, lock: usize) -> impl Iterator<Item = &Task> {
        let uses = move |task: &&Task| task.sections.iter().any(|section| section.lock == lock);
        self.tasks.iter().filter(uses)
    }
}
