//! As much XML as a report of tests takes.

use std::fmt::Write;

use crate::draw::svg::escape;

/// Writes elements with their attributes; text and attributes are escaped, and what
/// XML 1.0 can't hold becomes U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Xml {
    out: String,
    open: Vec<&'static str>,
}

impl Xml {
    pub(crate) fn new() -> Self {
        Self {
            out: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned(),
            open: Vec::new(),
        }
    }

    pub(crate) fn start(&mut self, name: &'static str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes, ">\n");
        self.open.push(name);
    }

    pub(crate) fn end(&mut self) {
        if let Some(name) = self.open.pop() {
            self.indent();
            let _ = writeln!(self.out, "</{name}>");
        }
    }

    pub(crate) fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes, "/>\n");
    }

    pub(crate) fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        self.tag(name, attributes, ">");
        self.out.push_str(&escape(text));
        let _ = writeln!(self.out, "</{name}>");
    }

    pub(crate) fn into_text(mut self) -> String {
        while !self.open.is_empty() {
            self.end();
        }
        self.out
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &str)], end: &str) {
        self.indent();
        self.out.push('<');
        self.out.push_str(name);
        for (name, value) in attributes {
            let _ = write!(self.out, " {name}=\"");
            self.out.push_str(&escape(value));
            self.out.push('"');
        }
        self.out.push_str(end);
    }

    fn indent(&mut self) {
        for _ in &self.open {
            self.out.push_str("  ");
        }
    }
}
