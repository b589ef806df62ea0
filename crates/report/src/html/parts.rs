//! Pieces of HTML: tables, facts, escaped text.

use std::fmt::Write as _;

use crate::draw::svg;
use crate::statements::Fact;

/// Text for the page: escaped, figures kept together with their units.
pub(crate) fn escape(text: &str) -> String {
    const UNITS: [&str; 9] = ["ns", "µs", "ms", "s", "min", "h", "d", "%", "million"];
    let mut out = String::with_capacity(text.len());
    for word in text.split(' ') {
        if !out.is_empty() {
            let bare = word.trim_end_matches([',', ';', '.', ':', ')']);
            let unit = UNITS.contains(&bare) && out.ends_with(|c: char| c.is_ascii_digit());
            out.push(if unit { '\u{a0}' } else { ' ' });
        }
        out.push_str(&svg::escape(word));
    }
    out
}

/// A telephone has room for tables of so many columns.
const FITS_A_TELEPHONE: usize = 4;
/// Longer words may be broken.
const LONGEST_WORD: usize = 16;

/// HTML in the making.
#[derive(Debug, Default)]
pub(crate) struct Html {
    out: String,
    /// Headings with a target.
    headings: Vec<(String, String)>,
    /// Where the table of contents is put.
    contents: Option<usize>,
}

/// A cell of a table: its text and its classes.
pub(crate) struct Td {
    text: String,
    class: &'static str,
    /// A bar of so many percent before the text.
    bar: Option<f64>,
    /// Where a link on the text leads, encoded.
    link: Option<String>,
}

impl Td {
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// A share with its bar.
pub(crate) fn td_bar(percent: f64, text: impl Into<String>) -> Td {
    Td {
        bar: Some(percent.clamp(0.0, 100.0)),
        ..td_in("share", text)
    }
}

pub(crate) fn td(text: impl Into<String>) -> Td {
    td_in("", text)
}

pub(crate) fn td_in(class: &'static str, text: impl Into<String>) -> Td {
    Td {
        text: text.into(),
        class,
        bar: None,
        link: None,
    }
}

/// A file with a link to it. `base`: its directory, if the page does not lie there.
pub(crate) fn td_link(base: &str, file: String) -> Td {
    Td {
        link: Some(address(base, &file)),
        ..td(file)
    }
}

/// The address of a file. With a dot or a slash before it no name can be that of a scheme.
pub(crate) fn address(base: &str, file: &str) -> String {
    let before = if base.is_empty() {
        "./".to_owned()
    } else {
        format!("{}/", encoded(base.trim_end_matches('/')))
    };
    format!("{before}{}", encoded(file))
}

fn encoded(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

impl std::fmt::Write for Html {
    /// As [`Html::raw`].
    fn write_str(&mut self, markup: &str) -> std::fmt::Result {
        self.out.push_str(markup);
        Ok(())
    }
}

impl Html {
    /// Markup of our own, written as it is.
    pub(crate) fn raw(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// An element with a text.
    pub(crate) fn text(&mut self, element: &str, class: &str, text: &str) {
        let class = if class.is_empty() {
            String::new()
        } else {
            format!(" class=\"{class}\"")
        };
        let _ = writeln!(self.out, "<{element}{class}>{}</{element}>", escape(text));
    }

    /// A heading with a target for links.
    pub(crate) fn heading(&mut self, id: &str, text: &str) {
        let _ = writeln!(self.out, "<h2 id=\"{id}\">{}</h2>", escape(text));
        self.headings.push((id.to_owned(), text.to_owned()));
    }

    /// The table of contents stands here, of all headings that come.
    pub(crate) fn contents(&mut self) {
        self.contents = Some(self.out.len());
    }

    /// Names and what is said of them.
    pub(crate) fn facts(&mut self, caption: &str, facts: &[Fact]) {
        self.facts_in("facts stack", caption, facts);
    }

    /// The same with long names.
    pub(crate) fn long_facts(&mut self, caption: &str, facts: &[Fact]) {
        self.facts_in("facts long stack", caption, facts);
    }

    fn facts_in(&mut self, class: &str, caption: &str, facts: &[Fact]) {
        let _ = writeln!(
            self.out,
            "<table class=\"{class}\"><caption>{}</caption><tbody>",
            escape(caption)
        );
        for (name, text) in facts {
            let _ = writeln!(
                self.out,
                "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
                escape(name),
                escape(text)
            );
        }
        self.raw("</tbody></table>\n");
    }

    /// A table whose first column names the row. `class` is `figures` for
    /// numbers, which scroll on a narrow screen, or `wide stack` for words.
    pub(crate) fn table(
        &mut self,
        class: &str,
        caption: &str,
        head: &[&str],
        rows: &[(&str, Vec<Td>)],
    ) {
        let scroll = class.starts_with("figures");
        if scroll && head.len() > FITS_A_TELEPHONE {
            self.raw("<p class=\"hint\">Wide table: swipe it sideways for more columns →</p>\n");
        }
        if scroll {
            let _ = writeln!(
                self.out,
                "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">",
                escape(caption)
            );
        }
        let _ = writeln!(
            self.out,
            "<table class=\"{class}\"><caption>{}</caption>\n<thead><tr>",
            escape(caption)
        );
        let first = rows.first().map_or(&[][..], |(_, cells)| cells);
        for (i, name) in head.iter().enumerate() {
            // As the cells below it.
            let class = match first.get(i) {
                Some(cell) if cell.class == "who" => " class=\"who\"",
                _ => "",
            };
            let _ = write!(self.out, "<th scope=\"col\"{class}>{}</th>", escape(name));
        }
        self.raw("</tr></thead>\n<tbody>\n");
        for (row_class, cells) in rows {
            if row_class.is_empty() {
                self.raw("<tr>");
            } else {
                let _ = write!(self.out, "<tr class=\"{row_class}\">");
            }
            for (i, cell) in cells.iter().enumerate() {
                self.cell(
                    i == 0,
                    head.get(i).copied().unwrap_or_default(),
                    cell,
                    scroll,
                );
            }
            self.raw("</tr>\n");
        }
        self.raw("</tbody></table>\n");
        if scroll {
            self.raw("</div>\n");
        }
    }

    fn cell(&mut self, first: bool, name: &str, cell: &Td, figures: bool) {
        // Where all words are short none of them is broken, however narrow the column.
        let short = |word: &str| word.chars().count() <= LONGEST_WORD;
        let class = match (cell.class, cell.text.split_whitespace().all(short)) {
            ("", true) => " class=\"words\"".to_owned(),
            ("", false) => String::new(),
            (class, true) => format!(" class=\"{class} words\""),
            (class, false) => format!(" class=\"{class}\""),
        };
        let bar = cell.bar.map_or_else(String::new, |percent| {
            format!("<span class=\"part\"><span style=\"width:{percent:.1}%\"></span></span>")
        });
        let text = match cell.bar {
            Some(_) => format!("{bar}<span class=\"of\">{}</span>", escape(&cell.text)),
            None => escape(&cell.text),
        };
        let text = match &cell.link {
            Some(link) => format!("<a href=\"{link}\">{text}</a>"),
            None => text,
        };
        if first {
            let _ = write!(self.out, "<th scope=\"row\"{class}>{text}</th>");
        } else if figures {
            let _ = write!(self.out, "<td{class}>{text}</td>");
        } else {
            let _ = write!(
                self.out,
                "<td data-name=\"{}\"{class}>{text}</td>",
                escape(name)
            );
        }
    }

    pub(crate) fn into_page(mut self) -> String {
        if let Some(place) = self.contents {
            let mut list = "<nav aria-label=\"Contents\"><ul>\n".to_owned();
            for (id, text) in &self.headings {
                let _ = writeln!(list, "<li><a href=\"#{id}\">{}</a></li>", escape(text));
            }
            list.push_str("</ul></nav>\n");
            self.out.insert_str(place, &list);
        }
        self.out
    }
}
