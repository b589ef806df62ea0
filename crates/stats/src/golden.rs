//! The maximum of a function of one number, by golden section.

const RATIO: f64 = 0.618_033_988_749_894_8;

/// Where a maximum was narrowed down to.
pub(crate) struct Section {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The higher of the two inner points, and the function there.
    pub(crate) best: (f64, f64),
}

/// Narrows an interval around the maximum of a function that has one: by so many steps, or until it is
/// shorter than `least`.
pub(crate) fn section(
    mut function: impl FnMut(f64) -> f64,
    (mut low, mut high): (f64, f64),
    steps: usize,
    least: f64,
) -> Section {
    let (mut left, mut right) = (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut at_left, mut at_right) = (function(left), function(right));
    for _ in 0..steps {
        if at_left > at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - RATIO * (high - low);
            at_left = function(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + RATIO * (high - low);
            at_right = function(right);
        }
        if high - low < least {
            break;
        }
    }
    let best = if at_left > at_right {
        (left, at_left)
    } else {
        (right, at_right)
    };
    Section { low, high, best }
}
