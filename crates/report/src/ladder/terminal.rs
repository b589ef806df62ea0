//! A ladder as lines of a terminal.

use punctual_record::ladder::{Ladder, LadderOutcome, Rung};

use super::code::{Language, lines};
use super::{COLUMNS, HEADS, facts, figures, judged, not_possible, row_name, sentence, title};
use crate::experiment::{effects, fact, fact_lines};
use crate::style::{Style, Tone, cut, wrap};
use crate::table::{self, Cell};
use crate::words;

/// The summary, with a final newline.
#[must_use]
pub fn summary(ladder: &Ladder, style: &Style) -> String {
    let mut text = Vec::new();
    let tone = match (&ladder.outcome, ladder.verdict()) {
        (Some(LadderOutcome::Failed { .. } | LadderOutcome::Conflict { .. }), _) => Tone::Bad,
        (_, None) => Tone::Plain,
        (_, verdict) => crate::terminal::tone(verdict),
    };
    for line in wrap(&sentence(ladder), style.columns()) {
        text.push(style.paint(tone, &line));
    }
    text.push(String::new());
    text.extend(rungs(ladder, style));
    for line in wrap(COLUMNS, style.columns()) {
        text.push(style.paint(Tone::Dim, &line));
    }
    text.push(String::new());
    let not_possible = not_possible(ladder);
    if !not_possible.is_empty() {
        text.push("Not possible here".to_owned());
        for (name, why) in &not_possible {
            text.extend(indented(&format!("{name}: {why}"), style));
        }
        text.push(String::new());
    }
    if ladder.steps.iter().any(|it| !it.result.effects.is_empty()) {
        text.extend(effects(&judged(ladder), style));
        text.push(String::new());
    }
    text.extend(code(ladder, style));
    for (name, said) in facts(ladder) {
        text.extend(fact_lines(style, &name, &said));
    }
    if let Some(place) = &style.report {
        text.push(fact(style, "Report", place));
    }
    let text = text
        .iter()
        .map(|line| cut(line, style.table_columns()) + "\n");
    text.collect()
}

/// The table of the talk, with the figures of this machine.
fn rungs(ladder: &Ladder, style: &Style) -> Vec<String> {
    let head = std::iter::once("").chain(HEADS);
    let mut rows = vec![
        head.map(|it| Cell::toned(it, Tone::Dim))
            .collect::<Vec<_>>(),
    ];
    for rung in ladder.rungs.iter().filter(|it| it.is_measured) {
        let name = Cell::toned(row_name(ladder, rung.rung), Tone::Bold);
        let figures = figures(rung).map(Cell::new);
        rows.push(std::iter::once(name).chain(figures).collect());
    }
    // Names stand at the left, figures at the right.
    let widest = |rows: &[Vec<Cell>]| {
        let names = rows.iter().filter_map(|row| row.first());
        names.map(|cell| cell.text.chars().count()).max()
    };
    let width = widest(&rows).unwrap_or(0);
    for cell in rows.iter_mut().filter_map(|row| row.first_mut()) {
        cell.text = format!("{:<width$}", cell.text);
    }
    // What is counted last is the first to be left out.
    let most = (1..=HEADS.len() + 1).rev();
    let mut fits = most.map(|columns| {
        let rows = rows.iter().map(|row| row[..columns].to_vec());
        rows.collect::<Vec<_>>()
    });
    let rows = fits
        .find(|rows| table::width(rows, 1) <= style.columns())
        .unwrap_or(rows);
    table::set(&rows, style.columns(), style)
}

/// The lines of code that take each measured step.
fn code(ladder: &Ladder, style: &Style) -> Vec<String> {
    let mut text = Vec::new();
    for rung in ladder.rungs.iter().map(|it| it.rung) {
        text.push(style.paint(Tone::Bold, title(rung)));
        for language in Language::ALL {
            let name = format!("{:<6}", language.name());
            for (at, line) in lines(language, rung).into_iter().enumerate() {
                let name = if at == 0 { name.as_str() } else { "      " };
                let name = style.paint(Tone::Dim, name);
                text.push(format!("  {name}{}", style.paint(Tone::Plain, line)));
            }
        }
    }
    text.push(String::new());
    text
}

fn indented(said: &str, style: &Style) -> Vec<String> {
    let wrapped = wrap(said, style.columns().saturating_sub(4));
    let lines = wrapped.iter().enumerate();
    lines
        .map(|(at, line)| {
            let indent = if at == 0 { "  " } else { "    " };
            style.paint(Tone::Plain, &format!("{indent}{line}"))
        })
        .collect()
}

/// One line that says where a ladder under way stands.
#[must_use]
pub fn progress(ladder: &Ladder, rung: Rung, done: usize, all: usize) -> String {
    let design = &ladder.design;
    let slot_ns = design.block_ns.saturating_add(design.settle_ns);
    let left = slot_ns.saturating_mul((all - done.min(all)) as u64);
    format!(
        "block {} of {}  {}  {} left",
        words::count(done as u64 + 1),
        words::count(all as u64),
        title(rung),
        words::duration(left)
    )
}
