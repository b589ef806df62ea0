//! A writer for SVG: elements with attributes, everything escaped, numbers
//! rounded to a tenth of a pixel and never NaN.

use std::fmt::Write as _;

/// Escapes text for HTML and XML, in content and in attributes.
///
/// An attribute keeps its lines by references alone. What XML 1.0 can't hold, and other control
/// characters, become U+FFFD.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate as text: at most one decimal, no trailing zero, finite.
#[must_use]
pub fn number(value: f64) -> String {
    let value = if value.is_finite() {
        value.clamp(-1e6, 1e6)
    } else {
        0.0
    };
    let tenths = (value * 10.0).round() as i64;
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, tenth) = (tenths.abs() / 10, tenths.abs() % 10);
    if tenth == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{tenth}")
    }
}

/// An SVG picture in the making.
#[derive(Debug, Default)]
pub struct Svg {
    out: String,
}

impl Svg {
    /// An empty picture.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins an element; finish it with [`Element::end`], [`Element::text`] or
    /// [`Element::open`].
    pub fn element(&mut self, name: &str) -> Element<'_> {
        self.out.push('<');
        self.out.push_str(name);
        Element {
            svg: self,
            name: name.to_owned(),
        }
    }

    /// Closes an element that was left open.
    pub fn close(&mut self, name: &str) {
        let _ = writeln!(self.out, "</{name}>");
    }

    /// Opens a group of a class.
    pub fn group(&mut self, class: &str) {
        self.element("g").text_attribute("class", class).open();
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.element("line")
            .text_attribute("class", class)
            .number("x1", from.0)
            .number("y1", from.1)
            .number("x2", to.0)
            .number("y2", to.1)
            .end();
    }

    /// A filled rectangle; nothing where it has no extent.
    pub fn rectangle(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        if width > 0.0 && height > 0.0 {
            self.element("rect")
                .text_attribute("class", class)
                .number("x", x)
                .number("y", y)
                .number("width", width)
                .number("height", height)
                .end();
        }
    }

    /// A path of a class; nothing where it is empty.
    pub fn path(&mut self, class: &str, path: &Path) {
        if !path.data.is_empty() {
            self.element("path")
                .text_attribute("class", class)
                .raw("d", &path.data)
                .end();
        }
    }

    /// A text of a class; `anchor` is `start`, `middle` or `end`.
    pub fn label(&mut self, class: &str, anchor: &str, x: f64, y: f64, text: &str) {
        self.element("text")
            .text_attribute("class", class)
            .text_attribute("text-anchor", anchor)
            .number("x", x)
            .number("y", y)
            .text(text);
    }

    /// A style sheet of our own; `css` is written as it is.
    pub fn style(&mut self, css: &str) {
        let _ = writeln!(self.out, "<style>\n{css}</style>");
    }

    /// The picture's text so far.
    #[must_use]
    pub fn into_text(self) -> String {
        self.out
    }
}

/// An element whose attributes are being written.
#[derive(Debug)]
#[must_use]
pub struct Element<'a> {
    svg: &'a mut Svg,
    name: String,
}

impl Element<'_> {
    /// An attribute with a text, escaped.
    pub fn text_attribute(self, name: &str, value: &str) -> Self {
        self.raw(name, &escape(value))
    }

    /// An attribute with a coordinate.
    pub fn number(self, name: &str, value: f64) -> Self {
        self.raw(name, &number(value))
    }

    fn raw(self, name: &str, value: &str) -> Self {
        let _ = write!(self.svg.out, " {name}=\"{value}\"");
        self
    }

    /// Ends an element without content.
    pub fn end(self) {
        self.svg.out.push_str("/>\n");
    }

    /// Ends an element that holds this text, escaped.
    pub fn text(self, content: &str) {
        let _ = writeln!(self.svg.out, ">{}</{}>", escape(content), self.name);
    }

    /// Leaves the element open for others; see [`Svg::close`].
    pub fn open(self) {
        self.svg.out.push_str(">\n");
    }
}

/// The `d` of a path.
#[derive(Debug, Default, Clone)]
pub struct Path {
    data: String,
    pen: Option<(String, String)>,
}

impl Path {
    /// An empty path.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing was drawn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Lifts the pen: the next point starts a new piece.
    pub fn lift(&mut self) {
        self.pen = None;
    }

    /// Draws to a point, or moves there when the pen is up. Axis-parallel steps
    /// take the short commands, which halves the size of a step line.
    pub fn to(&mut self, x: f64, y: f64) {
        let (x, y) = (number(x), number(y));
        match &self.pen {
            None => {
                let _ = write!(self.data, "M{x} {y}");
            }
            Some((px, py)) if *px == x && *py == y => {}
            Some((_, py)) if *py == y => {
                let _ = write!(self.data, "H{x}");
            }
            Some((px, _)) if *px == x => {
                let _ = write!(self.data, "V{y}");
            }
            Some(_) => {
                let _ = write!(self.data, "L{x} {y}");
            }
        }
        self.pen = Some((x, y));
    }

    /// Closes the piece.
    pub fn close(&mut self) {
        if !self.data.is_empty() {
            self.data.push('Z');
        }
        self.pen = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_in_content_and_attributes() {
        let mut svg = Svg::new();
        svg.label("a\"b", "start", 1.0, 2.0, "<script>&\u{1}\n");
        assert_eq!(
            svg.into_text(),
            "<text class=\"a&quot;b\" text-anchor=\"start\" x=\"1\" y=\"2\">&lt;script&gt;&amp;\u{fffd}&#10;</text>\n"
        );
    }

    #[test]
    fn coordinates_are_finite_and_short() {
        assert_eq!(number(f64::NAN), "0");
        assert_eq!(number(f64::INFINITY), "0");
        assert_eq!(number(-0.04), "0");
        assert_eq!(number(-1.25), "-1.3");
        assert_eq!(number(12.0), "12");
    }

    #[test]
    fn a_step_line_takes_the_short_commands() {
        let mut path = Path::new();
        path.to(0.0, 10.0);
        path.to(5.0, 10.0);
        path.to(5.0, 3.0);
        path.to(5.0, 3.0);
        path.to(6.0, 4.0);
        assert_eq!(path.data, "M0 10H5V3L6 4");
    }
}
