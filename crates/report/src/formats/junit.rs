//! A test suite: one case for each requirement, each condition that was requested and each
//! event that invalidates the run; what is merely known of the machine is a property. The words are the terminal's: a FAIL is a failure of type
//! `FAIL`, INCONCLUSIVE a failure of type `INCONCLUSIVE` (what was to be shown was
//! not shown), INVALID an error of type `INVALID`.

use punctual_record::Field;
use punctual_stats::lengths::LengthResult;
use punctual_stats::verdict::{Outcome, RequirementResult};

use super::xml::Xml;
use crate::figures::Figures;
use crate::{conditions, facts, verdict, watch};
use punctual_record::{Demand, Event, Judgement, Run, Standing, State};

pub(super) fn write(run: &Run) -> String {
    let judgement = Judgement::from_run(run);
    let cases = cases(run, judgement.as_ref());
    let failures = cases
        .iter()
        .filter(|case| matches!(case.result, Found::Failure(..)))
        .count();
    let errors = cases
        .iter()
        .filter(|case| matches!(case.result, Found::Error(..)))
        .count();
    let skipped = cases
        .iter()
        .filter(|case| matches!(case.result, Found::Skipped(..)))
        .count();
    let time = if run.knows(Field::MeasuredTime) {
        format!("{:.3}", run.measured_ns as f64 / 1e9)
    } else {
        String::new()
    };
    let (tests, failures, errors, skipped) = (
        cases.len().to_string(),
        failures.to_string(),
        errors.to_string(),
        skipped.to_string(),
    );
    let name = format!("{} {}", run.tool.name, run.verb);
    let mut xml = Xml::new();
    // What isn't known is left out.
    let start = |xml: &mut Xml, element: &'static str, attributes: &[(&'static str, &str)]| {
        let known = attributes.iter().filter(|(_, value)| !value.is_empty());
        let known: Vec<_> = known.copied().collect();
        xml.start(element, &known);
    };
    start(
        &mut xml,
        "testsuites",
        &[
            ("name", &name),
            ("tests", &tests),
            ("failures", &failures),
            ("errors", &errors),
            ("time", &time),
        ],
    );
    let mut attributes: Vec<(&str, &str)> = vec![
        ("name", &name),
        ("tests", &tests),
        ("failures", &failures),
        ("errors", &errors),
        ("skipped", &skipped),
        ("time", &time),
    ];
    // The laboratory's guest knows no date: see the property `started`.
    if run.laboratory.is_none() {
        attributes.push(("timestamp", run.started.trim_end_matches('Z')));
    }
    attributes.push(("hostname", &run.system.hostname));
    start(&mut xml, "testsuite", &attributes);
    properties(&mut xml, run);
    for case in &cases {
        case.write(&mut xml, &name, if case.timed { &time } else { "0" });
    }
    if let Some(judgement) = &judgement {
        xml.text("system-out", &[], &verdict::sentence(judgement));
    }
    xml.into_text()
}

fn properties(xml: &mut Xml, run: &Run) {
    xml.start("properties", &[]);
    let figures = Figures::from_run(run).merged;
    let (samples, max) = (figures.count, figures.max.unwrap_or(0));
    let properties = [
        ("command", run.command.join(" ")),
        ("kernel", run.system.kernel.release.clone()),
        ("preemption", run.system.kernel.preemption.clone()),
        ("processor", run.system.processor.model.clone()),
        ("load", run.request.load.clone()),
        ("source", facts::source(&run.request.source)),
        ("confidence", run.request.confidence.to_string()),
        ("samples", samples.to_string()),
        ("max_ns", max.to_string()),
    ];
    let unstated = |name: &str, value: &str| {
        run.imported.is_some() && (name == "confidence" || matches!(value, "" | "unknown"))
    };
    let watched = watch::subject(run).map(|subject| ("watched", subject));
    let dateless = run
        .laboratory
        .as_ref()
        .map(|_| ("started", conditions::begun(run)));
    for (name, value) in properties
        .iter()
        .chain(&watched)
        .chain(&dateless)
        .filter(|(name, value)| !unstated(name, value))
    {
        xml.empty("property", &[("name", name), ("value", value)]);
    }
    for stated in run.demands.iter().filter(|demand| !requested(demand)) {
        let name = format!("stated.{}", stated.name());
        let value = facts::found(stated);
        xml.empty("property", &[("name", &name), ("value", &value)]);
    }
    xml.end();
}

enum Found {
    Good,
    Failure(&'static str, String),
    Error(&'static str, String),
    Skipped(String),
}

struct Case {
    class: &'static str,
    name: String,
    result: Found,
    /// What else is to be said.
    output: String,
    /// Whether the case took the time of the run.
    timed: bool,
}

impl Case {
    fn write(&self, xml: &mut Xml, suite: &str, time: &str) {
        let class = format!("{suite}.{}", self.class);
        xml.start(
            "testcase",
            &[("classname", &class), ("name", &self.name), ("time", time)],
        );
        match &self.result {
            Found::Good => {}
            Found::Failure(kind, text) => {
                xml.text("failure", &[("type", kind), ("message", text)], text);
            }
            Found::Error(kind, text) => {
                xml.text("error", &[("type", kind), ("message", text)], text);
            }
            Found::Skipped(text) => xml.empty("skipped", &[("message", text)]),
        }
        if !self.output.is_empty() {
            xml.text("system-out", &[], &self.output);
        }
        xml.end();
    }
}

fn cases(run: &Run, judgement: Option<&Judgement>) -> Vec<Case> {
    let mut cases = Vec::new();
    match judgement {
        Some(judgement) => {
            let verdict = &judgement.verdict;
            let waking = verdict.requirements.iter();
            cases.extend(waking.map(|result| requirement(result, judgement)));
            let taking = verdict.lengths.iter();
            cases.extend(taking.map(|result| length(result, judgement)));
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
    cases
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

fn judged(name: String, outcome: Outcome, sentence: String, judgement: &Judgement) -> Case {
    let word = outcome.word();
    Case {
        class: "requirement",
        name,
        result: match outcome {
            Outcome::Pass => Found::Good,
            Outcome::Fail | Outcome::Inconclusive => Found::Failure(word, sentence.clone()),
            Outcome::Invalid => Found::Error(word, verdict::reasons(judgement).join("; ")),
        },
        output: sentence,
        timed: true,
    }
}

/// Whether a condition can fail: nobody requested what is only stated, and a case of it would
/// be green whatever was found.
fn requested(demand: &Demand) -> bool {
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
            let why = facts::ending(ending, &run.tool.name);
            (Found::Good, format!("stopped: {why}"))
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
