//! The pictures of a run, as SVG: the histogram, latency over time, the
//! percentiles. The same code draws them into the page and as files.

pub mod gantt;
pub mod histogram;
mod hover;
pub mod lanes;
pub mod outlier;
pub mod percentiles;
pub mod responses;
pub mod timeline;

use super::draw::svg::Svg;
use super::draw::{Frame, palette, text};
use super::figures::Figures;
use super::terms::Terms;

/// More threads than this are drawn as a band, all together, and the worst.
pub const MOST_LINES: usize = 16;

/// Where a picture will stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In the page, beside a wide margin of labels.
    Wide,
    /// In the page on a narrow screen: labels below.
    Narrow,
    /// A file of its own, with its style and a heading.
    File,
}

/// Lines that are drawn across the pictures.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    /// The deadline in ns.
    pub deadline_ns: Option<u64>,
    /// Percentiles asked for: share that may lie above, and the latency.
    pub percentiles: Vec<(f64, u64)>,
    /// An estimate of the tail: share above, level, and its interval.
    pub tail: Option<(f64, f64, f64, f64)>,
    /// Heading of a file of its own: a title line and the verdict.
    pub heading: Vec<String>,
    /// What the things are called.
    pub terms: Terms,
}

/// A line of the legend.
struct Key {
    class: String,
    name: String,
    value: String,
}

/// The outer parts of a picture.
struct Canvas {
    svg: Svg,
    frame: Frame,
    form: Form,
    legend: (f64, f64),
    /// How wide a line of the legend may be.
    legend_width: f64,
}

/// Where a name begins in the legend, behind its line.
const KEY: f64 = 22.0;
/// Between a name and its value.
const KEY_GAP: f64 = 6.0;
/// The size of the letters in it.
const KEY_SIZE: f64 = 12.0;

impl Key {
    /// How much room it takes.
    fn width(&self) -> f64 {
        let gap = if self.value.is_empty() { 0.0 } else { KEY_GAP };
        KEY + text::width(&self.name, KEY_SIZE) + gap + text::width(&self.value, KEY_SIZE)
    }

    /// The name, of which the end is kept where not all of it has room: threads of one program
    /// differ by their number.
    fn name_within(&self, room: f64) -> String {
        // A pixel of grace: what just fits is not to be cut by rounding.
        let room = room + 1.0 - (self.width() - text::width(&self.name, KEY_SIZE));
        let mut name = self.name.clone();
        let mut left = self.name.chars();
        while text::width(&name, KEY_SIZE) > room && left.next().is_some() {
            name = format!("…{}", left.as_str());
        }
        name
    }
}

impl Canvas {
    /// Opens a picture with its title and description.
    fn new(
        form: Form,
        id: &str,
        title: &str,
        description: &str,
        keys: &[Key],
        marks: &Marks,
    ) -> Self {
        // Beside a picture its lines have room for threads' names; below it they stand in twos.
        let widest = keys.iter().map(Key::width).fold(0.0, f64::max);
        let legend_width = match form {
            Form::Wide | Form::File => widest.clamp(156.0, 230.0),
            Form::Narrow => 176.0,
        };
        let keys = keys.len();
        let heading = if form == Form::File {
            22.0 + 18.0 * marks.heading.len() as f64
        } else {
            0.0
        };
        let (width, plot) = match form {
            Form::Wide | Form::File => (960.0, 300.0),
            Form::Narrow => (380.0, 240.0),
        };
        let top = heading + 34.0;
        let rows = if form == Form::Narrow {
            keys.div_ceil(2)
        } else {
            0
        };
        // The labels beside a wide picture must not run out of it.
        let plot = if form == Form::Narrow {
            plot
        } else {
            f64::max(plot, 18.0 * keys as f64)
        };
        let height = top + plot + 46.0 + 18.0 * rows as f64;
        let margin = if form == Form::Narrow {
            (52.0, 12.0)
        } else {
            (64.0, legend_width + 20.0)
        };
        let frame = Frame {
            left: margin.0,
            top,
            right: width - margin.1,
            bottom: top + plot,
        };
        let legend = if form == Form::Narrow {
            (8.0, frame.bottom + 58.0)
        } else {
            (frame.right + 14.0, top + 8.0)
        };

        let mut svg = opened(form, id, (title, description), (width, height));
        if form == Form::File {
            for (i, line) in marks.heading.iter().enumerate() {
                let class = if i == 0 { "strong" } else { "tick" };
                let y = 28.0 + 18.0 * i as f64;
                svg.label(class, "start", 18.0, y, &text::shorten(line, 130));
            }
        }
        Self {
            svg,
            frame,
            form,
            legend,
            legend_width,
        }
    }

    fn legend(&mut self, keys: &[Key]) {
        let wide = self.form != Form::Narrow;
        for (i, key) in keys.iter().enumerate() {
            let (column, line) = if wide { (0, i) } else { (i % 2, i / 2) };
            let x = self.legend.0 + 184.0 * column as f64;
            let y = self.legend.1 + 18.0 * line as f64;
            self.svg.line(
                &format!("key {}", key.class),
                (x, y - 4.0),
                (x + 16.0, y - 4.0),
            );
            let name = key.name_within(self.legend_width);
            self.svg.label("ink", "start", x + KEY, y, &name);
            let end = x + self.legend_width;
            self.svg.label("tick", "end", end, y, &key.value);
        }
    }

    /// The picture's text.
    fn finish(mut self) -> String {
        self.svg.close("svg");
        self.svg.into_text()
    }
}

/// A picture with what names and describes it; one that is a file carries its own style.
pub(crate) fn opened(form: Form, id: &str, says: (&str, &str), (width, height): (f64, f64)) -> Svg {
    let mut svg = Svg::new();
    let (title, text) = (format!("{id}-title"), format!("{id}-text"));
    let root = svg
        .element("svg")
        .text_attribute("class", "chart")
        .text_attribute("viewBox", &format!("0 0 {width:.0} {height:.0}"))
        .text_attribute("role", "img")
        .text_attribute("aria-labelledby", &format!("{title} {text}"));
    if form == Form::File {
        root.text_attribute("xmlns", "http://www.w3.org/2000/svg")
            .number("width", width)
            .number("height", height)
            .open();
    } else {
        root.open();
    }
    svg.element("title")
        .text_attribute("id", &title)
        .text(says.0);
    svg.element("desc").text_attribute("id", &text).text(says.1);
    if form == Form::File {
        svg.style(&standalone_style());
        svg.rectangle("page", 0.0, 0.0, width, height);
    }
    svg
}

fn standalone_style() -> String {
    format!(
        "svg{{{}}}\n@media(prefers-color-scheme:dark){{svg{{{}}}}}\n{}{}.page{{fill:var(--bg)}}\n",
        palette::LIGHT,
        palette::DARK,
        palette::CHART_RULES,
        palette::series_rules()
    )
}

/// The colour of a row's line that stands at a place among those drawn: the row's own, or by
/// its place where not all are drawn.
fn colour(figures: &Figures, place: usize, row: usize) -> String {
    palette::series_class(if figures.rows.len() > MOST_LINES {
        place
    } else {
        row
    })
}

/// Which rows get a line of their own, in the order of the legend: all of them
/// by CPU, or of many the worst three.
fn drawn(figures: &Figures) -> Vec<usize> {
    let with_samples = |i: &usize| figures.rows[*i].count > 0;
    if figures.rows.len() <= MOST_LINES {
        (0..figures.rows.len()).filter(with_samples).collect()
    } else {
        figures
            .by_maximum()
            .into_iter()
            .filter(with_samples)
            .take(3)
            .collect()
    }
}
