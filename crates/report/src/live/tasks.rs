//! What is seen while a set of tasks is executed.

use super::{progress, said};
use crate::exec::{TaskRow, live_rows, table};
use crate::style::{Style, Tone, cut, wrap};
use crate::words;
use punctual_record::live::LiveTasks;

/// The order of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskOrder {
    /// As in the set.
    #[default]
    Set,
    /// The least spare time first.
    Spare,
    /// The longest response first.
    Worst,
    /// The most late and skipped jobs first.
    Late,
}

impl TaskOrder {
    /// The order that a key asks for.
    #[must_use]
    pub fn of_key(key: u8) -> Option<Self> {
        match key {
            b'n' => Some(Self::Set),
            b's' => Some(Self::Spare),
            b'w' => Some(Self::Worst),
            b'l' => Some(Self::Late),
            _ => None,
        }
    }

    fn sort(self, rows: &mut [TaskRow]) {
        let worst = |row: &TaskRow| row.worst_ns.unwrap_or(0);
        match self {
            Self::Set => {}
            Self::Spare => {
                rows.sort_by_key(|row| i128::from(row.deadline_ns) - i128::from(worst(row)))
            }
            Self::Worst => rows.sort_by_key(|row| std::cmp::Reverse(worst(row))),
            Self::Late => {
                rows.sort_by_key(|row| std::cmp::Reverse(row.late.saturating_add(row.skipped)));
            }
        }
    }
}

/// The block that is redrawn on a terminal; `keys`: whether it is sorted by keys.
#[must_use]
pub fn tasks_lines(view: &LiveTasks, order: TaskOrder, keys: bool, style: &Style) -> Vec<String> {
    let room = style.width.max(20) - 1;
    let name = format!("exec {}", words::clean(&view.name));
    let mut lines = vec![progress(&name, view.elapsed_ns, view.total_ns, style)];
    let mut tail = Vec::new();
    for note in view.notes.iter().take(2) {
        let wrapped = wrap(&said(note), room).into_iter().take(2);
        tail.extend(wrapped.map(|line| style.paint(Tone::Unsure, &line)));
    }
    if keys {
        let text = "µs; sort by s spare, w worst, l late, n as in the set";
        tail.push(style.paint(Tone::Dim, text));
    }
    let mut rows = live_rows(&view.tasks);
    order.sort(&mut rows);
    let free = style.height.saturating_sub(tail.len() + 4).max(1);
    let beyond = rows.len().saturating_sub(free);
    rows.truncate(free);
    lines.extend(table(&rows, style));
    if beyond > 0 {
        let more = words::plural(beyond as u64, "more task", "more tasks");
        lines.push(style.paint(Tone::Dim, &format!("and {more}")));
    }
    lines.extend(tail);
    lines.truncate(style.height.max(2) - 1);
    lines.iter().map(|line| cut(line, style.width)).collect()
}

/// A line where nothing can be redrawn.
#[must_use]
pub fn tasks_plain_line(view: &LiveTasks) -> String {
    let jobs: u64 = view.tasks.iter().map(|task| task.jobs).sum();
    let late: u64 = view
        .tasks
        .iter()
        .map(|task| task.late.saturating_add(task.skipped))
        .sum();
    let nearest = view.tasks.iter().filter_map(|task| {
        let share = task.worst_ns? as f64 / task.deadline_ns.max(1) as f64;
        Some((share, task))
    });
    let nearest = nearest.max_by(|a, b| a.0.total_cmp(&b.0));
    let nearest = nearest.map_or_else(String::new, |(_, task)| {
        format!(
            ", nearest to its deadline: {} with {} of {}",
            words::clean(&task.name),
            words::duration(task.worst_ns.unwrap_or(0)),
            words::duration(task.deadline_ns)
        )
    });
    format!(
        "{}  {}, {} late{nearest}",
        words::clock(view.elapsed_ns),
        words::plural(jobs, "job", "jobs"),
        words::count(late)
    )
}
