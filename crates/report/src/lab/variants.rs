//! Several commands on the same machine: a table for each machine and figure, with a row for
//! each load and a column for each command.

use punctual_stats::format::count;

use super::super::style::{Style, Tone};
use super::super::table::{self, Cell};
use super::{Spread, WHAT_IT_SHOWS, evidence, kernel_lines, names, paragraph, spread};
use punctual_record::lab::{Lab, LabCell};

/// Name of a figure, and how it is had.
type Figure = (&'static str, fn(&Spread) -> u64);

/// What is shown of each cell.
const FIGURES: [Figure; 3] = [
    ("mean", |found| found.mean_ns.round() as u64),
    ("p99", |found| found.p99_ns),
    ("max", |found| found.max_ns),
];

/// Said where work of loads is shown.
const WORK: &str = "Work of the load: what it got done for each virtual second beside the command, \
     as a share of what it got done beside the one that left it most. Beginning and end of the \
     command are in it.";

/// Said where a command is left out of the comparison.
const APART: &str = "measures something else and is not compared with the others.";

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
    paragraph(&mut lines, &evidence(lab, &columns, &loads), style);
    paragraph(&mut lines, WHAT_IT_SHOWS, style);
    if let Some(place) = &style.report {
        lines.push(format!("Report: {}", style.paint(Tone::Plain, place)));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use punctual_record::Tool;

    fn cell(machine: &str, name: &str, load: &str, figures: [u64; 3], rate: f64) -> LabCell {
        let [mean, p99, max] = figures;
        serde_json::from_value(json!({
            "kernel": format!("{machine} {name}"),
            "load": load,
            "seed": 1,
            "variant": {"machine": machine, "name": name, "ranked": name != "timerlat"},
            "loads": if load == "idle" { json!([]) } else {
                json!([{"name": load, "work": 1, "unit": "forks", "rate": rate}])
            },
            "directory": "x",
            "host_s": 1.0,
            "status": 0,
            "figures": {
                "samples": 5000, "missed": 0, "min_ns": 1, "mean_ns": mean, "p50_ns": mean,
                "p99_ns": p99, "max_ns": max,
            },
        }))
        .expect("a cell")
    }

    fn lab(cells: Vec<LabCell>) -> Lab {
        Lab {
            format: "punctual-lab".to_owned(),
            version: 1,
            tool: Tool::default(),
            command: Vec::new(),
            started: String::new(),
            jobs: 2,
            host_s: 3.0,
            cells,
            proof: None,
        }
    }

    fn words(line: &str) -> String {
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_machine_has_a_table_for_each_figure_and_the_lowest_is_named() {
        let shown = variants(
            &lab(vec![
                cell("rt", "ours", "idle", [4100, 4500, 5000], 0.0),
                cell("rt", "theirs", "idle", [4100, 4600, 4900], 0.0),
                cell("rt", "timerlat", "idle", [3000, 3100, 3200], 0.0),
                cell("rt", "ours", "fork", [4200, 4700, 6000], 990.0),
                cell("rt", "theirs", "fork", [4300, 4800, 6100], 1000.0),
                cell("full", "ours", "idle", [1, 2, 3], 0.0),
            ]),
            &Style::plain(),
        );
        let lines: Vec<String> = shown.lines().map(words).collect();
        let after = |title: &str| {
            let at = lines.iter().position(|line| line == title);
            &lines[at.unwrap_or_else(|| panic!("{title}: {shown}")) + 1..]
        };
        let mean = after("rt: mean in virtual ns");
        assert_eq!(mean[0], "load ours theirs timerlat lowest");
        assert_eq!(mean[1], "idle 4,100 4,100 3,000 ours, theirs");
        assert_eq!(mean[2], "fork 4,200 4,300 - ours");
        assert_eq!(
            after("rt: max in virtual ns")[1],
            "idle 5,000 4,900 3,200 theirs"
        );
        let work = after("rt: work of the load");
        assert_eq!(work[1], "fork 99.00 % 100.00 % -");
        assert_eq!(after("full: p99 in virtual ns")[1], "idle 2 ours");
        let flat = words(&shown);
        assert!(flat.contains("timerlat measures something else"), "{shown}");
        assert!(!shown.contains("full: work"), "{shown}");
    }

    #[test]
    fn of_several_seeds_the_worst_p99_and_max_stand() {
        let mut second = cell("rt", "ours", "idle", [4200, 4400, 5500], 0.0);
        second.seed = 2;
        let shown = variants(
            &lab(vec![
                cell("rt", "ours", "idle", [4100, 4500, 5000], 0.0),
                second,
            ]),
            &Style::plain(),
        );
        for row in ["idle 4,150 ours", "idle 4,500 ours", "idle 5,500 ours"] {
            assert!(
                shown.lines().any(|line| words(line) == row),
                "{row}: {shown}"
            );
        }
    }
}
