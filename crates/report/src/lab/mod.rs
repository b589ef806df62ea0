//! The laboratory's tables: kernels side by side, labs side by side, and the first
//! difference of two runs.

mod bill;
mod bound;
mod compare;
mod cost;
mod difference;
mod gate;
mod junit;
mod page;
mod proof;
mod tasks;
mod variants;
mod without;

pub use bill::bills;
pub use compare::{Comparison, Pair, compare, comparison, dependency};
pub use cost::cost_comparison;
pub use difference::first_difference;
pub use gate::{Allowance, Gate, GateCell, GateFigure, Grown, gate, gate_junit, gate_text};
pub use junit::junit;
pub use page::page;
pub use proof::{proof_outcome, proof_sentence};
pub use variants::variants;
pub use without::{no_bill, no_bound, no_result};

use punctual_stats::verdict::Outcome;

use super::style::{Style, Tone, wrap};
use super::table::{self, Cell};
use super::words::count;
use punctual_record::lab::{CellFigures, Lab, LabCell};
use punctual_record::laboratory::{Architecture, GuestTime, Laboratory};

/// What virtual time is, wherever a figure of it is shown.
pub const WHAT_IT_SHOWS: &str = "Times are virtual ns: one instruction is 1 ns. They show paths \
     that hold off preemption or interrupts, how these grow, and what one kernel or program does \
     that another doesn't, exactly. They don't show caches, memory, devices, SMIs, idle states \
     or processors in each other's way, and are no times of a real machine. A maximum holds for \
     its load and seed.";

/// What is said in their place where several processors ran.
pub const NO_LATENCIES: &str = "Several processors of an emulator ran at the host's pace: what \
     was measured on them is no latency and is not shown. Behaviour (affinity, partitions, exit \
     statuses, counts) holds.";

/// A kernel's name in a table: of a path, what its file is called.
fn short(kernel: &str) -> String {
    const MOST: usize = 28;
    let name = kernel.rsplit('/').next().unwrap_or(kernel);
    match name.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

/// A cell's name: `rt, hackbench`, with its seed where that isn't 1.
#[must_use]
pub fn label_of(kernel: &str, load: &str, seed: u64) -> String {
    let kernel = short(kernel);
    if seed == 1 {
        format!("{kernel}, {load}")
    } else {
        format!("{kernel}, {load}, seed {seed}")
    }
}

/// The same of a recorded cell.
#[must_use]
pub fn label(cell: &LabCell) -> String {
    label_of(&cell.kernel, &cell.load, cell.seed)
}

/// All seeds of one kernel and load together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    seeds: u64,
    samples: u64,
    least_max_ns: u64,
    max_ns: u64,
    p99_ns: u64,
    mean_ns: f64,
}

fn spread<'a>(cells: impl Iterator<Item = &'a LabCell>) -> Option<Spread> {
    let figures: Vec<CellFigures> = cells.filter_map(|cell| cell.figures).collect();
    let samples: u64 = figures
        .iter()
        .fold(0, |sum, f| sum.saturating_add(f.samples));
    let sum: f64 = figures.iter().map(|f| f.mean_ns * f.samples as f64).sum();
    Some(Spread {
        seeds: figures.len() as u64,
        samples,
        least_max_ns: figures.iter().map(|f| f.max_ns).min()?,
        max_ns: figures.iter().map(|f| f.max_ns).max()?,
        // Percentiles aren't averaged: the worst of the seeds stands.
        p99_ns: figures.iter().map(|f| f.p99_ns).max()?,
        mean_ns: sum / samples.max(1) as f64,
    })
}

/// Names in the order of their first coming.
fn names<'a>(cells: &'a [LabCell], name: impl Fn(&'a LabCell) -> &'a str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for cell in cells {
        if !found.contains(&name(cell)) {
            found.push(name(cell));
        }
    }
    found
}

/// The ratio of two maxima: `1.01`, `788`.
fn ratio(of: u64, to: u64) -> String {
    match of as f64 / to.max(1) as f64 {
        r if r < 9.95 => format!("{r:.2}"),
        r if r < 99.5 => format!("{r:.1}"),
        r => count(r.round() as u64),
    }
}

/// What is printed of a lab: its table, or where sets of tasks were executed one for each load, or
/// where machines have several commands one for each.
#[must_use]
pub fn tables(lab: &Lab, style: &Style) -> String {
    if let Some(proof) = &lab.proof {
        proof::proof(lab, proof, style)
    } else if cost::is_counted(lab) {
        cost::costs(lab, style)
    } else if bound::is_bounded(lab) {
        bound::bounds(lab, style)
    } else if tasks::executed(lab) {
        tasks::tables(lab, style)
    } else if lab.cells.iter().any(|cell| cell.variant.is_some()) {
        variants(lab, style)
    } else {
        table(lab, style)
    }
}

/// The table of a lab, kernels side by side, with what it means.
#[must_use]
pub fn table(lab: &Lab, style: &Style) -> String {
    let mut lines = Vec::new();
    let kernels = names(&lab.cells, |cell| &cell.kernel);
    let loads = names(&lab.cells, |cell| &cell.load);
    lines.extend(kernel_lines(lab, &kernels, style));
    lines.push(String::new());
    let host = lab.cells.iter().any(|cell| {
        let laboratory = cell.laboratory.as_ref();
        laboratory.is_some_and(|laboratory| laboratory.time == GuestTime::Host)
    });
    if host {
        paragraph(&mut lines, NO_LATENCIES, style);
    } else {
        let rows = rows(lab, &kernels, &loads);
        lines.extend(table::set(&rows, style.columns(), style));
        lines.push(String::new());
        lines.extend(bill::without(lab, style));
        if lab.cells.iter().any(|cell| !cell.bills.is_empty()) {
            paragraph(&mut lines, bill::WHAT_IT_IS, style);
        }
        paragraph(&mut lines, &evidence(lab, &kernels, &loads), style);
        paragraph(&mut lines, WHAT_IT_SHOWS, style);
    }
    if let Some(place) = &style.report {
        lines.push(format!("Report: {}", style.paint(Tone::Plain, place)));
    }
    lines.join("\n") + "\n"
}

fn paragraph(lines: &mut Vec<String>, text: &str, style: &Style) {
    for line in wrap(text, style.columns().min(88)) {
        lines.push(style.paint(Tone::Dim, &line));
    }
}

/// A kernel's release, its architecture where the release doesn't have it, and its parameters.
fn booted(laboratory: &Laboratory) -> String {
    let architecture = laboratory.architecture.name();
    let is_named =
        laboratory.architecture == Architecture::Amd64 || laboratory.release.contains(architecture);
    let mut words = vec![laboratory.release.clone()];
    words.extend((!is_named).then(|| format!("({architecture})")));
    words.extend(laboratory.parameters.iter().cloned());
    words.join(" ")
}

fn kernel_lines(lab: &Lab, kernels: &[&str], style: &Style) -> Vec<String> {
    kernels
        .iter()
        .map(|kernel| {
            let of = lab.cells.iter().filter(|cell| cell.kernel == *kernel);
            let release = of
                .filter_map(|cell| cell.laboratory.as_ref())
                .map(booted)
                .next();
            let release = release.unwrap_or_else(|| "no result".to_owned());
            format!(
                "{}: {}",
                style.paint(Tone::Bold, &short(kernel)),
                style.paint(Tone::Plain, &release)
            )
        })
        .collect()
}

fn rows(lab: &Lab, kernels: &[&str], loads: &[&str]) -> Vec<Vec<Cell>> {
    // Of many kernels, the maximum alone fits.
    let whole = kernels.len() <= 2;
    let many_seeds = lab.cells.iter().any(|cell| cell.seed > 1);
    let explained = lab.cells.iter().any(|cell| !cell.bills.is_empty());
    let mut top = vec![Cell::new("")];
    let mut head = vec![Cell::toned("load", Tone::Bold)];
    for kernel in kernels {
        let bold = |text: &str| Cell::toned(text, Tone::Bold);
        top.push(bold(&short(kernel)));
        head.push(bold("max"));
        if explained {
            top.push(Cell::new(""));
            head.push(bold("most of it in"));
        }
        if many_seeds {
            top.push(Cell::new(""));
            head.push(bold("least max"));
        }
        if whole {
            top.extend([Cell::new(""), Cell::new("")]);
            head.extend([bold("p99"), bold("mean")]);
        }
    }
    if kernels.len() == 2 {
        top.push(Cell::new(""));
        head.push(Cell::toned("ratio", Tone::Bold));
    }
    let judged = lab.cells.iter().any(|cell| cell.verdict.is_some());
    if judged {
        top.push(Cell::new(""));
        head.push(Cell::toned("verdict", Tone::Bold));
    }
    let mut rows = vec![top, head];
    for load in loads {
        let mut row = vec![Cell::new(*load)];
        let mut maxima = Vec::new();
        for kernel in kernels {
            let of = |cell: &&LabCell| cell.kernel == *kernel && cell.load == *load;
            let found = spread(lab.cells.iter().filter(of));
            maxima.extend(found.map(|found| found.max_ns));
            let cell = |text: Option<String>| match text {
                Some(text) => Cell::new(text),
                None => Cell::toned("-", Tone::Void),
            };
            row.push(cell(found.map(|f| count(f.max_ns))));
            if explained {
                let worst = lab.cells.iter().filter(of);
                let worst = worst.max_by_key(|cell| cell.figures.map(|figures| figures.max_ns));
                row.push(cell(worst.and_then(bill::top)));
            }
            if many_seeds {
                row.push(cell(found.map(|f| count(f.least_max_ns))));
            }
            if whole {
                row.push(cell(found.map(|f| count(f.p99_ns))));
                row.push(cell(found.map(|f| count(f.mean_ns.round() as u64))));
            }
        }
        if let (2, [first, second]) = (kernels.len(), &maxima[..]) {
            row.push(Cell::new(ratio(*second, *first)));
        }
        if judged {
            row.push(verdicts(lab, load));
        }
        rows.push(row);
    }
    rows
}

fn weight(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Fail => 3,
        Outcome::Invalid => 2,
        Outcome::Inconclusive => 1,
        Outcome::Pass => 0,
    }
}

/// The gravest verdict of some cells.
fn verdict_of<'a>(cells: impl Iterator<Item = &'a LabCell>) -> Option<Outcome> {
    let outcomes = cells.filter_map(|cell| Some(cell.verdict.as_ref()?.verdict.outcome));
    outcomes.max_by_key(|outcome| weight(*outcome))
}

/// The verdicts of a row, a word for each kernel; of several seeds the gravest.
fn verdicts(lab: &Lab, load: &str) -> Cell {
    let mut words = Vec::new();
    let mut worst = Outcome::Pass;
    for kernel in names(&lab.cells, |cell| &cell.kernel) {
        let of = |cell: &&LabCell| cell.kernel == kernel && cell.load == load;
        let Some(gravest) = verdict_of(lab.cells.iter().filter(of)) else {
            words.push("-");
            continue;
        };
        words.push(gravest.word());
        if weight(gravest) > weight(worst) {
            worst = gravest;
        }
    }
    let tone = match worst {
        Outcome::Pass => Tone::Good,
        Outcome::Fail => Tone::Bad,
        Outcome::Inconclusive => Tone::Unsure,
        Outcome::Invalid => Tone::Void,
    };
    Cell::toned(words.join(" "), tone)
}

/// How much evidence there is, and what it took.
fn evidence(lab: &Lab, kernels: &[&str], loads: &[&str]) -> String {
    let mut least: Option<Spread> = None;
    for kernel in kernels {
        for load in loads {
            let of = |cell: &&LabCell| cell.kernel == *kernel && cell.load == *load;
            let Some(found) = spread(lab.cells.iter().filter(of)) else {
                continue;
            };
            if least.is_none_or(|least| found.samples < least.samples) {
                least = Some(found);
            }
        }
    }
    let Some(least) = least else {
        return "Nothing was measured.".to_owned();
    };
    let seeds = match least.seeds {
        1 => "one seed".to_owned(),
        seeds => format!("{seeds} seeds"),
    };
    format!(
        "Each row stands on at least {} wake-ups and {seeds}. {}",
        count(least.samples),
        effort(lab)
    )
}

/// What a lab took.
fn effort(lab: &Lab) -> String {
    let virtual_ns: u64 = lab
        .cells
        .iter()
        .filter_map(|cell| cell.laboratory.as_ref())
        .fold(0, |sum, laboratory| {
            sum.saturating_add(laboratory.virtual_ns)
        });
    format!(
        "{} virtual seconds took {:.0} s of the host's time, {} at a time.",
        count(virtual_ns / 1_000_000_000),
        lab.host_s,
        lab.jobs
    )
}
