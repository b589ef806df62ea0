//! The TOML format of task sets.

mod steps;
mod values;
mod written;

use std::collections::BTreeMap;

use punctual_record::taskset::{
    Chain, Lock, LockProtocol, Means, Phase, Task, TaskPolicy, TaskSet, Timer, Wake,
};
use punctual_rt::cpulist::{self, CpuList};
use toml::Spanned;

use crate::Read;
use crate::check::{self, Lines, TaskLines, check};
use crate::fault::Fault;
use values::{Time, Whole};
use written::{
    WrittenChain, WrittenLock, WrittenPhase, WrittenPolicy, WrittenProtocol, WrittenSet,
    WrittenTask,
};

#[cfg(feature = "schema")]
pub(crate) use written::schema;

/// The shortest and the longest period.
const PERIODS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000_000_000;

/// The highest CPU number.
const MOST_CPU: i64 = 1_023;

/// What the parser says, with what it expected; `place` is the text that it names.
fn guided(why: &str, place: &str) -> String {
    if why.contains("expected") {
        return why.to_owned();
    }
    if let Some(field) = why.strip_prefix("missing field ") {
        return format!("no key {field}: expected here");
    }
    if why == "duplicate key" {
        return format!("key `{}` again: expected it once", place.trim());
    }
    format!("{why}: expected a task set in TOML")
}

pub(crate) fn read(text: &str, name: &str) -> Result<Read, Fault> {
    let written: WrittenSet = ::toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        let place = error.span().and_then(|span| text.get(span));
        Fault::new(line, guided(error.message(), place.unwrap_or_default()))
    })?;
    let reader = Reader::of(text, &written);
    let (mut set, mut lines) = (TaskSet::default(), Lines::default());
    set.name = match &written.name {
        Some(own) => {
            check::name(own.get_ref(), reader.line(own), "task set")?;
            own.get_ref().clone()
        }
        None => name.to_owned(),
    };
    set.duration_ns = written.duration.map(|time| time.0);
    for lock in &written.lock {
        lines.locks.push(reader.line(lock));
        set.locks.push(reader.lock(lock.get_ref())?);
    }
    for task in &written.task {
        lines.tasks.push(reader.lines(task));
        set.tasks.push(reader.task(task)?);
    }
    for chain in &written.chain {
        lines.chains.push(reader.line(chain));
        set.chains.push(reader.chain(chain)?);
    }
    for (index, task) in written.task.iter().enumerate() {
        if let Some(period_ns) = set.period_ns(index) {
            complete(&mut set.tasks[index], task.get_ref(), period_ns);
        }
    }
    check(&set, &lines)?;
    for (index, task) in set.tasks.iter().enumerate() {
        if set.period_ns(index).is_none_or(|ns| ns > *PERIODS.end()) {
            let why = format!(
                "task {}: its period is longer than 1 h: expected a smaller every",
                task.name
            );
            return Err(Fault::new(lines.tasks[index].wake, why));
        }
    }
    Ok(Read {
        set,
        notes: Vec::new(),
    })
}

/// What follows from the period, which may follow from other tasks.
fn complete(task: &mut Task, written: &WrittenTask, period_ns: u64) {
    if written.deadline.is_none() {
        task.end_before_next_arrival(period_ns);
    }
    if let TaskPolicy::Deadline {
        deadline_ns: of_reservation,
        period_ns: each,
        ..
    } = &mut task.policy
    {
        *each = written.dl_period.as_ref().map_or(period_ns, |time| time.0);
        let usual = task.deadline_ns.min(*each);
        *of_reservation = written.dl_deadline.as_ref().map_or(usual, |time| time.0);
    }
}

/// The index of each name; of one that occurs twice the first.
fn indices<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, usize> {
    let mut all = BTreeMap::new();
    for (index, name) in names.enumerate() {
        all.entry(name.as_str()).or_insert(index);
    }
    all
}

/// The line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

struct Reader<'a> {
    text: &'a str,
    tasks: BTreeMap<&'a str, usize>,
    locks: BTreeMap<&'a str, usize>,
}

/// The line of a step of a task's work, counted as where it is executed: through a phase and what is
/// within its locks.
pub(crate) fn line_of_step(text: &str, task: usize, phase: usize, step: usize) -> Option<usize> {
    let written: WrittenSet = ::toml::from_str(text).ok()?;
    let task = written.task.get(task)?.get_ref();
    let work = match &task.work {
        Some(work) => work,
        None => &task.phase.get(phase)?.get_ref().work,
    };
    Reader::of(text, &written).line_of_step(work, step)
}

impl<'a> Reader<'a> {
    fn of(text: &'a str, written: &'a WrittenSet) -> Self {
        let tasks = written
            .task
            .iter()
            .map(|task| task.get_ref().name.get_ref());
        let locks = written
            .lock
            .iter()
            .map(|lock| lock.get_ref().name.get_ref());
        Self {
            text,
            tasks: indices(tasks),
            locks: indices(locks),
        }
    }
}

impl Reader<'_> {
    fn line<T>(&self, of: &Spanned<T>) -> usize {
        line_of(self.text, of.span().start)
    }

    fn refuse<T>(&self, at: &Spanned<T>, why: impl AsRef<str>) -> Fault {
        Fault::new(self.line(at), why)
    }

    fn lines(&self, task: &Spanned<WrittenTask>) -> TaskLines {
        let own = self.line(task);
        let it = task.get_ref();
        let wake = it.after.as_ref().map(|after| self.line(after));
        let period = it.period.as_ref().map(|period| self.line(period));
        TaskLines {
            task: own,
            wake: wake.or(period).unwrap_or(own),
            execution: it.wcet.as_ref().map_or(own, |wcet| self.line(wcet)),
        }
    }

    fn lock(&self, lock: &WrittenLock) -> Result<Lock, Fault> {
        let protocol = match (lock.protocol, &lock.ceiling) {
            (WrittenProtocol::Protect, Some(ceiling)) => LockProtocol::Protect {
                ceiling: self.priority(ceiling, "ceiling")?,
            },
            (WrittenProtocol::Protect, None) => {
                let why = "a lock with protocol \"protect\": expected ceiling = 1 to 99";
                return Err(self.refuse(&lock.name, why));
            }
            (_, Some(ceiling)) => {
                let why = "ceiling: expected it only with protocol = \"protect\"";
                return Err(self.refuse(ceiling, why));
            }
            (WrittenProtocol::Inherit, None) => LockProtocol::Inherit,
            (WrittenProtocol::Plain, None) => LockProtocol::Plain,
        };
        Ok(Lock {
            name: lock.name.get_ref().clone(),
            protocol,
        })
    }

    fn priority(&self, written: &Spanned<Whole>, what: &str) -> Result<u8, Fault> {
        let number = written.get_ref().0;
        let in_range = u8::try_from(number).ok().filter(|it| (1..=99).contains(it));
        in_range.ok_or_else(|| self.refuse(written, format!("{what} {number}: expected 1 to 99")))
    }

    fn task(&self, task: &Spanned<WrittenTask>) -> Result<Task, Fault> {
        let it = task.get_ref();
        let name = it.name.get_ref();
        let phases = match (&it.work, &it.phase[..]) {
            (Some(work), []) => vec![Phase {
                jobs: 1,
                period_ns: None,
                deadline_ns: None,
                work: self.work(work, 0)?,
            }],
            (None, phases @ [_, ..]) => {
                let phases = phases.iter().map(|phase| self.phase(phase, it));
                phases.collect::<Result<_, _>>()?
            }
            (Some(work), [_, ..]) => {
                let why = format!("task {name}: expected work or [[task.phase]], not both");
                return Err(self.refuse(work, why));
            }
            (None, []) => {
                let why = format!(
                    "task {name}: expected work, such as work = \"200us\", work = [] or \
                     [[task.phase]]"
                );
                return Err(self.refuse(task, why));
            }
        };
        Ok(Task {
            name: name.clone(),
            policy: self.policy(task)?,
            cpus: self.cpus(it)?,
            wake: self.wake(task)?,
            deadline_ns: it.deadline.as_ref().map_or(0, |time| time.0),
            jitter_ns: it.jitter.as_ref().map_or(0, |time| time.0),
            execution_ns: it.wcet.as_ref().map(|time| time.get_ref().0),
            phases,
        })
    }

    fn policy(&self, task: &Spanned<WrittenTask>) -> Result<TaskPolicy, Fault> {
        let it = task.get_ref();
        let name = it.name.get_ref();
        let policy = match (it.policy, &it.runtime, &it.priority) {
            (Some(policy), ..) => policy,
            (None, Some(_), _) => WrittenPolicy::Deadline,
            (None, None, Some(_)) => WrittenPolicy::Fifo,
            (None, None, None) => WrittenPolicy::Other,
        };
        let fixed = matches!(policy, WrittenPolicy::Fifo | WrittenPolicy::Rr);
        if let Some(priority) = it.priority.as_ref().filter(|_| !fixed) {
            let why = format!("task {name}: priority: expected it only with policy fifo or rr");
            return Err(self.refuse(priority, why));
        }
        let ordinary = policy == WrittenPolicy::Other;
        if let Some(nice) = it.nice.as_ref().filter(|_| !ordinary) {
            let why = format!("task {name}: nice: expected it only with policy other");
            return Err(self.refuse(nice, why));
        }
        let reserved = policy == WrittenPolicy::Deadline;
        if (it.runtime.is_some() || it.dl_deadline.is_some() || it.dl_period.is_some()) && !reserved
        {
            let why = format!(
                "task {name}: runtime, dl-deadline and dl-period: expected them only with policy \
                 deadline"
            );
            return Err(self.refuse(task, why));
        }
        match policy {
            WrittenPolicy::Fifo | WrittenPolicy::Rr => {
                let Some(priority) = &it.priority else {
                    let why = format!("task {name}: expected priority = 1 to 99");
                    return Err(self.refuse(task, why));
                };
                let priority = self.priority(priority, "priority")?;
                Ok(match policy {
                    WrittenPolicy::Rr => TaskPolicy::Rr { priority },
                    _ => TaskPolicy::Fifo { priority },
                })
            }
            WrittenPolicy::Deadline => {
                let Some(runtime) = &it.runtime else {
                    let why = format!("task {name}: expected runtime with policy deadline");
                    return Err(self.refuse(task, why));
                };
                Ok(TaskPolicy::Deadline {
                    runtime_ns: runtime.0,
                    deadline_ns: 0,
                    period_ns: 0,
                })
            }
            WrittenPolicy::Other => {
                let nice = it.nice.as_ref().map_or(Ok(0), |nice| {
                    let number = nice.get_ref().0;
                    let in_range = i8::try_from(number)
                        .ok()
                        .filter(|it| (-20..=19).contains(it));
                    in_range.ok_or_else(|| {
                        self.refuse(nice, format!("nice {number}: expected -20 to 19"))
                    })
                })?;
                Ok(TaskPolicy::Other { nice })
            }
        }
    }

    fn cpus(&self, task: &WrittenTask) -> Result<Vec<usize>, Fault> {
        match (&task.cpu, &task.cpus) {
            (None, None) => Ok(Vec::new()),
            (Some(cpu), None) => {
                let number = cpu.get_ref().0;
                let in_range = usize::try_from(number).ok().filter(|_| number <= MOST_CPU);
                in_range.map(|cpu| vec![cpu]).ok_or_else(|| {
                    self.refuse(cpu, format!("cpu {number}: expected 0 to {MOST_CPU}"))
                })
            }
            (None, Some(list)) => {
                let text = list.get_ref();
                let expected = || {
                    let why = format!("cpus '{text}': expected a list such as \"0-1\" or \"1,3\"");
                    self.refuse(list, why)
                };
                match CpuList::parse(text) {
                    Ok(CpuList::All) => Ok(Vec::new()),
                    Ok(CpuList::Only(cpus)) if cpus.last() <= Some(&(MOST_CPU as usize)) => {
                        Ok(cpus)
                    }
                    Ok(_) => Err(expected()),
                    Err(cpulist::Refused { .. }) => Err(expected()),
                }
            }
            (Some(cpu), Some(_)) => Err(self.refuse(cpu, "expected cpu or cpus, not both")),
        }
    }

    fn wake(&self, task: &Spanned<WrittenTask>) -> Result<Wake, Fault> {
        let it = task.get_ref();
        let name = it.name.get_ref();
        let (period, after) = match (&it.period, &it.after) {
            (Some(period), None) => (period, None),
            (None, Some(after)) => return self.after(it, after),
            (Some(period), after) => (period, after.as_ref()),
            (None, None) => {
                let why = format!("task {name}: expected period, or after another task");
                return Err(self.refuse(task, why));
            }
        };
        if let Some(after) = after {
            let why = format!("task {name}: expected period or after, not both");
            return Err(self.refuse(after, why));
        }
        if it.every.is_some() || it.by.is_some() {
            let why = format!("task {name}: every and by: expected them only with after");
            return Err(self.refuse(task, why));
        }
        Ok(Wake::Timer {
            timer: it.timer.unwrap_or(Timer::Absolute),
            period_ns: self.period(period)?,
            offset_ns: match &it.offset {
                Some(offset) => self.offset(offset)?,
                None => 0,
            },
        })
    }

    fn period(&self, period: &Spanned<Time>) -> Result<u64, Fault> {
        let ns = period.get_ref().0;
        if PERIODS.contains(&ns) {
            return Ok(ns);
        }
        Err(self.refuse(period, format!("period of {ns} ns: expected 1us to 1h")))
    }

    fn offset(&self, offset: &Spanned<Time>) -> Result<u64, Fault> {
        let ns = offset.get_ref().0;
        if ns <= *PERIODS.end() {
            return Ok(ns);
        }
        Err(self.refuse(offset, format!("offset of {ns} ns: expected at most 1h")))
    }

    fn after(&self, task: &WrittenTask, after: &Spanned<String>) -> Result<Wake, Fault> {
        let (name, other) = (task.name.get_ref(), after.get_ref());
        if task.timer.is_some() || task.offset.is_some() {
            let why = format!("task {name}: timer and offset: expected them only with period");
            return Err(self.refuse(after, why));
        }
        let Some(&before) = self.tasks.get(other.as_str()) else {
            let why = format!("task {name}: after '{other}': expected the name of another task");
            return Err(self.refuse(after, why));
        };
        let every = match &task.every {
            None => 1,
            Some(every) => {
                let number = every.get_ref().0;
                let in_range = u32::try_from(number)
                    .ok()
                    .filter(|it| (1..=10_000).contains(it));
                in_range.ok_or_else(|| {
                    self.refuse(every, format!("every {number}: expected 1 to 10000"))
                })?
            }
        };
        Ok(Wake::After {
            task: before,
            every,
            means: task.by.unwrap_or(Means::Futex),
        })
    }

    fn phase(&self, phase: &Spanned<WrittenPhase>, task: &WrittenTask) -> Result<Phase, Fault> {
        let it = phase.get_ref();
        let jobs = it.jobs.as_ref().map_or(Ok(1), |jobs| {
            let number = jobs.get_ref().0;
            let in_range = u64::try_from(number)
                .ok()
                .filter(|it| (1..=1_000_000_000).contains(it));
            in_range.ok_or_else(|| {
                self.refuse(jobs, format!("jobs {number}: expected 1 to 1000000000"))
            })
        })?;
        if let Some(period) = it.period.as_ref().filter(|_| task.after.is_some()) {
            let why = format!(
                "task {}: a phase's period: expected it only with a period of the task",
                task.name.get_ref()
            );
            return Err(self.refuse(period, why));
        }
        Ok(Phase {
            jobs,
            period_ns: it.period.as_ref().map(|it| self.period(it)).transpose()?,
            deadline_ns: None,
            work: self.work(&it.work, 0)?,
        })
    }

    fn chain(&self, chain: &Spanned<WrittenChain>) -> Result<Chain, Fault> {
        let it = chain.get_ref();
        let mut tasks = Vec::new();
        for name in &it.tasks {
            let Some(&task) = self.tasks.get(name.get_ref().as_str()) else {
                let why = format!(
                    "chain {}: '{}': expected the name of a task",
                    it.name.get_ref(),
                    name.get_ref()
                );
                return Err(self.refuse(name, why));
            };
            tasks.push(task);
        }
        Ok(Chain {
            name: it.name.get_ref().clone(),
            tasks,
            reaction_ns: it.reaction.as_ref().map(|time| time.0),
            age_ns: it.age.as_ref().map(|time| time.0),
        })
    }
}
