//! How long an experiment must take.

use serde::{Deserialize, Serialize};

use super::{BlockLatencies, Effect, Measure, known_measures};
use crate::compare::student;
use crate::special::gamma_quantile;

/// More pairs than this are never planned: a year of blocks of 5 s.
const MOST_PAIRS: usize = 3_000_000;

/// How much one measure varies from block to block without any switching.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The measure.
    pub measure: Measure,
    /// Standard deviation of the difference of two blocks that follow each other, of logarithms.
    pub difference_sd: f64,
    /// As many independent differences would say as much about it: a short pilot says little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freedom: Option<f64>,
}

/// How sure the limits of a spread are, on each side.
const SURE_OF_SPREAD: f64 = 0.9;

impl Spread {
    /// The spread of each measure that all blocks of a pilot have. Empty with fewer than three
    /// blocks.
    #[must_use]
    pub fn of_pilot(blocks: &[BlockLatencies]) -> Vec<Spread> {
        if blocks.len() < 3 {
            return Vec::new();
        }
        let spread = |measure| {
            let logs: Vec<f64> = blocks
                .iter()
                .filter_map(|block| block.log(measure))
                .collect();
            // Without an effect the expected difference is 0: it is not estimated.
            let squares: f64 = logs.windows(2).map(|two| (two[1] - two[0]).powi(2)).sum();
            let differences = (logs.len() - 1) as f64;
            Spread {
                measure,
                difference_sd: (squares / differences).sqrt(),
                // Each block stands in two differences. Of n independent normal blocks the
                // relative variance of the mean square is (3n - 4)/(n - 1)^2 (von Neumann 1941),
                // that of a chi-square with so many degrees of freedom.
                freedom: Some(2.0 * differences * differences / (3.0 * differences - 1.0)),
            }
        };
        let measures = known_measures(blocks.iter());
        measures.into_iter().map(spread).collect()
    }

    /// How much the pairs of an effect varied, from its interval at this confidence.
    #[must_use]
    pub fn of_effect(effect: &Effect, pairs: usize, confidence: f64) -> Spread {
        let freedom = pairs.saturating_sub(1).max(1) as f64;
        let half = (effect.interval.1 / effect.interval.0).ln() / 2.0;
        Spread {
            measure: effect.measure,
            difference_sd: half / student(confidence, freedom) * (pairs as f64).sqrt(),
            freedom: Some(freedom),
        }
    }

    /// The spread is at most this, in nine of ten pilots of blocks like these.
    #[must_use]
    pub fn highest(&self) -> Spread {
        self.scaled(1.0 - SURE_OF_SPREAD)
    }

    /// The spread is at least this, in nine of ten pilots.
    #[must_use]
    pub fn lowest(&self) -> Spread {
        self.scaled(SURE_OF_SPREAD)
    }

    /// The limit that follows from this quantile of chi-square.
    fn scaled(&self, probability: f64) -> Spread {
        let factor = self.freedom.map_or(1.0, |freedom| {
            let freedom = freedom.max(1.0);
            (freedom / (2.0 * gamma_quantile(probability, freedom / 2.0))).sqrt()
        });
        Spread {
            difference_sd: self.difference_sd * factor,
            ..*self
        }
    }
}

/// What an experiment must be able to show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Power {
    /// How sure a conclusion must be, within (0, 1).
    pub confidence: f64,
    /// How often an effect of the planned size must be found, within (0.5, 1).
    pub power: f64,
    /// How many tests share the errors: knobs times measures.
    pub tests: usize,
}

impl Power {
    /// Standard errors by which an effect must differ from 0 to be found that often.
    fn distance(&self, pairs: usize) -> f64 {
        let freedom = pairs.saturating_sub(1).max(1) as f64;
        let error = (1.0 - self.confidence) / self.tests.max(1) as f64;
        // A one-sided quantile of `power` is a two-sided one of this.
        student(1.0 - error, freedom) + student(2.0 * self.power - 1.0, freedom)
    }

    /// The smallest change that this many pairs can show, as a ratio above 1.
    #[must_use]
    pub fn detectable(&self, spread: &Spread, pairs: usize) -> f64 {
        if pairs < 2 {
            return f64::INFINITY;
        }
        let error = spread.difference_sd / (pairs as f64).sqrt();
        (self.distance(pairs) * error).exp()
    }

    /// The pairs that a change by `ratio` (above or below 1) takes; `None` where no number of
    /// them that could ever be measured is enough.
    #[must_use]
    pub fn pairs(&self, spread: &Spread, ratio: f64) -> Option<usize> {
        let ratio = if ratio < 1.0 { 1.0 / ratio } else { ratio };
        let shows = |pairs: usize| self.detectable(spread, pairs) <= ratio;
        if ratio <= 1.0 || !shows(MOST_PAIRS) {
            return None;
        }
        // The smallest change falls with the number of pairs.
        let (mut few, mut enough) = (super::LEAST_PAIRS - 1, MOST_PAIRS);
        while enough - few > 1 {
            let middle = few + (enough - few) / 2;
            if shows(middle) {
                enough = middle;
            } else {
                few = middle;
            }
        }
        Some(enough)
    }
}
