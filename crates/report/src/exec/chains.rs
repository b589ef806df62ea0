//! The table of chains.

use punctual_record::taskset::TaskRun;
use punctual_record::taskset::analysis::ChainLatency;
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
        "chain", "", "outputs", "median", "p99.9", "worst", "bound", "limit", "longer",
    ];
    let mut rows: Vec<Vec<Cell>> = vec![
        heads
            .iter()
            .map(|head| Cell::toned(*head, Tone::Dim))
            .collect(),
    ];
    let each = tasks.set.chains.iter().zip(&tasks.chains).enumerate();
    for (index, (chain, figures)) in each {
        let (reaction, age) = bounds(tasks, index).unzip();
        let lines = [
            (
                "reaction",
                &figures.reaction,
                reaction,
                chain.reaction_ns,
                figures.reaction_longer,
            ),
            ("age", &figures.age, age, chain.age_ns, figures.age_longer),
        ];
        for (line, (what, lengths, bound_ns, limit_ns, longer)) in lines.into_iter().enumerate() {
            let name = if line == 0 {
                words::clean(&chain.name)
            } else {
                String::new()
            };
            let mut row = vec![Cell::new(name), Cell::new(what)];
            row.extend(figures_of(lengths));
            row.push(match bound_ns {
                Some(ns) => Cell::new(words::micros(ns as f64)),
                None => Cell::new("-"),
            });
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

/// What no reaction and no age of a chain is longer than, by the analysis.
pub(crate) fn bounds(tasks: &TaskRun, chain: usize) -> Option<(u64, u64)> {
    match tasks.analysis.as_ref()?.chains.get(chain)?.latency {
        ChainLatency::Bounded {
            reaction_ns,
            age_ns,
        } => Some((reaction_ns, age_ns)),
        _ => None,
    }
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
