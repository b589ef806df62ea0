//! A ladder in words: what each step gains, what was counted, and the lines of code that take it.

mod code;
mod page;
mod terminal;

use punctual_record::cpu_list;
use punctual_record::ladder::{
    Ladder, LadderOutcome, LadderRung, LadderStep, NotPossible, Rung, RungLeftOut, StepKind,
};
use punctual_stats::experiment::{KnobConclusion, LEAST_PAIRS, least_seeds};
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::verdict::Outcome;

use crate::experiment::{Judged, decimal, said_of, tone_of};
use crate::statements::Fact;
use crate::tuning::command;
use crate::words;

pub use code::{Language, example, lines};
pub use page::page;
pub use terminal::{progress, summary};

/// A rung as text names it.
#[must_use]
pub fn title(rung: Rung) -> &'static str {
    match rung {
        Rung::RelativeSleep => "relative sleep",
        Rung::AbsoluteSleep => "absolute sleep",
        Rung::Priority => "priority",
        Rung::LockedMemory => "locked memory",
        Rung::Affinity => "affinity",
        Rung::QuietInterrupts => "quiet interrupts",
    }
}

/// A rung in the table: every one but the lowest is one step more.
fn row_name(ladder: &Ladder, rung: Rung) -> String {
    let more = match rung {
        Rung::RelativeSleep => "",
        _ => "+ ",
    };
    let design = &ladder.design;
    let which = match rung {
        Rung::Priority => format!(" {}", design.priority),
        Rung::Affinity => format!(" (CPU {})", design.cpu),
        _ => String::new(),
    };
    format!("{more}{}{which}", title(rung))
}

/// Why a step can't be taken here, and what to do.
#[must_use]
pub fn why_not(why: &NotPossible) -> String {
    match why {
        NotPossible::Refused { error } => error.clone(),
        NotPossible::OneCpu => {
            "punctual may use one CPU: there is no other that the thread could run on".to_owned()
        }
        NotPossible::NothingToMove => {
            "no interrupt and no unbound workqueue that can be moved may use its CPU".to_owned()
        }
        NotPossible::NotSwitchable { setting, error } => {
            format!("{setting} can't be switched: {error}; run it as root")
        }
        NotPossible::NoJournal { error } => error.clone(),
    }
}

/// The result in one sentence.
#[must_use]
pub fn sentence(ladder: &Ladder) -> String {
    let verdict = ladder.verdict();
    match (&ladder.outcome, verdict) {
        (None, _) => return "The ladder has not ended.".to_owned(),
        (Some(LadderOutcome::Conflict { setting, found }), _) => {
            return format!(
                "Another program changed {setting} to {} meanwhile: it was left alone, all \
                 other settings were restored.",
                setting.shown(found)
            );
        }
        (Some(LadderOutcome::Failed { error }), _) => {
            return format!("The ladder could not be measured to its end: {error}.");
        }
        (Some(LadderOutcome::Complete | LadderOutcome::Stopped), _) => {}
    }
    match verdict {
        Some(Outcome::Invalid) => format!("INVALID: {}.", invalid(ladder)),
        Some(Outcome::Inconclusive) => format!("INCONCLUSIVE: {}.", inconclusive(ladder)),
        _ if ladder.control.is_none() => of_one(ladder),
        _ => concluded(ladder),
    }
}

fn invalid(ladder: &Ladder) -> String {
    let not_in_force = ladder.left_out(RungLeftOut::NotInForce) as u64;
    if not_in_force > 0 {
        format!(
            "in {} the kernel did not have the thread set up as its rung says",
            words::plural(not_in_force, "block", "blocks")
        )
    } else if ladder.load_failed() {
        "the load failed or stopped working: the rungs were not measured under one load".to_owned()
    } else {
        "the control shows an effect, the same rung measured twice: something else changed from \
         block to block"
            .to_owned()
    }
}

fn inconclusive(ladder: &Ladder) -> String {
    let pairs = ladder.steps.iter().map(|step| step.result.pairs).min();
    let least = least_seeds(ladder.steps.len(), ladder.design.confidence);
    let why = match ladder.outcome {
        Some(LadderOutcome::Stopped) => "it was ended by a signal",
        _ if least.is_none() => {
            return format!(
                "no number of rounds shows an effect of {} at a confidence of {}: give a lower --confidence",
                words::plural(ladder.steps.len() as u64, "step", "steps"),
                words::percent(ladder.design.confidence)
            );
        }
        _ => "too few blocks count",
    };
    let least = least.unwrap_or(LEAST_PAIRS);
    match pairs {
        None => why.to_owned(),
        Some(pairs) => format!(
            "{why}; {} of at least {least} rounds have both blocks of every comparison",
            pairs
        ),
    }
}

/// The only rung.
fn of_one(ladder: &Ladder) -> String {
    let measured = ladder.rungs.iter().find(|it| it.is_measured);
    let Some(rung) = measured else {
        return "Nothing was measured.".to_owned();
    };
    let quantile = |share| figure(&rung.response, share);
    format!(
        "{}: {}, p50 {}, p99 {}, worst {}",
        title(rung.rung),
        words::plural(rung.counts.cycles, "cycle", "cycles"),
        quantile(0.5),
        quantile(0.99),
        words::duration(rung.response.max_ns)
    )
}

/// Which steps did what.
fn concluded(ladder: &Ladder) -> String {
    let of = |conclusion: KnobConclusion| {
        let steps = ladder.steps.iter();
        let named: Vec<&str> = steps
            .filter(|it| it.kind == StepKind::Step && it.result.conclusion == conclusion)
            .map(|it| title(it.to))
            .collect();
        named.join(", ")
    };
    let parts: Vec<String> = [
        (KnobConclusion::Helps, "helps"),
        (KnobConclusion::Harms, "harms"),
        (KnobConclusion::Mixed, "mixed"),
        (KnobConclusion::NoEffectShown, "no effect shown"),
    ]
    .into_iter()
    .map(|(conclusion, words)| (of(conclusion), words))
    .filter(|(names, _)| !names.is_empty())
    .map(|(names, words)| format!("{words}: {names}"))
    .collect();
    let text = parts.join("; ");
    let mut letters = text.chars();
    let first = letters.next().map(|it| it.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// A quantile, if so many samples support it.
fn figure(response: &HistogramRecord, share: f64) -> String {
    let histogram = Histogram::try_from(response).ok();
    let ns = histogram.and_then(|it| it.supported_quantile(share));
    ns.map_or_else(|| "-".to_owned(), words::duration)
}

/// The columns of the table of rungs.
const HEADS: [&str; 8] = [
    "p50", "p99", "p99.9", "worst", "period", "faults", "moves", "skipped",
];

/// What was measured on a rung, in the order of [`HEADS`].
fn figures(rung: &LadderRung) -> [String; 8] {
    let counts = &rung.counts;
    let period = counts.mean_period_ns();
    [
        figure(&rung.response, 0.5),
        figure(&rung.response, 0.99),
        figure(&rung.response, 0.999),
        words::duration(rung.response.max_ns),
        period.map_or_else(|| "-".to_owned(), words::duration),
        words::count(counts.faults()),
        words::count(counts.migrations),
        words::count(counts.skipped),
    ]
}

/// What the columns are.
const COLUMNS: &str = "Response times, from the requested instant until the work of the cycle is \
                       done; the mean period; page faults; cycles that ended on another CPU than \
                       the one before; skipped periods";

/// The comparisons, judged.
fn judged(ladder: &Ladder) -> Vec<Judged<'_>> {
    let judged = |step: &'_ LadderStep| -> String {
        match step.kind {
            StepKind::Step => title(step.to).to_owned(),
            StepKind::All => "all steps".to_owned(),
            StepKind::Control => format!("control: {}", title(step.to)),
        }
    };
    let steps = ladder.steps.iter();
    steps
        .map(|step| Judged {
            name: judged(step),
            conclusion: said_of(step.result.conclusion, step.kind == StepKind::Control),
            tone: tone_of(step.result.conclusion),
            effects: {
                let effects = step.result.effects.iter();
                let confidence = ladder.design.confidence;
                effects.map(|it| (it, it.is_named(confidence))).collect()
            },
        })
        .collect()
}

/// The steps that can't be taken here.
fn not_possible(ladder: &Ladder) -> Vec<Fact> {
    let rungs = ladder.rungs.iter();
    let not_possible = rungs.filter_map(|it| {
        let why = it.not_possible.as_ref()?;
        Some((title(it.rung).to_owned(), why_not(why)))
    });
    not_possible.collect()
}

/// How it was measured.
fn facts(ladder: &Ladder) -> Vec<Fact> {
    let fact = |name: &str, text: String| (name.to_owned(), text);
    let design = &ladder.design;
    let mut facts = Vec::new();
    if ladder.control.is_some() {
        facts.push(fact(
            "Design",
            format!(
                "{} of a block of {} on each rung and one more of the control, in random order \
                 (seed {}); the first {} of a block do not count; {} in all",
                words::plural(design.rounds, "round", "rounds"),
                words::duration(design.block_ns),
                design.seed,
                words::duration(design.settle_ns),
                words::duration(ladder.measured_ns)
            ),
        ));
    }
    facts.push(fact(
        "Thread",
        format!(
            "a period of {}, work of {} in memory that is new to it; before affinity on CPUs {}",
            words::duration(design.interval_ns),
            words::bytes(design.work_bytes),
            cpu_list(&design.cpus)
        ),
    ));
    facts.push(fact("Load", ladder.load.clone()));
    let switched = ladder.switched.iter();
    let switched: Vec<String> = switched.map(|it| command(&it.setting, &it.on)).collect();
    if !switched.is_empty() {
        facts.push(fact("Quiet", switched.join("; ")));
    }
    if ladder.control.is_some() {
        facts.push(fact(
            "Excess",
            format!(
                "the time by which response times of a block exceed {}, added up",
                words::duration(design.deadline_ns)
            ),
        ));
    }
    if let Some(text) = left_out(ladder) {
        facts.push(fact("Left out", text));
    }
    if ladder.control.is_some() {
        facts.push(fact(
            "Confidence",
            format!(
                "{} %: if no step had any effect, one would be named in at most {} % of such \
                 ladders; changes below 5 % are not named",
                decimal(100.0 * design.confidence),
                decimal(100.0 * (1.0 - design.confidence))
            ),
        ));
    }
    facts
}

/// Blocks that count for nothing.
fn left_out(ladder: &Ladder) -> Option<String> {
    let parts: Vec<String> = [
        (RungLeftOut::NotInForce, "not set up as the rung says"),
        (RungLeftOut::ProcessStopped, "punctual was stopped"),
        (RungLeftOut::CutShort, "not measured to its end"),
        (RungLeftOut::NoCycles, "no cycle"),
    ]
    .into_iter()
    .map(|(why, words)| (ladder.left_out(why) as u64, words))
    .filter(|(count, _)| *count > 0)
    .map(|(count, why)| format!("{} ({why})", words::plural(count, "block", "blocks")))
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
