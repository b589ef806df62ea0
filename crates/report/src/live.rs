//! What is seen while a run goes: a block that is redrawn, plain lines where
//! nothing can be redrawn, and cyclictest's lines.

mod tasks;
mod watch;

pub use tasks::{TaskOrder, tasks_lines, tasks_plain_line};
pub use watch::{watch_lines, watch_plain_line};

use super::facts;
use super::style::{Style, Tone, cut, wrap};
use super::table::{self, Cell};
use super::terms::Terms;
use super::words;
use punctual_record::live::{LiveLoad, LiveThread, LiveView, Note, SPARK_BUCKETS, Step};

/// What a reader must know at once, in words.
fn said(note: &Note) -> String {
    match note {
        Note::Unmet(demand) => format!(
            "{}: asked {}, found {}",
            demand.name(),
            facts::requested(demand),
            facts::found(demand)
        ),
        Note::Happened(event) => facts::event(event, "punctual"),
        Note::NothingRan { every: true } => "no thread has run yet".to_owned(),
        Note::NothingRan { every: false } => {
            "no real-time thread has run yet (--all watches all)".to_owned()
        }
    }
}

/// A step before or after the measurement, in a few words.
#[must_use]
pub fn step(step: &Step) -> String {
    match step {
        Step::ReadSettings => "reading the machine's settings".to_owned(),
        Step::CheckMachine => "checking the machine".to_owned(),
        Step::RestoreSettings => "restoring the settings of the machine".to_owned(),
        Step::SetUpTracing => "setting up tracing".to_owned(),
        Step::SetUpProbes => "setting up the probe threads".to_owned(),
        Step::MeasureSpeed => "measuring the speed of the CPUs".to_owned(),
        Step::Connect { host } => format!("connecting to {}", words::clean(host)),
        Step::SetUpTasks => "setting up the tasks".to_owned(),
        Step::StartLoad { load } => format!("starting {load}"),
        Step::CrossCheck { tracer, length_ns } => format!(
            "cross-checking with {} for {:.0} s",
            tracer.name(),
            *length_ns as f64 / 1e9
        ),
        Step::EndRun => "ending the run".to_owned(),
        Step::EndWatch => "ending the watch".to_owned(),
        Step::Analyse => "analysing".to_owned(),
    }
}

/// The block that is redrawn on a terminal: at most [`Style::height`] lines of
/// at most [`Style::width`] characters.
#[must_use]
pub fn status_lines(view: &LiveView, style: &Style) -> Vec<String> {
    let mut lines = vec![progress(&view.verb, view.elapsed_ns, view.total_ns, style)];
    let mut tail = Vec::new();
    let room = style.width.max(20) - 1;
    for note in view.notes.iter().take(2) {
        tail.extend(
            wrap(&said(note), room)
                .into_iter()
                .take(2)
                .map(|l| style.paint(Tone::Unsure, &l)),
        );
    }
    if !view.loads.is_empty() {
        let loads: Vec<String> = view.loads.iter().map(load).collect();
        let text = format!("load: {}", loads.join(" · "));
        let tone = if view.loads.iter().any(|l| l.failed) {
            Tone::Bad
        } else {
            Tone::Dim
        };
        tail.extend(
            wrap(&text, room)
                .into_iter()
                .take(3)
                .map(|line| style.paint(tone, &line)),
        );
    }
    // The head, the table's heading and the line for the CPUs left out.
    let free = style.height.saturating_sub(tail.len() + 4).max(1);
    lines.extend(rows(view, style, free, room));
    lines.extend(tail);
    lines.truncate(style.height.max(2) - 1);
    lines.iter().map(|line| cut(line, style.width)).collect()
}

fn progress(verb: &str, elapsed_ns: u64, total_ns: Option<u64>, style: &Style) -> String {
    let elapsed = words::clock(elapsed_ns);
    let verb = words::clean(verb);
    let Some(total) = total_ns.filter(|total| *total > 0) else {
        return style.paint(Tone::Bold, &format!("{verb}  {elapsed}, until interrupted"));
    };
    let share = (elapsed_ns as f64 / total as f64).min(1.0);
    let left = words::clock(
        total
            .saturating_sub(elapsed_ns)
            .div_ceil(1_000_000_000)
            .saturating_mul(1_000_000_000),
    );
    let text = format!(
        " {:3.0} %  {elapsed} of {}, {left} left",
        (share * 100.0).floor(),
        words::clock(total)
    );
    let room = style
        .width
        .saturating_sub(text.chars().count() + verb.chars().count() + 4)
        .min(40);
    let full = (share * room as f64).floor() as usize;
    let (on, off) = if style.unicode {
        ("━", "─")
    } else {
        ("#", ".")
    };
    let bar = |piece: &str, times: usize, code: &str| {
        let bar = piece.repeat(times);
        if style.colour && times > 0 {
            format!("\x1b[{code}m{bar}\x1b[0m")
        } else {
            bar
        }
    };
    format!(
        "{} {}{}{text}",
        style.paint(Tone::Bold, &verb),
        bar(on, full, "1"),
        bar(off, room - full, "2")
    )
}

fn load(load: &LiveLoad) -> String {
    let state = if load.failed {
        "failed".to_owned()
    } else {
        words::rate(load.rate, &load.unit)
    };
    format!("{} {state}", load.name)
}

/// The table of CPUs, the worst of them where not all fit.
fn rows(view: &LiveView, style: &Style, free: usize, room: usize) -> Vec<String> {
    let mut shown: Vec<usize> = (0..view.threads.len()).collect();
    if shown.len() > free {
        shown.sort_by_key(|&i| std::cmp::Reverse(view.threads[i].max_ns));
        shown.truncate(free);
    }
    let late = |ns: u64| view.deadline_ns.is_some_and(|d| ns > d);
    let alarm = |n: u64| {
        let tone = if n > 0 { Tone::Bad } else { Tone::Plain };
        Cell::toned(words::short_count(n), tone)
    };
    let heading = [
        "CPU",
        "min/µs",
        "now",
        "mean",
        "p99.9",
        "max",
        if view.gaps { "above" } else { "late" },
        Terms::of(view.messages).missed,
    ];
    let mut cells = vec![heading.map(|name| Cell::toned(name, Tone::Dim)).to_vec()];
    for &i in &shown {
        let t = &view.threads[i];
        let figure = |ns: f64| {
            Cell::new(if t.count > 0 {
                words::micros(ns)
            } else {
                "—".to_owned()
            })
        };
        let mut max = figure(t.max_ns as f64);
        if late(t.max_ns) {
            max.tone = Tone::Bad;
        }
        let p999 = t
            .p999_ns
            .map_or_else(|| Cell::new("—"), |ns| figure(ns as f64));
        cells.push(vec![
            Cell::new(t.cpu.to_string()),
            figure(t.min_ns as f64),
            figure(t.act_ns as f64),
            figure(t.avg_ns),
            p999,
            max,
            alarm(t.late),
            alarm(t.missed),
        ]);
    }
    // Columns keep their place while the figures grow.
    for (cell, least) in cells[0].iter_mut().zip([3, 6, 5, 5, 5, 6, 4, 6]) {
        let pad = usize::saturating_sub(least, cell.text.chars().count());
        cell.text.insert_str(0, &" ".repeat(pad));
    }
    // A narrow terminal gives up what matters least.
    for column in [3, 1, 2] {
        if table::width(&cells, 1) > room {
            cells.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
    // The unit stands with the first figure, whichever that is.
    if !cells[0][1].text.ends_with("/µs") {
        cells[0][1].text = format!("{}/µs", cells[0][1].text.trim_start());
    }
    let narrow = room.saturating_sub(2 + SPARK_BUCKETS);
    let spark = table::width(&cells, 1) <= narrow;
    let highest = view.threads.iter().flat_map(|t| t.spark).max().unwrap_or(0);
    let mut lines = table::set(&cells, if spark { narrow } else { room }, style);
    for (i, line) in lines.iter_mut().enumerate() {
        if !spark {
            break;
        }
        line.push_str("  ");
        match i.checked_sub(1) {
            None => line.push_str(&style.paint(Tone::Dim, "1µs 10  100 1ms 10  100")),
            Some(i) => line.push_str(&sparkline(
                &view.threads[shown[i]].spark,
                highest,
                style.unicode,
            )),
        }
    }
    let rest = view.threads.len() - shown.len();
    if rest > 0 {
        let least = shown.last().map_or(0, |&i| view.threads[i].max_ns);
        let text = format!(
            "and {rest} more CPUs with a maximum of at most {}",
            words::duration(least)
        );
        lines.push(style.paint(Tone::Dim, &text));
    }
    lines
}

/// A sparkline on a logarithmic scale: one sample shows as well as a million.
#[must_use]
pub fn sparkline(counts: &[u64], highest: u64, unicode: bool) -> String {
    let levels: &[char] = if unicode {
        &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &['.', ':', '-', '=', '+', '*', '#', '@']
    };
    let top = (highest.max(1) as f64 + 1.0).ln();
    let text: String = counts
        .iter()
        .map(|&count| {
            if count == 0 {
                return ' ';
            }
            let share = (count as f64 + 1.0).ln() / top;
            levels[((share * 8.0).ceil() as usize).clamp(1, 8) - 1]
        })
        .collect();
    text.trim_end().to_owned()
}

/// One line for logs and pipes, to be written every few seconds.
#[must_use]
pub fn plain_line(view: &LiveView) -> String {
    let count = view
        .threads
        .iter()
        .fold(0u64, |sum, t| sum.saturating_add(t.count));
    let sum = |field: fn(&LiveThread) -> u64| {
        words::count(
            view.threads
                .iter()
                .fold(0u64, |sum, t| sum.saturating_add(field(t))),
        )
    };
    let mut line = words::clock(view.elapsed_ns);
    if let Some(total) = view.total_ns {
        line += &format!(" of {}", words::clock(total));
    }
    let what = match (view.gaps, view.messages) {
        (true, _) => "gaps",
        (false, true) => "messages",
        (false, false) => "wake-ups",
    };
    line += &format!(": {} {what}", words::count(count));
    if let Some(worst) = view
        .threads
        .iter()
        .filter(|t| t.count > 0)
        .max_by_key(|t| t.max_ns)
    {
        line += &format!(
            ", max {} on CPU {}",
            words::duration(worst.max_ns),
            worst.cpu
        );
    }
    if view.deadline_ns.is_some() {
        let what = if view.gaps { "above the limit" } else { "late" };
        line += &format!(", {} {what}", sum(|t| t.late));
    }
    if !view.gaps {
        let what = Terms::of(view.messages).missed;
        line += &format!(", {} {what}", sum(|t| t.missed));
    }
    if view.threads.iter().any(|t| t.lost > 0) {
        line += &format!(", {} LOST", sum(|t| t.lost));
    }
    if !view.loads.is_empty() {
        let loads: Vec<String> = view.loads.iter().map(load).collect();
        line += &format!("; load {}", loads.join(", "));
    }
    words::clean(&line)
}

/// The lines that cyclictest prints while it runs, one for each thread.
#[must_use]
pub fn cyclictest_lines(view: &LiveView) -> Vec<String> {
    let (divisor, width) = if view.nanoseconds { (1, 8) } else { (1000, 5) };
    view.threads
        .iter()
        .enumerate()
        .map(|(i, t)| {
            format!(
                "T:{i:2} ({:5}) P:{:2} I:{} C:{:7} Min:{:7} Act:{:width$} Avg:{:width$} Max:{:8}",
                t.tid,
                t.priority,
                t.interval_ns / 1000,
                t.count,
                t.min_ns / divisor,
                t.act_ns / divisor,
                t.avg_ns as u64 / divisor,
                t.max_ns / divisor,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_shows_beside_a_million() {
        assert_eq!(sparkline(&[1, 0, 1_000_000, 0], 1_000_000, true), "▁ █");
        assert_eq!(sparkline(&[0; 24], 0, true), "");
        assert_eq!(sparkline(&[u64::MAX], u64::MAX, false), "@");
    }

    #[test]
    fn cyclictest_lines_are_cyclictests() {
        let thread = LiveThread {
            tid: 1234,
            priority: 80,
            interval_ns: 1_000_000,
            count: 10_000,
            min_ns: 5_999,
            act_ns: 10_000,
            avg_ns: 11_000.0,
            max_ns: 99_000,
            ..LiveThread::default()
        };
        let mut view = LiveView {
            threads: vec![thread],
            ..LiveView::default()
        };
        assert_eq!(
            cyclictest_lines(&view),
            ["T: 0 ( 1234) P:80 I:1000 C:  10000 Min:      5 Act:   10 Avg:   11 Max:      99"]
        );
        view.nanoseconds = true;
        assert_eq!(
            cyclictest_lines(&view),
            [
                "T: 0 ( 1234) P:80 I:1000 C:  10000 Min:   5999 Act:   10000 Avg:   11000 Max:   99000"
            ]
        );
    }
}
