//! A fit in words: what was tried, what it showed, what is kept, what stands in the way.

mod page;

use punctual_record::cpu_list;
use punctual_record::finding::FindingId;
use punctual_record::fit::{Fit, FitBoot, FitObstacle, FitOutcome, FitStep, FitWork, ProvenKnob};
use punctual_stats::experiment::KnobConclusion;
use punctual_stats::verdict::Outcome;

use crate::explain::names::name;
use crate::proposals;
use crate::style::{Style, Tone, cut, wrap};
use crate::words;

pub use page::page;

/// Obstacles that are listed.
const MOST_OBSTACLES: usize = 4;
/// Causes that are listed of an obstacle.
const MOST_CAUSES: usize = 3;

fn list(knobs: &[FindingId]) -> String {
    let names: Vec<&str> = knobs.iter().map(|knob| knob.name()).collect();
    names.join(", ")
}

/// What a qualification is about to find out.
#[must_use]
pub fn qualifying(on: &[FindingId]) -> String {
    if on.is_empty() {
        "qualify: does the machine meet the deadline as it is?".to_owned()
    } else {
        format!("qualify: does it meet the deadline with {}?", list(on))
    }
}

/// What an experiment is about to find out.
#[must_use]
pub fn proving(knobs: &[FindingId], within_ns: u64) -> String {
    format!(
        "prove: which of {} helps? (up to {})",
        list(knobs),
        words::duration(within_ns)
    )
}

/// What a step found.
#[must_use]
pub fn done(step: &FitStep) -> String {
    format!("  {}: {}", step.directory, found(&step.what))
}

fn found(what: &FitWork) -> String {
    match what {
        FitWork::Qualify {
            outcome,
            samples,
            late,
            max_ns,
            asked,
            ..
        } => {
            let asked = match (outcome, asked.is_empty()) {
                (Outcome::Pass, _) => String::new(),
                (_, true) => {
                    "; its bills ask for no knob that is bad here and can be turned now".to_owned()
                }
                (_, false) => format!("; its bills ask for {}", list(asked)),
            };
            format!(
                "{}, {} of {} wake-ups late, the worst {}{asked}",
                outcome.word(),
                words::count(*late),
                words::count(*samples),
                words::duration(*max_ns)
            )
        }
        FitWork::Prove {
            is_valid: false, ..
        } => "not valid, for the reason in its report".to_owned(),
        FitWork::Prove {
            needed_ns: Some(_), ..
        } => "not enough time for a test".to_owned(),
        FitWork::Prove { is_short: true, .. } => {
            "too little evidence: too few blocks count, or too few wake-ups in them".to_owned()
        }
        FitWork::Prove { knobs, .. } => {
            let knobs: Vec<String> = knobs.iter().map(proven).collect();
            knobs.join("; ")
        }
    }
}

fn proven(proven: &ProvenKnob) -> String {
    let knob = proven.knob.name();
    let change = proven
        .ratio
        .map(|ratio| format!(" ({:+.0} %)", 100.0 * (ratio - 1.0)))
        .unwrap_or_default();
    match proven.conclusion {
        KnobConclusion::Helps => format!("{knob} helps{change}"),
        KnobConclusion::Harms => format!("{knob} harms{change}"),
        KnobConclusion::Mixed => format!("{knob} helps in one measure and harms in another"),
        KnobConclusion::NoEffectShown => format!("{knob}: no effect shown"),
        KnobConclusion::TooFewPairs => format!("{knob}: not tested in pairs"),
    }
}

/// The result in one sentence.
#[must_use]
pub fn sentence(fit: &Fit) -> String {
    let deadline = words::duration(fit.deadline_ns);
    let Some(outcome) = &fit.outcome else {
        return "The fit has not ended.".to_owned();
    };
    let word = outcome.verdict().word();
    match outcome {
        FitOutcome::MetAlready => {
            format!("{word}: the machine meets {deadline} as it is; nothing was changed")
        }
        FitOutcome::Met { knobs, untried } => {
            let kept = if fit.kept.is_empty() {
                "everything was restored"
            } else {
                match knobs.as_slice() {
                    [_] => "it stays changed: punctual tune restore undoes it",
                    _ => "they stay changed: punctual tune restore undoes it",
                }
            };
            let untried = match untried.is_empty() {
                true => String::new(),
                false => format!(
                    "; whether it needs {} was not tried, the budget was used up",
                    list(untried)
                ),
            };
            format!(
                "{word}: the machine meets {deadline} with {}; {kept}{untried}",
                list(knobs)
            )
        }
        FitOutcome::NothingToTurn => format!(
            "{word}: the machine does not meet {deadline}, and the bills ask for no setting that \
             is bad and can be changed while it runs; nothing was changed"
        ),
        FitOutcome::OutOfReach { min_ns } => format!(
            "{word}: not one wake-up met {deadline}, the fastest took {}, and the bills ask for no \
             setting that makes all of them faster; nothing was changed",
            words::duration(*min_ns)
        ),
        FitOutcome::FirstKeep { knobs } => format!(
            "{word}: without {} the kernel throttles the probes, and with it {deadline} is not met; \
             everything was restored. What else helps can be tried once it is kept: punctual tune \
             apply {}, then fit again",
            list(knobs),
            list(knobs).replace(", ", " ")
        ),
        FitOutcome::NothingHelps => format!(
            "{word}: the machine does not meet {deadline}, and no knob was shown to help; \
             everything was restored"
        ),
        FitOutcome::NotEnough { knobs } => format!(
            "{word}: {} help{}, but not enough for {deadline}; everything was restored",
            list(knobs),
            if knobs.len() == 1 { "s" } else { "" }
        ),
        FitOutcome::BudgetTooSmall { needed_ns } => format!(
            "{word}: the machine does not meet {deadline}, and the budget of {} has no room for \
             an experiment: give --budget {}m; nothing was changed",
            words::duration(fit.budget_ns),
            needed_ns.div_ceil(60_000_000_000)
        ),
        FitOutcome::TooLittleEvidence => {
            let is_of_experiment = |step: &FitStep| matches!(step.what, FitWork::Prove { .. });
            match fit.steps.last().is_some_and(is_of_experiment) {
                true => format!(
                    "{word}: the experiment has too little evidence on any knob: keep the machine \
                     free of what stops punctual, or give a longer --budget; nothing is left changed"
                ),
                false => format!(
                    "{word}: a qualification is too short for a verdict on {deadline}: give a \
                     longer -D; nothing is left changed"
                ),
            }
        }
        FitOutcome::Invalid => {
            format!("{word}: a step is not valid, see its report; nothing is left changed")
        }
        FitOutcome::Stopped => format!("{word}: it was ended by a signal; nothing is left changed"),
    }
}

fn obstacle(obstacle: &FitObstacle) -> String {
    let causes: Vec<String> = obstacle.causes.iter().take(MOST_CAUSES).map(name).collect();
    format!(
        "{}: {} in late wake-ups, {} of one of them ({})",
        proposals::obstacle(obstacle.obstacle).0,
        words::duration(obstacle.total_ns),
        words::duration(obstacle.worst_ns),
        causes.join(", ")
    )
}

/// A boot parameter, and what its causes cost.
fn boot(boot: &FitBoot) -> String {
    format!(
        "{}: {} (bears on {} of late wake-ups, {} of one of them)",
        boot.knob.name(),
        boot.parameter,
        words::duration(boot.total_ns),
        words::duration(boot.worst_ns)
    )
}

/// How boot parameters are configured, and removed again.
fn configure(fit: &Fit) -> String {
    let mut knobs: Vec<&str> = fit.untried_boot.iter().map(|it| it.knob.name()).collect();
    knobs.dedup();
    format!(
        "Add them with punctual tune apply --boot{} {}, then reboot and run punctual fit again; \
         punctual tune restore removes them",
        request(fit),
        knobs.join(" ")
    )
}

/// What the settings were made for, as flags of `tune`.
fn request(fit: &Fit) -> String {
    let mut flags = String::new();
    if !fit.tuned_for.is_empty() {
        flags.push_str(&format!(" -a {}", cpu_list(&fit.tuned_for)));
    }
    if fit.priority > 0 {
        flags.push_str(&format!(" -p {}", fit.priority));
    }
    flags
}

/// How what is kept is made again at each boot.
fn persist(fit: &Fit) -> String {
    format!(
        "At each boot: punctual tune persist{} installs files that make these changes again; \
         punctual tune restore removes them",
        request(fit)
    )
}

/// The summary, with a final newline.
#[must_use]
pub fn summary(fit: &Fit, style: &Style) -> String {
    let mut lines = vec![String::new()];
    let verdict = fit.outcome.as_ref().map(FitOutcome::verdict);
    for line in wrap(&sentence(fit), style.columns()) {
        lines.push(style.paint(crate::terminal::tone(verdict), &line));
    }
    let mut section = |title: &str, items: Vec<String>| {
        if items.is_empty() {
            return;
        }
        lines.push(String::new());
        lines.push(style.paint(Tone::Bold, title));
        for item in items {
            let wrapped = wrap(&item, style.columns().saturating_sub(4));
            for (at, line) in wrapped.iter().enumerate() {
                let indent = if at == 0 { "  " } else { "    " };
                lines.push(style.paint(Tone::Plain, &format!("{indent}{line}")));
            }
        }
    };
    let steps = fit.steps.iter();
    section(
        "Steps",
        steps
            .map(|step| done(step).trim_start().to_owned())
            .collect(),
    );
    let kept = fit.kept.iter();
    let mut kept: Vec<String> = kept
        .map(|it| crate::tuning::command(&it.setting, &it.value))
        .collect();
    if !kept.is_empty() {
        kept.push(persist(fit));
    }
    section("Kept", kept);
    if verdict != Some(Outcome::Pass) && !fit.untried_boot.is_empty() {
        let mut untried: Vec<String> = fit.untried_boot.iter().map(boot).collect();
        untried.push(configure(fit));
        section("Boot parameters that the bills ask for, not tried", untried);
    }
    if verdict != Some(Outcome::Pass) {
        let obstacles = fit.obstacles.iter().take(MOST_OBSTACLES);
        section(
            "What no setting helps against",
            obstacles.map(obstacle).collect(),
        );
    }
    if let Some(place) = &style.report {
        lines.push(String::new());
        lines.push(style.paint(Tone::Plain, &format!("Report  {place}")));
    }
    let lines = lines.iter().map(|line| cut(line, style.columns()) + "\n");
    lines.collect()
}

/// The CPUs as `-a` takes them.
fn cpus(fit: &Fit) -> String {
    let mut cpus = fit.cpus.clone();
    cpus.sort_unstable();
    cpus.dedup();
    cpu_list(&cpus)
}
