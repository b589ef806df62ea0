//! What is judged of a run, a case each: its requirements, tasks and experiment, the conditions that were
//! requested, the events that make it INVALID, and whether its record is whole. A FAIL is a failure, an
//! INCONCLUSIVE one, too (what was to be shown was not shown), INVALID is an error. The words are the
//! terminal's.

use punctual_record::{Demand, Ending, Event, Judgement, Run, Standing, State};
use punctual_stats::format::duration;
use punctual_stats::lengths::LengthResult;
use punctual_stats::tasks::TaskResult;
use punctual_stats::verdict::{Outcome, RequirementResult};

use crate::{exec, experiment, facts, verdict, words};

/// How a case ended.
pub(super) enum Found {
    Good,
    Failure(&'static str, String),
    Error(&'static str, String),
    Skipped(String),
}

/// A case.
pub(super) struct Case {
    pub(super) class: &'static str,
    pub(super) name: String,
    pub(super) result: Found,
    /// What else is to be said.
    pub(super) output: String,
    /// Whether the case took the time of the run.
    pub(super) timed: bool,
}

/// All of them.
pub(super) fn cases(run: &Run, judgement: Option<&Judgement>) -> Vec<Case> {
    let mut cases = Vec::new();
    match judgement {
        Some(judgement) => {
            let verdict = &judgement.verdict;
            let waking = verdict.requirements.iter();
            cases.extend(waking.map(|result| requirement(result, judgement)));
            let taking = verdict.lengths.iter();
            cases.extend(taking.map(|result| length(result, judgement)));
            let tasks = verdict.tasks.iter();
            cases.extend(tasks.map(|result| task(result, judgement)));
        }
        None => cases.extend(run.request.requirements.iter().map(|requirement| Case {
            class: "requirement",
            name: facts::requirement(requirement),
            result: Found::Error(
                Outcome::Invalid.word(),
                "the run holds no verdict".to_owned(),
            ),
            output: String::new(),
            timed: true,
        })),
    }
    if run.experiment.is_some() {
        cases.push(experiment(run));
    }
    if run.verdict.is_none() && run.state == State::Stopped(Ending::BreakValue) {
        cases.push(break_value(run));
    }
    // Of another tool's run there is but one, that its conditions are not known: no case.
    let demands = run.demands.iter().filter(|_| run.imported.is_none());
    cases.extend(
        demands
            .filter(|demand| requested(demand))
            .map(|found| demand(found, run.request.best_effort)),
    );
    cases.extend(
        run.events
            .iter()
            .filter(|event| event.invalidates)
            .map(|found| event(found, run)),
    );
    cases.push(completeness(run));
    let is_error = |case: &Case| matches!(case.result, Found::Error(..));
    let judgement = judgement.filter(|it| it.verdict.outcome == Outcome::Invalid);
    // Of a run of which nothing was required no case says that it is INVALID.
    if let Some(judgement) = judgement.filter(|_| !cases.iter().any(is_error)) {
        cases.push(valid(judgement));
    }
    cases
}

fn valid(judgement: &Judgement) -> Case {
    let why = verdict::reasons(judgement).join("; ");
    Case {
        class: "run",
        name: "valid".to_owned(),
        result: Found::Error(Outcome::Invalid.word(), why),
        output: String::new(),
        timed: true,
    }
}

/// A latency above the break value fails a run of which nothing else was required.
fn break_value(run: &Run) -> Case {
    let limit = duration(run.request.break_ns.unwrap_or(0));
    let what = if run.gaps.is_some() { "gap" } else { "latency" };
    let why = format!("a {what} above {limit} ended the run");
    Case {
        class: "requirement",
        name: format!("no {what} above {limit}"),
        result: Found::Failure(Outcome::Fail.word(), why.clone()),
        output: why,
        timed: true,
    }
}

fn requirement(result: &RequirementResult, judgement: &Judgement) -> Case {
    judged(
        facts::requirement(&result.requirement),
        result.outcome,
        verdict::requirement(result, judgement),
        judgement,
    )
}

fn length(result: &LengthResult, judgement: &Judgement) -> Case {
    judged(
        verdict::limit(result),
        result.outcome,
        verdict::length(result),
        judgement,
    )
}

fn task(result: &TaskResult, judgement: &Judgement) -> Case {
    let asked = facts::requirement(&result.result.requirement);
    judged(
        format!("{}: {asked}", words::clean(&result.name)),
        result.result.outcome,
        exec::task(result, judgement),
        judgement,
    )
}

/// Whether an experiment was made as planned; what it has shown is no success or failure of it.
fn experiment(run: &Run) -> Case {
    // One that has not ended shows nothing.
    let outcome = experiment::outcome(run).unwrap_or(Outcome::Invalid);
    let sentence = experiment::sentence(run);
    let name = "conclusive".to_owned();
    case("experiment", name, outcome, sentence, String::clone)
}

fn judged(name: String, outcome: Outcome, sentence: String, judgement: &Judgement) -> Case {
    let why = |_: &String| verdict::reasons(judgement).join("; ");
    case("requirement", name, outcome, sentence, why)
}

/// `why` it is INVALID.
fn case(
    class: &'static str,
    name: String,
    outcome: Outcome,
    sentence: String,
    why: impl FnOnce(&String) -> String,
) -> Case {
    let word = outcome.word();
    Case {
        class,
        name,
        result: match outcome {
            Outcome::Pass => Found::Good,
            Outcome::Fail | Outcome::Inconclusive => Found::Failure(word, sentence.clone()),
            Outcome::Invalid => Found::Error(word, why(&sentence)),
        },
        output: sentence,
        timed: true,
    }
}

/// Whether a condition can fail: nobody requested what is only stated, and a case of it would
/// be green whatever was found.
pub(super) fn requested(demand: &Demand) -> bool {
    demand.standing != Standing::Stated
}

fn demand(demand: &Demand, best_effort: bool) -> Case {
    let text = || {
        let fix = facts::fix_of(demand).map_or_else(String::new, |fix| format!("; {fix}"));
        let (requested, found) = (facts::requested(demand), facts::found(demand));
        format!("requested {requested}, found {found}{fix}")
    };
    Case {
        class: "condition",
        name: demand.name().to_owned(),
        result: match demand.standing {
            Standing::InForce | Standing::Stated => Found::Good,
            Standing::NotInForce if best_effort => Found::Skipped(text()),
            Standing::NotInForce => Found::Error(Outcome::Invalid.word(), text()),
        },
        output: facts::found(demand),
        timed: false,
    }
}

fn event(event: &Event, run: &Run) -> Case {
    let name = match run.imported {
        // Another tool doesn't say when.
        Some(_) => event.kind().to_owned(),
        None => format!("{} at {:.3} s", event.kind(), event.at_ns as f64 / 1e9),
    };
    Case {
        class: "event",
        name,
        result: Found::Error(Outcome::Invalid.word(), facts::event(event, &run.tool.name)),
        output: String::new(),
        timed: false,
    }
}

/// A record that was cut off is no success, whatever it holds so far.
fn completeness(run: &Run) -> Case {
    let (result, output) = match run.state {
        State::Finished => (Found::Good, String::new()),
        State::Stopped(ending) => {
            let text = format!("stopped: {}", facts::ending(ending, &run.tool.name));
            match ending {
                Ending::UnfinishedRuns { .. } => (Found::Error("unfinished", text), String::new()),
                _ => (Found::Good, text),
            }
        }
        State::Unfinished => {
            let text = "the record is unfinished: the run is still going or was killed";
            (Found::Error("unfinished", text.to_owned()), String::new())
        }
    };
    Case {
        class: "record",
        name: "complete".to_owned(),
        result,
        output,
        timed: false,
    }
}
