//! Machines over time: a row for each machine, a cell for each stretch of days with its worst wake-up.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use punctual_record::time::{parse_rfc3339, rfc3339};

use crate::chart::{Form, opened};
use crate::draw::svg::Svg;
use crate::draw::{axis, text};
use crate::words;
use punctual_record::fleet::{DayRow, MachineRow};

/// Height of a row.
const ROW: f64 = 17.0;
const TOP: f64 = 26.0;
const DAY_S: u64 = 86_400;
/// The faintest cell is still seen.
const FAINTEST: f64 = 0.1;

/// What a cell shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cell {
    runs: u64,
    failed: u64,
    maximum_ns: Option<u64>,
}

/// Days since 1970, divided into stretches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretches {
    first: u64,
    days: u64,
    count: u64,
}

impl Stretches {
    /// At most `most` for these days: each a day, or whole weeks.
    fn of(days: impl Iterator<Item = u64> + Clone, most: u64) -> Option<Self> {
        let (first, last) = (days.clone().min()?, days.max()?);
        let span = last - first + 1;
        let days = match span.div_ceil(most) {
            1 => 1,
            days => days.next_multiple_of(7),
        };
        let count = span.div_ceil(days);
        Some(Self { first, days, count })
    }

    fn place(&self, day: u64) -> u64 {
        (day - self.first) / self.days
    }

    /// The day on which one begins, `2026-11-27`.
    fn date(&self, place: u64) -> String {
        let days = self.first + place * self.days;
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(days * DAY_S);
        rfc3339(at).chars().take(10).collect()
    }
}

fn number(day: &str) -> Option<u64> {
    let at = parse_rfc3339(&format!("{day}T00:00:00Z"))?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(since.as_secs() / DAY_S)
}

/// The cells by machine and stretch; days that are none are left out.
fn cells(days: &[DayRow], stretches: Stretches) -> BTreeMap<(&str, u64), Cell> {
    let mut cells: BTreeMap<(&str, u64), Cell> = BTreeMap::new();
    for row in days {
        let Some(day) = number(&row.day) else {
            continue;
        };
        let cell = cells
            .entry((&row.machine, stretches.place(day)))
            .or_default();
        cell.runs += row.runs;
        cell.failed += row.failed;
        cell.maximum_ns = cell.maximum_ns.max(row.maximum_ns);
    }
    cells
}

/// How many columns there is room for.
fn most(form: Form) -> u64 {
    match form {
        Form::Wide | Form::File => 62,
        Form::Narrow => 26,
    }
}

/// Draws it; `None` without a machine that was measured.
pub(super) fn draw(
    machines: &[MachineRow],
    days: &[DayRow],
    form: Form,
    id: &str,
) -> Option<String> {
    let numbers = days.iter().filter_map(|row| number(&row.day));
    let stretches = Stretches::of(numbers, most(form))?;
    let cells = cells(days, stretches);
    let maxima = cells.values().filter_map(|cell| cell.maximum_ns);
    let (low, high) = (maxima.clone().min()?, maxima.max()?);
    let shade = Shade::new(low, high);
    let (width, left, right) = match form {
        Form::Wide | Form::File => (960.0, 180.0, 872.0),
        Form::Narrow => (380.0, 96.0, 312.0),
    };
    let bottom = TOP + ROW * machines.len() as f64;
    let each = match stretches.days {
        1 => "day".to_owned(),
        7 => "week".to_owned(),
        days => format!("{} weeks", days / 7),
    };
    let title = "Machines over time";
    let description = format!(
        "The worst wake-up of each {each} on {}, darker where it was later; a dot where a run failed.",
        words::plural(machines.len() as u64, "machine", "machines")
    );
    let mut svg = opened(form, id, (title, &description), (width, bottom + 62.0));
    let step = ((right - left) / stretches.count as f64).min(40.0);
    dates(&mut svg, stretches, (left, step), bottom);
    svg.label(
        "tick",
        "start",
        left,
        TOP - 9.0,
        &format!("a cell is a {each}"),
    );
    svg.label("tick", "end", width, TOP - 9.0, "worst");
    for (place, machine) in machines.iter().enumerate() {
        let y = TOP + ROW * place as f64;
        let name = text::shorten(
            &words::clean(&machine.machine),
            match form {
                Form::Narrow => 12,
                Form::Wide | Form::File => 26,
            },
        );
        svg.label("ink", "end", left - 8.0, y + 12.5, &name);
        let worst = machine
            .maximum_ns
            .map_or_else(|| "—".to_owned(), words::duration);
        svg.label("tick", "end", width, y + 12.5, &worst);
        let range = (machine.machine.as_str(), 0)..=(machine.machine.as_str(), u64::MAX);
        for ((_, stretch), cell) in cells.range(range) {
            let x = left + step * *stretch as f64;
            let says = format!("{name}, {}: {}", stretches.date(*stretch), says(cell));
            one(&mut svg, &shade, cell, (x, y, step), &says);
        }
    }
    legend(&mut svg, &shade, left, bottom + 36.0);
    svg.close("svg");
    Some(svg.into_text())
}

fn says(cell: &Cell) -> String {
    let worst = cell.maximum_ns.map_or_else(
        || "nothing was measured".to_owned(),
        |ns| format!("worst {}", words::duration(ns)),
    );
    let failed = match cell.failed {
        0 => String::new(),
        failed => format!(", {} FAIL", words::count(failed)),
    };
    format!(
        "{worst}, {}{failed}",
        words::plural(cell.runs, "run", "runs")
    )
}

fn one(svg: &mut Svg, shade: &Shade, cell: &Cell, (x, y, step): (f64, f64, f64), says: &str) {
    let opacity = cell.maximum_ns.map_or(0.0, |ns| shade.of(ns));
    let gap = if step > 6.0 { 1.0 } else { 0.2 };
    let rectangle = svg
        .element("rect")
        .text_attribute("class", "heat")
        .text_attribute("fill-opacity", &format!("{opacity:.2}"))
        .number("x", x)
        .number("y", y + 1.0)
        .number("width", step - gap)
        .number("height", ROW - 2.0);
    rectangle.open();
    svg.element("title").text(says);
    svg.close("rect");
    if cell.failed > 0 {
        dot(svg, x + (step - gap) / 2.0, y + ROW / 2.0);
    }
}

fn dot(svg: &mut Svg, x: f64, y: f64) {
    svg.element("circle")
        .text_attribute("class", "missdot ring")
        .number("cx", x)
        .number("cy", y)
        .number("r", 3.2)
        .end();
}

/// Dates below the cells, as many as there is room for.
fn dates(svg: &mut Svg, stretches: Stretches, (left, step): (f64, f64), bottom: f64) {
    let room = text::width("2026-11-27", axis::FONT) + 14.0;
    let every = (room / step).ceil().max(1.0) as u64;
    for place in (0..stretches.count).step_by(usize::try_from(every).unwrap_or(usize::MAX)) {
        let x = left + step * (place as f64 + 0.5);
        svg.line("rule", (x, bottom), (x, bottom + 4.0));
        svg.label("tick", "middle", x, bottom + 17.0, &stretches.date(place));
    }
}

/// How dark a latency is.
struct Shade {
    low: f64,
    high: f64,
}

impl Shade {
    fn new(low: u64, high: u64) -> Self {
        let (low, high) = axis::nice_range(low.max(1) as f64, high.max(1) as f64);
        Self { low, high }
    }

    fn of(&self, ns: u64) -> f64 {
        let share = (ns.max(1) as f64 / self.low).ln() / (self.high / self.low).ln();
        FAINTEST + share.clamp(0.0, 1.0) * (1.0 - FAINTEST)
    }
}

/// Five latencies with their shades, and the dot.
fn legend(svg: &mut Svg, shade: &Shade, left: f64, y: f64) {
    let mut x = left;
    for place in 0..5 {
        let ns = shade.low * (shade.high / shade.low).powf(f64::from(place) / 4.0);
        svg.element("rect")
            .text_attribute("class", "heat")
            .text_attribute(
                "fill-opacity",
                &format!("{:.2}", shade.of(ns.round() as u64)),
            )
            .number("x", x)
            .number("y", y)
            .number("width", 36.0)
            .number("height", 9.0)
            .end();
        if place % 2 == 0 {
            let label = words::duration_f64(ns.round());
            svg.label("tick", "start", x, y + 22.0, &label);
        }
        x += 37.0;
    }
    dot(svg, x + 12.0, y + 5.0);
    svg.label("tick", "start", x + 20.0, y + 9.0, "a run FAIL");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(machine: &str, day: &str, failed: u64, maximum_ns: Option<u64>) -> DayRow {
        DayRow {
            machine: machine.to_owned(),
            day: day.to_owned(),
            runs: 2,
            failed,
            maximum_ns,
        }
    }

    #[test]
    fn stretches_are_days_or_whole_weeks_and_have_room() {
        let days = |last: u64| [100, last].into_iter();
        let of = |last| Stretches::of(days(last), 62).map(|it| (it.days, it.count));
        assert_eq!(of(100), Some((1, 1)));
        assert_eq!(of(161), Some((1, 62)));
        assert_eq!(of(162), Some((7, 9)));
        assert_eq!(of(100 + 62 * 7), Some((14, 32)));
        assert_eq!(Stretches::of(std::iter::empty(), 62), None);
        let stretches = Stretches::of([20_783, 20_783 + 70].into_iter(), 62).expect("days");
        assert_eq!(stretches.date(0), "2026-11-26");
        assert_eq!(stretches.date(1), "2026-12-03");
    }

    #[test]
    fn a_cell_has_the_worst_and_all_runs_of_its_days() {
        let days = [
            day("n1", "2026-01-01", 0, Some(5)),
            day("n1", "2026-01-07", 1, Some(9)),
            day("n1", "2026-01-08", 0, None),
            day("n2", "2026-04-01", 0, Some(7)),
            day("n2", "nonsense", 0, Some(7)),
        ];
        let numbers = days.iter().filter_map(|row| number(&row.day));
        let stretches = Stretches::of(numbers, 62).expect("days");
        let all = cells(&days, stretches);
        let of = |runs, failed, maximum_ns| Cell {
            runs,
            failed,
            maximum_ns,
        };
        let found: Vec<_> = all.into_iter().collect();
        assert_eq!(
            found,
            [
                (("n1", 0), of(4, 1, Some(9))),
                (("n1", 1), of(2, 0, None)),
                (("n2", 12), of(2, 0, Some(7))),
            ]
        );
    }

    #[test]
    fn later_is_darker_and_nothing_is_nan() {
        let shade = Shade::new(0, u64::MAX);
        assert!(shade.of(10) < shade.of(1_000_000));
        assert!((FAINTEST..=1.0).contains(&shade.of(u64::MAX)));
        assert!((FAINTEST..=1.0).contains(&shade.of(0)));
    }

    #[test]
    fn names_are_escaped_and_days_that_are_none_are_left_out() {
        let machines = [MachineRow {
            machine: "<n&1>".to_owned(),
            runs: 2,
            failed: 1,
            maximum_ns: Some(5_000),
        }];
        let days = [
            day("<n&1>", "2026-01-01", 1, Some(5_000)),
            day("<n&1>", "9", 1, None),
        ];
        let svg = draw(&machines, &days, Form::Wide, "heat").expect("a picture");
        assert_eq!(
            svg.matches("<title>&lt;n&amp;1&gt;, 2026-01-01: worst 5 µs, 2 runs, 1 FAIL")
                .count(),
            1
        );
        assert_eq!(svg.matches("class=\"heat\"").count(), 1 + 5);
        assert_eq!(draw(&machines, &[], Form::Wide, "heat"), None);
    }
}
