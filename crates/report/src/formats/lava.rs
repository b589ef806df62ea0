//! Signals of LAVA, as its `lava-test-case` prints them to the console of a board: a test case on a line.
//!
//! What was shown to be missed fails. What was not shown either way (INCONCLUSIVE), or was not measured as
//! requested (INVALID), is unknown: no regression of the kernel, and no success.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use punctual_record::{Judgement, Run};
use punctual_stats::verdict::Outcome;

use super::cases::{Case, Found, cases};
use crate::figures::Figures;

pub(super) fn write(run: &Run) -> String {
    let judgement = Judgement::from_run(run);
    let cases = cases(run, judgement.as_ref());
    let set = identifier(&format!("{}-{}", run.tool.name, run.verb));
    let mut signals = Signals::default();
    for case in &cases {
        let result = result(case);
        signals.case(&format!("{}.{}", case.class, stable(case)), result, None);
    }
    let is_error = |case: &Case| matches!(case.result, Found::Error(..));
    // Figures of an INVALID run mean nothing.
    let measured = match cases.iter().any(is_error) {
        true => "unknown",
        false => "pass",
    };
    let figures = Figures::from_run(run).merged;
    if let Some(max) = figures.max {
        signals.case("latency.max", measured, Some((max, "ns")));
    }
    for rung in &figures.ladder {
        if let Some(value) = rung.value_ns {
            let name = format!("latency.p{}", rung.percentile);
            signals.case(&name, measured, Some((value, "ns")));
        }
    }
    signals.case("samples", measured, Some((figures.count, "samples")));
    let skipped = figures.missed;
    signals.case("skipped", measured, Some((skipped, "periods")));
    format!(
        "<LAVA_SIGNAL_TESTSET START {set}>\n{}<LAVA_SIGNAL_TESTSET STOP {set}>\n",
        signals.text
    )
}

fn result(case: &Case) -> &'static str {
    match &case.result {
        Found::Good => "pass",
        Found::Failure(kind, _) if *kind == Outcome::Fail.word() => "fail",
        Found::Failure(..) | Found::Error(..) => "unknown",
        Found::Skipped(_) => "skip",
    }
}

/// The name of a case without what differs from run to run: when an event was.
fn stable(case: &Case) -> &str {
    match case.class {
        "event" => case.name.split(" at ").next().unwrap_or(&case.name),
        _ => &case.name,
    }
}

#[derive(Default)]
struct Signals {
    text: String,
    /// How often each identifier was used.
    used: BTreeMap<String, u32>,
}

impl Signals {
    fn case(&mut self, name: &str, result: &str, measurement: Option<(u64, &str)>) {
        let name = identifier(name);
        let uses = self.used.entry(name.clone()).or_default();
        *uses += 1;
        let again = match *uses {
            1 => String::new(),
            uses => format!("-{uses}"),
        };
        let _ = write!(
            self.text,
            "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={name}{again} RESULT={result}"
        );
        if let Some((value, units)) = measurement {
            let _ = write!(self.text, " UNITS={units} MEASUREMENT={value}");
        }
        self.text.push_str(">\n");
    }
}

/// A name in the letters that LAVA allows: `p99.9 within 50 µs` is `p99.9-within-50-us`.
fn identifier(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') => out.push(c),
            'µ' => out.push('u'),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    out.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_letters_that_lava_allows() {
        assert_eq!(
            identifier("requirement.99.9 % within 50 µs"),
            "requirement.99.9-within-50-us"
        );
        assert_eq!(identifier("<é> a\n=b>"), "a-b");
        assert_eq!(identifier("%"), "");
    }

    #[test]
    fn no_two_cases_have_one_identifier() {
        let mut signals = Signals::default();
        signals.case("a b", "pass", None);
        signals.case("a-b", "fail", Some((5, "ns")));
        assert_eq!(
            signals.text,
            "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=a-b RESULT=pass>\n\
             <LAVA_SIGNAL_TESTCASE TEST_CASE_ID=a-b-2 RESULT=fail UNITS=ns MEASUREMENT=5>\n"
        );
    }
}
