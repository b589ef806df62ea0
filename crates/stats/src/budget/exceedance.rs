//! How often a time is exceeded, as a staircase that is nowhere below the truth.

use crate::Histogram;

/// From `at_ns` to the next step, the time is exceeded with this probability at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// In ns.
    pub at_ns: u64,
    /// The probability that the time is longer.
    pub above: f64,
}

/// A time is at most `at_ns` with this probability at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Within {
    /// In ns.
    pub at_ns: u64,
    /// The probability that the time is no longer.
    pub probability: f64,
}

/// Why a distribution can't be made of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceedanceError {
    /// There is no point.
    Empty,
    /// A probability is not in 0..=1. Which point, from 0.
    NoProbability(usize),
    /// A time or a probability is not above the one before it. Which point, from 0.
    NotAscending(usize),
}

/// How often a time is exceeded: 1 before the first step, and falling.
#[derive(Debug, Clone, PartialEq)]
pub struct Exceedance {
    /// `at_ns` rises, `above` falls, both strictly.
    steps: Vec<Step>,
    /// It is always longer than this, which no step says.
    longer_than_ns: u64,
}

impl Exceedance {
    /// A time that is always the same.
    #[must_use]
    pub fn constant(at_ns: u64) -> Self {
        let step = Step { at_ns, above: 0.0 };
        Self::of_steps(vec![step])
    }

    /// As a histogram has it, each sample at the upper end of its bucket; `None` without
    /// samples. `unseen` cycles had no sample: they are taken to be longer than any time.
    #[must_use]
    pub fn of_histogram(histogram: &Histogram, unseen: u64) -> Option<Self> {
        let total = histogram
            .count()
            .checked_add(unseen)
            .filter(|_| !histogram.is_empty())?;
        let mut left = total;
        let steps = histogram.buckets().map(|bucket| {
            left = left.saturating_sub(bucket.count);
            Step {
                at_ns: bucket.high_ns.min(histogram.max().unwrap_or(u64::MAX)),
                above: left as f64 / total as f64,
            }
        });
        Some(Self::of_steps(steps.collect()))
    }

    /// From points `(time in ns, share at or below it)`, both ascending. Between two points the time
    /// is taken to be the later one; beyond the last it is longer than any time, unless its
    /// share is 1.
    ///
    /// # Errors
    /// What is wrong, and with which point.
    pub fn of_points(points: &[(u64, f64)]) -> Result<Self, ExceedanceError> {
        if points.is_empty() {
            return Err(ExceedanceError::Empty);
        }
        let mut steps: Vec<Step> = Vec::with_capacity(points.len());
        let mut longer_than_ns = 0;
        for (index, (at_ns, share)) in points.iter().copied().enumerate() {
            if !(0.0..=1.0).contains(&share) {
                return Err(ExceedanceError::NoProbability(index));
            }
            let above = 1.0 - share;
            let before = steps.last();
            if before.is_some_and(|before| at_ns <= before.at_ns || above >= before.above) {
                return Err(ExceedanceError::NotAscending(index));
            }
            if above < 1.0 {
                steps.push(Step { at_ns, above });
            } else {
                longer_than_ns = at_ns;
            }
        }
        Ok(Self {
            steps,
            longer_than_ns,
        })
    }

    fn of_steps(steps: Vec<Step>) -> Self {
        Self {
            steps,
            longer_than_ns: 0,
        }
    }

    /// The steps.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The probability that the time is longer than this, at most.
    #[must_use]
    pub fn above(&self, at_ns: u64) -> f64 {
        let next = self.steps.partition_point(|step| step.at_ns <= at_ns);
        let step = next.checked_sub(1).map(|index| self.steps[index]);
        step.map_or(1.0, |step| step.above)
    }

    /// The probability that the time is longer than this, at least, where the steps are what was
    /// exceeded exactly so often: that of the next step, and 0 beyond the last.
    #[must_use]
    pub fn above_at_least(&self, at_ns: u64) -> f64 {
        let next = self.steps.partition_point(|step| step.at_ns < at_ns);
        self.steps.get(next).map_or(0.0, |step| step.above)
    }

    /// How often the time is at most this long, at most: each step where it is exceeded exactly so
    /// often, and that no time is negative.
    #[must_use]
    pub fn within(&self) -> Vec<Within> {
        let longer_than = [0, self.longer_than_ns].map(|at_ns| Within {
            at_ns,
            probability: 0.0,
        });
        let open = self.steps.iter().filter(|step| step.above > 0.0);
        let steps = open.map(|step| Within {
            at_ns: step.at_ns,
            probability: 1.0 - step.above,
        });
        longer_than.into_iter().chain(steps).collect()
    }

    /// The shortest time in ns that is exceeded with this probability at most; `None` if there is
    /// none.
    #[must_use]
    pub fn exceeded_at_most(&self, probability: f64) -> Option<u64> {
        let first = self.steps.partition_point(|step| step.above > probability);
        self.steps.get(first).map(|step| step.at_ns)
    }

    /// Each step's time, with the probability of just this time; and that of longer than any.
    fn masses(&self) -> (impl Iterator<Item = (u64, f64)> + '_, f64) {
        let mut before = 1.0;
        let masses = self.steps.iter().map(move |step| {
            let mass = before - step.above;
            before = step.above;
            (step.at_ns, mass)
        });
        let endless = self.steps.last().map_or(1.0, |step| step.above);
        (masses, endless)
    }

    /// The sum of two independent times, with at most so many steps.
    #[must_use]
    pub fn plus_independent(&self, other: &Self, most: usize) -> Self {
        let (one, other) = (self.clone().thinned(most), other.clone().thinned(most));
        let mut atoms: Vec<(u64, f64)> = Vec::new();
        let (others, other_endless) = other.masses();
        let others: Vec<(u64, f64)> = others.collect();
        let (its, endless) = one.masses();
        for (at, mass) in its {
            let sums = others.iter();
            atoms.extend(sums.map(|(with, its)| (at.saturating_add(*with), mass * its)));
        }
        atoms.sort_unstable_by_key(|(at, _)| *at);
        // From the end, where the probabilities are small, so that none is lost in rounding.
        let mut above = 1.0 - (1.0 - endless) * (1.0 - other_endless);
        let mut steps: Vec<Step> = Vec::new();
        for (at_ns, mass) in atoms.into_iter().rev() {
            match steps.last() {
                Some(last) if last.at_ns == at_ns => {}
                _ => steps.push(Step { at_ns, above }),
            }
            above += mass;
        }
        steps.reverse();
        Self::of_candidates(steps, most)
    }

    /// The sum of two times that depend on each other in any way, with at most so many steps.
    #[must_use]
    pub fn plus_any(&self, other: &Self, most: usize) -> Self {
        let (one, other) = (self.clone().thinned(most), other.clone().thinned(most));
        let sums = one.steps.iter().flat_map(|a| {
            other.steps.iter().map(|b| Step {
                at_ns: a.at_ns.saturating_add(b.at_ns),
                above: a.above + b.above,
            })
        });
        let mut sums: Vec<Step> = sums.filter(|step| step.above < 1.0).collect();
        let lowest_first = |a: &Step, b: &Step| a.above.total_cmp(&b.above);
        sums.sort_unstable_by(|a, b| a.at_ns.cmp(&b.at_ns).then(lowest_first(a, b)));
        Self::of_candidates(sums, most)
    }

    /// The staircase below these steps, which are in order of time.
    fn of_candidates(candidates: Vec<Step>, most: usize) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for step in candidates {
            match steps.last() {
                Some(last) if last.above <= step.above => {}
                _ => steps.push(step),
            }
        }
        Self::of_steps(steps).thinned(most)
    }

    /// With at most so many steps: what is left out is rounded up.
    fn thinned(mut self, most: usize) -> Self {
        let most = most.max(2);
        // Steps nearer to each other than this, in time and in probability, become one.
        let mut nearness = 1e-4;
        while self.steps.len() > most {
            let mut kept: Vec<Step> = Vec::with_capacity(self.steps.len());
            for step in self.steps.iter().rev() {
                let is_near = kept.last().is_some_and(|later| {
                    let in_time =
                        (later.at_ns - step.at_ns) as f64 <= nearness * later.at_ns as f64;
                    in_time || step.above - later.above <= nearness * step.above
                });
                if !is_near {
                    kept.push(*step);
                }
            }
            kept.reverse();
            self.steps = kept;
            nearness *= 2.0;
        }
        self
    }
}
