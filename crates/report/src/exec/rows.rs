//! The table of tasks: a row for each, while they run and afterwards.

use punctual_record::Run;
use punctual_record::live::LiveTask;
use punctual_record::taskset::{TaskPolicy, TaskRun};
use punctual_stats::histogram::Histogram;

use crate::draw::text::shorten;
use crate::style::{Style, Tone};
use crate::table::{self, Cell};
use crate::words;

/// What is shown of a task. Times are from the arrival of a job to its end, in ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskRow {
    /// Its name.
    pub name: String,
    /// `F 80`, `RR 10`, `DL`, or the nice value.
    pub policy: String,
    /// Its CPUs.
    pub cpus: String,
    /// Jobs that ended.
    pub jobs: u64,
    /// A job must end within this time.
    pub deadline_ns: u64,
    /// Of the last job; absent where the set has ended.
    pub current_ns: Option<u64>,
    /// The shortest.
    pub best_ns: Option<u64>,
    /// The 99.9th percentile, where there are jobs enough.
    pub p999_ns: Option<u64>,
    /// The longest.
    pub worst_ns: Option<u64>,
    /// What the analysis bounds it by.
    pub bound_ns: Option<u64>,
    /// Whether a job took longer than that.
    pub is_beyond: bool,
    /// The latest start after a release.
    pub wake_up_ns: Option<u64>,
    /// Jobs that ended after their deadlines.
    pub late: u64,
    /// Jobs that were never started.
    pub skipped: u64,
    /// What took most of the longest job, but its own work.
    pub taken_by: Option<String>,
    /// Its share of a CPU.
    pub cpu_share: Option<f64>,
}

/// The rows of a run.
#[must_use]
pub fn rows(run: &Run, tasks: &TaskRun) -> Vec<TaskRow> {
    let each = tasks.set.tasks.iter().zip(&tasks.tasks);
    let each = each.zip(&run.threads).enumerate();
    let beyond = tasks.beyond_bounds();
    let each = each.map(|(index, ((task, figures), thread))| {
        let jobs = Histogram::try_from(&figures.jobs.latency).unwrap_or_default();
        let share = |cpu_ns: u64| cpu_ns as f64 / run.measured_ns.max(1) as f64;
        TaskRow {
            name: task.name.clone(),
            policy: policy(task.policy),
            cpus: cpus(&task.cpus),
            jobs: jobs.count(),
            deadline_ns: task.deadline_ns,
            current_ns: None,
            best_ns: jobs.min(),
            p999_ns: jobs.supported_quantile(0.999),
            worst_ns: jobs.max(),
            bound_ns: tasks.bound_ns(index),
            is_beyond: beyond.contains(&index),
            wake_up_ns: (thread.latency.count > 0).then_some(thread.latency.max_ns),
            late: figures.jobs.late,
            skipped: figures.jobs.missed,
            taken_by: figures
                .bills
                .as_ref()
                .and_then(|bills| bills.worst.first()?.taken_by())
                .map(|row| super::bills::in_short(&row.cause)),
            cpu_share: figures.cpu_ns.map(share),
        }
    });
    each.collect()
}

/// The rows of a set that is being executed.
#[must_use]
pub fn live_rows(tasks: &[LiveTask]) -> Vec<TaskRow> {
    let each = tasks.iter().map(|task| TaskRow {
        name: task.name.clone(),
        policy: policy(task.policy),
        cpus: cpus(&task.cpus),
        jobs: task.jobs,
        deadline_ns: task.deadline_ns,
        current_ns: task.current_ns,
        best_ns: task.best_ns,
        p999_ns: task.p999_ns,
        worst_ns: task.worst_ns,
        bound_ns: task.bound_ns,
        is_beyond: task.worst_ns > task.bound_ns && task.bound_ns.is_some(),
        wake_up_ns: task.wake_up_ns,
        late: task.late,
        skipped: task.skipped,
        taken_by: task.taken_by.as_ref().map(super::bills::in_short),
        cpu_share: None,
    });
    each.collect()
}

fn cpus(cpus: &[usize]) -> String {
    match cpus {
        [] => "all".to_owned(),
        some => punctual_record::cpu_list(some),
    }
}

/// A policy in a few characters.
#[must_use]
pub fn policy(policy: TaskPolicy) -> String {
    match policy {
        TaskPolicy::Fifo { priority } => format!("F {priority}"),
        TaskPolicy::Rr { priority } => format!("RR {priority}"),
        TaskPolicy::Deadline { .. } => "DL".to_owned(),
        TaskPolicy::Other { nice } => format!("nice {nice}"),
    }
}

/// A column: its head, what goes first where the table is too wide (the highest), its cell.
struct Column {
    head: &'static str,
    rank: u8,
    cell: fn(&TaskRow) -> Cell,
}

fn time(ns: Option<u64>) -> Cell {
    Cell::new(ns.map_or_else(|| "-".to_owned(), |ns| words::micros(ns as f64)))
}

fn count(count: u64) -> Cell {
    Cell::new(words::short_count(count))
}

/// What a job had left of its deadline.
fn left(row: &TaskRow, ns: Option<u64>) -> Cell {
    let Some(ns) = ns else {
        return Cell::new("-");
    };
    let micros = |ns: u64| words::micros(ns as f64);
    match row.deadline_ns.checked_sub(ns) {
        Some(spare) => Cell::new(micros(spare)),
        None => Cell::toned(format!("-{}", micros(ns - row.deadline_ns)), Tone::Bad),
    }
}

fn bad(count: u64) -> Cell {
    let text = words::short_count(count);
    match count {
        0 => Cell::new(text),
        _ => Cell::toned(text, Tone::Bad),
    }
}

const COLUMNS: [Column; 15] = [
    Column {
        head: "task",
        rank: 0,
        cell: |row| Cell::new(words::clean(&row.name)),
    },
    Column {
        head: "sched",
        rank: 0,
        cell: |row| Cell::new(row.policy.clone()),
    },
    Column {
        head: "CPU",
        rank: 1,
        cell: |row| Cell::new(row.cpus.clone()),
    },
    Column {
        head: "jobs",
        rank: 0,
        cell: |row| count(row.jobs),
    },
    Column {
        head: "deadline",
        rank: 4,
        cell: |row| time(Some(row.deadline_ns)),
    },
    Column {
        head: "spare",
        rank: 0,
        cell: |row| left(row, row.worst_ns),
    },
    Column {
        head: "current",
        rank: 2,
        cell: |row| time(row.current_ns),
    },
    Column {
        head: "best",
        rank: 4,
        cell: |row| time(row.best_ns),
    },
    Column {
        head: "p99.9",
        rank: 5,
        cell: |row| time(row.p999_ns),
    },
    Column {
        head: "worst",
        rank: 0,
        cell: |row| time(row.worst_ns),
    },
    Column {
        head: "bound",
        rank: 3,
        cell: |row| match row.is_beyond {
            true => Cell::toned(time(row.bound_ns).text, Tone::Unsure),
            false => time(row.bound_ns),
        },
    },
    Column {
        head: "determ",
        rank: 8,
        cell: |row| {
            time(
                row.worst_ns
                    .zip(row.best_ns)
                    .map(|(worst, best)| worst - best),
            )
        },
    },
    Column {
        head: "woke",
        rank: 7,
        cell: |row| time(row.wake_up_ns),
    },
    Column {
        head: "late",
        rank: 0,
        cell: |row| bad(row.late),
    },
    Column {
        head: "skipped",
        rank: 0,
        cell: |row| bad(row.skipped),
    },
];

/// A column of its own, after the others: only where it is known.
const SHARE: Column = Column {
    head: "CPU %",
    rank: 9,
    cell: |row| {
        let share = row.cpu_share.map(|share| format!("{:.1}", share * 100.0));
        Cell::new(share.unwrap_or_else(|| "-".to_owned()))
    },
};

/// The most of its letters that are shown: a lock and its holder have room.
const LETTERS: usize = 24;

/// The last column.
const TAKEN_BY: Column = Column {
    head: "most by",
    rank: 6,
    cell: |row| {
        let by = words::clean(row.taken_by.as_deref().unwrap_or(""));
        Cell::new(shorten(&by, LETTERS))
    },
};

/// The table, narrow enough for the terminal: the least important columns go first.
pub(crate) fn table(rows: &[TaskRow], style: &Style) -> Vec<String> {
    let live = rows.iter().any(|row| row.current_ns.is_some());
    let shares = rows.iter().any(|row| row.cpu_share.is_some());
    let mut columns: Vec<&Column> = COLUMNS.iter().collect();
    if shares {
        columns.push(&SHARE);
    }
    if rows.iter().any(|row| row.taken_by.is_some()) {
        columns.push(&TAKEN_BY);
    }
    columns.retain(|column| live || column.head != "current");
    let cells = |columns: &[&Column]| {
        let mut lines = vec![
            columns
                .iter()
                .map(|column| Cell::toned(column.head, Tone::Dim))
                .collect::<Vec<_>>(),
        ];
        let row = |row: &TaskRow| columns.iter().map(|column| (column.cell)(row)).collect();
        lines.extend(rows.iter().map(row));
        lines
    };
    let room = style.columns();
    let mut set = cells(&columns);
    while table::width(&set, 1) > room {
        let Some(rank) = columns
            .iter()
            .map(|column| column.rank)
            .max()
            .filter(|rank| *rank > 0)
        else {
            break;
        };
        columns.retain(|column| column.rank != rank);
        set = cells(&columns);
    }
    table::set(&set, room, style)
}
