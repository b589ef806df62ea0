//! Findings as a test suite: a bad one is a failure, an unknown one an error, one that is not
//! applicable is skipped.

use punctual_record::finding::{Check, StateKind};

use super::{group_title, sentence, state_word, text};
use crate::formats::xml::Xml;

/// The findings as JUnit.
#[must_use]
pub fn junit(check: &Check) -> String {
    let count = |kind| check.count(kind).to_string();
    let tests = check.findings.len().to_string();
    let attributes = [
        ("name", "punctual check"),
        ("tests", &tests),
        ("failures", &count(StateKind::Bad)),
        ("errors", &count(StateKind::Unknown)),
        ("skipped", &count(StateKind::NotApplicable)),
    ];
    let mut xml = Xml::new();
    xml.start("testsuites", &attributes);
    xml.start(
        "testsuite",
        &[&attributes[..], &[("hostname", &check.hostname)]].concat(),
    );
    for finding in &check.findings {
        let class = group_title(finding.id.group());
        let case = [("name", finding.id.name()), ("classname", class)];
        let kind = finding.state.kind();
        let message = format!("{}: {}", text(finding.id).title, sentence(finding));
        let message = [("message", message.as_str()), ("type", state_word(kind))];
        let element = match kind {
            StateKind::Bad => "failure",
            StateKind::Unknown => "error",
            StateKind::NotApplicable => "skipped",
            StateKind::Ok | StateKind::Information => {
                xml.empty("testcase", &case);
                continue;
            }
        };
        xml.start("testcase", &case);
        // The schema of JUnit gives `skipped` a message alone.
        let attributes = if element == "skipped" {
            &message[..1]
        } else {
            &message[..]
        };
        xml.empty(element, attributes);
        xml.end();
    }
    xml.into_text()
}
