//! How true the bills are: culprits that know when they were there, on this machine, in a PID
//! namespace of its own, in a machine that its host stops, and on the laboratory's kernels.

use std::process::Command;

use serde_json::Value;

use super::row::{Row, Standing};
use super::rtla;
use super::tools::{self, Tools};

/// Times that each culprit is put in the way.
const COUNT: &str = "100";
/// Kinds that are played once more in a PID namespace: each has a number there that is not the
/// kernel's.
const IN_NAMESPACE: &str = "hog,preempt-off,irqs-off,call,inversion,stop";
/// Of the injections, in percent, whose culprit has to be named.
const NAMED: f64 = 99.0;
/// Of the outliers' time, in percent, that may stay unexplained.
const RESIDUE: f64 = 2.0;

/// What was found of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    pub culprit: String,
    pub injected: u64,
    /// Times at which something was not seen.
    pub blind: u64,
    /// Times that the bill says who is likely, and that it can't be known.
    pub likely: u64,
    /// Stops of a machine whose CPUs did not go on together: nothing is said of these.
    pub apart: u64,
    pub named: u64,
    pub timed: u64,
    /// Bills whose rows sum to the latency.
    pub summed: u64,
    /// Of those named, with the number of the culprit's thread; nothing where a bill says none.
    pub numbered: Option<u64>,
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
    /// What could not be played, and why.
    skipped: Vec<(String, String)>,
}

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    match tools::may_be_real_time() {
        Ok(()) => {
            let mut play = |place: &str, words: &[&str]| -> Result<(), String> {
                let mut command = Command::new(&tools.truth);
                let text = tools::output(command.args(["--count", COUNT]).args(words))?;
                rows.extend(found(&text).rows(place));
                Ok(())
            };
            play("here", &[])?;
            let words = ["--in", "pid-namespace", "--only", IN_NAMESPACE];
            play("PID namespace", &words)?;
            play("stopped by its host", &["--host", "rt"])?;
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
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for line in lines {
        let name = || line["culprit"].as_str().unwrap_or_default().to_owned();
        if let Some(why) = line["skipped"].as_str() {
            found.skipped.push((name(), why.to_owned()));
        }
        if !line["injected"].is_u64() {
            continue;
        }
        let count = |key: &str| line[key].as_u64().unwrap_or(0);
        found.injected += count("injected");
        found.named += count("named");
        found.timed += count("timed");
        found.total_ns += count("total_ns");
        found.residue_ns += count("residue_ns");
        found.kinds.push(Kind {
            culprit: name(),
            injected: count("injected"),
            blind: count("blind"),
            likely: count("likely"),
            apart: count("apart"),
            named: count("named"),
            timed: count("timed"),
            summed: count("summed"),
            numbered: line["numbered"].as_u64(),
            off_by_ns: line["off_by_ns"].as_i64().unwrap_or(0),
        });
    }
    found
}

impl Found {
    fn rows(&self, place: &str) -> Vec<Row> {
        let name = |what: &str| format!("bills, {place}: {what}");
        let skipped = self.skipped.iter();
        let mut rows: Vec<Row> = skipped
            .map(|(culprit, why)| Row::not_measured(name(culprit), why.as_str()))
            .collect();
        if self.injected == 0 {
            rows.push(Row::not_measured(name("culprit named"), "no culprit came"));
            return rows;
        }
        rows.extend(self.kinds.iter().map(|kind| kind.row(name(&kind.culprit))));
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let named = share(self.named, self.injected);
        let timed = share(self.timed, self.injected);
        let residue = share(self.residue_ns, self.total_ns);
        let offs = || self.kinds.iter().map(|kind| kind.off_by_ns);
        let us = |ns: Option<i64>| ns.unwrap_or(0) as f64 / 1e3;
        let (least, most) = (us(offs().min()), us(offs().max()));
        rows.extend([
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
        ]);
        rows
    }
}

impl Kind {
    /// One kind: how often it was named, and whether every bill sums.
    fn row(&self, name: String) -> Row {
        let numbered = self
            .numbered
            .map_or_else(String::new, |numbered| format!(", thread of {numbered}"));
        let likely = match self.likely {
            0 => String::new(),
            likely => format!(", {likely} likely and not known"),
        };
        let apart = match self.apart {
            0 => String::new(),
            apart => format!(", {apart} not a stop of both CPUs"),
        };
        let enough = |part: u64, whole: u64| part as f64 >= whole as f64 * NAMED / 100.0;
        let met = enough(self.named, self.injected)
            && self.summed == self.injected
            && self.numbered.is_none_or(|it| enough(it, self.named));
        Row {
            ours: format!(
                "{} of {} named{numbered}, {} durations, {} sums; {} not seen{likely}{apart}",
                self.named, self.injected, self.timed, self.summed, self.blind
            ),
            target: format!("{NAMED:.0} % named, all sum"),
            standing: if self.injected == 0 {
                Standing::NotMeasured("it was never in the way".to_owned())
            } else {
                Standing::of(met)
            },
            ..Row::new(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_up_and_what_is_no_line_is_passed_over() {
        let text = "== rt, idle\n{\"culprit\":\"call\",\"skipped\":\"why\"}\n\
            {\"culprit\":\"hog\",\"injected\":50,\"named\":50,\"timed\":49,\"total_ns\":1000,\
             \"residue_ns\":5,\"off_by_ns\":-7,\"summed\":49}\n\
            {\"culprit\":\"stop\",\"injected\":50,\"named\":48,\"timed\":50,\"total_ns\":1000,\
             \"residue_ns\":15,\"off_by_ns\":9}\n";
        let found = found(text);
        assert_eq!(
            (found.kinds.len(), found.injected, found.named),
            (2, 100, 98)
        );
        let rows = found.rows("here");
        let met = |name: &str| {
            let name = format!("bills, here: {name}");
            let row = rows.iter().find(|row| row.name == name);
            row.map(|row| row.standing == Standing::Met)
        };
        assert_eq!(met("culprit named"), Some(false));
        assert_eq!(met("duration right"), Some(true));
        assert_eq!(met("unexplained"), Some(true));
        // A row for each: one with a sum that is wrong, one that is named too seldom, one that did
        // not come.
        assert_eq!((met("hog"), met("stop")), (Some(false), Some(false)));
        assert_eq!(
            rows[0].standing,
            Standing::NotMeasured("why".to_owned()),
            "{rows:#?}"
        );
        assert_eq!(Found::default().rows("here").len(), 1);
    }

    #[test]
    fn a_kind_is_met_if_it_is_named_by_its_own_number_and_every_bill_sums() {
        let kind = Kind {
            culprit: "hog".to_owned(),
            injected: 100,
            blind: 0,
            likely: 0,
            apart: 0,
            named: 99,
            timed: 90,
            summed: 100,
            numbered: Some(99),
            off_by_ns: 0,
        };
        let standing = |kind: Kind| kind.row("a".to_owned()).standing;
        assert_eq!(standing(kind.clone()), Standing::Met);
        for wrong in [
            Kind {
                named: 98,
                ..kind.clone()
            },
            Kind {
                summed: 99,
                ..kind.clone()
            },
            Kind {
                numbered: Some(90),
                ..kind.clone()
            },
        ] {
            assert_eq!(standing(wrong), Standing::NotMet);
        }
        let apart = Kind {
            likely: 2,
            apart: 3,
            ..kind.clone()
        };
        assert_eq!(
            apart.row("a".to_owned()).ours,
            "99 of 100 named, thread of 99, 90 durations, 100 sums; 0 not seen, 2 likely and not \
             known, 3 not a stop of both CPUs"
        );
        assert_ne!(
            standing(Kind {
                injected: 0,
                ..kind
            }),
            Standing::Met
        );
    }
}
