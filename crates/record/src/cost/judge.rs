//! From the runs of a command to what they cost.

use std::collections::BTreeMap;

use punctual_stats::Histogram;
use punctual_stats::cost::{
    BreakEven, CostEffect, CostMeasure, Price, Usage, UsagePair, break_even, judge_apart,
    judge_costs, tail_of_runs,
};
use punctual_stats::histogram::MIN_SAMPLES_BEYOND;

use super::{Cost, CostPart, CostResults, CostRun, Tails, TreatmentResult};

/// The prices that a break-even is stated for: of work that is measured from its start to its end,
/// and of work that has its CPUs to itself.
const PRICES: [CostMeasure; 2] = [CostMeasure::Elapsed, CostMeasure::CpuTime];

impl Cost {
    /// Whether the runs with the treatment were made on another machine than those without.
    #[must_use]
    pub fn is_across_reboot(&self) -> bool {
        let mut parts = self.treatments.iter().flat_map(|it| &it.parts);
        parts.any(|part| *part == CostPart::Reboot {})
    }

    /// Puts in what the runs so far say.
    pub fn judge(&mut self) {
        let confidence = self.plan.confidence;
        self.results = Some(if self.is_across_reboot() {
            self.judge_machines(confidence)
        } else {
            self.judge_treatments(confidence)
        });
    }

    fn judge_treatments(&self, confidence: f64) -> CostResults {
        let identical = self.pairs(None, 0);
        let pairs: Vec<Vec<UsagePair>> = (0..self.treatments.len())
            .map(|at| self.pairs(Some(at), 0))
            .collect();
        let judged = judge_costs(&pairs, &identical, confidence);
        let of = |(at, effects): (usize, Vec<CostEffect>)| {
            let runs = |with: bool| {
                let of = move |it: &&CostRun| it.treatment == Some(at) && it.with == with;
                self.runs.iter().filter(of).collect::<Vec<_>>()
            };
            let tails = self.tails(&runs(false), &runs(true));
            let price = |measure: CostMeasure| {
                let effect = effects.iter().find(|it| it.measure == measure)?;
                let resolution = judged.identical.iter().find(|it| it.measure == measure)?;
                let resolution = resolution.farthest();
                Price::of(&pairs[at], measure, confidence, resolution, effect.is_named)
            };
            TreatmentResult {
                pairs: pairs[at].len(),
                break_even: evens(&tails, price),
                tails,
                effects,
            }
        };
        let treatments = judged.treatments.iter().cloned().enumerate().map(of);
        CostResults {
            treatments: treatments.collect(),
            identical_pairs: identical.len(),
            identical: judged.identical,
        }
    }

    fn judge_machines(&self, confidence: f64) -> CostResults {
        let arms = [0, 1].map(|machine| self.pairs(None, machine));
        let judged = judge_apart(&arms[0], &arms[1], confidence);
        let effects = judged.treatments.into_iter().next().unwrap_or_default();
        let runs = |machine: usize| {
            let of = move |it: &&CostRun| it.machine == machine;
            self.runs.iter().filter(of).collect::<Vec<_>>()
        };
        let tails = self.tails(&runs(0), &runs(1));
        // The same runs at the confidence of a part.
        let joint = judge_apart(&arms[0], &arms[1], BreakEven::joint(confidence));
        let joint = joint.treatments.into_iter().next().unwrap_or_default();
        let price = |measure: CostMeasure| {
            let of = |effects: &[CostEffect]| {
                let mut effects = effects.iter();
                effects.find(|it| it.measure == measure).copied()
            };
            let (effect, joint) = (of(&effects)?, of(&joint)?);
            let resolution = of(&judged.identical)?.farthest();
            Some(Price::new(
                effect.ratio,
                joint.interval,
                resolution,
                effect.is_named,
            ))
        };
        let pairs = arms[0].len().min(arms[1].len());
        CostResults {
            identical_pairs: pairs,
            treatments: vec![TreatmentResult {
                pairs,
                break_even: evens(&tails, price),
                tails,
                effects,
            }],
            identical: judged.identical,
        }
    }

    /// The whole pairs of a treatment on a machine.
    fn pairs(&self, treatment: Option<usize>, machine: usize) -> Vec<UsagePair> {
        let mut both: BTreeMap<u64, [Option<Usage>; 2]> = BTreeMap::new();
        for run in &self.runs {
            if run.treatment == treatment && run.machine == machine {
                both.entry(run.pair).or_default()[usize::from(run.with)] = Some(run.usage);
            }
        }
        let whole = both.into_values().filter_map(|[without, with]| {
            Some(UsagePair {
                without: without?,
                with: with?,
            })
        });
        whole.collect()
    }

    fn tails(&self, without: &[&CostRun], with: &[&CostRun]) -> Tails {
        let decoded = [without, with].map(|runs| {
            let wake_ups = runs.iter().filter_map(|run| run.wake_ups.as_ref());
            // Reading a record has checked each of them.
            let of = |it: &super::CostWakeUps| Histogram::try_from(&it.latency).ok();
            wake_ups.clone().filter_map(of).collect::<Vec<Histogram>>()
        });
        if decoded.iter().any(Vec::is_empty) {
            return Tails::NoProbe;
        }
        let sum = |of: fn(&super::CostWakeUps) -> u64| {
            [without, with].map(|runs| -> u64 {
                let of = |run: &&CostRun| run.wake_ups.as_ref().map_or(0, of);
                runs.iter().map(of).fold(0, u64::saturating_add)
            })
        };
        let lost: u64 = sum(|it| it.lost)
            .iter()
            .fold(0, |a, b| a.saturating_add(*b));
        if lost > 0 {
            return Tails::Lost { lost };
        }
        let counts = sum(|it| it.latency.count);
        let part = BreakEven::joint(self.plan.confidence);
        let tails = decoded.each_ref().map(|runs| {
            let runs: Vec<&Histogram> = runs.iter().collect();
            tail_of_runs(&runs, self.plan.quantile, part)
        });
        match tails {
            [Some(without), Some(with)] => Tails::Known {
                without,
                with,
                wake_ups: (counts[0], counts[1]),
                skipped: {
                    let skipped = sum(|it| it.skipped);
                    (skipped[0], skipped[1])
                },
            },
            _ => Tails::TooFew {
                wake_ups: counts[0].min(counts[1]),
                needed: needed(self.plan.quantile),
            },
        }
    }
}

/// Wake-ups that a quantile needs; 1 - 0.999 is not exactly 0.001.
fn needed(quantile: f64) -> u64 {
    (MIN_SAMPLES_BEYOND as f64 / (1.0 - quantile) - 1e-3).ceil() as u64
}

fn evens(tails: &Tails, price: impl Fn(CostMeasure) -> Option<Price>) -> Vec<BreakEven> {
    let Tails::Known { without, with, .. } = *tails else {
        return Vec::new();
    };
    let of = |measure: CostMeasure| {
        let price = price(measure)?;
        Some(BreakEven {
            measure,
            price,
            kind: break_even(without, with, price),
        })
    };
    PRICES.into_iter().filter_map(of).collect()
}
