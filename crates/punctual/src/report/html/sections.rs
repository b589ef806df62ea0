//! The sections of the page, each from the record alone.

use punctual_stats::verdict::Outcome;

use super::page::class;
use super::parts::{Html, Td, td, td_in};
use crate::record::{Run, Standing};
use crate::report::chart::{self, Form, Marks};
use crate::report::figures::{Figures, Row};
use crate::report::marks::deadline;
use crate::report::{statements, words};

/// Up to so many CPUs the table shows all; of more, the worst.
const FEW_ROWS: usize = 16;
/// Most CPUs in the folded table.
const MOST_ROWS: usize = 512;
/// Worst samples that are listed.
const MOST_WORST: usize = 12;
/// Events that are listed.
const MOST_EVENTS: usize = 200;

pub(super) fn requirements(html: &mut Html, run: &Run) {
    if run.request.requirements.is_empty() {
        return;
    }
    html.heading("required", "What was required");
    let results = run
        .verdict
        .as_ref()
        .map(|v| v.requirements.as_slice())
        .unwrap_or_default();
    let rows: Vec<(&str, Vec<Td>)> = run
        .request
        .requirements
        .iter()
        .enumerate()
        .map(|(i, requirement)| {
            let result = results.get(i);
            let word = result.map_or("not judged", |r| r.outcome.word());
            let seen = result.map_or_else(String::new, |r| {
                let bound = &r.bound;
                format!(
                    "{} in {} cycles",
                    words::count(bound.misses),
                    words::count(bound.cycles)
                )
            });
            let shown = result.map_or_else(String::new, |r| {
                format!(
                    "fewer than {} ({} if independent)",
                    words::probability(r.bound.upper),
                    words::probability(r.bound.independent_upper)
                )
            });
            let needed = result
                .and_then(|r| r.needed_seconds)
                .map(|seconds| format!("run {} longer", words::duration_f64(seconds as f64 * 1e9)));
            let never = result.and_then(|r| r.never).map(|why| why.to_string());
            (
                class(result.map(|r| r.outcome)),
                vec![
                    td(statements::requirement(requirement, run.request.confidence)),
                    td_in("word", word),
                    td(seen),
                    td(shown),
                    td(needed.or(never).unwrap_or_default()),
                ],
            )
        })
        .collect();
    let confidence = words::percent(run.request.confidence);
    html.table(
        "wide stack",
        &format!("Judged at a one-sided confidence of {confidence}"),
        &[
            "Required",
            "Verdict",
            "Misses seen",
            "Shown",
            "To decide it",
        ],
        &rows,
    );
}

pub(super) fn figures(html: &mut Html, run: &Run, figures: &Figures) {
    if figures.rows.is_empty() {
        return;
    }
    html.heading("latency", "Latency");
    if run
        .verdict
        .as_ref()
        .is_some_and(|v| v.outcome == Outcome::Invalid)
    {
        html.text("p", "lost", statements::WHAT_INVALID_MEANS);
    }
    if figures.merged.count == 0 {
        html.text(
            "p",
            "",
            "Not one wake-up was measured, so there is nothing to draw.",
        );
    }
    let many = figures.rows.len() > FEW_ROWS;
    let worst = |most: usize| {
        figures
            .by_maximum()
            .into_iter()
            .take(most)
            .collect::<Vec<_>>()
    };
    let caption = "Latencies in µs. — where fewer than 10 samples lie beyond a percentile";
    if !many {
        let all: Vec<usize> = (0..figures.rows.len()).collect();
        figure_table(html, caption, run, figures, &all);
    } else {
        let named = format!(
            "{caption}. The {FEW_ROWS} of {} CPUs with the highest maximum",
            figures.rows.len()
        );
        figure_table(html, &named, run, figures, &worst(FEW_ROWS));
        // Folded without a script.
        let mut rest = worst(MOST_ROWS);
        rest.sort_unstable();
        html.raw("<details><summary>Every CPU</summary>\n");
        figure_table(html, caption, run, figures, &rest);
        html.raw("</details>\n");
    }
    for row in figures
        .rows
        .iter()
        .filter(|row| row.note.is_some())
        .take(16)
    {
        let note = row.note.as_deref().unwrap_or_default();
        html.text("p", "bad", &format!("CPU {}: {note}", row.label));
    }
}

fn figure_table(html: &mut Html, caption: &str, run: &Run, figures: &Figures, shown: &[usize]) {
    let deadline = deadline(run);
    let mut rows: Vec<(&str, Vec<Td>)> = shown
        .iter()
        .map(|&i| ("", figure_row(&figures.rows[i], deadline)))
        .collect();
    if figures.rows.len() != 1 {
        rows.push(("all", figure_row(&figures.merged, deadline)));
    }
    let names = [
        "CPU", "samples", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max",
        "late", "missed", "lost",
    ];
    html.table("figures", caption, &names, &rows);
}

fn figure_row(row: &Row, deadline: Option<u64>) -> Vec<Td> {
    let latency = |ns: Option<u64>| match ns {
        Some(ns) if deadline.is_some_and(|d| ns > d) => td_in("bad", words::micros(ns as f64)),
        Some(ns) => td(words::micros(ns as f64)),
        None => td_in("dim", "—"),
    };
    let count = |n: u64, class| {
        if n > 0 {
            td_in(class, words::count(n))
        } else {
            td("0")
        }
    };
    let mut cells = vec![
        td(row.label.clone()),
        td(words::count(row.count)),
        latency(row.min),
        row.mean
            .map_or_else(|| td_in("dim", "—"), |ns| td(words::micros(ns))),
    ];
    cells.extend([50.0, 90.0, 99.0, 99.9, 99.99, 99.999].map(|p| latency(row.percentile(p))));
    cells.push(latency(row.max));
    cells.push(if deadline.is_some() {
        count(row.late, "bad")
    } else {
        td_in("dim", "—")
    });
    cells.push(count(row.missed, "bad"));
    cells.push(count(row.lost, "lost"));
    cells
}

/// A picture in its two forms, for wide and for narrow screens.
fn figure(html: &mut Html, id: &str, caption: &str, draw: impl Fn(Form, &str) -> Option<String>) {
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
    html.heading("histogram", "How often which latency");
    let caption = "Both axes are logarithmic: a single late wake-up shows as well as a million early ones. \
                   25 bins per decade; the dots on the axis are the maxima.";
    figure(html, "histogram", caption, |form, id| {
        chart::histogram::draw(figures, marks, form, id)
    });
}

pub(super) fn timeline(html: &mut Html, run: &Run, marks: &Marks) {
    if !run.timeline.rows.iter().any(|row| row.count > 0) {
        return;
    }
    html.heading("timeline", "When");
    let caption = "Lowest, mean and highest latency of all CPUs together. Red ticks above the time axis mark \
                   stretches with a late wake-up or a missed period.";
    figure(html, "timeline", caption, |form, id| {
        chart::timeline::draw(run, marks, form, id)
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

pub(super) fn worst(html: &mut Html, run: &Run, figures: &Figures) {
    let worst = statements::worst(run, MOST_WORST);
    if worst.is_empty() {
        return;
    }
    html.heading("worst", "Worst samples");
    let limit = deadline(run);
    let rows: Vec<(&str, Vec<Td>)> = worst
        .iter()
        .map(|w| {
            let late = limit.is_some_and(|d| w.latency_ns > d);
            let beyond = match limit {
                Some(d) if late => format!("late by {}", words::duration(w.latency_ns - d)),
                Some(_) => "in time".to_owned(),
                None => String::new(),
            };
            let latency = words::duration(w.latency_ns);
            let cells = vec![
                if late {
                    td_in("bad", latency)
                } else {
                    td(latency)
                },
                td(figures.rows[w.row].label.clone()),
                td(words::instant(w.at_ns)),
                td(words::count(w.cycle)),
                td(beyond),
            ];
            ("", cells)
        })
        .collect();
    html.table(
        "figures tight",
        "The highest latencies of all CPUs, with the time since the start",
        &["Latency", "CPU", "At", "Cycle", "Against the deadline"],
        &rows,
    );
}

pub(super) fn statistics(html: &mut Html, run: &Run) {
    let facts = statements::statistics(run);
    if !facts.is_empty() {
        html.heading("statistics", "What the figures show");
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
    html.heading("validity", "Was it what was asked for?");
    let rows: Vec<(&str, Vec<Td>)> = run
        .demands
        .iter()
        .map(|demand| {
            let standing = match demand.standing {
                Standing::InForce => td("in force"),
                Standing::Stated => td_in("dim", "stated"),
                Standing::NotInForce => td_in("lost", "NOT IN FORCE"),
            };
            let mend = demand.mend.clone().unwrap_or_default();
            (
                "",
                vec![
                    td(&demand.name),
                    td(&demand.asked),
                    td(&demand.found),
                    standing,
                    td(mend),
                ],
            )
        })
        .collect();
    html.table(
        "wide stack",
        "What was asked of the kernel, and what was read back",
        &["Demand", "Asked", "Found", "Standing", "How to mend it"],
        &rows,
    );
}

pub(super) fn load(html: &mut Html, run: &Run) {
    html.heading("load", "Load and the work it did");
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
            let state = match &load.failed {
                Some(why) => td_in("lost", format!("FAILED: {why}")),
                None if load.work == 0 => td_in("lost", "did no work"),
                None => td("worked"),
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
    html.facts("The machine as it was found", &statements::conditions(run));
}

pub(super) fn events(html: &mut Html, run: &Run) {
    if run.events.is_empty() {
        return;
    }
    html.heading("events", "What happened during the run");
    let rows: Vec<(&str, Vec<Td>)> = run
        .events
        .iter()
        .take(MOST_EVENTS)
        .map(|event| {
            let effect = if event.invalidates {
                td_in("lost", "no longer valid")
            } else {
                td("")
            };
            (
                "",
                vec![
                    td(words::instant(event.at_ns)),
                    td(&event.kind),
                    td(&event.text),
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
pub(super) fn guide(html: &mut Html) {
    html.heading("guide", "How to read this page");
    html.raw(include_str!("guide.html"));
}

pub(super) fn provenance(html: &mut Html, run: &Run) {
    html.heading("provenance", "Where it comes from");
    let own = &run.own_cost;
    let mut facts = vec![
        (
            "Program".to_owned(),
            format!("{} {}", run.tool.name, run.tool.version),
        ),
        ("Command".to_owned(), run.command.join(" ")),
        ("Started".to_owned(), run.started.clone()),
        ("Measured".to_owned(), words::duration(run.measured_ns)),
        ("Probe".to_owned(), statements::method(run)),
        (
            "Own cost".to_owned(),
            format!(
                "probes {} of processor time, collector {}, {} resident, {} to read the clock",
                words::duration(own.probes_cpu_ns),
                words::duration(own.collector_cpu_ns),
                words::bytes(own.peak_resident_bytes),
                words::duration(own.clock_read_ns)
            ),
        ),
    ];
    facts.push((
        "Record".to_owned(),
        format!(
            "{} version {}, run.json beside this file",
            run.format, run.version
        ),
    ));
    html.facts("Enough to do it again", &facts);
}
