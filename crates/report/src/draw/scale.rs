//! Scales from a figure to a coordinate. None of them yields NaN, whatever
//! comes in.

/// A logarithmic scale between two positive values; what lies outside is put at
/// the edge.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Log {
    /// From `low..high` to the coordinates `from..to`.
    #[must_use]
    pub fn new(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = if low.is_finite() {
            low.max(f64::MIN_POSITIVE)
        } else {
            1.0
        };
        let high = if high.is_finite() && high > low {
            high
        } else {
            low * 10.0
        };
        Self {
            low,
            high,
            from,
            to,
        }
    }

    /// The coordinate of a value.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let value = if value.is_nan() {
            self.low
        } else {
            value.clamp(self.low, self.high)
        };
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The lowest value on the scale.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.low
    }

    /// The highest value on the scale.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Coordinates from the low end to the high end.
    #[must_use]
    pub fn ends(&self) -> (f64, f64) {
        (self.from, self.to)
    }

    /// Length of one decade in coordinates.
    #[must_use]
    pub fn decade(&self) -> f64 {
        (self.to - self.from).abs() / (self.high / self.low).log10()
    }
}

/// A linear scale that starts at zero.
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    high: f64,
    from: f64,
    to: f64,
}

impl Linear {
    /// From `0..high` to the coordinates `from..to`.
    #[must_use]
    pub fn new(high: f64, from: f64, to: f64) -> Self {
        let high = if high.is_finite() && high > 0.0 {
            high
        } else {
            1.0
        };
        Self { high, from, to }
    }

    /// The coordinate of a value.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let share = if value.is_nan() {
            0.0
        } else {
            (value / self.high).clamp(0.0, 1.0)
        };
        self.from + share * (self.to - self.from)
    }

    /// The highest value on the scale.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.high
    }
}

/// The scale of a percentile plot: 0 %, 90 %, 99 %, 99.9 % ... at equal steps,
/// so that the tail takes the room that it deserves.
#[derive(Debug, Clone, Copy)]
pub struct Tail {
    nines: f64,
    from: f64,
    to: f64,
}

impl Tail {
    /// From 0 to `1 - 10^-nines`, on the coordinates `from..to`.
    #[must_use]
    pub fn new(nines: u32, from: f64, to: f64) -> Self {
        Self {
            nines: f64::from(nines.clamp(1, 18)),
            from,
            to,
        }
    }

    /// The coordinate at which a share `above` of the samples lies higher.
    #[must_use]
    pub fn at(&self, above: f64) -> f64 {
        let nines = if above.is_nan() {
            0.0
        } else {
            -above.clamp(1e-18, 1.0).log10()
        };
        self.from + (nines / self.nines).clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// How many decades it spans.
    #[must_use]
    pub fn nines(&self) -> u32 {
        self.nines as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decade_is_a_decade_everywhere() {
        let log = Log::new(1.0, 1000.0, 0.0, 300.0);
        assert!((log.at(10.0) - 100.0).abs() < 1e-9);
        assert!((log.at(100.0) - 200.0).abs() < 1e-9);
        assert!((log.decade() - 100.0).abs() < 1e-9);
        assert_eq!(log.at(0.0), 0.0);
        assert_eq!(log.at(1e30), 300.0);
        let tail = Tail::new(5, 0.0, 500.0);
        assert!((tail.at(0.001) - 300.0).abs() < 1e-9);
        assert_eq!(tail.at(0.0), 500.0);
    }

    #[test]
    fn no_nonsense_yields_nan() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0] {
            for worse in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
                assert!(Log::new(bad, worse, 0.0, 100.0).at(worse).is_finite());
                assert!(Linear::new(bad, 0.0, 100.0).at(worse).is_finite());
                assert!(Tail::new(3, 0.0, 100.0).at(bad).is_finite());
            }
        }
    }
}
