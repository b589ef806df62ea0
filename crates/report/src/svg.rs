//! The pictures as files of their own: each carries its style, follows the
//! reader's light or dark scheme and needs nothing from anywhere.

use super::chart::{Form, histogram, percentiles, timeline};
use super::figures::Figures;
use super::marks::marks;
use punctual_record::Run;

/// The pictures of a run: name and content of each file. A run without samples
/// has none.
#[must_use]
pub fn files(run: &Run) -> Vec<(&'static str, String)> {
    let figures = Figures::from_run(run);
    let marks = marks(run);
    let drawn = [
        (
            "histogram.svg",
            histogram::draw(&figures, &marks, Form::File, "histogram"),
        ),
        (
            "timeline.svg",
            timeline::draw(run, &marks, Form::File, "timeline"),
        ),
        (
            "percentiles.svg",
            percentiles::draw(&figures, &marks, Form::File, "percentiles"),
        ),
    ];
    drawn
        .into_iter()
        .filter_map(|(name, picture)| Some((name, picture?)))
        .collect()
}
