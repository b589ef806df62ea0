//! An experiment as lines of a terminal.

use punctual_record::Run;
use punctual_record::experiment::{Costs, Experiment, Phase};
use punctual_stats::experiment::{Effect, KnobConclusion};

use super::{
    FORECASTS, Judged, change, facts, figure, forecasts, interval, judged, outcome, probability,
    sentence,
};
use crate::explain::names;
use crate::style::{Style, Tone, cut, wrap};
use crate::table::{self, Cell};
use crate::words;

/// The columns that the name of a fact has.
const FACT_NAME: usize = 14;

/// Causes that are listed of a knob.
const MOST_CAUSES: usize = 3;
/// A cause is listed if it took this share of what a knob's late wake-ups cost.
const LEAST_SHARE: f64 = 0.02;

/// The result of an experiment, with a final newline.
#[must_use]
pub fn summary(run: &Run, experiment: &Experiment, style: &Style) -> String {
    let mut lines = Vec::new();
    let tone = match outcome(run) {
        None => Tone::Plain,
        Some(outcome) => crate::terminal::tone(Some(outcome)),
    };
    for line in wrap(&sentence(run), style.columns()) {
        lines.push(style.paint(tone, &line));
    }
    lines.push(String::new());
    if experiment.results.iter().any(|it| !it.effects.is_empty()) {
        lines.extend(effects(&judged(experiment), style));
        lines.push(String::new());
    } else if let Some((head, rows)) = forecasts(experiment) {
        lines.extend(wrap(FORECASTS, style.columns()));
        let cells = |row: &Vec<String>| row.iter().map(Cell::new).collect::<Vec<_>>();
        let all: Vec<_> = std::iter::once(&head).chain(&rows).map(cells).collect();
        lines.extend(table::set(&all, style.table_columns(), style));
        lines.push(String::new());
    }
    let costs = costs(experiment);
    if !costs.is_empty() {
        lines.push("What took the time of late wake-ups, off and on".to_owned());
        for text in costs {
            let wrapped = wrap(&text, style.columns().saturating_sub(4));
            let indent = |at: usize| if at == 0 { "  " } else { "    " };
            let indented = wrapped.iter().enumerate();
            lines.extend(
                indented
                    .map(|(at, line)| style.paint(Tone::Plain, &format!("{}{line}", indent(at)))),
            );
        }
        lines.push(String::new());
    }
    for (name, text) in facts(run, experiment) {
        lines.extend(fact_lines(style, &name, &text));
    }
    if let Some(place) = &style.report {
        lines.push(fact(style, "Report", place));
    }
    let lines = lines
        .iter()
        .map(|line| cut(line, style.table_columns()) + "\n");
    lines.collect()
}

/// A name and what is said of it, over as many lines as it takes.
pub(crate) fn fact_lines(style: &Style, name: &str, text: &str) -> Vec<String> {
    let wrapped = wrap(text, style.columns().saturating_sub(FACT_NAME));
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    let lines = names.zip(&wrapped);
    lines.map(|(name, line)| fact(style, name, line)).collect()
}

/// A name and what is said of it.
pub(crate) fn fact(style: &Style, name: &str, text: &str) -> String {
    let name = style.paint(Tone::Dim, &format!("{name:<FACT_NAME$}"));
    format!("{name}{}", style.paint(Tone::Plain, text))
}

/// The effects: a table, or where that has no room each knob's name with its measures below it.
pub(crate) fn effects(judged: &[Judged<'_>], style: &Style) -> Vec<String> {
    let rows = rows(judged);
    if table::width(&rows, 1) <= style.table_columns() {
        return table::set(&rows, style.table_columns(), style);
    }
    let mut lines = Vec::new();
    let mut push = |indent: &str, text: &str, tone: Tone| {
        let room = style.columns().saturating_sub(indent.len() + 2);
        for (at, line) in wrap(text, room).iter().enumerate() {
            let more = if at == 0 { "" } else { "  " };
            lines.push(style.paint(tone, &format!("{indent}{more}{line}")));
        }
    };
    for knob in judged {
        let head = format!("{}: {}", knob.name, knob.conclusion);
        push("", &head, knob.tone);
        for (effect, is_named) in &knob.effects {
            let text = format!(
                "{} {} to {}: {} ({}), p {}",
                effect.measure.name(),
                figure(effect.measure, effect.off_ns),
                figure(effect.measure, effect.on_ns),
                change(effect.ratio),
                interval(effect),
                probability(effect.p)
            );
            push("  ", &text, tone_of_effect(effect, *is_named));
        }
    }
    lines
}

fn tone_of_effect(effect: &Effect, is_named: bool) -> Tone {
    match is_named {
        true if effect.ratio < 1.0 => Tone::Good,
        true => Tone::Bad,
        false => Tone::Plain,
    }
}

/// A table: a row for each knob and measure, with a head.
fn rows(judged: &[Judged<'_>]) -> Vec<Vec<Cell>> {
    let heads = ["", "measure", "off", "on", "change", "interval", "p"];
    let mut rows = vec![heads.map(|head| Cell::toned(head, Tone::Dim)).to_vec()];
    for knob in judged {
        let mut names = vec![
            Cell::toned(&knob.name, Tone::Bold),
            Cell::toned(knob.conclusion, knob.tone),
        ]
        .into_iter();
        for (effect, is_named) in &knob.effects {
            let tone = tone_of_effect(effect, *is_named);
            rows.push(vec![
                names.next().unwrap_or_else(|| Cell::new("")),
                Cell::new(effect.measure.name()),
                Cell::new(figure(effect.measure, effect.off_ns)),
                Cell::new(figure(effect.measure, effect.on_ns)),
                Cell::toned(change(effect.ratio), tone),
                Cell::new(interval(effect)),
                Cell::new(probability(effect.p)),
            ]);
        }
        // A knob that was not tested in pairs has no effects.
        rows.extend(names.map(|name| vec![name]));
    }
    // Names stand at the left, figures at the right.
    let names = rows.iter().filter_map(|row| row.first());
    let widest = names
        .map(|cell| cell.text.chars().count())
        .max()
        .unwrap_or(0);
    for cell in rows.iter_mut().filter_map(|row| row.first_mut()) {
        cell.text = format!("{:<widest$}", cell.text);
    }
    rows
}

/// The tone of what was found out about a knob.
pub(crate) fn tone_of(conclusion: KnobConclusion) -> Tone {
    match conclusion {
        KnobConclusion::Helps => Tone::Good,
        KnobConclusion::Harms => Tone::Bad,
        KnobConclusion::Mixed | KnobConclusion::TooFewPairs => Tone::Unsure,
        KnobConclusion::NoEffectShown => Tone::Plain,
    }
}

/// The largest causes of each knob that is no control.
fn costs(experiment: &Experiment) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, knob) in experiment
        .knobs
        .iter()
        .enumerate()
        .filter(|(_, knob)| !knob.is_control)
    {
        let costs = experiment.costs(at);
        // A cause that costs much with and without the knob says nothing about it.
        let by = |it: &Costs| it.off_ns.abs_diff(it.on_ns);
        let all = costs.iter().map(by).fold(0, u64::saturating_add);
        let least = (all as f64 * LEAST_SHARE) as u64;
        let listed = costs.iter().filter(|it| by(it) > least);
        let parts: Vec<String> = listed
            .take(MOST_CAUSES)
            .map(|it| {
                format!(
                    "{} ({} and {})",
                    names::name(&it.cause),
                    words::duration(it.off_ns),
                    words::duration(it.on_ns)
                )
            })
            .collect();
        if !parts.is_empty() {
            lines.push(format!("{}: {}", knob.name, parts.join("; ")));
        }
    }
    lines
}

/// One line that says where an experiment under way stands.
#[must_use]
pub fn progress(experiment: &Experiment, elapsed_ns: u64) -> String {
    let phase = match experiment.blocks.last().map(|block| block.phase) {
        None | Some(Phase::Pilot) => "pilot: how much do latencies vary?",
        Some(Phase::Between) => "planning",
        Some(Phase::Screening) => "screening: all knobs on or off at random",
        Some(Phase::Pairs) => "pairs: one knob on, then off",
    };
    let on = experiment.blocks.last().map_or_else(Vec::new, |block| {
        let names = block.on.iter().filter_map(|at| experiment.knobs.get(*at));
        names.map(|knob| knob.name.as_str()).collect()
    });
    let on = match on.is_empty() {
        true => "all off".to_owned(),
        false => format!("on: {}", on.join(", ")),
    };
    format!(
        "{} of {}  {phase}  {on}",
        words::clock(elapsed_ns),
        words::clock(experiment.budget_ns)
    )
}
