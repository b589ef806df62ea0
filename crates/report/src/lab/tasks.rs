//! Task sets on several kernels: the times of each task side by side, beside their bounds.

use super::super::html::parts::{Html, Td, td, td_in};
use super::super::style::{Style, Tone};
use super::super::table::{self, Cell};
use super::super::words::{clean, count, micros, plural, short_count};
use super::{WHAT_IT_SHOWS, effort, kernel_lines, label, names, paragraph, short, verdict_of};
use punctual_record::lab::{ChainTime, Lab, LabCell, LabChain, LabTask};

/// Tasks that are named where jobs took longer than their bounds.
const NAMED: usize = 6;

/// What the columns are.
const COLUMNS_ARE: &str = "Response times in virtual µs, from the arrival of a job to its end. Bound: no \
     job takes longer by the set's analysis, with what the kernel takes as measured in the guest. Late: \
     jobs that ended after their deadlines, or were skipped.";

/// What all seeds of one kernel and load saw of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    best_ns: Option<u64>,
    p999_ns: Option<u64>,
    worst_ns: Option<u64>,
    bound_ns: Option<u64>,
    late: u64,
    is_beyond: bool,
}

fn seen<'a>(tasks: impl Iterator<Item = &'a LabTask> + Clone) -> Option<Seen> {
    let figures = tasks.clone().filter_map(|task| task.figures);
    let missed = figures.clone().map(|figures| figures.missed);
    Some(Seen {
        best_ns: figures.clone().map(|figures| figures.min_ns).min(),
        // Percentiles aren't averaged: the worst of the seeds stands.
        p999_ns: tasks.clone().filter_map(|task| task.p999_ns).max(),
        worst_ns: figures.map(|figures| figures.max_ns).max(),
        bound_ns: tasks.clone().map(|task| task.bound_ns).max()?,
        late: tasks
            .clone()
            .map(|task| task.late)
            .chain(missed)
            .fold(0, u64::saturating_add),
        is_beyond: { tasks }.any(LabTask::is_beyond),
    })
}

/// A column for each kernel: its head, and what goes first where the table is too wide (the highest).
struct Column {
    head: &'static str,
    rank: u8,
    cell: fn(&Seen) -> Cell,
}

fn time(ns: Option<u64>) -> Cell {
    match ns {
        Some(ns) => Cell::new(micros(ns as f64)),
        None => Cell::toned("-", Tone::Void),
    }
}

const FIGURES: [Column; 5] = [
    Column {
        head: "best",
        rank: 3,
        cell: |seen| time(seen.best_ns),
    },
    Column {
        head: "p99.9",
        rank: 4,
        cell: |seen| time(seen.p999_ns),
    },
    Column {
        head: "worst",
        rank: 0,
        cell: |seen| time(seen.worst_ns),
    },
    Column {
        head: "bound",
        rank: 2,
        cell: |seen| match seen.is_beyond {
            true => Cell::toned(time(seen.bound_ns).text, Tone::Unsure),
            false => time(seen.bound_ns),
        },
    },
    Column {
        head: "late",
        rank: 0,
        cell: |seen| match seen.late {
            0 => Cell::new("0"),
            late => Cell::toned(short_count(late), Tone::Bad),
        },
    },
];

/// The rank of the deadlines.
const DEADLINES: u8 = 5;

/// One load: its cells, the kernels, the tasks.
struct Part<'a> {
    load: &'a str,
    kernels: Vec<&'a str>,
    cells: Vec<&'a LabCell>,
}

impl<'a> Part<'a> {
    fn of(lab: &'a Lab, load: &'a str) -> Self {
        let cells = lab.cells.iter().filter(|cell| cell.load == load);
        Self {
            load,
            kernels: names(&lab.cells, |cell| &cell.kernel),
            cells: cells.collect(),
        }
    }

    fn on(&self, kernel: &str) -> impl Iterator<Item = &'a LabCell> + Clone {
        let kernel = kernel.to_owned();
        let cells = self.cells.clone().into_iter();
        cells.filter(move |cell| cell.kernel == kernel)
    }

    /// The tasks in the order of the set, with their deadlines.
    fn tasks(&self) -> Vec<(&'a str, u64)> {
        once(self.cells.iter().flat_map(|cell| &cell.tasks), |task| {
            (task.name.as_str(), task.deadline_ns)
        })
    }

    fn seen(&self, kernel: &str, task: &str) -> Option<Seen> {
        let tasks = self.on(kernel).flat_map(|cell| &cell.tasks);
        let own: Vec<&LabTask> = tasks.filter(|it| it.name == task).collect();
        seen(own.into_iter())
    }

    /// `idle: rt PASS, standard FAIL`
    fn title(&self) -> String {
        let each = self.kernels.iter().map(|kernel| {
            let word = verdict_of(self.on(kernel)).map_or("no result", |outcome| outcome.word());
            format!("{} {word}", short(kernel))
        });
        format!("{}: {}", self.load, each.collect::<Vec<_>>().join(", "))
    }

    fn rows(&self, most: u8) -> Vec<Vec<Cell>> {
        let columns: Vec<&Column> = FIGURES.iter().filter(|it| it.rank <= most).collect();
        let dim = |text: &str| Cell::toned(text, Tone::Dim);
        let mut top = vec![Cell::new("")];
        let mut head = vec![dim("task")];
        if most >= DEADLINES {
            top.push(Cell::new(""));
            head.push(dim("deadline"));
        }
        for kernel in &self.kernels {
            top.push(Cell::toned(short(kernel), Tone::Bold));
            top.extend(columns.iter().skip(1).map(|_| Cell::new("")));
            head.extend(columns.iter().map(|column| dim(column.head)));
        }
        let mut rows = vec![top, head];
        for (name, deadline_ns) in self.tasks() {
            let mut row = vec![Cell::new(clean(name))];
            if most >= DEADLINES {
                row.push(time(Some(deadline_ns)));
            }
            for kernel in &self.kernels {
                let seen = self.seen(kernel, name);
                row.extend(columns.iter().map(|column| match &seen {
                    Some(seen) => (column.cell)(seen),
                    None => Cell::toned("-", Tone::Void),
                }));
            }
            rows.push(row);
        }
        rows
    }

    fn chains(&self) -> Vec<(&'a str, ChainTime, Option<u64>)> {
        once(self.cells.iter().flat_map(|cell| &cell.chains), |chain| {
            (chain.name.as_str(), chain.of, chain.limit_ns)
        })
    }

    /// The longest of a chain on a kernel, its bound, and how many were too long.
    fn chain(&self, kernel: &str, name: &str, of: ChainTime) -> [Option<u64>; 3] {
        let chains = self.on(kernel).flat_map(|cell| &cell.chains);
        let own: Vec<&LabChain> = chains.filter(|it| it.name == name && it.of == of).collect();
        [
            own.iter().filter_map(|it| it.max_ns).max(),
            own.iter().map(|it| it.bound_ns).max().flatten(),
            own.iter().map(|it| it.longer).reduce(u64::saturating_add),
        ]
    }

    fn chain_rows(&self) -> Vec<Vec<Cell>> {
        let dim = |text: &str| Cell::toned(text, Tone::Dim);
        let empty = || Cell::new("");
        let mut top = vec![empty(), empty(), empty()];
        let mut head = vec![dim("chain"), empty(), dim("limit")];
        for kernel in &self.kernels {
            top.extend([Cell::toned(short(kernel), Tone::Bold), empty(), empty()]);
            head.extend(["worst", "bound", "longer"].map(dim));
        }
        let mut rows = vec![top, head];
        let mut before = "";
        for (name, of, limit_ns) in self.chains() {
            let shown = if name == before { "" } else { name };
            before = name;
            let mut row = vec![Cell::new(clean(shown)), Cell::new(word(of)), time(limit_ns)];
            for kernel in &self.kernels {
                let [worst_ns, bound_ns, longer] = self.chain(kernel, name, of);
                row.extend([time(worst_ns), time(bound_ns)]);
                row.push(match longer {
                    Some(0) => Cell::new("0"),
                    Some(longer) => Cell::toned(short_count(longer), Tone::Bad),
                    None => Cell::toned("-", Tone::Void),
                });
            }
            rows.push(row);
        }
        rows
    }
}

/// What all have, each once, in the order of their first coming.
fn once<T, K: PartialEq>(all: impl Iterator<Item = T>, key: impl Fn(T) -> K) -> Vec<K> {
    let mut found = Vec::new();
    for key in all.map(key) {
        if !found.contains(&key) {
            found.push(key);
        }
    }
    found
}

fn word(of: ChainTime) -> &'static str {
    match of {
        ChainTime::Reaction => "reaction",
        ChainTime::Age => "age",
    }
}

/// Whether sets were executed.
pub(super) fn executed(lab: &Lab) -> bool {
    lab.cells.iter().any(|cell| !cell.tasks.is_empty())
}

/// The tables of a lab that executed sets: one for each load.
pub(super) fn tables(lab: &Lab, style: &Style) -> String {
    let kernels = names(&lab.cells, |cell| &cell.kernel);
    let mut lines = kernel_lines(lab, &kernels, style);
    for load in names(&lab.cells, |cell| &cell.load) {
        let part = Part::of(lab, load);
        lines.push(String::new());
        lines.push(style.paint(Tone::Bold, &part.title()));
        let room = style.columns();
        let mut rows = part.rows(DEADLINES);
        for most in (0..DEADLINES).rev() {
            if table::width(&rows, 1) <= room {
                break;
            }
            rows = part.rows(most);
        }
        lines.extend(table::set(&rows, room, style));
        if !part.chains().is_empty() {
            lines.push(String::new());
            lines.extend(table::set(&part.chain_rows(), room, style));
        }
    }
    lines.push(String::new());
    for sentence in [&bounds(lab), &evidence(lab), COLUMNS_ARE, WHAT_IT_SHOWS] {
        paragraph(&mut lines, sentence, style);
    }
    if let Some(place) = &style.report {
        lines.push(format!("Report: {}", style.paint(Tone::Plain, place)));
    }
    lines.join("\n") + "\n"
}

/// Whether the bounds held.
fn bounds(lab: &Lab) -> String {
    let all = || {
        lab.cells
            .iter()
            .flat_map(|cell| cell.tasks.iter().map(move |it| (cell, it)))
    };
    let beyond: Vec<(&LabCell, &LabTask)> = all().filter(|(_, task)| task.is_beyond()).collect();
    let bounded = all().filter(|(_, task)| task.bound_ns.is_some()).count();
    if bounded == 0 {
        return "No task has a bound: punctual exec --analyse says why.".to_owned();
    }
    if beyond.is_empty() {
        return "No job took longer than its bound.".to_owned();
    }
    let each = beyond.iter().take(NAMED).filter_map(|(cell, task)| {
        Some(format!(
            "{}: {}: {} ns where the analysis allows {}",
            label(cell),
            clean(&task.name),
            count(task.longest_ns()?),
            count(task.bound_ns?)
        ))
    });
    let mut each: Vec<String> = each.collect();
    if beyond.len() > NAMED {
        let more = (beyond.len() - NAMED) as u64;
        each.push(format!("{} more", plural(more, "task", "tasks")));
    }
    format!(
        "Jobs took longer than any can by the analysis: something happened that its model does not \
         know. {}.",
        each.join("; ")
    )
}

/// How much evidence there is, and what it took.
fn evidence(lab: &Lab) -> String {
    let jobs = lab.cells.iter().flat_map(|cell| &cell.tasks);
    let jobs = jobs.map(|task| task.figures.map_or(0, |figures| figures.samples));
    let least = jobs.min().unwrap_or(0);
    format!(
        "Each figure stands on at least {}. {}",
        plural(least, "job", "jobs"),
        effort(lab)
    )
}

/// The same as sections of a page, in ns.
pub(super) fn section(html: &mut Html, lab: &Lab) {
    if !executed(lab) {
        return;
    }
    html.heading("tasks", "Tasks on each machine");
    let what = COLUMNS_ARE.replace("virtual µs", "virtual ns");
    html.text("p", "note", &what);
    html.text("p", "note", &bounds(lab));
    for load in names(&lab.cells, |cell| &cell.load) {
        let part = Part::of(lab, load);
        let mut head = vec!["Task".to_owned(), "Deadline".to_owned()];
        for kernel in &part.kernels {
            let heads = FIGURES
                .iter()
                .map(|it| format!("{} {}", short(kernel), it.head));
            head.extend(heads);
        }
        let rows = part.tasks().into_iter().map(|(name, deadline_ns)| {
            let mut cells = vec![td(clean(name)), td(count(deadline_ns))];
            for kernel in &part.kernels {
                cells.extend(cells_of(part.seen(kernel, name)));
            }
            ("", cells)
        });
        table_of(html, &part.title(), &head, &rows.collect::<Vec<_>>());
        if part.chains().is_empty() {
            continue;
        }
        let mut head = vec!["Chain".to_owned(), "Time".to_owned(), "Limit".to_owned()];
        for kernel in &part.kernels {
            head.extend(["worst", "bound", "longer"].map(|it| format!("{} {it}", short(kernel))));
        }
        let rows = part.chains().into_iter().map(|(name, of, limit_ns)| {
            let mut cells = vec![td(clean(name)), td(word(of)), optional(limit_ns)];
            for kernel in &part.kernels {
                cells.extend(part.chain(kernel, name, of).map(optional));
            }
            ("", cells)
        });
        let title = format!("{}: chains", part.load);
        table_of(html, &title, &head, &rows.collect::<Vec<_>>());
    }
}

fn table_of(html: &mut Html, title: &str, head: &[String], rows: &[(&str, Vec<Td>)]) {
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    html.table("figures tight", title, &head, rows);
}

fn optional(value: Option<u64>) -> Td {
    value.map_or_else(|| td_in("dim", "–"), |value| td(count(value)))
}

fn cells_of(seen: Option<Seen>) -> [Td; 5] {
    let Some(seen) = seen else {
        return std::array::from_fn(|_| td_in("dim", "–"));
    };
    let bound = match seen.is_beyond {
        true => td_in("bad", seen.bound_ns.map_or_else(String::new, count)),
        false => optional(seen.bound_ns),
    };
    let late = match seen.late {
        0 => td("0"),
        late => td_in("bad", count(late)),
    };
    let [best, p999, worst] = [seen.best_ns, seen.p999_ns, seen.worst_ns].map(optional);
    [best, p999, worst, bound, late]
}
