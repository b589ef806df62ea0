//! What root skips on Debian 12 is listed, and the list grows only on purpose: a test that skips by mistake
//! tests nothing, and passes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::root;
use crate::tally::{Skipped, Tally};

/// Suite and test.
type Known = BTreeSet<(String, String)>;

fn file() -> PathBuf {
    root().join("docs/results/skips.txt")
}

fn known() -> Known {
    read(&std::fs::read_to_string(file()).unwrap_or_default())
}

fn read(text: &str) -> Known {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (suite, rest) = line.split_once(' ')?;
            let test = rest.split_once(": ").map_or(rest, |(test, _)| test);
            Some((suite.to_owned(), test.to_owned()))
        })
        .collect()
}

/// Whether the list is that of this machine and user.
pub fn is_here() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let mut lines = release.lines();
    let debian = lines.any(|line| line == "VERSION_CODENAME=bookworm");
    debian && crate::suite::is_root()
}

/// Fails for each test that was skipped and isn't in the list.
pub fn compare(tally: &mut Tally) {
    let faults: Vec<String> = grown(&tally.skipped, &known()).collect();
    for fault in faults {
        tally.fail(fault);
    }
}

fn grown<'a>(
    skipped: &'a BTreeSet<Skipped>,
    known: &'a Known,
) -> impl Iterator<Item = String> + 'a {
    let new = skipped
        .iter()
        .filter(|it| !known.contains(&(it.suite.clone(), it.test.clone())));
    new.map(|it| {
        format!(
            "{}: {} is skipped ({}), and docs/results/skips.txt does not list it: PUNCTUAL_BLESS=1 adds it",
            it.suite, it.test, it.reason
        )
    })
}

/// Writes the list: of what did not run now, `ran` tells that, nothing changes.
///
/// # Errors
/// The file can't be written.
pub fn bless(tally: &Tally) -> std::io::Result<()> {
    let before = std::fs::read_to_string(file()).unwrap_or_default();
    std::fs::write(
        file(),
        merged(&before, &tally.skipped, &|suite, test| {
            tally.ran(suite, test)
        }),
    )
}

fn merged(before: &str, skipped: &BTreeSet<Skipped>, ran: &dyn Fn(&str, &str) -> bool) -> String {
    let kept = before.lines().filter(|line| {
        let known = read(line);
        known.iter().any(|(suite, test)| !ran(suite, test))
    });
    let new = skipped
        .iter()
        .map(|it| format!("{} {}: {}", it.suite, it.test, it.reason));
    let lines: BTreeSet<String> = kept.map(str::to_owned).chain(new).collect();
    let mut text = "# What root skips on Debian 12; written by PUNCTUAL_BLESS=1 make test, or make test-all.\n".to_owned();
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(test: &str, reason: &str) -> Skipped {
        Skipped {
            suite: "punctual/run".to_owned(),
            test: test.to_owned(),
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn only_what_the_list_lacks_is_a_fault() {
        let known = read("# list\npunctual/run rights::a: program x: why: so\npunctual/run b: y\n");
        let all = BTreeSet::from([
            skipped("rights::a", "another reason"),
            skipped("c", "no PMU"),
        ]);
        let faults: Vec<String> = grown(&all, &known).collect();
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].starts_with("punctual/run: c is skipped (no PMU)"),
            "{faults:?}"
        );
    }

    #[test]
    fn a_blessed_list_keeps_what_did_not_run() {
        let before = "# list\npunctual/run a: old\npunctual/run b: y\npunctual/lab d: z\n";
        let all = BTreeSet::from([skipped("a", "new")]);
        let text = merged(before, &all, &|suite, _| suite == "punctual/run");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["punctual/lab d: z", "punctual/run a: new"]);
    }
}
