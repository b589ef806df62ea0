//! What watched threads waited for: their wake-up chains.

use std::collections::BTreeSet;

use super::amounts::amounts;
use super::name;
use super::text::{culprit, share};
use crate::facts;
use crate::style::{Style, Tone, wrap};
use crate::words;
use punctual_record::Run;
use punctual_record::explanation::{Culprit, Doing, Wait, WaitRow};

/// Rows of a wait that are shown one by one.
const MOST_ROWS: usize = 8;

/// A wait in words.
pub(crate) struct ShownWait {
    /// Who waited, in which call, how long and how often.
    pub title: String,
    pub rows: Vec<ShownRow>,
    /// The sum of the rows, as they are shown, in µs.
    pub sum: String,
}

/// A row of it in words.
pub(crate) struct ShownRow {
    /// How many wakers back; absent of rows that stand together.
    pub depth: Option<u32>,
    /// Its time in µs, and its share.
    pub time: String,
    pub share: String,
    pub text: String,
    /// Which thread that was.
    pub who: Option<String>,
}

/// The waits in which others had most to do.
pub(crate) fn waits(run: &Run, most: usize) -> Vec<ShownWait> {
    let all = run.explanation.iter().flat_map(|it| &it.waits);
    let mut told = BTreeSet::new();
    let shown = all.take(most).map(|wait| shown(run, wait, &mut told));
    shown.collect()
}

/// `told`: processes whose command line stands further up.
fn shown(run: &Run, wait: &Wait, told: &mut BTreeSet<u32>) -> ShownWait {
    let when = run.start_ns.map_or_else(String::new, |start| {
        format!(" at {}", words::instant(wait.from_ns.saturating_sub(start)))
    });
    // The instants of another run say nothing here.
    let when = wait.run.map_or(when, |run| format!(" of run {run}"));
    let waker = woken_by(wait);
    let title = format!(
        "{}/{} in {}{when}: {}, {waker}; {}, {} in all",
        named(Some(&wait.thread)),
        wait.thread.tid,
        facts::call(&wait.call),
        words::duration(wait.wait_ns),
        words::plural(wait.count, "such wait", "such waits"),
        words::duration(wait.total_ns),
    );
    // What is left of many stands in one line, so that the lines still sum.
    let mut dear: Vec<&WaitRow> = wait.rows.iter().collect();
    dear.sort_by_key(|row| std::cmp::Reverse(row.ns));
    dear.retain(|row| row.thread.is_some() && row.ns > 0);
    dear.truncate(MOST_ROWS);
    let is_shown = |row: &&WaitRow| dear.iter().any(|dear| std::ptr::eq(*dear, *row));
    let (rows, others): (Vec<&WaitRow>, Vec<&WaitRow>) = wait.rows.iter().partition(is_shown);
    let rest: u64 = others.iter().map(|row| row.ns).sum();
    let mut parts: Vec<u64> = rows.iter().map(|row| row.ns).collect();
    parts.extend((rest > 0).then_some(rest));
    let (times, sum) = amounts(run, &parts);
    let known = rows
        .iter()
        .map(|row| (Some(row.depth), text(row), who(row, told)));
    let others = (rest > 0).then(|| (None, "others".to_owned(), None));
    let rows = known.chain(others).zip(times.into_iter().zip(&parts));
    let rows = rows.map(|((depth, text, who), (time, ns))| ShownRow {
        depth,
        time,
        share: share(*ns, wait.wait_ns),
        text,
        who,
    });
    ShownWait {
        title,
        rows: rows.collect(),
        sum,
    }
}

/// What ended a wait.
pub(crate) fn woken_by(wait: &Wait) -> String {
    let by_interrupt =
        |row: &WaitRow| row.depth == 0 && matches!(row.doing, Doing::Timer | Doing::Device { .. });
    match wait.ended_by.as_str() {
        "" if wait.rows.iter().any(by_interrupt) => "woken by an interrupt".to_owned(),
        "" => "its waker was not seen".to_owned(),
        by => format!("woken by {by}"),
    }
}

/// A thread by its name.
pub(crate) fn named(thread: Option<&Culprit>) -> String {
    let name = thread.and_then(|it| it.name.as_deref());
    match (name, thread) {
        (Some(name), _) if !name.is_empty() => name.to_owned(),
        (_, Some(thread)) => format!("thread {}", thread.tid),
        _ => "others".to_owned(),
    }
}

/// What a thread did.
pub(crate) fn text(row: &WaitRow) -> String {
    let it = named(row.thread.as_ref());
    match &row.doing {
        Doing::Ran => format!("{it} ran"),
        Doing::Ready { behind: Some(by) } => {
            format!("{it} was ready to run; {} had its CPU", named(Some(by)))
        }
        Doing::Ready { behind: None } => format!("{it} was ready to run; its CPU was idle"),
        Doing::Interrupted { cause } => format!("{it} interrupted by {}", name(cause)),
        Doing::Timer => format!("{it} slept until its timer expired"),
        Doing::Device { cause } => format!("{it} waited for {}", name(cause)),
        Doing::Stopped => format!("{it} was stopped"),
        Doing::Unseen => format!("what {it} waited for was not seen"),
        Doing::Other => "others".to_owned(),
    }
}

/// Of who had the CPU, if another did.
fn who(row: &WaitRow, told: &mut BTreeSet<u32>) -> Option<String> {
    let of = match &row.doing {
        Doing::Ready { behind } => behind.as_ref(),
        Doing::Ran => row.thread.as_ref(),
        _ => None,
    }?;
    let mut of = Culprit {
        name: None,
        ..of.clone()
    };
    if of.pid.is_some_and(|pid| !told.insert(pid)) {
        (of.command, of.group) = (None, None);
    }
    Some(culprit(&of))
}

/// As text; empty where there is none.
pub(super) fn section(run: &Run, most: usize, style: &Style) -> Vec<String> {
    let shown = waits(run, most);
    if shown.is_empty() {
        return Vec::new();
    }
    let mut out = vec![
        String::new(),
        style.paint(Tone::Bold, "Wake-up chains: what threads waited for"),
    ];
    for wait in shown {
        for line in wrap(&wait.title, style.columns().saturating_sub(2)) {
            out.push(format!("  {}", style.paint(Tone::Plain, &line)));
        }
        let width = wait.sum.chars().count();
        for row in &wait.rows {
            let chain = 2 * row.depth.unwrap_or(0).clamp(1, 8) as usize - 2;
            let indent = width + 16 + chain;
            let room = style.columns().saturating_sub(indent);
            for (index, part) in wrap(&row.text, room).iter().enumerate() {
                let head = match index {
                    0 => {
                        let gap = " ".repeat(chain);
                        format!("    {:>width$} µs {:>7}  {gap}", row.time, row.share)
                    }
                    _ => " ".repeat(indent),
                };
                out.push(style.paint(Tone::Plain, &format!("{head}{part}")));
            }
            for part in row
                .who
                .iter()
                .flat_map(|who| wrap(who, room.saturating_sub(2)))
            {
                let line = format!("{}{part}", " ".repeat(indent + 2));
                out.push(style.paint(Tone::Dim, &line));
            }
        }
        let line = format!("    {:>width$} µs 100.0 %  the wait", wait.sum);
        out.push(style.paint(Tone::Plain, &line));
    }
    let rest = run.explanation.as_ref().map_or(0, |it| it.waits.len());
    if rest > most {
        let rest = words::plural((rest - most) as u64, "other wait", "other waits");
        let text = format!("  and {rest}: punctual explain RUN, or --json");
        out.push(style.paint(Tone::Dim, &text));
    }
    out
}
