//! What ran when around one late wake-up: lanes of each CPU over time, from the instant
//! asked for to the reading of the clock.

use std::cmp::Reverse;

use super::{Form, opened};
use crate::draw::svg::Svg;
use crate::draw::text;
use crate::explain::{around, intervals, lane_name};
use crate::terms::Terms;
use crate::{facts, words};
use punctual_record::Run;
use punctual_record::explanation::{Bill, Lane, Picture, Span};

const ROW: f64 = 24.0;
const GAP: f64 = 4.0;
const TOP: f64 = 40.0;

/// What rows of the picture are about: the CPUs first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Cpu(u32, Lane),
    /// The marks that a thread passed.
    Marks(String),
}

impl About {
    fn name(&self, form: Form, terms: Terms) -> String {
        match (self, form) {
            (Self::Cpu(_, lane), Form::Narrow) => lane_name(*lane, terms).to_owned(),
            (Self::Cpu(cpu, lane), _) => format!("CPU {cpu} {}", lane_name(*lane, terms)),
            (Self::Marks(_), Form::Narrow) => "marks".to_owned(),
            (Self::Marks(thread), _) => text::shorten(thread, 18),
        }
    }
}

/// Where a row of the picture lies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    about: About,
    /// Spans within others lie below them.
    depth: usize,
}

/// A stretch of time to draw.
#[derive(Clone)]
struct Bar {
    from_ns: i64,
    to_ns: i64,
    label: String,
    class: &'static str,
}

impl Bar {
    fn of(span: &Span) -> Self {
        let class = match (span.in_the_way, span.lane) {
            (true, _) => "span way",
            (_, Lane::Probe) => OWN,
            _ => "span",
        };
        Self {
            from_ns: span.from_ns,
            to_ns: span.to_ns,
            label: facts::span_label(&span.label),
            class,
        }
    }
}

/// The class of what the probe or the program itself does.
const OWN: &str = "span probe";

/// A stretch of time with its place.
struct Placed {
    bar: Bar,
    row: Row,
}

/// The intervals of marks, from where the picture begins to where it ends, by thread.
fn passed(run: &Run, bill: &Bill, picture: &Picture) -> Vec<(String, Bar)> {
    let (from, to) = range(picture, bill);
    let near = around(&intervals(run), bill, picture);
    let within = |at_ns: u64| {
        let offset = i128::from(at_ns) - i128::from(bill.due_ns);
        (offset as f64).clamp(from, to) as i64
    };
    let shown = near.into_iter().map(|interval| {
        let bar = Bar {
            from_ns: within(interval.from_ns),
            to_ns: within(interval.to_ns()),
            label: interval.label(),
            class: OWN,
        };
        (interval.thread, bar)
    });
    shown.filter(|(_, bar)| bar.from_ns < bar.to_ns).collect()
}

/// Deeper nesting than this is not drawn.
const DEEPEST: usize = 2;

fn place(picture: &Picture, passed: Vec<(String, Bar)>) -> Vec<Placed> {
    let mut placed: Vec<Placed> = Vec::new();
    let ran = picture.spans.iter();
    let ran = ran.map(|span| (About::Cpu(span.cpu, span.lane), Bar::of(span)));
    let passed = passed.into_iter();
    let passed = passed.map(|(thread, bar)| (About::Marks(thread), bar));
    let mut bars: Vec<(About, Bar)> = ran.chain(passed).collect();
    bars.sort_by(|(a, one), (b, other)| {
        (a, one.from_ns, Reverse(one.to_ns)).cmp(&(b, other.from_ns, Reverse(other.to_ns)))
    });
    // Those that are not over, by their ends.
    let mut open: Vec<(About, i64)> = Vec::new();
    for (about, bar) in bars {
        open.retain(|(other, to_ns)| *other == about && *to_ns > bar.from_ns);
        let depth = open.len();
        if depth <= DEEPEST {
            let row = Row {
                about: about.clone(),
                depth,
            };
            open.push((about, bar.to_ns));
            placed.push(Placed { bar, row });
        }
    }
    placed
}

/// Draws the picture of a bill of a run; `None` where the record holds none.
#[must_use]
pub fn draw(run: &Run, bill: &Bill, heading: &str, form: Form, id: &str) -> Option<String> {
    let terms = Terms::for_run(run);
    let picture = bill
        .picture
        .as_ref()
        .filter(|picture| !picture.spans.is_empty())?;
    let passed = passed(run, bill, picture);
    let placed = place(picture, passed);
    let mut rows: Vec<Row> = placed.iter().map(|placed| placed.row.clone()).collect();
    rows.sort_unstable();
    rows.dedup();
    let (width, left, right) = match form {
        Form::Wide | Form::File => (960.0, 120.0, 940.0),
        Form::Narrow => (380.0, 76.0, 372.0),
    };
    let top = if form == Form::File { TOP + 28.0 } else { TOP };
    let bottom = top + (ROW + GAP) * rows.len() as f64;
    let height = bottom + 34.0;
    let (from, to) = range(picture, bill);
    let x = |at: i64| left + (right - left) * (at as f64 - from) / (to - from).max(1.0);

    let mut svg = open(
        form,
        id,
        heading,
        &terms.around(bill.latency_ns),
        (width, height),
    );
    // The latency itself, and where it begins and ends.
    let late = i64::try_from(bill.latency_ns).unwrap_or(i64::MAX);
    svg.rectangle("late", x(0), top - 8.0, x(late) - x(0), bottom - top + 8.0);
    let [begin, end] = terms.ends;
    for (at, anchor, name) in [(0, "end", begin), (late, "start", end)] {
        svg.line("deadline", (x(at), top - 12.0), (x(at), bottom));
        let shift = if anchor == "end" { -4.0 } else { 4.0 };
        // Beside the edge the name stands on the other side of its line.
        let room = if anchor == "start" {
            right - x(at)
        } else {
            x(at) - left
        };
        let (anchor, shift) = match (room < 44.0, anchor) {
            (true, "start") => ("end", -shift),
            (true, _) => ("start", -shift),
            _ => (anchor, shift),
        };
        svg.label("alert", anchor, x(at) + shift, top - 14.0, name);
    }
    let mut before = None;
    for (index, row) in rows.iter().enumerate() {
        let y = top + (ROW + GAP) * index as f64;
        if before != Some(&row.about) {
            let name = row.about.name(form, terms);
            svg.label("tick", "end", left - 8.0, y + 16.0, &name);
            svg.line("grid", (left, y - GAP / 2.0), (right, y - GAP / 2.0));
        }
        before = Some(&row.about);
        for placed in placed.iter().filter(|placed| placed.row == *row) {
            let bar = &placed.bar;
            // What began before or ended after the picture ends at its edge.
            let (start, end) = (x(bar.from_ns).max(left), x(bar.to_ns).min(right));
            if start <= right && end >= left {
                draw_bar(&mut svg, bar, start, end, y);
            }
        }
    }
    scale(&mut svg, (from, to), (left, right), bottom);
    svg.close("svg");
    Some(svg.into_text())
}

/// What is shown: everything that the picture holds, and the latency.
fn range(picture: &Picture, bill: &Bill) -> (f64, f64) {
    let late = bill.latency_ns as f64;
    let first = picture.spans.iter().map(|span| span.from_ns).min();
    let last = picture.spans.iter().map(|span| span.to_ns).max();
    let margin = (late / 4.0).max(10_000.0);
    let from = first.map_or(0.0, |at| at as f64).clamp(-margin, 0.0);
    let to = last.map_or(late, |at| at as f64).clamp(late, late + margin);
    (from, to)
}

fn open(form: Form, id: &str, heading: &str, around: &str, size: (f64, f64)) -> Svg {
    let description = format!("What ran on each CPU {around}; the bill beside it says the same.");
    let mut svg = opened(form, id, (heading, &description), size);
    if form == Form::File {
        svg.label("strong", "start", 18.0, 26.0, &text::shorten(heading, 130));
    }
    svg
}

fn draw_bar(svg: &mut Svg, bar: &Bar, start: f64, end: f64, y: f64) {
    // What is too short to be seen is still there.
    let width = (end - start).max(1.2);
    svg.group(bar.class);
    svg.element("title").text(&format!(
        "{}: {}",
        bar.label,
        words::duration(bar.to_ns.saturating_sub(bar.from_ns).unsigned_abs())
    ));
    svg.rectangle("bar", start, y, width, ROW);
    let letters = ((width - 8.0) / 6.4).max(0.0) as usize;
    if letters >= 4 {
        let label = text::shorten(&bar.label, letters);
        svg.label("ink", "start", start + 4.0, y + 16.0, &label);
    }
    svg.close("g");
}

/// Ticks at round times, counted from the requested instant.
pub(super) fn scale(svg: &mut Svg, (from, to): (f64, f64), (left, right): (f64, f64), bottom: f64) {
    let rough = (to - from) / ((right - left) / 110.0);
    let power = 10f64.powf(rough.max(1.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(power * 10.0);
    svg.line("rule", (left, bottom), (right, bottom));
    let mut tick = (from / step).ceil() as i64;
    let last = (to / step).floor() as i64;
    while tick <= last {
        let at = tick as f64 * step;
        let x = left + (right - left) * (at - from) / (to - from).max(1.0);
        svg.line("rule", (x, bottom), (x, bottom + 5.0));
        let label = match tick {
            0 => "0".to_owned(),
            ..0 => format!("−{}", words::duration_f64(at.abs())),
            _ => words::duration_f64(at),
        };
        svg.label("tick", "middle", x, bottom + 20.0, &label);
        tick += 1;
    }
}
