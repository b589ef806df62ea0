//! What ran when around the longest job of a task: the job in one row, and each CPU in another.

use std::collections::BTreeMap;

use punctual_record::Run;
use punctual_record::explanation::{Lane, Span, SpanLabel};
use punctual_record::taskset::{JobBill, TaskRun};

use crate::style::{Style, Tone, wrap};
use crate::{facts, words};

/// Room for the names of rows in characters.
const NAMES: usize = 10;

/// What a job did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Did {
    /// It was ready, or slept of its own accord.
    Waited,
    Ran,
    /// It waited for a lock.
    Blocked,
}

/// Who had a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// A task of the set.
    Task(usize),
    /// Another thread.
    Thread,
    Softirq,
    Interrupt,
    /// The hypervisor, or firmware.
    Host,
}

/// A stretch of time, from the arrival of the job on.
#[derive(Debug, Clone)]
pub(crate) struct Bar<T> {
    pub from_ns: i64,
    pub to_ns: i64,
    pub what: T,
    pub label: String,
}

fn bar<T>(what: T, label: String, (from_ns, to_ns): (i64, i64)) -> Bar<T> {
    Bar {
        from_ns,
        to_ns,
        what,
        label,
    }
}

/// An instant with its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant {
    pub at_ns: i64,
    pub name: &'static str,
    pub is_deadline: bool,
}

/// The chart of a job.
pub(crate) struct Gantt {
    pub from_ns: i64,
    pub to_ns: i64,
    pub job: Vec<Bar<Did>>,
    /// Threads and what lies over them, the uppermost last.
    pub cpus: BTreeMap<u32, Vec<Bar<Who>>>,
    pub instants: Vec<Instant>,
    /// Tasks in it, in the order of the set.
    pub tasks: Vec<usize>,
    /// Stretches that the record had no room for.
    pub left_out: u64,
}

impl Gantt {
    /// The chart of the job of a bill; `None` where nothing of it is kept.
    pub(crate) fn of(run: &Run, tasks: &TaskRun, index: usize, bill: &JobBill) -> Option<Self> {
        let picture = bill.picture.as_ref().filter(|it| !it.spans.is_empty())?;
        let since = |at_ns: u64| {
            let ns = at_ns.saturating_sub(bill.arrival_ns);
            i64::try_from(ns).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
        };
        let task = tasks.set.tasks.get(index)?;
        let deadline_ns = task.deadline_ns.saturating_add(bill.more_ns);
        let deadline_ns = i64::try_from(deadline_ns).unwrap_or(i64::MAX / 4);
        let (started_ns, ended_ns) = (since(bill.started_ns), since(bill.ended_ns));
        let margin_ns = (ended_ns / 16).max(10_000);
        // A deadline far away would leave no room for what happened.
        let shown = deadline_ns <= ended_ns.saturating_add(ended_ns / 2);
        let to_ns = match shown {
            true => ended_ns.max(deadline_ns),
            false => ended_ns,
        };
        let (from_ns, to_ns) = (-margin_ns, to_ns.saturating_add(margin_ns));
        let mut chart = Self {
            from_ns,
            to_ns,
            job: Vec::new(),
            cpus: BTreeMap::new(),
            instants: instants(bill, &since, shown.then_some(deadline_ns)),
            tasks: Vec::new(),
            left_out: picture.left_out,
        };
        let mut job: Vec<Bar<Did>> = vec![Bar {
            from_ns: since(bill.released_ns).min(ended_ns),
            to_ns: ended_ns,
            what: Did::Waited,
            label: "ready or asleep".to_owned(),
        }];
        let threads = Threads::of(run, tasks, index, &picture.spans);
        for span in &picture.spans {
            if let SpanLabel::LockWait { lock, holder } = &span.label {
                let label = blocked(lock, holder.as_deref());
                let within = (span.from_ns.max(from_ns), span.to_ns.min(to_ns));
                job.push(bar(Did::Blocked, label, within));
                continue;
            }
            let who = threads.who(index, span);
            if span.lane == Lane::Probe {
                let within = (span.from_ns.max(started_ns), span.to_ns.min(ended_ns));
                let label = format!("CPU {}", span.cpu);
                job.push(bar(Did::Ran, label, within));
            }
            let label = match who {
                Who::Task(task) => name(tasks, task),
                _ => facts::span_label(&span.label),
            };
            let within = (span.from_ns.max(from_ns), span.to_ns.min(to_ns));
            let row = chart.cpus.entry(span.cpu).or_default();
            row.push(bar(who, label, within));
            if let Who::Task(task) = who {
                chart.tasks.push(task);
            }
        }
        job.retain(|bar| bar.from_ns < bar.to_ns);
        job.sort_by_key(|bar| (bar.what, bar.from_ns));
        chart.job = job;
        for bars in chart.cpus.values_mut() {
            bars.retain(|bar| bar.from_ns < bar.to_ns);
            let rank = |who: Who| match who {
                Who::Task(_) | Who::Thread => 0,
                Who::Softirq => 1,
                Who::Interrupt => 2,
                Who::Host => 3,
            };
            bars.sort_by_key(|bar| (rank(bar.what), bar.from_ns));
        }
        chart.tasks.sort_unstable();
        chart.tasks.dedup();
        Some(chart)
    }
}

/// A wait for a lock in words.
fn blocked(lock: &str, holder: Option<&str>) -> String {
    let lock = match lock.is_empty() || lock.starts_with("0x") {
        true => "a lock".to_owned(),
        false => format!("lock {}", words::clean(lock)),
    };
    match holder {
        Some(holder) => format!("{lock} held by {}", words::clean(holder)),
        None => lock,
    }
}

fn name(tasks: &TaskRun, task: usize) -> String {
    let task = tasks.set.tasks.get(task);
    task.map_or_else(String::new, |task| words::clean(&task.name))
}

/// The tasks of a set by their threads.
struct Threads<'a> {
    run: &'a Run,
    tasks: &'a TaskRun,
    /// Whether the kernel's events number threads as the record does: not in a container.
    numbers_agree: bool,
}

impl<'a> Threads<'a> {
    /// `index`: the task that a picture is of.
    fn of(run: &'a Run, tasks: &'a TaskRun, index: usize, spans: &[Span]) -> Self {
        let own = run.threads.get(index).map(|it| it.tid.unsigned_abs());
        let seen = spans
            .iter()
            .find_map(|span| match (span.lane, &span.label) {
                (Lane::Probe, SpanLabel::Thread { tid, .. }) => Some(*tid),
                _ => None,
            });
        Self {
            run,
            tasks,
            numbers_agree: own.is_some() && own == seen,
        }
    }

    /// The task of a thread, by its number, or by its name as the kernel keeps it.
    fn task(&self, tid: u32, name: &str) -> Option<usize> {
        let mut threads = self.run.threads.iter();
        let mut tasks = self.tasks.set.tasks.iter();
        match self.numbers_agree {
            true => threads.position(|thread| thread.tid.unsigned_abs() == tid),
            false => tasks.position(|task| super::bills::kept(&task.name) == name),
        }
    }

    /// Who a span is about, in the picture of a task.
    fn who(&self, own: usize, span: &Span) -> Who {
        match (span.lane, &span.label) {
            (Lane::Host, _) => Who::Host,
            (Lane::Interrupt, _) => Who::Interrupt,
            (Lane::Softirq, _) => Who::Softirq,
            (Lane::Probe, _) => Who::Task(own),
            (Lane::Thread, SpanLabel::Thread { name, tid, .. }) => {
                self.task(*tid, name).map_or(Who::Thread, Who::Task)
            }
            (Lane::Thread, _) => Who::Thread,
        }
    }
}

fn instants(bill: &JobBill, since: &impl Fn(u64) -> i64, deadline_ns: Option<i64>) -> Vec<Instant> {
    let instant = |at_ns, name| Instant {
        at_ns,
        name,
        is_deadline: false,
    };
    let mut instants = Vec::new();
    if bill.released_ns > bill.arrival_ns {
        instants.push(instant(0, "arrived"));
    }
    instants.push(instant(since(bill.released_ns), "released"));
    instants.push(instant(since(bill.started_ns), "began"));
    instants.push(instant(since(bill.ended_ns), "ended"));
    instants.extend(deadline_ns.map(|at_ns| Instant {
        at_ns,
        name: "deadline",
        is_deadline: true,
    }));
    instants.sort_by_key(|instant| instant.at_ns);
    instants
}

/// The chart in characters.
pub(super) fn text(
    run: &Run,
    tasks: &TaskRun,
    of: (usize, &JobBill),
    style: &Style,
) -> Vec<String> {
    let Some(chart) = Gantt::of(run, tasks, of.0, of.1) else {
        return Vec::new();
    };
    let columns = style.columns().saturating_sub(4 + NAMES + 1).max(10);
    let span = (chart.to_ns - chart.from_ns).max(1) as f64;
    let edge = |column: usize| chart.from_ns + (span * column as f64 / columns as f64) as i64;
    let column = |at_ns: i64| {
        let column = (at_ns - chart.from_ns) as f64 / span * columns as f64;
        (column.max(0.0) as usize).min(columns - 1)
    };
    let mut lines = Vec::new();
    let mut line = |name: &str, cells: String| {
        let name: String = name.chars().take(NAMES).collect();
        lines.push(format!("    {name:>NAMES$} {}", cells.trim_end()));
    };
    let mut marks = vec![' '; columns];
    for instant in &chart.instants {
        let letter = instant.name.chars().next().unwrap_or('?');
        marks[column(instant.at_ns)] = letter.to_ascii_uppercase();
    }
    line("", marks.into_iter().collect());
    let looks = |did: Did| match (did, style.unicode) {
        (Did::Waited, true) => '░',
        (Did::Ran, true) => '█',
        (Did::Blocked, true) => '▚',
        (Did::Waited, false) => '-',
        (Did::Ran, false) => '#',
        (Did::Blocked, false) => 'x',
    };
    let job = (0..columns)
        .map(|at| most(&chart.job, edge(at), edge(at + 1), |_| None).map_or(' ', looks));
    line(&name(tasks, of.0), job.collect());
    let letter = |who: Who| match who {
        Who::Task(task) => {
            let at = chart.tasks.iter().position(|it| *it == task).unwrap_or(0);
            char::from(b'a' + u8::try_from(at % 26).unwrap_or(0))
        }
        Who::Thread => '+',
        Who::Softirq => '~',
        Who::Interrupt => '!',
        Who::Host => 'H',
    };
    let over = |who: &Who| match who {
        Who::Task(_) | Who::Thread => None,
        over => Some(*over),
    };
    let mut seen: Vec<Who> = Vec::new();
    for (cpu, bars) in &chart.cpus {
        let cells = (0..columns).map(|at| {
            let who = most(bars, edge(at), edge(at + 1), over);
            seen.extend(who);
            who.map_or(' ', letter)
        });
        let cells: String = cells.collect();
        line(&format!("CPU {cpu}"), cells);
    }
    let scale = words::duration(chart.to_ns.saturating_sub(chart.from_ns).unsigned_abs());
    let mut legend = vec![format!(
        "{} it ran, {} blocked on a lock, {} ready or asleep",
        looks(Did::Ran),
        looks(Did::Blocked),
        looks(Did::Waited)
    )];
    legend.extend(
        chart
            .tasks
            .iter()
            .map(|task| format!("{} {}", letter(Who::Task(*task)), name(tasks, *task))),
    );
    for (who, words) in [
        (Who::Thread, "other threads"),
        (Who::Interrupt, "interrupts"),
        (Who::Softirq, "softirqs"),
        (Who::Host, "hypervisor"),
    ] {
        if seen.contains(&who) {
            legend.push(format!("{} {words}", letter(who)));
        }
    }
    legend.extend(chart.instants.iter().map(|instant| {
        let letter = instant.name.chars().next().unwrap_or('?');
        format!("{} {}", letter.to_ascii_uppercase(), instant.name)
    }));
    legend.push(format!("{scale} in all"));
    let legend = wrap(&legend.join(", "), style.columns().saturating_sub(4));
    lines.extend(
        legend
            .iter()
            .map(|line| format!("    {}", style.paint(Tone::Dim, line))),
    );
    lines
}

/// What took most of a stretch; what lies over others counts instead of them.
fn most<T: Copy + Ord>(
    bars: &[Bar<T>],
    from_ns: i64,
    to_ns: i64,
    over: impl Fn(&T) -> Option<T>,
) -> Option<T> {
    let mut times: BTreeMap<T, i64> = BTreeMap::new();
    let mut covered = 0;
    for bar in bars.iter().rev() {
        let common = bar.to_ns.min(to_ns) - bar.from_ns.max(from_ns);
        if common <= 0 {
            continue;
        }
        if over(&bar.what).is_some() {
            covered += common;
        }
        *times.entry(bar.what).or_default() += common;
    }
    let free = (to_ns - from_ns).saturating_sub(covered);
    let threads = times.iter_mut().filter(|(what, _)| over(what).is_none());
    for (_, ns) in threads {
        *ns = (*ns).min(free);
    }
    let (what, ns) = times.into_iter().max_by_key(|(what, ns)| (*ns, *what))?;
    (ns.saturating_mul(4) >= to_ns - from_ns).then_some(what)
}
