//! What every page begins and ends with.

use super::parts::{Html, escape};
use crate::draw::palette;
use punctual_record::Tool;

const CSS: &str = include_str!("style.css");

/// The head of a page, to the opened body; `more` are rules of its own.
pub(crate) fn open(html: &mut Html, title: &str, more: &str) {
    html.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.raw("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    // There is no script, and nothing is ever loaded, whatever a name in the record holds.
    html.raw(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n",
    );
    html.raw(&format!(
        "<title>{}</title>\n<style>\n{}{more}</style>\n</head>\n<body>\n",
        escape(title),
        style()
    ));
}

/// Who wrote it, and the end.
pub(crate) fn close(html: &mut Html, tool: &Tool) {
    html.raw(&format!(
        "<footer>Written by {} {}. Everything is in this file; nothing is loaded.</footer>\n",
        escape(&tool.name),
        escape(&tool.version)
    ));
    html.raw("</body>\n</html>\n");
}

fn style() -> String {
    format!(
        ":root{{color-scheme:light dark;{}}}\n@media(prefers-color-scheme:dark){{@media screen{{:root{{{}}}}}}}\n{}{}{CSS}",
        palette::LIGHT,
        palette::DARK,
        palette::CHART_RULES,
        palette::series_rules()
    )
}
