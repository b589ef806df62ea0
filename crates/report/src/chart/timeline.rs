//! Latency over time: the lowest, the mean and the highest of each stretch,
//! and when deadlines were missed.

use super::{Canvas, Form, KEY, Key, Marks, hover};
use crate::draw::svg::Path;
use crate::draw::{Linear, Log, axis};
use crate::words;
use punctual_record::{Run, TimelineRow};

/// Most stretches that are drawn; more are taken together.
const MOST: usize = 360;

/// Takes rows together until at most `most` are left. A maximum stays a
/// maximum and a miss a miss.
#[must_use]
pub fn condense(rows: &[TimelineRow], most: usize) -> (Vec<TimelineRow>, usize) {
    let each = rows.len().div_ceil(most.max(1)).max(1);
    let rows = rows
        .chunks(each)
        .map(|chunk| {
            let mut sum = TimelineRow::default();
            for row in chunk.iter().filter(|row| row.count > 0 || row.missed > 0) {
                if row.count > 0 {
                    sum.min_ns = if sum.count == 0 {
                        row.min_ns
                    } else {
                        sum.min_ns.min(row.min_ns)
                    };
                }
                sum.count = sum.count.saturating_add(row.count);
                sum.sum_ns = sum.sum_ns.saturating_add(row.sum_ns);
                sum.max_ns = sum.max_ns.max(row.max_ns);
                sum.late = sum.late.saturating_add(row.late);
                sum.missed = sum.missed.saturating_add(row.missed);
                sum.misses = sum.misses.saturating_add(row.misses);
            }
            sum
        })
        .collect();
    (rows, each)
}

/// Draws latency over time; `None` without a timeline.
#[must_use]
pub fn draw(run: &Run, marks: &Marks, form: Form, id: &str) -> Option<String> {
    let timeline = &run.timeline;
    let most = if form == Form::Narrow { 160 } else { MOST };
    let (rows, each) = condense(&timeline.rows, most);
    let filled = || rows.iter().filter(|row| row.count > 0);
    let high = filled().map(|row| row.max_ns).max()?;
    let low = filled().map(|row| row.min_ns.max(1)).min()?;
    let width_ns = timeline.row_ns.max(1) as f64 * each as f64;
    // The last row may be cut short by the end of the run.
    let whole = timeline.row_ns.max(1) as f64 * timeline.rows.len() as f64;
    let measured = run.measured_ns as f64;
    let span = if measured > 0.0 && measured < whole {
        measured
    } else {
        whole
    };

    let keys = [
        ("series s0", "highest"),
        ("merged thin", "mean"),
        ("bandkey", "lowest to highest"),
    ]
    .map(|(class, name)| Key {
        class: class.to_owned(),
        name: name.to_owned(),
        value: String::new(),
    });
    let mut canvas = Canvas::new(
        form,
        id,
        &format!("{} over time", marks.terms.heading),
        &describe(run, high, marks.terms.size),
        &keys,
        marks,
    );
    let frame = canvas.frame;
    let x = Linear::new(span, frame.left, frame.right);
    let deadline = marks.deadline_ns.map(|ns| ns.max(1) as f64);
    let (from, to) = axis::nice_range(
        deadline.map_or(low as f64, |d| d.min(low as f64)),
        deadline.map_or(high as f64, |d| d.max(high as f64)) * 1.1,
    );
    let y = Log::new(from, to, frame.bottom, frame.top);

    if let Some(deadline) = deadline {
        canvas.svg.rectangle(
            "late",
            frame.left,
            frame.top,
            frame.width(),
            y.at(deadline) - frame.top,
        );
    }
    frame.log_left(&mut canvas.svg, &y, axis::latency_label);
    frame.time_below(&mut canvas.svg, &x);
    frame.titles(&mut canvas.svg, marks.terms.size, "time since the start");

    let edges = |i: usize| (x.at(i as f64 * width_ns), x.at((i + 1) as f64 * width_ns));
    let (mut band, mut top, mut mean, mut missed) =
        (Path::new(), Path::new(), Path::new(), Path::new());
    for (i, row) in rows.iter().enumerate() {
        let (left, right) = edges(i);
        if row.count == 0 {
            top.lift();
            mean.lift();
        } else {
            let (upper, lower) = (y.at(row.max_ns as f64), y.at(row.min_ns as f64));
            band.to(left, lower);
            band.to(left, upper);
            band.to(right, upper);
            band.to(right, lower);
            band.close();
            top.to(left, upper);
            top.to(right, upper);
            let middle = y.at(row.sum_ns as f64 / row.count as f64);
            mean.to(left, middle);
            mean.to(right, middle);
        }
        if row.missed > 0 || row.late > 0 {
            let middle = (left + right) / 2.0;
            missed.lift();
            missed.to(middle, frame.bottom - 1.0);
            missed.to(middle, frame.bottom - 9.0);
        }
    }
    canvas.svg.path("band", &band);
    canvas.svg.path("merged thin", &mean);
    canvas.svg.path("series s0", &top);
    frame.rules(&mut canvas.svg);
    canvas.svg.path("miss", &missed);
    if let Some(deadline) = marks.deadline_ns {
        let at = y.at(deadline.max(1) as f64);
        canvas
            .svg
            .line("deadline", (frame.left, at), (frame.right, at));
        let label = format!("deadline {}", words::duration(deadline));
        let high_up = at < frame.top + 18.0;
        let y = if high_up { at + 14.0 } else { at - 5.0 };
        canvas
            .svg
            .label("alert halo", "end", frame.right - 4.0, y, &label);
    }
    worst(&mut canvas, &rows, &y, edges);
    canvas.legend(&keys);
    if !missed.is_empty() {
        let (x, y) = if form == Form::Narrow {
            (canvas.legend.0 + 184.0, canvas.legend.1 + 18.0)
        } else {
            (canvas.legend.0, canvas.legend.1 + 54.0)
        };
        canvas.svg.line("miss", (x + 8.0, y - 8.0), (x + 8.0, y));
        canvas
            .svg
            .label("ink", "start", x + KEY, y, marks.terms.late_mark);
    }
    let missed = marks.terms.missed;
    strips(
        &mut canvas,
        &timeline.rows,
        (&x, timeline.row_ns.max(1)),
        missed,
    );
    Some(canvas.finish())
}

/// What is said under the pointer.
fn strips(canvas: &mut Canvas, rows: &[TimelineRow], (x, row_ns): (&Linear, u64), missed: &str) {
    let (rows, each) = condense(rows, hover::most(canvas.form));
    let width_ns = row_ns as f64 * each as f64;
    for (i, row) in rows.iter().enumerate() {
        let from_ns = i as f64 * width_ns;
        let mut says = match row.count {
            0 => format!("{}: none", words::instant(from_ns as u64)),
            count => format!(
                "{}: max {}, mean {}",
                words::instant(from_ns as u64),
                words::duration(row.max_ns),
                words::duration_f64((row.sum_ns as f64 / count as f64).round()),
            ),
        };
        if row.late > 0 {
            says += &format!(", {} late", words::count(row.late));
        }
        if row.missed > 0 {
            says += &format!(", {} {missed}", words::count(row.missed));
        }
        let strip = (x.at(from_ns), x.at(from_ns + width_ns));
        hover::strip(&mut canvas.svg, &canvas.frame, strip, &says);
    }
}

/// Names the highest latency where it stands.
fn worst(canvas: &mut Canvas, rows: &[TimelineRow], y: &Log, edges: impl Fn(usize) -> (f64, f64)) {
    let frame = canvas.frame;
    let Some((i, row)) = rows
        .iter()
        .enumerate()
        .filter(|r| r.1.count > 0)
        .max_by_key(|r| r.1.max_ns)
    else {
        return;
    };
    let (left, right) = edges(i);
    let (at, height) = ((left + right) / 2.0, y.at(row.max_ns as f64));
    canvas
        .svg
        .element("circle")
        .text_attribute("class", "dot s0")
        .number("cx", at)
        .number("cy", height)
        .number("r", 3.0)
        .end();
    let anchor = if at > frame.right - 120.0 {
        "end"
    } else {
        "start"
    };
    let dx = if anchor == "end" { -7.0 } else { 7.0 };
    let label = format!("max {}", words::duration(row.max_ns));
    canvas.svg.label(
        "strong halo",
        anchor,
        at + dx,
        (height - 4.0).max(frame.top - 2.0),
        &label,
    );
}

fn describe(run: &Run, high: u64, size: &str) -> String {
    let timeline = &run.timeline;
    format!(
        "The lowest, mean and highest {size} over {} of measurement. The highest was {}. \
         {} of {} seconds held a miss.",
        words::duration(run.measured_ns),
        words::duration(high),
        words::count(timeline.seconds_with_miss),
        words::count(timeline.seconds),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condensing_keeps_the_extremes_and_the_sums() {
        let row = |n: u64| TimelineRow {
            count: n % 3,
            min_ns: n,
            sum_ns: n * (n % 3),
            max_ns: if n.is_multiple_of(3) { 0 } else { 2 * n },
            late: 1,
            missed: 2,
            misses: 3,
        };
        let rows: Vec<_> = (0..1000).map(row).collect();
        let (few, each) = condense(&rows, 30);
        assert_eq!(each, 34);
        assert_eq!(few.len(), 30);
        assert_eq!(few.iter().map(|r| r.missed).sum::<u64>(), 2000);
        assert_eq!(
            few.iter().map(|r| r.count).sum::<u64>(),
            rows.iter().map(|r| r.count).sum::<u64>()
        );
        assert_eq!(
            few.iter().map(|r| r.max_ns).max(),
            rows.iter().map(|r| r.max_ns).max()
        );
        assert_eq!(few[0].min_ns, 1, "a row without samples has no minimum");
        assert_eq!(condense(&[], 10).0.len(), 0);
    }
}
