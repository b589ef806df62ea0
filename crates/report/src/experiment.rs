//! Which knob helped? An experiment in words, as lines of a terminal, as a picture and as a section
//! of the page.

mod page;
mod picture;
mod terminal;

use punctual_record::experiment::{
    ExcessLimit, Experiment, ExperimentKnob, ExperimentOutcome, Forecast, LeftOut, Phase,
    WantedEffect,
};
use punctual_record::{InvalidReason, Run, experiment_faults};
use punctual_stats::experiment::{Effect, KnobConclusion, KnobResult, Measure, Power, Spread};
use punctual_stats::verdict::Outcome;

use crate::statements::Fact;
use crate::style::Tone;
use crate::tuning::command;
use crate::{verdict, words};

pub(crate) use page::{effects as html_effects, section as html_section};
pub use picture::draw;
pub(crate) use picture::forest;
pub(crate) use terminal::{effects, fact, fact_lines, tone_of};
pub use terminal::{progress, summary};

/// A knob with what was found out about it, as a table and the picture show it.
pub(crate) struct Judged<'e> {
    /// Its name.
    pub(crate) name: String,
    /// What was found out, in a word or two.
    pub(crate) conclusion: &'static str,
    /// How that is shown.
    pub(crate) tone: Tone,
    /// Its effects, and whether each is beyond chance and large enough to name.
    pub(crate) effects: Vec<(&'e Effect, bool)>,
}

/// The knobs of an experiment, judged.
fn judged(experiment: &Experiment) -> Vec<Judged<'_>> {
    let knobs = experiment.knobs.iter().zip(&experiment.results);
    knobs
        .map(|(knob, result)| {
            let effects = result.effects.iter();
            let effects = effects.map(|it| (it, it.is_named(experiment.confidence)));
            Judged {
                name: knob.name.clone(),
                conclusion: conclusion(knob, result),
                tone: tone_of(result.conclusion),
                effects: effects.collect(),
            }
        })
        .collect()
}

/// The verdict that the experiment of a run ends with; none while it goes on.
#[must_use]
pub fn outcome(run: &Run) -> Option<Outcome> {
    let experiment = run.experiment.as_ref()?;
    if experiment.control_fails() || !faults(run, experiment).is_empty() {
        return Some(Outcome::Invalid);
    }
    match experiment.outcome {
        ExperimentOutcome::UnderWay => None,
        ExperimentOutcome::Complete if experiment.has_too_few_pairs() => {
            Some(Outcome::Inconclusive)
        }
        ExperimentOutcome::Complete => Some(Outcome::Pass),
        _ => Some(Outcome::Inconclusive),
    }
}

/// What makes it invalid besides its control. One that could not be made says that first.
fn faults(run: &Run, experiment: &Experiment) -> Vec<InvalidReason> {
    match experiment.outcome.is_not_made() {
        true => Vec::new(),
        false => experiment_faults(run),
    }
}

/// The result in one sentence; empty without an experiment.
#[must_use]
pub fn sentence(run: &Run) -> String {
    let Some(experiment) = &run.experiment else {
        return String::new();
    };
    let faults = faults(run, experiment);
    if !faults.is_empty() {
        let faults: Vec<String> = faults.iter().map(verdict::reason).collect();
        return format!("INVALID: {}: no result can be trusted", faults.join("; "));
    }
    if experiment.control_fails() {
        return "INVALID: the control, which changes nothing, shows an effect: something else \
                changed with the knobs, and no result can be trusted"
            .to_owned();
    }
    match &experiment.outcome {
        ExperimentOutcome::Complete if experiment.has_too_few_pairs() => {
            let left_out = experiment.blocks.iter().any(|it| it.left_out.is_some());
            let why = match left_out {
                true => "too many blocks were left out: give a longer --settle or -D".to_owned(),
                false => format!(
                    "too few pairs of blocks for a confidence of {}: give a longer -D",
                    words::percent(experiment.confidence)
                ),
            };
            format!("INCONCLUSIVE: {why}. So far: {}", concluded(experiment))
        }
        ExperimentOutcome::Complete => concluded(experiment),
        ExperimentOutcome::UnderWay => "The experiment has not ended.".to_owned(),
        ExperimentOutcome::BudgetTooSmall { needed_ns } => too_small(experiment, *needed_ns),
        ExperimentOutcome::NoSpread => format!(
            "INCONCLUSIVE: the pilot has too few {} to say how much they vary: make it longer \
             (--pilot), or the interval shorter (-i)",
            samples(experiment)
        ),
        ExperimentOutcome::Conflict { setting, found } => format!(
            "INCONCLUSIVE: another program changed {setting} to `{}`: stop that program, and \
             measure again. {}",
            setting.shown(found),
            concluded(experiment)
        ),
        ExperimentOutcome::Failed { error } => {
            format!("INCONCLUSIVE: {error}. {}", concluded(experiment))
        }
        ExperimentOutcome::Stopped => format!(
            "INCONCLUSIVE: it was ended before its time. So far: {}",
            concluded(experiment)
        ),
    }
}

/// What was measured.
fn samples(experiment: &Experiment) -> &'static str {
    match experiment.is_of_messages() {
        true => "messages",
        false => "wake-ups",
    }
}

/// Which knobs helped.
fn concluded(experiment: &Experiment) -> String {
    let of = |wanted: KnobConclusion| {
        let knobs = experiment.knobs.iter().zip(&experiment.results);
        let names = knobs.filter(|(knob, result)| !knob.is_control && result.conclusion == wanted);
        names
            .map(|(knob, _)| knob.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let parts: Vec<String> = [
        (KnobConclusion::Helps, "helps"),
        (KnobConclusion::Harms, "harms"),
        (
            KnobConclusion::Mixed,
            "helps in one measure and harms in another",
        ),
    ]
    .into_iter()
    .map(|(conclusion, words)| (of(conclusion), words))
    .filter(|(names, _)| !names.is_empty())
    .map(|(names, words)| match names.contains(", ") {
        true => format!("{names}: each {words}"),
        false => format!("{names} {words}"),
    })
    .collect();
    if parts.is_empty() {
        let says_nothing = |it: &KnobResult| it.conclusion == KnobConclusion::TooFewPairs;
        return match experiment.results.iter().all(says_nothing) && experiment.screened.is_empty() {
            true => "Too few pairs of blocks to say anything.",
            false => "No knob has shown an effect.",
        }
        .to_owned();
    }
    format!("{}.", parts.join("; "))
}

fn too_small(experiment: &Experiment, needed_ns: Option<u64>) -> String {
    let budget = words::duration(experiment.budget_ns);
    let knobs = experiment.knobs.len() - 1;
    let what = match experiment.wanted {
        Some(WantedEffect { measure, ratio }) => {
            format!("a change of {} in {}", size(ratio), measure.name())
        }
        None => "any test".to_owned(),
    };
    let knobs = words::plural(knobs as u64, "knob", "knobs");
    if let (Some(measure), None) = (unmeasured(experiment), needed_ns) {
        return format!(
            "INCONCLUSIVE: blocks of {} hold too few {} for {}, which needs ten beyond it: give a \
             longer --block or a shorter -i. Nothing was switched.",
            words::duration(experiment.block_ns),
            samples(experiment),
            measure.name()
        );
    }
    let needed = match needed_ns {
        // The pilot leaves open how much blocks vary.
        Some(ns) if experiment.wanted.is_some() => {
            format!(
                "it may take {}: give -D {}",
                words::duration(ns),
                minutes(ns)
            )
        }
        Some(ns) => format!("it takes {}: give -D {}", words::duration(ns), minutes(ns)),
        None => "no budget is enough: ask for a larger effect (--effect)".to_owned(),
    };
    format!(
        "INCONCLUSIVE: {budget} have no room for {what} with {knobs} and the control; {needed}. \
         Nothing was switched."
    )
}

/// The wanted measure, if the blocks of the pilot don't have it.
fn unmeasured(experiment: &Experiment) -> Option<Measure> {
    let wanted = experiment.wanted?.measure;
    let spreads = &experiment.pilot.as_ref()?.spreads;
    let is_known = spreads.iter().any(|spread| spread.measure == wanted);
    (!is_known).then_some(wanted)
}

/// A length as -D takes it, rounded up.
fn minutes(ns: u64) -> String {
    format!("{}m", ns.div_ceil(60_000_000_000))
}

/// What was found out about a knob, in a word or two.
#[must_use]
pub fn conclusion(knob: &ExperimentKnob, result: &KnobResult) -> &'static str {
    said_of(result.conclusion, knob.is_control)
}

/// What was found out, in a word or two.
pub(crate) fn said_of(conclusion: KnobConclusion, is_control: bool) -> &'static str {
    match (conclusion, is_control) {
        (KnobConclusion::NoEffectShown, true) => "no effect, as it must be",
        (KnobConclusion::Helps, _) => "helps",
        (KnobConclusion::Harms, _) => "harms",
        (KnobConclusion::Mixed, _) => "mixed",
        (KnobConclusion::NoEffectShown, false) => "no effect shown",
        (KnobConclusion::TooFewPairs, _) => "too few pairs",
    }
}

/// A change with its sign.
fn percent(change: f64) -> String {
    let percent = 100.0 * change;
    if percent.abs() < 0.05 {
        "0.0 %".to_owned()
    } else if percent.abs() < 9.95 {
        format!("{percent:+.1} %")
    } else {
        format!("{percent:+.0} %")
    }
}

fn change(ratio: f64) -> String {
    percent(ratio - 1.0)
}

/// The size of a change that may go either way.
fn size(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    if percent >= 999.5 {
        return format!("{ratio:.0} times as much");
    }
    if percent < 9.95 && percent.fract().abs() > 0.05 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

fn interval(effect: &Effect) -> String {
    format!(
        "{} to {}",
        change(effect.interval.0),
        change(effect.interval.1)
    )
}

fn probability(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// How the experiment was made.
fn facts(run: &Run, experiment: &Experiment) -> Vec<Fact> {
    let fact = |name: &str, text: String| (name.to_owned(), text);
    let block = words::duration(experiment.block_ns);
    let mut facts = vec![fact(
        "Design",
        format!(
            "pairs of blocks of {block}, one on and one off, in random order (seed {}); {} to \
             settle after each switch; {} in all",
            experiment.seed,
            words::duration(experiment.settle_ns),
            words::duration(run.measured_ns)
        ),
    )];
    if let Some(ExcessLimit { ns, is_deadline }) = experiment.limit {
        let what = match is_deadline {
            true => "the deadline",
            false => "the 99th percentile of the pilot",
        };
        let limit = words::duration(ns);
        facts.push(match experiment.is_of_messages() {
            true => fact(
                "Late",
                format!(
                    "the share of messages whose reply came later than {limit}, {what}, or never; \
                     for its change half a message is added to each block. The other measures are \
                     of replies"
                ),
            ),
            false => fact(
                "Excess",
                format!("the time by which latencies of a block exceed {limit}, {what}, added up"),
            ),
        });
    }
    if experiment.is_of_messages() {
        let text = "a new connection for each block: an open one keeps what it has learnt";
        facts.push(fact("Connections", text.to_owned()));
    }
    if let Some(text) = left_out(experiment) {
        facts.push(fact("Left out", text));
    }
    if let Some(text) = not_compared(experiment) {
        facts.push(fact("Not compared", text));
    }
    if let Some(text) = detectable(experiment) {
        facts.push(fact("Could show", text));
    }
    facts.push(fact(
        "Confidence",
        format!(
            "{} %: if no knob had any effect, one would be named in at most {} % of such \
             experiments; changes below 5 % are not named",
            decimal(100.0 * experiment.confidence),
            decimal(100.0 * (1.0 - experiment.confidence))
        ),
    ));
    facts
}

/// Blocks that count for nothing.
fn left_out(experiment: &Experiment) -> Option<String> {
    let count = |why: LeftOut| {
        let blocks = experiment.blocks.iter();
        blocks.filter(|block| block.left_out == Some(why)).count() as u64
    };
    let (slow, nothing) = match experiment.is_of_messages() {
        true => ("switching and connecting took too long", "no reply came"),
        false => ("switching took too long", "no wake-up was measured"),
    };
    let parts: Vec<String> = [
        (LeftOut::SlowSwitching, slow),
        (LeftOut::ProcessStopped, "punctual was stopped"),
        (LeftOut::NoWakeUps, nothing),
        (LeftOut::CutShort, "not measured to its end"),
    ]
    .into_iter()
    .map(|(why, words)| (count(why), words))
    .filter(|(count, _)| *count > 0)
    .map(|(count, why)| format!("{} ({why})", words::plural(count, "block", "blocks")))
    .collect();
    (!parts.is_empty()).then(|| format!("{}, with their pairs", parts.join(", ")))
}

/// The measures that have no row, since a block has too few samples for them.
fn not_compared(experiment: &Experiment) -> Option<String> {
    let all = match experiment.is_of_messages() {
        true => &Measure::PATH,
        false => &Measure::ALL,
    };
    let results = experiment.results.iter();
    let tested = results.filter(|it| !it.effects.is_empty());
    let lacks = |measure: &&Measure| tested.clone().any(|it| it.effect(**measure).is_none());
    let names: Vec<&str> = all.iter().filter(lacks).map(|it| it.name()).collect();
    let blocks = experiment.blocks.iter();
    let counted = blocks.filter(|it| it.phase == Phase::Pairs && it.left_out.is_none());
    let fewest = counted
        .filter_map(|it| Some(it.figures.as_ref()?.count))
        .min()?;
    (!names.is_empty()).then(|| {
        format!(
            "{}: ten {samples} of each block must lie beyond it, and one has {} {samples} in all: \
             give a longer --block or a shorter -i",
            names.join(", "),
            words::count(fewest),
            samples = samples(experiment)
        )
    })
}

/// The smallest changes that so many pairs show, as much as these varied. A pilot says less: it is
/// short, and all its knobs are off.
fn detectable(experiment: &Experiment) -> Option<String> {
    let results = experiment.results.iter();
    let tested: Vec<&KnobResult> = results.filter(|it| !it.effects.is_empty()).collect();
    let pairs = tested.iter().map(|it| it.pairs).min()?;
    let widest = |measure: Measure| {
        let effects = tested
            .iter()
            .filter_map(|it| Some((it.effect(measure)?, it.pairs)));
        let spreads =
            effects.map(|(effect, pairs)| Spread::of_effect(effect, pairs, experiment.confidence));
        spreads.max_by(|one, other| one.difference_sd.total_cmp(&other.difference_sd))
    };
    let spreads: Vec<Spread> = Measure::EVERY.into_iter().filter_map(widest).collect();
    let power = Power {
        confidence: experiment.confidence,
        power: experiment.power,
        tests: tested.len() * spreads.len(),
    };
    let parts: Vec<String> = spreads
        .iter()
        .map(|spread| {
            let ratio = power.detectable(spread, pairs);
            format!("{} {}", spread.measure.name(), size(ratio))
        })
        .collect();
    Some(format!(
        "a change of {} ({:.0} % of the time, with {} each)",
        parts.join(", "),
        100.0 * experiment.power,
        words::plural(pairs as u64, "pair", "pairs")
    ))
}

/// What the table of forecasts shows.
const FORECASTS: &str = "Time that it takes to show a change (in brackets: its 80 % interval)";

/// What it takes to find changes, by measure: rows of a table with its head.
fn forecasts(experiment: &Experiment) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let pilot = experiment.pilot.as_ref()?;
    let mut ratios: Vec<f64> = pilot.forecasts.iter().map(|it| it.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.dedup();
    let head = ratios.iter().map(|ratio| size(*ratio));
    let head = std::iter::once("a change in".to_owned())
        .chain(head)
        .collect();
    let row = |measure: Measure| {
        let cell = |ratio: &f64| {
            let of = pilot.forecasts.iter();
            let found = of
                .filter(|it| it.measure == measure)
                .find(|it| it.ratio == *ratio);
            found.map_or_else(|| "never".to_owned(), length)
        };
        let cells = ratios.iter().map(cell);
        std::iter::once(measure.name().to_owned())
            .chain(cells)
            .collect()
    };
    let rows = pilot
        .spreads
        .iter()
        .map(|spread| row(spread.measure))
        .collect();
    Some((head, rows))
}

/// How long it takes to find an effect, and how sure that is.
fn length(forecast: &Forecast) -> String {
    let Some(ns) = forecast.length_ns else {
        return "never".to_owned();
    };
    let of = |ns: Option<u64>| ns.map_or_else(|| "never".to_owned(), words::duration);
    match (forecast.shortest_ns, forecast.longest_ns) {
        (None, None) => words::duration(ns),
        (shortest, longest) => format!(
            "{} ({} to {})",
            words::duration(ns),
            of(shortest),
            of(longest)
        ),
    }
}

/// A number with as many digits as it has, up to those of the finest confidence.
pub(crate) fn decimal(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What a knob switches, as commands.
fn commands(knob: &ExperimentKnob) -> Vec<String> {
    let settings = knob.settings.iter();
    settings.map(|it| command(&it.setting, &it.on)).collect()
}

/// A figure of a measure.
fn figure(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Late => format!("{} %", decimal((1e4 * value).round() / 100.0)),
        _ => words::duration(value.round().max(0.0) as u64),
    }
}
