//! Judges a budget. The verdict rests on a bound that holds however the hops depend on each other, or
//! on a run of the whole path; never on independence.

use crate::document::Printed;
use punctual_stats::budget::{
    Exceedance, Within, at_least_under_any_dependence, best_split, common_blocks, independent,
    under_any_dependence,
};
use punctual_stats::histogram::DecodeError;
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::Outcome;

use super::known::{Known, Measured};
use super::{
    BUDGET_QUANTILES, Budget, BudgetBasis, BudgetDemand, CommonFigures, Hop, HopFigures, HopShare,
    SumFigures, Whole, WholeFigures,
};
use crate::Run;

/// Times at which a hop is bounded where its part of the deadline is not given: fixed before
/// the data are seen, from a 256th of the deadline to all of it, each 1.13 times the one before.
const LEVELS: i32 = 48;
const LOWEST_LEVEL: f64 = 1.0 / 256.0;

/// What the time of day and the monotonic clock may differ by between two runs since one boot: a run
/// is set up between both readings. Two boots are further apart.
const BOOTS_APART_NS: i128 = 60_000_000_000;

/// Judges hops, and the whole path where a run measured it.
///
/// # Errors
/// [`DecodeError`]; a run that was read by [`crate::Document::read`] has no such fault.
pub fn judge(
    demand: &BudgetDemand,
    hops: &[Hop],
    whole: Option<&Whole>,
) -> Result<Budget, DecodeError> {
    let known = hops.iter().map(Known::of).collect::<Result<Vec<_>, _>>()?;
    let whole = whole
        .map(|whole| Measured::of(&whole.run, whole.of))
        .transpose()?;
    Ok(judged(demand, &known, whole.as_ref()))
}

/// The same, of what is known already.
pub(super) fn judged(
    demand: &BudgetDemand,
    known: &[Known<'_>],
    whole: Option<&Measured<'_>>,
) -> Budget {
    let parts: Vec<Exceedance> = known.iter().map(|it| it.seen.clone()).collect();
    // The doubt is shared among all that is concluded: each run, and the whole.
    let measured = known.iter().filter(|it| it.measured.is_some()).count() as f64;
    let doubt = (1.0 - demand.confidence) / if whole.is_some() { 2.0 } else { 1.0 };
    let of_a_hop = doubt / measured.max(1.0);

    let bounded: Vec<Exceedance> = known
        .iter()
        .map(|it| bounded(it, demand.deadline_ns, of_a_hop))
        .collect();
    let split = best_split(&bounded, demand.deadline_ns);
    let at_most = split.as_ref().map_or(1.0, |split| split.above);
    // What exceeds the deadline for sure is concluded in two ways.
    let one_hop = least(known, demand, of_a_hop / 2.0);
    let together = || at_least(known, demand.deadline_ns, of_a_hop / 2.0);
    // A chain that went silent had few of them, and none of what it should have had then.
    let measured_parts = known.iter().filter_map(|it| it.measured.as_ref());
    let unsplit = measured_parts
        .chain(whole)
        .map(|it| it.unsplit_longer(demand.deadline_ns));
    let unsplit = unsplit.max().unwrap_or(0);
    let whole = whole.map(|whole| whole_figures(whole, demand, doubt));

    let mut figures: Vec<HopFigures> = known
        .iter()
        .map(|it| HopFigures {
            name: it.name.clone(),
            origin: it.origin,
            quantiles_ns: quantiles(&it.seen),
            max_ns: it.measured.as_ref().and_then(|it| it.view().worst_ns()),
            share: None,
            invalid: it.invalid.clone(),
        })
        .collect();
    for (index, share) in split.iter().flat_map(|it| it.shares.iter().enumerate()) {
        figures[index].share = Some(HopShare {
            within_ns: share.within_ns,
            observed: parts[index].above(share.within_ns),
            at_most: share.above,
        });
    }
    let (outcome, basis) = outcome(
        demand,
        &figures,
        at_most,
        (one_hop, together),
        whole.as_ref(),
    );
    let (outcome, basis) = match outcome {
        Outcome::Pass | Outcome::Inconclusive if unsplit > 0 => (
            Outcome::Inconclusive,
            BudgetBasis::Unsplit { longer: unsplit },
        ),
        _ => (outcome, basis),
    };
    let sum = |sum: &Exceedance| SumFigures {
        above_deadline: sum.above(demand.deadline_ns),
        quantiles_ns: quantiles(sum),
    };
    Budget {
        version: Budget::VERSION,
        demand: *demand,
        outcome,
        basis,
        independent: sum(&independent(&parts)),
        any_dependence: sum(&under_any_dependence(&parts)),
        hops: figures,
        at_most,
        // An unsplit reaction is in no block.
        common: common(known, demand.deadline_ns).filter(|_| unsplit == 0),
        whole,
    }
}

/// How often a hop exceeds a time at most: a measured one at levels that were fixed beforehand.
fn bounded(known: &Known<'_>, deadline_ns: u64, doubt: f64) -> Exceedance {
    let Some(measured) = &known.measured else {
        return known.seen.clone();
    };
    let mut points: Vec<(u64, f64)> = Vec::new();
    for (level_ns, (_, upper)) in at_levels(measured, known.within_ns, deadline_ns, doubt) {
        let share = 1.0 - upper.clamp(0.0, 1.0);
        let is_better = points
            .last()
            .is_none_or(|(at, before)| level_ns > *at && share > *before);
        if is_better && share > 0.0 {
            points.push((level_ns, share));
        }
    }
    Exceedance::of_points(&points).unwrap_or_else(|_| Exceedance::constant(u64::MAX))
}

/// How often a measured hop exceeds each level: at least, and at most, with this doubt of all together.
fn at_levels(
    measured: &Measured<'_>,
    within_ns: Option<u64>,
    deadline_ns: u64,
    doubt: f64,
) -> impl Iterator<Item = (u64, (f64, f64))> + use<> {
    let levels: Vec<u64> = match within_ns {
        Some(within_ns) => vec![within_ns],
        None => (0..LEVELS)
            .map(|level| level_ns(deadline_ns, level))
            .collect(),
    };
    let bounds = measured.bounds(&levels, doubt / levels.len() as f64);
    levels.into_iter().zip(bounds)
}

/// How often the hops together exceed the deadline at least, however they depend on each other.
fn at_least(known: &[Known<'_>], deadline_ns: u64, doubt: f64) -> f64 {
    let Some(left_ns) = left_ns(known, deadline_ns) else {
        return 1.0;
    };
    let within = |it: &Known<'_>| {
        let mut within = it.seen.within();
        if let Some(measured) = &it.measured {
            within.truncate(1);
            let levels = at_levels(measured, it.within_ns, left_ns, doubt);
            within.extend(levels.map(|(at_ns, (lower, _))| Within {
                at_ns,
                probability: 1.0 - lower.clamp(0.0, 1.0),
            }));
        }
        within
    };
    let open = known.iter().filter(|it| it.constant_ns.is_none());
    let hops: Vec<Vec<Within>> = open.map(within).collect();
    at_least_under_any_dependence(&hops, left_ns)
}

fn level_ns(deadline_ns: u64, level: i32) -> u64 {
    let down = f64::from(LEVELS - 1 - level) / f64::from(LEVELS - 1);
    (deadline_ns as f64 * LOWEST_LEVEL.powf(down)) as u64
}

/// What the constants leave of the deadline; none where they alone take longer.
fn left_ns(known: &[Known<'_>], deadline_ns: u64) -> Option<u64> {
    let constants = known.iter().filter_map(|it| it.constant_ns);
    deadline_ns.checked_sub(constants.fold(0u64, u64::saturating_add))
}

/// The hop that alone exceeds the deadline most often for sure, beside the constants of the others.
fn least(known: &[Known<'_>], demand: &BudgetDemand, doubt: f64) -> Option<(usize, f64)> {
    let left_ns = left_ns(known, demand.deadline_ns);
    let of = |(index, it): (usize, &Known<'_>)| {
        let Some(left_ns) = left_ns else {
            return (index, 1.0);
        };
        let at_least = match (it.constant_ns, &it.measured) {
            (Some(_), _) => 0.0,
            (None, Some(measured)) => {
                let bounds = measured.bounds(&[left_ns], doubt);
                bounds.first().map_or(0.0, |(lower, _)| *lower)
            }
            // Between two points nothing is said but that the later one is not exceeded more often.
            (None, None) => it.seen.above_at_least(left_ns),
        };
        (index, at_least)
    };
    known
        .iter()
        .enumerate()
        .map(of)
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

fn whole_figures(whole: &Measured<'_>, demand: &BudgetDemand, doubt: f64) -> WholeFigures {
    let requirement = Requirement::MissProbability {
        deadline_ns: demand.deadline_ns,
        allowed: demand.allowed,
    };
    let judgement = whole.judged(&[requirement], 1.0 - doubt);
    let bound = judgement.verdict.requirements.first();
    let bound = bound.map(|it| &it.bound);
    let bounds = bound.map_or((0.0, 1.0), |it| (it.lower, it.upper));
    let view = whole.view();
    let (at_least, at_most) = whole.with_unknown(&view, bounds, demand.deadline_ns);
    WholeFigures {
        outcome: match judgement.verdict.outcome {
            _ if !judgement.reasons.is_empty() => Outcome::Invalid,
            Outcome::Pass if whole.unsplit_longer(demand.deadline_ns) > 0 => Outcome::Inconclusive,
            outcome => outcome,
        },
        cycles: bound.map_or(0, |it| it.cycles),
        observed: bound.map_or(0.0, |it| it.observed_probability),
        at_least,
        at_most,
        quantiles_ns: whole
            .seen()
            .1
            .as_ref()
            .map_or_else(|| vec![None; BUDGET_QUANTILES.len()], quantiles),
        max_ns: view.worst_ns(),
        invalid: judgement.reasons,
    }
}

impl WholeFigures {
    /// Whether the whole path is longer more often than its hops allow, which is at most so often: they are not all
    /// that it takes.
    #[must_use]
    pub fn disproves(&self, at_most: f64) -> bool {
        is_more(self.at_least, at_most)
    }
}

fn outcome(
    demand: &BudgetDemand,
    hops: &[HopFigures],
    at_most: f64,
    (one_hop, together): (Option<(usize, f64)>, impl FnOnce() -> f64),
    whole: Option<&WholeFigures>,
) -> (Outcome, BudgetBasis) {
    let whole_is_valid = whole.is_none_or(|whole| whole.outcome != Outcome::Invalid);
    if hops.iter().any(|hop| !hop.invalid.is_empty()) || !whole_is_valid {
        return (Outcome::Invalid, BudgetBasis::AnyDependence);
    }
    if let Some(whole) = whole
        && matches!(whole.outcome, Outcome::Pass | Outcome::Fail)
    {
        return (whole.outcome, BudgetBasis::Whole);
    }
    if let Some((hop, at_least)) = one_hop
        && is_more(at_least, demand.allowed)
    {
        return (Outcome::Fail, BudgetBasis::OneHop { hop, at_least });
    }
    let disproved = whole.is_some_and(|whole| whole.disproves(at_most));
    if !hops.is_empty() && !disproved && !is_more(at_most, demand.allowed) {
        return (Outcome::Pass, BudgetBasis::AnyDependence);
    }
    let at_least = together();
    if is_more(at_least, demand.allowed) {
        return (Outcome::Fail, BudgetBasis::AtLeast { at_least });
    }
    (Outcome::Inconclusive, BudgetBasis::AnyDependence)
}

/// Whether a probability is above another one by more than binary fractions of decimal ones and their
/// sums differ: 1 - 0.99 is above 0.01, and 0.1 + 0.2 above 0.3.
fn is_more(one: f64, than: f64) -> bool {
    one > than * (1.0 + 1e-9) + 1e-15
}

fn quantiles(of: &Exceedance) -> Vec<Option<u64>> {
    let above = BUDGET_QUANTILES.iter().map(|quantile| 1.0 - quantile);
    // As `is_more`.
    above
        .map(|above| of.exceeded_at_most(above * (1.0 + 1e-9)))
        .collect()
}

/// The blocks of time in which all measured hops were measured, on one machine since one boot; the
/// others count with their longest time.
fn common(known: &[Known<'_>], deadline_ns: u64) -> Option<CommonFigures> {
    let all = || known.iter().filter_map(|it| it.measured.as_ref());
    let first = all().next()?.run;
    let boot = |run: &Run| -> Option<i128> {
        let wall = crate::time::parse_rfc3339(&run.started)?;
        let wall = wall.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos();
        Some(i128::try_from(wall).ok()? - i128::from(run.start_ns?))
    };
    let its_boot = boot(first)?;
    let is_there = |of: &Measured<'_>| {
        let near = boot(of.run).is_some_and(|it| (it - its_boot).abs() < BOOTS_APART_NS);
        let same = of.run.system.hostname == first.system.hostname;
        near && same && !of.timeline().rows.is_empty() && of.has_all_times()
    };
    if all().count() < 2 || !all().all(is_there) {
        return None;
    }
    let given: u64 = known
        .iter()
        .filter(|it| it.measured.is_none())
        .map(|it| it.seen.exceeded_at_most(0.0).unwrap_or(u64::MAX))
        .fold(0u64, u64::saturating_add);
    let width_ns = all().map(|of| of.timeline().row_ns).max()?.max(1);
    let start_ns = all().filter_map(|of| of.run.start_ns).max()?;
    let end = |of: &Measured<'_>| {
        let rows = of.timeline().rows.len() as u64;
        let length = of.timeline().row_ns.saturating_mul(rows);
        of.run.start_ns.unwrap_or(0).saturating_add(length)
    };
    let end_ns = all().map(end).min()?;
    let blocks = end_ns.checked_sub(start_ns)? / width_ns;
    let stretch_ns = width_ns.saturating_add(deadline_ns);
    let highest = |of: &Measured<'_>| -> Vec<Option<u64>> {
        let open = of.has_open_skips();
        (0..blocks.min(u64::from(u32::MAX)))
            // What began in a block ends within the deadline after it, or has missed it anyway.
            .map(|block| highest_in(of, open, start_ns + block * width_ns, stretch_ns))
            .collect()
    };
    let hops: Vec<Vec<Option<u64>>> = all().map(highest).collect();
    let common = common_blocks(&hops, deadline_ns.saturating_sub(given));
    (common.blocks > 0).then(|| CommonFigures::of(width_ns, common))
}

/// The highest of the times in a stretch: of all rows that overlap it. One with a skipped cycle has none where such
/// cycles are `open`.
fn highest_in(of: &Measured<'_>, open: bool, from_ns: u64, width_ns: u64) -> Option<u64> {
    let (timeline, start_ns) = (of.timeline(), of.run.start_ns?);
    let row_ns = timeline.row_ns.max(1);
    let since = from_ns.checked_sub(start_ns)?;
    let first = usize::try_from(since / row_ns).ok()?;
    let last = usize::try_from(since.saturating_add(width_ns - 1) / row_ns).ok()?;
    let rows = &timeline.rows;
    let rows = rows.get(first..=last.min(rows.len().checked_sub(1)?))?;
    if open && rows.iter().any(|row| row.missed > 0) {
        return Some(u64::MAX);
    }
    let measured = rows.iter().filter(|row| row.count > 0);
    measured.map(|row| row.max_ns).max()
}
