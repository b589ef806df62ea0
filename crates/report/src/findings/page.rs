//! Findings as a page.

use punctual_record::Tool;
use punctual_record::cpu_list;
use punctual_record::finding::{Check, Finding, StateKind};

use super::{command, sentence, state_meaning, state_word, text};
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

fn section(html: &mut Html, check: &Check, kind: StateKind) {
    let of_kind = |finding: &&Finding| finding.state.kind() == kind;
    let findings: Vec<&Finding> = check.findings.iter().filter(of_kind).collect();
    if findings.is_empty() {
        return;
    }
    let word = state_word(kind);
    html.heading(&word.replace(' ', "-"), word);
    let row = |finding: &&Finding| {
        let words = text(finding.id);
        let fixes: Vec<String> = finding
            .fixes
            .iter()
            .map(|fix| command(finding, fix))
            .collect();
        let cells = vec![
            td(finding.id.name()),
            td(format!("{}: {}", words.title, sentence(finding))),
            td(words.why),
            td(fixes.join("; ")),
        ];
        ("", cells)
    };
    let rows: Vec<_> = findings.iter().map(row).collect();
    html.table(
        "wide stack",
        state_meaning(kind),
        &["finding", "found", "why", "fix"],
        &rows,
    );
}
