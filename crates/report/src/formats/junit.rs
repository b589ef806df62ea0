//! A test suite of [cases](super::cases); what is merely known of the machine is a property. A FAIL is a failure of
//! type `FAIL`, INCONCLUSIVE a failure of type `INCONCLUSIVE`, INVALID an error of type `INVALID`.

use punctual_record::Field;

use super::cases::{Case, Found, cases, requested};
use super::xml::Xml;
use crate::figures::Figures;
use crate::{conditions, facts, verdict, watch};
use punctual_record::{Judgement, Run};

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
