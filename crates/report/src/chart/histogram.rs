//! The histogram: latency against how often, both logarithmic, so that one
//! sample in a billion is as visible as the bulk.

use super::{Canvas, Form, Key, MOST_LINES, Marks, colour, drawn, hover};
use crate::draw::svg::Path;
use crate::draw::{Log, axis};
use crate::figures::{Bins, Figures, Row, bin_edge};
use crate::words;

/// Where a count of zero lies on the scale of counts.
const FLOOR: f64 = 0.6;

/// Draws the histogram; `None` without samples.
#[must_use]
pub fn draw(figures: &Figures, marks: &Marks, form: Form, id: &str) -> Option<String> {
    let (low, high) = figures.range()?;
    let lines = drawn(figures);
    let many = figures.rows.len() > MOST_LINES;
    let keys = keys(figures, &lines, many);
    let mut canvas = Canvas::new(
        form,
        id,
        if marks.terms.are_gaps() {
            "Histogram of gaps"
        } else {
            "Histogram of latencies"
        },
        &describe(figures, marks),
        &keys,
        marks,
    );
    let frame = canvas.frame;

    let deadline = marks.deadline_ns.map(|ns| ns.max(1) as f64);
    let (from, to) = axis::nice_range(
        deadline.map_or(low as f64, |d| d.min(low as f64)),
        deadline.map_or(high as f64, |d| d.max(high as f64)) * 1.04,
    );
    let x = Log::new(from, to, frame.left, frame.right);
    let most = figures
        .merged
        .bins
        .values()
        .copied()
        .max()
        .unwrap_or(1)
        .max(1) as f64;
    let top = 10f64.powf((most * 1.2).log10().ceil().max(1.0));
    let y = Log::new(FLOOR, top, frame.bottom, frame.top);

    if let Some(deadline) = deadline {
        let at = x.at(deadline);
        canvas
            .svg
            .rectangle("late", at, frame.top, frame.right - at, frame.height());
    }
    frame.latency_below(&mut canvas.svg, &x);
    frame.log_left(&mut canvas.svg, &y, axis::count_label);
    frame.titles(&mut canvas.svg, marks.terms.many, marks.terms.size);

    let floor = frame.bottom;
    if many {
        canvas.svg.path("band", &band(figures, &x, &y));
    }
    if figures.rows.len() > 1 || many {
        canvas
            .svg
            .path("area", &steps(&figures.merged.bins, &x, &y, floor, true));
        canvas.svg.path(
            "merged thin",
            &steps(&figures.merged.bins, &x, &y, floor, false),
        );
    } else {
        canvas
            .svg
            .path("area", &steps(&figures.merged.bins, &x, &y, floor, true));
    }
    for (place, &i) in lines.iter().enumerate() {
        let class = format!("series {}", colour(figures, place, i));
        canvas
            .svg
            .path(&class, &steps(&figures.rows[i].bins, &x, &y, floor, false));
    }
    frame.rules(&mut canvas.svg);
    for (place, &i) in lines.iter().enumerate() {
        if let Some(max) = figures.rows[i].max {
            let class = format!("dot {}", colour(figures, place, i));
            canvas
                .svg
                .element("circle")
                .text_attribute("class", &class)
                .number("cx", x.at(max as f64))
                .number("cy", floor)
                .number("r", 3.5)
                .end();
        }
    }
    if let Some(deadline) = marks.deadline_ns {
        let at = x.at(deadline.max(1) as f64);
        canvas
            .svg
            .line("deadline", (at, frame.top - 6.0), (at, floor));
        let anchor = if at > frame.right - 60.0 {
            "end"
        } else {
            "middle"
        };
        let label = format!("deadline {}", words::duration(deadline));
        // Above the area, clear of the axis' title at its left.
        let at = if anchor == "middle" {
            at.max(frame.left + 110.0)
        } else {
            frame.right
        };
        canvas
            .svg
            .label("alert", anchor, at, frame.top - 12.0, &label);
    }
    canvas.legend(&keys);
    strips(&mut canvas, &figures.merged.bins, &x, marks.terms.many);
    Some(canvas.finish())
}

/// What is said under the pointer: how many of all CPUs lie in a bin, or in several.
fn strips(canvas: &mut Canvas, bins: &Bins, x: &Log, many: &str) {
    let (Some((&first, _)), Some((&last, _))) = (bins.first_key_value(), bins.last_key_value())
    else {
        return;
    };
    let all = usize::try_from(i64::from(last) - i64::from(first) + 1).unwrap_or(1);
    let each = all.div_ceil(hover::most(canvas.form)).max(1);
    let each = i32::try_from(each).unwrap_or(i32::MAX);
    let mut from = first;
    while from <= last {
        let to = from.saturating_add(each);
        let count = bins
            .range(from..to)
            .fold(0u64, |sum, bin| sum.saturating_add(*bin.1));
        let (low, high) = (bin_edge(from), bin_edge(to));
        if count > 0 {
            let says = format!(
                "{} to {}: {} {many}",
                words::duration_f64(low.round()),
                words::duration_f64(high.round()),
                words::count(count)
            );
            hover::strip(
                &mut canvas.svg,
                &canvas.frame,
                (x.at(low), x.at(high)),
                &says,
            );
        }
        from = to;
    }
}

fn keys(figures: &Figures, lines: &[usize], many: bool) -> Vec<Key> {
    let value = |row: &Row| row.max.map_or_else(|| "—".to_owned(), words::duration);
    let mut keys = Vec::new();
    if figures.rows.len() > 1 {
        keys.push(Key {
            class: "merged".to_owned(),
            name: figures.merged.name.clone(),
            value: format!("max {}", value(&figures.merged)),
        });
    }
    for (place, &i) in lines.iter().enumerate() {
        let row = &figures.rows[i];
        keys.push(Key {
            class: format!("series {}", colour(figures, place, i)),
            name: row.name.clone(),
            value: if keys.is_empty() {
                format!("max {}", value(row))
            } else {
                value(row)
            },
        });
    }
    if many {
        let rest = figures.rows.len() - lines.len();
        keys.push(Key {
            class: "bandkey".to_owned(),
            name: format!("the other {} CPUs", words::count(rest as u64)),
            value: String::new(),
        });
    }
    keys
}

fn describe(figures: &Figures, marks: &Marks) -> String {
    let all = &figures.merged;
    let mut text = format!(
        "{} {} on {} CPUs between {} and {}, median {}.",
        words::count(all.count),
        marks.terms.many,
        words::count(figures.rows.len() as u64),
        words::duration(all.min.unwrap_or(0)),
        words::duration(all.max.unwrap_or(0)),
        all.percentile(50.0)
            .map_or_else(|| "not known".to_owned(), words::duration),
    );
    if let Some(deadline) = marks.deadline_ns {
        text.push_str(&format!(
            " {} were later than the deadline of {}.",
            words::count(all.late),
            words::duration(deadline)
        ));
    }
    text
}

/// The outline of a histogram as steps, with gaps where no sample fell.
fn steps(bins: &Bins, x: &Log, y: &Log, floor: f64, closed: bool) -> Path {
    let mut path = Path::new();
    let mut last = None;
    for (&bin, &count) in bins {
        if last.is_some_and(|last| bin > last + 1) {
            let edge = x.at(bin_edge(last.unwrap_or(bin) + 1));
            path.to(edge, floor);
            if closed {
                path.close();
            } else {
                path.lift();
            }
            last = None;
        }
        if last.is_none() {
            path.to(x.at(bin_edge(bin)), floor);
        }
        let height = y.at(count as f64);
        path.to(x.at(bin_edge(bin)), height);
        path.to(x.at(bin_edge(bin + 1)), height);
        last = Some(bin);
    }
    if let Some(last) = last {
        path.to(x.at(bin_edge(last + 1)), floor);
        if closed {
            path.close();
        }
    }
    path
}

/// The band from the lowest to the highest count of any CPU, per bin.
fn band(figures: &Figures, x: &Log, y: &Log) -> Path {
    let mut path = Path::new();
    for &bin in figures.merged.bins.keys() {
        let counts = figures
            .rows
            .iter()
            .map(|row| row.bins.get(&bin).copied().unwrap_or(0));
        let (lowest, highest) = counts.fold((u64::MAX, 0), |(a, b), c| (a.min(c), b.max(c)));
        if highest > 0 {
            let (left, right) = (x.at(bin_edge(bin)), x.at(bin_edge(bin + 1)));
            let (upper, lower) = (y.at(highest as f64), y.at(lowest as f64));
            path.to(left, lower);
            path.to(left, upper);
            path.to(right, upper);
            path.to(right, lower);
            path.close();
        }
    }
    path
}
