//! Axes: nice ranges, ticks that never overlap, grid and titles.

use super::scale::{Linear, Log, Tail};
use super::svg::Svg;
use super::text;

/// Size of tick labels in pixels.
pub const FONT: f64 = 12.0;

/// The area of a picture in which the data stands.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Lower edge.
    pub bottom: f64,
}

/// A latency as a tick label: short, with its unit, e.g. `50 µs`.
#[must_use]
pub fn latency_label(ns: f64) -> String {
    let (value, unit) = match ns {
        v if v < 1e3 => (v, "ns"),
        v if v < 1e6 => (v / 1e3, "µs"),
        v if v < 1e9 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    format!("{value:.0} {unit}")
}

/// A count as a tick label: `1`, `100`, `10 k`, `1 M`; beyond that a power.
#[must_use]
pub fn count_label(count: f64) -> String {
    match count {
        v if v < 1e3 => format!("{v:.0}"),
        v if v < 1e6 => format!("{:.0} k", v / 1e3),
        v if v < 1e9 => format!("{:.0} M", v / 1e6),
        v if v < 1e12 => format!("{:.0} G", v / 1e9),
        v => format!("{v:.0e}"),
    }
}

/// A share of samples as a percentile: 0 nines is `0 %`, 1 `90 %`, 3 `99.9 %`.
#[must_use]
pub fn percentile_label(nines: u32) -> String {
    match nines {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        n => format!("99.{} %", "9".repeat(n as usize - 2)),
    }
}

/// The range of 1-2-5 values that holds `low..high` with at least a decade.
#[must_use]
pub fn nice_range(low: f64, high: f64) -> (f64, f64) {
    let low = if low.is_finite() && low > 0.0 {
        low
    } else {
        1.0
    };
    let high = if high.is_finite() && high > low {
        high
    } else {
        low
    };
    let floor = |v: f64| {
        let decade = 10f64.powf(v.log10().floor());
        [5.0, 2.0, 1.0]
            .into_iter()
            .map(|f| f * decade)
            .find(|c| *c <= v * (1.0 + 1e-9))
            .unwrap_or(decade)
    };
    let (mut from, mut to) = (floor(low), floor(high));
    if to < high {
        to = [2.0, 2.5]
            .into_iter()
            .map(|f| to * f)
            .find(|c| floor(*c) >= high)
            .map_or(to * 2.5, floor);
    }
    if to < from * 9.9 {
        to = from * 10.0;
    }
    if from < f64::MIN_POSITIVE {
        from = 1.0;
    }
    (from, to)
}

/// Every 1-2-5 value (or every decade) of a log scale with its rank: 0 for a
/// decade, 1 for 2 and 5, 2 for the rest.
fn log_ticks(scale: &Log) -> Vec<(f64, u8)> {
    let mut ticks = Vec::new();
    let first = scale.low().log10().floor() as i32;
    let last = scale.high().log10().ceil() as i32;
    for power in first..=last.min(first + 40) {
        for step in 1..10u8 {
            let value = f64::from(step) * 10f64.powi(power);
            if value >= scale.low() * (1.0 - 1e-9) && value <= scale.high() * (1.0 + 1e-9) {
                let rank = match step {
                    1 => 0,
                    2 | 5 => 1,
                    _ => 2,
                };
                ticks.push((value, rank));
            }
        }
    }
    ticks
}

/// Picks the ticks that are labelled: decades, each only where it keeps clear of
/// the one before; 2 and 5 too, but only where all of them find room.
fn labelled(ticks: &[(f64, u8)], extent: impl Fn(f64) -> (f64, f64)) -> Vec<f64> {
    let clear = |a: (f64, f64), b: (f64, f64)| a.1 < b.0 || b.1 < a.0;
    let all: Vec<f64> = ticks.iter().filter(|t| t.1 < 2).map(|t| t.0).collect();
    if all.windows(2).all(|w| clear(extent(w[0]), extent(w[1]))) {
        return all;
    }
    let mut chosen: Vec<f64> = Vec::new();
    for &(value, _) in ticks.iter().filter(|t| t.1 == 0) {
        if chosen
            .last()
            .is_none_or(|&last| clear(extent(last), extent(value)))
        {
            chosen.push(value);
        }
    }
    chosen
}

impl Frame {
    /// Width of the area.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    /// Height of the area.
    #[must_use]
    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// Grid and labels of a log latency axis below the area.
    pub fn latency_below(&self, svg: &mut Svg, scale: &Log) {
        let ticks = log_ticks(scale);
        for &(value, rank) in &ticks {
            let class = if rank == 0 { "grid" } else { "minor" };
            if rank < 2 || scale.decade() > 90.0 {
                svg.line(
                    class,
                    (scale.at(value), self.top),
                    (scale.at(value), self.bottom),
                );
            }
        }
        let extent = |value| {
            let half = text::width(&latency_label(value), FONT) / 2.0 + 5.0;
            (scale.at(value) - half, scale.at(value) + half)
        };
        for value in labelled(&ticks, extent) {
            svg.label(
                "tick",
                "middle",
                scale.at(value),
                self.bottom + 17.0,
                &latency_label(value),
            );
        }
    }

    /// Grid and labels of a log axis left of the area, with labels of `name`.
    pub fn log_left(&self, svg: &mut Svg, scale: &Log, name: fn(f64) -> String) {
        let ticks = log_ticks(scale);
        for &(value, rank) in &ticks {
            let class = if rank == 0 { "grid" } else { "minor" };
            if rank == 0 || (rank == 1 && scale.decade() > 50.0) {
                svg.line(
                    class,
                    (self.left, scale.at(value)),
                    (self.right, scale.at(value)),
                );
            }
        }
        for value in labelled(&ticks, |v| (scale.at(v) - 10.0, scale.at(v) + 10.0)) {
            svg.label(
                "tick",
                "end",
                self.left - 8.0,
                scale.at(value) + 4.0,
                &name(value),
            );
        }
    }

    /// Grid and labels of a time axis below the area.
    pub fn time_below(&self, svg: &mut Svg, scale: &Linear) {
        let seconds = scale.high() / 1e9;
        let room = (self.width() / 75.0).max(2.0);
        let (step, unit, name) = time_step(seconds / room);
        let mut i = 0.0;
        while i * step <= seconds * (1.0 + 1e-9) && i < 50.0 {
            let at = scale.at(i * step * 1e9);
            svg.line("grid", (at, self.top), (at, self.bottom));
            let value = i * step / unit;
            // Steps are 1-2-5 fractions of the unit: as many decimals as the step needs.
            let decimals = (-(step / unit).log10().floor()).clamp(0.0, 9.0) as usize;
            let label = format!("{value:.decimals$} {name}");
            let (anchor, _) = self.anchor(at, text::width(&label, FONT));
            svg.label("tick", anchor, at, self.bottom + 17.0, &label);
            i += 1.0;
        }
    }

    /// Grid and labels of a percentile axis below the area.
    pub fn tail_below(&self, svg: &mut Svg, scale: &Tail) {
        let mut free = f64::NEG_INFINITY;
        for nines in 0..=scale.nines() {
            let at = scale.at(10f64.powi(-(nines as i32)));
            svg.line("grid", (at, self.top), (at, self.bottom));
            let label = percentile_label(nines);
            let width = text::width(&label, FONT);
            let (anchor, from) = self.anchor(at, width);
            if from > free + 8.0 {
                svg.label("tick", anchor, at, self.bottom + 17.0, &label);
                free = from + width;
            }
        }
    }

    /// How a label of a width is anchored at a place so that it doesn't leave
    /// the picture, and where it then begins.
    fn anchor(&self, at: f64, width: f64) -> (&'static str, f64) {
        if at + width / 2.0 > self.right + 10.0 {
            ("end", at - width)
        } else if at - width / 2.0 < self.left - 30.0 {
            ("start", at)
        } else {
            ("middle", at - width / 2.0)
        }
    }

    /// The rule below the area.
    pub fn rules(&self, svg: &mut Svg) {
        svg.line("rule", (self.left, self.bottom), (self.right, self.bottom));
    }

    /// Titles: the vertical axis' above it, the horizontal one's below at the right.
    pub fn titles(&self, svg: &mut Svg, vertical: &str, horizontal: &str) {
        svg.label("tick", "start", self.left - 8.0, self.top - 12.0, vertical);
        svg.label("tick", "end", self.right, self.bottom + 35.0, horizontal);
    }
}

/// A step of at least `seconds` that divides time as people do, with the unit
/// in seconds and its name.
fn time_step(seconds: f64) -> (f64, f64, &'static str) {
    const STEPS: [(f64, f64, &str); 32] = [
        (1e-6, 1e-6, "µs"),
        (1e-5, 1e-6, "µs"),
        (1e-4, 1e-3, "ms"),
        (2e-4, 1e-3, "ms"),
        (5e-4, 1e-3, "ms"),
        (1e-3, 1e-3, "ms"),
        (2e-3, 1e-3, "ms"),
        (5e-3, 1e-3, "ms"),
        (1e-2, 1e-3, "ms"),
        (2e-2, 1e-3, "ms"),
        (5e-2, 1e-3, "ms"),
        (0.1, 1.0, "s"),
        (0.2, 1.0, "s"),
        (0.5, 1.0, "s"),
        (1.0, 1.0, "s"),
        (2.0, 1.0, "s"),
        (5.0, 1.0, "s"),
        (10.0, 1.0, "s"),
        (30.0, 1.0, "s"),
        (60.0, 60.0, "min"),
        (120.0, 60.0, "min"),
        (300.0, 60.0, "min"),
        (600.0, 60.0, "min"),
        (1800.0, 60.0, "min"),
        (3600.0, 3600.0, "h"),
        (7200.0, 3600.0, "h"),
        (14400.0, 3600.0, "h"),
        (43200.0, 3600.0, "h"),
        (86400.0, 86400.0, "d"),
        (172_800.0, 86400.0, "d"),
        (604_800.0, 86400.0, "d"),
        (2_592_000.0, 86400.0, "d"),
    ];
    if let Some(step) = STEPS.iter().find(|s| s.0 >= seconds) {
        return *step;
    }
    let decade = 10f64.powf((seconds / 86400.0).log10().ceil());
    (
        if decade.is_finite() {
            decade * 86400.0
        } else {
            86400.0
        },
        86400.0,
        "d",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_on_round_values_and_span_a_decade() {
        assert_eq!(nice_range(1_930.0, 104_000.0), (1_000.0, 200_000.0));
        assert_eq!(nice_range(2_000.0, 200_000.0), (2_000.0, 200_000.0));
        assert_eq!(nice_range(4_000.0, 4_200.0), (2_000.0, 20_000.0));
        assert_eq!(nice_range(0.0, 0.0), (1.0, 10.0));
        let (_, high) = nice_range(1.0, 260_000.0);
        assert!((high - 500_000.0).abs() < 1.0);
    }

    #[test]
    fn labels_say_their_unit() {
        assert_eq!(latency_label(500.0), "500 ns");
        assert_eq!(latency_label(50_000.0), "50 µs");
        assert_eq!(latency_label(2e9), "2 s");
        assert_eq!(count_label(1e4), "10 k");
        assert_eq!(percentile_label(4), "99.99 %");
    }

    #[test]
    fn time_is_divided_as_people_do() {
        assert_eq!(time_step(8.0).0, 10.0);
        assert_eq!(time_step(200.0).2, "min");
        assert_eq!(time_step(1e9).2, "d");
    }
}
