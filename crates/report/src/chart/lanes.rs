//! When each CPU was late: one lane per CPU over the same time, so that it is seen whether a
//! disturbance hit one of them or all at once.

use super::{Form, MOST_LINES, Marks, hover, opened};
use crate::draw::svg::{Path, Svg};
use crate::draw::{Frame, Linear, Log, axis, text};
use crate::figures::Figures;
use crate::words;
use punctual_record::{Run, Thread};

/// Height of a lane: few have more room.
fn lane_height(lanes: usize) -> f64 {
    match lanes {
        0..=4 => 56.0,
        5..=8 => 42.0,
        _ => 30.0,
    }
}

const GAP: f64 = 6.0;
const TOP: f64 = 34.0;

/// The highest latency of each stretch of time, of those that the record keeps one by one.
struct Lane {
    row: usize,
    highest: Vec<u64>,
    /// Latencies up to this were counted, not kept.
    kept_above_ns: u64,
}

/// Stretches that time is divided into: fewer where there are many lanes, for a page stays small.
fn stretches(form: Form, lanes: usize) -> usize {
    match (form, lanes) {
        (Form::Wide | Form::File, 0..=8) => 240,
        (Form::Wide | Form::File, _) => 120,
        (Form::Narrow, 0..=8) => 120,
        (Form::Narrow, _) => 80,
    }
}

fn lane(row: usize, thread: &Thread, (start_ns, span_ns): (u64, u64), cells: usize) -> Lane {
    let mut highest = vec![0u64; cells];
    for peak in &thread.peaks {
        // The last instant lies a little beyond what was measured; elsewhere lies none.
        let Some(at) = peak.asked_ns.checked_sub(start_ns) else {
            continue;
        };
        if at > span_ns.saturating_add(span_ns / 50) {
            continue;
        }
        let cell = (at as f64 / span_ns as f64 * cells as f64) as usize;
        let slot = &mut highest[cell.min(cells - 1)];
        *slot = (*slot).max(peak.latency_ns);
    }
    Lane {
        row,
        highest,
        kept_above_ns: thread.peaks_above_ns,
    }
}

/// Draws the lanes; `None` for less than two, or where the record doesn't say when.
#[must_use]
pub fn draw(run: &Run, figures: &Figures, marks: &Marks, form: Form, id: &str) -> Option<String> {
    let start_ns = run.start_ns?;
    let span_ns = Some(run.measured_ns).filter(|span| *span > 0)?;
    let shown = shown(run, figures);
    let cells = stretches(form, shown.len());
    let lanes: Vec<Lane> = shown
        .iter()
        .map(|&row| lane(row, &run.threads[row], (start_ns, span_ns), cells))
        .collect();
    let high = lanes.iter().flat_map(|lane| &lane.highest).copied().max()?;
    if lanes.len() < 2 || high == 0 {
        return None;
    }
    let kept = lanes.iter().map(|lane| lane.kept_above_ns);
    let low = kept.min().unwrap_or(0).max(figures.merged.min.unwrap_or(1));
    let deadline = marks.deadline_ns.map(|ns| ns.max(1) as f64);
    let low = deadline.map_or(low as f64, |deadline| deadline.min(low as f64));
    let (from, to) = axis::nice_range(low, deadline.unwrap_or(1.0).max(high as f64));

    let (width, left, right) = match form {
        Form::Wide | Form::File => (960.0, 124.0, 868.0),
        Form::Narrow => (380.0, 62.0, 312.0),
    };
    let lane_height = lane_height(lanes.len());
    let bottom = TOP + (lane_height + GAP) * lanes.len() as f64;
    let description = format!(
        "The highest {} of each of {cells} stretches of the run, one lane for each {}.",
        marks.terms.size,
        words::row(figures.rows_are)
    );
    let title = format!(
        "{} over time, by {}",
        marks.terms.heading,
        words::row(figures.rows_are)
    );
    let size = (width, bottom + 46.0);
    let mut svg = opened(form, id, (&title, &description), size);
    let frame = Frame {
        left,
        top: TOP,
        right,
        bottom,
    };
    let x = Linear::new(span_ns as f64, left, right);
    frame.time_below(&mut svg, &x);
    svg.label("tick", "end", right, bottom + 35.0, "time since the start");
    let range = format!(
        "each lane from {} to {}",
        words::duration_f64(from.round()),
        words::duration_f64(to.round())
    );
    svg.label("tick", "start", left, TOP - 10.0, &range);
    svg.label("tick", "start", right + 8.0, TOP - 10.0, "max");
    for (index, lane) in lanes.iter().enumerate() {
        let floor = TOP + (lane_height + GAP) * (index as f64 + 1.0);
        let y = Log::new(from, to, floor, floor - lane_height);
        one(&mut svg, lane, (&x, &y), (floor, &frame), marks.deadline_ns);
        let row = &figures.rows[lane.row];
        let name = match form {
            Form::Narrow => text::shorten(&row.name, 8),
            Form::Wide | Form::File => text::shorten(&row.name, 17),
        };
        svg.label(
            "ink",
            "end",
            left - 8.0,
            floor - lane_height / 2.0 + 4.0,
            &name,
        );
        let max = row.max.map_or_else(|| "—".to_owned(), words::duration);
        let late = matches!((row.max, marks.deadline_ns), (Some(max), Some(d)) if max > d);
        let class = if late { "alert" } else { "tick" };
        svg.label(
            class,
            "start",
            right + 8.0,
            floor - lane_height / 2.0 + 4.0,
            &max,
        );
    }
    strips(&mut svg, &frame, &lanes, figures, span_ns, form);
    svg.close("svg");
    Some(svg.into_text())
}

/// The rows that have a lane, in their order: of many the worst.
fn shown(run: &Run, figures: &Figures) -> Vec<usize> {
    let mut rows = figures.by_maximum();
    rows.retain(|&row| run.threads.get(row).is_some_and(|it| !it.peaks.is_empty()));
    rows.truncate(MOST_LINES);
    rows.sort_unstable();
    rows
}

/// One lane: its bars, those above the deadline in red, and the deadline.
fn one(
    svg: &mut Svg,
    lane: &Lane,
    (x, y): (&Linear, &Log),
    (floor, frame): (f64, &Frame),
    deadline_ns: Option<u64>,
) {
    if lane.kept_above_ns > 0 {
        let grey = y.at(lane.kept_above_ns as f64);
        svg.rectangle("void", frame.left, grey, frame.width(), floor - grey);
    }
    let cells = lane.highest.len() as f64;
    let (mut within, mut late) = (Path::new(), Path::new());
    for (cell, &highest) in lane.highest.iter().enumerate().filter(|cell| *cell.1 > 0) {
        let at = |cell: f64| x.at(cell / cells * x.high());
        let (left, right) = (at(cell as f64), at(cell as f64 + 1.0));
        let path = match deadline_ns {
            Some(deadline) if highest > deadline => &mut late,
            _ => &mut within,
        };
        // What lies at the lower end is still there.
        let height = y.at(highest as f64).min(floor - 1.0);
        path.to(left, floor);
        path.to(left, height);
        path.to(right, height);
        path.to(right, floor);
        path.close();
    }
    svg.path("lane", &within);
    svg.path("missdot", &late);
    svg.line("rule", (frame.left, floor), (frame.right, floor));
    if let Some(deadline) = deadline_ns {
        let at = y.at(deadline.max(1) as f64);
        svg.line("deadline", (frame.left, at), (frame.right, at));
    }
}

/// What is said of each stretch: its worst, and on which CPU.
fn strips(
    svg: &mut Svg,
    frame: &Frame,
    lanes: &[Lane],
    figures: &Figures,
    span_ns: u64,
    form: Form,
) {
    let cells = stretches(form, lanes.len());
    let each = cells.div_ceil(hover::most(form));
    for first in (0..cells).step_by(each) {
        let last = (first + each).min(cells);
        let of = |lane: &Lane| lane.highest[first..last].iter().copied().max().unwrap_or(0);
        let Some((worst, lane)) = lanes
            .iter()
            .map(|lane| (of(lane), lane))
            .max_by_key(|it| it.0)
        else {
            continue;
        };
        if worst == 0 {
            continue;
        }
        let at = |cell: usize| cell as f64 / cells as f64;
        let edge = |cell: usize| frame.left + at(cell) * frame.width();
        let from_ns = (at(first) * span_ns as f64) as u64;
        let says = format!(
            "{}: {} on {}",
            words::instant(from_ns),
            words::duration(worst),
            figures.rows[lane.row].name
        );
        hover::strip(svg, frame, (edge(first), edge(last)), &says);
    }
}
