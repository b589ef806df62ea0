//! A lab as a suite of tests: a case for each machine.

use punctual_stats::verdict::Outcome;

use super::super::formats::xml::Xml;
use super::super::verdict::sentence;
use super::super::words::count;
use super::WHAT_IT_SHOWS;
use super::without::no_result;
use punctual_record::lab::{Lab, LabCell};

/// What a case comes to: the element, its type and its words.
fn trouble(cell: &LabCell) -> Option<(&'static str, &'static str, String)> {
    if let Some(error) = &cell.error {
        return Some(("error", "NO RESULT", no_result(error)));
    }
    if let Some(judgement) = &cell.verdict {
        let outcome = judgement.verdict.outcome;
        let element = match outcome {
            Outcome::Pass => return None,
            Outcome::Fail | Outcome::Inconclusive => "failure",
            Outcome::Invalid => "error",
        };
        return Some((element, outcome.word(), sentence(judgement)));
    }
    match cell.status {
        None | Some(0) => None,
        Some(status) => Some(("failure", "EXIT STATUS", format!("exit status {status}"))),
    }
}

/// Begins the case of a cell.
pub(super) fn start_case(xml: &mut Xml, suite: &str, cell: &LabCell, name: &str) {
    let class = format!("{suite}.{}", cell.kernel);
    let time = format!("{:.3}", cell.host_s);
    xml.start(
        "testcase",
        &[("classname", &*class), ("name", name), ("time", &*time)],
    );
}

/// The suite as JUnit's XML.
#[must_use]
pub fn junit(lab: &Lab) -> String {
    let troubles: Vec<_> = lab.cells.iter().map(trouble).collect();
    let of = |kind: &str| {
        let found = troubles
            .iter()
            .flatten()
            .filter(|(found, ..)| *found == kind);
        found.count().to_string()
    };
    let tests = lab.cells.len().to_string();
    let (failures, errors) = (of("failure"), of("error"));
    let time = format!("{:.3}", lab.host_s);
    let name = "punctual lab";
    let counts = [
        ("name", name),
        ("tests", &*tests),
        ("failures", &*failures),
        ("errors", &*errors),
        ("time", &*time),
    ];
    let mut xml = Xml::new();
    xml.start("testsuites", &counts);
    xml.start(
        "testsuite",
        &[
            &counts[..],
            &[("timestamp", lab.started.trim_end_matches('Z'))],
        ]
        .concat(),
    );
    for (cell, trouble) in lab.cells.iter().zip(&troubles) {
        let case = match cell.seed {
            1 => cell.load.clone(),
            seed => format!("{}, seed {seed}", cell.load),
        };
        start_case(&mut xml, name, cell, &case);
        if let Some((element, kind, words)) = trouble {
            xml.text(element, &[("type", kind), ("message", words)], words);
        }
        if let Some(figures) = &cell.figures {
            let words = format!(
                "worst {} virtual ns of {} wake-ups, p99 {}, mean {:.1}",
                count(figures.max_ns),
                count(figures.samples),
                count(figures.p99_ns),
                figures.mean_ns
            );
            xml.text("system-out", &[], &words);
        }
        xml.end();
    }
    xml.text("system-out", &[], WHAT_IT_SHOWS);
    xml.into_text()
}
