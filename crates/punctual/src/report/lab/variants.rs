//! Several commands on the same machine: a table for each machine and figure, with a row for
//! each load and a column for each command.

use punctual_stats::format::count;

use super::super::style::{Style, Tone};
use super::super::table::{self, Cell};
use super::{Spread, WHAT_IT_SHOWS, evidence_of, kernel_lines, names, paragraph, spread};
use crate::record::lab::{Lab, LabCell};

/// What is shown of each cell.
const FIGURES: [(&str, fn(&Spread) -> u64); 3] = [
    ("mean", |found| found.mean_ns.round() as u64),
    ("p99", |found| found.p99_ns),
    ("max", |found| found.max_ns),
];

/// Said where work of loads is shown.
const WORK: &str = "Work of the load: what it got done for each virtual second beside the command, \
     as a share of what it got done beside the one that left it most. Beginning and end of the \
     command are in it.";

/// Said where a command is left out of the comparison.
const APART: &str = "measures something else and is not held against the others.";

/// The tables of a lab that has several commands for its machines.
#[must_use]
pub fn variants(lab: &Lab, style: &Style) -> String {
    let mut lines = Vec::new();
    let columns = names(&lab.cells, |cell| &cell.kernel);
    lines.extend(kernel_lines(lab, &columns, style));
    for machine in names(&lab.cells, |cell| machine_of(cell)) {
        let cells: Vec<&LabCell> = lab
            .cells
            .iter()
            .filter(|cell| machine_of(cell) == machine)
            .collect();
        let table = Table::of(&cells);
        for (figure, of) in FIGURES {
            lines.push(String::new());
            lines.push(style.paint(Tone::Bold, &format!("{machine}: {figure} in virtual ns")));
            lines.extend(table::set(&table.rows(of), style.columns(), style));
        }
        if let Some(rows) = table.work() {
            lines.push(String::new());
            lines.push(style.paint(Tone::Bold, &format!("{machine}: work of the load")));
            lines.extend(table::set(&rows, style.columns(), style));
        }
    }
    lines.push(String::new());
    for apart in names(&lab.cells, |cell| apart(cell).unwrap_or_default()) {
        if !apart.is_empty() {
            paragraph(&mut lines, &format!("{apart} {APART}"), style);
        }
    }
    if lab.cells.iter().any(|cell| !cell.loads.is_empty()) {
        paragraph(&mut lines, WORK, style);
    }
    let loads = names(&lab.cells, |cell| &cell.load);
    paragraph(&mut lines, &evidence_of(lab, &columns, &loads), style);
    paragraph(&mut lines, WHAT_IT_SHOWS, style);
    if let Some(place) = &style.report {
        lines.push(format!("Runs: {}", style.paint(Tone::Plain, place)));
    }
    lines.join("\n") + "\n"
}

fn machine_of(cell: &LabCell) -> &str {
    cell.variant
        .as_ref()
        .map_or(&cell.kernel, |variant| &variant.machine)
}

fn name_of(cell: &LabCell) -> &str {
    cell.variant
        .as_ref()
        .map_or(&cell.kernel, |variant| &variant.name)
}

fn apart(cell: &LabCell) -> Option<&str> {
    let variant = cell.variant.as_ref()?;
    (!variant.ranked).then_some(&*variant.name)
}

/// What one machine was put through.
struct Table<'a> {
    cells: &'a [&'a LabCell],
    variants: Vec<&'a str>,
    loads: Vec<&'a str>,
}

impl<'a> Table<'a> {
    fn of(cells: &'a [&'a LabCell]) -> Self {
        let once = |name: fn(&LabCell) -> &str| {
            let mut found: Vec<&str> = Vec::new();
            for cell in cells {
                if !found.contains(&name(cell)) {
                    found.push(name(cell));
                }
            }
            found
        };
        Self {
            cells,
            variants: once(name_of),
            loads: once(|cell| &cell.load),
        }
    }

    fn at(&self, variant: &str, load: &str) -> impl Iterator<Item = &'a LabCell> {
        let cells = self.cells.iter().copied();
        cells.filter(move |cell| name_of(cell) == variant && cell.load == load)
    }

    fn head(&self) -> Vec<Cell> {
        let names = std::iter::once("load").chain(self.variants.iter().copied());
        names.map(|name| Cell::toned(name, Tone::Bold)).collect()
    }

    /// A row for each load, and who has the lowest figure in it.
    fn rows(&self, figure: fn(&Spread) -> u64) -> Vec<Vec<Cell>> {
        let ranked = |variant: &str| {
            let of = |cell: &&&LabCell| name_of(cell) == variant;
            self.cells
                .iter()
                .find(of)
                .is_none_or(|cell| apart(cell).is_none())
        };
        let mut head = self.head();
        head.push(Cell::toned("lowest", Tone::Bold));
        let mut rows = vec![head];
        for load in &self.loads {
            let mut row = vec![Cell::new(*load)];
            let mut lowest: Vec<&str> = Vec::new();
            let mut least = u64::MAX;
            for variant in &self.variants {
                let Some(value) = spread(self.at(variant, load)).map(|found| figure(&found)) else {
                    row.push(Cell::toned("-", Tone::Void));
                    continue;
                };
                row.push(Cell::new(count(value)));
                if ranked(variant) && value <= least {
                    if value < least {
                        lowest.clear();
                    }
                    lowest.push(variant);
                    least = value;
                }
            }
            row.push(Cell::new(lowest.join(", ")));
            rows.push(row);
        }
        rows
    }

    /// A row for each load, and how much of it got done beside each command.
    fn work(&self) -> Option<Vec<Vec<Cell>>> {
        let mut rows = vec![self.head()];
        for load in &self.loads {
            let rates: Vec<Option<f64>> = self
                .variants
                .iter()
                .map(|variant| rate(self.at(variant, load)))
                .collect();
            let most = rates.iter().flatten().copied().fold(0.0, f64::max);
            if most <= 0.0 {
                continue;
            }
            let mut row = vec![Cell::new(*load)];
            row.extend(rates.into_iter().map(|rate| match rate {
                Some(rate) => Cell::new(format!("{:.2} %", 100.0 * rate / most)),
                None => Cell::toned("-", Tone::Void),
            }));
            rows.push(row);
        }
        (rows.len() > 1).then_some(rows)
    }
}

/// The first load's work for each second, in the middle of all seeds.
fn rate<'a>(cells: impl Iterator<Item = &'a LabCell>) -> Option<f64> {
    let rates: Vec<f64> = cells
        .filter_map(|cell| cell.loads.first())
        .map(|load| load.rate)
        .collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}
