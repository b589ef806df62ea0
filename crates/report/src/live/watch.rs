//! What is seen while a program is watched.

use super::{progress, said};
use crate::facts;
use crate::style::{Style, Tone, cut, wrap};
use crate::table::{self, Cell};
use crate::words;
use punctual_record::live::{LiveRow, LiveSubject, LiveWatch, Notable, RowsAre};

/// The block that is redrawn on a terminal.
#[must_use]
pub fn watch_lines(view: &LiveWatch, style: &Style) -> Vec<String> {
    let room = style.width.max(20) - 1;
    let mut lines = vec![progress(
        &subject(&view.subject),
        view.elapsed_ns,
        view.total_ns,
        style,
    )];
    let mut tail = Vec::new();
    for note in view.notes.iter().take(3) {
        let wrapped = wrap(&said(note), room).into_iter().take(2);
        tail.extend(wrapped.map(|line| style.paint(Tone::Unsure, &line)));
    }
    let marks = marks(view, style, room);
    let free = style.height.saturating_sub(tail.len() + marks.len() + 4);
    lines.extend(rows(view, style, free.max(1), room));
    lines.extend(marks);
    lines.extend(tail);
    lines.truncate(style.height.max(2) - 1);
    lines.iter().map(|line| cut(line, style.width)).collect()
}

fn subject(subject: &LiveSubject) -> String {
    match subject {
        LiveSubject::System => "watch the system".to_owned(),
        LiveSubject::Program { name, pid } => format!("watch {name} ({pid})"),
        LiveSubject::Several { name } => format!("watch {name}"),
    }
}

fn marks(view: &LiveWatch, style: &Style, room: usize) -> Vec<String> {
    if view.marks.is_empty() {
        return Vec::new();
    }
    let heads = ["mark", "", "times", "mean/µs", "p99", "max"];
    let mut cells: Vec<Vec<Cell>> = vec![
        heads
            .iter()
            .map(|name| Cell::toned(*name, Tone::Dim))
            .collect(),
    ];
    for mark in &view.marks {
        let figure = |ns: Option<f64>| Cell::new(ns.map_or_else(|| "—".to_owned(), words::micros));
        let (what, tone) = match (mark.refused, mark.point) {
            (true, _) => ("not seen", Tone::Bad),
            (false, true) => ("interval", Tone::Dim),
            (false, false) => ("duration", Tone::Dim),
        };
        cells.push(vec![
            Cell::new(words::label(&mark.name)),
            Cell::toned(what, tone),
            Cell::new(words::short_count(mark.count)),
            figure(mark.max_ns.map(|_| mark.avg_ns)),
            figure(mark.p99_ns.map(|ns| ns as f64)),
            figure(mark.max_ns.map(|ns| ns as f64)),
        ]);
    }
    table::set(&cells, room, style)
}

fn rows(view: &LiveWatch, style: &Style, free: usize, room: usize) -> Vec<String> {
    let mut shown: Vec<usize> = (0..view.rows.len()).collect();
    if shown.len() > free {
        shown.sort_by_key(|&i| std::cmp::Reverse(view.rows[i].max_ns));
        shown.truncate(free);
    }
    let program = view.rows_are == RowsAre::Threads;
    let mut head = vec![words::row(view.rows_are), "wake-ups"];
    if program {
        head.push("period");
    }
    head.extend(["mean/µs", "p99.9", "max", "late"]);
    if program {
        head.extend(["skipped", "preempted", "faults", "moved"]);
    }
    head.push("");
    let mut cells: Vec<Vec<Cell>> = vec![
        head.iter()
            .map(|name| Cell::toned(*name, Tone::Dim))
            .collect(),
    ];
    for &index in &shown {
        cells.push(row(view, &view.rows[index], program));
    }
    // A narrow terminal gives up what matters least, from behind.
    let order: &[usize] = if program {
        &[11, 10, 2, 9, 3, 8, 4]
    } else {
        &[6, 2]
    };
    let mut gone: Vec<usize> = Vec::new();
    for &column in order {
        if table::width(&cells, 1) <= room {
            break;
        }
        let at = column - gone.iter().filter(|other| **other < column).count();
        cells.iter_mut().for_each(|row| drop(row.remove(at)));
        gone.push(column);
    }
    let mut lines = table::set(&cells, room, style);
    let rest = view.rows.len() - shown.len();
    if rest > 0 {
        let least = shown.last().map_or(0, |&i| view.rows[i].max_ns);
        let text = format!(
            "and {rest} more with a maximum of at most {}",
            words::duration(least)
        );
        lines.push(style.paint(Tone::Dim, &text));
    }
    lines
}

/// `12 × futex, 3 ms`, or `rt-loop ‹ kworker/1:2`.
fn notable(notable: &Notable) -> String {
    let name = |task: &Option<String>| task.clone().unwrap_or_else(|| "idle".to_owned());
    match notable {
        Notable::Sleep {
            call,
            count,
            worst_ns,
        } => {
            let (call, worst) = (facts::call(call), words::duration(*worst_ns));
            format!("{count} × {call}, {worst}")
        }
        Notable::WakeUp { woken, before } => format!("{} ‹ {}", name(woken), name(before)),
    }
}

fn row(view: &LiveWatch, row: &LiveRow, program: bool) -> Vec<Cell> {
    let none = || Cell::new("—");
    let figure = |ns: f64| {
        if row.count > 0 {
            Cell::new(words::micros(ns))
        } else {
            none()
        }
    };
    let alarm = |count: u64| {
        let tone = if count > 0 { Tone::Bad } else { Tone::Plain };
        Cell::toned(words::short_count(count), tone)
    };
    let mut max = figure(row.max_ns as f64);
    if view.deadline_ns.is_some_and(|limit| row.max_ns > limit) {
        max.tone = Tone::Bad;
    }
    let mut cells = vec![
        Cell::new(row.label.clone()),
        Cell::new(words::short_count(row.count)),
    ];
    if program {
        cells.push(
            row.period_ns
                .map_or_else(none, |ns| Cell::new(words::duration(ns))),
        );
    }
    cells.extend([
        figure(row.avg_ns),
        row.p999_ns.map_or_else(none, |ns| figure(ns as f64)),
        max,
        if view.deadline_ns.is_some() {
            alarm(row.late)
        } else {
            none()
        },
    ]);
    if program {
        let plain = |count: u64| Cell::new(words::short_count(count));
        cells.extend([
            alarm(row.missed),
            plain(row.preempted),
            plain(row.faults),
            plain(row.migrations),
        ]);
    }
    cells.push(Cell::new(
        row.notable.as_ref().map_or_else(String::new, notable),
    ));
    cells
}

/// One line, for a log.
#[must_use]
pub fn watch_plain_line(view: &LiveWatch) -> String {
    let count = view
        .rows
        .iter()
        .fold(0_u64, |sum, row| sum.saturating_add(row.count));
    let worst = view
        .rows
        .iter()
        .filter(|row| row.count > 0)
        .max_by_key(|row| row.max_ns);
    let sum = |of: fn(&LiveRow) -> u64| {
        view.rows
            .iter()
            .fold(0_u64, |sum, row| sum.saturating_add(of(row)))
    };
    let mut text = format!(
        "{}  {}  {}",
        words::clock(view.elapsed_ns),
        words::clean(&subject(&view.subject)),
        words::plural(count, "wake-up", "wake-ups"),
    );
    if let Some(worst) = worst {
        text += &format!(
            ", worst {} ({})",
            words::duration(worst.max_ns),
            words::clean(&worst.label)
        );
    }
    if view.deadline_ns.is_some() {
        text += &format!(", {} late", words::count(sum(|row| row.late)));
    }
    if view.rows_are == RowsAre::Threads {
        text += &format!(
            ", {} skipped, {} preempted, {} faults",
            words::count(sum(|row| row.missed)),
            words::count(sum(|row| row.preempted)),
            words::count(sum(|row| row.faults)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use punctual_record::live::LiveMark;

    use super::*;

    fn view(rows: usize) -> LiveWatch {
        let row = |index: usize| LiveRow {
            label: format!("worker-{index}/4711"),
            count: 10_000,
            period_ns: Some(1_000_000),
            avg_ns: 12_345.0,
            p999_ns: Some(40_000),
            max_ns: 50_000 + index as u64,
            notable: Some(Notable::Sleep {
                call: "read".into(),
                count: 7,
                worst_ns: 12_300_000,
            }),
            ..LiveRow::default()
        };
        let mark = |index: usize| LiveMark {
            name: format!("usdt:controller:cycle-{index}"),
            count: 1_000_000,
            refused: index == 1,
            point: index == 0,
            avg_ns: 1e6,
            p99_ns: Some(1_100_000),
            max_ns: (index != 1).then_some(2_000_000_000),
        };
        LiveWatch {
            subject: LiveSubject::Program {
                name: "controller".to_owned(),
                pid: 4711,
            },
            rows_are: RowsAre::Threads,
            rows: (0..rows).map(row).collect(),
            marks: (0..rows % 4).map(mark).collect(),
            ..LiveWatch::default()
        }
    }

    #[test]
    fn it_fits_whatever_the_terminal() {
        for rows in [0, 1, 3, 100] {
            for width in [0, 10, 20, 40, 60, 80, 200] {
                for height in [0, 1, 5, 24] {
                    let style = Style {
                        width,
                        height,
                        ..Style::plain()
                    };
                    let lines = watch_lines(&view(rows), &style);
                    assert!(lines.len() <= height.max(2));
                    for line in lines {
                        assert!(line.chars().count() <= width.max(20), "{width}: {line}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_stands_out_is_said_in_a_few_words() {
        let style = Style {
            width: 200,
            ..Style::plain()
        };
        let lines = watch_lines(&view(1), &style).join("\n");
        assert!(lines.contains("7 × read, 12.3 ms"), "{lines}");
        let late = |before: Option<&str>| {
            notable(&Notable::WakeUp {
                woken: Some("rt-loop".to_owned()),
                before: before.map(str::to_owned),
            })
        };
        assert_eq!(late(Some("kworker/1:2")), "rt-loop ‹ kworker/1:2");
        assert_eq!(late(None), "rt-loop ‹ idle");
    }

    #[test]
    fn the_line_for_a_log_names_the_worst() {
        let line = watch_plain_line(&view(3));
        assert!(line.contains("worker-2/4711"), "{line}");
        assert!(line.contains("30,000 wake-ups"), "{line}");
    }
}
