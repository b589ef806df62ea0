//! Why a comparison is not fair, or says less than it seems to.

use punctual_record::Field;
use serde::Serialize;

use crate::verdict;
use punctual_record::conditions::{Aspect, Difference, Role, differences};
use punctual_record::{Run, State, invalid_reasons};

/// A run by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Named {
    /// 0 for A, 1 for B.
    pub side: usize,
    /// Its place on the side from 1 on; absent where it is alone.
    pub place: Option<usize>,
}

/// One such reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Warning {
    /// The sides were measured in different ways.
    Method {
        /// In what.
        aspects: Vec<Aspect>,
    },
    /// Runs of one side differ among themselves.
    WithinSide {
        /// 0 for A, 1 for B.
        side: usize,
        /// In what.
        aspects: Vec<Aspect>,
    },
    /// A run is not valid.
    Invalid {
        /// Which.
        run: Named,
        /// The first reason.
        reason: String,
        /// How many more there are.
        more: usize,
    },
    /// A run lost samples.
    Lost {
        /// Which.
        run: Named,
        /// How many.
        samples: u64,
    },
    /// A run's histogram lacks samples.
    Overflowed {
        /// Which.
        run: Named,
        /// How many of them.
        samples: u64,
        /// From where on; absent where there is no histogram at all.
        from_ns: Option<u64>,
    },
    /// A run is unfinished.
    Unfinished {
        /// Which.
        run: Named,
    },
    /// The load of a run is not known.
    LoadUnknown {
        /// Which.
        run: Named,
    },
    /// One side was measured more than twice as long.
    Longer,
}

pub(super) fn of(first: &[Run], second: &[Run], differences: &[Difference]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let methods: Vec<_> = differences
        .iter()
        .filter(|d| d.role == Role::Method)
        .map(|d| d.aspect)
        .collect();
    if !methods.is_empty() {
        warnings.push(Warning::Method { aspects: methods });
    }
    for (side, runs) in [first, second].into_iter().enumerate() {
        let aspects = among(runs);
        if !aspects.is_empty() {
            warnings.push(Warning::WithinSide { side, aspects });
        }
    }
    for (side, runs) in [first, second].into_iter().enumerate() {
        for (at, run) in runs.iter().enumerate() {
            let place = (runs.len() > 1).then_some(at + 1);
            of_run(run, Named { side, place }, &mut warnings);
        }
    }
    let measured = |runs: &[Run]| {
        let known = runs.iter().all(|run| run.knows(Field::MeasuredTime));
        let longest = runs.iter().map(|run| run.measured_ns).max();
        longest.filter(|_| known)
    };
    if let Some((a, b)) = measured(first).zip(measured(second))
        && a.max(b) > a.min(b).saturating_mul(2)
    {
        warnings.push(Warning::Longer);
    }
    warnings
}

/// In what that matters runs of one side differ.
fn among(runs: &[Run]) -> Vec<Aspect> {
    let mut aspects = Vec::new();
    for other in runs.iter().skip(1) {
        for difference in differences(&runs[0], other) {
            if difference.role != Role::Detail && !aspects.contains(&difference.aspect) {
                aspects.push(difference.aspect);
            }
        }
    }
    aspects
}

fn of_run(run: &Run, named: Named, warnings: &mut Vec<Warning>) {
    let lost = run
        .threads
        .iter()
        .fold(0_u64, |sum, thread| sum.saturating_add(thread.lost));
    let reasons = invalid_reasons(run);
    let imported = run.imported.as_ref();
    if let Some(imported) = imported.filter(|_| lost > 0) {
        let any = run.threads.iter().any(|thread| thread.latency.count > 0);
        warnings.push(Warning::Overflowed {
            run: named,
            samples: lost,
            from_ns: imported.kept_below_ns.filter(|_| any),
        });
    } else if let Some(reason) = reasons.first() {
        warnings.push(Warning::Invalid {
            run: named,
            reason: verdict::reason(reason),
            more: reasons.len() - 1,
        });
    } else if lost > 0 {
        warnings.push(Warning::Lost {
            run: named,
            samples: lost,
        });
    }
    if run.state == State::Unfinished {
        warnings.push(Warning::Unfinished { run: named });
    }
    if !run.knows(Field::Load) {
        warnings.push(Warning::LoadUnknown { run: named });
    }
}
