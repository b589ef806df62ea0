//! Findings as a page.

use punctual_record::Tool;
use punctual_record::cpu_list;
use punctual_record::finding::{Check, Finding, StateKind};

use super::of_run::in_words;
use super::{state_meaning, state_word, text};
use crate::html::frame;
use crate::html::parts::{Html, td};

/// The page of a check: one file, nothing is loaded.
#[must_use]
pub fn page(check: &Check, tool: &Tool) -> String {
    let mut html = Html::default();
    let title = format!("punctual check: {}", check.hostname);
    frame::open(&mut html, &title, "");
    html.raw("<main>\n");
    html.text("h1", "", &title);
    let cpus = if check.cpus.is_empty() {
        "none named, none isolated".to_owned()
    } else {
        cpu_list(&check.cpus)
    };
    let mut facts: Vec<(String, String)> = vec![
        ("Kernel".into(), check.kernel.clone()),
        ("CPUs for real-time work".into(), cpus),
    ];
    facts.extend(
        StateKind::ALL.map(|kind| (state_word(kind).to_owned(), check.count(kind).to_string())),
    );
    html.facts("The machine", &facts);
    html.contents();
    for kind in StateKind::ALL {
        section(&mut html, check, kind);
    }
    html.raw("</main>\n");
    frame::close(&mut html, tool);
    html.into_page()
}

/// A table of findings, and what fixes them.
pub(crate) fn table(html: &mut Html, caption: &str, findings: &[Finding]) {
    let row = |finding: &Finding| {
        let (said, fixes) = in_words(finding);
        let cells = vec![
            td(finding.id.name()),
            td(said),
            td(text(finding.id).why),
            td(fixes.join("; ")),
        ];
        ("", cells)
    };
    let rows: Vec<_> = findings.iter().map(row).collect();
    let heads = ["finding", "found", "why", "fix"];
    html.table("wide stack", caption, &heads, &rows);
}

fn section(html: &mut Html, check: &Check, kind: StateKind) {
    let of_kind = |finding: &&Finding| finding.state.kind() == kind;
    let findings: Vec<Finding> = check.findings.iter().filter(of_kind).cloned().collect();
    if findings.is_empty() {
        return;
    }
    let word = state_word(kind);
    html.heading(&word.replace(' ', "-"), word);
    table(html, state_meaning(kind), &findings);
}
