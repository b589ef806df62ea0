//! The tables of figures: what was required, each CPU, the worst samples.

use punctual_stats::lengths::LengthResult;
use punctual_stats::verdict::{Outcome, RequirementResult, Verdict};

use super::page::class;
use super::parts::{Html, Td, td, td_in};
use crate::figures::{Figures, Row};
use crate::known::Reading;
use crate::marks::deadline;
use crate::terms::Terms;
use crate::{statements, verdict, watch, words};
use punctual_record::live::RowsAre;
use punctual_record::{Judgement, Run};

/// Up to so many CPUs the table shows all; of more, the worst.
const FEW_ROWS: usize = 16;
/// Most CPUs in the folded table.
const MOST_ROWS: usize = 512;
/// Worst samples that are listed.
const MOST_WORST: usize = 12;

pub(super) fn requirements(html: &mut Html, run: &Run) {
    if !run.is_judged() {
        return;
    }
    html.heading("required", "Requirements");
    let judgement = Judgement::from_run(run);
    let judgement = judgement.as_ref();
    let results = run
        .verdict
        .as_ref()
        .map(|v| v.requirements.as_slice())
        .unwrap_or_default();
    let mut rows: Vec<(&str, Vec<Td>)> = run
        .request
        .requirements
        .iter()
        .enumerate()
        .map(|(i, requirement)| {
            let asked = verdict::asked(requirement, run.request.confidence);
            required(asked, results.get(i), judgement)
        })
        .collect();
    let tasks = run.verdict.iter().flat_map(|verdict| &verdict.tasks);
    rows.extend(tasks.map(|task| {
        let asked = verdict::asked(&task.result.requirement, run.request.confidence);
        required(
            format!("{}: {asked}", words::clean(&task.name)),
            Some(&task.result),
            judgement,
        )
    }));
    let lengths = run.verdict.iter().flat_map(|verdict| &verdict.lengths);
    rows.extend(lengths.map(length));
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

/// What was required, and what is known of it.
fn required(
    asked: String,
    result: Option<&RequirementResult>,
    judgement: Option<&Judgement>,
) -> (&'static str, Vec<Td>) {
    let word = result.map_or("not judged", |r| r.outcome.word());
    let seen = result.map_or_else(String::new, |r| {
        let bound = r.deciding();
        let (misses, cycles) = (words::count(bound.misses), words::count(bound.cycles));
        let who = verdict::alone(r, judgement).map_or_else(String::new, |who| format!("{who}: "));
        format!("{who}{misses} of {cycles} cycles")
    });
    let shown = result.map_or_else(String::new, |r| statements::range(r.deciding()));
    let needed = result
        .and_then(|r| r.needed_seconds)
        .map(|seconds| format!("run {} longer", words::duration_f64(seconds as f64 * 1e9)));
    let never = result
        .and_then(|r| r.never)
        .map(|why| verdict::never(why).to_owned());
    (
        class(result.map(|r| r.outcome)),
        vec![
            td(asked),
            td_in("word", word),
            td(seen),
            td(shown),
            td(needed.or(never).unwrap_or_default()),
        ],
    )
}

/// What was required of a mark. No bound is made of it.
fn length(result: &LengthResult) -> (&'static str, Vec<Td>) {
    let longest = result.max_ns.map(words::duration);
    let cells = vec![
        td(words::clean(&verdict::limit(result))),
        td_in("word", result.outcome.word()),
        td(format!(
            "{} in {}",
            words::count(result.longer),
            words::count(result.count)
        )),
        td(longest.map_or_else(String::new, |longest| format!("the longest {longest}"))),
        td(""),
    ];
    (class(Some(result.outcome)), cells)
}

pub(super) fn figures(html: &mut Html, run: &Run, figures: &Figures) {
    if figures.rows.is_empty() {
        return;
    }
    let terms = Terms::for_run(run);
    html.heading("latency", terms.heading);
    let invalid = |v: &Verdict| v.outcome == Outcome::Invalid;
    if figures.merged.count > 0 && run.verdict.as_ref().is_some_and(invalid) {
        html.text("p", "lost", statements::WHAT_INVALID_MEANS);
    }
    if figures.merged.count == 0 {
        html.text(
            "p",
            "",
            &format!(
                "Not one {} was measured, so there is nothing to draw.",
                terms.one
            ),
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
    let caption = &format!(
        "{} in µs. — where fewer than 10 samples lie beyond a percentile",
        if run.gaps.is_some() {
            terms.heading
        } else {
            "Latencies"
        }
    );
    if !many {
        let all: Vec<usize> = (0..figures.rows.len()).collect();
        figure_table(html, caption, run, figures, &all);
    } else {
        let named = format!(
            "{caption}. The {FEW_ROWS} of {} {}s with the highest maximum",
            words::count(figures.rows.len() as u64),
            words::row(figures.rows_are)
        );
        figure_table(html, &named, run, figures, &worst(FEW_ROWS));
        // Folded without a script.
        let mut rest = worst(MOST_ROWS);
        rest.sort_unstable();
        html.raw(&format!(
            "<details><summary>Every {}</summary>\n",
            words::row(figures.rows_are)
        ));
        figure_table(html, caption, run, figures, &rest);
        html.raw("</details>\n");
    }
    if let Some(beyond) = statements::beyond(figures) {
        html.text("p", "dim", &beyond);
    }
    if let Some(glossary) = statements::glossary(run) {
        html.text("p", "note", glossary);
    }
    for row in figures
        .rows
        .iter()
        .filter(|row| row.note.is_some())
        .take(16)
    {
        let note = row.note.as_deref().unwrap_or_default();
        html.text("p", "bad", &format!("{}: {note}", row.name));
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
    let mut names = vec![
        words::row(figures.rows_are),
        "samples",
        "min",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "p99.99",
        "p99.999",
        "max",
        "late",
        Terms::for_run(run).missed,
        Terms::for_run(run).unrecorded,
    ];
    if run.gaps.is_some() {
        // No period can be skipped.
        names[11] = "above";
        names.remove(12);
        for (_, cells) in &mut rows {
            cells.remove(12);
        }
    }
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
    cells.extend(
        [50.0, 90.0, 99.0, 99.9, 99.99, 99.999].map(|p| match row.reading(p) {
            Reading::AtLeast(ns) => td(format!("> {}", words::micros(ns as f64))),
            other => latency(other.value()),
        }),
    );
    cells.push(latency(row.max));
    if row.imported {
        // Nothing of that is stated.
        cells.extend([(); 3].map(|()| td_in("dim", "—")));
        return cells;
    }
    cells.push(if deadline.is_some() {
        count(row.late, "bad")
    } else {
        td_in("dim", "—")
    });
    cells.push(count(row.missed, "bad"));
    cells.push(count(row.lost, "lost"));
    cells
}

pub(super) fn worst(html: &mut Html, run: &Run, figures: &Figures) {
    let worst = statements::worst(run, MOST_WORST);
    if worst.is_empty() {
        return;
    }
    let gaps = run.gaps.is_some();
    let (heading, size, caption) = if gaps {
        (
            "Longest gaps",
            "Length",
            "The longest gaps of the run, with the time since the start",
        )
    } else {
        (
            "Worst samples",
            "Latency",
            "The highest latencies of the run, with the time since the start",
        )
    };
    html.heading("worst", heading);
    let limit = deadline(run);
    let rows: Vec<(&str, Vec<Td>)> = worst
        .iter()
        .map(|w| {
            let late = limit.is_some_and(|d| w.latency_ns > d);
            let beyond = match limit {
                Some(d) if late => {
                    let by = words::duration(w.latency_ns - d);
                    format!("{} by {by}", if gaps { "longer" } else { "late" })
                }
                Some(_) => if gaps { "within" } else { "in time" }.to_owned(),
                None => String::new(),
            };
            let latency = words::duration(w.latency_ns);
            let mut cells = vec![
                if late {
                    td_in("bad", latency)
                } else {
                    td(latency)
                },
                td(figures.rows[w.row].label.clone()),
                td(words::instant(w.at_ns)),
                td(words::count(w.cycle)),
            ];
            if limit.is_some() {
                cells.push(td(beyond));
            }
            ("", cells)
        })
        .collect();
    let row = if figures.rows_are == RowsAre::Cpus {
        "CPU"
    } else {
        "Thread"
    };
    let columns = [size, row, "At", "Cycle", "Against the deadline"];
    html.table(
        "figures tight",
        caption,
        &columns[..if limit.is_some() { 5 } else { 4 }],
        &rows,
    );
}

/// What a watch saw beside the wake-ups.
pub(super) fn watched(html: &mut Html, run: &Run) {
    let tables = watch::tables(run);
    if tables.is_empty() {
        return;
    }
    html.heading("watched", "What was watched");
    for mut table in tables {
        let mut stacks = Vec::new();
        if let Some((head, texts)) = table.below.take() {
            table.heads.push(head);
            stacks = texts;
        }
        let mut stacks = stacks.into_iter();
        let rows: Vec<(&str, Vec<Td>)> = table
            .rows
            .iter()
            .map(|row| {
                let stack = stacks.next().map(|text| td_in("stack", text));
                ("", row.iter().map(td).chain(stack).collect())
            })
            .collect();
        html.table("figures", table.name, &table.heads, &rows);
    }
}
