//! docs/results/test-all.md: what the last whole `make test-all` found, red or green.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::tally::Tally;
use crate::{root, suite};

const PAGE: &str = "docs/results/test-all.md";

/// What was tested.
pub struct Commit {
    name: String,
    date: String,
    /// Whether files differ from it.
    changed: bool,
}

impl Commit {
    pub fn now() -> Self {
        let git = |arguments: &[&str]| {
            let mut command = std::process::Command::new("git");
            let said = suite::stdout(command.current_dir(root()).args(arguments));
            said.unwrap_or_default().trim().to_owned()
        };
        let mut date = std::process::Command::new("date");
        let date = suite::stdout(date.args(["-u", "+%Y-%m-%d"])).unwrap_or_default();
        Self {
            name: git(&["rev-parse", "--short=12", "HEAD"]),
            date: date.trim().to_owned(),
            changed: !git(&["status", "--porcelain"]).is_empty(),
        }
    }
}

/// # Errors
/// The page can't be written.
pub fn write(commit: &Commit, tally: &Tally, took: Duration) -> std::io::Result<()> {
    std::fs::write(root().join(PAGE), page(commit, &machine(), tally, took))
}

/// Processors, memory, kernel and distribution.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let of = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        let value = line.and_then(|line| line.split([':', '=']).nth(1));
        value.unwrap_or("?").trim().trim_matches('"').to_owned()
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = of(&read("/proc/meminfo"), "MemTotal");
    let memory: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    format!(
        "{cpus} CPUs ({}), {} GiB, Linux {}, {}",
        of(&read("/proc/cpuinfo"), "model name"),
        memory >> 20,
        read("/proc/sys/kernel/osrelease").trim(),
        of(&read("/etc/os-release"), "PRETTY_NAME"),
    )
}

fn page(commit: &Commit, machine: &str, tally: &Tally, took: Duration) -> String {
    let mut page = String::new();
    let changed = if commit.changed { ", with changes" } else { "" };
    let seconds = took.as_secs();
    let _ = write!(
        page,
        "# The last whole `make test-all`\n\n\
         Written by the command itself. The gate's own tests (`make test`) are not among these.\n\n\
         | | |\n|---|---|\n\
         | commit | {}{changed} |\n\
         | date | {} |\n\
         | machine | {machine} |\n\
         | took | {seconds} s |\n\
         | result | {} |\n\n",
        commit.name,
        commit.date,
        tally.summary(),
    );
    page += "## Failures\n\n";
    if tally.failures.is_empty() {
        page += "None.\n";
    }
    for failure in &tally.failures {
        let flaky = tally.flaky.contains(failure);
        let note = if flaky {
            ", passed when it ran again by itself"
        } else {
            ""
        };
        let _ = writeln!(page, "- `{failure}`{note}");
    }
    page += "\n## Seconds\n\n| part | s |\n|---|---|\n";
    for (part, seconds) in &tally.parts {
        let _ = writeln!(page, "| {part} | {seconds:.0} |");
    }
    let mut suites: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for took in &tally.durations {
        let suite = suites.entry(&took.suite).or_default();
        *suite = (suite.0 + 1, suite.1 + took.seconds);
    }
    page += "\n## Tests\n\n| program | tests | s, added up |\n|---|---|---|\n";
    for (suite, (tests, seconds)) in suites {
        let _ = writeln!(page, "| {suite} | {tests} | {seconds:.0} |");
    }
    page += "\n## Skipped\n\n";
    if tally.skipped.is_empty() {
        page += "None.\n";
    }
    for skipped in &tally.skipped {
        let _ = writeln!(
            page,
            "- `{} {}`: {}",
            skipped.suite, skipped.test, skipped.reason
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_each_failure_and_each_skipped_test() {
        let mut tally = Tally::default();
        let output = "     Running punctual/lab (target/lab-01)\n\
             test one ... ok <2.500s>\n\
             test two ... FAILED <1.250s>\n\
             successes:\n\
             ---- one stdout ----\n\
             SKIPPED: kernel: no arm64\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured";
        for line in output.lines() {
            tally.line(line);
        }
        tally.end();
        tally.passed_again("punctual/lab: two");
        let commit = Commit {
            name: "0123456789ab".to_owned(),
            date: "2026-11-28".to_owned(),
            changed: true,
        };
        let page = page(&commit, "2 CPUs", &tally, Duration::from_secs(61));
        for line in [
            "| commit | 0123456789ab, with changes |",
            "| took | 61 s |",
            "| result | 0 passed, 1 failed, 1 skipped |",
            "- `punctual/lab: two`, passed when it ran again by itself",
            "| punctual/lab | 2 | 4 |",
            "- `punctual/lab one`: kernel: no arm64",
        ] {
            assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        }
    }
}
