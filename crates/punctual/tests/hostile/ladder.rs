//! The record of a ladder: an accepted one is judged, shown, and written as it was read.

use punctual_record::Document;
use punctual_record::ladder::Ladder;
use std::path::Path;

use punctual_report::formats::detect_and_parse;
use punctual_report::style::Style;

pub fn check(bytes: &[u8]) {
    let Ok(mut ladder) = Ladder::parse(Path::new("fuzz"), bytes) else {
        return;
    };
    let again = serde_json::to_vec(&ladder).expect("a ladder is JSON");
    let back = Ladder::parse(Path::new("again"), &again).expect("what was accepted is accepted");
    assert_eq!(back, ladder);
    let _ = detect_and_parse(Path::new("fuzz"), bytes);
    for _ in 0..2 {
        let text = punctual_report::ladder::summary(&ladder, &Style::plain());
        let is_control = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(is_control), "{text:?}");
        let page = punctual_report::ladder::page(&ladder);
        assert!(!page.contains("<script"), "{page}");
        ladder.judge();
    }
}
