//! The budgets of chains: what each hop took of the limit.

use punctual_record::Run;
use punctual_record::budget::{BUDGET_QUANTILES, Budget, of_chain};
use punctual_record::taskset::{ChainHop, TaskRun};
use punctual_stats::shares::Shares;

use crate::budget as budgets;
use crate::experiment::fact_lines;
use crate::style::{Style, Tone, wrap};
use crate::table::{self, Cell};
use crate::{terminal, words};

/// The quantiles that have a column, of [`BUDGET_QUANTILES`].
const SHOWN: [usize; 2] = [0, 2];
/// The heads of the columns of [`rows`].
pub(crate) const HEADS: [&str; 7] = [
    "hop",
    "median",
    "p99.9",
    "worst",
    "of limit",
    "part",
    "longer at most",
];

/// What a hop is called.
fn name(tasks: &TaskRun, hop: ChainHop) -> String {
    let task = tasks.set.tasks.get(hop.task());
    let task = words::clean(task.map_or("?", |task| task.name.as_str()));
    match hop {
        ChainHop::Input { .. } => format!("input of {task}"),
        ChainHop::Sampling { .. } => format!("wait for {task}"),
        ChainHop::Task { .. } => task,
    }
}

/// The budgets of the chains that have one, each with the place of its chain.
#[must_use]
pub fn chain_budgets(run: &Run, tasks: &TaskRun) -> Vec<(usize, Budget)> {
    let each = (0..tasks.set.chains.len()).filter_map(|chain| {
        let budget = of_chain(run, tasks, chain, |hop| name(tasks, hop)).ok()??;
        Some((chain, budget))
    });
    each.collect()
}

/// A row for each hop and sum: its name, then its figures.
pub(crate) fn rows(budget: &Budget) -> Vec<[String; HEADS.len()]> {
    let none = || "-".to_owned();
    let time = |ns: Option<u64>| ns.map_or_else(none, |ns| words::micros(ns as f64));
    let limit_ns = budget.demand.deadline_ns.max(1);
    let of_limit = |ns: Option<u64>| {
        ns.map_or_else(none, |ns| {
            format!("{:.1} %", ns as f64 * 100.0 / limit_ns as f64)
        })
    };
    let at_most: Vec<f64> = budget
        .hops
        .iter()
        .filter_map(|hop| Some(hop.share?.at_most))
        .collect();
    let shares = Shares::for_values(&at_most);
    let row = |name: String, quantiles: &[Option<u64>], max_ns: Option<u64>| {
        let at = |index: usize| time(quantiles.get(SHOWN[index]).copied().flatten());
        [
            name,
            at(0),
            at(1),
            time(max_ns),
            of_limit(max_ns),
            String::new(),
            String::new(),
        ]
    };
    let mut rows: Vec<[String; HEADS.len()]> = Vec::new();
    for hop in &budget.hops {
        let mut row = row(hop.name.clone(), &hop.quantiles_ns, hop.max_ns);
        if let Some(share) = &hop.share {
            row[5] = words::micros(share.within_ns as f64);
            row[6] = shares.at_most(share.at_most);
        }
        rows.push(row);
    }
    let independent = &budget.independent.quantiles_ns;
    rows.push(row("if independent".to_owned(), independent, None));
    let highest = budget
        .hops
        .iter()
        .try_fold(0u64, |sum, hop| Some(sum.saturating_add(hop.max_ns?)));
    let any = &budget.any_dependence.quantiles_ns;
    rows.push(row("at most, dependent".to_owned(), any, highest));
    if let Some(whole) = &budget.whole {
        rows.push(row(
            "measured".to_owned(),
            &whole.quantiles_ns,
            whole.max_ns,
        ));
    }
    rows
}

/// Which hop takes most of the limit.
pub(crate) fn most(budget: &Budget) -> Option<String> {
    let limit_ns = budget.demand.deadline_ns.max(1);
    let usual = |at: &Option<u64>| at.unwrap_or(0);
    let median =
        |hop: &&punctual_record::budget::HopFigures| hop.quantiles_ns.first().map_or(0, usual);
    let often = budget.hops.iter().max_by_key(median)?;
    let once = budget.hops.iter().max_by_key(|hop| hop.max_ns)?;
    let of_limit = |ns: u64| format!("{:.0} %", ns as f64 * 100.0 / limit_ns as f64);
    let (often_ns, once_ns) = (median(&often), once.max_ns?);
    let mut text = format!(
        "{}: in half of the reactions it takes {} or more, {} of the limit",
        words::clean(&often.name),
        words::duration(often_ns),
        of_limit(often_ns)
    );
    text += &match once.name == often.name {
        true => format!(
            "; at most {}, {}",
            words::duration(once_ns),
            of_limit(once_ns)
        ),
        false => format!(
            "; the longest time of a hop is that of {}: {}, {}",
            words::clean(&once.name),
            words::duration(once_ns),
            of_limit(once_ns)
        ),
    };
    Some(text)
}

/// What would decide the verdict.
fn to_pass(budget: &Budget) -> String {
    let each = budget.demand.allowed / budget.hops.len().max(1) as f64;
    format!(
        "run the set longer (-D): what is shown of the whole path falls with the number of \
         reactions; or show that each hop takes longer than its part in at most {} of them",
        Shares::for_values(&[each]).at_most(each)
    )
}

/// Reactions that could not be split.
pub(crate) fn unsplit(tasks: &TaskRun, chain: usize) -> Option<String> {
    let split = tasks.chains.get(chain)?.split.as_ref()?;
    let all = split
        .whole
        .times
        .latency
        .count
        .saturating_add(split.unsplit);
    let longer = match tasks.longer_unsplit(chain) {
        0 => String::new(),
        longer => format!(
            ", {} of them longer than the limit, so that the budget can't pass",
            words::count(longer)
        ),
    };
    (split.unsplit > 0).then(|| {
        format!(
            "{} of {} are not in the budget{longer}: their way through the chain was not kept, or nothing came \
             out until the end",
            words::count(split.unsplit),
            words::plural(all, "reaction", "reactions")
        )
    })
}

/// All that is said beside the table.
pub(crate) fn statements(
    tasks: &TaskRun,
    chain: usize,
    budget: &Budget,
) -> Vec<(&'static str, String)> {
    let mut statements = Vec::new();
    statements.extend(most(budget).map(|text| ("Takes most", text)));
    let said = budgets::statements(budget).into_iter();
    statements.extend(said.map(|(title, text)| match title {
        budgets::TO_PASS => (title, to_pass(budget)),
        _ => (title, text),
    }));
    statements.extend(unsplit(tasks, chain).map(|text| ("Not split", text)));
    statements
}

/// The budgets for a terminal.
pub(super) fn section(run: &Run, tasks: &TaskRun, style: &Style) -> Vec<String> {
    let mut lines = Vec::new();
    for (chain, budget) in chain_budgets(run, tasks) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let title = title(tasks, chain, &budget);
        let tone = terminal::tone(Some(budget.outcome));
        lines.extend(
            wrap(&title, style.columns())
                .iter()
                .map(|line| style.paint(tone, line)),
        );
        let mut cells = vec![HEADS.map(|head| Cell::toned(head, Tone::Dim)).to_vec()];
        cells.extend(
            rows(&budget)
                .into_iter()
                .map(|row| row.map(Cell::new).to_vec()),
        );
        let table = table::set(&cells, style.columns(), style);
        lines.extend(table.iter().map(|line| line.trim_end().to_owned()));
        for (title, text) in statements(tasks, chain, &budget) {
            lines.extend(fact_lines(style, title, &text));
        }
    }
    lines
}

/// The chain with the verdict on its budget.
pub(crate) fn title(tasks: &TaskRun, chain: usize, budget: &Budget) -> String {
    let name = tasks
        .set
        .chains
        .get(chain)
        .map_or("?", |it| it.name.as_str());
    format!(
        "Budget of {}: {}",
        words::clean(name),
        budgets::sentence(budget)
    )
}

/// The quantiles of a budget that [`rows`] shows are there.
const _: () = assert!(SHOWN[1] < BUDGET_QUANTILES.len());
