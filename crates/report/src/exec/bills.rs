//! Who took the time of the jobs: of the longest of each task, and of all that were late.

use punctual_record::Run;
use punctual_record::explanation::{BillRow, Cause, Meanwhile};
use punctual_record::taskset::{JobBill, JobBills, Task, TaskFigures, TaskRun, Wake};

use super::gantt;
use crate::explain::name;
use crate::explain::names::meanwhile;
use crate::style::{Style, Tone, cut, wrap};
use crate::words;

/// Tasks that are shown, unless all are asked for.
const TASKS: usize = 3;
/// Rows of a bill that are shown, unless all are asked for.
const ROWS: usize = 6;
/// Causes of all late jobs that are named.
const CAUSES: usize = 4;

/// A task with its bills.
struct Billed<'a> {
    index: usize,
    task: &'a Task,
    figures: &'a TaskFigures,
    bills: &'a JobBills,
}

impl Billed<'_> {
    /// Jobs that missed their deadlines.
    fn misses(&self) -> u64 {
        self.figures
            .jobs
            .late
            .saturating_add(self.figures.jobs.missed)
    }

    /// How much of its deadline its longest job took.
    fn fullness(&self) -> f64 {
        let longest = self.figures.jobs.latency.max_ns;
        longest as f64 / self.task.deadline_ns.max(1) as f64
    }
}

/// The section, with its head; empty where no job has a bill.
pub(super) fn section(run: &Run, tasks: &TaskRun, style: &Style) -> Vec<String> {
    let each = tasks.set.tasks.iter().zip(&tasks.tasks).enumerate();
    let billed = each.filter_map(|(index, (task, figures))| {
        let bills = figures
            .bills
            .as_ref()
            .filter(|bills| !bills.worst.is_empty())?;
        Some(Billed {
            index,
            task,
            figures,
            bills,
        })
    });
    let mut billed: Vec<Billed<'_>> = billed.collect();
    billed.sort_by(|a, b| b.fullness().total_cmp(&a.fullness()));
    let late = billed.iter().filter(|it| it.misses() > 0).count();
    let most = match (style.verbose, late) {
        (true, _) => billed.len(),
        // The one that is closest to its deadline.
        (false, 0) => 1,
        (false, late) => late.min(TASKS),
    };
    let mut lines = Vec::new();
    for billed in billed.iter().take(most) {
        if lines.is_empty() {
            lines.push(style.paint(Tone::Bold, "Who took the time"));
        }
        lines.extend(of_task(run, tasks, billed, style));
    }
    if late > most {
        let more = words::plural((late - most) as u64, "more task was", "more tasks were");
        lines.push(style.paint(Tone::Dim, &format!("  {more} late (-v shows all)")));
    }
    lines
}

fn of_task(run: &Run, tasks: &TaskRun, billed: &Billed<'_>, style: &Style) -> Vec<String> {
    let Some(bill) = billed.bills.worst.first() else {
        return Vec::new();
    };
    let name = words::clean(&billed.task.name);
    let head = format!(
        "{name}: {}its longest job with a bill took {}, {}",
        declared(billed.task, bill).map_or_else(String::new, |it| format!("{it}; ")),
        words::duration(bill.taken_ns()),
        against(
            bill.taken_ns(),
            billed.task.deadline_ns.saturating_add(bill.more_ns)
        )
    );
    let room = style.columns().saturating_sub(4);
    let mut lines = Vec::new();
    for line in wrap(&head, room) {
        lines.push(format!("  {line}"));
    }
    let most = if style.verbose { usize::MAX } else { ROWS };
    lines.extend(
        rows(run, tasks, (billed.task, bill), most)
            .into_iter()
            .map(|line| format!("    {}", cut(&line, room))),
    );
    if style.verbose {
        lines.extend(gantt::text(run, tasks, (billed.index, bill), style));
    }
    if billed.bills.explained > 1 {
        let text = of_all(run, tasks, billed);
        let wrapped = wrap(&text, room);
        lines.extend(
            wrapped
                .iter()
                .map(|line| format!("    {}", style.paint(Tone::Dim, line))),
        );
    }
    lines
}

/// That a job executed for longer than its task declares.
pub(super) fn declared(task: &Task, bill: &JobBill) -> Option<String> {
    let own_ns = bill.beyond_declared(task.execution_ns)?;
    Some(format!(
        "its own work took {}, its wcet is {}",
        words::duration(own_ns),
        words::duration(task.execution_ns?)
    ))
}

fn against(response_ns: u64, deadline_ns: u64) -> String {
    match response_ns.checked_sub(deadline_ns) {
        Some(over) if over > 0 => format!("{} more than its deadline", words::duration(over)),
        _ => format!("of {} until its deadline", words::duration(deadline_ns)),
    }
}

/// The rows of a bill, the dearest first.
fn rows(run: &Run, tasks: &TaskRun, (task, bill): (&Task, &JobBill), most: usize) -> Vec<String> {
    let micros = |ns: u64| format!("{:>11} µs", words::micros(ns as f64));
    let mut lines: Vec<String> = Vec::new();
    for row in bill.rows.iter().take(most) {
        lines.push(format!(
            "{}  {}",
            micros(row.ns),
            who(run, tasks, task, row)
        ));
    }
    let rest = bill
        .rows
        .get(most.min(bill.rows.len())..)
        .unwrap_or_default();
    if !rest.is_empty() {
        let sum: u64 = rest.iter().map(|row| row.ns).sum();
        let others = words::plural(rest.len() as u64, "other cause", "other causes");
        lines.push(format!("{}  {others}", micros(sum)));
    }
    lines
}

/// Who took the time of a row: a task of the set is called so.
pub(crate) fn who(run: &Run, tasks: &TaskRun, task: &Task, row: &BillRow) -> String {
    if row.cause == Cause::NotReleased {
        return not_released(tasks, task);
    }
    let of_set = row.by.iter().find_map(|by| {
        let at = run
            .threads
            .iter()
            .position(|thread| thread.tid.unsigned_abs() == by.tid)?;
        tasks.set.tasks.get(at)
    });
    named(&row.cause, of_set.map(|task| task.name.as_str()))
}

/// What a job waited for between its arrival and its release.
pub(super) fn not_released(tasks: &TaskRun, task: &Task) -> String {
    match task.wake {
        Wake::Timer { .. } => "its jitter".to_owned(),
        Wake::After { task: before, .. } => {
            let before = tasks.set.tasks.get(before);
            let before = before.map_or("", |before| before.name.as_str());
            let jitter = if task.jitter_ns > 0 {
                ", and its jitter"
            } else {
                ""
            };
            format!("until the task {before} had ended{jitter}")
        }
    }
}

fn named(cause: &Cause, of_set: Option<&str>) -> String {
    match (cause, of_set) {
        (
            Cause::Thread {
                policy, priority, ..
            },
            Some(task),
        ) => {
            format!("preempted by the task {task}, {policy} {priority}")
        }
        (Cause::FairShare { .. }, Some(task)) => format!("shared its CPU with the task {task}"),
        (
            Cause::Inversion {
                lock,
                holder,
                meanwhile: did,
            }
            | Cause::Lock {
                lock,
                holder: Some(holder),
                meanwhile: did,
            },
            _,
        ) => {
            let lock = called(lock);
            format!("blocked on {lock} held by {holder}{}", meanwhile(did))
        }
        (
            Cause::Lock {
                lock, holder: None, ..
            },
            _,
        ) => format!("blocked on {}", called(lock)),
        _ => name(cause),
    }
}

/// A lock by its name; an address says nothing.
fn called(lock: &str) -> String {
    match lock.is_empty() || lock.starts_with("0x") {
        true => "a lock".to_owned(),
        false => format!("lock {lock}"),
    }
}

/// Who took the time, in a column.
pub(super) fn in_short(cause: &Cause) -> String {
    match cause {
        Cause::Thread { task, .. } | Cause::FairShare { task } => task.clone(),
        Cause::Inversion {
            lock,
            holder,
            meanwhile: did,
        }
        | Cause::Lock {
            lock,
            holder: Some(holder),
            meanwhile: did,
        } => {
            let lock = called(lock);
            match did {
                Some(Meanwhile::Preempted { task, .. }) => {
                    format!("{lock} held by {holder}, behind {task}")
                }
                _ => format!("{lock} held by {holder}"),
            }
        }
        _ => name(cause),
    }
}

/// What took the time of all late jobs.
fn of_all(run: &Run, tasks: &TaskRun, billed: &Billed<'_>) -> String {
    let bills = billed.bills;
    let total: u64 = bills.causes.iter().map(|cause| cause.total_ns).sum();
    let is_task = |cause: &Cause| match cause {
        Cause::Thread { task, .. } | Cause::FairShare { task } => {
            let known = tasks
                .set
                .tasks
                .iter()
                .position(|it| kept(&it.name) == *task);
            known.filter(|at| run.threads.get(*at).is_some())
        }
        _ => None,
    };
    let each = bills.causes.iter().take(CAUSES).map(|cause| {
        let of_set = is_task(&cause.cause).and_then(|at| tasks.set.tasks.get(at));
        let what = match cause.cause {
            Cause::NotReleased => not_released(tasks, billed.task),
            _ => named(&cause.cause, of_set.map(|task| task.name.as_str())),
        };
        format!(
            "{what} {:.0} %",
            cause.total_ns as f64 / total.max(1) as f64 * 100.0
        )
    });
    let each: Vec<String> = each.collect();
    let without = match bills.unexplained {
        0 => String::new(),
        some => format!("; {} without a bill", words::count(some)),
    };
    format!(
        "all {} late jobs: {}{without}",
        words::count(bills.explained),
        each.join(", ")
    )
}

/// A name as the kernel keeps it.
pub(super) fn kept(name: &str) -> String {
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}
