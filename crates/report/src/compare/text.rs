//! A comparison in eighty columns.

use std::fmt::Write;

use punctual_stats::compare::{Conclusion, QuantileTest};
use punctual_stats::format;

use super::cpus::Cpus;
use super::words::{self, p_value, percentile};
use super::{Band, Comparison, Side};
use crate::facts;
use crate::known::Reading;
use crate::terms::in_ppm;
use punctual_record::conditions::Role;
use punctual_record::text::{one_line, shortened};

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
    text.finish()
}

/// The CPUs of one run in words and a table, at most 80 columns wide.
#[must_use]
pub fn cpus_text(cpus: &Cpus, style: TextStyle) -> String {
    let mut text = Text {
        out: String::new(),
        style,
    };
    text.cpus(cpus);
    text.finish()
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

    fn finish(self) -> String {
        if self.style.ascii {
            to_ascii(&self.out)
        } else {
            self.out
        }
    }

    fn bold_lines(&mut self, text: &str) {
        let start = self.out.len();
        self.wrapped("", "", text);
        let lines = self.out.split_off(start);
        for line in lines.lines() {
            let line = self.bold(line);
            self.line(&line);
        }
    }

    fn statement(&mut self, comparison: &Comparison) {
        let statistics = &comparison.statistics;
        self.bold_lines(&words::headline(statistics));
        if let Some(meaning) = words::meaning(statistics) {
            self.wrapped("", "", &meaning);
        }
        if statistics.conclusion == Conclusion::TooFewSamples {
            return;
        }
        for quantile in &statistics.quantiles {
            self.line(&quantile_line(quantile, ["A", "B"], "B/A"));
        }
        let gaps = comparison.first.gap_share.or(comparison.second.gap_share);
        if comparison.limit_ns != Some(0) && gaps.is_none() {
            self.wrapped("", "", &format!(
            "A wake-up of B is later than one of A in {} of pairs (half would mean no difference; Cliff's delta {}).",
            percent((statistics.delta + 1.0) / 2.0),
            signed_share(statistics.delta),
        ));
        }
        if let Some(basis) = words::basis(statistics) {
            self.wrapped("", "", &basis);
        }
    }

    fn sides(&mut self, comparison: &Comparison) {
        self.heading(&format!("{:<18} {:>29} {:>29}", "", "A", "B"));
        let (a, b) = (&comparison.first, &comparison.second);
        let mut row = |name: &str, of: &dyn Fn(&Side) -> String| {
            let (a, b) = (shortened(&of(a), 29), shortened(&of(b), 29));
            if a.trim_end_matches('-').is_empty() && b.trim_end_matches('-').is_empty() {
                return;
            }
            self.line(&format!("{name:<18} {a:>29} {b:>29}"));
        };
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), format::duration);
        let several = a.runs.max(b.runs) > 1;
        row("runs", &|side| {
            if several {
                side.runs.to_string()
            } else {
                String::new()
            }
        });
        row("tool", &|side| side.tools.join(", "));
        row("begun", &|side| match side.started.as_slice() {
            [first, .., last] => format!("{first} ... {}", last.get(11..).unwrap_or(last)),
            one => one.concat(),
        });
        row("host", &|side| side.hosts.join(", "));
        row("kernel", &|side| side.kernels.join(", "));
        row("measured", &|side| time(side.measured_ns));
        row("threads", &|side| side.threads.to_string());
        row("samples", &|side| format::count(side.samples));
        row("skipped periods", &|side| {
            side.missed.map_or_else(|| "-".to_owned(), format::count)
        });
        row("latency not kept", &|side| {
            if side.lost > 0 {
                format::count(side.lost)
            } else {
                "-".to_owned()
            }
        });
        row("time in gaps", &|side| {
            side.gap_share.map_or_else(|| "-".to_owned(), in_ppm)
        });
        row("minimum", &|side| time(side.min_ns));
        row("mean", &|side| {
            side.mean_ns
                .map_or_else(|| "-".to_owned(), format::duration_f64)
        });
        row("maximum", &|side| time(side.max_ns));
        row("verdict", &|side| match side.verdicts.as_slice() {
            [] => "-".to_owned(),
            verdicts => {
                let words: Vec<String> = verdicts.iter().map(ToString::to_string).collect();
                words.join(" ")
            }
        });
    }

    fn percentiles(&mut self, comparison: &Comparison) {
        for pair in &comparison.percentiles {
            self.line(&format!(
                "{:<18} {:>29} {:>29}",
                percentile(pair.percentile / 100.0),
                reading(pair.first),
                reading(pair.second)
            ));
        }
    }

    fn cpus(&mut self, cpus: &Cpus) {
        let statistics = &cpus.statistics;
        let headline = words::cpus_headline(cpus);
        self.bold_lines(&headline);
        if let Some(basis) = &statistics.basis {
            self.wrapped("", "", &format!(
                "The unit is a stretch of {} that all CPUs share ({} of them), so what stalls the \
                 whole machine cancels out. One run shows one run: whether it is so again, several \
                 runs show. p is adjusted for all figures below; intervals hold at {} each.",
                format::duration(basis.length_ns()),
                basis.units.0,
                format::percent(statistics.confidence)
            ));
        }
        self.heading(&format!(
            "{:<18} {:>11} {:>9} {:>9} {:>9} {:>9}",
            "", "samples", "p50", "p99", "p99.9", "max"
        ));
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), format::duration);
        for cpu in &cpus.cpus {
            self.line(&format!(
                "{:<18} {:>11} {:>9} {:>9} {:>9} {:>9}",
                shortened(&cpu.name, 18),
                format::count(cpu.samples),
                time(cpu.p50_ns),
                time(cpu.p99_ns),
                time(cpu.p999_ns),
                time(cpu.max_ns)
            ));
        }
        if statistics.members.is_empty() {
            return;
        }
        self.heading("In a stretch of time (geometric mean), against the median of the others");
        for (member, cpu) in statistics.members.iter().zip(&cpus.cpus) {
            self.line(&shortened(&cpu.name, 40));
            for quantile in &member.quantiles {
                self.line(&quantile_line(quantile, ["others", "own"], "ratio"));
            }
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
        for band in used(&comparison.bands) {
            let bars = (bar(band.first, totals.0), bar(band.second, totals.1));
            self.line(&format!(
                "{:>9} │{:>width$} {:>12} │ {:>12} {:<width$}",
                match comparison.limit_ns {
                    Some(limit) if limit == band.from_ns => {
                        format!("> {}", format::duration(limit))
                    }
                    _ => format::duration(band.from_ns),
                },
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
            self.heading("The stated conditions of these runs are the same.");
            return;
        }
        self.heading("These runs differ in");
        for difference in &comparison.differences {
            let mark = if difference.role == Role::Method {
                "!"
            } else {
                " "
            };
            let name = format!(
                "{mark} {:<16} ",
                shortened(facts::aspect(difference.aspect), 40)
            );
            let text = format!(
                "{} / {}",
                one_line(&facts::value(&difference.first)),
                one_line(&facts::value(&difference.second))
            );
            self.wrapped(&name, "                   ", &text);
        }
    }

    fn warnings(&mut self, comparison: &Comparison) {
        if !comparison.warnings.is_empty() || comparison.resolution_ns > 1 {
            self.heading("Warnings");
        }
        for warning in &comparison.warnings {
            let warning = words::warning(warning);
            self.wrapped("- ", "  ", &one_line(&warning));
        }
        if comparison.resolution_ns > 1 {
            let text = format!(
                "latencies are known to {} alone and were rounded down to that on both sides",
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

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn reading(reading: Reading) -> String {
    match reading {
        Reading::Value(ns) => format::duration(ns),
        Reading::AtLeast(0) => "-".to_owned(),
        Reading::AtLeast(ns) => format!("> {}", format::duration(ns)),
        Reading::TooFew => "too few samples".to_owned(),
    }
}

/// `p99  A 94 µs  B 38 µs  B/A 0.404 (0.38 to 0.43), p 0.029`.
fn quantile_line(test: &QuantileTest, names: [&str; 2], ratio: &str) -> String {
    let mut line = format!(
        "  {:<6} {} {:>8}, {} {:>8}",
        percentile(test.quantile),
        names[0],
        format::duration(test.first_ns),
        names[1],
        format::duration(test.second_ns)
    );
    if let (Some(value), Some((low, high)), Some(p)) = (test.ratio, test.ratio_interval, test.p) {
        let _ = write!(
            line,
            "; {ratio} {} ({} to {}), p {}",
            factor(value),
            factor(low),
            factor(high),
            p_value(p)
        );
    }
    line
}

/// A ratio in three digits; beyond a thousand it is no figure any more.
fn factor(ratio: f64) -> String {
    match ratio {
        r if r >= 1000.0 => "> 1000".to_owned(),
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        r if r >= 0.001 => format!("{r:.2}"),
        _ => "< 0.001".to_owned(),
    }
}

fn sign(number: f64) -> &'static str {
    if number < 0.0 { "−" } else { "+" }
}

fn signed_share(share: f64) -> String {
    format!("{}{:.3}", sign(share), share.abs())
}
