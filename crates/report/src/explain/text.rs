//! Bills, stages and the ranking as text: for a terminal, and to be pasted into a mail.

use punctual_stats::histogram::{Histogram, MIN_SAMPLES_BEYOND};

use super::amounts::amounts;
use super::fix::{every_cpu_was_probed, undo_of};
use super::names::is_boosted;
use super::outliers::can_be_opened;
use super::{fix, name, waits};
use crate::style::{Style, Tone, wrap, wrap_commands};
use crate::terms::Terms;
use crate::{facts, words};
use punctual_record::Run;
use punctual_record::explanation::{
    Ancestor, Bill, BillRow, Cause, Culprit, Explanation, NotSeen, Ranked, Stage,
};

/// Bills that a summary shows.
const MOST_BILLS: usize = 3;
/// Waits for other threads that a summary and `explain` show.
const SUMMARY_WAITS: usize = 2;
const MOST_WAITS: usize = 16;
/// Threads of a line that a summary and a whole bill show.
const THREADS: usize = 1;
/// Causes that a ranking shows.
const MOST_CAUSES: usize = 12;
/// Fixes that a summary shows.
const MOST_FIXES: usize = 6;
/// Events are copied out each 50 ms, unless the thread that does it gets no CPU.
const STARVED_NS: u64 = 200_000_000;

pub(super) fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// One line of a bill.
struct Line<'a> {
    cause: &'a Cause,
    ns: u64,
    stages: Vec<Stage>,
    rows: Vec<&'a BillRow>,
}

/// The bill by cause, the dearest first; what is left unknown last.
fn lines(bill: &Bill) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = bill
        .causes()
        .into_iter()
        .map(|(cause, ns)| {
            let rows: Vec<&BillRow> = bill.rows.iter().filter(|row| row.cause == *cause).collect();
            let stages = rows.iter().map(|row| row.stage).collect();
            Line {
                cause,
                ns,
                stages,
                rows,
            }
        })
        .collect();
    lines.sort_by_key(|line| line.cause.is_residue());
    lines
}

/// Where a line's time lay.
fn place(line: &Line<'_>) -> String {
    match line.stages.as_slice() {
        [stage] => facts::stage(*stage).to_owned(),
        stages => format!("{} stages", stages.len()),
    }
}

/// A bill as text of at most so many columns. `number` counts from 1.
#[must_use]
pub fn bill_text(run: &Run, bill: &Bill, number: usize, style: &Style) -> String {
    let mut out = Vec::new();
    bill_lines(run, (bill, number), THREADS, style, &mut out);
    out.iter().map(|line| format!("{line}\n")).collect()
}

fn bill_lines(
    run: &Run,
    (bill, number): (&Bill, usize),
    threads: usize,
    style: &Style,
    out: &mut Vec<String>,
) {
    let when = run.start_ns.map_or_else(String::new, |start| {
        format!(", at {}", words::instant(bill.due_ns.saturating_sub(start)))
    });
    let lost = match bill.lost {
        0 => String::new(),
        lost => format!("; {} lost", words::plural(lost, "event", "events")),
    };
    out.push(style.paint(
        Tone::Bold,
        &format!(
            "Bill {number}: {} on CPU {}{when}{lost}",
            Terms::for_run(run).outlier(bill.latency_ns),
            bill.cpu
        ),
    ));
    let lines = lines(bill);
    let parts: Vec<u64> = lines.iter().map(|line| line.ns).collect();
    let (parts, sum) = amounts(run, &parts);
    let width = sum.chars().count();
    let room = style.columns().saturating_sub(width + 16);
    for (line, part_of_it) in lines.iter().zip(&parts) {
        let tone = match line.cause {
            cause if cause.is_residue() => Tone::Void,
            Cause::WakePath | Cause::Crossing => Tone::Dim,
            _ => Tone::Plain,
        };
        let text = match run.gaps {
            Some(_) => name(line.cause),
            None => format!("{} ({})", name(line.cause), place(line)),
        };
        for (index, part) in wrap(&text, room).iter().enumerate() {
            let head = if index == 0 {
                format!(
                    "  {part_of_it:>width$} µs {:>7}  ",
                    share(line.ns, bill.latency_ns)
                )
            } else {
                " ".repeat(width + 14)
            };
            out.push(format!(
                "{}{}",
                style.paint(Tone::Plain, &head),
                style.paint(tone, part)
            ));
        }
        for detail in details(line, threads) {
            for part in wrap(&detail, room.saturating_sub(2)) {
                let indent = " ".repeat(width + 16);
                out.push(format!("{indent}{}", style.paint(Tone::Dim, &part)));
            }
        }
    }
    let whole = if run.gaps.is_some() { "gap" } else { "latency" };
    let head = format!("  {sum:>width$} µs 100.0 %");
    out.push(style.paint(Tone::Plain, &format!("{head}  the {whole}")));
}

/// Which thread it was: `PID 4711, TID 4712, SCHED_FIFO 90, in /app, started by NAME: COMMAND`, of an
/// interprocessor interrupt `sent by NAME, PID …`.
pub(crate) fn culprit(by: &Culprit) -> String {
    let mut text = by
        .name
        .as_ref()
        .map_or(String::new(), |name| format!("sent by {name}, "));
    text += &match by.pid {
        Some(pid) if pid != by.tid => format!("PID {pid}, TID {}", by.tid),
        Some(pid) => format!("PID {pid}"),
        None => format!("TID {}", by.tid),
    };
    text += &match by.priority {
        0 => format!(", {}", by.policy),
        priority if is_boosted(&by.policy, priority) => {
            format!(", {}, boosted to FIFO {priority}", by.policy)
        }
        priority => format!(", {} {priority}", by.policy),
    };
    if let Some(nice) = by.nice {
        text += &format!(", nice {nice}");
    }
    if let Some(group) = &by.group {
        text += &format!(", in {group}");
    }
    if let Some(weight) = by.weight {
        text += &format!(" (cpu.weight {weight})");
    }
    if !by.parents.is_empty() {
        text += &format!(", started by {}", descent(&by.parents));
    }
    match &by.command {
        Some(command) if command.is_empty() => text += ": a kernel thread",
        Some(command) if by.ended => text += &format!(": {command} (ended)"),
        Some(command) => text += &format!(": {command}"),
        None if by.ended => text += ": it had ended when /proc was read",
        None => {}
    }
    text
}

/// Threads of which each created the next, the first one first: `cron (TID 812) → backup.sh (TID 4711)`.
fn descent(parents: &[Ancestor]) -> String {
    let names: Vec<String> = parents.iter().rev().map(ancestor).collect();
    names.join(" → ")
}

/// Without backquotes: in advice these stand around commands.
pub(super) fn ancestor(it: &Ancestor) -> String {
    let name = it.name.replace('`', "'");
    it.tid
        .map_or(name.clone(), |tid| format!("{name} (TID {tid})"))
}

/// What is known beside the figures: threads, stack and notes.
fn details(line: &Line<'_>, threads: usize) -> Vec<String> {
    const FRAMES: usize = 8;
    let mut details: Vec<String> = Vec::new();
    for row in &line.rows {
        if !row.stack.is_empty() {
            let shown: Vec<&str> = row.stack.iter().take(FRAMES).map(String::as_str).collect();
            let more = if row.stack.len() > FRAMES {
                " ‹ …"
            } else {
                ""
            };
            details.push(format!("{}{more}", shown.join(" ‹ ")));
        }
        details.extend(row.by.iter().take(threads).map(culprit));
        details.extend(facts::notes(&row.notes));
    }
    let mut seen = std::collections::BTreeSet::new();
    details.retain(|detail| seen.insert(detail.clone()));
    details
}

/// Where the time goes, and who took it: stages, the worst bills, the ranking and what to
/// do. Empty where nobody looked. `bills`: how many of them are shown.
#[must_use]
pub fn section(run: &Run, style: &Style, bills: Option<usize>) -> Vec<String> {
    let Some(explanation) = &run.explanation else {
        return Vec::new();
    };
    let mut out = vec![style.paint(Tone::Bold, "Who stole the time")];
    let paragraph = |out: &mut Vec<String>, tone: Tone, text: &str| {
        for line in wrap(text, style.columns().saturating_sub(2)) {
            out.push(format!("  {}", style.paint(tone, &line)));
        }
    };
    paragraph(&mut out, Tone::Plain, &counts(run, explanation));
    if let Some(kept) = &explanation.kept {
        let text = can_be_opened(kept, explanation.bills.len());
        paragraph(&mut out, Tone::Plain, &text);
    }
    for what in not_seen(run, explanation) {
        paragraph(&mut out, Tone::Unsure, &format!("not seen: {what}"));
    }
    stages(explanation, style, &mut out);
    ranking(explanation, style, &mut out);
    let shown = bills.unwrap_or(MOST_BILLS);
    // If none of the worst could be explained, the worst that could is worth more.
    let explained = explanation.bills.iter().position(Bill::is_explained);
    let further = explained.filter(|index| *index >= shown);
    for index in (0..shown).chain(further) {
        let Some(bill) = explanation.bills.get(index) else {
            continue;
        };
        out.push(String::new());
        bill_lines(run, (bill, index + 1), THREADS, style, &mut out);
    }
    let most = if bills.is_some() {
        SUMMARY_WAITS
    } else {
        MOST_WAITS
    };
    out.extend(waits::section(run, most, style));
    to_do(&known_fixes(run, explanation), style, &mut out);
    out
}

/// One bill in full, and what to do about what stands in it; `number` counts from 1.
/// Empty where there is no such bill.
#[must_use]
pub fn bill_section(run: &Run, number: usize, style: &Style) -> Vec<String> {
    let bill = number.checked_sub(1).and_then(|index| {
        let explanation = run.explanation.as_ref()?;
        explanation.bills.get(index)
    });
    let Some(bill) = bill else {
        return Vec::new();
    };
    let mut out = Vec::new();
    bill_lines(run, (bill, number), Culprit::MOST, style, &mut out);
    let mut dear = bill.causes();
    dear.retain(|(_, ns)| *ns >= bill.latency_ns / 20);
    let fixes = each_once(run, dear.into_iter().map(|(cause, _)| cause));
    to_do(&fixes, style, &mut out);
    out
}

/// What to do about causes, the same text for several of them once.
fn each_once<'a>(run: &Run, causes: impl Iterator<Item = &'a Cause>) -> Vec<(&'a Cause, String)> {
    let mut fixes: Vec<(&Cause, String)> = Vec::new();
    for cause in causes {
        if let Some(text) = fix(cause, run)
            && !fixes.iter().any(|(_, known)| *known == text)
        {
            fixes.push((cause, text));
        }
    }
    fixes
}

fn to_do(fixes: &[(&Cause, String)], style: &Style, out: &mut Vec<String>) {
    if !fixes.is_empty() {
        out.push(String::new());
        out.push(style.paint(Tone::Bold, "What to do"));
    }
    for (cause, fix) in fixes {
        let text = format!("{}: {fix}", name(cause));
        for (index, line) in wrap_commands(&text, style.columns().saturating_sub(4))
            .iter()
            .enumerate()
        {
            let head = if index == 0 { "  - " } else { "    " };
            out.push(format!("{head}{}", style.paint(Tone::Plain, line)));
        }
    }
    if let Some(undo) = undo_of(fixes.iter().map(|(_, fix)| fix.as_str())) {
        for line in wrap_commands(&format!("undo: {undo}"), style.columns().saturating_sub(2)) {
            out.push(format!("  {}", style.paint(Tone::Dim, &line)));
        }
    }
}

/// How much was explained.
pub(crate) fn counts(run: &Run, explanation: &Explanation) -> String {
    let residue: u64 = explanation
        .ranking
        .iter()
        .filter(|ranked| ranked.cause.is_residue())
        .map(|ranked| ranked.total_ns)
        .sum();
    let terms = Terms::for_run(run);
    let bills = words::plural(explanation.examined, "bill", "bills");
    let residue = format!(
        "{} of their time is unexplained",
        share(residue, explanation.examined_ns)
    );
    let than = if run.gaps.is_some() {
        "longer"
    } else {
        "later"
    };
    match explanation.above_ns {
        Some(above) if explanation.outliers == 0 && explanation.examined > 0 => format!(
            "no {} {than} than {}; {bills} of the worst, {residue}",
            terms.one,
            words::duration(above)
        ),
        Some(above) if explanation.outliers == 0 => {
            format!("no {} {than} than {}", terms.one, words::duration(above))
        }
        Some(above) => format!(
            "{} {than} than {}: {} explained, {} not, {} without a bill; {bills}, {residue}",
            words::plural(explanation.outliers, terms.one, terms.many),
            words::duration(above),
            words::count(explanation.explained),
            words::count(explanation.unexplained),
            words::count(explanation.lost),
        ),
        None if explanation.examined == 0 => format!("no {} to explain", terms.one),
        None => format!("{bills} of the worst {}, {residue}", terms.many),
    }
}

/// What the tracer did not see, in phrases.
pub(crate) fn not_seen(run: &Run, explanation: &Explanation) -> Vec<String> {
    let mut causes = explanation.ranking.iter().map(|ranked| &ranked.cause);
    let blind = causes.any(|cause| *cause == Cause::Blind);
    let has_reason =
        |what: &NotSeen| matches!(what, NotSeen::Forgotten { .. } | NotSeen::Middle { .. });
    let is_unknown = blind && !explanation.missing.iter().any(has_reason);
    let tracer = run.own_cost.tracer;
    let overrun = tracer.filter(|it| it.lost > 0 || is_unknown).map(|tracer| {
        if tracer.lost == 0 {
            return "no event was overwritten, and wake-ups are blind all the same: the kernel ran no \
                    BPF program meanwhile, as while an agent of the hypervisor executes"
                .to_owned();
        }
        // A watch has no probes, and the CPUs of its threads are not ours to choose.
        let (late, fix) = match (&run.watch, every_cpu_was_probed(run)) {
            _ if tracer.unread_ns > STARVED_NS => (
                format!(", once only after {}", words::duration(tracer.unread_ns)),
                format!("; {}", facts::NEEDS_CPU),
            ),
            (None, true) => (
                String::new(),
                "; a CPU that is not probed (-a) leaves the tracer more time".to_owned(),
            ),
            _ => (String::new(), String::new()),
        };
        format!(
            "{} of {}, overwritten before they were copied out{late}: wake-ups among them are \
             blind{fix}",
            words::count(tracer.lost),
            words::plural(tracer.events, "event", "events"),
        )
    });
    let missing = explanation.missing.iter().map(facts::not_seen);
    missing.chain(overrun).collect()
}

/// A stage with its figures.
pub(crate) struct StageFigures {
    pub stage: Stage,
    pub count: u64,
    pub p50: Option<u64>,
    pub p99: Option<u64>,
    pub max: u64,
}

/// A percentile, where enough samples lie beyond it.
fn supported(times: &Histogram, quantile: f64) -> Option<u64> {
    let beyond = (1.0 - quantile) * times.count() as f64;
    times
        .quantile(quantile)
        .filter(|_| beyond >= MIN_SAMPLES_BEYOND as f64)
}

/// The figures of each stage that was seen.
pub(crate) fn stage_figures(explanation: &Explanation) -> Vec<StageFigures> {
    explanation
        .stages
        .iter()
        .filter_map(|entry| {
            let times = Histogram::try_from(&entry.times).ok()?;
            Some(StageFigures {
                stage: entry.stage,
                count: times.count(),
                p50: supported(&times, 0.5),
                p99: supported(&times, 0.99),
                max: times.max()?,
            })
        })
        .collect()
}

fn stages(explanation: &Explanation, style: &Style, out: &mut Vec<String>) {
    let figures = stage_figures(explanation);
    if figures.is_empty() {
        return;
    }
    out.push(String::new());
    let name = |text: &str| format!("  {text:<20}");
    // A narrow terminal gives up what matters least, never the maximum.
    let columns = [("wake-ups", 12), ("p50", 10), ("p99", 10), ("max", 12)];
    let shown = fitting(columns, style.columns().saturating_sub(22), &[0, 1, 2]);
    let line = |begin: String, cells: [&str; 4]| {
        shown.iter().fold(begin, |line, &column| {
            line + &format!("{:>1$}", cells[column], columns[column].1)
        })
    };
    let head = line(name("Stage, in µs"), columns.map(|column| column.0));
    out.push(style.paint(Tone::Dim, &head));
    for stage in figures {
        let time =
            |ns: Option<u64>| ns.map_or_else(|| "—".to_owned(), |ns| words::micros(ns as f64));
        let (count, max) = (words::count(stage.count), time(Some(stage.max)));
        let cells = [&*count, &time(stage.p50), &time(stage.p99), &max];
        let line = line(name(facts::stage(stage.stage)), cells);
        out.push(style.paint(Tone::Plain, &line));
    }
}

/// Which of these columns (name, width) fit into `room`, when these are given up in this
/// order.
fn fitting<const N: usize>(
    columns: [(&str, usize); N],
    room: usize,
    given_up: &[usize],
) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..N).collect();
    for column in given_up {
        if shown.iter().map(|&shown| columns[shown].1).sum::<usize>() > room {
            shown.retain(|shown| shown != column);
        }
    }
    shown
}

/// The causes that a table shows: what disturbs first, what every wake-up has last.
pub(crate) fn ranked(explanation: &Explanation, most: usize) -> Vec<&Ranked> {
    let mut ranked: Vec<&Ranked> = explanation.ranking.iter().collect();
    ranked.sort_by(|a, b| {
        let key = |r: &Ranked| (r.cause.is_residue(), std::cmp::Reverse(r.total_ns));
        key(a).cmp(&key(b)).then(a.cause.cmp(&b.cause))
    });
    let residues = ranked.iter().filter(|r| r.cause.is_residue()).count();
    let named = most.saturating_sub(residues);
    ranked
        .iter()
        .take(ranked.len() - residues)
        .take(named)
        .chain(&ranked[ranked.len() - residues..])
        .copied()
        .collect()
}

/// The process of a cause, if all bills that are kept agree: ` [PID 4711]`.
fn process_of(explanation: &Explanation, cause: &Cause) -> String {
    let rows = explanation.bills.iter().flat_map(|bill| &bill.rows);
    let its = rows.filter(|row| row.cause.general() == *cause);
    let mut threads = its.flat_map(|row| &row.by);
    let first = threads.next().and_then(|by| by.pid);
    match first {
        Some(pid) if threads.all(|by| by.pid == first) => format!(" [PID {pid}]"),
        _ => String::new(),
    }
}

fn ranking(explanation: &Explanation, style: &Style, out: &mut Vec<String>) {
    let shown = ranked(explanation, MOST_CAUSES);
    if shown.is_empty() {
        return;
    }
    // Names of causes want this much.
    const NAME: usize = 20;
    let tail = explanation.are_of_outliers();
    out.push(String::new());
    let columns = [
        ("total µs", 11),
        ("in tail", if tail { 11 } else { 0 }),
        ("worst", 11),
        ("bills", 7),
    ];
    let room = style.columns().saturating_sub(NAME + 4);
    let columns_shown = fitting(columns, room, &[3, 1, 2]);
    let line = |cells: [&str; 4]| {
        let cell = |line: String, &column: &usize| match columns[column].1 {
            0 => line,
            width => line + &format!("{:>width$}", cells[column]),
        };
        columns_shown.iter().fold("  ".to_owned(), cell) + "  "
    };
    let head = line(columns.map(|column| column.0)) + "cause";
    out.push(style.paint(Tone::Dim, &head));
    for ranked in &shown {
        let line = line([
            &words::micros(ranked.total_ns as f64),
            &words::micros(ranked.tail_ns as f64),
            &words::micros(ranked.worst_ns as f64),
            &words::short_count(ranked.count),
        ]);
        let room = style.columns().saturating_sub(line.chars().count());
        let tone = if ranked.cause.is_residue() {
            Tone::Void
        } else {
            Tone::Plain
        };
        let indent = line.chars().count();
        let whose = name(&ranked.cause) + &process_of(explanation, &ranked.cause);
        for (index, part) in wrap(&whose, room).iter().enumerate() {
            let head = if index == 0 {
                style.paint(Tone::Plain, &line)
            } else {
                " ".repeat(indent)
            };
            out.push(format!("{head}{}", style.paint(tone, part)));
        }
    }
    let rest = explanation.ranking.len().saturating_sub(shown.len());
    if rest > 0 {
        let text = format!(
            "  and {}",
            words::plural(rest as u64, "other cause", "other causes")
        );
        out.push(style.paint(Tone::Dim, &text));
    }
}

/// What can be done about what cost at least a twentieth of the time, or of a shown bill.
pub(crate) fn known_fixes<'a>(run: &Run, explanation: &'a Explanation) -> Vec<(&'a Cause, String)> {
    if explanation.above_ns.is_some() && explanation.outliers == 0 {
        return Vec::new();
    }
    let dear = |ranked: &&Ranked| ranked.total_ns >= explanation.examined_ns / 20;
    let dear = ranked(explanation, usize::MAX).into_iter().filter(dear);
    let mut fixes = each_once(run, dear.map(|ranked| &ranked.cause));
    fixes.truncate(MOST_FIXES);
    fixes
}
