//! How late wake-ups could have been: bounds beside the latest that came.

use super::super::html::parts::{Html, Td, td};
use super::super::style::{Style, Tone};
use super::super::table::{self, Cell};
use super::super::words::count;
use super::without::no_bound;
use super::{evidence, kernel_lines, label, names, paragraph, short};
use punctual_record::lab::{Lab, LabBound, LabCell, LabWindow};

/// Windows that are listed of each place of the table.
const SHOWN: usize = 3;

/// What a bound says, and what it does not.
const WHAT_IT_BOUNDS: &str = "The bound is what the latest wake-up would have been if its timer \
     had expired at the worst instant of all that the guest executed: the longest window in which \
     the kernel could not serve it, the timer, its interrupt's handler and the switch to the thread, \
     each counted to the instruction. Other paths through the kernel, that this load and these \
     seeds did not take, may be longer; so may those of a real machine, with its caches, its \
     devices and its other processors.";

/// The cells of one kernel and load.
struct Place<'a> {
    kernel: &'a str,
    load: &'a str,
    /// The highest of all seeds.
    max_ns: u64,
    /// The bound that is highest.
    bound: &'a LabBound,
    /// Of all seeds.
    least_bound_ns: u64,
    /// How many seeds have one.
    seeds: u64,
}

impl Place<'_> {
    fn ratio(&self) -> String {
        format!(
            "{:.2}",
            self.bound.total_ns() as f64 / self.max_ns.max(1) as f64
        )
    }
}

/// Every place with a bound, loads in the outer loop.
fn places(lab: &Lab) -> Vec<Place<'_>> {
    let mut all = Vec::new();
    for load in names(&lab.cells, |cell| &cell.load) {
        for kernel in names(&lab.cells, |cell| &cell.kernel) {
            let here = |cell: &&LabCell| cell.kernel == kernel && cell.load == load;
            let cells = || lab.cells.iter().filter(here);
            let bounds = || cells().filter_map(|cell| cell.bound.as_ref());
            let Some(bound) = bounds().max_by_key(|bound| bound.total_ns()) else {
                continue;
            };
            let figures = cells().filter_map(|cell| cell.figures);
            all.push(Place {
                kernel,
                load,
                max_ns: figures.map(|figures| figures.max_ns).max().unwrap_or(0),
                bound,
                least_bound_ns: bounds().map(LabBound::total_ns).min().unwrap_or(0),
                seeds: bounds().count() as u64,
            });
        }
    }
    all
}

/// The rows of a table: one for each place, and below it its longest windows.
fn rows(places: &[Place<'_>]) -> Vec<Vec<Cell>> {
    let bold = |text: &str| Cell::toned(text, Tone::Bold);
    let seeded = places.iter().any(|place| place.seeds > 1);
    let mut head = vec![bold("load"), bold("kernel"), bold("max"), bold("bound")];
    head.extend(seeded.then(|| bold("least bound")));
    head.extend([bold("ratio"), bold("window"), bold("from"), bold("to")]);
    let mut rows = vec![head];
    for place in places {
        for (at, window) in place.bound.windows.iter().take(SHOWN).enumerate() {
            let first = |text: String| Cell::new(if at == 0 { text } else { String::new() });
            let mut row = vec![
                first(place.load.to_owned()),
                first(short(place.kernel)),
                first(count(place.max_ns)),
                first(count(place.bound.total_ns())),
            ];
            row.extend(seeded.then(|| first(count(place.least_bound_ns))));
            row.extend([
                first(place.ratio()),
                Cell::new(count(window.length_ns)),
                Cell::new(window.opened_by.clone()),
                Cell::new(closing(window)),
            ]);
            rows.push(row);
        }
    }
    rows
}

/// Where a window ends.
fn closing(window: &LabWindow) -> String {
    match &window.then {
        Some(interrupt) => format!("{}, then {interrupt}", window.closed_by),
        None => window.closed_by.clone(),
    }
}

/// Why cells have no bound, a sentence for each.
fn without(lab: &Lab) -> impl Iterator<Item = String> + use<'_> {
    lab.cells.iter().filter_map(|cell| {
        let why = cell.no_bound.as_ref()?;
        Some(format!("{}: no bound: {}.", label(cell), no_bound(why)))
    })
}

/// The section of a page; nothing of a lab without bounds.
pub(super) fn section(html: &mut Html, lab: &Lab) {
    if !is_bounded(lab) {
        return;
    }
    html.heading("bounds", "How late a wake-up could have been");
    html.text("p", "note", WHAT_IT_BOUNDS);
    let rows: Vec<(&str, Vec<Td>)> = places(lab)
        .iter()
        .flat_map(|place| {
            let windows = place.bound.windows.iter().take(SHOWN).enumerate();
            windows.map(|(at, window)| {
                let first = |text: String| td(if at == 0 { text } else { String::new() });
                let cells = vec![
                    first(format!("{}, {}", short(place.kernel), place.load)),
                    first(count(place.max_ns)),
                    first(count(place.bound.total_ns())),
                    first(place.ratio()),
                    td(count(window.length_ns)),
                    td(window.opened_by.clone()),
                    td(closing(window)),
                ];
                ("", cells)
            })
        })
        .collect();
    let head = ["", "Max", "Bound", "Ratio", "Window", "From", "To"];
    html.table("figures tight", "Bounds, in virtual ns", &head, &rows);
    for text in without(lab) {
        html.text("p", "note", &text);
    }
}

/// Whether bounds were wanted.
pub(super) fn is_bounded(lab: &Lab) -> bool {
    let wanted = |cell: &LabCell| cell.bound.is_some() || cell.no_bound.is_some();
    lab.cells.iter().any(wanted)
}

/// The table of a lab's bounds, with what they mean.
#[must_use]
pub(super) fn bounds(lab: &Lab, style: &Style) -> String {
    let kernels = names(&lab.cells, |cell| &cell.kernel);
    let loads = names(&lab.cells, |cell| &cell.load);
    let mut lines = kernel_lines(lab, &kernels, style);
    lines.push(String::new());
    let places = places(lab);
    if !places.is_empty() {
        lines.extend(table::set(&rows(&places), style.columns(), style));
        lines.push(String::new());
    }
    for text in without(lab) {
        paragraph(&mut lines, &text, style);
    }
    paragraph(&mut lines, WHAT_IT_BOUNDS, style);
    paragraph(&mut lines, &evidence(lab, &kernels, &loads), style);
    if let Some(place) = &style.report {
        lines.push(format!("Report: {}", style.paint(Tone::Plain, place)));
    }
    lines.join("\n") + "\n"
}
