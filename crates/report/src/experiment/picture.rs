//! The forest plot: the change of each measure by each knob, with its interval.

use punctual_record::experiment::Experiment;
use punctual_stats::experiment::Effect;

use super::{Judged, change, judged};
use crate::chart::{Form, opened};
use crate::draw::svg::Svg;
use crate::draw::text;

/// Height of a row.
const ROW: f64 = 20.0;
/// The largest change that has room, as a ratio; intervals beyond are cut.
const WIDEST: f64 = 8.0;
/// The smallest range, so that noise doesn't look large.
const NARROWEST: f64 = 1.1;

/// Ratios that the axis names, those that matter most first: of two without room for both, the first.
const STEPS: [f64; 15] = [
    1.0, 0.5, 2.0, 0.25, 4.0, 0.125, 8.0, 0.8, 1.25, 0.9, 1.1, 0.67, 1.5, 0.95, 1.05,
];

/// A knob's name, its effect on a measure, and whether that is named.
type Row<'e> = (&'e str, &'e Effect, bool);

/// Draws it; `None` without results.
#[must_use]
pub fn draw(experiment: &Experiment, form: Form, id: &str) -> Option<String> {
    forest(&judged(experiment), "knob", form, id)
}

/// Draws knobs or steps (`what`) that were judged; `None` without any effect.
pub(crate) fn forest(judged: &[Judged<'_>], what: &str, form: Form, id: &str) -> Option<String> {
    let rows: Vec<Row<'_>> = judged
        .iter()
        .flat_map(|knob| {
            let row = |(effect, is_named)| (&*knob.name, effect, is_named);
            knob.effects.iter().copied().map(row)
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let (width, names): (f64, f64) = match form {
        Form::Narrow => (380.0, 150.0),
        Form::Wide | Form::File => (960.0, 250.0),
    };
    let figures = if form == Form::Narrow { 0.0 } else { 190.0 };
    let groups = judged.iter().filter(|it| !it.effects.is_empty()).count();
    let (top, gap) = (16.0, 8.0);
    let bottom = top + ROW * rows.len() as f64 + gap * groups as f64;
    let axis = Axis::of(&rows, names, width - figures - 14.0);
    let description = format!("The change by each of {groups} {what}s, with intervals.");
    let title = format!("Changes by {what}");
    let says = (title.as_str(), description.as_str());
    let mut svg = opened(form, id, says, (width, bottom + 44.0));
    axis.rules(&mut svg, what, top, bottom);
    let (mut y, mut last) = (top - gap, "");
    for (name, effect, is_named) in rows {
        if name != last {
            y += gap;
        }
        y += ROW;
        row(&mut svg, &axis, effect, is_named, y - ROW / 2.0);
        let label = match name == last {
            true => effect.measure.name().to_owned(),
            false => format!(
                "{} {}",
                text::shorten(name, if figures > 0.0 { 28 } else { 15 }),
                effect.measure.name()
            ),
        };
        svg.label("ink", "end", names - 10.0, y - 6.0, &label);
        if figures > 0.0 {
            let text = format!("{} ({})", change(effect.ratio), super::interval(effect));
            svg.label("tick", "start", width - figures, y - 6.0, &text);
        }
        last = name;
    }
    svg.close("svg");
    Some(svg.into_text())
}

fn row(svg: &mut Svg, axis: &Axis, effect: &Effect, is_named: bool, y: f64) {
    let class = match is_named {
        true if effect.ratio < 1.0 => "s2",
        true => "s1",
        false => "s7",
    };
    let ends = (axis.at(effect.interval.0), axis.at(effect.interval.1));
    svg.line(&format!("series {class}"), (ends.0, y), (ends.1, y));
    let circle = svg.element("circle");
    circle
        .text_attribute("class", &format!("dot {class}"))
        .number("cx", axis.at(effect.ratio))
        .number("cy", y)
        .number("r", 4.0)
        .end();
}

/// The logarithmic axis of ratios around 1.
struct Axis {
    from: f64,
    to: f64,
    /// The ratio at its right end; at its left end is the inverse.
    most: f64,
}

impl Axis {
    fn of(rows: &[Row<'_>], from: f64, to: f64) -> Self {
        let distance = |ratio: f64| if ratio < 1.0 { 1.0 / ratio } else { ratio };
        let ends = rows
            .iter()
            .map(|(_, it, _)| distance(it.interval.0).max(distance(it.interval.1)));
        let widest = ends.filter(|it| it.is_finite()).fold(NARROWEST, f64::max);
        Self {
            from,
            to,
            most: (widest * 1.05).min(WIDEST),
        }
    }

    fn at(&self, ratio: f64) -> f64 {
        let share = ratio.max(f64::MIN_POSITIVE).ln() / self.most.ln();
        let middle = f64::midpoint(self.from, self.to);
        middle + share.clamp(-1.0, 1.0) * (self.to - self.from) / 2.0
    }

    fn rules(&self, svg: &mut Svg, what: &str, top: f64, bottom: f64) {
        let mut labels: Vec<(f64, f64)> = Vec::new();
        for step in STEPS {
            let is_within = step <= self.most && step >= 1.0 / self.most;
            let x = self.at(step);
            let label = match step == 1.0 {
                true => "0 %".to_owned(),
                false => change(step).replace(".0 %", " %"),
            };
            let half = text::width(&label, 12.0) / 2.0 + 4.0;
            let is_free = labels
                .iter()
                .all(|(from, to)| x + half < *from || x - half > *to);
            if !is_within || !is_free {
                continue;
            }
            let class = if step == 1.0 { "rule" } else { "grid" };
            svg.line(class, (x, top), (x, bottom));
            svg.label("tick", "middle", x, bottom + 16.0, &label);
            labels.push((x - half, x + half));
        }
        svg.label(
            "tick",
            "start",
            self.from,
            bottom + 34.0,
            &format!("shorter with the {what} on"),
        );
        svg.label("tick", "end", self.to, bottom + 34.0, "longer");
    }
}
