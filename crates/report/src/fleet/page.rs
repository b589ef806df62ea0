//! A dataset as a page.

use std::cmp::Reverse;

use punctual_record::Tool;

use super::{heat, kinds, ridges, terminal};
use crate::html::frame;
use crate::html::parts::{Html, Td, td, td_bar, td_in};
use crate::html::sections::figure;
use crate::words::{self, clean};
use punctual_record::fleet::{
    Answers, ChangeRow, ExceedanceRow, OutlierRow, PercentilesRow, Setting,
};

/// A table has so many rows; the query has the others.
const MOST_ROWS: usize = 60;

/// The column of what makes runs comparable.
const KIND: &str = "kind";

/// What is said of a page itself.
#[derive(Debug, Clone, Copy)]
pub struct PageFacts<'a> {
    /// The dataset, as the user named it.
    pub dataset: &'a str,
    /// Who asked.
    pub tool: &'a Tool,
    /// Who answered: `DuckDB v1.5.6`.
    pub engine: &'a str,
}

/// The page: one file, nothing is loaded.
#[must_use]
pub fn page(answers: &Answers, facts: &PageFacts<'_>) -> String {
    let mut html = Html::default();
    frame::open(&mut html, &format!("Fleet: {}", clean(facts.dataset)), "");
    banner(&mut html, answers);
    html.contents();
    html.raw("<main>\n");
    outliers(&mut html, answers);
    requirements(&mut html, answers);
    machines(&mut html, answers);
    kernels(&mut html, answers);
    changes(&mut html, answers);
    causes(&mut html, answers);
    worst(&mut html, answers);
    guide(&mut html, answers, facts);
    html.raw("</main>\n");
    frame::close(&mut html, facts.tool);
    html.into_page()
}

fn banner(html: &mut Html, answers: &Answers) {
    html.raw("<header>\n<section class=\"banner none\" aria-label=\"Summary\">\n");
    html.text("h1", "", "Fleet");
    html.text("p", "say", &terminal::headline(&answers.overview));
    html.text("p", "", &terminal::verdicts(&answers.overview));
    html.text("p", "", &terminal::standing_out(answers));
    html.raw("</section>\n</header>\n");
}

/// A table, cut after a number of rows: those that matter most come first.
fn table(html: &mut Html, caption: &str, head: &[&str], mut rows: Vec<Vec<Td>>, query: &str) {
    let all = rows.len();
    let mut head = head.to_vec();
    // What all have in common is in the caption.
    if let Some(kind) = head.iter().position(|name| *name == KIND)
        && rows.iter().all(|row| row[kind].is_empty())
    {
        head.remove(kind);
        rows.iter_mut().for_each(|row| drop(row.remove(kind)));
    }
    let rows: Vec<_> = rows
        .into_iter()
        .take(MOST_ROWS)
        .map(|row| ("", row))
        .collect();
    html.table("figures", caption, &head, &rows);
    if all > MOST_ROWS {
        let note = format!(
            "{} of {} rows. All of them: punctual fleet sql DATASET {query}",
            words::count(MOST_ROWS as u64),
            words::count(all as u64)
        );
        html.text("p", "note", &note);
    }
}

/// `caption`, and what all rows have in common.
fn with_common(caption: &str, settings: &[&Setting]) -> String {
    match kinds::common(settings) {
        common if common.is_empty() => caption.to_owned(),
        common => format!("{caption}; all {}", clean(&common)),
    }
}

fn name(text: &str) -> Td {
    td_in("who", clean(text))
}

fn time(ns: Option<u64>) -> Td {
    td(ns.map_or_else(|| "—".to_owned(), words::duration))
}

fn outliers(html: &mut Html, answers: &Answers) {
    let all = &answers.outliers;
    if all.is_empty() {
        return;
    }
    html.heading("outliers", "Machines that stand out");
    html.text(
        "p",
        "note",
        "They miss a limit more often than machines with the same kernel, hardware, BIOS and load, beyond \
         chance: in 95 of 100 such tables no machine is named without a reason.",
    );
    let settings: Vec<&Setting> = all.iter().map(|row| &row.setting).collect();
    let row = |(row, kind): (&OutlierRow, &String)| {
        vec![
            td(clean(&row.machine)),
            name(&row.kernel),
            name(kind),
            td(words::duration(row.limit_ns)),
            td(words::count(row.runs)),
            td_in("bad", words::share(row.share)),
            td(words::share(row.lower)),
            td(words::share(row.peers_share)),
            td(words::share(row.peers_upper)),
            name(&terminal::bill(answers, &row.machine)),
        ]
    };
    let names = kinds::names(&settings);
    let rows = all.iter().zip(&names).map(row).collect();
    let caption = with_common(
        "Share of cycles that missed the limit, with bounds",
        &settings,
    );
    let head = [
        "machine",
        "kernel",
        KIND,
        "limit",
        "runs",
        "missed",
        "missed, at least",
        "peers",
        "peers, at most",
        "who stole the time",
    ];
    table(html, &caption, &head, rows, "outliers");
}

fn requirements(html: &mut Html, answers: &Answers) {
    if answers.exceedance.is_empty() {
        return;
    }
    let mut all: Vec<&ExceedanceRow> = answers.exceedance.iter().collect();
    if all.len() > MOST_ROWS {
        all.sort_by(|a, b| b.upper.total_cmp(&a.upper));
    }
    html.heading("requirements", "Requirements");
    let settings: Vec<&Setting> = all.iter().map(|row| &row.setting).collect();
    let names = kinds::names(&settings);
    let rows = all
        .iter()
        .zip(&names)
        .map(|(row, kind)| {
            vec![
                name(&row.kernel),
                name(kind),
                td(words::duration(row.limit_ns)),
                td(words::count(row.machines)),
                td(words::count(row.runs)),
                td(words::short_count(row.cycles)),
                td(words::short_count(row.misses)),
                td(words::share(row.upper)),
            ]
        })
        .collect();
    let caption = with_common("Misses of all runs together", &settings);
    let head = [
        "kernel",
        KIND,
        "limit",
        "machines",
        "runs",
        "cycles",
        "missed",
        "upper bound (95 %)",
    ];
    table(html, &caption, &head, rows, "exceedance");
}

fn machines(html: &mut Html, answers: &Answers) {
    if answers.days.is_empty() {
        return;
    }
    html.heading("machines", "Machines over time");
    let (shown, all) = (answers.machines.len() as u64, answers.overview.machines);
    let which = match shown < all {
        true => format!(
            "{} of {} machines: those that stand out, then those with the most runs that FAIL, then those with \
             the worst wake-ups. ",
            words::count(shown),
            words::count(all)
        ),
        false => String::new(),
    };
    let caption =
        format!("{which}The darker, the later the worst wake-up; a dot where a run FAILs.");
    figure(html, "heat", &caption, |form, id| {
        heat::draw(&answers.machines, &answers.days, form, id)
    });
}

fn kernels(html: &mut Html, answers: &Answers) {
    if answers.percentiles.is_empty() {
        return;
    }
    let mut all: Vec<&PercentilesRow> = answers.percentiles.iter().collect();
    if all.len() > MOST_ROWS {
        all.sort_by_key(|row| Reverse(row.samples));
    }
    html.heading("kernels", "Latency by kernel");
    let caption = "Each kind of runs has its own height, logarithmic: a single wake-up is seen beside a \
                   billion. Kernels of the same hardware stand together, in the order in which they were \
                   first measured. The dots are the worst wake-ups.";
    figure(html, "ridges", caption, |form, id| {
        ridges::draw(&answers.ridges, &answers.percentiles, form, id)
    });
    let settings: Vec<&Setting> = all.iter().map(|row| &row.setting).collect();
    let names = kinds::names(&settings);
    let rows = all
        .iter()
        .zip(&names)
        .map(|(row, kind)| {
            vec![
                name(&row.kernel),
                name(kind),
                td(words::count(row.machines)),
                td(words::count(row.runs)),
                td(words::short_count(row.samples)),
                time(row.p50_ns),
                time(row.p99_ns),
                time(row.p999_ns),
                time(row.p9999_ns),
                time(row.maximum_ns),
            ]
        })
        .collect();
    let caption = with_common("Latency of all runs together", &settings);
    let head = [
        "kernel", KIND, "machines", "runs", "samples", "p50", "p99", "p99.9", "p99.99", "max",
    ];
    table(html, &caption, &head, rows, "percentiles");
}

fn changes(html: &mut Html, answers: &Answers) {
    if answers.changes.is_empty() {
        return;
    }
    let mut all: Vec<&ChangeRow> = answers.changes.iter().collect();
    if all.len() > MOST_ROWS {
        // Stable: those that are shown stay in their order.
        all.sort_by_key(|row| row.change == "not shown");
    }
    html.heading("changes", "What changed from kernel to kernel");
    html.text(
        "p",
        "note",
        "Each kernel and the kernel that was measured before it on the same hardware. “not shown”: the bounds \
         of the two overlap; that does not mean that they are the same.",
    );
    let settings: Vec<&Setting> = all.iter().map(|row| &row.setting).collect();
    let names = kinds::names(&settings);
    let row = |(row, kind): (&&ChangeRow, &String)| {
        let class = if row.change == "worse" { "bad" } else { "" };
        vec![
            name(&row.before),
            name(&row.kernel),
            name(kind),
            td(words::duration(row.limit_ns)),
            td(words::share(row.before_share)),
            td(words::share(row.share)),
            td_in(class, clean(&row.change)),
            time(row.before_maximum_ns),
            time(row.maximum_ns),
        ]
    };
    let rows = all.iter().zip(&names).map(row).collect();
    let caption = with_common("Share of cycles that missed the limit", &settings);
    let head = [
        "before",
        "after",
        KIND,
        "limit",
        "missed before",
        "missed after",
        "change",
        "max before",
        "max after",
    ];
    table(html, &caption, &head, rows, "changes");
}

fn causes(html: &mut Html, answers: &Answers) {
    if answers.causes.is_empty() {
        return;
    }
    html.heading("causes", "Who stole the time");
    let rows = answers
        .causes
        .iter()
        .map(|row| {
            vec![
                td(clean(&row.cause)),
                td_bar(row.share * 100.0, words::share(row.share)),
                td(words::count(row.machines)),
                td(words::count(row.runs)),
                td(words::count(row.bills)),
                td(words::duration(row.worst_ns)),
            ]
        })
        .collect();
    let caption = "Shares of the time in the bills of all traced runs";
    let head = ["cause", "share", "machines", "runs", "bills", "longest"];
    table(html, caption, &head, rows, "causes");
}

fn worst(html: &mut Html, answers: &Answers) {
    if answers.worst.is_empty() {
        return;
    }
    html.heading("worst", "The worst wake-ups");
    let rows = answers
        .worst
        .iter()
        .map(|row| {
            vec![
                td(clean(&row.machine)),
                td(words::duration(row.maximum_ns)),
                td(format!("of {}", words::short_count(row.samples))),
                td(row.verdict.as_deref().map_or_else(|| "—".to_owned(), clean)),
                name(&row.kernel),
                name(&row.load),
                td(clean(&row.started)),
                name(&row.record),
            ]
        })
        .collect();
    let head = [
        "machine", "latency", "samples", "verdict", "kernel", "load", "started", "record",
    ];
    table(
        html,
        "The worst of each run; record: where the record was when the run was added",
        &head,
        rows,
        "worst",
    );
}

fn guide(html: &mut Html, answers: &Answers, facts: &PageFacts<'_>) {
    html.heading("read", "How to read this page");
    for text in [
        "Histograms are added; percentiles are not averaged. A percentile is at most 1/128 above the true \
         one, and is left out where fewer than ten samples lie beyond it. Maxima and counts of misses \
         are exact.",
        "A bound of the share of misses holds for the machines that were measured, as they were, and \
         takes into account that misses come together.",
        "Runs that are INVALID have no figures here: a condition was not in force, or an event made the run INVALID.",
    ] {
        html.text("p", "note", text);
    }
    let overview = &answers.overview;
    let mut all = vec![
        ("Dataset".to_owned(), clean(facts.dataset)),
        ("Runs".to_owned(), words::count(overview.runs)),
        ("INVALID".to_owned(), words::count(overview.invalid)),
    ];
    if let (Some(first), Some(last)) = (&overview.first, &overview.last) {
        all.push((
            "Started".to_owned(),
            format!("{} to {}", clean(first), clean(last)),
        ));
    }
    all.push(("Executed by".to_owned(), clean(facts.engine)));
    html.facts("Provenance", &all);
}
