//! A snapshot of a machine: what it holds may be anything.

use punctual_machine::{CheckRequest, Root, Snapshot, check, differences};
use punctual_record::Tool;
use punctual_report::findings::{explain, junit, page, sentence, summary};
use punctual_report::style::Style;

pub fn check_bytes(bytes: &[u8]) {
    let Ok(snapshot) = Snapshot::parse(bytes) else {
        return;
    };
    let json = snapshot.to_json();
    let again = Snapshot::parse(json.as_bytes()).expect("what was written is read");
    assert_eq!(again, snapshot);
    let request = CheckRequest {
        cpus: Some(vec![1, 2]),
        ..CheckRequest::default()
    };
    let found = check(&Root::of_snapshot(snapshot), &request);
    assert_eq!(check(&Root::of_snapshot(again), &request), found);
    assert!(differences(&found, &found).is_empty());
    let style = Style::plain().verbose(true);
    let tool = Tool {
        name: "punctual".to_owned(),
        version: "0".to_owned(),
    };
    let texts = [summary(&found, &style), page(&found, &tool), junit(&found)];
    let explained = found.findings.iter();
    let explained = explained.map(|finding| explain(&found, finding.id, &style));
    for text in texts.into_iter().chain(explained) {
        let controls = |c: char| c.is_control() && c != '\n';
        assert!(!text.chars().any(controls), "{text:?}");
    }
    for finding in &found.findings {
        assert!(finding.readings.len() <= 64);
        assert!(!sentence(finding).is_empty(), "{finding:?}");
    }
}
