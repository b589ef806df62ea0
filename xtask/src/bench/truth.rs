//! How true the bills are: culprits that know when they were there, on this machine and on the
//! laboratory's kernels.

use std::process::Command;

use serde_json::Value;

use super::row::{Row, Standing};
use super::rtla;
use super::tools::{self, Tools};

/// Times that each culprit is put in the way.
const COUNT: &str = "100";
/// Of the injections, in percent, whose culprit has to be named.
const NAMED: f64 = 99.0;
/// Of the outliers' time, in percent, that may stay unexplained.
const RESIDUE: f64 = 2.0;

/// What was found of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    pub culprit: String,
    pub injected: u64,
    pub named: u64,
    /// The median of what the bills say less what was true.
    pub off_by_ns: i64,
}

/// What was found of all culprits.
#[derive(Debug, Default, PartialEq)]
struct Found {
    kinds: Vec<Kind>,
    injected: u64,
    named: u64,
    timed: u64,
    total_ns: u64,
    residue_ns: u64,
}

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    match tools::may_be_real_time() {
        Ok(()) => {
            let text = tools::output(Command::new(&tools.truth).args(["--count", COUNT]))?;
            rows.extend(found(&text).rows("here"));
        }
        Err(reason) => rows.push(Row::not_measured("bills, here", reason)),
    }
    for kernel in ["rt", "standard"] {
        let name = format!("laboratory, {kernel}");
        let mut command = Command::new(&tools.punctual);
        command
            .args(["lab", "--load", "idle", "--kernel", kernel, "-o"])
            .arg(tools.place(&format!("truth-{kernel}")))
            .arg("--")
            .arg(&tools.truth)
            .args(["--count", COUNT, "--every", "4"]);
        match tools::output(&mut command) {
            Ok(text) => {
                let found = found(&text);
                rows.extend(found.rows(&name));
                // The standard kernel has no timerlat.
                if kernel == "rt" {
                    rows.extend(rtla::rows(tools, &found.kinds));
                }
            }
            Err(reason) => rows.push(Row::not_measured(format!("bills, {name}"), reason)),
        }
    }
    Ok(rows)
}

/// Adds up what the lines say.
fn found(text: &str) -> Found {
    let mut found = Found::default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["injected"].is_u64());
    for line in lines {
        let count = |key: &str| line[key].as_u64().unwrap_or(0);
        found.injected += count("injected");
        found.named += count("named");
        found.timed += count("timed");
        found.total_ns += count("total_ns");
        found.residue_ns += count("residue_ns");
        found.kinds.push(Kind {
            culprit: line["culprit"].as_str().unwrap_or_default().to_owned(),
            injected: count("injected"),
            named: count("named"),
            off_by_ns: line["off_by_ns"].as_i64().unwrap_or(0),
        });
    }
    found
}

impl Found {
    fn rows(&self, place: &str) -> Vec<Row> {
        let name = |what: &str| format!("bills, {place}: {what}");
        if self.injected == 0 {
            return vec![Row::not_measured(name("culprit named"), "no culprit came")];
        }
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let named = share(self.named, self.injected);
        let timed = share(self.timed, self.injected);
        let residue = share(self.residue_ns, self.total_ns);
        let offs = || self.kinds.iter().map(|kind| kind.off_by_ns);
        let us = |ns: Option<i64>| ns.unwrap_or(0) as f64 / 1e3;
        let (least, most) = (us(offs().min()), us(offs().max()));
        vec![
            Row {
                ours: format!(
                    "{named:.2} % of {} ({} kinds)",
                    self.injected,
                    self.kinds.len()
                ),
                target: format!("at least {NAMED:.0} %"),
                standing: Standing::of(named >= NAMED),
                ..Row::new(name("culprit named"))
            },
            Row {
                ours: format!("{timed:.2} %; off by {least:+.1} to {most:+.1} us"),
                target: "within 2 % or 5 us".to_owned(),
                standing: Standing::of(timed >= NAMED),
                ..Row::new(name("duration right"))
            },
            Row {
                ours: format!("{residue:.2} % of the time"),
                target: format!("at most {RESIDUE:.0} %"),
                standing: Standing::of(residue <= RESIDUE),
                ..Row::new(name("unexplained"))
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_up_and_what_is_no_line_is_passed_over() {
        let text = "== rt, idle\n{\"culprit\":\"call\",\"skipped\":\"why\"}\n\
            {\"culprit\":\"hog\",\"injected\":50,\"named\":50,\"timed\":49,\"total_ns\":1000,\
             \"residue_ns\":5,\"off_by_ns\":-7}\n\
            {\"culprit\":\"stop\",\"injected\":50,\"named\":48,\"timed\":50,\"total_ns\":1000,\
             \"residue_ns\":15,\"off_by_ns\":9}\n";
        let found = found(text);
        assert_eq!(
            (found.kinds.len(), found.injected, found.named),
            (2, 100, 98)
        );
        let rows = found.rows("here");
        let met = |at: usize| rows[at].standing == Standing::Met;
        assert_eq!([met(0), met(1), met(2)], [false, true, true]);
        assert_eq!(Found::default().rows("here").len(), 1);
    }
}
