//! A ladder as a page.

use punctual_record::ladder::Ladder;
use punctual_stats::verdict::Outcome;

use super::code::{Language, lines};
use super::{COLUMNS, HEADS, facts, figures, judged, not_possible, row_name, sentence, title};
use crate::experiment::{forest, html_effects};
use crate::html::frame;
use crate::html::parts::{Html, td, td_in};
use crate::html::sections::figure;
use crate::html::{capital, class};

/// The page: one file, nothing is loaded.
#[must_use]
pub fn page(ladder: &Ladder) -> String {
    let mut html = Html::default();
    let verdict = ladder.verdict();
    let word = match (verdict, &ladder.outcome) {
        (Some(Outcome::Pass), _) => "Ladder",
        (Some(verdict), _) => verdict.word(),
        (None, None) => "Under way",
        (None, Some(_)) => "Failed",
    };
    frame::open(
        &mut html,
        &format!("{word}: ladder on {}", ladder.hostname),
        "",
    );
    // What is named is no requirement that was met.
    let shown = verdict.filter(|it| *it != Outcome::Pass);
    html.raw("<header>\n");
    html.raw(&format!(
        "<section class=\"banner {}\" aria-label=\"Result\">\n",
        class(shown)
    ));
    html.text("h1", "", word);
    let said = sentence(ladder);
    let said = said.strip_prefix(&format!("{word}: ")).unwrap_or(&said);
    html.text("p", "say", &capital(said));
    html.raw("</section>\n</header>\n<main>\n");
    html.contents();
    html.heading("rungs", "The rungs");
    let heads: Vec<&str> = std::iter::once("rung").chain(HEADS).collect();
    let measured = ladder.rungs.iter().filter(|it| it.is_measured);
    let rows: Vec<_> = measured
        .map(|rung| {
            let name = std::iter::once(td(row_name(ladder, rung.rung)));
            ("", name.chain(figures(rung).map(td)).collect())
        })
        .collect();
    html.table("wide stack", COLUMNS, &heads, &rows);
    let not_possible = not_possible(ladder);
    if !not_possible.is_empty() {
        html.facts("Not possible here", &not_possible);
    }
    if ladder.steps.iter().any(|it| !it.result.effects.is_empty()) {
        html.heading("steps", "What each step gains");
        let judged = judged(ladder);
        let caption = "The change by each step with its interval. What is beyond chance has a \
                       colour.";
        figure(&mut html, "forest", caption, |form, id| {
            forest(&judged, "step", form, id)
        });
        html_effects(
            &mut html,
            "Each rung (on) and the one below it (off)",
            "step",
            &judged,
        );
    }
    html.heading("code", "The lines that take each step");
    let rows: Vec<_> = ladder
        .rungs
        .iter()
        .map(|rung| {
            let code = |language| td_in("mono", lines(language, rung.rung).join(" "));
            let mut cells = vec![td(title(rung.rung))];
            cells.extend(Language::ALL.map(code));
            ("", cells)
        })
        .collect();
    let caption = "punctual ladder --code prints the whole programs";
    html.table("wide stack", caption, &["rung", "Rust", "C"], &rows);
    html.heading("asked", "How it was measured");
    let mut all = vec![
        ("Machine".to_owned(), ladder.hostname.clone()),
        ("Kernel".to_owned(), ladder.kernel.clone()),
        ("Begun".to_owned(), ladder.started.clone()),
    ];
    all.extend(facts(ladder));
    all.push(("Command".to_owned(), ladder.command.join(" ")));
    html.facts("The machine and the design", &all);
    html.raw("</main>\n");
    frame::close(&mut html, &ladder.tool);
    html.into_page()
}
