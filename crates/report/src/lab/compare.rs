//! Two labs cell by cell. In virtual time a difference of one nanosecond is a difference.

use super::super::style::{Style, Tone, wrap};
use super::super::table::{self, Cell};
use super::super::words::{clean, count};
use super::{WHAT_IT_SHOWS, label};
use punctual_record::lab::{CellFigures, Lab, LabCell};
use punctual_record::laboratory::Dependency;

/// A cell that was made in both labs.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// What it is called.
    pub label: String,
    /// The task whose response times these are; absent where they are wake-ups.
    pub task: Option<String>,
    /// Its figures in the first lab.
    pub first: CellFigures,
    /// Its figures in the second.
    pub second: CellFigures,
    /// Whether the guests handed out the same, to the byte.
    pub identical: bool,
}

/// Two labs compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// Cells of both.
    pub pairs: Vec<Pair>,
    /// In what the machines differ.
    pub machines: Vec<String>,
    /// Cells of one alone.
    pub alone: Vec<String>,
}

/// What two machines may differ in.
#[must_use]
pub fn dependency(of: Dependency) -> &'static str {
    match of {
        Dependency::Emulator => "QEMU",
        Dependency::Firmware => "firmware",
        Dependency::Kernel => "kernel",
        Dependency::GuestFiles => "guest's files (this program, or its parameters)",
        Dependency::Command => "command line",
    }
}

/// Pairs the cells of one architecture: by kernel, load and seed; where the labs have one kernel each,
/// and different ones, by load and seed.
#[must_use]
pub fn compare(first: &Lab, second: &Lab) -> Comparison {
    let kernels = |lab: &Lab| {
        let mut names: Vec<String> = lab.cells.iter().map(|c| c.kernel.clone()).collect();
        names.sort();
        names.dedup();
        names
    };
    let (a, b) = (kernels(first), kernels(second));
    let across = a.len() == 1 && b.len() == 1 && a != b;
    // An instruction of one processor is none of another.
    let architecture = |cell: &LabCell| cell.laboratory.as_ref().map(|it| it.architecture);
    let same = |x: &LabCell, y: &LabCell| {
        let is_pair = (across || x.kernel == y.kernel) && x.load == y.load && x.seed == y.seed;
        is_pair && architecture(x) == architecture(y)
    };
    let mut comparison = Comparison::default();
    for cell in &first.cells {
        let other = second.cells.iter().find(|other| same(cell, other));
        let Some((other, figures)) = other
            .map(|other| (other, paired(cell, other)))
            .filter(|(_, figures)| !figures.is_empty())
        else {
            comparison
                .alone
                .push(format!("{} (in the first)", label(cell)));
            continue;
        };
        let prints = [cell, other].map(|cell| cell.laboratory.as_ref().map(|l| &l.fingerprint));
        let identical = match prints {
            [Some(a), Some(b)] => {
                for name in a.differs_in(b).into_iter().map(dependency) {
                    if !comparison.machines.iter().any(|known| known == name) {
                        comparison.machines.push(name.to_owned());
                    }
                }
                a.result_sha256 == b.result_sha256
            }
            _ => false,
        };
        let label = if across {
            format!("{} | {}", label(cell), other.kernel)
        } else {
            label(cell)
        };
        let pairs = figures.into_iter().map(|(task, [first, second])| Pair {
            label: label.clone(),
            task,
            first,
            second,
            identical,
        });
        comparison.pairs.extend(pairs);
    }
    for cell in &second.cells {
        if !first.cells.iter().any(|other| same(other, cell)) {
            comparison
                .alone
                .push(format!("{} (in the second)", label(cell)));
        }
    }
    comparison
}

/// The figures of two cells: of their wake-ups, or of each task that is in both.
fn paired(a: &LabCell, b: &LabCell) -> Vec<(Option<String>, [CellFigures; 2])> {
    if let (Some(a), Some(b)) = (a.figures, b.figures) {
        return vec![(None, [a, b])];
    }
    let each = a.tasks.iter().filter_map(|task| {
        let other = b.tasks.iter().find(|other| other.name == task.name)?;
        Some((Some(task.name.clone()), [task.figures?, other.figures?]))
    });
    each.collect()
}

/// A difference with its sign.
pub(super) fn signed(before: u64, after: u64) -> String {
    match after.cmp(&before) {
        std::cmp::Ordering::Equal => "0".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", count(after - before)),
        std::cmp::Ordering::Less => format!("-{}", count(before - after)),
    }
}

/// The comparison in a table.
#[must_use]
pub fn comparison(comparison: &Comparison, style: &Style) -> String {
    let bold = |text: &str| Cell::toned(text, Tone::Bold);
    let mut rows = vec![vec![
        bold("cell"),
        bold("max A"),
        bold("max B"),
        bold("B-A"),
        bold("p99 B-A"),
        bold("mean B-A"),
    ]];
    let mut cells: Vec<(&str, bool)> = Vec::new();
    for pair in &comparison.pairs {
        let (a, b) = (pair.first, pair.second);
        let name = match &pair.task {
            Some(task) => format!("{}: {}", pair.label, clean(task)),
            None => pair.label.clone(),
        };
        cells.push((&pair.label, pair.identical));
        rows.push(vec![
            Cell::new(name),
            Cell::new(count(a.max_ns)),
            Cell::new(count(b.max_ns)),
            Cell::new(signed(a.max_ns, b.max_ns)),
            Cell::new(signed(a.p99_ns, b.p99_ns)),
            Cell::new(format!("{:+.1}", b.mean_ns - a.mean_ns)),
        ]);
    }
    // The tasks of a cell are together.
    cells.dedup();
    let differ = cells.iter().filter(|(_, identical)| !identical).count();
    let mut lines = table::set(&rows, style.columns(), style);
    lines.push(String::new());
    let mut sentences = vec![match differ {
        0 => "All cells are identical, to the byte.".to_owned(),
        n => format!(
            "{n} of {} cells differ; the others are identical, to the byte.",
            cells.len()
        ),
    }];
    if !comparison.machines.is_empty() {
        sentences.push(format!(
            "The machines differ in: {}.",
            comparison.machines.join(", ")
        ));
    }
    if !comparison.alone.is_empty() {
        sentences.push(format!("Not in both: {}.", comparison.alone.join("; ")));
    }
    sentences.push(WHAT_IT_SHOWS.to_owned());
    for sentence in sentences {
        for line in wrap(&sentence, style.columns().min(88)) {
            lines.push(style.paint(Tone::Plain, &line));
        }
    }
    lines.join("\n") + "\n"
}
