//! A fit as a page that an auditor can read: before, each step with its evidence, after.

use punctual_record::fit::{Fit, FitOutcome, FitWork};
use punctual_stats::verdict::Outcome;

use super::{boot, configure, cpus, found, list, obstacle, persist, sentence};
use crate::html::frame;
use crate::html::parts::{Html, td, td_link};
use crate::html::{capital, class};
use crate::words;

/// The page: one file, nothing is loaded. `base`: the directory of the fit, if the page does not
/// lie in it.
#[must_use]
pub fn page(fit: &Fit, base: &str) -> String {
    let mut html = Html::default();
    let verdict = fit.outcome.as_ref().map(FitOutcome::verdict);
    let word = verdict.map_or("under way", |verdict| verdict.word());
    frame::open(&mut html, &format!("{word}: fit on {}", fit.hostname), "");
    html.raw("<header>\n");
    html.raw(&format!(
        "<section class=\"banner {}\" aria-label=\"Verdict\">\n",
        class(verdict)
    ));
    html.text("h1", "", word);
    let said = sentence(fit);
    let said = said.strip_prefix(&format!("{word}: ")).unwrap_or(&said);
    html.text("p", "say", &capital(said));
    html.raw("</section>\n</header>\n<main>\n");
    let facts = vec![
        ("Machine".to_owned(), fit.hostname.clone()),
        ("Kernel".to_owned(), fit.kernel.clone()),
        ("Begun".to_owned(), fit.started.clone()),
        ("Deadline".to_owned(), words::duration(fit.deadline_ns)),
        ("Load".to_owned(), fit.load.clone()),
        ("CPUs".to_owned(), cpus(fit)),
        ("Budget".to_owned(), words::duration(fit.budget_ns)),
        ("Command".to_owned(), fit.command.join(" ")),
    ];
    html.contents();
    html.heading("asked", "What was asked");
    html.facts("The request and the machine", &facts);
    html.heading("steps", "Steps");
    let rows: Vec<_> = fit
        .steps
        .iter()
        .map(|step| {
            let (verb, knobs) = match &step.what {
                FitWork::Qualify { on, .. } if on.is_empty() => ("qualify", "none".to_owned()),
                FitWork::Qualify { on, .. } => ("qualify", list(on)),
                FitWork::Prove { knobs, .. } => {
                    let knobs: Vec<_> = knobs.iter().map(|it| it.knob).collect();
                    ("prove", list(&knobs))
                }
            };
            let cells = vec![
                td(verb),
                td(knobs),
                td(found(&step.what)),
                td(words::duration(step.length_ns)),
                td_link(base, format!("{}/report.html", step.directory)),
            ];
            ("", cells)
        })
        .collect();
    let heads = ["step", "knobs", "found", "took", "evidence"];
    html.table("wide stack", "Each step is a run of its own", &heads, &rows);
    if !fit.kept.is_empty() {
        html.heading("kept", "What stays changed");
        let rows: Vec<_> = fit
            .kept
            .iter()
            .map(|it| {
                let command = crate::tuning::command(&it.setting, &it.value);
                ("", vec![td(it.knob.name()), td(command)])
            })
            .collect();
        let caption = "punctual tune restore writes the values before back";
        html.table("", caption, &["knob", "setting"], &rows);
        html.text("p", "", &persist(fit));
    }
    if verdict != Some(Outcome::Pass) && !fit.untried_boot.is_empty() {
        html.heading("boot", "Boot parameters that the bills ask for");
        let rows: Vec<_> = fit
            .untried_boot
            .iter()
            .map(|it| ("", vec![td(boot(it))]))
            .collect();
        let caption = "They need a reboot, and were not tried";
        html.table("", caption, &["parameter"], &rows);
        html.text("p", "", &configure(fit));
    }
    if !fit.obstacles.is_empty() {
        html.heading("obstacles", "What no setting helps against");
        let rows: Vec<_> = fit
            .obstacles
            .iter()
            .map(|it| ("", vec![td(obstacle(it))]))
            .collect();
        let caption = "By the bills of the last qualification";
        html.table("", caption, &["obstacle"], &rows);
    }
    html.raw("</main>\n");
    frame::close(&mut html, &fit.tool);
    html.into_page()
}
