//! Findings and changed settings in the reports of a run.

use punctual_record::Run;
use punctual_report::style::Style;
use punctual_report::{html, summary_json, terminal};
use serde_json::Value;

use super::fixtures;

fn summary(run: &Run, verbose: bool) -> String {
    terminal::summary(run, &Style::plain().verbose(verbose))
}

#[test]
fn a_run_that_failed_names_what_may_be_why_and_one_that_passed_only_counts() {
    let failed = fixtures::laptop();
    let text = summary(&failed, false);
    for words in [
        "9 findings are bad, 3 unknown",
        "  rtprio-limit ",
        "\n  all of them: punctual check -a 1\n",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("The machine"));
    let lines = lines.take_while(|line| !line.is_empty()).count();
    assert!(lines <= 5, "{lines} lines\n{text}");

    let mut passed = fixtures::good();
    passed.findings.clone_from(&failed.findings);
    let text = summary(&passed, false);
    assert!(
        text.contains("all of them: punctual check -a 1\n"),
        "{text}"
    );
    assert!(!text.contains("rtprio-limit"), "{text}");
    if let Some(findings) = &mut passed.findings {
        findings.bad.clear();
        findings.unknown = 0;
        findings.priority = 95;
    }
    let text = summary(&passed, false);
    let none = "The machine before the run: no finding is bad for CPU 1\n\n";
    assert!(text.contains(none), "{text}");
    passed.findings = None;
    assert!(!summary(&passed, true).contains("The machine before the run"));
}

/// The bills say which of them matters: an interrupt stands before what is worse in general.
#[test]
fn what_the_bills_ask_for_stands_before_the_rest() {
    let mut run = fixtures::explained();
    run.findings = fixtures::laptop().findings;
    let text = summary(&run, true);
    let place = |name: &str| text.find(&format!("\n  {name} "));
    let (threaded, isolated) = (place("threaded-napi"), place("isolated-cpus"));
    assert!(isolated.is_some() && threaded.is_some(), "{text}");
    assert!(isolated < threaded, "{text}");
}

#[test]
fn the_page_and_the_json_have_every_bad_finding_and_every_changed_setting() {
    let run = fixtures::laptop();
    let page = html::page(&run);
    let json: Value = serde_json::from_str(&summary_json::summary(&run)).expect("JSON");
    let findings = run.findings.as_ref().expect("made");
    for (at, finding) in findings.bad.iter().enumerate() {
        let cell = format!(">{}<", finding.id.name());
        assert!(page.contains(&cell), "{}", finding.id);
        let said = &json["findings"]["bad"][at];
        assert_eq!(said["id"], finding.id.name());
        let text = said["text"].as_str().unwrap_or_default();
        assert!(text.contains(": "), "{said}");
        assert_eq!(
            said["commands"].as_array().map(Vec::len),
            Some(finding.fixes.len())
        );
    }
    assert!(page.contains("2 more fixes were not recorded"));
    for tuned in &run.tuned {
        assert!(page.contains(&tuned.setting.to_string()), "{tuned:?}");
    }
    assert_eq!(
        json["tuned"].as_array().map(Vec::len),
        Some(run.tuned.len())
    );
}
