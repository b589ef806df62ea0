//! Counts what cargo's tests say, and finds those that said SKIPPED.

use std::collections::BTreeSet;
use std::time::Instant;

/// A test that did not try everything that it is there for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// File or crate of the test.
    pub suite: String,
    /// Its name.
    pub test: String,
    /// Its own words.
    pub reason: String,
}

/// How long a test took.
#[derive(Debug, Clone, PartialEq)]
pub struct TestDuration {
    pub suite: String,
    pub test: String,
    pub seconds: f64,
}

/// What was counted so far.
#[derive(Debug, Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    /// Those that were skipped, with their reasons: a test may have several.
    pub skipped: BTreeSet<Skipped>,
    /// What failed: tests, and programs of tests that died.
    pub failures: Vec<String>,
    /// Those among the failures that passed when they ran again by themselves: failures all the same.
    pub flaky: BTreeSet<String>,
    /// How long each test took that says so.
    pub durations: Vec<TestDuration>,
    /// What each part took: its name and seconds.
    pub parts: Vec<(String, f64)>,
    /// Programs of tests that ended, and single tests of them with their results.
    ran: BTreeSet<(String, String)>,
    suite: String,
    /// Tests that failed, with their suites.
    failed_tests: Vec<(String, String)>,
    unfinished: bool,
    section: Section,
    current: String,
}

/// The part of a test program's output that a line lies in.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Section {
    #[default]
    Plain,
    /// What the tests that passed have printed.
    Successes,
}

impl Tally {
    /// Takes the next line; true where a person wants to see it.
    pub fn line(&mut self, line: &str) -> bool {
        if let Some(suite) = suite_name(line) {
            self.end_suite();
            suite.clone_into(&mut self.suite);
            self.unfinished = true;
            return true;
        }
        if line == "successes:" {
            self.section = Section::Successes;
            return false;
        }
        if line == "failures:" {
            self.section = Section::Plain;
            return true;
        }
        let result = line.strip_prefix("test result: ").filter(|counts| {
            // Tests may print what begins like it.
            counts.starts_with("ok. ") || counts.starts_with("FAILED. ")
        });
        if let Some(counts) = result {
            self.section = Section::Plain;
            self.unfinished = false;
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            return true;
        }
        if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            name.clone_into(&mut self.current);
            return self.section == Section::Plain;
        }
        if self.section == Section::Successes {
            let Some(reason) = line.trim_start().strip_prefix("SKIPPED: ") else {
                return false;
            };
            let test = self.current.clone();
            self.skip(&test, reason);
            return false;
        }
        if let Some(test) = line.strip_prefix("test ") {
            let (test, seconds) = without_time(test);
            if let (Some(seconds), Some((name, _))) = (seconds, test.rsplit_once(" ... ")) {
                self.durations.push(TestDuration {
                    suite: self.suite.clone(),
                    test: name.to_owned(),
                    seconds,
                });
            }
            if let Some((name, _)) = test.rsplit_once(" ... ") {
                self.ran.insert((self.suite.clone(), name.to_owned()));
            }
            if let Some((name, "FAILED")) = test.rsplit_once(" ... ") {
                self.failures.push(format!("{}: {name}", self.suite));
                let failed = (self.suite.clone(), name.to_owned());
                self.failed_tests.push(failed);
            } else if let Some((name, rest)) = test.split_once(" ... ignored") {
                let reason = rest.trim_start_matches([',', ' ']);
                // A part of another test, that runs it as a process of its own.
                const PARTS: [&str; 4] = ["run by ", "the child of ", "a helper of ", "a part of "];
                if PARTS.iter().any(|part| reason.starts_with(part)) {
                    return true;
                }
                let reason = if reason.is_empty() { "ignored" } else { reason };
                // It isn't among those that passed.
                self.passed += 1;
                self.skip(name, reason);
            }
        }
        true
    }

    fn skip(&mut self, test: &str, reason: &str) {
        self.skipped.insert(Skipped {
            suite: self.suite.clone(),
            test: test.to_owned(),
            reason: reason.to_owned(),
        });
    }

    /// A program that ends without its result has died.
    fn end_suite(&mut self) {
        if std::mem::take(&mut self.unfinished) {
            self.fail(format!("{}: ended before its tests did", self.suite));
        }
        self.section = Section::Plain;
    }

    /// Whether a test ran, or was skipped.
    pub fn ran(&self, suite: &str, test: &str) -> bool {
        self.ran.contains(&(suite.to_owned(), test.to_owned()))
            || self
                .skipped
                .iter()
                .any(|it| it.suite == suite && it.test == test)
    }

    /// The tests of a suite that failed.
    pub fn failed_in(&self, suite: &str) -> Vec<String> {
        let failed = self.failed_tests.iter();
        let here = failed.filter(|(of, _)| of == suite);
        here.map(|(_, test)| test.clone()).collect()
    }

    /// A part of the work has ended.
    pub fn took(&mut self, part: &str, begin: Instant) {
        self.parts
            .push((part.to_owned(), begin.elapsed().as_secs_f64()));
    }

    /// It passed when it ran again by itself: which tells where to look, and changes no result.
    pub fn passed_again(&mut self, failure: &str) {
        if self.failures.iter().any(|it| it == failure) {
            self.flaky.insert(failure.to_owned());
        }
    }

    /// Something failed that is no single test.
    pub fn fail(&mut self, what: String) {
        self.failed += 1;
        self.failures.push(what);
    }

    /// A whole check could not be made.
    pub fn skip_check(&mut self, check: &str, reason: &str) {
        self.passed += 1;
        "check".clone_into(&mut self.suite);
        self.skip(check, reason);
    }

    /// The end of the output.
    pub fn end(&mut self) {
        self.end_suite();
    }

    /// How many tests failed.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// How many tests were skipped, at least in part.
    pub fn skips(&self) -> usize {
        let tests: BTreeSet<_> = self.skipped.iter().map(|s| (&s.suite, &s.test)).collect();
        tests.len()
    }

    /// "412 passed, 0 failed, 3 skipped": each test is in one of the three.
    pub fn summary(&self) -> String {
        let skipped = self.skips();
        format!(
            "{} passed, {} failed, {skipped} skipped",
            self.passed.saturating_sub(skipped),
            self.failed
        )
    }
}

/// Without the time that libtest's `--report-time` adds: `one ... ok <1.204s>`.
fn without_time(test: &str) -> (&str, Option<f64>) {
    let timed = test.strip_suffix("s>").and_then(|rest| {
        let (test, seconds) = rest.rsplit_once(" <")?;
        Some((test, seconds.parse().ok()?))
    });
    timed.map_or((test, None), |(test, seconds)| (test, Some(seconds)))
}

/// The file or crate in cargo's line on the program that it runs next.
fn suite_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("Running ") {
        let (name, program) = rest.rsplit_once(" (")?;
        // `unittests src/lib.rs` is told by the program's name.
        return Some(if name.starts_with("unittests") {
            program_name(program)
        } else {
            name
        });
    }
    line.strip_prefix("Doc-tests ")
}

/// `punctual` of `target/debug/deps/punctual-0123456789abcdef)`.
fn program_name(program: &str) -> &str {
    let file = program.trim_end_matches(')').rsplit('/').next();
    let file = file.unwrap_or(program);
    file.rsplit_once('-').map_or(file, |(name, _)| name)
}

/// `5` of `ok. 5 passed; 0 failed` for `passed`.
fn count(counts: &str, what: &str) -> usize {
    counts
        .split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(what))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
   Compiling punctual v0.1.0
     Running unittests src/lib.rs (target/debug/deps/punctual_stats-0123456789abcdef)

running 3 tests
test one::fits ... ok <0.250s>
test two ... ok
test slow ... ignored, takes an hour
test part ... ignored, run by another test, in a process of its own

successes:

---- one::fits stdout ----
a word of its own
test result: of its own
---- two stdout ----
SKIPPED: not root
SKIPPED: no cpuset either

successes:
    one::fits
    two

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/dies.rs (target/debug/deps/dies-0123456789abcdef)

running 1 test
error: test failed, to rerun pass `-p punctual --test dies`
   Doc-tests punctual_stats

running 2 tests
test crates/stats/src/lib.rs - quantile (line 12) ... ok
test crates/stats/src/lib.rs - tail (line 40) ... FAILED <61.500s>

failures:

---- crates/stats/src/lib.rs - tail (line 40) stdout ----
SKIPPED: is only quoted in a failure

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s
";

    fn tally(output: &str) -> (Tally, Vec<&str>) {
        let mut tally = Tally::default();
        let shown = output.lines().filter(|line| tally.line(line)).collect();
        tally.end();
        (tally, shown)
    }

    #[test]
    fn every_test_is_counted_once() {
        let (tally, _) = tally(OUTPUT);
        assert_eq!(tally.summary(), "2 passed, 2 failed, 2 skipped");
        assert_eq!(
            tally.failures,
            [
                "tests/dies.rs: ended before its tests did",
                "punctual_stats: crates/stats/src/lib.rs - tail (line 40)",
            ]
        );
        let skipped: Vec<_> = tally
            .skipped
            .iter()
            .map(|s| format!("{} {} {}", s.suite, s.test, s.reason))
            .collect();
        assert_eq!(
            skipped,
            [
                "punctual_stats slow takes an hour",
                "punctual_stats two no cpuset either",
                "punctual_stats two not root",
            ]
        );
    }

    #[test]
    fn durations_are_those_that_libtest_reports() {
        let (tally, _) = tally(OUTPUT);
        let took = |suite: &str, test: &str, seconds| TestDuration {
            suite: suite.to_owned(),
            test: test.to_owned(),
            seconds,
        };
        let tail = "crates/stats/src/lib.rs - tail (line 40)";
        assert_eq!(
            tally.durations,
            [
                took("punctual_stats", "one::fits", 0.25),
                took("punctual_stats", tail, 61.5)
            ]
        );
        assert_eq!(without_time("odd <words>"), ("odd <words>", None));
    }

    #[test]
    fn what_passes_when_it_runs_again_stays_a_failure() {
        let (mut tally, _) = tally(
            "     Running punctual/one (target/debug/deps/one-0123)\n\
             test a ... ok\n\
             test b ... FAILED\n\
             test c ... FAILED <0.100s>\n\
             test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n\
             \x20    Running punctual/two (target/debug/deps/two-0123)\n\
             test d ... ok\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n",
        );
        assert_eq!(tally.failed_in("punctual/one"), ["b", "c"]);
        assert!(tally.failed_in("punctual/two").is_empty());
        assert!(tally.ran("punctual/two", "d") && !tally.ran("punctual/two", "a"));
        tally.passed_again("punctual/one: c");
        tally.passed_again("punctual/one: no such test");
        assert_eq!(tally.failures, ["punctual/one: b", "punctual/one: c"]);
        assert_eq!(tally.flaky, BTreeSet::from(["punctual/one: c".to_owned()]));
        assert_eq!(tally.summary(), "2 passed, 2 failed, 0 skipped");
    }

    #[test]
    fn what_passing_tests_print_is_kept_back() {
        let (_, shown) = tally(OUTPUT);
        assert!(!shown.contains(&"a word of its own"));
        assert!(shown.contains(&"SKIPPED: is only quoted in a failure"));
        assert!(shown.contains(&"test two ... ok"));
    }

    #[test]
    fn a_program_of_no_tests_is_no_failure() {
        let (tally, _) = tally(
            "     Running unittests src/main.rs (target/debug/deps/punctual-0123)\n\
             running 0 tests\n\
             test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(tally.summary(), "0 passed, 0 failed, 0 skipped");
    }
}
