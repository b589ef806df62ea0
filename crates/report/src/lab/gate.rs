//! A lab beside an earlier one of the same cells: which figures grew by more than is allowed, and in which
//! function.

use std::collections::BTreeMap;

use super::super::formats::xml::Xml;
use super::super::style::{Style, Tone, wrap};
use super::super::table::{self, Cell};
use super::super::words::{clean, count, plural};
use super::compare::{dependency, signed};
use super::junit::start_case;
use super::without::no_result;
use super::{WHAT_IT_SHOWS, label};
use punctual_record::lab::{CellFigures, Lab, LabCell, LabOperation, Operation};

/// By how much figures may grow, in virtual ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowance {
    /// The medians are compared.
    pub median: bool,
    /// The worst are.
    pub worst: bool,
    /// Those of each load that is not named.
    pub others_ns: u64,
    /// Those of named loads or operations.
    pub loads_ns: BTreeMap<String, u64>,
}

impl Allowance {
    fn of(&self, load: &str) -> u64 {
        self.loads_ns.get(load).copied().unwrap_or(self.others_ns)
    }

    /// That of an operation, else of its cell.
    fn of_operation(&self, operation: Operation, load: &str) -> u64 {
        let own = self.loads_ns.get(operation.name()).copied();
        own.unwrap_or_else(|| self.of(load))
    }
}

/// A figure of a cell in both labs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateFigure {
    /// Which: `median`, `worst`, with the task before it if there is one; an operation; `end`.
    pub name: String,
    /// In the baseline.
    pub before: u64,
    /// Now.
    pub after: u64,
    /// By how much it may grow.
    pub allowed_ns: u64,
    /// It grew by more than is allowed.
    pub has_grown: bool,
}

/// The function of a worst wake-up's bill whose part grew most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grown {
    /// Its name.
    pub function: String,
    /// Its instructions in the baseline.
    pub before: u64,
    /// Now.
    pub after: u64,
}

/// A cell of the baseline, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateCell {
    /// What it is called.
    pub label: String,
    /// Its figures.
    pub figures: Vec<GateFigure>,
    /// What grew most in its worst wake-up.
    pub grown: Option<Grown>,
    /// Why it can't be compared.
    pub trouble: Option<String>,
}

impl GateCell {
    /// Whether it is as good as before.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.trouble.is_none() && !self.figures.iter().any(|it| it.has_grown)
    }
}

/// Two labs of the same cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gate {
    /// The baseline's cells that have a result.
    pub cells: Vec<GateCell>,
    /// In what the machines differ.
    pub machines: Vec<&'static str>,
}

impl Gate {
    /// Whether all cells are as good as before.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.cells.iter().all(GateCell::passes)
    }
}

/// Compares each cell of the baseline that has a result with the cell in its place.
#[must_use]
pub fn gate(baseline: &[LabCell], now: &Lab, allowance: &Allowance) -> Gate {
    let mut gate = Gate::default();
    for (before, after) in baseline.iter().zip(&now.cells) {
        if let (Some(a), Some(b)) = (&before.laboratory, &after.laboratory) {
            let differs = a.fingerprint.differs_in(&b.fingerprint);
            for name in differs.into_iter().map(dependency) {
                if !gate.machines.contains(&name) {
                    gate.machines.push(name);
                }
            }
        }
        gate.cells.push(cell(before, after, allowance));
    }
    gate
}

fn cell(before: &LabCell, after: &LabCell, allowance: &Allowance) -> GateCell {
    let allowed_ns = allowance.of(&before.load);
    let mut figures = Vec::new();
    let mut add = |name: String, allowed_ns: u64, [before, after]: [u64; 2]| {
        figures.push(GateFigure {
            name,
            before,
            after,
            allowed_ns,
            has_grown: after > before.saturating_add(allowed_ns),
        });
    };
    let mut both = |task: &str, a: &CellFigures, b: &CellFigures| {
        if allowance.median {
            add(format!("{task}median"), allowed_ns, [a.p50_ns, b.p50_ns]);
        }
        if allowance.worst {
            add(format!("{task}worst"), allowed_ns, [a.max_ns, b.max_ns]);
        }
    };
    let mut trouble = after.error.as_ref().map(no_result);
    match (&before.figures, &after.figures) {
        (Some(a), Some(b)) => both("", a, b),
        (Some(_), None) if trouble.is_none() => {
            trouble = Some("it has no figures any more".to_owned());
        }
        _ => {}
    }
    for task in &before.tasks {
        let now = after.tasks.iter().find(|it| it.name == task.name);
        if let (Some(a), Some(b)) = (task.figures, now.and_then(|it| it.figures)) {
            both(&format!("{}: ", clean(&task.name)), &a, &b);
        } else if task.figures.is_some() && trouble.is_none() {
            trouble = Some(format!("{}: no job any more", clean(&task.name)));
        }
    }
    if let Some(cost) = &before.cost {
        for was in &cost.operations {
            let all = after.cost.iter().flat_map(|cost| &cost.operations);
            let is = all
                .filter(|it| it.operation == was.operation)
                .find_map(LabOperation::each);
            match (was.each(), is) {
                (Some(a), Some(b)) => {
                    let allowed_ns = allowance.of_operation(was.operation, &before.load);
                    add(was.operation.name().to_owned(), allowed_ns, [a, b]);
                }
                _ if trouble.is_none() => {
                    trouble = Some(format!("{} was not counted", was.operation.name()));
                }
                _ => {}
            }
        }
    } else if before.figures.is_none()
        && before.tasks.is_empty()
        && let (Some(a), Some(b)) = (&before.laboratory, &after.laboratory)
    {
        // A program without figures: all that it executed, the boot left out.
        let took = |ns: u64, boot_ns: u64| ns.saturating_sub(boot_ns);
        let both = [took(a.virtual_ns, a.boot_ns), took(b.virtual_ns, b.boot_ns)];
        add("end".to_owned(), allowed_ns, both);
    }
    if trouble.is_none() && after.status != before.status && after.status != Some(0) {
        let word = |status: Option<i32>| status.map_or("none".to_owned(), |it| it.to_string());
        let (was, is) = (word(before.status), word(after.status));
        trouble = Some(format!("exit status {is}, {was} in the baseline"));
    }
    // The bill is that of the worst wake-up: it says nothing of other figures.
    let is_worst = |it: &GateFigure| it.has_grown && it.name.ends_with("worst");
    GateCell {
        label: label(before),
        grown: (figures.iter().any(is_worst).then(|| grown(before, after))).flatten(),
        figures,
        trouble,
    }
}

/// The function whose part of the worst wake-up grew most.
fn grown(before: &LabCell, after: &LabCell) -> Option<Grown> {
    let (old, new) = (before.bills.first()?, after.bills.first()?);
    let of_old = |function: &str| {
        let mut rows = old.rows.iter();
        rows.find(|row| row.function == function)
            .map_or(0, |row| row.instructions)
    };
    let changes = new.rows.iter().map(|row| Grown {
        function: row.function.clone(),
        before: of_old(&row.function),
        after: row.instructions,
    });
    changes
        .filter(|it| it.after > it.before)
        .max_by_key(|it| it.after - it.before)
}

/// Why a cell does not pass.
fn failure(cell: &GateCell) -> String {
    if let Some(trouble) = &cell.trouble {
        return trouble.clone();
    }
    let grown = cell.figures.iter().filter(|it| it.has_grown);
    let mut parts: Vec<String> = grown
        .map(|it| {
            format!(
                "{} {} virtual ns, {} in the baseline ({}, allowed +{})",
                it.name,
                count(it.after),
                count(it.before),
                signed(it.before, it.after),
                count(it.allowed_ns)
            )
        })
        .collect();
    parts.extend(cell.grown.as_ref().map(by_function));
    parts.join("; ")
}

fn by_function(grown: &Grown) -> String {
    format!(
        "in the worst wake-up most of it in {}: {} instructions, {} before",
        clean(&grown.function),
        count(grown.after),
        count(grown.before)
    )
}

/// The gate in words: its outcome, the figures that changed, what the machines differ in.
#[must_use]
pub fn gate_text(gate: &Gate, style: &Style) -> String {
    let failed: Vec<&GateCell> = gate.cells.iter().filter(|it| !it.passes()).collect();
    let all = plural(gate.cells.len() as u64, "cell", "cells");
    let headline = match failed.len() {
        0 => format!("PASS: no figure of {all} grew by more than is allowed."),
        1 => format!("FAIL: 1 of {all} is worse than the baseline allows."),
        some => format!("FAIL: {some} of {all} are worse than the baseline allows."),
    };
    let bold = |text: &str| Cell::toned(text, Tone::Bold);
    let heads = ["cell", "figure", "baseline", "now", "growth", "allowed", ""];
    let mut rows = vec![heads.map(bold).to_vec()];
    for cell in &gate.cells {
        for it in cell.figures.iter().filter(|it| it.after != it.before) {
            rows.push(vec![
                Cell::new(cell.label.clone()),
                Cell::new(it.name.clone()),
                Cell::new(count(it.before)),
                Cell::new(count(it.after)),
                Cell::new(signed(it.before, it.after)),
                Cell::new(count(it.allowed_ns)),
                Cell::new(if it.has_grown { "FAIL" } else { "" }),
            ]);
        }
    }
    let mut lines = Vec::new();
    let width = style.columns().min(88);
    let say = |lines: &mut Vec<String>, tone: Tone, text: &str| {
        lines.extend(wrap(text, width).iter().map(|line| style.paint(tone, line)));
    };
    say(&mut lines, Tone::Bold, &headline);
    if rows.len() > 1 {
        lines.push(String::new());
        lines.extend(table::set(&rows, style.columns(), style));
    }
    lines.push(String::new());
    for cell in failed {
        let text = format!("{}: {}.", cell.label, failure(cell));
        say(&mut lines, Tone::Plain, &text);
    }
    let without_kernel: Vec<&str> = gate
        .machines
        .iter()
        .copied()
        .filter(|it| *it != "kernel")
        .collect();
    if !without_kernel.is_empty() {
        let text = format!(
            "Not the same machine: different {}, which alone changes figures. For exact ones make the \
             baseline again.",
            without_kernel.join(", different ")
        );
        say(&mut lines, Tone::Plain, &text);
    }
    say(&mut lines, Tone::Plain, WHAT_IT_SHOWS);
    lines.join("\n") + "\n"
}

/// The gate as a suite of tests: a case for each cell.
#[must_use]
pub fn gate_junit(gate: &Gate, now: &Lab) -> String {
    let failures = gate.cells.iter().filter(|it| !it.passes()).count();
    let (tests, failures) = (gate.cells.len().to_string(), failures.to_string());
    let name = "punctual lab gate";
    let counts = [
        ("name", name),
        ("tests", &*tests),
        ("failures", &*failures),
        ("errors", "0"),
    ];
    let mut xml = Xml::new();
    xml.start("testsuites", &counts);
    xml.start("testsuite", &counts);
    for (cell, run) in gate.cells.iter().zip(&now.cells) {
        start_case(&mut xml, name, run, &cell.label);
        if !cell.passes() {
            let words = failure(cell);
            let attributes = [("type", "GROWTH"), ("message", &*words)];
            xml.text("failure", &attributes, &words);
        }
        xml.end();
    }
    xml.into_text()
}
