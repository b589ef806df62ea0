//! Who stole the time: stages, ranking, the bills with their pictures, what to do.

use super::parts::{Html, Td, td, td_bar, td_in};
use super::sections::figure;
use crate::chart::outlier;
use crate::explain::{
    ShownWait, amounts, counts, culprit, known_fixes, name, not_seen, part_of, parts_ns, ranked,
    stage_figures, undo_of, waits,
};
use crate::terms::Terms;
use crate::{facts, words};
use punctual_record::Run;
use punctual_record::explanation::{Bill, Cause, Explanation};

/// Bills that are shown with their picture.
const MOST_BILLS: usize = 8;
/// Waits for other threads that are shown.
const MOST_WAITS: usize = 16;
/// Causes of the ranking.
const MOST_CAUSES: usize = 40;

pub(super) fn explained(html: &mut Html, run: &Run) {
    let Some(explanation) = &run.explanation else {
        return;
    };
    html.heading("explained", "Who stole the time");
    html.text("p", "", &counts(run, explanation));
    for what in not_seen(run, explanation) {
        html.text("p", "note", &format!("Not seen: {what}."));
    }
    stages(html, explanation);
    ranking(html, explanation);
    to_do(html, run, explanation);
    for (index, bill) in explanation.bills.iter().take(MOST_BILLS).enumerate() {
        self::bill(html, run, bill, index + 1);
    }
    let rest = explanation.bills.len().saturating_sub(MOST_BILLS);
    if rest > 0 {
        let text = format!(
            "{} more stand in the record: punctual explain RUN N.",
            words::plural(rest as u64, "bill", "bills")
        );
        html.text("p", "note", &text);
    }
    let waits = waits(run, MOST_WAITS);
    if !waits.is_empty() {
        html.text("h3", "", "Wake-up chains: what threads waited for");
    }
    for wait in &waits {
        self::wait(html, wait);
    }
}

fn wait(html: &mut Html, wait: &ShownWait) {
    let rows = wait.rows.iter().map(|row| {
        let hops = row
            .depth
            .map_or_else(|| "—".to_owned(), |depth| depth.to_string());
        let cells = vec![
            td_in("whole", hops),
            td_in("whole", row.time.clone()),
            td_in("whole", row.share.clone()),
            td(row.text.clone()),
            td_in("mono", row.who.clone().unwrap_or_default()),
        ];
        ("", cells)
    });
    let mut rows: Vec<(&str, Vec<Td>)> = rows.collect();
    let sum = [
        td(""),
        td_in("whole", wait.sum.clone()),
        td_in("whole", "100.0 %"),
        td("the wait"),
        td(""),
    ];
    rows.push(("all", sum.into()));
    let columns = ["Depth", "µs", "Share", "What it went to", "Which thread"];
    html.table("wide stack", &wait.title, &columns, &rows);
}

fn stages(html: &mut Html, explanation: &Explanation) {
    let figures = stage_figures(explanation);
    if figures.is_empty() {
        return;
    }
    let time = |ns: Option<u64>| ns.map_or_else(|| "—".to_owned(), |ns| words::micros(ns as f64));
    let rows: Vec<(&str, Vec<Td>)> = figures
        .iter()
        .map(|stage| {
            let cells = vec![
                td(facts::stage(stage.stage)),
                td(words::count(stage.count)),
                td(time(stage.p50)),
                td(time(stage.p99)),
                td(time(Some(stage.max))),
            ];
            ("", cells)
        })
        .collect();
    html.table(
        "figures tight",
        "Stages of every wake-up that was seen, in µs",
        &["Stage", "Wake-ups", "p50", "p99", "max"],
        &rows,
    );
}

fn ranking(html: &mut Html, explanation: &Explanation) {
    let whole = parts_ns(explanation);
    let rows: Vec<(&str, Vec<Td>)> = ranked(explanation, MOST_CAUSES)
        .into_iter()
        .map(|ranked| {
            let part = explanation.part_ns(ranked);
            let percent = 100.0 * part as f64 / whole.max(1) as f64;
            let cells = vec![
                cause_cell(&ranked.cause),
                td_bar(percent, part_of(part, whole)),
                td(words::micros(ranked.total_ns as f64)),
                td(words::micros(ranked.tail_ns as f64)),
                td(words::micros(ranked.worst_ns as f64)),
                td(words::count(ranked.count)),
            ];
            ("", cells)
        })
        .collect();
    if !rows.is_empty() {
        html.table(
            "figures causes",
            &format!(
                "What each cause cost, in µs; its share is that of {}",
                if explanation.are_of_outliers() {
                    "the time of all outliers"
                } else {
                    "the time of all bills"
                }
            ),
            &["Cause", "Share", "Total", "In outliers", "Worst", "Bills"],
            &rows,
        );
    }
}

fn cause_cell(cause: &Cause) -> Td {
    match cause {
        cause if cause.is_residue() => td_in("lost", name(cause)),
        Cause::WakePath | Cause::Crossing => td_in("dim", name(cause)),
        cause => td(name(cause)),
    }
}

fn to_do(html: &mut Html, run: &Run, explanation: &Explanation) {
    let mut facts: Vec<(String, String)> = known_fixes(run, explanation)
        .into_iter()
        .map(|(cause, fix)| (name(cause), fix))
        .collect();
    if let Some(undo) = undo_of(facts.iter().map(|(_, fix)| fix.as_str())) {
        facts.push(("undo".to_owned(), undo));
    }
    if !facts.is_empty() {
        html.long_facts("What to do about what cost most", &facts);
    }
}

fn bill(html: &mut Html, run: &Run, bill: &Bill, number: usize) {
    let when = run.start_ns.map_or_else(String::new, |start| {
        format!(" at {}", words::instant(bill.due_ns.saturating_sub(start)))
    });
    let terms = Terms::for_run(run);
    let gap = run.gaps.is_some();
    let title = format!(
        "Bill {number}: {} on CPU {}{when}",
        terms.outlier(bill.latency_ns),
        bill.cpu
    );
    html.text("h3", "", &title);
    let caption = if gap {
        "Time counts from the beginning of the gap. What is in the bill is coloured."
    } else {
        "Time counts from the requested instant. What is in the bill is coloured."
    };
    figure(html, &format!("bill-{number}"), caption, |form, id| {
        outlier::draw(run, bill, &title, form, id)
    });
    let parts: Vec<u64> = bill.rows.iter().map(|row| row.ns).collect();
    let (parts, sum) = amounts(run, &parts);
    let mut rows: Vec<(&str, Vec<Td>)> = bill
        .rows
        .iter()
        .zip(parts)
        .map(|(row, part)| {
            let mut details = row.stack.join(" ‹ ");
            for more in row.by.iter().map(culprit).chain(facts::notes(&row.notes)) {
                if !details.is_empty() {
                    details += "; ";
                }
                details += &more;
            }
            let cells = vec![
                td_in("whole", if gap { "gap" } else { facts::stage(row.stage) }),
                td_in("whole", part),
                cause_cell(&row.cause),
                td_in("mono", details),
            ];
            ("", cells)
        })
        .collect();
    rows.push((
        "all",
        vec![
            td_in(
                "whole",
                format!("the {}", if gap { "gap" } else { "latency" }),
            ),
            td_in("whole", sum),
            td(""),
            td(""),
        ],
    ));
    let open = if number == 1 { " open" } else { "" };
    html.raw(&format!(
        "<details{open}><summary>The rows, which sum to the {}</summary>\n",
        if gap { "gap" } else { "latency" }
    ));
    html.table(
        "wide stack",
        if gap {
            "The dearest first"
        } else {
            "In the order of the stages"
        },
        &["Stage", "µs", "Cause", "Details"],
        &rows,
    );
    html.raw("</details>\n");
}
