//! A test suite: one case for each requirement, each demand and each event that
//! invalidates the run. The words are the terminal's: a FAIL is a failure of type
//! `FAIL`, INCONCLUSIVE a failure of type `INCONCLUSIVE` (what was to be shown was
//! not shown), INVALID an error of type `INVALID`.

use punctual_stats::lengths::LengthResult;
use punctual_stats::verdict::{Outcome, RequirementResult};

use super::xml::Xml;
use crate::record::{Demand, Event, Run, Standing, State};

pub(super) fn write(run: &Run) -> String {
    let cases = cases(run);
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
    let time = format!("{:.3}", run.measured_ns as f64 / 1e9);
    let (tests, failures, errors, skipped) = (
        cases.len().to_string(),
        failures.to_string(),
        errors.to_string(),
        skipped.to_string(),
    );
    let name = format!("{} {}", run.tool.name, run.verb);
    let mut xml = Xml::new();
    xml.start(
        "testsuites",
        &[
            ("name", &name),
            ("tests", &tests),
            ("failures", &failures),
            ("errors", &errors),
            ("time", &time),
        ],
    );
    xml.start(
        "testsuite",
        &[
            ("name", &name),
            ("tests", &tests),
            ("failures", &failures),
            ("errors", &errors),
            ("skipped", &skipped),
            ("time", &time),
            ("timestamp", run.started.trim_end_matches('Z')),
            ("hostname", &run.system.hostname),
        ],
    );
    properties(&mut xml, run);
    for case in &cases {
        case.write(&mut xml, &name, if case.timed { &time } else { "0" });
    }
    if let Some(verdict) = &run.verdict {
        xml.text("system-out", &[], &verdict.sentence);
    }
    xml.finish()
}

fn properties(xml: &mut Xml, run: &Run) {
    xml.start("properties", &[]);
    let samples: u64 = run.threads.iter().map(|thread| thread.latency.count).sum();
    let max = run
        .threads
        .iter()
        .map(|thread| thread.latency.max_ns)
        .max()
        .unwrap_or(0);
    let properties = [
        ("command", run.command.join(" ")),
        ("kernel", run.system.kernel.release.clone()),
        ("preemption", run.system.kernel.preemption.clone()),
        ("processor", run.system.processor.model.clone()),
        ("load", run.request.load.clone()),
        ("source", run.request.source.clone()),
        ("confidence", run.request.confidence.to_string()),
        ("samples", samples.to_string()),
        ("max_ns", max.to_string()),
    ];
    for (name, value) in &properties {
        xml.empty("property", &[("name", name), ("value", value)]);
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

fn cases(run: &Run) -> Vec<Case> {
    let mut cases = Vec::new();
    match &run.verdict {
        Some(verdict) => {
            cases.extend(
                verdict
                    .requirements
                    .iter()
                    .map(|result| requirement(result, run)),
            );
            cases.extend(verdict.lengths.iter().map(|result| length(result, run)));
        }
        None => cases.extend(run.request.requirements.iter().map(|requirement| Case {
            class: "requirement",
            name: requirement.to_string(),
            result: Found::Error(
                Outcome::Invalid.word(),
                "the run holds no verdict".to_owned(),
            ),
            output: String::new(),
            timed: true,
        })),
    }
    cases.extend(
        run.demands
            .iter()
            .map(|found| demand(found, run.request.best_effort)),
    );
    cases.extend(
        run.events
            .iter()
            .filter(|event| event.invalidates)
            .map(event),
    );
    cases.push(completeness(run));
    cases
}

fn requirement(result: &RequirementResult, run: &Run) -> Case {
    judged(
        result.requirement.to_string(),
        result.outcome,
        &result.sentence,
        run,
    )
}

fn length(result: &LengthResult, run: &Run) -> Case {
    judged(result.required(), result.outcome, &result.sentence, run)
}

fn judged(name: String, outcome: Outcome, sentence: &str, run: &Run) -> Case {
    let word = outcome.word();
    let sentence = sentence.to_owned();
    let reasons = || {
        run.verdict
            .as_ref()
            .map_or_else(String::new, |v| v.reasons.join("; "))
    };
    Case {
        class: "requirement",
        name,
        result: match outcome {
            Outcome::Pass => Found::Good,
            Outcome::Fail | Outcome::Inconclusive => Found::Failure(word, sentence.clone()),
            Outcome::Invalid => Found::Error(word, reasons()),
        },
        output: sentence,
        timed: true,
    }
}

fn demand(demand: &Demand, best_effort: bool) -> Case {
    let text = || {
        let mend = demand
            .mend
            .as_ref()
            .map_or_else(String::new, |mend| format!("; {mend}"));
        format!("asked for {}, found {}{mend}", demand.asked, demand.found)
    };
    Case {
        class: "condition",
        name: demand.name.clone(),
        result: match demand.standing {
            Standing::InForce | Standing::Stated => Found::Good,
            Standing::NotInForce if best_effort => Found::Skipped(text()),
            Standing::NotInForce => Found::Error(Outcome::Invalid.word(), text()),
        },
        output: demand.found.clone(),
        timed: false,
    }
}

fn event(event: &Event) -> Case {
    let at = format!("{:.3} s", event.at_ns as f64 / 1e9);
    Case {
        class: "event",
        name: format!("{} at {at}", event.kind),
        result: Found::Error(Outcome::Invalid.word(), event.text.clone()),
        output: String::new(),
        timed: false,
    }
}

/// A record that was cut off is no success, whatever it holds so far.
fn completeness(run: &Run) -> Case {
    let (result, output) = match &run.state {
        State::Finished => (Found::Good, String::new()),
        State::Stopped { reason } => (Found::Good, format!("stopped: {reason}")),
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
