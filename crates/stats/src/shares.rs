//! Probabilities of one sentence in one notation, so that they can be compared: percent where one
//! of them is 0.01 % or more, else as they are typed at `--miss`, `3.2e-5`.

/// The notation of all probabilities of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    /// `4.0 %`, `0.35 %`
    Percent,
    /// `3.2e-5`
    Scientific,
}

impl Shares {
    /// The notation for these, each 0..=1.
    pub fn for_values(all: &[f64]) -> Self {
        if all.iter().any(|share| two_digits(*share) >= 1e-4) {
            Shares::Percent
        } else {
            Shares::Scientific
        }
    }

    /// As it is, in two significant digits; a value that has only one below 1 % in one. `100 %`
    /// is everything and nothing less: 0.9997 is `99.97 %`.
    pub fn text(self, share: f64) -> String {
        if share.is_nan() || share <= 0.0 {
            return "0".to_owned();
        }
        if share >= 1.0 {
            return "100 %".to_owned();
        }
        if share > 0.995 {
            return format!("{} %", nearly_all(share));
        }
        // Round first: 0.00999 is 1.0 %, as 0.01 is.
        let rounded = two_digits(share);
        if rounded >= 0.1 {
            return format!("{:.0} %", rounded * 100.0);
        }
        if rounded >= 0.01 {
            return format!("{:.1} %", rounded * 100.0);
        }
        let one_digit = format!("{share:.0e}");
        let exact = one_digit.parse() == Ok(share);
        match self {
            Shares::Scientific if exact => one_digit,
            Shares::Scientific => format!("{share:.1e}"),
            // So far below the others nobody counts the zeros of a percentage.
            Shares::Percent if rounded < 1e-8 => Shares::Scientific.text(share),
            Shares::Percent => {
                let decimals = (-rounded.log10() - 1e-9).ceil().clamp(1.0, 20.0) as usize - 1;
                format!("{:.*} %", decimals - usize::from(exact), rounded * 100.0)
            }
        }
    }

    /// An upper bound: rounded up to two digits.
    pub fn at_most(self, share: f64) -> String {
        self.text(rounded(share, f64::ceil))
    }

    /// A lower bound: rounded down to two digits.
    pub fn at_least(self, share: f64) -> String {
        self.text(rounded(share, f64::floor))
    }

    /// A probability that was stated, exactly and in the fewest digits: `0.125 %`, `1e-6`.
    pub fn exactly(self, share: f64) -> String {
        if share.is_nan() || share <= 0.0 {
            return "0".to_owned();
        }
        match self {
            Shares::Scientific => format!("{share:e}"),
            Shares::Percent => {
                // Twelve digits of a double times 100 hide what the product adds.
                let percent = format!("{:.11e}", share.min(1.0) * 100.0).parse::<f64>();
                format!("{} %", percent.unwrap_or(share))
            }
        }
    }
}

/// To two digits; one that has no more in decimal stays itself.
fn rounded(share: f64, round: fn(f64) -> f64) -> f64 {
    if !share.is_finite() || share <= 0.0 || share > 0.995 {
        return share;
    }
    let unit = 10f64.powi(share.log10().floor() as i32 - 1);
    let digits = share / unit;
    let near = digits.round();
    let digits = if (digits - near).abs() < 1e-9 * near {
        near
    } else {
        round(digits)
    };
    // Read back, so that 1.2e-4 is the double of that name.
    let text = format!("{digits:.0}e{}", unit.log10().round() as i32);
    text.parse().unwrap_or(share)
}

fn two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

/// Above 99.5 %: as many digits as show what is left, rounded down.
fn nearly_all(share: f64) -> String {
    let left = 1.0 - share;
    let decimals = (-left.log10() - 1e-6).ceil().clamp(3.0, 11.0) as i32 - 2;
    let scale = 10f64.powi(decimals);
    let percent = (share * 100.0 * scale + 1e-6).floor() / scale;
    format!("{percent:.*}", decimals as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_never_claim_more_than_was_shown() {
        let s = Shares::Scientific;
        assert_eq!(s.at_most(3.21e-5), "3.3e-5");
        assert_eq!(s.at_least(3.29e-5), "3.2e-5");
        assert_eq!(
            (s.at_most(1e-5), s.at_least(1e-5)),
            ("1e-5".into(), "1e-5".into())
        );
        let p = Shares::Percent;
        assert_eq!(p.at_most(0.0351), "3.6 %");
        assert_eq!(p.at_least(0.0359), "3.5 %");
        assert_eq!(p.at_most(9.99e-3), "1.0 %");
        assert_eq!(p.at_most(0.9991), "99.91 %");
        assert_eq!(p.at_most(1.31e-7), "0.000014 %");
        assert_eq!(p.at_most(1.31e-16), "1.4e-16");
        assert_eq!(
            (p.at_most(1.0), p.at_least(0.0)),
            ("100 %".into(), "0".into())
        );
    }
}
