//! The settings that were changed for a run, in words.

use punctual_record::Run;
use punctual_record::tuning::Knob;

use crate::html::parts::{Html, td};
use crate::words;

/// The knobs in the order of their first change, each with its number of settings.
fn knobs(run: &Run) -> Vec<(&Knob, u64)> {
    let mut knobs: Vec<(&Knob, u64)> = Vec::new();
    for tuned in &run.tuned {
        match knobs.iter_mut().find(|(knob, _)| **knob == tuned.knob) {
            Some((_, count)) => *count += 1,
            None => knobs.push((&tuned.knob, 1)),
        }
    }
    knobs
}

/// How many settings were changed for the run, by their knobs; nothing where none was.
#[must_use]
pub(crate) fn sentence(run: &Run) -> Option<String> {
    if run.tuned.is_empty() {
        return None;
    }
    let knobs = knobs(run).into_iter();
    let knobs: Vec<String> = knobs
        .map(|(knob, count)| match count {
            1 => knob.name().to_owned(),
            _ => format!("{knob} ({})", words::count(count)),
        })
        .collect();
    let count = words::plural(run.tuned.len() as u64, "setting", "settings");
    Some(format!("{count} changed for the run: {}", knobs.join(", ")))
}

/// The section of a page.
pub(crate) fn section(html: &mut Html, run: &Run) {
    let Some(sentence) = sentence(run) else {
        return;
    };
    html.heading("tuned", "Settings changed for the run");
    let row = |tuned: &punctual_record::tuning::Tuned| {
        let cells = vec![
            td(tuned.knob.name()),
            td(tuned.setting.to_string()),
            td(&tuned.before),
            td(&tuned.value),
        ];
        ("", cells)
    };
    let rows: Vec<_> = run.tuned.iter().map(row).collect();
    let heads = ["knob", "setting", "before", "during the run"];
    html.table("wide stack", &sentence, &heads, &rows);
}
