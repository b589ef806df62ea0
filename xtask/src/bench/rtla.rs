//! The same culprits, taken to pieces by rtla's auto-analysis on the laboratory's PREEMPT_RT: what
//! it says beside what our bills say.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::row::Row;
use super::tools::{self, Tools};
use super::truth::Kind;
use crate::root;

/// Times that each culprit is put in its way: it ends with each late wake-up and is begun anew.
const COUNT: &str = "4";
/// What a duration may be off by.
const OFF_BY_NS: u64 = 5_000;

/// A row for each kind of culprit, ours by what was found of it.
pub fn rows(tools: &Tools, ours: &[Kind]) -> Vec<Row> {
    let text = match program().and_then(|rtla| said(tools, &rtla)) {
        Ok(text) => text,
        Err(reason) => {
            let why = format!("SKIPPED: {reason}");
            return vec![Row::not_measured(
                "bills beside rtla's auto-analysis, rt",
                why,
            )];
        }
    };
    let theirs = found(&text);
    ours.iter()
        .filter_map(|ours| {
            let peer = theirs.get(&ours.culprit)?;
            Some(Row {
                ours: format!(
                    "{} of {} named, off by {:+.1} us",
                    ours.named,
                    ours.injected,
                    ours.off_by_ns as f64 / 1e3
                ),
                peer: format!("rtla: {peer}"),
                ..Row::new(format!("bills beside rtla, rt: {}", ours.culprit))
            })
        })
        .collect()
}

/// An rtla that has it.
fn program() -> Result<PathBuf, String> {
    let text = tools::output(&mut Command::new(root().join("scripts/rtla")))?;
    Ok(PathBuf::from(text.trim()))
}

fn said(tools: &Tools, rtla: &std::path::Path) -> Result<String, String> {
    let mut command = Command::new(&tools.punctual);
    command
        .args([
            "lab",
            "--load",
            "idle",
            "--kernel",
            "rt",
            "--no-explain",
            "--host-limit",
            "30m",
        ])
        .arg("--bring")
        .arg(rtla)
        .arg("-o")
        .arg(tools.place("truth-rtla"))
        .arg("--")
        .arg(&tools.truth)
        .args(["--rtla", "/lab/bin/rtla", "--count", COUNT, "--every", "4"]);
    tools::output(&mut command)
}

/// What came of each kind, in words.
fn found(text: &str) -> BTreeMap<String, String> {
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter_map(|line| {
            let culprit = line["culprit"].as_str()?.to_owned();
            let words = match line["skipped"].as_str() {
                Some(why) => format!("can't ({why})"),
                None => judged(&culprit, line["cases"].as_array()?),
            };
            Some((culprit, words))
        })
        .collect()
}

fn judged(culprit: &str, cases: &[Value]) -> String {
    let says: Vec<(bool, i64)> = cases
        .iter()
        .filter_map(|case| {
            let within_ns = case["within_ns"].as_u64()?;
            Some(parse(case["text"].as_str()?).of(culprit, within_ns))
        })
        .collect();
    let Some(worst) = says
        .iter()
        .map(|(_, off_ns)| *off_ns)
        .max_by_key(|off_ns| off_ns.abs())
    else {
        return "no culprit came".to_owned();
    };
    let named = says.iter().filter(|(named, _)| *named).count();
    let off = if worst.unsigned_abs() <= OFF_BY_NS {
        format!("off by {:+.1} us", worst as f64 / 1e3)
    } else {
        format!("off by {:+.0} us", worst as f64 / 1e3)
    };
    format!("{named} of {} named, {off}", says.len())
}

/// What an analysis says.
#[derive(Debug, Default)]
struct Analysis {
    /// Title, name beneath it, duration in ns. The name is empty where the figure is the title's.
    entries: Vec<(String, String, u64)>,
}

/// Reads it, from the line on that says that it is one: titles with or without a sum, and beneath
/// them names with a duration.
fn parse(text: &str) -> Analysis {
    let mut analysis = Analysis::default();
    let mut title = String::new();
    let lines = text
        .lines()
        .skip_while(|line| !line.contains("analyzing it"));
    for line in lines.skip(1) {
        let deep = line.len() - line.trim_start().len() > 4;
        match duration(line) {
            Some((head, ns)) if deep => {
                analysis.entries.push((title.clone(), head.to_owned(), ns));
            }
            Some((head, ns)) => {
                let (head, rest) = head.split_once(':').unwrap_or((head, ""));
                title = head.to_owned();
                analysis
                    .entries
                    .push((title.clone(), rest.trim().to_owned(), ns));
            }
            None if deep || line.trim().is_empty() => {}
            None => title = line.trim().trim_end_matches(':').to_owned(),
        }
    }
    analysis
}

/// What stands before a duration, and it in ns.
fn duration(line: &str) -> Option<(&str, u64)> {
    let (before, _) = line.trim().split_once(" us")?;
    let at = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let us: f64 = before[at..].parse().ok()?;
    Some((before[..at].trim(), (us * 1e3).round() as u64))
}

impl Analysis {
    fn sum(&self, of: impl Fn(&str, &str) -> bool) -> u64 {
        let wanted = self
            .entries
            .iter()
            .filter(|(title, name, _)| of(title, name));
        wanted.map(|(.., ns)| ns).sum()
    }

    /// Whether it names a culprit, and by how much its duration is off; read in its favour.
    fn of(&self, culprit: &str, within_ns: u64) -> (bool, i64) {
        let part = match culprit {
            // The console's, which sends.
            "interrupt" => "ttyS0",
            "timers" => "sleeper",
            own => own,
        };
        let is = |name: &str| name.split(':').next() == Some(part);
        let named = self.entries.iter().any(|(_, name, _)| is(name));
        let titled = |title: &str| self.sum(|of, name| of == title && name.is_empty());
        let billed = match culprit {
            // Who was interrupted has its name, and the time stands apart.
            "irqs-off" => titled("IRQ handler delay"),
            "interrupt" => self
                .sum(|_, name| is(name))
                .max(titled("IRQ handler delay")),
            "timers" => titled("Timerlat IRQ duration"),
            _ => self.sum(|_, name| is(name)),
        };
        // What ran over the culprit is its time or is not, as it suits best.
        let over = titled("Timerlat IRQ duration")
            + self.sum(|of, name| of.ends_with("IRQ interference") && !name.is_empty());
        let off = |over: u64| billed as i64 + over as i64 - within_ns as i64;
        let best = [off(0), off(over)];
        let off_ns = best.into_iter().min_by_key(|off| off.abs()).unwrap_or(0);
        (named, if part == "sleeper" { off(0) } else { off_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What rtla 6.12 says on PREEMPT_RT 6.1, shortened above.
    const PREEMPT_OFF: &str = "\
        ALL #1      e0 |                  0         0         0 |                166       166\n\
        rtla timerlat hit stop tracing\n\
        ## CPU 0 hit stop tracing, analyzing it ##\n\
        \u{20} IRQ handler delay:                                         0.00 us (0.00 %)\n\
        \u{20} IRQ latency:                                               0.59 us\n\
        \u{20} Timerlat IRQ duration:                                     3.33 us (2.00 %)\n\
        \u{20} Blocking thread:                                         161.12 us (96.94 %)\n\
        \u{20}                    preempt-off:97                        161.12 us\n\
        ------------------------------------------------------------------------\n\
        \u{20} Thread latency:                                          166.20 us (100%)\n";

    #[test]
    fn its_words_are_read_and_its_names_are_held_against_the_culprits() {
        let analysis = parse(PREEMPT_OFF);
        assert_eq!(analysis.entries.len(), 6);
        assert_eq!(analysis.of("preempt-off", 161_000), (true, 120));
        // With what ran over it, it fits.
        assert_eq!(analysis.of("preempt-off", 164_450), (true, 0));
        let (named, off_ns) = analysis.of("hog", 161_000);
        assert!(!named && off_ns < -150_000);
        assert!(!analysis.of("interrupt", 100_000).0);
    }

    #[test]
    fn its_lines_are_judged_and_what_it_can_not_is_said() {
        let line =
            |within_ns: u64| serde_json::json!({"within_ns": within_ns, "text": PREEMPT_OFF});
        let text = format!(
            "{}\n{}\n{}",
            serde_json::json!({"culprit": "preempt-off", "cases": [line(161_000), line(161_120)]}),
            serde_json::json!({"culprit": "stop", "skipped": "no signals"}),
            serde_json::json!({"culprit": "hog", "cases": []}),
        );
        let found = found(&text);
        assert_eq!(found["preempt-off"], "2 of 2 named, off by +0.1 us");
        assert_eq!(found["stop"], "can't (no signals)");
        assert_eq!(found["hog"], "no culprit came");
    }
}
