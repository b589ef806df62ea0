//! The table of chains.

use punctual_record::taskset::TaskRun;
use punctual_stats::histogram::{Histogram, HistogramRecord};

use crate::style::{Style, Tone};
use crate::table::{self, Cell};
use crate::words;

/// The table, with a line for the reaction and one for the age of each chain.
pub(super) fn table(tasks: &TaskRun, style: &Style) -> Vec<String> {
    if tasks.chains.is_empty() {
        return Vec::new();
    }
    let heads = [
        "chain", "", "outputs", "median", "p99.9", "worst", "limit", "longer",
    ];
    let mut rows: Vec<Vec<Cell>> = vec![
        heads
            .iter()
            .map(|head| Cell::toned(*head, Tone::Dim))
            .collect(),
    ];
    for (chain, figures) in tasks.set.chains.iter().zip(&tasks.chains) {
        let lines = [
            (
                "reaction",
                &figures.reaction,
                chain.reaction_ns,
                figures.reaction_longer,
            ),
            ("age", &figures.age, chain.age_ns, figures.age_longer),
        ];
        for (index, (what, lengths, limit_ns, longer)) in lines.into_iter().enumerate() {
            let name = if index == 0 {
                words::clean(&chain.name)
            } else {
                String::new()
            };
            let mut row = vec![Cell::new(name), Cell::new(what)];
            row.extend(figures_of(lengths));
            row.push(match limit_ns {
                Some(ns) => Cell::new(words::micros(ns as f64)),
                None => Cell::new("-"),
            });
            row.push(match (limit_ns, longer) {
                (None, _) => Cell::new("-"),
                (_, 0) => Cell::new("0"),
                (_, longer) => Cell::toned(words::short_count(longer), Tone::Bad),
            });
            rows.push(row);
        }
    }
    table::set(&rows, style.columns(), style)
}

fn figures_of(lengths: &HistogramRecord) -> Vec<Cell> {
    let histogram = Histogram::try_from(lengths).unwrap_or_default();
    let time = |ns: Option<u64>| {
        Cell::new(ns.map_or_else(|| "-".to_owned(), |ns| words::micros(ns as f64)))
    };
    vec![
        Cell::new(words::short_count(histogram.count())),
        time(histogram.quantile(0.5)),
        time(histogram.supported_quantile(0.999)),
        time(histogram.max()),
    ]
}
