//! A comparison in eighty columns.

use std::fmt::Write;

use punctual_stats::compare::ComparisonStatement;
use punctual_stats::format;

use super::{Band, Comparison, Side};
use crate::record::conditions::Role;
use crate::record::error::one_line;

/// How text may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextStyle {
    /// Colours and bold, as a terminal shows them.
    pub colour: bool,
    /// Letters of the eight-bit past alone, for terminals without UTF-8.
    pub ascii: bool,
}

const WIDTH: usize = 80;
const BAR: usize = 18;

/// The comparison in words, tables and bars, at most 80 columns wide.
#[must_use]
pub fn compare_text(comparison: &Comparison, style: TextStyle) -> String {
    let mut text = Text {
        out: String::new(),
        style,
    };
    text.statement(comparison);
    text.sides(comparison);
    text.percentiles(comparison);
    text.bands(comparison);
    text.differences(comparison);
    text.warnings(comparison);
    if style.ascii {
        to_ascii(&text.out)
    } else {
        text.out
    }
}

fn to_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'µ' => out.push('u'),
            '█' => out.push('#'),
            '▏' | '│' => out.push('|'),
            '−' => out.push('-'),
            '…' => out.push('.'),
            c if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}

struct Text {
    out: String,
    style: TextStyle,
}

impl Text {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.out, "{}", line.trim_end());
    }

    fn wrapped(&mut self, first: &str, rest: &str, text: &str) {
        let mut line = first.to_owned();
        let mut begun = false;
        for word in text.split_whitespace() {
            let gap = usize::from(begun);
            if begun && line.chars().count() + gap + word.chars().count() > WIDTH {
                self.line(&line);
                rest.clone_into(&mut line);
                begun = false;
            }
            if begun {
                line.push(' ');
            }
            line.push_str(word);
            begun = true;
        }
        self.line(&line);
    }

    fn bold(&self, text: &str) -> String {
        if self.style.colour {
            format!("\u{1b}[1m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn heading(&mut self, text: &str) {
        let text = self.bold(text);
        let _ = write!(self.out, "\n{text}\n");
    }

    fn statement(&mut self, comparison: &Comparison) {
        let statistics = &comparison.statistics;
        let words = match statistics.statement {
            ComparisonStatement::TooFewSamples => "Too few samples to compare.".to_owned(),
            ComparisonStatement::NoDifferenceShown => {
                "No difference shown. That does not show that there is none.".to_owned()
            }
            ComparisonStatement::FirstEarlier => "The first wakes up earlier.".to_owned(),
            ComparisonStatement::SecondEarlier => "The second wakes up earlier.".to_owned(),
            ComparisonStatement::Mixed => {
                "One is earlier in the body, the other in the tail.".to_owned()
            }
            other => format!("{other}."),
        };
        let words = self.bold(&words);
        self.line(&words);
        if statistics.statement == ComparisonStatement::TooFewSamples {
            return;
        }
        let (low, high) = statistics.delta_interval;
        self.wrapped("", "", &format!(
            "A wake-up of the second is later than one of the first in {} of pairs (half would be alike). Cliff's delta {}, {} interval {} to {}.",
            percent((statistics.delta + 1.0) / 2.0),
            signed_share(statistics.delta),
            format::percent(statistics.confidence),
            signed_share(low),
            signed_share(high),
        ));
        for quantile in &statistics.quantiles {
            let (low, high) = quantile.interval_ns;
            self.line(&format!(
                "  p{:<6} second minus first {:>9}, interval {} to {}",
                trimmed(quantile.quantile * 100.0),
                signed(quantile.difference_ns),
                signed(low),
                signed(high)
            ));
        }
    }

    fn sides(&mut self, comparison: &Comparison) {
        self.heading(&format!("{:<18} {:>29} {:>29}", "", "first", "second"));
        let (a, b) = (&comparison.first, &comparison.second);
        let mut row = |name: &str, of: &dyn Fn(&Side) -> String| {
            let (a, b) = (clip(&of(a), 29), clip(&of(b), 29));
            if a.trim_end_matches('-').is_empty() && b.trim_end_matches('-').is_empty() {
                return;
            }
            self.line(&format!("{name:<18} {a:>29} {b:>29}"));
        };
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), format::duration);
        row("tool", &|side| side.tool.clone());
        row("begun", &|side| side.started.clone());
        row("host", &|side| side.host.clone());
        row("kernel", &|side| side.kernel.clone());
        row("measured", &|side| time(side.measured_ns));
        row("threads", &|side| side.threads.to_string());
        row("samples", &|side| format::count(side.samples));
        row("missed periods", &|side| {
            side.missed.map_or_else(|| "-".to_owned(), format::count)
        });
        row("not kept", &|side| {
            if side.lost > 0 {
                format::count(side.lost)
            } else {
                "-".to_owned()
            }
        });
        row("minimum", &|side| time(side.min_ns));
        row("mean", &|side| {
            side.mean_ns
                .map_or_else(|| "-".to_owned(), format::duration_f64)
        });
        row("maximum", &|side| time(side.max_ns));
        row("verdict", &|side| {
            side.verdict
                .map_or_else(|| "-".to_owned(), |verdict| verdict.to_string())
        });
    }

    fn percentiles(&mut self, comparison: &Comparison) {
        for pair in &comparison.percentiles {
            let time =
                |ns: Option<u64>| ns.map_or_else(|| "too few samples".to_owned(), format::duration);
            self.line(&format!(
                "{:<18} {:>29} {:>29}",
                format!("p{}", trimmed(pair.percentile)),
                time(pair.first_ns),
                time(pair.second_ns)
            ));
        }
    }

    fn bands(&mut self, comparison: &Comparison) {
        if comparison.bands.is_empty() {
            return;
        }
        self.heading("Samples from each latency on (bars: logarithm of the share)");
        let totals = (
            comparison.first.samples.max(1),
            comparison.second.samples.max(1),
        );
        let first = used(&comparison.bands);
        for band in first {
            let bars = (bar(band.first, totals.0), bar(band.second, totals.1));
            self.line(&format!(
                "{:>9} │{:>width$} {:>12} │ {:>12} {:<width$}",
                format::duration(band.from_ns),
                bars.0,
                format::count(band.first),
                format::count(band.second),
                bars.1,
                width = BAR,
            ));
        }
    }

    fn differences(&mut self, comparison: &Comparison) {
        if comparison.differences.is_empty() {
            self.heading("These runs were made alike, as far as is known.");
            return;
        }
        self.heading("These runs differ in");
        for difference in &comparison.differences {
            let mark = if difference.role == Role::Method {
                "!"
            } else {
                " "
            };
            let name = format!("{mark} {:<16} ", clip(difference.name, 40));
            let text = format!(
                "{} / {}",
                one_line(&difference.first),
                one_line(&difference.second)
            );
            self.wrapped(&name, "                   ", &text);
        }
    }

    fn warnings(&mut self, comparison: &Comparison) {
        if !comparison.warnings.is_empty() {
            self.heading("Beware");
        }
        for warning in &comparison.warnings {
            self.wrapped("- ", "  ", &one_line(warning));
        }
        if comparison.resolution_ns > 1 {
            let text = format!(
                "Latencies are known to {} alone and were rounded down to that on both sides.",
                format::duration(comparison.resolution_ns)
            );
            self.wrapped("- ", "  ", &text);
        }
    }
}

/// Bands from the first to the last in use.
fn used(bands: &[Band]) -> &[Band] {
    let some = |band: &Band| band.first > 0 || band.second > 0;
    let (Some(first), Some(last)) = (bands.iter().position(some), bands.iter().rposition(some))
    else {
        return &[];
    };
    &bands[first..=last]
}

/// A bar for a share of all samples. One sample in ten million has the shortest.
fn bar(count: u64, total: u64) -> String {
    const DECADES: f64 = 7.0;
    if count == 0 {
        return String::new();
    }
    let share = (count as f64 / total as f64).log10() / DECADES + 1.0;
    let length = (share.clamp(0.0, 1.0) * (BAR - 1) as f64).round() as usize + 1;
    "█".repeat(length)
}

fn clip(text: &str, width: usize) -> String {
    let text = one_line(text);
    if text.chars().count() <= width {
        return text;
    }
    let mut short: String = text.chars().take(width - 1).collect();
    short.push('…');
    short
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn sign(number: f64) -> &'static str {
    if number < 0.0 { "−" } else { "+" }
}

fn signed(ns: f64) -> String {
    format!("{}{}", sign(ns), format::duration_f64(ns.abs()))
}

fn signed_share(share: f64) -> String {
    format!("{}{:.3}", sign(share), share.abs())
}
