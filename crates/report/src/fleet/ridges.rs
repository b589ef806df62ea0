//! Kernels beside each other: the distribution of each over the same axis.

use super::kinds;
use crate::chart::{Form, opened};
use crate::draw::svg::{Path, Svg};
use crate::draw::{Frame, Log, axis, text};
use crate::words;
use punctual_record::fleet::{PercentilesRow, RidgeRow, Setting};

const TOP: f64 = 22.0;

/// A kind of runs: its steps, in the order of the rows.
struct Ridge<'a> {
    kernel: &'a str,
    setting: &'a Setting,
    steps: &'a [RidgeRow],
    total: u64,
    maximum_ns: Option<u64>,
}

fn ridges<'a>(rows: &'a [RidgeRow], percentiles: &[PercentilesRow]) -> Vec<Ridge<'a>> {
    let same = |a: &RidgeRow, b: &RidgeRow| a.kernel == b.kernel && a.setting == b.setting;
    let of = |steps: &'a [RidgeRow]| {
        let RidgeRow {
            kernel, setting, ..
        } = steps.first()?;
        let mut kinds = percentiles.iter();
        let kind = kinds.find(|it| it.kernel == *kernel && it.setting == *setting);
        Some(Ridge {
            kernel,
            setting,
            steps,
            total: steps.iter().map(|step| step.n).sum(),
            maximum_ns: kind.and_then(|it| it.maximum_ns),
        })
    };
    rows.chunk_by(same).filter_map(of).collect()
}

/// Draws them; `None` without any wake-up.
pub(super) fn draw(
    rows: &[RidgeRow],
    percentiles: &[PercentilesRow],
    form: Form,
    id: &str,
) -> Option<String> {
    let ridges = ridges(rows, percentiles);
    let most = ridges
        .iter()
        .map(|it| it.total)
        .max()
        .filter(|it| *it > 0)?;
    let low = rows.iter().map(|it| it.low_ns).min()?;
    let high = rows.iter().map(|it| it.high_ns).max()?;
    let (from, to) = axis::nice_range(low.max(1) as f64, high as f64);
    let (width, left, right, height, names) = match form {
        Form::Wide | Form::File => (960.0, 250.0, 872.0, 52.0, 0.0),
        // Names stand above the picture.
        Form::Narrow => (380.0, 10.0, 370.0, 52.0, 20.0),
    };
    let each = height + names + 6.0;
    let bottom = TOP + each * ridges.len() as f64;
    let kinds: Vec<&Setting> = ridges.iter().map(|it| it.setting).collect();
    let kinds = kinds::names(&kinds);
    let title = "Latency by kernel";
    let description = format!(
        "The distribution of the latency of {}, on one axis; the height is logarithmic.",
        words::plural(ridges.len() as u64, "kind of runs", "kinds of runs")
    );
    let mut svg = opened(form, id, (title, &description), (width, bottom + 40.0));
    let frame = Frame {
        left,
        top: TOP,
        right,
        bottom,
    };
    let x = Log::new(from, to, left, right);
    frame.latency_below(&mut svg, &x);
    svg.label("tick", "end", right, bottom + 35.0, "latency");
    if form != Form::Narrow {
        svg.label("tick", "end", width, TOP - 8.0, "worst");
    }
    let mut colour = 0;
    for (place, (ridge, kind)) in ridges.iter().zip(&kinds).enumerate() {
        // Kernels of the same kind stand together, and have one colour.
        if place > 0 && ridges[place - 1].setting != ridge.setting {
            colour = 1 - colour;
        }
        let floor = TOP + each * (place as f64 + 1.0);
        one(&mut svg, ridge, (&x, most), (floor, height), colour);
        svg.line("rule", (left, floor), (right, floor));
        let kernel = words::clean(ridge.kernel);
        let worst = ridge
            .maximum_ns
            .map_or_else(|| "—".to_owned(), words::duration);
        match form {
            Form::Narrow => {
                let name = format!("{kernel} {}", words::clean(kind));
                let name = text::shorten(name.trim_end(), 42);
                svg.label("ink halo", "start", left, floor - height - 6.0, &name);
                svg.label("tick halo", "end", right, floor - height - 6.0, &worst);
            }
            Form::Wide | Form::File => {
                let name = text::shorten(&kernel, 34);
                let lift = if kind.is_empty() { 4.0 } else { 18.0 };
                svg.label("ink", "end", left - 12.0, floor - lift, &name);
                let kind = text::shorten(&words::clean(kind), 38);
                svg.label("tick", "end", left - 12.0, floor - 4.0, &kind);
                svg.label("tick", "end", width, floor - 4.0, &worst);
            }
        }
    }
    svg.close("svg");
    Some(svg.into_text())
}

/// The height of a step: from one wake-up of the largest kind to all wake-ups, logarithmic.
fn share(n: u64, total: u64, most: u64) -> f64 {
    let lowest = -(most.max(2) as f64).log10();
    let share = (n.max(1) as f64 / total.max(1) as f64).log10();
    // One wake-up is still seen.
    (1.0 - share / lowest).clamp(0.0, 1.0) * 0.95 + 0.05
}

fn one(
    svg: &mut Svg,
    ridge: &Ridge<'_>,
    (x, most): (&Log, u64),
    (floor, height): (f64, f64),
    colour: usize,
) {
    let mut area = Path::new();
    let mut end = None;
    for step in ridge.steps.iter().filter(|step| step.n > 0) {
        let (from, to) = (x.at(step.low_ns as f64), x.at(step.high_ns as f64 + 1.0));
        let top = floor - height * share(step.n, ridge.total, most);
        if end != Some(step.low_ns) {
            if let Some(end) = end {
                area.to(x.at(end as f64), floor);
                area.close();
            }
            area.to(from, floor);
        }
        area.to(from, top);
        area.to(to, top);
        end = Some(step.high_ns.saturating_add(1));
    }
    if let Some(end) = end {
        area.to(x.at(end as f64), floor);
        area.close();
    }
    let class = format!("ridge r{colour}");
    svg.path(&class, &area);
    if let Some(maximum) = ridge.maximum_ns {
        svg.element("circle")
            .text_attribute("class", "dot")
            .number("cx", x.at(maximum as f64))
            .number("cy", floor)
            .number("r", 3.0)
            .end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kernel: &str, low_ns: u64, n: u64) -> RidgeRow {
        RidgeRow {
            kernel: kernel.to_owned(),
            setting: Setting::default(),
            low_ns,
            high_ns: low_ns * 2 - 1,
            n,
        }
    }

    #[test]
    fn each_kernel_is_a_ridge_and_gaps_stay_gaps() {
        let rows = [
            row("6.1", 1024, 90),
            row("6.1", 2048, 9),
            row("6.1", 8192, 1),
            row("6.12", 1024, 50),
        ];
        let found = ridges(&rows, &[]);
        let totals: Vec<_> = found.iter().map(|it| (it.kernel, it.total)).collect();
        assert_eq!(totals, [("6.1", 100), ("6.12", 50)]);
        let svg = draw(&rows, &[], Form::Wide, "ridges").expect("a picture");
        let areas: Vec<usize> = svg
            .lines()
            .filter(|line| line.contains("class=\"ridge"))
            .map(|line| line.matches('Z').count())
            .collect();
        // Two pieces, for nothing was between 4096 and 8192.
        assert_eq!(areas, [2, 1]);
        assert_eq!(draw(&[], &[], Form::Wide, "ridges"), None);
    }

    #[test]
    fn a_tenth_is_as_much_lower_everywhere() {
        let at = |n| share(n, 1_000_000, 1_000_000);
        assert!((at(1_000_000) - 1.0).abs() < 1e-9);
        assert!((at(1) - 0.05).abs() < 1e-9);
        assert!(((at(1000) - at(100)) - (at(100) - at(10))).abs() < 1e-9);
        assert!(share(u64::MAX, 1, 0).is_finite());
    }
}
