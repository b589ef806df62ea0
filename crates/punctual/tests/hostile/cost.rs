//! The record of a cost: an accepted one is shown, and written as it was read.

use punctual_record::Document;
use punctual_record::cost::Cost;
use std::path::Path;

use punctual_report::style::Style;

pub fn check(bytes: &[u8]) {
    let Ok(cost) = Cost::parse(Path::new("fuzz"), bytes) else {
        return;
    };
    let again = serde_json::to_vec(&cost).expect("a cost is JSON");
    let back = Cost::parse(Path::new("again"), &again).expect("what was accepted is accepted");
    assert_eq!(back, cost);
    let text = punctual_report::cost::summary(&cost, &Style::plain());
    let is_control = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(is_control), "{text:?}");
    let said = punctual_report::summary_json::of_cost(&cost);
    assert!(said.contains("\"sentence\""), "{said}");
}
