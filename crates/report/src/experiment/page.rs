//! The section of an experiment in the page of its run.

use punctual_record::Run;
use punctual_record::experiment::Experiment;

use super::{
    FORECASTS, Judged, change, commands, draw, facts, figure, forecasts, interval, judged,
    probability, sentence,
};
use crate::explain::names;
use crate::html::parts::{Html, td, td_in};
use crate::html::sections::figure as drawing;
use crate::words;

/// Causes that are listed of a knob.
const MOST_CAUSES: usize = 6;

/// The section.
pub(crate) fn section(html: &mut Html, run: &Run) {
    let Some(experiment) = &run.experiment else {
        return;
    };
    html.heading("experiment", "Which knob helped?");
    html.text("p", "", &sentence(run));
    let caption = "The change by each knob with its interval. What is beyond chance has a colour.";
    drawing(html, "forest", caption, |form, id| {
        draw(experiment, form, id)
    });
    results(html, experiment);
    costs(html, experiment);
    html.facts("How it was made", &facts(run, experiment));
    if let Some((heads, rows)) = forecasts(experiment) {
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| ("", row.into_iter().map(td).collect()))
            .collect();
        html.table("", FORECASTS, &heads, &rows);
    }
    switches(html, experiment);
}

fn results(html: &mut Html, experiment: &Experiment) {
    if experiment.results.iter().any(|it| !it.effects.is_empty()) {
        effects(html, "Effects", "knob", &judged(experiment));
    }
}

/// A table: a row for each knob or step (`what`) and measure.
pub(crate) fn effects(html: &mut Html, caption: &str, what: &str, judged: &[Judged<'_>]) {
    let mut rows = Vec::new();
    for knob in judged {
        for (at, (effect, _)) in knob.effects.iter().enumerate() {
            // On a narrow page each row stands alone, and has the name that the others repeat.
            let first = |text: &str| td_in(if at == 0 { "" } else { "again" }, text);
            let cells = vec![
                first(&knob.name),
                first(knob.conclusion),
                td(effect.measure.name()),
                td(figure(effect.measure, effect.off_ns)),
                td(figure(effect.measure, effect.on_ns)),
                td(change(effect.ratio)),
                td(interval(effect)),
                td(probability(effect.p)),
            ];
            rows.push(("", cells));
        }
        if knob.effects.is_empty() {
            rows.push(("", vec![td(&knob.name), td(knob.conclusion)]));
        }
    }
    let heads = [
        what, "result", "measure", "off", "on", "change", "interval", "p",
    ];
    html.table("wide stack", caption, &heads, &rows);
}

fn costs(html: &mut Html, experiment: &Experiment) {
    let mut rows = Vec::new();
    for (at, knob) in experiment.knobs.iter().enumerate() {
        for cost in experiment.costs(at).into_iter().take(MOST_CAUSES) {
            let cells = vec![
                td(&knob.name),
                td(names::name(&cost.cause)),
                td(words::duration(cost.off_ns)),
                td(words::duration(cost.on_ns)),
            ];
            rows.push(("", cells));
        }
    }
    if !rows.is_empty() {
        let caption = "What took the time of the late wake-ups that were explained";
        html.table("", caption, &["knob", "cause", "off", "on"], &rows);
    }
}

fn switches(html: &mut Html, experiment: &Experiment) {
    let knobs = experiment.knobs.iter().filter(|knob| !knob.is_control);
    let rows: Vec<_> = knobs
        .map(|knob| ("", vec![td(&knob.name), td(commands(knob).join("; "))]))
        .collect();
    html.table("", "What the knobs write", &["knob", "on"], &rows);
}
