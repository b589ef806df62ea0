//! How long tests take: the slowest ones beside what they took before, which is committed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::root;
use crate::tally::TestDuration;

/// So many are shown.
const SLOWEST: usize = 20;
/// Shorter ones are not kept, in seconds: their times are those of the machine's other work.
const LEAST: f64 = 1.0;
/// A test that takes so many times as long as before is marked, if it takes [`NOTABLE`] seconds at least.
const MUCH_LONGER: f64 = 2.0;
const NOTABLE: f64 = 5.0;

/// Seconds by program and test.
type Known = BTreeMap<String, f64>;

fn file() -> PathBuf {
    root().join("docs/results/durations.txt")
}

fn name(took: &TestDuration) -> String {
    format!("{} {}", took.suite, took.test)
}

fn known() -> Known {
    read(&std::fs::read_to_string(file()).unwrap_or_default())
}

fn read(text: &str) -> Known {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (seconds, name) = line.trim_start().split_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        })
        .collect()
}

/// The slowest tests, and those that take much longer than before.
pub fn table(durations: &[TestDuration]) -> String {
    compared(durations, &known())
}

fn compared(durations: &[TestDuration], known: &Known) -> String {
    let mut slowest: Vec<&TestDuration> = durations.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let mut table = "the slowest tests, in s, and what they took when docs/results/durations.txt was written:\n".to_owned();
    for (place, took) in slowest.iter().enumerate() {
        let name = name(took);
        let before = known.get(&name);
        let longer = took.seconds >= NOTABLE
            && before.is_some_and(|before| took.seconds > MUCH_LONGER * before);
        if place >= SLOWEST && !longer {
            continue;
        }
        let before = before.map_or("-".to_owned(), |before| format!("{before:.1}"));
        let mark = if longer { "  LONGER" } else { "" };
        let _ = writeln!(table, "{:8.1} {before:>8}  {name}{mark}", took.seconds);
    }
    table
}

/// Writes what tests took now; those that did not run keep what they had.
///
/// # Errors
/// The file can't be written.
pub fn bless(durations: &[TestDuration]) -> std::io::Result<()> {
    std::fs::write(file(), merged(durations, known()))
}

fn merged(durations: &[TestDuration], mut known: Known) -> String {
    for took in durations {
        if took.seconds >= LEAST {
            known.insert(name(took), took.seconds);
        } else {
            known.remove(&name(took));
        }
    }
    let mut text = "# Seconds of each test that takes one or more; written by PUNCTUAL_BLESS=1 make test, or make test-all.\n".to_owned();
    for (name, seconds) in known {
        let _ = writeln!(text, "{seconds:.1} {name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(test: &str, seconds: f64) -> TestDuration {
        TestDuration {
            suite: "punctual/run".to_owned(),
            test: test.to_owned(),
            seconds,
        }
    }

    #[test]
    fn a_test_that_doubled_is_marked() {
        let known =
            read("# seconds\n 4.0 punctual/run a\n12.0 punctual/run b\n0.1 punctual/run c\nodd\n");
        assert_eq!(known.len(), 3);
        let table = compared(
            &[
                took("c", 0.5),
                took("a", 9.0),
                took("b", 13.0),
                took("new", 1.0),
            ],
            &known,
        );
        let lines: Vec<&str> = table.lines().skip(1).map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "13.0     12.0  punctual/run b",
                "9.0      4.0  punctual/run a  LONGER",
                "1.0        -  punctual/run new",
                "0.5      0.1  punctual/run c",
            ]
        );
        let many: Vec<_> = (0..30).map(|n| took(&format!("t{n}"), 1.0)).collect();
        assert_eq!(compared(&many, &known).lines().count(), 1 + SLOWEST);
    }

    #[test]
    fn what_did_not_run_keeps_its_time() {
        let known = read("4.0 punctual/run a\n12.0 punctual/run b\n3.0 punctual/run c\n");
        let text = merged(&[took("a", 5.04), took("c", 0.2)], known);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["5.0 punctual/run a", "12.0 punctual/run b"]);
    }
}
