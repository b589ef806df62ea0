//! The record of a fit: an accepted one is shown, and written as it was read.

use punctual_record::Document;
use punctual_record::fit::Fit;
use std::path::Path;

use punctual_report::persistent::{Persistence, files};
use punctual_report::style::Style;

pub fn check(bytes: &[u8]) {
    let Ok(fit) = Fit::parse(Path::new("fuzz"), bytes) else {
        return;
    };
    let again = serde_json::to_vec(&fit).expect("a fit is JSON");
    let back = Fit::parse(Path::new("again"), &again).expect("what was accepted is accepted");
    assert_eq!(back, fit);
    let text = punctual_report::fit::summary(&fit, &Style::plain());
    let is_control = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(is_control), "{text:?}");
    let page = punctual_report::fit::page(&fit, "/a");
    assert!(!page.contains("<script"), "{page}");
    let kept = fit.changes();
    let asked = Persistence {
        kept: &kept,
        cpus: &fit.tuned_for,
        priority: Some(fit.priority),
        program: "/usr/bin/punctual",
        state: Path::new("/var/lib/punctual"),
    };
    // No value begins a line of its own: of each file's lines all are of its kind.
    for file in files(&asked) {
        let text = file.installed().unwrap_or_default();
        let is_known = |line: &str| {
            let starts = [
                "# ",
                "[",
                "w /sys/",
                "ACTION==",
                "Wants=",
                "After=",
                "Restart=",
                "RestartSec=",
                "Description=",
                "Type=",
                "RemainAfterExit=",
                "ExecStart=/usr/bin/punctual tune apply",
                "WantedBy=",
            ];
            let mut all = starts.iter();
            line.is_empty() || line.contains(" = ") || all.any(|start| line.starts_with(*start))
        };
        assert!(text.lines().all(is_known), "{text}");
    }
}
