//! The summary that stands after a run: at most [`MOST_LINES`] lines, what an expert needs
//! first. `-v` prints the whole.
//!
//! It is made of blocks. Where they are too many, the least important go; what room is left
//! is for the causes and what to do about them.

use punctual_stats::verdict::Outcome;

use super::{Page, watch_lines};
use crate::explain::{self, Extent};
use crate::figures::Figures;
use crate::placement::placement;
use crate::style::{Style, Tone, cut};
use crate::{conditions, facts, findings, path, statements, tuned, watch, words};
use punctual_record::invalid::not_in_force;
use punctual_record::{Event, Run};

/// Lines of the summary.
pub const MOST_LINES: usize = 40;
/// CPUs in the table; of more, the worst are shown.
const MOST_ROWS: usize = 4;
/// Worst samples that are named.
const MOST_WORST: usize = 3;
/// Bad findings of the machine that are named.
const MOST_FINDINGS: usize = 3;
/// Lines of what a reader must know before any figure.
const MOST_PROBLEMS: usize = 20;
/// The same without demands, where what took the time would find no room.
const FEW_PROBLEMS: usize = 6;
/// Lines of a demand with its fix.
const MOST_OF_A_FIX: usize = 14;
/// Rows of each table of a watch.
const WATCH_ROWS: usize = 3;

/// Lines that belong together.
struct Block {
    /// What goes first where there is no room: the highest.
    rank: u8,
    /// An empty line stands between groups.
    group: u8,
    lines: Vec<String>,
}

/// What is not to be left out, however little room there is.
const ALWAYS: u8 = 0;
/// What goes before a cause of those that have most of the time does: all but the tables.
const BEFORE_TABLES: u8 = 2;
const HIGHEST: u8 = 9;

pub(super) fn lines(run: &Run, style: &Style) -> Vec<String> {
    for events in [MOST_PROBLEMS, FEW_PROBLEMS] {
        let mut blocks = blocks(run, style, events);
        for rank in (BEFORE_TABLES..=HIGHEST + 1).rev() {
            blocks.retain(|block| block.rank < rank);
            let room = MOST_LINES.saturating_sub(laid_out(&blocks).len() + 1);
            let is_last = rank == BEFORE_TABLES && events == FEW_PROBLEMS;
            if let Some(causes) = causes(run, style, room, is_last) {
                let place = blocks.partition_point(|block| block.group < 4);
                let block = Block {
                    rank: ALWAYS,
                    group: 4,
                    lines: causes,
                };
                blocks.insert(place, block);
                if laid_out(&blocks).len() <= MOST_LINES {
                    return laid_out(&blocks);
                }
                blocks.remove(place);
            }
        }
    }
    let mut blocks = blocks(run, style, FEW_PROBLEMS);
    blocks.retain(|block| block.rank == ALWAYS);
    laid_out(&blocks)
}

/// The blocks below each other, an empty line between groups.
fn laid_out(blocks: &[Block]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut group = None;
    for block in blocks.iter().filter(|block| !block.lines.is_empty()) {
        if group.is_some_and(|group| group != block.group) {
            lines.push(String::new());
        }
        group = Some(block.group);
        lines.extend(block.lines.iter().cloned());
    }
    lines
}

/// All blocks but the causes, from the top.
fn blocks(run: &Run, style: &Style, events: usize) -> Vec<Block> {
    let figures = Figures::from_run(run);
    let mut blocks = Vec::new();
    let mut add = |rank: u8, group: u8, lines: Vec<String>| {
        blocks.push(Block { rank, group, lines });
    };
    add(ALWAYS, 0, verdict(run, style));
    add(ALWAYS, 0, problems(run, style, events));
    let facts = conditions(run);
    add(3, 1, short_facts(&facts, style, 3));
    if !figures.rows.is_empty() {
        let mut page = Page::new(style);
        page.table(run, &figures, MOST_ROWS);
        page.lines.retain(|line| !line.is_empty());
        let verdict = run.verdict.as_ref().map(|verdict| verdict.outcome);
        if verdict == Some(Outcome::Invalid) {
            page.paragraph(Tone::Void, statements::WHAT_INVALID_MEANS);
        }
        add(1, 2, page.lines);
    }
    add(2, 3, short_facts(&path::of_run(run), style, 3));
    for (index, table) in watch::tables(run).into_iter().enumerate() {
        let rank = if table.asked {
            3
        } else {
            5 + index.min(4) as u8
        };
        add(rank, 2, watched(table, style));
    }
    statistics(run, &figures, |rank, fact| {
        add(rank, 3, short_facts(&[fact], style, 2));
    });
    if let Some(section) = findings::of_run::section(run, style, MOST_FINDINGS) {
        add(2, 5, section.head);
        add(3, 5, section.named);
        add(2, 5, section.all);
    }
    add(ALWAYS, 6, record(style));
    blocks
}

fn verdict(run: &Run, style: &Style) -> Vec<String> {
    let mut page = Page::new(style);
    page.headline(&statements::headline(run));
    shorten(&mut page.lines, 8, style);
    if let Some(standing) = statements::standing(run) {
        let mut lines = Page::new(style);
        lines.paragraph(Tone::Void, &standing);
        shorten(&mut lines.lines, 3, style);
        page.lines.append(&mut lines.lines);
    }
    page.lines
}

/// Leaves at most so many lines, and says so where lines go.
fn shorten(lines: &mut Vec<String>, most: usize, style: &Style) {
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let mark = if style.unicode { " …" } else { " ..." };
            // Cut first: else the mark is what a full line loses.
            *last = cut(last, style.columns() - mark.chars().count()) + mark;
        }
    }
}

/// Names in the usual column, at most so many lines each.
fn short_facts(facts: &[statements::Fact], style: &Style, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for fact in facts {
        let mut page = Page::new(style);
        page.facts_in(9, std::slice::from_ref(fact));
        shorten(&mut page.lines, most, style);
        lines.append(&mut page.lines);
    }
    lines
}

/// What a reader must know before any figure, the most severe first.
fn problems(run: &Run, style: &Style, events: usize) -> Vec<String> {
    let mut items: Vec<(Tone, String)> = Vec::new();
    let demands: Vec<_> = not_in_force(run).collect();
    for (at, demand) in demands.iter().enumerate() {
        // One fix for several stands with the last of them.
        let again = demands[at + 1..].iter().any(|it| it.fix == demand.fix);
        let fix = facts::fix_of(demand).filter(|_| !again);
        let fix = fix.map_or_else(String::new, |fix| format!("; fix: {fix}"));
        items.push((
            Tone::Bad,
            format!(
                "Not in force: {}: requested {}, found {}{fix}",
                demand.name(),
                facts::requested(demand),
                facts::found(demand)
            ),
        ));
    }
    let event = |event: &Event| {
        let text = facts::event(event, &run.tool.name);
        format!("{}: {text}", words::instant(event.at_ns))
    };
    let (bad, other): (Vec<_>, Vec<_>) = run.events.iter().partition(|event| event.invalidates);
    items.extend(bad.iter().map(|bad| (Tone::Bad, event(bad))));
    for thread in &run.threads {
        if let Some(fault) = &thread.fault {
            items.push((Tone::Bad, facts::failed_thread(thread.cpu, fault)));
        }
    }
    // Outcomes of requirements: what makes a run invalid stands above already.
    let outcomes = statements::reasons(run).into_iter();
    items.extend(outcomes.map(|outcome| (Tone::Plain, outcome)));
    items.extend(other.iter().map(|other| (Tone::Plain, event(other))));
    let mut lines = Vec::new();
    for (index, (tone, text)) in items.iter().enumerate() {
        let mut page = Page::new(style);
        page.item(*tone, text);
        // Half a command is none.
        let (most, of_all) = if index < demands.len() {
            (MOST_OF_A_FIX, MOST_PROBLEMS)
        } else {
            (5, events)
        };
        shorten(&mut page.lines, most, style);
        if lines.len() + page.lines.len() > of_all {
            let rest = words::count((items.len() - index) as u64);
            lines.push(style.paint(Tone::Dim, &format!("  - and {rest} more")));
            break;
        }
        lines.append(&mut page.lines);
    }
    lines
}

/// On what, how, under which load.
fn conditions(run: &Run) -> Vec<statements::Fact> {
    let fact = |name: &str, text: String| (name.to_owned(), text);
    let (name, how) = match run.watch {
        Some(_) => ("Watched", conditions::method(run)),
        None => ("Probe", conditions::method(run)),
    };
    let mut machine = conditions::machine_in_brief(run);
    if run.watch.is_none() && run.imported.is_none() {
        machine += &format!("; {}", conditions::idle_states(run));
    }
    let long = match run.measured_ns {
        0 => String::new(),
        ns => words::duration(ns),
    };
    let how: Vec<String> = [how, long]
        .into_iter()
        .filter(|it| !it.is_empty())
        .collect();
    let mut facts = vec![fact("Machine", machine), fact(name, how.join(", "))];
    facts.retain(|(_, text)| !text.is_empty());
    facts.extend(placement(run).map(|text| fact("CPUs", text)));
    if run.watch.is_none() {
        facts.push(fact("Load", conditions::load_in_brief(run)));
    }
    facts.extend(tuned::sentence(run).map(|text| fact("Tuned", text)));
    facts.extend(conditions::origin(run));
    if run.request.best_effort {
        let text = "best effort: conditions that are not in force do not make it invalid";
        facts.push(fact("Effort", text.to_owned()));
    }
    facts
}

/// A table of a watch, its first rows.
fn watched(mut table: watch::Table, style: &Style) -> Vec<String> {
    table.truncate(WATCH_ROWS);
    if let Some((_, texts)) = &mut table.below {
        let room = style.columns().saturating_sub(8);
        for text in texts {
            *text = words::shortened(text, room);
        }
    }
    let mut lines = vec![style.paint(Tone::Bold, table.name)];
    lines.extend(watch_lines(table, style));
    lines
}

/// How sure the figures are, what warns, and the worst; each with its rank.
fn statistics(run: &Run, figures: &Figures, mut add: impl FnMut(u8, statements::Fact)) {
    if run.gaps.is_some() || run.cross_check.is_some() {
        for (index, fact) in statements::statistics(run).into_iter().enumerate() {
            add(if index < 3 { 2 } else { 8 }, fact);
        }
    } else if let Some(analysis) = &run.analysis {
        let judged = analysis.total.samples > 0 || analysis.total.missed > 0;
        if let Some(miss) = analysis.miss.as_ref().filter(|_| judged) {
            add(2, statements::bound_fact(miss));
            let of_bursts = [statements::bursts(miss), statements::episodes(miss)];
            of_bursts
                .into_iter()
                .flatten()
                .for_each(|fact| add(7, fact));
        }
        let halves = analysis.stationarity.as_ref().filter(|_| judged);
        if let Some(halves) = halves.filter(|halves| halves.statement.changed()) {
            add(5, statements::stationarity(halves));
        }
    }
    let worst = statements::worst(run, MOST_WORST);
    if !worst.is_empty() {
        let each: Vec<String> = worst
            .iter()
            .map(|worst| {
                format!(
                    "{} on {} at {}",
                    words::duration(worst.latency_ns),
                    figures.rows[worst.row].name,
                    words::instant(worst.at_ns)
                )
            })
            .collect();
        let name = if run.gaps.is_some() {
            "Longest"
        } else {
            "Worst"
        };
        add(8, (name.to_owned(), each.join(", ")));
    }
}

/// Who stole the time, and what to do about it, in at most so many lines: of the causes as many as have
/// four fifths of the time. `None` where they find no room; `least`: then as many as do.
fn causes(run: &Run, style: &Style, room: usize, least: bool) -> Option<Vec<String>> {
    let needed = run.explanation.as_ref().map_or(0, explain::needed);
    let rich = [(6, 4), (5, 3), (4, 3), (5, 2), (4, 2), (3, 2), (3, 1)];
    let rich = rich.map(|(causes, fixes): (usize, usize)| (causes.max(needed), fixes));
    let fewer = (1..=needed.max(2))
        .rev()
        .flat_map(|causes| [(causes, 1), (causes, 0)]);
    let extents = rich.into_iter().chain(fewer.filter(|_| least));
    for (causes, fixes) in extents {
        let lines = explain::brief(run, style, Extent { causes, fixes });
        if lines.len() <= room || lines.is_empty() {
            return Some(lines);
        }
    }
    None
}

/// Where the record is, and how to see the rest.
fn record(style: &Style) -> Vec<String> {
    let rest = match &style.report {
        Some(place) => {
            let directory = place.rsplit_once('/').map_or(".", |parts| parts.0);
            let report = ("Report".to_owned(), place.clone());
            let more = format!("punctual report -v {directory}");
            return short_facts(&[report, ("Details".to_owned(), more)], style, 4);
        }
        None => "-v prints everything",
    };
    short_facts(&[("Details".to_owned(), rest.to_owned())], style, 1)
}
