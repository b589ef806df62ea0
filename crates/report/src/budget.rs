//! A budget in words: do the hops meet one deadline together, and which of them uses it up?

use punctual_record::budget::{
    BUDGET_QUANTILES, Budget, BudgetBasis, HopFigures, HopOrigin, SumFigures, WholeFigures,
};
use punctual_stats::shares::Shares;
use punctual_stats::verdict::Outcome;

use crate::experiment::fact_lines;
use crate::style::{Style, Tone, cut, wrap};
use crate::table::{self, Cell};
use crate::{terminal, verdict, words};

/// The title of what would decide the verdict.
pub(crate) const TO_PASS: &str = "To pass";

fn deadline(budget: &Budget) -> String {
    words::duration(budget.demand.deadline_ns)
}

/// All shares of a budget in one notation.
fn shares(budget: &Budget) -> Shares {
    let mut all = vec![budget.demand.allowed, budget.at_most];
    if let BudgetBasis::OneHop { at_least, .. } | BudgetBasis::AtLeast { at_least } = budget.basis {
        all.push(at_least);
    }
    all.extend(budget.whole.iter().flat_map(|it| [it.at_least, it.at_most]));
    Shares::for_values(&all)
}

/// The verdict in a sentence to quote.
#[must_use]
pub fn sentence(budget: &Budget) -> String {
    let (word, deadline, shares) = (budget.outcome.word(), deadline(budget), shares(budget));
    let allowed = format!(
        "{} allowed; {} confidence",
        shares.exactly(budget.demand.allowed),
        words::percent(budget.demand.confidence)
    );
    if budget.outcome == Outcome::Invalid {
        return format!("{word}: {}", invalid(budget).join("; "));
    }
    let hops = words::plural(budget.hops.len() as u64, "hop", "hops");
    match budget.basis {
        BudgetBasis::Whole => {
            let whole = budget.whole.as_ref();
            let (verb, share) = match budget.outcome {
                Outcome::Pass => ("at most", whole.map_or(1.0, |it| it.at_most)),
                _ => ("at least", whole.map_or(0.0, |it| it.at_least)),
            };
            let share = match budget.outcome {
                Outcome::Pass => shares.at_most(share),
                _ => shares.at_least(share),
            };
            format!(
                "{word}: the whole path takes longer than {deadline} in {verb} {share} of cycles \
                 ({allowed})"
            )
        }
        BudgetBasis::OneHop { hop, at_least } => {
            let name = budget.hops.get(hop).map_or("", |hop| hop.name.as_str());
            let what = match at_least >= 1.0 {
                true => format!("the constants alone take longer than {deadline}"),
                false => format!(
                    "{name} alone takes longer than the constants leave of {deadline}, in at \
                     least {} of cycles",
                    shares.at_least(at_least)
                ),
            };
            format!("{word}: {what} ({allowed})")
        }
        BudgetBasis::AtLeast { at_least } => format!(
            "{word}: {hops} together take longer than {deadline} in at least {} of cycles, however \
             they depend on each other ({allowed})",
            shares.at_least(at_least)
        ),
        BudgetBasis::Unsplit { longer } => format!(
            "{word}: {} longer than {deadline} and in no hop: nothing came out until the end, or the way through \
             the chain was not kept ({allowed})",
            match longer {
                1 => "1 reaction was".to_owned(),
                longer => format!("{} reactions were", words::count(longer)),
            }
        ),
        BudgetBasis::AnyDependence if budget.outcome == Outcome::Pass => format!(
            "{word}: {hops} together take longer than {deadline} in at most {} of cycles, however \
             they depend on each other ({allowed})",
            shares.at_most(budget.at_most)
        ),
        BudgetBasis::AnyDependence
            if budget
                .whole
                .as_ref()
                .is_some_and(|whole| whole.at_most <= budget.at_most) =>
        {
            let at_most = budget.whole.as_ref().map_or(1.0, |whole| whole.at_most);
            format!(
                "{word}: it is shown only that the whole path takes longer than {deadline} in at \
                 most {} of cycles ({allowed})",
                shares.at_most(at_most)
            )
        }
        BudgetBasis::AnyDependence => format!(
            "{word}: it is shown only that {hops} together take longer than {deadline} in at most \
             {} of cycles, however they depend on each other ({allowed})",
            shares.at_most(budget.at_most)
        ),
    }
}

/// Why it is not valid.
fn invalid(budget: &Budget) -> Vec<String> {
    let of = |name: &str, reasons: &[punctual_record::InvalidReason]| -> Vec<String> {
        let reasons = reasons.iter().map(verdict::reason);
        reasons.map(|why| format!("{name}: {why}")).collect()
    };
    let hops = budget.hops.iter();
    let mut all: Vec<String> = hops.flat_map(|hop| of(&hop.name, &hop.invalid)).collect();
    if let Some(whole) = &budget.whole {
        all.extend(of("the whole path", &whole.invalid));
    }
    all
}

/// The summary, with a final newline.
#[must_use]
pub fn summary(budget: &Budget, style: &Style) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in wrap(&sentence(budget), style.columns()) {
        lines.push(style.paint(terminal::tone(Some(budget.outcome)), &line));
    }
    lines.push(String::new());
    lines.extend(table(budget, style));
    for (title, text) in statements(budget) {
        lines.push(String::new());
        lines.extend(fact_lines(style, title, &text));
    }
    let lines = lines.iter().map(|line| cut(line, style.columns()) + "\n");
    lines.collect()
}

/// What a budget says beside its table, with titles.
#[must_use]
pub fn statements(budget: &Budget) -> Vec<(&'static str, String)> {
    let mut statements = vec![("Deadline", of_the_deadline(budget))];
    if let Some(common) = &budget.common {
        let blocks = words::plural(common.blocks, "block", "blocks");
        statements.push((
            "Same time",
            format!(
                "the hops were measured at the same time: in {} of {blocks} of {} the highest \
                 times of all hops add up to more than {}; in the others no sum can have been longer",
                words::count(common.possible),
                words::duration(common.block_ns),
                deadline(budget)
            ),
        ));
    }
    if let Some(whole) = &budget.whole {
        statements.push(("Whole path", of_the_whole(budget, whole)));
    }
    // A longer run has them too.
    let is_unsplit = matches!(budget.basis, BudgetBasis::Unsplit { .. });
    if budget.outcome == Outcome::Inconclusive && !is_unsplit {
        statements.push((TO_PASS, to_pass(budget)));
    }
    statements
}

fn of_the_deadline(budget: &Budget) -> String {
    let observed = [
        budget.independent.above_deadline,
        budget.any_dependence.above_deadline,
        budget.at_most,
    ];
    let shares = Shares::for_values(&observed);
    format!(
        "the sum is longer than {} in {} of cycles if no hop depends on another (no verdict rests on \
         that); in at most {} however they depend on each other, as observed; in at most {} with \
         {} confidence",
        deadline(budget),
        shares.text(budget.independent.above_deadline),
        shares.at_most(budget.any_dependence.above_deadline),
        shares.at_most(budget.at_most),
        words::percent(budget.demand.confidence)
    )
}

fn of_the_whole(budget: &Budget, whole: &WholeFigures) -> String {
    let shares = Shares::for_values(&[whole.observed, whole.at_least, whole.at_most]);
    let mut text = format!(
        "{}, in {} of {} cycles longer, with a bound of at most {}",
        whole.outcome.word(),
        shares.text(whole.observed),
        words::count(whole.cycles),
        shares.at_most(whole.at_most)
    );
    if whole.disproves(budget.at_most) {
        text.push_str(
            "; that is more often than its hops allow: a hop is missing from the budget, or was \
             measured under other conditions",
        );
    }
    text
}

/// What each measured hop must show.
fn to_pass(budget: &Budget) -> String {
    let measured = |hop: &&HopFigures| matches!(hop.origin, HopOrigin::Run { .. });
    let count = budget.hops.iter().filter(measured).count();
    if count == 0 {
        return "measure the hops whose distributions are given, or give them better ones"
            .to_owned();
    }
    let each = budget.demand.allowed / count as f64;
    let parts: Vec<String> = budget
        .hops
        .iter()
        .filter(measured)
        .map(|hop| match &hop.share {
            Some(share) => format!("{} {}", hop.name, words::duration(share.within_ns)),
            None => format!("{} (no part is left for it)", hop.name),
        })
        .collect();
    format!(
        "each measured hop must be shown to take longer than its part in at most {} of cycles: {}. \
         Longer runs show more; so do parts that are fixed beforehand (within = \"...\")",
        Shares::for_values(&[each]).at_most(each),
        parts.join(", ")
    )
}

fn table(budget: &Budget, style: &Style) -> Vec<String> {
    let percent = |quantile: &f64| format!("p{}", (quantile * 1e6).round() / 1e4);
    let mut head = vec![Cell::new("hop"), Cell::new("cycles")];
    head.extend(BUDGET_QUANTILES.iter().map(|it| Cell::new(percent(it))));
    head.extend([Cell::new("part"), Cell::new("longer at most")]);
    let mut rows = vec![head];
    let at_most: Vec<f64> = budget
        .hops
        .iter()
        .filter_map(|hop| Some(hop.share?.at_most))
        .collect();
    let shares = Shares::for_values(&at_most);
    for hop in &budget.hops {
        let cycles = match hop.origin {
            HopOrigin::Run { cycles } => words::count(cycles),
            HopOrigin::Constant => "constant".to_owned(),
            HopOrigin::Known => "given".to_owned(),
        };
        let mut row = vec![Cell::new(&hop.name), Cell::new(cycles)];
        row.extend(quantiles(&hop.quantiles_ns));
        let (part, longer) = hop.share.map_or((String::new(), String::new()), |share| {
            (
                words::duration(share.within_ns),
                shares.at_most(share.at_most),
            )
        });
        row.extend([Cell::new(part), Cell::new(longer)]);
        rows.push(row);
    }
    for (name, sum) in [
        ("independent", &budget.independent),
        ("any dependence", &budget.any_dependence),
    ] {
        rows.push(sum_row(name, sum));
    }
    let lines = table::set(&rows, style.columns(), style).into_iter();
    lines.map(|line| line.trim_end().to_owned()).collect()
}

fn sum_row(name: &str, sum: &SumFigures) -> Vec<Cell> {
    let mut row = vec![Cell::toned(name, Tone::Bold), Cell::new("")];
    row.extend(quantiles(&sum.quantiles_ns));
    row.extend([Cell::new(""), Cell::new("")]);
    row
}

fn quantiles(quantiles: &[Option<u64>]) -> impl Iterator<Item = Cell> + '_ {
    let text = |at: &Option<u64>| at.map_or_else(|| "—".to_owned(), words::duration);
    quantiles.iter().map(move |at| Cell::new(text(at)))
}
