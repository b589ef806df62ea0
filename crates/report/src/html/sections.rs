//! The sections of the page, each from the record alone.

use super::parts::{Html, Td, td, td_in};
use crate::chart::{self, Form, Marks};
use crate::figures::Figures;
use crate::terms::Terms;
use crate::{conditions, facts, findings, path, statements, words};
use punctual_record::Field;
use punctual_record::{Run, Standing};

/// Events that are listed.
const MOST_EVENTS: usize = 200;

/// A picture in its two forms, for wide and for narrow screens.
pub(crate) fn figure(
    html: &mut Html,
    id: &str,
    caption: &str,
    draw: impl Fn(Form, &str) -> Option<String>,
) {
    let (Some(wide), Some(narrow)) = (
        draw(Form::Wide, &format!("{id}-wide")),
        draw(Form::Narrow, &format!("{id}-narrow")),
    ) else {
        return;
    };
    html.raw("<figure>\n");
    html.text("figcaption", "", caption);
    html.raw(&format!("<div class=\"wide-only\">\n{wide}</div>\n<div class=\"narrow\">\n{narrow}</div>\n</figure>\n"));
}

pub(super) fn histogram(html: &mut Html, figures: &Figures, marks: &Marks) {
    if figures.merged.count == 0 {
        return;
    }
    let Terms { one, size, .. } = marks.terms;
    html.heading("histogram", &format!("Histogram of the {size}"));
    let seldom = match one {
        "gap" => "a single long gap shows as well as a million short ones",
        _ => "a single late wake-up shows as well as a million early ones",
    };
    let caption = format!(
        "Both axes are logarithmic: {seldom}. \
         25 bins per decade; the dots on the axis are the maxima."
    );
    figure(html, "histogram", &caption, |form, id| {
        chart::histogram::draw(figures, marks, form, id)
    });
}

pub(super) fn timeline(html: &mut Html, run: &Run, marks: &Marks) {
    if !run.timeline.rows.iter().any(|row| row.count > 0) {
        return;
    }
    html.heading("timeline", &format!("{} over time", marks.terms.heading));
    let caption = if run.gaps.is_some() {
        "Shortest, mean and longest gap of all CPUs together. Red ticks above the time axis mark \
         stretches with one above the limit."
    } else {
        "Lowest, mean and highest latency of all CPUs together. Red ticks above the time axis mark \
         stretches with a late wake-up or a skipped period."
    };
    figure(html, "timeline", caption, |form, id| {
        chart::timeline::draw(run, marks, form, id)
    });
}

/// When each CPU had its worst.
pub(super) fn lanes(html: &mut Html, run: &Run, figures: &Figures, marks: &Marks) {
    if chart::lanes::draw(run, figures, marks, Form::Wide, "lanes").is_none() {
        return;
    }
    html.heading(
        "lanes",
        &format!(
            "{} over time, by {}",
            marks.terms.heading,
            words::row(figures.rows_are)
        ),
    );
    let most = chart::MOST_LINES;
    let which = if figures.rows.len() > most {
        format!(
            " The {most} of {} {}s with the highest maximum are shown.",
            words::count(figures.rows.len() as u64),
            words::row(figures.rows_are)
        )
    } else {
        String::new()
    };
    let caption = format!(
        "The highest {} of each stretch of time, on one logarithmic scale for all lanes; red is \
         above the deadline, the dashed line. In the grey part of a lane the record counts \
         without saying when.{which}",
        marks.terms.size
    );
    figure(html, "lanes", &caption, |form, id| {
        chart::lanes::draw(run, figures, marks, form, id)
    });
}

pub(super) fn percentiles(html: &mut Html, run: &Run, figures: &Figures, marks: &Marks) {
    if figures.merged.count == 0 {
        return;
    }
    html.heading("percentiles", "Percentiles");
    let mut caption = "Each step to the right is ten times rarer. In the grey part fewer than 10 samples lie beyond, \
                       so the curve there is anecdote, not a percentile; each curve is dotted \
                       from where its own sample ends."
        .to_owned();
    if marks.tail.is_some() && run.analysis.is_some() {
        caption += " The hollow dot is the extrapolated tail with its interval.";
    }
    figure(html, "percentiles", &caption, |form, id| {
        chart::percentiles::draw(figures, marks, form, id)
    });
}

pub(super) fn statistics(html: &mut Html, run: &Run) {
    let facts = statements::statistics(run);
    if !facts.is_empty() {
        html.heading("statistics", "Statistics");
        html.facts(
            "Bounds hold for bursts as they came; the independent figure stands beside them",
            &facts,
        );
    }
}

pub(super) fn validity(html: &mut Html, run: &Run) {
    if run.demands.is_empty() {
        return;
    }
    html.heading("validity", "Requested and actual conditions");
    let rows: Vec<(&str, Vec<Td>)> = run
        .demands
        .iter()
        .map(|demand| {
            let standing = match demand.standing {
                Standing::InForce => td("in force"),
                Standing::Stated => td_in("dim", "stated"),
                Standing::NotInForce => td_in("lost", "NOT IN FORCE"),
            };
            let fix = facts::fix_of(demand).unwrap_or_default();
            (
                "",
                vec![
                    td(demand.name()),
                    td(facts::requested(demand)),
                    td(facts::found(demand)),
                    standing,
                    td(fix),
                ],
            )
        })
        .collect();
    html.table(
        "wide stack",
        "What was requested of the kernel, and what was read back",
        &["Condition", "Requested", "Found", "Standing", "Fix"],
        &rows,
    );
}

pub(super) fn load(html: &mut Html, run: &Run) {
    if !run.knows(Field::Load) && run.imported.is_some() {
        return;
    }
    html.heading("load", "Load and its work");
    let label = if run.request.load.is_empty() {
        "none"
    } else {
        &run.request.load
    };
    if run.loads.is_empty() {
        html.text("p", "", &format!("Load: {label}."));
        return;
    }
    let rows: Vec<(&str, Vec<Td>)> = run
        .loads
        .iter()
        .map(|load| {
            let parameters: Vec<String> = load
                .parameters
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect();
            let state = match conditions::failed(load) {
                Some(why) => td_in("lost", format!("FAILED: {why}")),
                None if load.work == 0 => td_in("lost", "did no work"),
                None => match conditions::idle(load) {
                    Some(idle) => td_in("lost", idle),
                    None => td("worked"),
                },
            };
            let work = format!("{} {}", words::count(load.work), load.unit);
            let cells = vec![
                td(&load.name),
                td(words::rate(load.rate, &load.unit)),
                td(work),
                td(words::count(load.processes)),
                td(parameters.join(", ")),
                state,
            ];
            ("", cells)
        })
        .collect();
    html.table(
        "wide stack",
        &format!("{label}, at class {}", run.request.load_class),
        &["Load", "Rate", "Work", "Processes", "Parameters", "State"],
        &rows,
    );
}

pub(super) fn conditions(html: &mut Html, run: &Run) {
    html.heading("conditions", "Conditions");
    html.facts("The machine as it was found", &conditions::conditions(run));
    let path = path::of_run(run);
    if !path.is_empty() {
        html.heading("path", "Path");
        html.facts("The other machine, and what became of the messages", &path);
    }
}

/// What was bad about the machine before the run.
pub(super) fn findings(html: &mut Html, run: &Run) {
    let Some(checked) = &run.findings else {
        return;
    };
    html.heading("findings", "The machine before the run");
    let caption = findings::of_run::caption(checked);
    if checked.bad.is_empty() {
        html.text("p", "", &format!("{caption}."));
    } else {
        findings::table(html, &caption, &findings::of_run::in_order(run, checked));
    }
}

pub(super) fn events(html: &mut Html, run: &Run) {
    if run.events.is_empty() {
        return;
    }
    html.heading("events", "Events during the run");
    let rows: Vec<(&str, Vec<Td>)> = run
        .events
        .iter()
        .take(MOST_EVENTS)
        .map(|event| {
            let effect = if event.invalidates && run.imported.is_none() {
                td_in("lost", "no longer valid")
            } else {
                td("")
            };
            (
                "",
                vec![
                    td(match run.imported {
                        Some(_) => "not stated".to_owned(),
                        None => words::instant(event.at_ns),
                    }),
                    td(event.kind()),
                    td(facts::event(event, &run.tool.name)),
                    effect,
                ],
            )
        })
        .collect();
    let mut caption = "Time since the start of the measurement".to_owned();
    if run.events.len() > MOST_EVENTS {
        caption += &format!(
            "; the first {MOST_EVENTS} of {}",
            words::count(run.events.len() as u64)
        );
    }
    html.table(
        "wide stack",
        &caption,
        &["At", "Kind", "What", "Effect"],
        &rows,
    );
}

/// How to read the page, for someone who was sent it.
pub(super) fn guide(html: &mut Html, run: &Run) {
    html.heading("guide", "How to read this page");
    html.raw(match run.gaps {
        Some(_) => include_str!("guide-gaps.html"),
        None => include_str!("guide.html"),
    });
}

pub(super) fn provenance(html: &mut Html, run: &Run) {
    html.heading("provenance", "Provenance");
    let own = &run.own_cost;
    let tracer = own.tracer.map_or(String::new(), |tracer| {
        let lost = match tracer.lost {
            0 => String::new(),
            lost => format!(" ({} lost)", words::count(lost)),
        };
        format!(
            ", tracer {} for {} events{lost}",
            words::duration(tracer.cpu_ns),
            words::count(tracer.events)
        )
    });
    let own_cost = format!(
        "probes {} of processor time, collector {}, {} resident, {} to read the clock{tracer}",
        words::duration(own.probes_cpu_ns),
        words::duration(own.collector_cpu_ns),
        words::bytes(own.peak_resident_bytes),
        words::duration(own.clock_read_ns)
    );
    let measured = if run.knows(Field::MeasuredTime) {
        words::duration(run.measured_ns)
    } else {
        String::new()
    };
    let mut facts = vec![
        (
            "Program".to_owned(),
            format!("{} {}", run.tool.name, run.tool.version),
        ),
        ("Command".to_owned(), run.command.join(" ")),
        ("Started".to_owned(), conditions::begun(run)),
        ("Measured".to_owned(), measured),
        ("Probe".to_owned(), conditions::method(run)),
    ];
    if run.imported.is_some() {
        // What the other tool does not state; and there is no run.json.
        facts.retain(|(_, text)| !text.is_empty());
        html.facts("As far as it is stated", &facts);
        return;
    }
    facts.push(("Own cost".to_owned(), own_cost));
    facts.push((
        "Record".to_owned(),
        format!(
            "{} version {}, run.json beside this file",
            run.format, run.version
        ),
    ));
    html.facts("Enough to do it again", &facts);
}
