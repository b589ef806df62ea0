//! What is drawn across the pictures of a run: its deadline and what it asked.

use punctual_stats::analysis::Tail;
use punctual_stats::requirement::Requirement;

use super::chart::Marks;
use super::terms::Terms;
use super::{conditions, statements, words};
use punctual_record::Run;

/// The deadline of a run: that of the first requirement that has one for every
/// wake-up.
#[must_use]
pub fn deadline(run: &Run) -> Option<u64> {
    let every = |r: &&Requirement| !matches!(r, Requirement::Percentile { .. });
    run.request
        .requirements
        .iter()
        .find(every)
        .map(Requirement::limit_ns)
}

/// The marks of a run.
#[must_use]
pub fn marks(run: &Run) -> Marks {
    let percentiles = run
        .request
        .requirements
        .iter()
        .filter_map(|requirement| match requirement {
            Requirement::Percentile { limit_ns, .. } => Some((requirement.allowed(), *limit_ns)),
            _ => None,
        })
        .collect();
    let tail = run
        .analysis
        .as_ref()
        .and_then(|analysis| match analysis.tail {
            Tail::Estimate(t) if t.return_cycles >= 1.0 && t.level_ns.is_finite() => Some((
                1.0 / t.return_cycles,
                t.level_ns,
                t.level_lower_ns,
                t.level_upper_ns,
            )),
            _ => None,
        });
    let place = format!(
        "{} {} on {}: {}, {}",
        run.tool.name,
        run.verb,
        run.system.hostname,
        conditions::begun(run),
        words::duration(run.measured_ns)
    );
    let mut heading = vec![place, statements::headline(run).sentence];
    heading.extend(statements::standing(run));
    Marks {
        deadline_ns: deadline(run),
        percentiles,
        tail,
        heading,
        terms: Terms::for_run(run),
    }
}
