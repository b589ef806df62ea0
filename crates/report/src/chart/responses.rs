//! The response times of each task against its deadline: a row for each, all over one axis.

use super::{Form, opened};
use crate::draw::svg::{Path, Svg};
use crate::draw::{Frame, Log, axis, palette, text};
use crate::figures::{Bins, Figures, bin_edge};
use crate::words;
use punctual_record::Run;
use punctual_record::taskset::TaskRun;

const ROW: f64 = 40.0;
const GAP: f64 = 10.0;
const TOP: f64 = 30.0;
/// Tasks that are drawn: those nearest to their deadlines.
pub const MOST: usize = 32;
/// Where a count of zero lies on the scale of counts.
const FLOOR: f64 = 0.6;

/// A row of the picture.
struct Row<'a> {
    index: usize,
    name: String,
    bins: &'a Bins,
    max_ns: u64,
    deadline_ns: u64,
    bound_ns: Option<u64>,
}

impl Row<'_> {
    fn fullness(&self) -> f64 {
        self.max_ns as f64 / self.deadline_ns.max(1) as f64
    }
}

/// Draws them; `None` without jobs. `run` has the jobs in the place of its threads.
#[must_use]
pub fn draw(run: &Run, tasks: &TaskRun, form: Form, id: &str) -> Option<String> {
    let figures = Figures::from_run(run);
    let each = figures.rows.iter().zip(&tasks.set.tasks).enumerate();
    let rows = each.filter_map(|(index, (figures, task))| {
        Some(Row {
            index,
            name: words::clean(&task.name),
            bins: &figures.bins,
            max_ns: figures.max?,
            deadline_ns: task.deadline_ns,
            bound_ns: tasks.bound_ns(index),
        })
    });
    let mut rows: Vec<Row<'_>> = rows.filter(|row| !row.bins.is_empty()).collect();
    let low = rows.iter().filter_map(|row| row.bins.keys().next()).min()?;
    let deadlines = rows.iter().map(|row| row.deadline_ns);
    // A deadline at the edge would look like the edge.
    let low = bin_edge(*low).min(deadlines.min()? as f64 * 0.96);
    let high = rows
        .iter()
        .map(|row| {
            row.max_ns
                .max(row.deadline_ns)
                .max(row.bound_ns.unwrap_or(0))
        })
        .max()? as f64;
    if rows.len() > MOST {
        rows.sort_by(|a, b| b.fullness().total_cmp(&a.fullness()));
        rows.truncate(MOST);
        rows.sort_by_key(|row| row.index);
    }
    let (width, left, right) = match form {
        Form::Wide | Form::File => (960.0, 130.0, 850.0),
        Form::Narrow => (380.0, 76.0, 320.0),
    };
    let bottom = TOP + (ROW + GAP) * rows.len() as f64;
    let (from, to) = axis::nice_range(low.max(1.0), high.max(low) * 1.04);
    let x = Log::new(from, to, left, right);
    let most = rows.iter().flat_map(|row| row.bins.values()).max();
    let top = 10f64.powf(((*most?).max(1) as f64 * 1.2).log10().ceil().max(1.0));
    let description = "A row for each task: how many of its jobs took how long, both logarithmic; its \
                       deadline, the bound of its analysis, and its longest job.";
    let title = "Response times against deadlines";
    let mut svg = opened(form, id, (title, description), (width, bottom + 46.0));
    let frame = Frame {
        left,
        top: TOP,
        right,
        bottom,
    };
    frame.latency_below(&mut svg, &x);
    svg.label("tick", "start", right + 8.0, TOP - 12.0, "longest");
    key(
        &mut svg,
        (left, TOP - 12.0),
        rows.iter().any(|row| row.bound_ns.is_some()),
    );
    for (place, row) in rows.iter().enumerate() {
        let floor = TOP + (ROW + GAP) * (place as f64 + 1.0);
        one(&mut svg, row, &x, (floor, top), (left, right), form);
    }
    svg.close("svg");
    Some(svg.into_text())
}

/// What the lines mean.
fn key(svg: &mut Svg, (x, y): (f64, f64), bounds: bool) {
    svg.line("deadline", (x, y - 10.0), (x, y + 2.0));
    svg.label("alert", "start", x + 6.0, y, "deadline");
    if bounds {
        let x = x + 72.0;
        svg.line("bound", (x, y - 10.0), (x, y + 2.0));
        svg.label("bound", "start", x + 6.0, y, "bound");
    }
}

fn one(
    svg: &mut Svg,
    row: &Row<'_>,
    x: &Log,
    (floor, most): (f64, f64),
    (left, right): (f64, f64),
    form: Form,
) {
    let deadline = x.at(row.deadline_ns.max(1) as f64);
    svg.rectangle("late", deadline, floor - ROW, right - deadline, ROW);
    let y = Log::new(FLOOR, most, floor, floor - ROW);
    let mut path = Path::new();
    for (&bin, &count) in row.bins {
        path.to(x.at(bin_edge(bin)), floor);
        path.to(x.at(bin_edge(bin)), y.at(count as f64));
        path.to(x.at(bin_edge(bin + 1)), y.at(count as f64));
        path.to(x.at(bin_edge(bin + 1)), floor);
        path.close();
    }
    let class = palette::series_class(row.index);
    svg.group(&format!("run {class}"));
    let says = format!(
        "{}: the longest {}, deadline {}{}",
        row.name,
        words::duration(row.max_ns),
        words::duration(row.deadline_ns),
        row.bound_ns
            .map_or_else(String::new, |ns| format!(", bound {}", words::duration(ns)))
    );
    svg.element("title").text(&says);
    svg.path("bar", &path);
    svg.close("g");
    svg.line("rule", (left, floor), (right, floor));
    svg.line("deadline", (deadline, floor - ROW), (deadline, floor));
    if let Some(bound_ns) = row.bound_ns {
        let at = x.at(bound_ns.max(1) as f64);
        svg.line("bound", (at, floor - ROW), (at, floor));
    }
    svg.element("circle")
        .text_attribute("class", &format!("dot {class}"))
        .number("cx", x.at(row.max_ns.max(1) as f64))
        .number("cy", floor)
        .number("r", 3.5)
        .end();
    let letters = if form == Form::Narrow { 10 } else { 18 };
    let name = text::shorten(&row.name, letters);
    svg.label("ink", "end", left - 8.0, floor - ROW / 2.0 + 5.0, &name);
    let class = if row.max_ns > row.deadline_ns {
        "alert"
    } else {
        "tick"
    };
    let longest = words::duration(row.max_ns);
    svg.label(
        class,
        "start",
        right + 8.0,
        floor - ROW / 2.0 + 5.0,
        &longest,
    );
}
