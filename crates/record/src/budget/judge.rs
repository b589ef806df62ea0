//! Judges a budget. The verdict rests on a bound that holds however the hops depend on each other, or
//! on a run of the whole path; never on independence.

use punctual_stats::budget::{
    Exceedance, best_split, common_blocks, independent, under_any_dependence,
};
use punctual_stats::evidence::RunEvidence;
use punctual_stats::histogram::{DecodeError, Histogram};
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::{Outcome, judge as judge_run};

use super::{
    BUDGET_QUANTILES, BUDGET_VERSION, Budget, BudgetBasis, BudgetDemand, CommonFigures, Hop,
    HopFigures, HopOrigin, HopShare, HopTimes, SumFigures, WholeFigures,
};
use crate::Run;
use crate::evidence::Evidence;
use crate::invalid::InvalidReason;
use crate::judgement::Judgement;

/// Times at which a hop is bounded where its part of the deadline is not given: fixed before
/// the data are seen, from a 256th of the deadline to all of it, each 1.13 times the one before.
const LEVELS: i32 = 48;
const LOWEST_LEVEL: f64 = 1.0 / 256.0;

/// What the time of day and the monotonic clock may differ by between two runs since one boot: a run
/// is set up between both readings. Two boots are further apart.
const BOOTS_APART_NS: i128 = 60_000_000_000;

/// A hop, with what is known of it.
struct Known<'h> {
    hop: &'h Hop,
    origin: HopOrigin,
    /// As it was seen.
    seen: Exceedance,
    evidence: Option<(&'h Run, Evidence)>,
    invalid: Vec<InvalidReason>,
}

/// Judges hops, and the whole path where a run measured it.
///
/// # Errors
/// [`DecodeError`]; a run that was read by [`crate::read()`] has no such fault.
pub fn judge(
    demand: &BudgetDemand,
    hops: &[Hop],
    whole: Option<&Run>,
) -> Result<Budget, DecodeError> {
    let known = hops.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<Exceedance> = known.iter().map(|it| it.seen.clone()).collect();
    // The doubt is shared among all that is concluded: each run, and the whole.
    let measured = known.iter().filter(|it| it.evidence.is_some()).count() as f64;
    let doubt = (1.0 - demand.confidence) / if whole.is_some() { 2.0 } else { 1.0 };
    let of_a_hop = doubt / measured.max(1.0);

    let bounded: Vec<Exceedance> = known
        .iter()
        .map(|it| bounded(it, demand.deadline_ns, of_a_hop))
        .collect();
    let split = best_split(&bounded, demand.deadline_ns);
    let at_most = split.as_ref().map_or(1.0, |split| split.above);
    let one_hop = least(&known, demand, of_a_hop);
    let whole = whole
        .map(|run| whole_figures(run, demand, doubt))
        .transpose()?;

    let mut figures: Vec<HopFigures> = known
        .iter()
        .map(|it| HopFigures {
            name: it.hop.name.clone(),
            origin: it.origin,
            quantiles_ns: quantiles(&it.seen),
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
    let (outcome, basis) = outcome(demand, &figures, at_most, one_hop, whole.as_ref());
    let sum = |sum: &Exceedance| SumFigures {
        above_deadline: sum.above(demand.deadline_ns),
        quantiles_ns: quantiles(sum),
    };
    Ok(Budget {
        version: BUDGET_VERSION,
        demand: *demand,
        outcome,
        basis,
        independent: sum(&independent(&parts)),
        any_dependence: sum(&under_any_dependence(&parts)),
        hops: figures,
        at_most,
        common: common(&known, demand.deadline_ns),
        whole,
    })
}

fn known(hop: &Hop) -> Result<Known<'_>, DecodeError> {
    let (run, cpu) = match &hop.times {
        HopTimes::Constant(ns) => {
            return Ok(given(hop, HopOrigin::Constant, Exceedance::constant(*ns)));
        }
        HopTimes::Known(times) => return Ok(given(hop, HopOrigin::Known, times.clone())),
        HopTimes::Run { run, cpu } => (run, *cpu),
    };
    let evidence = Evidence::decode(run)?;
    let (cycles, seen) = seen(&view(&evidence, run, cpu));
    let verdict = judge_run(&[], &view(&evidence, run, cpu), 0.5);
    let invalid = Judgement::with_verdict(run, verdict).reasons;
    Ok(Known {
        hop,
        origin: HopOrigin::Run { cycles },
        seen: seen.unwrap_or_else(|| Exceedance::constant(u64::MAX)),
        evidence: Some((run, evidence)),
        invalid,
    })
}

/// How many cycles there were, and how often they took longer than a time: as the verdict counts,
/// skipped periods with them.
fn seen(view: &RunEvidence<'_>) -> (u64, Option<Exceedance>) {
    let all = Histogram::merged(view.threads.iter().map(|thread| thread.histogram));
    // Of these nothing is known: longer than any time.
    let unknown = view.lost().saturating_add(view.unseen());
    let cycles = view.cycles().saturating_add(view.lost());
    let mut points: Vec<(u64, f64)> = Vec::new();
    for bucket in all.buckets() {
        let at_ns = bucket.high_ns.min(all.max().unwrap_or(u64::MAX));
        let (late, missed) = (view.late(at_ns).1, view.missed_late(at_ns).1);
        let longer = late.saturating_add(missed).saturating_add(unknown);
        let share = 1.0 - longer as f64 / cycles as f64;
        if share > points.last().map_or(0.0, |(_, before)| *before) {
            points.push((at_ns, share.min(1.0)));
        }
    }
    (cycles, Exceedance::of_points(&points).ok())
}

fn given(hop: &Hop, origin: HopOrigin, seen: Exceedance) -> Known<'_> {
    Known {
        hop,
        origin,
        seen,
        evidence: None,
        invalid: Vec::new(),
    }
}

fn view<'a>(evidence: &'a Evidence, run: &'a Run, cpu: Option<usize>) -> RunEvidence<'a> {
    let mut view = evidence.view(run);
    if let Some(cpu) = cpu {
        let is_its = |of: Option<u32>| of.is_some_and(|of| of as usize == cpu);
        view.threads.retain(|thread| is_its(thread.cpu));
        // What was counted of all threads together does not tell of these.
        view.rows = None;
        view.halves = None;
        view.deadline_ns = None;
    }
    view
}

/// How often a run's times exceed each limit, in ns: at least, and at most, each with this doubt.
fn bounds(known: &Known<'_>, limits: &[u64], doubt: f64) -> Vec<(f64, f64)> {
    let (Some((run, evidence)), HopTimes::Run { cpu, .. }) = (&known.evidence, &known.hop.times)
    else {
        return Vec::new();
    };
    let requirement = |limit_ns: &u64| Requirement::MissProbability {
        deadline_ns: *limit_ns,
        allowed: 0.5,
    };
    let requirements: Vec<Requirement> = limits.iter().map(requirement).collect();
    let verdict = judge_run(&requirements, &view(evidence, run, *cpu), 1.0 - doubt);
    let bounds = verdict.requirements.iter().map(|it| &it.bound);
    bounds.map(|bound| (bound.lower, bound.upper)).collect()
}

/// How often a hop exceeds a time at most: a measured one at levels that were fixed beforehand.
fn bounded(known: &Known<'_>, deadline_ns: u64, doubt: f64) -> Exceedance {
    if known.evidence.is_none() {
        return known.seen.clone();
    }
    let levels: Vec<u64> = match known.hop.within_ns {
        Some(within_ns) => vec![within_ns],
        None => (0..LEVELS)
            .map(|level| level_ns(deadline_ns, level))
            .collect(),
    };
    let each = doubt / levels.len() as f64;
    let mut points: Vec<(u64, f64)> = Vec::new();
    for (level_ns, (_, upper)) in levels.iter().copied().zip(bounds(known, &levels, each)) {
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

fn level_ns(deadline_ns: u64, level: i32) -> u64 {
    let down = f64::from(LEVELS - 1 - level) / f64::from(LEVELS - 1);
    (deadline_ns as f64 * LOWEST_LEVEL.powf(down)) as u64
}

/// The hop that alone exceeds the deadline most often for sure, beside the constants of the others.
fn least(known: &[Known<'_>], demand: &BudgetDemand, doubt: f64) -> Option<(usize, f64)> {
    let constant = |it: &Known<'_>| match it.hop.times {
        HopTimes::Constant(ns) => ns,
        _ => 0,
    };
    let constants = known.iter().map(constant).fold(0u64, u64::saturating_add);
    let of = |(index, it): (usize, &Known<'_>)| {
        let Some(left_ns) = demand.deadline_ns.checked_sub(constants) else {
            return (index, 1.0);
        };
        let at_least = match (&it.hop.times, it.evidence.is_some()) {
            (HopTimes::Constant(_), _) => 0.0,
            (_, true) => {
                let bounds = bounds(it, &[left_ns], doubt);
                bounds.first().map_or(0.0, |(lower, _)| *lower)
            }
            // Between two points nothing is said but that the later one is not exceeded more often.
            (_, false) => it.seen.above_at_least(left_ns),
        };
        (index, at_least)
    };
    known
        .iter()
        .enumerate()
        .map(of)
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

fn whole_figures(
    run: &Run,
    demand: &BudgetDemand,
    doubt: f64,
) -> Result<WholeFigures, DecodeError> {
    let evidence = Evidence::decode(run)?;
    let requirement = Requirement::MissProbability {
        deadline_ns: demand.deadline_ns,
        allowed: demand.allowed,
    };
    let verdict = judge_run(&[requirement], &evidence.view(run), 1.0 - doubt);
    let judgement = Judgement::with_verdict(run, verdict);
    let bound = judgement.verdict.requirements.first().map(|it| &it.bound);
    Ok(WholeFigures {
        outcome: if judgement.reasons.is_empty() {
            judgement.verdict.outcome
        } else {
            Outcome::Invalid
        },
        cycles: bound.map_or(0, |it| it.cycles),
        observed: bound.map_or(0.0, |it| it.observed_probability),
        at_least: bound.map_or(0.0, |it| it.lower),
        at_most: bound.map_or(1.0, |it| it.upper),
        invalid: judgement.reasons,
    })
}

fn outcome(
    demand: &BudgetDemand,
    hops: &[HopFigures],
    at_most: f64,
    one_hop: Option<(usize, f64)>,
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
        && at_least > demand.allowed
    {
        return (Outcome::Fail, BudgetBasis::OneHop { hop, at_least });
    }
    let passes = !hops.is_empty() && at_most <= demand.allowed;
    let outcome = if passes {
        Outcome::Pass
    } else {
        Outcome::Inconclusive
    };
    (outcome, BudgetBasis::AnyDependence)
}

fn quantiles(of: &Exceedance) -> Vec<Option<u64>> {
    let above = BUDGET_QUANTILES.iter().map(|quantile| 1.0 - quantile);
    // A guard against 1 - 0.999 in binary.
    above
        .map(|above| of.exceeded_at_most(above * (1.0 + 1e-9)))
        .collect()
}

/// The blocks of time in which all measured hops were measured, on one machine since one boot; the
/// others count with their longest time.
fn common(known: &[Known<'_>], deadline_ns: u64) -> Option<CommonFigures> {
    let runs = || known.iter().filter_map(|it| Some(it.evidence.as_ref()?.0));
    let first = runs().next()?;
    let boot = |run: &Run| -> Option<i128> {
        let wall = crate::time::parse_rfc3339(&run.started)?;
        let wall = wall.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos();
        Some(i128::try_from(wall).ok()? - i128::from(run.start_ns?))
    };
    let its_boot = boot(first)?;
    let is_there = |run: &Run| {
        let near = boot(run).is_some_and(|it| (it - its_boot).abs() < BOOTS_APART_NS);
        near && run.system.hostname == first.system.hostname && !run.timeline.rows.is_empty()
    };
    if runs().count() < 2 || !runs().all(is_there) {
        return None;
    }
    let given: u64 = known
        .iter()
        .filter(|it| it.evidence.is_none())
        .map(|it| it.seen.exceeded_at_most(0.0).unwrap_or(u64::MAX))
        .fold(0u64, u64::saturating_add);
    let width_ns = runs().map(|run| run.timeline.row_ns).max()?.max(1);
    let start_ns = runs().filter_map(|run| run.start_ns).max()?;
    let end = |run: &Run| {
        let rows = run.timeline.rows.len() as u64;
        let length = run.timeline.row_ns.saturating_mul(rows);
        run.start_ns.unwrap_or(0).saturating_add(length)
    };
    let end_ns = runs().map(end).min()?;
    let blocks = end_ns.checked_sub(start_ns)? / width_ns;
    let highest = |run: &Run| -> Vec<Option<u64>> {
        (0..blocks.min(u64::from(u32::MAX)))
            .map(|block| highest_in(run, start_ns + block * width_ns, width_ns))
            .collect()
    };
    let hops: Vec<Vec<Option<u64>>> = runs().map(highest).collect();
    let common = common_blocks(&hops, deadline_ns.saturating_sub(given));
    (common.blocks > 0).then(|| CommonFigures::of(width_ns, common))
}

/// The highest time of a run in a stretch: of all rows that overlap it.
fn highest_in(run: &Run, from_ns: u64, width_ns: u64) -> Option<u64> {
    let row_ns = run.timeline.row_ns.max(1);
    let since = from_ns.checked_sub(run.start_ns?)?;
    let first = usize::try_from(since / row_ns).ok()?;
    let last = usize::try_from(since.saturating_add(width_ns - 1) / row_ns).ok()?;
    let rows = run
        .timeline
        .rows
        .get(first..=last.min(run.timeline.rows.len().checked_sub(1)?))?;
    let measured = rows.iter().filter(|row| row.count > 0);
    measured.map(|row| row.max_ns).max()
}
