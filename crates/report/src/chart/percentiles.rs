//! The percentile plot, HdrHistogram's way: each decade of the tail takes the
//! same room. What the sample is too small to support is greyed out.

use punctual_stats::histogram::MIN_SAMPLES_BEYOND;

use super::{Canvas, Form, Key, Marks, colour, drawn, hover};
use crate::draw::svg::Path;
use crate::draw::{Log, Tail, axis};
use crate::figures::{Figures, Row};
use crate::words;

/// Draws the percentile plot; `None` without samples.
#[must_use]
pub fn draw(figures: &Figures, marks: &Marks, form: Form, id: &str) -> Option<String> {
    let (low, high) = figures.range()?;
    // A single CPU is all there is.
    let lines = if figures.rows.len() > 1 {
        drawn(figures)
    } else {
        Vec::new()
    };
    let keys = keys(figures, &lines);
    let mut canvas = Canvas::new(
        form,
        id,
        "Percentiles",
        &describe(figures, marks.terms.many),
        &keys,
        marks,
    );
    let frame = canvas.frame;

    let count = figures.merged.count.max(1) as f64;
    let mut nines = count.log10().ceil().max(2.0);
    let mut top = marks
        .deadline_ns
        .map_or(high as f64, |d| (d as f64).max(high as f64));
    if let Some((above, level, _, upper)) = marks.tail {
        if above > 0.0 {
            nines = nines.max((-above.log10()).ceil());
        }
        top = top.max(level).max(upper.min(high as f64 * 1e3));
    }
    for &(above, ns) in &marks.percentiles {
        if above > 0.0 {
            nines = nines.max((-above.log10()).ceil());
        }
        top = top.max(ns as f64);
    }
    let x = Tail::new(nines as u32, frame.left, frame.right);
    let bottom = marks
        .deadline_ns
        .map_or(low as f64, |d| (d.max(1) as f64).min(low as f64));
    let (from, to) = axis::nice_range(bottom, top * 1.04);
    let y = Log::new(from, to, frame.bottom, frame.top);

    // Beyond this the merged sample holds too few to speak of a percentile.
    let edge = x.at((MIN_SAMPLES_BEYOND as f64 / count).min(1.0));
    canvas
        .svg
        .rectangle("void", edge, frame.top, frame.right - edge, frame.height());
    frame.log_left(&mut canvas.svg, &y, axis::latency_label);
    frame.tail_below(&mut canvas.svg, &x);
    let share = format!("share of {} at or below", marks.terms.many);
    frame.titles(&mut canvas.svg, marks.terms.size, &share);

    for (place, &i) in lines.iter().enumerate() {
        let class = format!("series thin {}", colour(figures, place, i));
        draw_curve(&mut canvas, &class, &figures.rows[i], &x, &y);
    }
    draw_curve(&mut canvas, "merged", &figures.merged, &x, &y);
    frame.rules(&mut canvas.svg);
    if let Some(deadline) = marks.deadline_ns {
        let at = y.at(deadline.max(1) as f64);
        canvas
            .svg
            .line("deadline", (frame.left, at), (frame.right, at));
        let label = format!("deadline {}", words::duration(deadline));
        let label_y = if at < frame.top + 18.0 {
            at + 14.0
        } else {
            at - 5.0
        };
        canvas
            .svg
            .label("alert halo", "start", frame.left + 6.0, label_y, &label);
    }
    void_label(&mut canvas, edge);
    maximum(&mut canvas, figures, &x, &y, count);
    targets(&mut canvas, marks, &x, &y);
    tail(&mut canvas, marks, &x, &y);
    canvas.legend(&keys);
    strips(&mut canvas, figures, &x);
    Some(canvas.finish())
}

/// What is said under the pointer: the latency of all CPUs that this share lies above.
fn strips(canvas: &mut Canvas, figures: &Figures, x: &Tail) {
    let curve = &figures.merged.curve;
    let each = curve.len().div_ceil(hover::most(canvas.form)).max(1);
    let points: Vec<_> = curve.iter().step_by(each).chain(curve.last()).collect();
    let middle = |a: f64, b: f64| (x.at(a) + x.at(b)) / 2.0;
    for (i, point) in points.iter().enumerate() {
        let before = i.checked_sub(1).map_or(canvas.frame.left, |before| {
            middle(points[before].above, point.above)
        });
        let after = points
            .get(i + 1)
            .map_or(canvas.frame.right, |next| middle(point.above, next.above));
        let says = match i {
            0 => format!("min {}", words::duration(point.ns)),
            _ => format!(
                "{} above {}",
                words::share(point.above),
                words::duration(point.ns)
            ),
        };
        hover::strip(&mut canvas.svg, &canvas.frame, (before, after), &says);
    }
}

fn void_label(canvas: &mut Canvas, edge: f64) {
    let frame = canvas.frame;
    let room = frame.right - edge;
    let label = format!("fewer than {MIN_SAMPLES_BEYOND} samples beyond");
    for text in [label.as_str(), "too few samples", "too few"] {
        if crate::draw::text::width(text, axis::FONT) + 12.0 < room {
            canvas
                .svg
                .label("tick", "end", frame.right - 6.0, frame.bottom - 8.0, text);
            return;
        }
    }
}

fn maximum(canvas: &mut Canvas, figures: &Figures, x: &Tail, y: &Log, count: f64) {
    if let Some(max) = figures.merged.max {
        let (at, height) = (x.at(1.0 / count), y.at(max as f64));
        let circle = canvas.svg.element("circle").text_attribute("class", "dot");
        circle
            .number("cx", at)
            .number("cy", height)
            .number("r", 3.5)
            .end();
        let label = format!("max {}", words::duration(max));
        canvas
            .svg
            .label("strong halo", "end", at - 8.0, height - 6.0, &label);
    }
}

/// What was asked of a percentile: a tick that the curve must stay below.
fn targets(canvas: &mut Canvas, marks: &Marks, x: &Tail, y: &Log) {
    for &(above, ns) in &marks.percentiles {
        let (at, height) = (x.at(above), y.at(ns.max(1) as f64));
        let mut mark = Path::new();
        mark.to(at - 7.0, height);
        mark.to(at + 7.0, height);
        mark.lift();
        mark.to(at, height);
        mark.to(at, height - 9.0);
        canvas.svg.path("miss", &mark);
        let label = format!("asked: {}", words::duration(ns));
        canvas
            .svg
            .label("alert halo", "middle", at, height - 13.0, &label);
    }
}

/// The estimate of the tail with its interval.
fn tail(canvas: &mut Canvas, marks: &Marks, x: &Tail, y: &Log) {
    let Some((above, level, lower, upper)) = marks.tail else {
        return;
    };
    let (at, height) = (x.at(above) - 4.0, y.at(level));
    let mut bar = Path::new();
    for end in [y.at(lower), y.at(upper)] {
        bar.lift();
        bar.to(at - 4.0, end);
        bar.to(at + 4.0, end);
    }
    bar.lift();
    bar.to(at, y.at(lower));
    bar.to(at, y.at(upper));
    canvas.svg.path("merged thin", &bar);
    let circle = canvas
        .svg
        .element("circle")
        .text_attribute("class", "dot hollow");
    circle
        .number("cx", at)
        .number("cy", height)
        .number("r", 3.5)
        .end();
    canvas
        .svg
        .label("ink halo", "end", at - 9.0, height + 4.0, "tail estimate");
}

fn keys(figures: &Figures, lines: &[usize]) -> Vec<Key> {
    let p = |row: &Row| {
        let rung = row.ladder.iter().rev().find(|rung| rung.value_ns.is_some());
        rung.map_or_else(
            || "—".to_owned(),
            |r| {
                format!(
                    "p{} {}",
                    r.percentile,
                    words::duration(r.value_ns.unwrap_or(0))
                )
            },
        )
    };
    let mut keys = vec![Key {
        class: "merged".to_owned(),
        name: "all".to_owned(),
        value: p(&figures.merged),
    }];
    for (place, &i) in lines.iter().enumerate() {
        let row = &figures.rows[i];
        keys.push(Key {
            class: format!("series {}", colour(figures, place, i)),
            name: row.name.clone(),
            value: p(row),
        });
    }
    keys
}

fn describe(figures: &Figures, many: &str) -> String {
    let mut text = format!(
        "Percentiles of {} {many}:",
        words::count(figures.merged.count)
    );
    for rung in &figures.merged.ladder {
        match rung.value_ns {
            Some(ns) => text.push_str(&format!(" p{} {},", rung.percentile, words::duration(ns))),
            None => text.push_str(&format!(
                " p{} not supported by the sample,",
                rung.percentile
            )),
        }
    }
    text.push_str(&format!(
        " maximum {}.",
        words::duration(figures.merged.max.unwrap_or(0))
    ));
    text
}

/// The curve in two parts: what the sample of this row supports, and the rest.
fn curve(row: &Row, x: &Tail, y: &Log) -> (Path, Path) {
    let (mut sound, mut rest) = (Path::new(), Path::new());
    let mut last = None;
    for point in &row.curve {
        let at = (x.at(point.above), y.at(point.ns as f64));
        if point.above * row.count as f64 >= MIN_SAMPLES_BEYOND as f64 {
            sound.to(at.0, at.1);
        } else {
            if let Some((x, y)) = last.take().filter(|_| rest.is_empty()) {
                rest.to(x, y);
            }
            rest.to(at.0, at.1);
        }
        last = Some(at);
    }
    (sound, rest)
}

/// Draws a curve, its unsupported part faint.
fn draw_curve(canvas: &mut Canvas, class: &str, row: &Row, x: &Tail, y: &Log) {
    let (sound, rest) = curve(row, x, y);
    canvas.svg.path(&format!("{class} faint"), &rest);
    canvas.svg.path(class, &sound);
}
